//! A cell: one figure of one row of one run, as tables and claims refer to it.

use std::collections::BTreeMap;

use fsdyno_record::{OpKind, suggest};

use super::error::{FileError, Spot};
use super::figure::{Dimension, Figure, Op, Unit};
use super::read::{Item, Node};
use super::run::Run;

/// The source of a number.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The run.
    pub run: String,
    /// Label of the row.
    pub row: String,
    /// The phases; their figures are added up.
    pub phases: Vec<String>,
    /// The figure.
    pub figure: Figure,
    /// Op of the figure, if the file names one.
    pub op: Option<Op>,
    /// Parameters that the trial must have, such as `files = 10000`: the point of a curve.
    pub at: BTreeMap<String, String>,
    /// Unit of the number.
    pub unit: Unit,
    /// Position in the file.
    pub spot: Spot,
    /// Position of its phases in the file.
    pub phase_spot: Spot,
}

/// Compares everything but the positions.
impl PartialEq for Cell {
    fn eq(&self, other: &Cell) -> bool {
        (&self.run, &self.row, &self.phases) == (&other.run, &other.row, &other.phases)
            && (&self.figure, self.op, &self.at) == (&other.figure, other.op, &other.at)
            && self.unit == other.unit
    }
}

/// The keys that select a cell.
pub(super) const KEYS: &[&str] = &["run", "row", "phase", "figure", "op", "at", "unit"];

/// A partially specified cell; its own keys override those of its context.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    run: Option<String>,
    row: Option<Label>,
    /// The phases, with their byte offset.
    phases: Option<(Vec<String>, usize)>,
    figure: Option<Figure>,
    op: Option<Op>,
    at: BTreeMap<String, String>,
    unit: Option<Unit>,
}

/// The label of a row. It is checked once the run is known, because each cell may name a different run.
#[derive(Clone, Debug)]
struct Label {
    text: String,
    /// Byte offset; `None` for a label known to be valid.
    offset: Option<usize>,
}

impl Label {
    fn read(item: &Item<'_>) -> Result<Label, FileError> {
        Ok(Label { text: item.text()?, offset: Some(item.offset()) })
    }
}

impl Selection {
    /// Reads the keys of a table, which override those of its context.
    pub fn read(
        node: &Node<'_>,
        context: &Selection,
        runs: &[Run],
    ) -> Result<Selection, FileError> {
        let mut selection = context.clone();
        if let Some(item) = node.get("run") {
            let name = item.text()?;
            if !runs.iter().any(|run| run.name == name) {
                let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
                let hint = suggest::hint(&name, names);
                return Err(item.error(format!("there is no run '{name}'"), hint));
            }
            selection.run = Some(name);
        }
        if let Some(item) = node.get("figure") {
            let name = item.text()?;
            let error = |hint| item.error(format!("there is no figure '{name}'"), hint);
            selection.figure = Some(Figure::named(&name).map_err(error)?);
        }
        if let Some(item) = node.get("op") {
            let name = item.text()?;
            let names: Vec<&str> = OpKind::ALL.iter().map(|op| op.name()).collect();
            let found = OpKind::ALL.iter().find(|op| op.name() == name).copied();
            let error =
                || item.error(format!("there is no op '{name}'"), suggest::hint(&name, names));
            selection.op = Some(found.ok_or_else(error)?);
        }
        if let Some(item) = node.get("phase") {
            selection.phases = Some((phases(&item)?, item.offset()));
        }
        if let Some(item) = node.get("at") {
            let table = item.table("write the point's parameters: at = { files = 10000 }")?;
            for (key, item) in table.entries() {
                selection.at.insert(key, item.argument()?);
            }
        }
        if let Some(item) = node.get("unit") {
            selection.unit = Some(unit(&item)?);
        }
        if let Some(item) = node.get("row") {
            selection.row = Some(Label::read(&item)?);
        }
        Ok(selection)
    }

    /// Returns the selection for another row, given as a label or as a table of overriding keys.
    pub fn for_row(&self, item: &Item<'_>, runs: &[Run]) -> Result<Selection, FileError> {
        if item.value.as_str().is_some() {
            if self.run.is_none() && only_run(runs).is_none() {
                let remedy = "write run = \"NAME\" next to it";
                return Err(item.error("no run is named for this row", remedy));
            }
            return Ok(Selection { row: Some(Label::read(item)?), ..self.clone() });
        }
        let remedy = "write the label of a row, or a table: { row = \"ext4\", phase = \"create\" }";
        let node = item.table(remedy)?;
        node.keys(KEYS)?;
        Selection::read(&node, self, runs)
    }

