//! How much the page may hold, so that it opens at once whatever the number of trials.
//!
//! Parts of the page share what there is for figures evenly; what one does not need is left to the
//! next. What finds no room is counted and told: nothing is left out in silence.

use super::table::Table;

/// Bytes for the figures of all parts together.
const FIGURES: usize = 960_000;

/// Bytes for the conditions, and for what lay between the phases.
pub const CONDITIONS: usize = 220_000;
/// See [`CONDITIONS`].
pub const GAPS: usize = 40_000;

/// Lines of a list, such as that of trials that failed.
pub const LINES: usize = 200;

/// Letters of a text that was not written for the page: a message, a command, a sentence.
const LETTERS: usize = 1600;

/// Lines of a list that stands among other things.
const FEW: usize = 24;

/// More parts than this are no page.
const PARTS: usize = 300;

/// What is left.
pub struct Room {
    /// For all parts to come, the current one too.
    all: usize,
    /// For the current one.
    own: usize,
    /// Parts to come, the current one not among them.
    parts: usize,
    charts_left_out: usize,
    parts_left_out: usize,
}

impl Room {
    /// A fresh page of so many parts; before the first [`Room::next_part`] is the overview.
    pub fn of(parts: usize) -> Room {
        let (parts, more) = (parts.min(PARTS), parts.saturating_sub(PARTS));
        Room { all: FIGURES, own: FIGURES / 6, parts, charts_left_out: 0, parts_left_out: more }
    }

    /// Begins the next part; false where the page has no more of them.
    pub fn next_part(&mut self) -> bool {
        if self.parts == 0 {
            return false;
        }
        self.own = self.all / self.parts;
        self.parts -= 1;
        true
    }

    /// Takes so many bytes, if they are there.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.own;
        if fits {
            self.own -= bytes;
            self.all = self.all.saturating_sub(bytes);
        }
        fits
    }

    /// Takes what a table needs; rows for which there is no room are left out of it.
    pub fn fit(&mut self, table: Table) -> Table {
        let table = table.fit(self.own);
        self.take(table.size().min(self.own));
        table
    }

    /// Bytes that the current part has left.
    pub fn left(&self) -> usize {
        self.own
    }

    /// A chart found no room.
    pub fn leave_out_a_chart(&mut self) {
        self.charts_left_out += 1;
    }

    /// What the page lacks, in a sentence; none where it has everything.
    pub fn left_out(&self) -> Option<String> {
        let what = match (self.parts_left_out, self.charts_left_out) {
            (0, 0) => return None,
            (0, charts) => format!("{charts} charts"),
            (parts, 0) => format!("{parts} phases"),
            (parts, charts) => format!("{parts} phases and {charts} charts"),
        };
        Some(format!(
            "To open at once, this page leaves out {what}. fsdyno report RESULT --charts DIR draws every chart, \
             and --format csv has every number."
        ))
    }
}

/// A list of sentences, the first of them where there are too many, none too long.
pub fn lines(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(FEW);
    all.truncate(FEW);
    all.iter_mut().for_each(|line| *line = text(std::mem::take(line)));
    if more > 0 {
        all.push(format!("… and {more} more."));
    }
    all
}

/// A text, cut off where it is too long.
pub fn text(all: String) -> String {
    match all.char_indices().nth(LETTERS) {
        None => all,
        Some((at, _)) => format!("{} … ({} more letters)", &all[..at], all[at..].chars().count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_evenly_and_what_one_leaves_is_the_next_ones() {
        let mut room = Room::of(4);
        assert!(room.next_part());
        assert_eq!(room.left(), FIGURES / 4);
        assert!(!room.take(FIGURES / 3));
        assert!(room.next_part() && room.left() == FIGURES / 3);
        assert!(room.next_part() && room.next_part() && room.take(FIGURES));
        assert!(!room.next_part() && room.left_out().is_none());
        room.leave_out_a_chart();
        assert!(room.left_out().unwrap().contains("leaves out 1 charts"));
        assert!(Room::of(310).left_out().unwrap().contains("leaves out 10 phases"));
    }

    #[test]
    fn long_lists_and_texts_say_what_they_lack() {
        let all = lines(vec!["x".into(); 30]);
        assert_eq!((all.len(), all[FEW].as_str()), (25, "… and 6 more."));
        assert!(text("é".repeat(1700)).ends_with("(100 more letters)"));
        assert_eq!(text("é".into()), "é");
    }
}
