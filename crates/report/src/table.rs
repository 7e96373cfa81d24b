//! Tables as text: for a terminal, for a mailing list, for Markdown.

use fsdyno_record::Trial;
use fsdyno_stats::Summary;
use unicode_width::UnicodeWidthStr;

use crate::answer;
use crate::csv::csv;
use crate::error::ReportError;
use crate::view::{self, Row, Section};
use crate::{number, promise};

/// How trials are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns as wide as the terminal.
    Text,
    /// Aligned columns in 72 columns of plain ASCII.
    Mail,
    /// The records themselves, as one array.
    Json,
    /// One line per trial, phase and op.
    Csv,
    /// Pipe tables.
    Markdown,
}

impl Format {
    /// Every format, with the name that `--format` takes and what it is.
    pub const ALL: &[(&str, &str, Format)] = &[
        ("text", "A table for a terminal", Format::Text),
        ("mail", "A table of 72 columns for a mailing list", Format::Mail),
        ("json", "The records themselves", Format::Json),
        ("csv", "One line per trial, phase and op", Format::Csv),
        ("markdown", "A table for an issue tracker", Format::Markdown),
    ];
}

/// What the terminal can show; the caller knows whether there is one and what `NO_COLOR` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Default for Style {
    /// No colour, 100 columns.
    fn default() -> Style {
        Style { color: false, width: 100 }
    }
}

/// Columns of a mail: what a quoted reply still fits into 80 columns with.
const MAIL_WIDTH: usize = 72;

/// The trials in a format, with ratios to the label of the baseline or to the best; ends in a
/// newline.
///
/// # Errors
/// Only [`ReportError::Json`], for a record that has no JSON form.
pub fn table(
    trials: &[Trial],
    baseline: Option<&str>,
    format: Format,
    style: Style,
) -> Result<String, ReportError> {
    let text = |style, ascii| Writer { style, ascii, out: String::new() }.write(trials, baseline);
    match format {
        Format::Text => Ok(text(style, false)),
        Format::Mail => Ok(ascii(&text(Style { color: false, width: MAIL_WIDTH }, true))),
        Format::Json => json(trials),
        Format::Csv => Ok(csv(trials)),
        Format::Markdown => Ok(markdown(trials, baseline)),
    }
}

fn json(trials: &[Trial]) -> Result<String, ReportError> {
    let lines: Vec<String> = trials.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(format!("[{}]\n", lines.join(",\n")))
}

/// One column. When room is short, the highest `drop` goes first; 0 stays.
struct Column {
    head: String,
    drop: u8,
    left: bool,
    cells: Vec<String>,
}

fn columns(section: &Section<'_>) -> Vec<Column> {
    let column = |head: &str, drop, left, cell: &dyn Fn(&Row<'_>) -> String| Column {
        head: head.into(),
        drop,
        left,
        cells: section.rows.iter().map(cell).collect(),
    };
    let mean = |summary: &Summary| number::seconds(summary.mean);
    let latency = |row: &Row<'_>, p| {
        row.latency.as_ref().map(|h| fsdyno_record::Nanos(h.percentile(p)).to_string())
    };
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut columns = vec![
        column("file system", 0, true, &|row| row.name.clone()),
        column("n", 2, false, &|row| row.returned.n.to_string()),
        column("returned", 1, false, &|row| mean(&row.returned)),
        column("±", 5, false, &|row| spread(&row.returned)),
        column("durable", 0, false, &|row| dash(row.durable.as_ref().map(mean))),
        column("±", 4, false, &|row| row.durable.as_ref().map(spread).unwrap_or_default()),
        column("CPU", 6, false, &|row| mean(&row.cpu)),
        column(&section.rate_head(), 3, false, &|row| {
            dash(row.rate.map(|rate| number::short(rate.mean)))
        }),
        column("p50", 8, false, &|row| dash(latency(row, 50.0))),
        column("p99", 7, false, &|row| dash(latency(row, 99.0))),
        column(&section.ratio_head(), 0, false, &|row| dash(row.ratio.map(number::ratio))),
    ];
    // A column with nothing in it says nothing: no spread of single trials, no latency of no op.
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty() && cell != "-"));
    columns
}

/// `0.4 %`, or nothing for a single trial.
fn spread(summary: &Summary) -> String {
    summary.relative_half_width().map(number::percent).unwrap_or_default()
}