    /// Returns the selection with this unit, unless it already has one.
    pub fn with_unit(self, unit: Unit) -> Selection {
        Selection { unit: Some(self.unit.unwrap_or(unit)), ..self }
    }

    /// Returns the selection with a row whose label is known to be valid.
    pub fn with_row(&self, label: &str) -> Selection {
        Selection { row: Some(Label { text: label.to_string(), offset: None }), ..self.clone() }
    }

    /// Returns the selection with a run that is known to exist.
    pub fn with_run(&self, name: &str) -> Selection {
        Selection { run: Some(name.to_string()), ..self.clone() }
    }

    /// Returns the name of the run, which by default is that of the only run.
    pub fn run(&self, node: &Node<'_>, runs: &[Run]) -> Result<String, FileError> {
        let names = || runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
        let name = self.run.clone().or_else(|| only_run(runs));
        name.ok_or_else(|| {
            node.error(format!("{} lacks 'run'", node.what), format!("valid values: {}", names()))
        })
    }

    /// Returns the selected cell; errors refer to `node`.
    pub fn cell(&self, node: &Node<'_>, runs: &[Run]) -> Result<Cell, FileError> {
        let missing =
            |key: &str, remedy: &str| node.error(format!("{} lacks '{key}'", node.what), remedy);
        let run = self.run(node, runs)?;
        if let Some(Label { text, offset: Some(offset) }) = &self.row {
            check_row(text, &run, runs).map_err(|hint| {
                node.source.error(*offset, format!("run '{run}' has no row '{text}'"), hint)
            })?;
        }
        let figure = self.figure.clone();
        let figure =
            figure.ok_or_else(|| missing("figure", "write figure = \"returned\", for example"))?;
        let unit = self.unit.unwrap_or(figure.usual_unit());
        if unit.dimension != figure.dimension() {
            return Err(node.error(
                format!("'{}' cannot be given in {}", figure.name(), unit.name),
                format!("its unit is {}, for example", figure.usual_unit().name),
            ));
        }
        if self.op.is_some() && !figure.is_of_an_op() {
            return Err(node.error(
                format!("'{}' belongs to a phase, not to an op", figure.name()),
                "remove 'op', or use the figure rate, p50, p90, p99, p999 or max",
            ));
        }
        let (phases, phases_offset) = self.phases.clone().ok_or_else(|| {
            let workload = runs.iter().find(|known| known.name == run).map(|run| &run.workload);
            let workload = workload.map_or("NAME", String::as_str);
            missing("phase", &format!("fsdyno show workload {workload} lists the phases"))
        })?;
        let is_summable = match figure.dimension() {
            Dimension::Rate | Dimension::Flow | Dimension::Space => false,
            _ => !matches!(figure, Figure::Latency(_)),
        };
        if phases.len() > 1 && !is_summable {
            return Err(node.error(
                format!("'{}' cannot be added up over several phases", figure.name()),
                "name one phase",
            ));
        }
        Ok(Cell {
            row: self.row.clone().ok_or_else(|| missing("row", "write row = \"LABEL\""))?.text,
            run,
            phases,
            figure,
            op: self.op,
            at: self.at.clone(),
            unit,
            spot: node.spot(),
            phase_spot: node.source.spot(phases_offset),
        })
    }
}

/// Reads the name of a unit.
pub(super) fn unit(item: &Item<'_>) -> Result<Unit, FileError> {
    let name = item.text()?;
    Unit::named(&name).map_err(|hint| item.error(format!("there is no unit '{name}'"), hint))
}

/// Returns the name of the only run, if there is exactly one.
fn only_run(runs: &[Run]) -> Option<String> {
    match runs {
        [run] => Some(run.name.clone()),
        _ => None,
    }
}

/// Reads one or more phases. A repeated phase is an error, because it would be counted twice.
fn phases(item: &Item<'_>) -> Result<Vec<String>, FileError> {
    let phases = item.texts()?;
    if let Some(index) = (1..phases.len()).find(|index| phases[..*index].contains(&phases[*index]))
    {
        let problem = format!("phase '{}' is named twice", phases[index]);
        return Err(item.error(problem, "a list is added up; name each once"));
    }
    Ok(phases)
}

/// Checks that a run has a row. A run that names no file systems is checked later, against its plans.
pub(super) fn check_row(label: &str, run: &str, runs: &[Run]) -> Result<(), String> {
    let rows = runs.iter().find(|known| known.name == run).and_then(Run::all_rows);
    match rows {
        Some(rows) if !rows.iter().any(|known| known == label) => {
            Err(suggest::hint(label, rows.iter().map(String::as_str).collect::<Vec<_>>()))
        }
        _ => Ok(()),
    }
}
