//! Text of a given width, for a terminal, and plain ASCII for an email.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use super::data::{Fit, Head, Kind, Row, Table, Tone};
use super::document::{Block, Document, Lab, Legend, legend};
use super::layout::{Layout, label_column, padded, truncate, wrap_name};
use super::style::Style;
use crate::number::sanitize;
use crate::wrap::wrap;

/// The marks of truncated text, the second for email, which is ASCII; `~` has a different meaning.
const ELLIPSIS: &str = "…";
const ASCII_ELLIPSIS: &str = "..";

/// Indentation of the lines of a record.
const RECORD_INDENT: &str = "      ";

/// The document as text, which is plain ASCII for an email.
pub fn text(document: &Document, style: Style, ascii: bool) -> String {
    // Done before widths are computed, because `±` takes one column and its ASCII spelling two.
    let document = if ascii { to_ascii(document.clone()) } else { document.clone() };
    let mut writer =
        Writer { document: &document, style, ascii, out: String::new(), layouts: BTreeMap::new() };
    document.0.iter().for_each(|block| writer.block(block));
    let end = writer.out.trim_end().len();
    writer.out.truncate(end);
    writer.out.push('\n');
    if ascii { plain(&writer.out) } else { writer.out }
}

struct Writer<'d> {
    document: &'d Document,
    style: Style,
    ascii: bool,
    out: String,
    /// The layouts of tables, by column group.
    layouts: BTreeMap<usize, Layout>,
}

