//! Tables and sentences as text of a given width, for a terminal or a mail.

use fsdyno_record::Trial;
use unicode_width::UnicodeWidthStr;

use crate::against::Basis;
use crate::columns::{self, Column, columns, flags};
use crate::curve::{self, Curve};
use crate::table::Style;
use crate::view::{self, LabRows, Section};
use crate::wrap::wrap;
use crate::{
    answer, calls, described, disks, instrument, legend, number, repeatability, subject, work_units,
};

/// The mark of truncated text: a mail is ASCII, and `~` has a meaning of its own.
const CUT: &str = "…";
const CUT_ASCII: &str = "..";

/// The tables of all sections, with the subject before and the answer after them. In plain ASCII for a
/// mail.
pub fn text(trials: &[Trial], basis: Basis<'_>, style: Style, ascii: bool) -> String {
    let text = Writer { style, ascii, out: String::new() }.write(trials, basis);
    if ascii { plain(&text) } else { text }
}

struct Writer {
    style: Style,
    ascii: bool,
    out: String,
}

impl Writer {
    fn write(mut self, trials: &[Trial], basis: Basis<'_>) -> String {
        let sections = view::sections(trials, basis);
        for sentence in repeatability::differences(trials) {
            self.paragraph(&sentence, "  ");
            self.line("");
        }
        let subject = subject::lines(trials);
        for line in &subject {
            self.paragraph(line, "  ");
        }
        if !subject.is_empty() {
            self.line("");
        }
        // Columns of all sections have equal widths, so that they line up.
        let mut tables: Vec<Vec<Column>> = sections.iter().map(columns).collect();
        if self.ascii {
            // Before their widths are computed, because `±` is one column and its spelling two.
            tables.iter_mut().flatten().for_each(respell);
        }
        let (mut used, mut dropped) = (Vec::new(), Vec::new());
        let mut at = 0;
        // Columns of a workload's sections have equal widths, so that they line up; columns that only another
        // workload has do not count.
        while at < sections.len() {
            let of = |section: &Section<'_>| section.workload == sections[at].workload;
            let end = at + sections[at..].iter().take_while(|section| of(section)).count();
            let (shown, widths) = self.layout(&tables[at..end]);
            for (section, columns) in sections[at..end].iter().zip(&tables[at..end]) {
                self.section(section, columns, &shown, &widths);
                for column in columns {
                    let of = if shown.contains(&column.drop) { &mut used } else { &mut dropped };
                    of.push(column.head.clone());
                }
            }
            at = end;
        }
        let curves = curve::curves(trials);
        curves.iter().for_each(|curve| self.curve(curve));
        if sections.is_empty() && !curves.is_empty() {
            // The curves have all rows.
        } else if sections.is_empty() {
            self.line("No trial succeeded.");
            self.line("");
        } else {
            self.paragraph(&answer::sentences(&sections, basis.baseline).join(" "), "");
            self.line("");
        }
        self.legend(&sections, &used, &dropped);
        self.explain(&sections, &curves);
        self.unfinished(trials);
        self.labs(trials);
        let end = self.out.trim_end().len();
        self.out.truncate(end);
        self.out.push('\n');
        self.out
    }

    /// The columns that fit, and their widths.
    fn layout(&self, tables: &[Vec<Column>]) -> (Vec<u8>, Vec<usize>) {
        // Long names wrap before a column is omitted.
        let (whole, broken) = (self.fit(tables, usize::MAX), columns::longest_part(tables));
        let shown = self.fit(tables, broken);
        let (shown, most) = match shown.len() > whole.len() {
            true => (shown, broken),
            false => (whole, usize::MAX),
        };
        let mut widths = columns::widths(tables, &shown, most);
        self.squeeze(&mut widths);
        (shown, widths)
    }

