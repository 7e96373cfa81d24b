//! The size budget of the page, which keeps it fast to open for any number of trials.
//!
//! The sections of the page share the bytes for figures evenly; bytes that a section does not use pass to the next
//! section.
//! Everything that does not fit is counted and reported.

use crate::number;
use crate::table::Table;

/// Bytes for the figures of all parts together.
const FIGURES: usize = 960_000;

/// Bytes for the conditions.
pub const CONDITIONS: usize = 220_000;
/// Bytes for the gaps between the phases.
pub const GAPS: usize = 40_000;

/// The maximum number of lines of a list, such as that of failed trials.
pub const LINES: usize = 200;

/// The maximum number of characters of a text that was not written for the page: a message, a command, a sentence.
const MAX_CHARS: usize = 1600;

/// The maximum number of lines of a list within a section.
const MAX_SECTION_LINES: usize = 24;

/// The maximum number of sections.
const MAX_PARTS: usize = 300;

/// The remaining budget.
pub struct Budget {
    /// Bytes for all remaining sections, including the current one.
    total_bytes: usize,
    /// Bytes for the current section.
    section_bytes: usize,
    /// Number of remaining sections, without the current one.
    parts: usize,
    omitted_charts: usize,
    omitted_parts: usize,
}

impl Budget {
    /// The budget of a page of `parts` sections; bytes taken before the first [`Budget::next_part`] are for the
    /// overview.
    pub fn of(parts: usize) -> Budget {
        let (parts, more) = (parts.min(MAX_PARTS), parts.saturating_sub(MAX_PARTS));
        Budget {
            total_bytes: FIGURES,
            section_bytes: FIGURES / 6,
            parts,
            omitted_charts: 0,
            omitted_parts: more,
        }
    }

    /// Begins the next section; returns false if the page cannot have more.
    pub fn next_part(&mut self) -> bool {
        if self.parts == 0 {
            return false;
        }
        self.section_bytes = self.total_bytes / self.parts;
        self.parts -= 1;
        true
    }

    /// Takes this number of bytes if it is available, and returns false otherwise.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.section_bytes;
        if fits {
            self.section_bytes -= bytes;
            self.total_bytes = self.total_bytes.saturating_sub(bytes);
        }
        fits
    }

    /// Takes the bytes of a table; rows that do not fit are omitted.
    pub fn fit(&mut self, table: Table) -> Table {
        let table = table.within(self.section_bytes);
        self.take(table.size().min(self.section_bytes));
        table
    }

    /// Bytes that remain for the current section.
    pub fn remaining(&self) -> usize {
        self.section_bytes
    }

    /// Counts an omitted chart.
    pub fn count_omitted_chart(&mut self) {
        self.omitted_charts += 1;
    }

    /// A sentence on what the page omits, or `None` if it omits nothing.
    pub fn omission_note(&self) -> Option<String> {
        let omitted = match (self.omitted_parts, self.omitted_charts) {
            (0, 0) => return None,
            (0, charts) => number::counted(charts, "chart"),
            (parts, 0) => number::counted(parts, "phase"),
            (parts, charts) => format!(
                "{} and {}",
                number::counted(parts, "phase"),
                number::counted(charts, "chart")
            ),
        };
        Some(format!(
            "To stay small, this page omits {omitted}. fsdyno report RESULT --charts DIR draws every chart, \
             and --format csv has every number."
        ))
    }
}

/// Truncates a list of sentences if there are too many, and each sentence if it is too long.
pub fn lines(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_SECTION_LINES);
    lines.truncate(MAX_SECTION_LINES);
    lines.iter_mut().for_each(|line| *line = text(std::mem::take(line)));
    if more > 0 {
        lines.push(format!("… and {more} more."));
    }
    lines
}

/// Truncates a text if it is too long.
pub fn text(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        None => text,
        Some((cut, _)) => {
            format!("{} … ({} more characters)", &text[..cut], text[cut..].chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_share_evenly_and_unused_bytes_pass_on() {
        let mut budget = Budget::of(4);
        assert!(budget.next_part());
        assert_eq!(budget.remaining(), FIGURES / 4);
        assert!(!budget.take(FIGURES / 3));
        assert!(budget.next_part() && budget.remaining() == FIGURES / 3);
        assert!(budget.next_part() && budget.next_part() && budget.take(FIGURES));
        assert!(!budget.next_part() && budget.omission_note().is_none());
        budget.count_omitted_chart();
        assert!(budget.omission_note().unwrap().contains("omits 1 chart."));
        assert!(Budget::of(310).omission_note().unwrap().contains("omits 10 phases"));
    }

    #[test]
    fn long_lists_and_texts_name_what_is_omitted() {
        let all = lines(vec!["x".into(); 30]);
        assert_eq!((all.len(), all[MAX_SECTION_LINES].as_str()), (25, "… and 6 more."));
        assert!(text("é".repeat(1700)).ends_with("(100 more characters)"));
        assert_eq!(text("é".into()), "é");
    }
}
