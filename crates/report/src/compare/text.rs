//! A comparison as text: a table for a terminal or a mail, or Markdown.

use fsdyno_stats::compare::Verdict;
use unicode_width::UnicodeWidthStr;

use super::{Compared, Row, Side, words};
use crate::markdown::escape;
use crate::table::{MAIL_WIDTH, Style};
use crate::text::plain;
use crate::wrap::{SHORTEST, truncate, wrap};

/// For a terminal.
pub fn text(compared: &Compared, style: Style) -> String {
    Writer { style, ascii: false, out: String::new() }.write(compared)
}

/// For a mailing list: 72 columns of ASCII.
pub fn mail(compared: &Compared) -> String {
    let style = Style { color: false, width: MAIL_WIDTH };
    Writer { style, ascii: true, out: String::new() }.write(compared)
}

const HEADS: [&str; 8] = ["phase", "n", "base", "new", "effect %", "95 % interval", "p", "verdict"];

/// The column of the phase's name, which is truncated if a line is too long, and that of p, which is dropped.
const PHASE: usize = 0;
const P: usize = 6;

struct Writer {
    style: Style,
    ascii: bool,
    out: String,
}

impl Writer {
    fn write(mut self, compared: &Compared) -> String {
        let rows: Vec<[String; 8]> = compared.rows.iter().map(cells).collect();
        let (widths, gap) = self.fit(&rows);
        let mut cell = None;
        for (row, cells) in compared.rows.iter().zip(&rows) {
            if cell != Some(&row.cell) {
                if cell.is_some() {
                    self.line("");
                }
                self.paragraph(&row.cell, "    ");
                let heads = HEADS.map(String::from);
                self.row(&heads, &widths, gap, "");
                cell = Some(&row.cell);
            }
            let code = match row.verdict() {
                Verdict::Slower => "31",
                Verdict::Faster => "32",
                _ => "",
            };
            self.row(cells, &widths, gap, code);
            let marks = words::marks(row);
            if !marks.is_empty() {
                self.paragraph(&format!("    {marks}"), "    ");
            }
        }
        if !rows.is_empty() {
            self.line("");
        }
        self.paragraph(&words::summary(compared), "");
        self.line("");
        self.list("Other differences:", compared.differences.iter(), |d| words::difference(d));
        if compared.differences.is_empty() {
            self.paragraph("Nothing else differs: kernel, tools, disk and lab are the same.", "");
            self.line("");
        }
        self.list("Unmatched:", compared.alone.iter(), words::alone);
        self.list("Failed or skipped:", words::unfinished(compared).iter(), String::clone);
        for (name, meaning) in words::legend(compared) {
            self.paragraph(&format!("{name}: {meaning}"), "  ");
        }
        self.out
    }

    fn list<T>(
        &mut self,
        head: &str,
        items: impl ExactSizeIterator<Item = T>,
        say: impl Fn(T) -> String,
    ) {
        if items.len() == 0 {
            return;
        }
        self.paragraph(head, "");
        for item in items {
            self.paragraph(&format!("  {}", say(item)), "    ");
        }
        self.line("");
    }

    /// The width of each column, zero if it is dropped, and the gap between them.
    fn fit(&self, rows: &[[String; 8]]) -> ([usize; 8], usize) {
        let mut widths = HEADS.map(|head| head.width());
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let space = self.style.width;
        let needs = |widths: &[usize; 8], gap| {
            let columns = widths.iter().filter(|width| **width > 0).count();
            widths.iter().sum::<usize>() + gap * (columns - 1)
        };
        for gap in [2, 1] {
            if needs(&widths, gap) <= space {
                return (widths, gap);
            }
        }
        let too_much = needs(&widths, 1) - space;
        let shortest = SHORTEST.min(widths[PHASE]);
        if widths[PHASE] - shortest < too_much {
            widths[P] = 0;
        }
        let too_much = needs(&widths, 1).saturating_sub(space);
        widths[PHASE] = widths[PHASE].saturating_sub(too_much).max(shortest);
        (widths, 1)
    }

    fn row(&mut self, cells: &[String; 8], widths: &[usize; 8], gap: usize, code: &str) {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if *width == 0 {
                continue;
            }
            if at > 0 {
                line.push_str(&" ".repeat(gap));
            }
            let cell = truncate(cell, *width);
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            // The verdict is a word too, and it is the last column.
            let words = at == PHASE || at == cells.len() - 1;
            line.push_str(&if words { format!("{cell}{pad}") } else { format!("{pad}{cell}") });
        }
        let painted = self.style.color && !code.is_empty();
        let line = line.trim_end();
        self.line(&if painted { format!("\x1b[{code}m{line}\x1b[0m") } else { line.into() });
    }

    fn line(&mut self, text: &str) {
        let text = if self.ascii { plain(text) } else { text.to_string() };
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: &str, indent: &str) {
        wrap(text, indent, self.style.width).iter().for_each(|line| self.line(line));
    }
}

fn cells(row: &Row) -> [String; 8] {
    let bare = |text: String| text.replace(" %", "");
    [
        row.phase.clone(),
        words::n(row),
        words::value(row, Side::Base),
        words::value(row, Side::New),
        bare(words::effect(row)),
        bare(words::interval(row)),
        words::p(row),
        words::verdict(row.verdict()).into(),
    ]
}

/// For an issue tracker: one table, the slowest verdicts in bold.
pub fn markdown(compared: &Compared) -> String {
    let mut out = format!("{}\n\n", escape(&words::summary(compared)));
    if !compared.rows.is_empty() {
        out.push_str(
            "| cell | phase | n | base | new | effect | 95 % interval | p | verdict | notes |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n",
        );
    }
    for row in &compared.rows {
        let word = escape(words::verdict(row.verdict()));
        let slower = row.verdict() == Verdict::Slower;
        let verdict = if slower { format!("**{word}**") } else { word };
        let cells = [
            escape(&row.cell),
            escape(&row.phase),
            words::n(row),
            words::value(row, Side::Base),
            words::value(row, Side::New),
            words::effect(row),
            words::interval(row),
            words::p(row).replace('<', "&lt;"),
            verdict,
            escape(&words::marks(row)),
        ];
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let differences = compared.differences.iter().map(words::difference);
    let differences: Vec<String> = differences.map(|line| format!("differs: {line}")).collect();
    let alone = compared.alone.iter().map(words::alone);
    let legend = words::legend(compared);
    let legend = legend.iter().map(|(name, meaning)| format!("{name}: {meaning}"));
    let lists: [Vec<String>; 3] =
        [differences, alone.chain(words::unfinished(compared)).collect(), legend.collect()];
    for list in lists.iter().filter(|list| !list.is_empty()) {
        out.push('\n');
        list.iter().for_each(|line| out.push_str(&format!("- {}\n", escape(line))));
    }
    out
}