fn flags(row: &Row<'_>) -> String {
    row.flags.iter().map(|flag| flag.name()).collect::<Vec<_>>().join(", ")
}

struct Writer {
    style: Style,
    ascii: bool,
    out: String,
}

impl Writer {
    fn write(mut self, trials: &[Trial], baseline: Option<&str>) -> String {
        let sections = view::sections(trials, baseline);
        for sentence in promise::broken(trials) {
            self.paragraph(&sentence, "  ");
            self.line("");
        }
        // Columns of all sections are equally wide, so that the eye can run down the page.
        let tables: Vec<Vec<Column>> = sections.iter().map(columns).collect();
        let shown = self.fit(&tables);
        let mut widths = widths(&tables, &shown);
        self.squeeze(&mut widths);
        for (section, columns) in sections.iter().zip(&tables) {
            self.section(section, columns, &shown, &widths);
        }
        if sections.is_empty() {
            self.line("No trial succeeded.");
            self.line("");
        } else {
            self.paragraph(&answer::sentences(&sections, baseline).join(" "), "");
            self.line("");
        }
        self.explain(&sections);
        self.unfinished(trials);
        self.labs(trials);
        let end = self.out.trim_end().len();
        self.out.truncate(end);
        self.out.push('\n');
        self.out
    }

    /// The heads that fit, dropped alike from all sections. A head names the same column in every
    /// section but for the rate's, so columns are told apart by the order in which they drop.
    fn fit(&self, tables: &[Vec<Column>]) -> Vec<u8> {
        let mut drops: Vec<u8> = tables.iter().flatten().map(|column| column.drop).collect();
        drops.sort_unstable();
        drops.dedup();
        while drops.len() > 1 {
            let total: usize = widths(tables, &drops).iter().map(|width| width + 2).sum();
            if total <= self.style.width + 2 {
                break;
            }
            drops.pop();
        }
        drops
    }

