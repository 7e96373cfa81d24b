//! The results of a study for a terminal or a mail.

use unicode_width::UnicodeWidthStr;

use super::lines::{Grid, claim_facts, claim_notes, counts, grids, notes_of_table, subject};
use super::timeline::{CHANGES_MEAN, Timeline, timelines};
use super::{Claim, Judged, Variant, Verdict};
use crate::columns::aligned;
use crate::number::clean;
use crate::table::{MAIL_WIDTH, Style};
use crate::text::plain;
use crate::wrap::wrap;

/// The results for a terminal; the counts of verdicts first.
pub fn text(judged: &Judged, style: Style) -> String {
    Writer { paper: Paper { style, ascii: false }, out: String::new() }.write(judged)
}

/// The results for a mailing list: 72 columns of ASCII.
pub fn mail(judged: &Judged) -> String {
    Writer { paper: MAIL, out: String::new() }.write(judged)
}

/// The output medium: its width, and whether it takes only ASCII.
#[derive(Clone, Copy)]
pub struct Paper {
    /// Width and colour.
    pub style: Style,
    /// True if it takes only ASCII.
    pub ascii: bool,
}

/// The output medium of a mail.
pub const MAIL: Paper = Paper { style: Style { color: false, width: MAIL_WIDTH }, ascii: true };

impl Paper {
    /// The text in lines, indented from the second on.
    pub fn paragraph(&self, text: &str, indent: &str) -> String {
        let lines = wrap(&self.encode(text), indent, self.style.width);
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    fn encode(&self, text: &str) -> String {
        if self.ascii { plain(text) } else { text.to_string() }
    }
}

/// Indentation of the lines of a claim.
const INDENT: &str = "      ";

struct Writer {
    paper: Paper,
    out: String,
}

impl Writer {
    fn write(mut self, judged: &Judged) -> String {
        for line in counts(judged) {
            self.paragraph(&line, "  ");
        }
        self.line("");
        self.paragraph(&clean(&judged.title), "");
        self.paragraph(&clean(&judged.question), "");
        self.paragraph(&clean(&format!("Published: {}", judged.source)), "");
        for timeline in timelines(judged) {
            self.timeline(&timeline);
        }
        for variant in &judged.variants {
            self.line("");
            self.paragraph(&subject(variant), "  ");
            self.claims(variant);
            self.tables(variant);
        }
        self.out
    }

    fn timeline(&mut self, timeline: &Timeline<'_>) {
        self.line("");
        self.paragraph(&timeline.title(), "  ");
        if let Some(claims) = timeline.claims_grid() {
            self.line("");
            self.grid(&claims);
            self.paragraph(&format!("  {CHANGES_MEAN}"), "    ");
        }
        for (title, grid) in timeline.tables() {
            self.line("");
            self.paragraph(&title, "  ");
            self.grid(&grid);
        }
    }

    fn claims(&mut self, variant: &Variant) {
        if !variant.claims.is_empty() {
            self.line("");
        }
        for claim in &variant.claims {
            self.claim(claim);
        }
    }

    fn claim(&mut self, claim: &Claim) {
        let word = claim.verdict_text();
        let head = format!("  {} {word}: {}", clean(&claim.id), clean(&claim.text));
        let style = self.paper.style;
        let mut lines = wrap(&self.paper.encode(&head), INDENT, style.width);
        // The verdict is a word; its colour only repeats it.
        if let Some(first) = lines.first_mut().filter(|_| style.color) {
            let code = match claim.verdict {
                // Another experiment's verdict must not look like the study's.
                _ if !claim.is_full() => "2",
                Verdict::Reproduced | Verdict::StillHolds => "32",
                Verdict::NoLongerHolds | Verdict::Reversed => "31",
                Verdict::Undecided => "33",
                Verdict::NotTestable | Verdict::NotRun => "2",
            };
            *first = first.replacen(&word, &format!("\x1b[{code}m{word}\x1b[0m"), 1);
        }
        lines.iter().for_each(|line| self.line(line));
        let facts: Vec<String> =
            claim_facts(claim).iter().map(|(name, value)| format!("{name} {value}")).collect();
        let texts = [
            claim.check.as_deref().map(clean).unwrap_or_default(),
            facts.join(", "),
            clean(&claim.why),
            claim_notes(claim).join(" "),
        ];
        for text in texts.iter().filter(|text| !text.is_empty()) {
            self.paragraph(&format!("{INDENT}{text}"), INDENT);
        }
    }

    fn tables(&mut self, variant: &Variant) {
        for table in &variant.tables {
            self.line("");
            let head = format!("{}: {} ({})", table.name, table.caption, table.source);
            self.paragraph(&clean(&head), "  ");
            self.grid(&grids(table));
            for note in notes_of_table(table, variant) {
                self.paragraph(&format!("  {note}"), "    ");
            }
        }
    }

    /// Writes the grid in as many blocks of columns as its width needs; each begins with the labels.
    fn grid(&mut self, grid: &Grid) {
        let paper = self.paper;
        let spell = |line: &Vec<String>| line.iter().map(|c| paper.encode(c)).collect();
        let mut all: Vec<Vec<String>> = vec![spell(&grid.heads)];
        all.extend(grid.rows.iter().flatten().map(spell));
        let width = |at: usize| all.iter().map(|line| line[at].width()).max().unwrap_or(0);
        let labels = 2 + width(0) + 2 + width(1);
        let mut from = 2;
        while from < grid.heads.len() {
            let (mut to, mut used) = (from, labels);
            while to < grid.heads.len() && (to == from || used + 2 + width(to) <= paper.style.width)
            {
                used += 2 + width(to);
                to += 1;
            }
            let block = |line: &Vec<String>| -> Vec<String> {
                line[..2].iter().chain(&line[from..to]).cloned().collect()
            };
            let block: Vec<Vec<String>> = all.iter().map(block).collect();
            aligned(&block, 2).iter().for_each(|line| self.line(&format!("  {line}")));
            from = to;
            if from < grid.heads.len() {
                self.line("");
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: &str, indent: &str) {
        self.out.push_str(&self.paper.paragraph(text, indent));
    }
}