impl Writer<'_> {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Title(text) => self.paint_paragraph(text, "  ", "1"),
            Block::Lead(lead) => lead.iter().for_each(|text| self.paragraph(text, "")),
            Block::Verbatim(lines) => lines.iter().for_each(|line| self.line(line)),
            Block::Strong(text) => self.paragraph(text, "  "),
            Block::Answer(text) | Block::Paragraph(text) | Block::Markup(text) => {
                self.paragraph(text, "")
            }
            Block::Items(items) => items.iter().for_each(|item| self.paragraph(item, "  ")),
            Block::List(_, items) if items.is_empty() => return,
            Block::List(head, items) => {
                if !head.is_empty() {
                    self.paragraph(head, "");
                }
                items.iter().for_each(|item| self.paragraph(&format!("  {item}"), "    "));
            }
            Block::Table(table) if !self.shows(table) => return,
            Block::Table(table) => self.table(table),
            Block::Legend(legend) => return self.legend(legend),
            Block::Failures(all) => {
                for failure in all {
                    let outcome = self.paint("31", failure.outcome);
                    self.paragraph(&format!("{outcome}: {}", failure.what), "    ");
                    for line in failure.reason.lines() {
                        self.paragraph(&format!("    {}", sanitize(line)), "    ");
                    }
                }
            }
            // The labs matter only if two results do not agree.
            Block::Labs(labs)
                if !self.style.full && labs.iter().all(|lab| lab.differs.is_empty()) =>
            {
                return;
            }
            Block::Labs(labs) => self.labs(labs),
        }
        self.line("");
    }

    fn shows(&self, table: &Table) -> bool {
        self.style.full || !table.is_folded
    }

    fn table(&mut self, table: &Table) {
        let shown: Vec<usize> = match table.fit {
            Fit::Omit | Fit::Tight => self.layout(table).shown(table).collect(),
            _ => Vec::new(),
        };
        if !table.title.is_empty() {
            self.paint_paragraph(&table.title_of(shown.into_iter()), "  ", "1");
        }
        if !table.caption.is_empty() {
            self.paragraph(&table.caption, "  ");
        }
        match table.fit {
            Fit::Omit | Fit::Tight => self.columns(table),
            Fit::Blocks { labels, indent } => self.blocks(table, labels, indent),
            Fit::Transpose => self.transposed(table),
            Fit::Stack { within, heads } => self.stacked(table, within, heads),
            Fit::Records => table.rows.iter().for_each(|row| self.record(table, row)),
        }
        let more = if self.style.full { table.verbose_details.as_slice() } else { &[] };
        for detail in table.details.iter().chain(more) {
            self.paragraph(&format!("  {detail}"), "    ");
        }
    }

    fn layout(&mut self, table: &Table) -> &Layout {
        let (document, width, full) = (self.document, self.style.width, self.style.full);
        self.layouts.entry(table.column_group).or_insert_with(|| {
            let tables: Vec<&Table> = document
                .tables()
                .filter(|other| other.column_group == table.column_group)
                .filter(|other| full || !other.is_folded)
                .collect();
            Layout::of(&tables, width)
        })
    }

    /// Writes a table with the columns that fit into a line.
    fn columns(&mut self, table: &Table) {
        self.layout(table);
        let Some(layout) = self.layouts.remove(&table.column_group) else { return };
        let mark = if self.ascii { ASCII_ELLIPSIS } else { ELLIPSIS };
        let heads = layout.line(table, |column| table.heads[column].text.clone(), mark);
        let position_of = |kind| table.heads.iter().position(|head| head.kind == kind);
        let (group, notes) = (position_of(Kind::Group), position_of(Kind::Notes));
        // A label that does not fit has no further lines.
        let label = label_column(&[table]).filter(|column| layout.widths[*column] > 0);
        let shared = notes.and_then(|column| shared_note(table, column));
        let mut last = None;
        for (index, row) in table.rows.iter().enumerate() {
            let group_name = group.map(|column| row.cells[column].as_str());
            if index == 0 || group_name != last {
                if index > 0 {
                    self.line("");
                }
                group_name.iter().for_each(|name| self.paragraph(name, "    "));
                let heads = self.paint("2", heads.trim_end());
                self.line(&heads);
                last = group_name;
            }
            let name = label
                .map_or(Vec::new(), |column| wrap_name(&row.cells[column], layout.widths[column]));
            let cell = |column: usize| match Some(column) == label {
                true => name.first().cloned().unwrap_or_default(),
                false => row.cells[column].clone(),
            };
            let line = layout.line(table, cell, mark);
            let width = label.map_or(0, |column| layout.widths[column]);
            let names = name.iter().skip(1).map(|part| truncate(part, width, mark));
            let notes = notes.filter(|_| shared.is_none());
            let notes = notes.map_or("", |column| &row.cells[column]);
            self.row(row, line.trim_end(), names.collect(), notes);
        }
        if let Some(note) = shared {
            self.paint_paragraph(&format!("  all rows: {note}"), "    ", "33");
        }
        self.layouts.insert(table.column_group, layout);
    }

    /// Writes a row and the rest of its name, with its notes after it if they fit, else below it.
    fn row(&mut self, row: &Row, line: &str, names: Vec<String>, notes: &str) {
        let fits = line.width() + 2 + notes.width() <= self.style.width;
        let painted = self.paint(code(row.tone), line);
        let suffix =
            if fits && !notes.is_empty() { self.paint("33", notes) } else { String::new() };
        self.line(&format!("{painted}  {suffix}"));
        names.iter().for_each(|part| self.line(part));
        if !fits && !notes.is_empty() {
            self.paint_paragraph(&format!("    {notes}"), "    ", "33");
        }
    }

    /// Writes a table as blocks of columns, as many as the width requires.
    fn blocks(&mut self, table: &Table, labels: usize, indent: usize) {
        let all = lines(table);
        let width = |index: usize| all.iter().map(|line| line[index].width()).max().unwrap_or(0);
        let first = indent + (0..labels).map(|index| width(index) + 2).sum::<usize>();
        let mut from = labels;
        while from < table.heads.len() {
            let (mut to, mut used) = (from + 1, first + width(from));
            while to < table.heads.len() && used + 2 + width(to) <= self.style.width {
                used += 2 + width(to);
                to += 1;
            }
            if from > labels {
                self.line("");
            }
            let shown: Vec<usize> =
                (0..labels).chain(from..to).filter(|index| width(*index) > 0).collect();
            for line in &all {
                let cells = shown.iter().map(|index| {
                    padded(&line[*index], width(*index), table.heads[*index].kind.is_left())
                });
                let cells: Vec<String> = cells.collect();
                self.line(&format!("{}{}", " ".repeat(indent), cells.join("  ")));
            }
            from = to;
        }
    }

    /// Writes a line for each row if that fits, otherwise a column for each row, with as many in a line as fit.
    fn transposed(&mut self, table: &Table) {
        let lefts: Vec<bool> = table.heads.iter().map(|head| head.kind.is_left()).collect();
        let all = lines(table);
        match aligned(&all, &lefts, self.style.width) {
            Some(lines) => lines.iter().for_each(|line| self.line(line)),
            None => self.write_columns(&all),
        }
    }

    fn write_columns(&mut self, all: &[Vec<String>]) {
        let width = self.style.width;
        let Some((heads, mut remaining)) = all.split_first() else { return };
        let transpose = |rows: &[Vec<String>]| -> Vec<Vec<String>> {
            let column = |index: usize| rows.iter().map(move |row| row[index].clone());
            (0..heads.len())
                .map(|index| std::iter::once(heads[index].clone()).chain(column(index)).collect())
                .collect()
        };
        let names = [true];
        let mut first = true;
        while !remaining.is_empty() {
            if !std::mem::take(&mut first) {
                self.line("");
            }
            let fits = (1..=remaining.len()).rev().find_map(|count| {
                Some((count, aligned(&transpose(&remaining[..count]), &names, width)?))
            });
            let (count, lines) = fits.unwrap_or_else(|| {
                let first = heads.iter().map(|head| head.width()).max().unwrap_or(0);
                let space = width.saturating_sub(first + 2).max(1);
                let row = remaining[0].iter().map(|text| truncate(text, space, ELLIPSIS)).collect();
                (1, aligned(&transpose(&[row]), &names, usize::MAX).unwrap_or_default())
            });
            lines.iter().for_each(|line| self.line(line));
            remaining = &remaining[count..];
        }
    }

    /// Writes a line for each row; one that is too wide is stacked, one cell per line.
    fn stacked(&mut self, table: &Table, within: Option<usize>, heads: bool) {
        let mut all = lines(table);
        all[0].iter_mut().for_each(|head| *head = head.to_uppercase());
        self.out.push_str(&stacked(&all[usize::from(!heads)..], within).concat());
    }

    /// Writes a record: its name, its verdict and its subject, then its other cells.
    fn record(&mut self, table: &Table, row: &Row) {
        let verdict = table.heads.iter().position(|head| head.kind == Kind::Verdict).unwrap_or(0);
        let word = &row.cells[verdict];
        let mut others =
            (0..row.cells.len()).filter(|index| *index != verdict).map(|index| &row.cells[index]);
        let (name, about) = (others.next().cloned(), others.next().cloned());
        let (name, about) = (name.unwrap_or_default(), about.unwrap_or_default());
        let mut lines = wrap(&format!("  {name} {word}: {about}"), RECORD_INDENT, self.style.width);
        // The verdict is a word; its colour only repeats it.
        if let Some(first) = lines.first_mut() {
            *first = first.replacen(word.as_str(), &self.paint(code(row.tone), word), 1);
        }
        lines.iter().for_each(|line| self.line(line));
        for text in others.flat_map(|cell| cell.lines()).filter(|text| !text.is_empty()) {
            self.paragraph(&format!("{RECORD_INDENT}{text}"), RECORD_INDENT);
        }
    }

    /// Writes the meaning of the displayed columns, and the names of those that did not fit.
    fn legend(&mut self, extra: &Legend) {
        let (mut shown, mut dropped): (Vec<(usize, &Head)>, Vec<&str>) = Default::default();
        for table in self.document.tables() {
            let heads = table.heads.iter().enumerate().filter(|(_, head)| !head.empty);
            for (index, head) in heads {
                let Some(layout) = self.layouts.get(&table.column_group) else { continue };
                if layout.widths[index] > 0 {
                    shown.push((index, head));
                } else if !matches!(head.kind, Kind::Group | Kind::Notes) {
                    let name =
                        if head.sentence_name.is_empty() { &head.text } else { head.sentence_name };
                    if !name.is_empty() && !dropped.contains(&name) {
                        dropped.push(name);
                    }
                }
            }
        }
        let omitted = format!("columns omitted to fit the width: {}", dropped.join(", "));
        let omitted = Some(omitted).filter(|_| !dropped.is_empty() && !self.ascii);
        if !self.style.full {
            return self.brief(&extra.brief, omitted);
        }
        let columns = legend(shown.into_iter());
        let terms =
            columns.iter().chain(&extra.terms).map(|(name, meaning)| format!("{name}: {meaning}"));
        let lines: Vec<String> = terms.chain(omitted).chain(extra.notes.iter().cloned()).collect();
        let flags: Vec<String> =
            extra.flags.iter().map(|(name, meaning)| format!("{name}: {meaning}")).collect();
        for list in [lines, flags].iter().filter(|list| !list.is_empty()) {
            list.iter().for_each(|line| self.paragraph(line, "  "));
            self.line("");
        }
    }

    /// Writes marks and flags in a few words, and where the rest is explained.
    fn brief(&mut self, brief: &[String], omitted: Option<String>) {
        let more = (!self.ascii).then(|| "--verbose explains columns and flags".to_string());
        let last: Vec<String> = omitted.into_iter().chain(more).collect();
        brief.iter().for_each(|line| self.paragraph(line, "  "));
        if !last.is_empty() {
            self.paragraph(&format!("({})", last.join("; ")), " ");
        }
        if !brief.is_empty() || !last.is_empty() {
            self.line("");
        }
    }

    /// Writes the file systems that ran in each lab, with enough of its identity to distinguish it.
    fn labs(&mut self, labs: &[Lab]) {
        let space = self.style.width.saturating_sub("lab    123456789012".len()).max(8);
        let width = labs.iter().map(|lab| lab.rows.width()).max().unwrap_or(0).min(space);
        for lab in labs {
            let rows =
                truncate(&lab.rows, width, if self.ascii { ASCII_ELLIPSIS } else { ELLIPSIS });
            self.line(&format!("lab  {}  {:.12}", padded(&rows, width, true), lab.id));
            if !lab.differs.is_empty() {
                self.paragraph(&format!("differs from the lab above in: {}", lab.differs), "     ");
            }
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.style.color && !code.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.into(),
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: &str, indent: &str) {
        self.paint_paragraph(text, indent, "");
    }

    fn paint_paragraph(&mut self, text: &str, indent: &str, code: &str) {
        for line in wrap(text, indent, self.style.width) {
            let line = self.paint(code, line.trim_end());
            self.line(&line);
        }
    }
}

