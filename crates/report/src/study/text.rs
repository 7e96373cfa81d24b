//! A study's end for a terminal, and for a mail.

use unicode_width::UnicodeWidthStr;

use super::lines::{Grid, claim_facts, counts, grids, notes_of_table, subject};
use super::{Claim, Judged, Variant, Verdict};
use crate::number::clean;
use crate::table::{MAIL_WIDTH, Style};
use crate::text::plain;
use crate::wrap::wrap;

/// For a terminal; the counts of verdicts first.
pub fn text(judged: &Judged, style: Style) -> String {
    Writer { style, ascii: false, out: String::new() }.write(judged)
}

/// For a mailing list: 72 columns of ASCII.
pub fn mail(judged: &Judged) -> String {
    let style = Style { color: false, width: MAIL_WIDTH };
    Writer { style, ascii: true, out: String::new() }.write(judged)
}

/// Before what belongs to a claim.
const INDENT: &str = "      ";

struct Writer {
    style: Style,
    ascii: bool,
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
        for variant in &judged.variants {
            self.line("");
            self.paragraph(&subject(variant), "  ");
            self.claims(variant);
            self.tables(variant);
        }
        self.out
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
        let word = claim.verdict.word();
        let head = format!("  {} {word}: {}", clean(&claim.id), clean(&claim.text));
        let mut lines = wrap(&self.spelled(&head), INDENT, self.style.width);
        // The verdict is a word; its colour only repeats it.
        if let Some(first) = lines.first_mut().filter(|_| self.style.color) {
            let code = match claim.verdict {
                Verdict::Reproduced | Verdict::StillHolds => "32",
                Verdict::NoLongerHolds | Verdict::Reversed => "31",
                Verdict::Undecided => "33",
                Verdict::NotTestable => "2",
            };
            *first = first.replacen(word, &format!("\x1b[{code}m{word}\x1b[0m"), 1);
        }
        lines.iter().for_each(|line| self.line(line));
        let facts: Vec<String> =
            claim_facts(claim).iter().map(|(name, value)| format!("{name} {value}")).collect();
        let told = [
            claim.check.as_deref().map(clean).unwrap_or_default(),
            facts.join(", "),
            clean(&claim.why),
            claim.notes.iter().map(|note| clean(note)).collect::<Vec<_>>().join(" "),
        ];
        for told in told.iter().filter(|told| !told.is_empty()) {
            self.paragraph(&format!("{INDENT}{told}"), INDENT);
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

    /// The grid, in as many blocks of columns as its width needs; each begins with the labels.
    fn grid(&mut self, grid: &Grid) {
        let spell = |line: &Vec<String>| line.iter().map(|c| self.spelled(c)).collect();
        let mut all: Vec<Vec<String>> = vec![spell(&grid.heads)];
        all.extend(grid.rows.iter().flatten().map(spell));
        let width = |at: usize| all.iter().map(|line| line[at].width()).max().unwrap_or(0);
        let labels = 2 + width(0) + 2 + width(1);
        let mut from = 2;
        while from < grid.heads.len() {
            let (mut to, mut used) = (from, labels);
            while to < grid.heads.len() && (to == from || used + 2 + width(to) <= self.style.width)
            {
                used += 2 + width(to);
                to += 1;
            }
            for line in &all {
                let pad = |at: usize| " ".repeat(width(at) - line[at].width());
                let mut out = format!("  {}{}  {}{}", line[0], pad(0), line[1], pad(1));
                for (at, cell) in line.iter().enumerate().take(to).skip(from) {
                    out.push_str(&format!("  {}{cell}", pad(at)));
                }
                self.line(&out);
            }
            from = to;
            if from < grid.heads.len() {
                self.line("");
            }
        }
    }

    fn spelled(&self, text: &str) -> String {
        if self.ascii { plain(text) } else { text.to_string() }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: &str, indent: &str) {
        wrap(&self.spelled(text), indent, self.style.width).iter().for_each(|line| self.line(line));
    }
}