    /// The heads that fit next to names of at most this width, dropped alike from all sections. A head
    /// names the same column in every section except for the rate's, so columns are identified by the order in
    /// which they drop.
    fn fit(&self, tables: &[Vec<Column>], names: usize) -> Vec<u8> {
        let mut drops: Vec<u8> = tables.iter().flatten().map(|column| column.drop).collect();
        drops.sort_unstable();
        drops.dedup();
        while drops.len() > 1 {
            let total: usize =
                columns::widths(tables, &drops, names).iter().map(|width| width + 2).sum();
            if total <= self.style.width + 2 {
                break;
            }
            drops.pop();
        }
        drops
    }

    /// Truncates names if even the last columns are too wide; digits are never truncated.
    fn squeeze(&self, widths: &mut [usize]) {
        let used = widths.iter().filter(|width| **width > 0);
        let total: usize = used.map(|width| width + 2).sum::<usize>().saturating_sub(2);
        if let Some(names) = widths.first_mut() {
            *names = names.saturating_sub(total.saturating_sub(self.style.width)).max(8);
        }
    }

    fn section(
        &mut self,
        section: &Section<'_>,
        columns: &[Column],
        shown: &[u8],
        widths: &[usize],
    ) {
        let mut title = section.title();
        let columns: Vec<&Column> = columns.iter().filter(|c| shown.contains(&c.drop)).collect();
        title.push_str(&columns::latency_note(section, &columns));
        let title = self.paint("1", &title);
        self.line(&title);
        let slots = columns::slots(&columns, shown);
        let mark = if self.ascii { CUT_ASCII } else { CUT };
        let heads = columns.iter().map(|c| (c.head.as_str(), c.left));
        let head = columns::join(heads, &slots, widths, mark);
        let head = self.paint("2", &head);
        self.line(&head);
        for (index, row) in section.rows.iter().enumerate() {
            let mut name = columns::broken(&columns[0].cells[index], widths[0]).into_iter();
            let first = name.next().unwrap_or_default();
            let cells = columns.iter().skip(1).map(|c| (c.cells[index].as_str(), c.left));
            let cells = std::iter::once((first.as_str(), true)).chain(cells);
            let text = columns::join(cells, &slots, widths, mark);
            let flags = flags(row);
            let fits = text.width() + 2 + flags.width() <= self.style.width;
            let text = if row.best { self.paint("32", &text) } else { text };
            let painted = self.paint("33", &flags);
            match fits && !flags.is_empty() {
                true => self.line(&format!("{text}  {painted}")),
                false => self.line(&text),
            }
            name.for_each(|part| self.line(&columns::truncate(&part, widths[0], mark)));
            if !fits && !flags.is_empty() {
                self.line(&format!("    {painted}"));
            }
        }
        let counts = work_units::lines(section).into_iter().chain(calls::lines(section));
        for line in counts.chain(disks::lines(section)).chain(described::lines(section)) {
            self.paragraph(&format!("  {line}"), "    ");
        }
        self.line("");
    }

    /// A curve: its table, wrapped if it is too wide, and its sentences.
    fn curve(&mut self, curve: &Curve<'_>) {
        let title = format!("{} (time until the last call returned)", curve.title);
        let title = self.paint("1", &title);
        self.line(&title);
        let (heads, rows) = curve::table(curve);
        let all: Vec<Vec<String>> = std::iter::once(&heads)
            .chain(&rows)
            .map(|row| row.iter().map(|cell| self.encode(cell)).collect())
            .collect();
        let width = |column: usize| all.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let mut from = 1;
        while from < heads.len() {
            let mut to = from + 1;
            let mut used = width(0) + 2 + width(from);
            while to < heads.len() && used + 2 + width(to) <= self.style.width {
                used += 2 + width(to);
                to += 1;
            }
            for row in &all {
                let cell = |column: usize| {
                    let pad = " ".repeat(width(column) - row[column].width());
                    format!("{pad}{}", row[column])
                };
                let cells: Vec<String> = std::iter::once(0).chain(from..to).map(cell).collect();
                self.line(&cells.join("  "));
            }
            self.line("");
            from = to;
        }
        for sentence in curve::sentences(curve) {
            self.paragraph(&sentence, "  ");
        }
        self.line("");
    }

