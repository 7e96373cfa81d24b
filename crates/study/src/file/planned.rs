//! Checks of a study file that need its plans: rows that the file does not name, phases, ops, and points of curves.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::plan::KernelPlan;
use fsdyno_record::suggest;
use fsdyno_report::counted;

use super::StudyFile;
use super::cell::Cell;
use super::claim::{Check, Test};
use super::error::FileError;
use super::run::Variant;
use fsdyno_campaign::matrix_request;

/// The plans of one run in one variant.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'a> {
    /// Name of the run.
    pub run: &'a str,
    /// The variant.
    pub variant: Variant,
    /// Its cells, without seeds.
    pub cells: &'a [matrix_request::Cell],
}

/// Checks that the plans contain each cell of a claim or a table, and that the workload has each parameter that a
/// scale divides.
///
/// # Errors
/// The first missing item, with the existing ones.
pub fn check_planned(file: &StudyFile, planned: &[Planned<'_>]) -> Result<(), FileError> {
    for run in &file.runs {
        let mut cells =
            planned.iter().filter(|plans| plans.run == run.name).flat_map(|plans| plans.cells);
        let Some(first) = cells.next() else { continue };
        let params = &first.plan.workload.params;
        if let Some(key) = run.scales.iter().find(|key| !params.contains_key(*key)) {
            let names: Vec<&str> = params.keys().map(String::as_str).collect();
            let problem = format!("workload '{}' has no parameter '{key}'", run.workload);
            return Err(file.error(run.scales_spot, problem, suggest::hint(key, names)));
        }
    }
    for claim in &file.claims {
        let Test::Check(check) = &claim.test else { continue };
        let curve = matches!(check, Check::Exponent { .. });
        for cell in check.cells() {
            check_cell(file, planned, cell, curve)?;
        }
    }
    for table in &file.published {
        for column in table.columns.iter().filter_map(|column| column.measured.as_ref().ok()) {
            for row in &table.rows {
                check_cell(file, planned, &column.cell_of(&row.label), false)?;
            }
        }
    }
    for column in file.factors.iter().flat_map(|table| &table.columns) {
        for row in file.run(column.run()).and_then(|run| run.all_rows()).unwrap_or_default() {
            check_cell(file, planned, &column.cell_of(&row), false)?;
        }
    }
    Ok(())
}

/// Checks that the plans contain a cell in any variant.
fn check_cell(
    file: &StudyFile,
    planned: &[Planned<'_>],
    cell: &Cell,
    curve: bool,
) -> Result<(), FileError> {
    let run_plans = || planned.iter().filter(|plans| plans.run == cell.run);
    if run_plans().next().is_none() {
        // Only some runs were requested.
        return Ok(());
    }
    let error = |problem: String, remedy: String| Err(file.error(cell.spot, problem, remedy));
    let (run, row) = (&cell.run, &cell.row);
    let rows: Vec<&matrix_request::Cell> = run_plans()
        .flat_map(|plans| plans.cells)
        .filter(|planned| planned.plan.label == *row)
        .collect();
    if rows.is_empty() {
        let all_variants =
            file.run(run).is_some_and(|run| run.variants().len() == run_plans().count());
        if !all_variants {
            return Ok(());
        }
        let labels = run_plans()
            .flat_map(|plans| plans.cells)
            .map(|cell| cell.plan.label.as_str())
            .collect();
        return error(format!("run '{run}' has no row '{row}'"), hint(row, &labels));
    }
    let planned_cell = PlannedCell { file, cell, rows };
    planned_cell.check_phases()?;
    planned_cell.check_op()?;
    planned_cell.check_at()?;
    planned_cell.check_points(run_plans(), curve)
}

/// A cell of a claim or table, and the planned cells with its run and row.
struct PlannedCell<'a> {
    file: &'a StudyFile,
    cell: &'a Cell,
    rows: Vec<&'a matrix_request::Cell>,
}

impl PlannedCell<'_> {
    fn fail(&self, problem: String, remedy: String) -> Result<(), FileError> {
        Err(self.file.error(self.cell.spot, problem, remedy))
    }

    /// Checks that its phases exist.
    fn check_phases(&self) -> Result<(), FileError> {
        let PlannedCell { file, cell, rows } = self;
        let run = &cell.run;
        for phase in &cell.phases {
            let found = |planned: &&matrix_request::Cell| {
                planned.phases.iter().any(|(name, _)| name == phase)
            };
            if !rows.iter().any(found) {
                let names = rows.iter().flat_map(|row| &row.phases).map(|(name, _)| name.as_str());
                let workload = &rows[0].plan.workload.name;
                let problem = format!("run '{run}' has no phase '{phase}' (workload {workload})");
                return Err(file.error(cell.phase_spot, problem, hint(phase, &names.collect())));
            }
        }
        Ok(())
    }

    /// Checks that its phases have its op.
    fn check_op(&self) -> Result<(), FileError> {
        let PlannedCell { cell, rows, .. } = self;
        let run = &cell.run;
        if let Some(op) = cell.op {
            let phases = rows.iter().flat_map(|row| &row.phases);
            let counts: Vec<_> = phases.filter(|(name, _)| cell.phases.contains(name)).collect();
            // The ops of a phase that is limited by time or space are not known in advance.
            let is_unknown = counts.iter().any(|(_, counts)| counts.is_empty());
            if !is_unknown
                && !counts.iter().any(|(_, counts)| counts.get(&op).is_some_and(|n| *n > 0))
            {
                let ops: BTreeSet<&str> = counts
                    .iter()
                    .flat_map(|(_, counts)| counts.keys())
                    .map(|op| op.name())
                    .collect();
                let problem =
                    format!("phase '{}' of run '{run}' has no {op}", cell.phases.join(", "));
                return self.fail(problem, hint(op.name(), &ops));
            }
        }
        Ok(())
    }

    /// Checks that the plans contain its point.
    fn check_at(&self) -> Result<(), FileError> {
        let PlannedCell { cell, rows, .. } = self;
        let run = &cell.run;
        for (key, value) in &cell.at {
            let param = |cell: &&matrix_request::Cell| cell.plan.workload.params.get(key).cloned();
            let values: BTreeSet<String> = rows.iter().filter_map(param).collect();
            if values.is_empty() {
                let names = rows[0].plan.workload.params.keys().map(String::as_str).collect();
                return self
                    .fail(format!("run '{run}' has no parameter '{key}'"), hint(key, &names));
            }
            if !values.contains(value) {
                let values: Vec<String> = values.into_iter().collect();
                let problem = format!("run '{run}' has no point with {key}={value}");
                return self.fail(problem, format!("valid values: {}", values.join(", ")));
            }
        }
        Ok(())
    }

    /// Checks that the cell is a single point, or for a curve that it has enough points.
    fn check_points<'p>(
        &self,
        run_plans: impl Iterator<Item = &'p Planned<'p>>,
        curve: bool,
    ) -> Result<(), FileError> {
        let cell = self.cell;
        let (run, row) = (&cell.run, &cell.row);
        let points = |planned: &Planned<'_>| {
            let matches = |candidate: &&matrix_request::Cell| {
                let params = &candidate.plan.workload.params;
                candidate.plan.label == *row
                    && cell.at.iter().all(|(key, value)| params.get(key) == Some(value))
            };
            // Each kernel is judged separately, and has all points.
            let mut by_kernel: BTreeMap<Option<&KernelPlan>, BTreeSet<&str>> = BTreeMap::new();
            for cell in planned.cells.iter().filter(matches) {
                let kernel = cell.plan.lab().map(|lab| &lab.kernel);
                by_kernel.entry(kernel).or_default().insert(cell.plan.hash.as_str());
            }
            by_kernel.values().map(BTreeSet::len).max().unwrap_or(0)
        };
        let max_points = run_plans.map(points).max().unwrap_or(0);
        match curve {
            true if max_points < MIN_POINTS => self.fail(
                format!(
                    "run '{run}' has {}, but an exponent requires {MIN_POINTS}",
                    counted(max_points, "point")
                ),
                "give it a curve: set = { curve = \"1000..16000x2\" }".to_string(),
            ),
            false if max_points > 1 => self.fail(
                format!(
                    "run '{run}' is a curve of {max_points} points, and this cell does not select one of them"
                ),
                "write at = { files = 10000 }, for example".to_string(),
            ),
            _ => Ok(()),
        }
    }
}