    /// Where even the last columns are too wide, names are cut: a digit never is.
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
        let title = section.title();
        let title = self.paint("1", &title);
        self.line(&title);
        let columns: Vec<&Column> = columns.iter().filter(|c| shown.contains(&c.drop)).collect();
        let slots = slots(&columns, shown);
        let head = join(columns.iter().map(|c| (c.head.as_str(), c.left)), &slots, widths);
        let head = self.paint("2", &head);
        self.line(&head);
        for (index, row) in section.rows.iter().enumerate() {
            let cells = columns.iter().map(|c| (c.cells[index].as_str(), c.left));
            let text = join(cells, &slots, widths);
            let flags = flags(row);
            let fits = text.width() + 2 + flags.width() <= self.style.width;
            let text = if row.best { self.paint("32", &text) } else { text };
            if flags.is_empty() {
                self.line(&text);
            } else if fits {
                let flags = self.paint("33", &flags);
                self.line(&format!("{text}  {flags}"));
            } else {
                self.line(&text);
                let flags = self.paint("33", &flags);
                self.line(&format!("    {flags}"));
            }
        }
        self.line("");
    }

    fn explain(&mut self, sections: &[Section<'_>]) {
        let open = view::has_open(sections);
        if open {
            self.paragraph(&format!("~: {}", view::OPEN), "  ");
        }
        let flags = view::flags(sections);
        for flag in &flags {
            self.paragraph(&format!("{flag}: {}", flag.meaning()), "  ");
        }
        if open || !flags.is_empty() {
            self.line("");
        }
    }

    fn unfinished(&mut self, trials: &[Trial]) {
        let unfinished = view::unfinished(trials);
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

    /// Which file systems ran in which lab: enough of its identity to tell it from another; the
    /// whole of it is in the records and the page.
    fn labs(&mut self, trials: &[Trial]) {
        let labs: Vec<(String, &str)> = view::labs(trials)
            .into_iter()
            .map(|(id, labels)| (number::clean(&labels.join(", ")), id))
            .collect();
        let room = self.style.width.saturating_sub("lab    123456789012".len()).max(8);
        let width = labs.iter().map(|(labels, _)| labels.width()).max().unwrap_or(0).min(room);
        for (labels, id) in labs {
            let labels = cut(&labels, width);
            let pad = " ".repeat(width.saturating_sub(labels.width()));
            self.line(&format!("lab  {labels}{pad}  {:.12}", number::clean(id)));
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Prose, wrapped between words; lines after the first are indented.
    fn paragraph(&mut self, text: &str, indent: &str) {
        let text = if self.ascii { ascii(text) } else { text.to_string() };
        let start = &text[..text.len() - text.trim_start().len()];
        let mut line = start.to_string();
        let mut empty = true;
        // A number stays on the line of its percent sign.
        let text = text.replace(" %", "\u{a0}%");
        for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
            let word = word.replace('\u{a0}', " ");
            if !empty && line.width() + 1 + word.width() > self.style.width {
                self.line(&line);
                line = indent.to_string();
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(&word);
            empty = false;
        }
        self.line(&line);
    }
}

/// Where each column of a section stands among all the slots that some section uses.
fn slots(columns: &[&Column], shown: &[u8]) -> Vec<usize> {
    columns.iter().filter_map(|column| slot(column, shown)).collect()
}

/// Columns in the order of [`columns`], by what they drop at; 0 is shared by three of them.
const ORDER: &[(&str, u8)] = &[
    ("file system", 0),
    ("", 2),
    ("", 1),
    ("", 5),
    ("durable", 0),
    ("", 4),
    ("", 6),
    ("", 3),
    ("", 8),
    ("", 7),
    ("vs", 0),
];

fn slot(column: &Column, shown: &[u8]) -> Option<usize> {
    shown.contains(&column.drop).then_some(())?;
    ORDER.iter().position(|(head, drop)| {
        *drop == column.drop && (*drop > 0 || column.head.starts_with(head))
    })
}

/// The width of every slot over all sections; 0 for a slot that nobody uses.
fn widths(tables: &[Vec<Column>], shown: &[u8]) -> Vec<usize> {
    let mut widths = vec![0; ORDER.len()];
    for column in tables.iter().flatten() {
        if let Some(slot) = slot(column, shown) {
            let cells = column.cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
            widths[slot] = widths[slot].max(cells).max(column.head.width());
        }
    }
    widths
}

fn join<'a>(
    cells: impl Iterator<Item = (&'a str, bool)>,
    slots: &[usize],
    widths: &[usize],
) -> String {
    let mut line = String::new();
    let mut cells = cells.zip(slots).peekable();
    for (slot, width) in widths.iter().enumerate().filter(|(_, width)| **width > 0) {
        let (text, left) = match cells.next_if(|(_, at)| **at == slot) {
            Some((cell, _)) => cell,
            None => ("", true),
        };
        let text = cut(text, *width);
        let pad = " ".repeat(width.saturating_sub(text.width()));
        if slot > 0 {
            line.push_str("  ");
        }
        if left {
            line.push_str(&text);
            line.push_str(&pad);
        } else {
            line.push_str(&pad);
            line.push_str(&text);
        }
    }
    line.trim_end().to_string()
}

/// Text cut to a width in columns, with a mark where it was cut.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if out.width() >= width {
            out.pop();
            break;
        }
    }
    out.push('~');
    out
}

/// Plain ASCII for a mail; what has no spelling becomes a question mark.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '±' => out.push_str("+-"),
            _ if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

