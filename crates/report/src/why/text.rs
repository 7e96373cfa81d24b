//! An explained trial as text of a given width, and as Markdown.

use fsdyno_why::{Explained, Phase, say};
use unicode_width::UnicodeWidthStr;

use super::rows;
use crate::columns::{Column, cut};
use crate::markdown::escape;
use crate::number::{self, clean};
use crate::table::Style;
use crate::wrap::{SHORTEST, wrap};

/// What cut text ends in.
const CUT: &str = "…";

/// For a terminal.
pub fn text(it: &Explained, other: Option<&Explained>, style: Style) -> String {
    let mut out = Writer { style, out: String::new(), dropped: Vec::new() };
    out.paragraph(&title(it, other));
    out.line("");
    say::sentences(it, other).iter().for_each(|sentence| out.paragraph(sentence));
    if it.account.is_some() {
        out.line("");
        let places = rows::places(it);
        let tables: Vec<Vec<Column>> = places.iter().map(rows::requests).collect();
        // Columns of all places are equally wide, so that the eye can run down the page.
        let layout = out.layout(&tables);
        for (place, table) in places.iter().zip(&tables) {
            out.heading(&place.place);
            out.table(table, &layout);
            out.line("");
        }
        untimed(it).iter().for_each(|line| out.paragraph(line));
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
        out.paragraph(&format!("left out for want of columns: {heads}"));
    }
    if !it.notes.is_empty() {
        out.line("");
        it.notes.iter().for_each(|note| out.paragraph(&format!("Note: {note}.")));
    }
    out.out
}

/// For a page or an issue.
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
    untimed(it).iter().for_each(|told| out += &line(told));
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

/// Which trial it is, and which it is held against; pages have it too.
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

fn untimed(it: &Explained) -> Option<String> {
    let sum = rows::untimed(it);
    let (requests, bytes) = (number::count(sum.requests), rows::size(sum.bytes.0));
    let told =
        format!("Untimed, by mkfs, verification and the like: {requests} requests, {bytes}.");
    (sum.requests > 0).then_some(told)
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

/// The width of each column that is shown; none of one that found no room.
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
        let text = cut(&clean(text), self.style.width, CUT);
        match self.style.color {
            true => self.line(&format!("\x1b[1m{text}\x1b[0m")),
            false => self.line(&text),
        }
    }

    /// Which columns of tables that have the same ones fit beside each other. Where even the last do not, the
    /// first, which are words, are cut: a digit never is.
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
                let cell = cut(&clean(cell), width, CUT);
                let pad = " ".repeat(width - cell.width());
                cells.push(if column.left { cell + &pad } else { pad + &cell });
            }
            self.line(&cells.join("  "));
        }
    }
}