/// Suggests a known name.
fn hint(given: &str, names: &BTreeSet<&str>) -> String {
    suggest::hint(given, names.iter().copied())
}

/// Minimum number of points for an exponent: two points always lie on a line.
const MIN_POINTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_campaign::{DEFAULT_DEADLINE, LabPlace, MatrixRequest, Place, matrix};

    const EXAMPLE: &str = include_str!("example.toml");

    /// Returns the error for the example with `from` replaced by `to`, if only its run `tarball` is planned.
    fn error_with(from: &str, to: &str) -> String {
        assert!(EXAMPLE.contains(from), "the example has no {from}");
        let file = StudyFile::parse("my.toml", &EXAMPLE.replacen(from, to, 1)).unwrap();
        let matrix_request = MatrixRequest {
            deadline: DEFAULT_DEADLINE,
            workloads: vec!["tarball".into()],
            filesystems: ["ext4-128=ext4 -I 128", "ext3-128=ext3 -I 128"].map(String::from).into(),
            threads: 1,
            ..MatrixRequest::default()
        };
        let cells =
            matrix(&matrix_request, &Place::Lab(LabPlace::with_defaults("hdd-7200", "6.1.0")))
                .unwrap();
        let planned = Planned { run: "tarball", variant: Variant::Historical, cells: &cells };
        check_planned(&file, &[planned]).unwrap_err().to_string()
    }

    /// Returns `LINE:COLUMN` of `part` in the first line of the example that contains `line`.
    fn position(line: &str, part: &str) -> String {
        let (index, line) =
            EXAMPLE.lines().enumerate().find(|(_, text)| text.contains(line)).unwrap();
        format!("{}:{}", index + 1, line[..line.find(part).unwrap()].chars().count() + 1)
    }

    #[test]
    fn an_unknown_phase_is_reported_at_its_own_column() {
        let from = "{ name = \"remove\", phase = \"remove\"";
        let text = error_with(from, &from.replace("phase = \"remove\"", "phase = \"remov\""));
        let expected = position(from, "\"remove\", figure");
        assert!(
            text.starts_with(&format!("my.toml:{expected}: run 'tarball' has no phase 'remov'")),
            "{text}"
        );
        let from = "row = \"ext4-128\", phase = \"remove\"";
        let text = error_with(from, "row = \"ext4-128\", phase = \"remov\"");
        assert!(text.starts_with(&format!("my.toml:{}:", position(from, "\"remove\""))), "{text}");
    }

    #[test]
    fn one_point_is_counted_in_the_singular() {
        let from = "run = \"curve\", row = \"classic\", phase = \"create\"";
        let text = error_with(from, "run = \"tarball\", row = \"ext4-128\", phase = \"remove\"");
        assert!(text.contains("run 'tarball' has 1 point, but an exponent requires 3"), "{text}");
    }
}