fn markdown(trials: &[Trial], baseline: Option<&str>) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
    let mut out = String::new();
    for sentence in promise::broken(trials) {
        out.push_str(&format!("**{}**\n\n", escape(&sentence)));
    }
    let sections = view::sections(trials, baseline);
    for section in &sections {
        let columns = columns(section);
        out.push_str(&format!("### {}\n\n", escape(&section.title())));
        let heads: Vec<String> = columns.iter().map(|c| escape(&c.head)).collect();
        let rule = |c: &Column| if c.left { " --- " } else { " ---: " };
        let rules: Vec<&str> = columns.iter().map(rule).collect();
        out.push_str(&format!("| {} | flags |\n|{}| --- |\n", heads.join(" | "), rules.join("|")));
        for (index, row) in section.rows.iter().enumerate() {
            let cells: Vec<String> = columns.iter().map(|c| escape(&c.cells[index])).collect();
            out.push_str(&format!("| {} | {} |\n", cells.join(" | "), flags(row)));
        }
        out.push('\n');
    }
    for trial in view::unfinished(trials) {
        let reason = number::clean(&trial.reason.replace('\n', " "));
        out.push_str(&format!(
            "- {}: {}: {}\n",
            trial.outcome,
            escape(&trial.what),
            escape(&reason)
        ));
    }
    for (id, labels) in view::labs(trials) {
        let labels = number::clean(&labels.join(", "));
        out.push_str(&format!("\nLab `{}`: {}\n", number::clean(id), escape(&labels)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn text(trials: &[Trial], width: usize) -> String {
        table(trials, None, Format::Text, Style { width, color: false }).unwrap()
    }

    #[test]
    fn a_wide_terminal_sees_every_column() {
        insta::assert_snapshot!(text(&fixture::trials(), 120));
    }

    #[test]
    fn failed_and_skipped_trials_are_listed_with_their_reasons() {
        insta::assert_snapshot!(text(&fixture::with_failures(), 100));
    }

    #[test]
    fn a_directory_on_a_host_has_no_durable_time_and_says_so() {
        insta::assert_snapshot!(text(&fixture::on_a_host(), 100));
    }

    #[test]
    fn single_trials_show_no_spread_and_claim_nothing() {
        insta::assert_snapshot!(text(&fixture::single(), 100));
    }

    #[test]
    fn against_a_baseline_the_last_column_is_named_for_it() {
        let trials = fixture::trials();
        let text = table(&trials, Some("ext4"), Format::Text, Style::default()).unwrap();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_mail_is_72_columns_of_ascii() {
        let mail = table(&fixture::with_failures(), None, Format::Mail, Style::default()).unwrap();
        assert!(mail.is_ascii());
        assert!(mail.lines().all(|line| line.len() <= MAIL_WIDTH), "{mail}");
        insta::assert_snapshot!(mail);
    }

    #[test]
    fn markdown_is_pipe_tables() {
        let style = Style::default();
        insta::assert_snapshot!(
            table(&fixture::with_failures(), None, Format::Markdown, style).unwrap()
        );
    }

    #[test]
    fn json_is_the_records_themselves() {
        let json = table(&fixture::trials(), None, Format::Json, Style::default()).unwrap();
        let back: Vec<Trial> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, fixture::trials());
    }

    #[test]
    fn a_narrow_terminal_loses_columns_and_never_a_digit() {
        let wide = text(&fixture::trials(), 120);
        for width in [40, 50, 60, 72, 80, 90] {
            let narrow = text(&fixture::trials(), width);
            let rows = |text: &str| -> Vec<String> {
                text.lines().filter(|l| l.starts_with("xfs  ")).map(String::from).collect()
            };
            assert_eq!(rows(&narrow).len(), 4);
            for (narrow, wide) in rows(&narrow).iter().zip(rows(&wide)) {
                assert!(narrow.width() <= width, "{narrow}");
                let known: Vec<&str> = wide.split("  ").map(str::trim).collect();
                let cells: Vec<&str> =
                    narrow.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
                assert!(cells.iter().all(|cell| known.contains(cell)), "{narrow}");
            }
        }
    }

    #[test]
    fn a_long_label_is_cut_before_a_digit_is() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            trial.plan.label =
                format!("{} with a label of more than forty letters", trial.plan.label);
        }
        let narrow = text(&trials, 50);
        let row = narrow.lines().find(|line| line.starts_with("xfs with")).unwrap();
        assert!(
            row.width() <= 50 && row.contains('~') && row.ends_with("1.42 s     1.00"),
            "{row}"
        );
    }

    #[test]
    fn colour_comes_only_when_asked_for_and_a_label_cannot_bring_its_own() {
        let mut trials = fixture::trials();
        trials.iter_mut().for_each(|trial| trial.plan.label.insert_str(0, "\x1b[31m"));
        assert!(!text(&trials, 100).contains('\x1b'));
        let style = Style { color: true, ..Style::default() };
        assert!(table(&fixture::trials(), None, Format::Text, style).unwrap().contains("\x1b[1m"));
    }

    #[test]
    fn every_column_has_a_slot_of_its_own() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let columns = columns(&sections[0]);
        let all: Vec<u8> = (0..=9).collect();
        let slots: Vec<Option<usize>> = columns.iter().map(|c| slot(c, &all)).collect();
        assert_eq!(slots, (0..ORDER.len()).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn no_trials_are_no_table_but_a_sentence() {
        assert_eq!(
            table(&[], None, Format::Text, Style::default()).unwrap(),
            "No trial succeeded.\n"
        );
    }
}