    fn encode(&self, text: &str) -> String {
        if self.ascii { plain(text) } else { text.to_string() }
    }

    /// The meaning of the displayed columns, a line for each.
    fn legend(&mut self, sections: &[Section<'_>], used: &[String], dropped: &[String]) {
        let heads: Vec<&str> =
            used.iter().map(|head| if head == "+-" { "±" } else { head.as_str() }).collect();
        for (name, meaning) in legend::legend(sections, &heads) {
            self.paragraph(&format!("{name}: {meaning}"), "  ");
        }
        if let Some(sentence) = left_out(dropped).filter(|_| !self.ascii) {
            self.paragraph(&sentence, "  ");
        }
        if let Some(sentence) = instrument::sentence(sections) {
            self.paragraph(&sentence, "  ");
        }
        if !sections.is_empty() {
            self.line("");
        }
    }

    fn explain(&mut self, sections: &[Section<'_>], curves: &[Curve<'_>]) {
        let flags = view::flags(sections, curves);
        for flag in &flags {
            self.paragraph(&format!("{flag}: {}", flag.meaning()), "  ");
        }
        if !flags.is_empty() {
            self.line("");
        }
    }

    fn unfinished(&mut self, trials: &[Trial]) {
        let unfinished = crate::unfinished::unfinished(trials);
        for trial in &unfinished {
            let outcome = self.paint("31", trial.outcome);
            self.paragraph(&format!("{outcome}: {}", trial.what), "    ");
            for line in trial.reason.lines() {
                self.paragraph(&format!("    {}", number::clean(line)), "    ");
            }
        }
        if !unfinished.is_empty() {
            self.line("");
        }
    }

    /// The file systems that ran in each lab: enough of its identity to distinguish it; the records and the
    /// page have all of it.
    fn labs(&mut self, trials: &[Trial]) {
        let labs: Vec<(String, LabRows<'_>)> = view::labs(trials)
            .into_iter()
            .map(|lab| (number::clean(&lab.rows.join(", ")), lab))
            .collect();
        let space = self.style.width.saturating_sub("lab    123456789012".len()).max(8);
        let width = labs.iter().map(|(labels, _)| labels.width()).max().unwrap_or(0).min(space);
        for (labels, lab) in labs {
            let labels =
                columns::truncate(&labels, width, if self.ascii { CUT_ASCII } else { CUT });
            let pad = " ".repeat(width.saturating_sub(labels.width()));
            self.line(&format!("lab  {labels}{pad}  {:.12}", number::clean(lab.id)));
            if !lab.differs.is_empty() {
                let differs = number::clean(&lab.differs.join(", "));
                self.paragraph(&format!("another lab than above: {differs}"), "     ");
            }
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: &str, indent: &str) {
        let text = if self.ascii { plain(text) } else { text.to_string() };
        wrap(&text, indent, self.style.width).iter().for_each(|line| self.line(line));
    }
}

/// The columns that did not fit, in a sentence.
fn left_out(dropped: &[String]) -> Option<String> {
    let mut heads: Vec<&str> = Vec::new();
    for head in dropped {
        let head = if head == "±" { "their spread (±)" } else { head.as_str() };
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    let heads = heads.join(", ");
    (!heads.is_empty()).then(|| format!("columns omitted to fit the width: {heads}"))
}

/// A column in plain ASCII.
fn respell(column: &mut Column) {
    column.head = plain(&column.head);
    column.cells.iter_mut().for_each(|cell| *cell = plain(cell));
}

/// Plain ASCII for a mail; a character without an ASCII spelling becomes a question mark.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '±' => out.push_str("+-"),
            '…' => out.push_str(CUT_ASCII),
            _ if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}
