//! An explained trial as text of a given width, and as Markdown.

use fsdyno_why::{Explained, Phase, say};
use unicode_width::UnicodeWidthStr;

use super::rows;
use crate::columns::{Column, truncate};
use crate::markdown::escape;
use crate::number::{self, clean};
use crate::table::Style;
use crate::wrap::{SHORTEST, wrap};

/// The mark of truncated text.
const CUT: &str = "…";

/// An explained trial for a terminal.
pub fn text(it: &Explained, other: Option<&Explained>, style: Style) -> String {
    let mut out = Writer { style, out: String::new(), dropped: Vec::new() };
    out.paragraph(&title(it, other));
    out.line("");
    say::sentences(it, other).iter().for_each(|sentence| out.paragraph(sentence));
    if it.account.is_some() {
        out.line("");
        let places = rows::places(it);
        let tables: Vec<Vec<Column>> = places.iter().map(rows::requests).collect();
        // Columns of all gaps and phases have equal widths, so that they line up.
        let layout = out.layout(&tables);
        for (place, table) in places.iter().zip(&tables) {
            out.heading(&place.place);
            out.table(table, &layout);
            out.line("");
        }
        untimed_sentence(it).iter().for_each(|line| out.paragraph(line));
        out.paragraph(&rows::sums(it));
    }
    for (phase, there) in phases(it, other) {
        out.line("");
        out.paragraph(&rows::executed(phase));
        let table = [rows::functions(phase, there)];
        let layout = out.layout(&table);
        out.table(&table[0], &layout);
    }
    if !out.dropped.is_empty() {
        out.line("");
        let heads = std::mem::take(&mut out.dropped).join(", ");
        out.paragraph(&format!("columns omitted to fit the width: {heads}"));
    }
    if !it.notes.is_empty() {
        out.line("");
        it.notes.iter().for_each(|note| out.paragraph(&format!("Note: {note}.")));
    }
    out.out
}

/// An explained trial for a page or an issue.
pub fn markdown(it: &Explained, other: Option<&Explained>) -> String {
    let mut out = format!("### {}\n\n", escape(&clean(&title(it, other))));
    let line = |text: &str| format!("{}\n", escape(&clean(text)));
    for sentence in say::sentences(it, other) {
        out += &format!("- {}", line(&sentence));
    }
    for place in it.account.iter().flat_map(|_| rows::places(it)) {
        out +=
            &format!("\n{}:\n\n{}", escape(&clean(&place.place)), pipes(&rows::requests(&place)));
    }
    out.push('\n');
    untimed_sentence(it).iter().for_each(|text| out += &line(text));
    out += &line(&rows::sums(it));
    for (phase, there) in phases(it, other) {
        let table = pipes(&rows::functions(phase, there));
        out += &format!("\n{}\n{table}", line(&rows::executed(phase)));
    }
    for note in &it.notes {
        out += &format!("\nNote: {}", line(&format!("{note}.")));
    }
    out
}

/// The trial, and the one that it is compared with; pages use it too.
pub fn title(it: &Explained, other: Option<&Explained>) -> String {
    let against = other.map(|other| {
        let workload = match other.workload == it.workload {
            true => String::new(),
            false => format!("{} on ", other.workload),
        };
        let seed = match other.seed == it.seed {
            true => String::new(),
            false => format!(", seed {}", other.seed),
        };
        match other.label == it.label && workload.is_empty() && seed.is_empty() {
            true => ", against the same in the other result".to_string(),
            false => format!(", against {workload}{}{seed}", other.label),
        }
    });
    format!("{} on {}, seed {}{}", it.workload, it.label, it.seed, against.unwrap_or_default())
}

/// The phases in which anything was executed, with those of the other trial.
fn phases<'a>(
    it: &'a Explained,
    other: Option<&'a Explained>,
) -> impl Iterator<Item = (&'a Phase, Option<&'a Phase>)> {
    let there = move |phase: &Phase| other?.phases.iter().find(|it| it.name == phase.name);
    it.phases
        .iter()
        .filter(|phase| !phase.executed.is_empty())
        .map(move |phase| (phase, there(phase)))
}

fn untimed_sentence(it: &Explained) -> Option<String> {
    let sum = rows::untimed(it);
    let (requests, bytes) = (number::count(sum.requests), rows::size(sum.bytes.0));
    let text = format!("Untimed, by mkfs, verification and similar: {requests} requests, {bytes}.");
    (sum.requests > 0).then_some(text)
}

fn pipes(columns: &[Column]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(|column| escape(&column.head)).collect());
    let rule = |column: &Column| if column.left { "---".into() } else { "---:".into() };
    out += &line(columns.iter().map(rule).collect());
    for at in 0..columns.first().map_or(0, |column| column.cells.len()) {
        out += &line(columns.iter().map(|column| escape(&clean(&column.cells[at]))).collect());
    }
    out
}

/// The width of each displayed column; none for an omitted one.
type Layout = Vec<Option<usize>>;

struct Writer {
    style: Style,
    out: String,
    dropped: Vec<String>,
}

impl Writer {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: &str) {
        wrap(&clean(text), "  ", self.style.width).iter().for_each(|line| self.line(line));
    }

    fn heading(&mut self, text: &str) {
        let text = truncate(&clean(text), self.style.width, CUT);
        match self.style.color {
            true => self.line(&format!("\x1b[1m{text}\x1b[0m")),
            false => self.line(&text),
        }
    }

    /// The columns of tables with equal columns that fit side by side. If even the last do not fit, the first, which
    /// are words, are truncated: a digit never is.
    fn layout(&mut self, tables: &[Vec<Column>]) -> Layout {
        let Some(columns) = tables.first() else { return Layout::new() };
        let wide = |at: usize| {
            let cells = tables.iter().flat_map(|table| &table[at].cells);
            let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
            widest.max(columns[at].head.width())
        };
        let mut widths: Layout = (0..columns.len()).map(|at| Some(wide(at))).collect();
        let whole = |widths: &Layout| -> usize {
            widths.iter().flatten().map(|width| width + 2).sum::<usize>().saturating_sub(2)
        };
        while whole(&widths) > self.style.width {
            let shown = (0..columns.len()).filter(|at| widths[*at].is_some());
            let Some(next) = shown.max_by_key(|at| columns[*at].drop) else { break };
            if columns[next].drop == 0 {
                break;
            }
            widths[next] = None;
            if !self.dropped.contains(&columns[next].head) {
                self.dropped.push(columns[next].head.clone());
            }
        }
        let over = whole(&widths).saturating_sub(self.style.width);
        if let Some(Some(first)) = widths.first_mut() {
            *first = first.saturating_sub(over).max(SHORTEST);
        }
        widths
    }

    fn table(&mut self, columns: &[Column], layout: &Layout) {
        let rows = columns.first().map_or(0, |column| column.cells.len());
        for at in 0..=rows {
            let mut cells = Vec::new();
            for (column, width) in columns.iter().zip(layout) {
                let Some(width) = *width else { continue };
                let cell = if at == 0 { &column.head } else { &column.cells[at - 1] };
                let cell = truncate(&clean(cell), width, CUT);
                let pad = " ".repeat(width - cell.width());
                cells.push(if column.left { cell + &pad } else { pad + &cell });
            }
            self.line(&cells.join("  "));
        }
    }
}
