//! A section of the page, in the form that its template takes.

use minijinja::Value;
use serde::Serialize;

use super::budget::Budget;
use super::figure::Figure;
use crate::table::{Table, html};

/// A section of the page: a phase of a workload, or a curve.
#[derive(Serialize)]
pub struct Part {
    /// Its anchor.
    pub id: String,
    /// Its title.
    pub title: String,
    /// True if a short printout has this section.
    pub main: bool,
    /// The first figure, with its table unfolded.
    pub first: Option<FigureView>,
    /// The other figures.
    pub figures: Vec<FigureView>,
    /// Its sentences.
    pub lines: Vec<String>,
    /// Every kind of call.
    pub calls: Option<Value>,
}

/// A figure of a section.
#[derive(Serialize)]
pub struct FigureView {
    /// Its anchor.
    pub id: String,
    /// Its name in file names.
    pub slug: &'static str,
    /// Its title.
    pub title: String,
    /// The note below the chart.
    pub note: String,
    /// The drawing.
    pub chart: Value,
    /// The numbers.
    pub table: Value,
}

/// Converts a figure if the page has space for it, and counts it as omitted otherwise.
pub fn figure_view(figure: Figure, part: &str, budget: &mut Budget) -> Option<FigureView> {
    let Figure { slug, title, note, chart, table } = figure;
    let id = format!("{part}-{slug}");
    let chart = chart.inline(&id);
    if !budget.take(chart.len() + note.len() + 900) {
        budget.count_omitted_chart();
        return None;
    }
    let table = budget.fit(table);
    Some(FigureView {
        id,
        slug,
        title,
        note,
        chart: Value::from_safe_string(chart),
        table: grid(&table),
    })
}

/// A table as HTML for a template.
pub fn grid(table: &Table) -> Value {
    Value::from_safe_string(html::table(table))
}

/// The names as text: `a, b and 12 more`.
pub fn join_names(names: &[&str], max: usize) -> String {
    match names.len().checked_sub(max + 1) {
        None => names.join(", "),
        Some(_) => format!("{} and {} more", names[..max].join(", "), names.len() - max),
    }
}
