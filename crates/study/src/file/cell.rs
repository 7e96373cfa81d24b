//! A cell: one figure of one row of one run, as tables and claims name it.

use std::collections::BTreeMap;

use fsdyno_record::{OpKind, suggest};

use super::error::{FileError, Spot};
use super::figure::{Figure, Op, Unit};
use super::read::{Item, Node};
use super::run::Run;

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The run.
    pub run: String,
    /// The row: the label of a file system.
    pub row: String,
    /// The phases, whose figures are added.
    pub phases: Vec<String>,
    /// What is read of them.
    pub figure: Figure,
    /// The op that it is of, where the file names one.
    pub op: Option<Op>,
    /// The parameters that the trial has to have, such as `files = 10000`: the point of a curve.
    pub at: BTreeMap<String, String>,
    /// The unit that it is told in.
    pub unit: Unit,
    /// Where it stands in the file.
    pub spot: Spot,
}

/// The keys that say which cell is meant.
pub(super) const KEYS: &[&str] = &["run", "row", "phase", "figure", "op", "at", "unit"];

/// What is said of a cell, here or around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    run: Option<String>,
    row: Option<String>,
    phases: Option<Vec<String>>,
    figure: Option<Figure>,
    op: Option<Op>,
    at: BTreeMap<String, String>,
    unit: Option<Unit>,
}

impl Said {
    /// That of a table over what is said around it.
    pub fn read(node: &Node<'_>, around: &Said, runs: &[Run]) -> Result<Said, FileError> {
        let mut said = around.clone();
        if let Some(item) = node.get("run") {
            let name = item.text()?;
            if !runs.iter().any(|run| run.name == name) {
                let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
                let hint = suggest::hint(&name, names);
                return Err(item.error(format!("there is no run '{name}'"), hint));
            }
            said.run = Some(name);
        }
        if let Some(item) = node.get("figure") {
            let name = item.text()?;
            let wrong = |hint| item.error(format!("there is no figure '{name}'"), hint);
            said.figure = Some(Figure::named(&name).map_err(wrong)?);
        }
        if let Some(item) = node.get("op") {
            let name = item.text()?;
            let names: Vec<&str> = OpKind::ALL.iter().map(|op| op.name()).collect();
            let found = OpKind::ALL.iter().find(|op| op.name() == name).copied();
            let wrong =
                || item.error(format!("there is no op '{name}'"), suggest::hint(&name, names));
            said.op = Some(found.ok_or_else(wrong)?);
        }
        if let Some(item) = node.get("phase") {
            said.phases = Some(item.texts()?);
        }
        if let Some(item) = node.get("at") {
            let table = item.table("write the point's parameters: at = { files = 10000 }")?;
            for (key, item) in table.entries() {
                said.at.insert(key, item.typed()?);
            }
        }
        if let Some(item) = node.get("unit") {
            said.unit = Some(unit(&item)?);
        }
        if let Some(item) = node.get("row") {
            said.row = Some(row(&item, &said.run(node, runs)?, runs)?);
        }
        Ok(said)
    }

    /// The same of another row: its label, or a table that says what differs.
    pub fn other(&self, item: &Item<'_>, runs: &[Run]) -> Result<Said, FileError> {
        if item.value.as_str().is_some() {
            let name = self.run.clone().or_else(|| only(runs));
            let Some(run) = name else {
                return Err(
                    item.error("no run is named for this row", "write run = \"NAME\" beside it")
                );
            };
            return Ok(Said { row: Some(row(item, &run, runs)?), ..self.clone() });
        }
        let right = "write the label of a row, or a table: { row = \"ext4\", phase = \"create\" }";
        let node = item.table(right)?;
        node.keys(KEYS)?;
        Said::read(&node, self, runs)
    }

    /// The unit that is said.
    pub fn in_unit(self, unit: Unit) -> Said {
        Said { unit: Some(self.unit.unwrap_or(unit)), ..self }
    }

    /// The same of a row by its label, which is known to be right.
    pub fn of_row(&self, label: &str) -> Said {
        Said { row: Some(label.to_string()), ..self.clone() }
    }

    /// The run's name: that of the only one where none is said.
    pub fn run(&self, node: &Node<'_>, runs: &[Run]) -> Result<String, FileError> {
        let names = || runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", ");
        let name = self.run.clone().or_else(|| only(runs));
        name.ok_or_else(|| {
            node.error(format!("{} lacks 'run'", node.what), format!("there are: {}", names()))
        })
    }

    /// The cell that it is; `node` is what lacks what is not said.
    pub fn cell(&self, node: &Node<'_>, runs: &[Run]) -> Result<Cell, FileError> {
        let lacks =
            |key: &str, right: &str| node.error(format!("{} lacks '{key}'", node.what), right);
        let run = self.run(node, runs)?;
        let figure = self.figure.clone();
        let figure =
            figure.ok_or_else(|| lacks("figure", "write figure = \"returned\", for example"))?;
        let unit = self.unit.unwrap_or(figure.usual_unit());
        if unit.dimension != figure.dimension() {
            return Err(node.error(
                format!("'{}' cannot be told in {}", figure.name(), unit.name),
                format!("its unit is {}, for example", figure.usual_unit().name),
            ));
        }
        if self.op.is_some() && !figure.is_of_an_op() {
            return Err(node.error(
                format!("'{}' is of a phase and not of an op", figure.name()),
                "leave 'op' out, or take the figure rate, p50, p90, p99, p999 or max",
            ));
        }
        let phases = self.phases.clone().ok_or_else(|| {
            let workload = runs.iter().find(|known| known.name == run).map(|run| &run.workload);
            let workload = workload.map_or("NAME", String::as_str);
            lacks("phase", &format!("fsdyno show workload {workload} has the phases"))
        })?;
        let summed = !matches!(figure.dimension(), super::Dimension::Rate | super::Dimension::Flow);
        if phases.len() > 1 && (!summed || matches!(figure, Figure::Latency(_))) {
            return Err(node.error(
                format!("'{}' of several phases is no sum", figure.name()),
                "name one phase",
            ));
        }
        Ok(Cell {
            row: self.row.clone().ok_or_else(|| lacks("row", "write row = \"LABEL\""))?,
            run,
            phases,
            figure,
            op: self.op,
            at: self.at.clone(),
            unit,
            spot: node.spot(),
        })
    }
}

/// A unit by its name.
pub(super) fn unit(item: &Item<'_>) -> Result<Unit, FileError> {
    let name = item.text()?;
    Unit::named(&name).map_err(|hint| item.error(format!("there is no unit '{name}'"), hint))
}

/// The name of the only run there is.
fn only(runs: &[Run]) -> Option<String> {
    match runs {
        [run] => Some(run.name.clone()),
        _ => None,
    }
}

/// A row that a run has in any of its variants.
fn row(item: &Item<'_>, run: &str, runs: &[Run]) -> Result<String, FileError> {
    let label = item.text()?;
    known_row(&label, run, runs)
        .map_err(|hint| item.error(format!("run '{run}' has no row '{label}'"), hint))?;
    Ok(label)
}

/// Whether a run has a row; where it names no file systems, that is only known when it is planned.
pub(super) fn known_row(label: &str, run: &str, runs: &[Run]) -> Result<(), String> {
    let rows = runs.iter().find(|known| known.name == run).and_then(Run::all_rows);
    match rows {
        Some(rows) if !rows.iter().any(|known| known == label) => {
            Err(suggest::hint(label, rows.iter().map(String::as_str).collect::<Vec<_>>()))
        }
        _ => Ok(()),
    }
}