fn code(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Doubtful => "33",
        Tone::Faint => "2",
    }
}

/// Returns the note that all rows of a table have, if there are several rows.
fn shared_note(table: &Table, column: usize) -> Option<&str> {
    let (first, others) = table.rows.split_first()?;
    let note = first.cells[column].as_str();
    let is_shared = !note.is_empty() && !others.is_empty();
    (is_shared && others.iter().all(|row| row.cells[column] == note)).then_some(note)
}

/// The heads and the rows.
fn lines(table: &Table) -> Vec<Vec<String>> {
    let heads = table.heads.iter().map(|head| head.text.clone()).collect();
    std::iter::once(heads).chain(table.rows.iter().map(|row| row.cells.clone())).collect()
}

/// Lines of a table, each column as wide as its widest cell, or `None` if one is too long. Columns of text are
/// left-aligned; empty columns are omitted.
fn aligned(table: &[Vec<String>], lefts: &[bool], width: usize) -> Option<Vec<String>> {
    let columns = table.first().map_or(0, Vec::len);
    let widest = |index: usize| table.iter().map(|row| row[index].width()).max().unwrap_or(0);
    let widths: Vec<(usize, usize)> =
        (0..columns).map(|index| (index, widest(index))).filter(|(_, width)| *width > 0).collect();
    let line = |row: &Vec<String>| {
        let align_left = |index: usize| lefts.get(index).copied().unwrap_or(false);
        let cells =
            widths.iter().map(|(index, width)| padded(&row[*index], *width, align_left(*index)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let lines: Vec<String> = table.iter().map(line).collect();
    lines.iter().all(|line| line.width() <= width).then_some(lines)
}

/// Lines with two spaces between columns, each with its newline. A row that is wider than this is stacked, one cell
/// per line.
pub fn stacked(rows: &[Vec<String>], within: Option<usize>) -> Vec<String> {
    const STACKED: &str = "    ";
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |index: usize| rows.iter().filter_map(|row| Some(row.get(index)?.width())).max();
    let widths: Vec<usize> = (0..count).map(|index| width(index).unwrap_or(0)).collect();
    let text = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| padded(cell, *width, true));
        let line = cells.collect::<Vec<_>>().join("  ").trim_end().to_string();
        let Some(limit) = within.filter(|limit| line.width() > *limit) else { return line + "\n" };
        let wrapped = |cell: &String| wrap(&format!("{STACKED}{cell}"), "      ", limit);
        let (first, rest) = (&row[..1], &row[1..]);
        let first = first.iter().flat_map(|cell| wrap(cell, "  ", limit));
        let rest = rest.iter().filter(|cell| !cell.is_empty()).flat_map(wrapped);
        first.chain(rest).map(|line| line.trim_end().to_string() + "\n").collect()
    };
    rows.iter().map(text).collect()
}

fn to_ascii(mut document: Document) -> Document {
    let convert = |texts: &mut Vec<String>| texts.iter_mut().for_each(|text| *text = plain(text));
    for block in &mut document.0 {
        match block {
            Block::Title(text)
            | Block::Strong(text)
            | Block::Answer(text)
            | Block::Paragraph(text)
            | Block::Markup(text) => {
                *text = plain(text);
            }
            Block::Items(items)
            | Block::List(_, items)
            | Block::Lead(items)
            | Block::Verbatim(items) => convert(items),
            Block::Table(table) => {
                table.heads.iter_mut().for_each(|head| {
                    head.text = plain(&head.text);
                    head.meaning = plain(&head.meaning);
                });
                table.rows.iter_mut().for_each(|row| convert(&mut row.cells));
                convert(&mut table.details);
                convert(&mut table.verbose_details);
                (table.title, table.caption) = (plain(&table.title), plain(&table.caption));
            }
            Block::Legend(legend) => {
                let terms = legend.terms.iter_mut().chain(&mut legend.flags);
                terms.for_each(|(name, meaning)| (*name, *meaning) = (plain(name), plain(meaning)));
                convert(&mut legend.notes);
                convert(&mut legend.brief);
            }
            Block::Failures(failures) => failures.iter_mut().for_each(|failure| {
                (failure.what, failure.reason) = (plain(&failure.what), plain(&failure.reason));
            }),
            Block::Labs(labs) => labs.iter_mut().for_each(|lab| lab.rows = plain(&lab.rows)),
        }
    }
    document
}

/// Plain ASCII for an email; a character without an ASCII spelling becomes a question mark. Line breaks are kept.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '±' => out.push_str("+-"),
            '…' => out.push_str(ASCII_ELLIPSIS),
            _ if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}
