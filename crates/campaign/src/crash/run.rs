//! The crash tests of a request: each of its file systems, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_crash::{AtomicUnit, DiskFault, ROWS_FILE, Row};
use fsdyno_record::units::counted;
use fsdyno_record::{Build, Plan};
use fsdyno_venue::recover::CUTS_PER_GUEST;
use fsdyno_venue::{Inputs, LabVenue, Venue, VenueError};

use super::clock::Clock;
use super::folder::{ResultFolder, file_names};
use super::part::Part;
use super::test::jobs;
use super::{CrashTest, check, job, stored};
use crate::failure::Exit;
use crate::notes::say;
use crate::speed::{CrashEstimate, Speeds};
use crate::target::{self, TargetRequest};
use crate::time_left::Planned;
use crate::{Cell, Failure, RunSpec, labs, read_inputs};

/// The settings of a crash test.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// The number of crash points per file system.
    pub count: u32,
    /// The seed of the trial and of its crash points.
    pub seed: u64,
    /// The fault of the disk.
    pub disk: DiskFault,
    /// The atomic write unit; `None` means the disk's physical sector.
    pub tear: Option<AtomicUnit>,
    /// Number of guests that recover at the same time; `None` means one per processor.
    pub jobs: Option<u16>,
}

impl Cuts {
    /// Returns the crash test with these settings.
    pub fn test<'a>(
        self,
        venue: &'a LabVenue,
        stop: &'a Arc<AtomicBool>,
        build: Option<&'a Build>,
    ) -> CrashTest<'a> {
        let Cuts { count, disk, tear, jobs, .. } = self;
        CrashTest { venue, stop, build, cuts: count, disk, tear, jobs, clock: None }
    }
}

/// The part of a message about a stored row of a different command.
const OTHER_COMMAND: &str = "from another command (another workload, other options, seed or number of cuts); \
                     repeat that one to resume it, or";

/// A resolved request.
pub struct CrashRun {
    spec: RunSpec,
    cuts: Cuts,
    requests: Vec<TargetRequest>,
    cells: Vec<Cell>,
    inputs: Inputs,
}

/// The rows of a request, and the failure that ended it early, if any.
pub struct Tested {
    /// The rows; if a file system failed, those before it.
    pub rows: Vec<Row>,
    /// The failure, if any.
    pub failed: Option<Failure>,
}

impl CrashRun {
    /// Resolves a request, and checks all of it.
    ///
    /// # Errors
    /// The first value that is invalid; a trial that cannot be crash-tested.
    pub fn resolve(spec: RunSpec, cuts: Cuts) -> Result<CrashRun, Failure> {
        let mut requests = target::parse_targets(&spec)?;
        let inputs = match requests.first() {
            Some(request) => read_inputs(&request.matrix_request)?,
            None => Inputs::default(),
        };
        requests.iter_mut().for_each(|request| request.matrix_request.inputs = inputs.clone());
        let cells = target::cells(&requests)?;
        cells.iter().try_for_each(|cell| check(&cell.plan, &inputs))?;
        Ok(CrashRun { spec, cuts, requests, cells, inputs })
    }

    /// Describes the planned tests, one line for each file system, and their time.
    pub fn plan(&self) -> String {
        let tests = self.cells.iter().map(|cell| (cell, self.cuts.count as usize));
        let time = Speeds::load().estimate_crash(tests, self.jobs());
        let time = time.map(|estimate| format!("time: {estimate}\n")).unwrap_or_default();
        let lines = self.cells.iter().map(|cell| {
            let disk = cell.plan.disk_name().unwrap_or_default();
            let (label, workload) = (&cell.plan.label, &cell.plan.workload.name);
            let (calls, tear) = (cell.ops(), self.tear(cell));
            let cuts = counted(self.cuts.count as usize, "crash point");
            format!("{label}: {workload} once ({calls} calls) on {disk}, {cuts}, torn at {tear}\n")
        });
        lines.collect::<String>() + &time
    }

    /// Tests everything that is not stored yet, and writes the rows and the findings to a folder.
    ///
    /// # Errors
    /// A missing requirement, stored rows of a different command, or a failure before the first result.
    pub fn test(
        mut self,
        folder: &Path,
        stop: &Arc<AtomicBool>,
        build: Option<&Build>,
    ) -> Result<Tested, Failure> {
        let mut results = ResultFolder::open(folder)?;
        let (venue, known) = labs::lab_venue(&self.spec, folder, stop)?;
        let venue = venue.with_inputs(self.inputs.clone());
        self.requests.iter_mut().for_each(|request| request.place = known.clone());
        self.cells = target::cells(&self.requests)?;
        let names = file_names(self.cells.iter().map(|cell| cell.plan.label.as_str()));
        let identity = |plan: &Plan| Ok(venue.identity(plan)?.map(|identity| identity.lab_id));
        let stored = match results.is_empty() {
            true => Vec::new(),
            false => stored::read(&folder.join(ROWS_FILE))?,
        };
        let mut rows = self.stored(folder, stored, identity)?;
        let mut part = self.part(folder, identity, build)?.filter(|(at, _)| rows[*at].is_none());
        let clock = self.clock(&rows, part.as_ref());
        let test = CrashTest { clock: Some(&clock), ..self.cuts.test(&venue, stop, build) };
        let (mut skipped, mut failed): (Option<Failure>, Option<Failure>) = (None, None);
        for (index, (cell, name)) in self.cells.iter().zip(&names).enumerate() {
            if let Some(failure) = missing_requirement(rows[index].as_ref(), cell, identity)? {
                say(&format!("fsdyno: {} is skipped: {failure}", cell.plan.label));
                rows[index] = Some(self.skipped_row(cell, &failure, build));
                clock.skipped(index);
                skipped.get_or_insert(failure);
            } else if let Some(row) = &rows[index] {
                let cuts = counted(row.outcomes.len(), "crash point");
                say(&format!("fsdyno: {}: {cuts} are stored", row.label));
            } else {
                let part = part.take_if(|(at, _)| *at == index).map(|(_, row)| row);
                clock.started(index);
                match self.row(folder, cell, part, &test) {
                    Ok(row) => rows[index] = Some(row),
                    // The finished rows are kept and printed before the error is returned.
                    Err(failure) => {
                        failed = Some(failure);
                        break;
                    }
                }
                clock.ended();
            }
            if let Some(row) = rows[index].as_ref().filter(|_| !none_ran(&rows)) {
                results.write(&finished_rows(&rows))?;
                results.write_findings(name, row, cell.deadline)?;
            }
            if rows[index].as_ref().is_some_and(|row| row.skipped.is_none()) {
                Part::remove_of(folder, &cell.plan);
            }
        }
        if let Some(failure) = failed.take_if(|_| none_ran(&rows) && !results.has_part()) {
            return Err(failure);
        }
        match skipped.filter(|_| none_ran(&rows) && failed.is_none()) {
            Some(failure) => Err(failure),
            None => Ok(Tested { rows: finished_rows(&rows), failed }),
        }
    }

    /// Runs the rest of a row, and stores its outcomes in the folder as they are known.
    fn row(
        &self,
        folder: &Path,
        cell: &Cell,
        part: Option<Row>,
        test: &CrashTest<'_>,
    ) -> Result<Row, Failure> {
        let (count, label) = (self.cuts.count, &cell.plan.label);
        let job = job(&cell.plan, self.cuts.seed, cell.deadline);
        let outcomes = part.map(|row| row.outcomes).unwrap_or_default();
        let store = |row: Row| Part::new(count, row).write(folder);
        test.rest_of_row(&job, outcomes, &store).inspect_err(|failure| {
            let part = Part::read(folder).ok().flatten();
            match part.filter(|part| part.is_of(&cell.plan)) {
                Some(part) => say(&format!(
                    "fsdyno: {label}: {} of {count} crash points are stored; a resumed run repeats the trial and \
                     continues with the others",
                    part.row.outcomes.len()
                )),
                None if failure.exit == Exit::Stopped => say(&format!(
                    "fsdyno: {label}: no crash point is stored: a guest's crash points, up to {CUTS_PER_GUEST}, are \
                     stored when all of them are done; a resumed run begins this file system again"
                )),
                None => {}
            }
        })
    }

    /// Reports the estimated time of the rows that are not stored yet, and returns the clock of all rows.
    fn clock(&self, rows: &[Option<Row>], part: Option<&(usize, Row)>) -> Clock {
        let (speeds, jobs) = (Speeds::load(), self.jobs());
        let done = |index: usize| {
            part.filter(|(at, _)| *at == index).map_or(0, |(_, row)| row.outcomes.len())
        };
        let left = |index: usize| (self.cuts.count as usize).saturating_sub(done(index));
        let todo: Vec<usize> = (0..rows.len()).filter(|index| rows[*index].is_none()).collect();
        let estimate_of = |tests: &[usize]| {
            let tests = tests.iter().map(|index| (&self.cells[*index], left(*index)));
            speeds.estimate_crash(tests, jobs)
        };
        if let Some(estimate) = estimate_of(&todo) {
            say(&format!("fsdyno: {}, {estimate}", counted(todo.len(), "crash test")));
        }
        let planned = todo.iter().map(|index| {
            let expected = estimate_of(&[*index]).filter(CrashEstimate::is_measured);
            let expected = expected.map(|estimate| estimate.time);
            Planned { cell: *index, ops: left(*index) as u64, expected, work: None }
        });
        Clock::new(&planned.collect::<Vec<_>>())
    }

    /// Returns the number of guests that recover at the same time.
    fn jobs(&self) -> usize {
        jobs(self.cuts.jobs)
    }

    /// Returns the stored part of an unfinished row, with the index of its cell.
    ///
    /// # Errors
    /// A part that cannot be read, or of another command or lab.
    fn part(
        &self,
        folder: &Path,
        identity: impl Fn(&Plan) -> Result<Option<String>, VenueError>,
        build: Option<&Build>,
    ) -> Result<Option<(usize, Row)>, Failure> {
        let Some(part) = Part::read(folder)? else { return Ok(None) };
        let row = part.row;
        let is_row_of = |cell: &Cell| part.cuts == self.cuts.count && self.has_plan_of(&row, cell);
        let index = self.cells.iter().position(is_row_of);
        let index = index.ok_or_else(|| refusal(folder, &row, OTHER_COMMAND))?;
        match identity(&self.cells[index].plan) {
            Ok(lab_id) if lab_id == row.lab_id => {}
            Ok(_) => return Err(refusal(folder, &row, "from another lab;")),
            // This row is skipped.
            Err(VenueError::Missing(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if row.has_old_oracle() || row.build.as_ref() != build {
            let (label, points) = (&row.label, counted(row.outcomes.len(), "crash point"));
            say(&format!(
                "fsdyno: {label}: {points} were judged by another build of fsdyno; this file system begins again"
            ));
            return Ok(None);
        }
        Ok(Some((index, row)))
    }

    /// Returns each cell's row among the stored ones, if it has one; skipped rows are tried again.
    fn stored(
        &self,
        folder: &Path,
        stored: Vec<Row>,
        identity: impl Fn(&Plan) -> Result<Option<String>, VenueError>,
    ) -> Result<Vec<Option<Row>>, Failure> {
        let mut rows: Vec<Option<Row>> = self.cells.iter().map(|_| None).collect();
        for row in stored {
            let is_row_of = |cell: &Cell| self.is_row_of(&row, cell);
            let index = self.cells.iter().position(is_row_of);
            let index = index.ok_or_else(|| refusal(folder, &row, OTHER_COMMAND))?;
            if row.skipped.is_some() {
                continue;
            }
            if row.has_old_oracle() {
                let how = "judged by an older, more lenient oracle; to judge it again,";
                return Err(refusal(folder, &row, how));
            }
            match identity(&self.cells[index].plan) {
                Ok(lab_id) if row.lab_id == lab_id => {}
                Ok(_) => return Err(refusal(folder, &row, "from another lab;")),
                // The requirement was not missing when the row was stored, and the row is complete.
                Err(VenueError::Missing(why)) => {
                    let label = &row.label;
                    say(&format!(
                        "fsdyno: {label}: cannot check that the stored row is from this lab: {why}"
                    ));
                }
                Err(error) => return Err(error.into()),
            }
            rows[index] = Some(row);
        }
        Ok(rows)
    }

    /// Tests whether a stored row is that of a cell under these settings.
    fn is_row_of(&self, row: &Row, cell: &Cell) -> bool {
        // A trial without a timed phase has no crash points.
        let is_complete = row.outcomes.is_empty() || row.outcomes.len() == self.cuts.count as usize;
        is_complete && self.has_plan_of(row, cell)
    }

    /// Tests whether a row, which may be incomplete, has the plan of a cell and these settings.
    fn has_plan_of(&self, row: &Row, cell: &Cell) -> bool {
        let Cuts { seed, disk, .. } = self.cuts;
        let stored =
            (row.label.as_str(), row.plan.hash.as_str(), row.seed, row.disk, row.atomic_unit);
        let (label, hash) = (cell.plan.label.as_str(), cell.plan.hash.as_str());
        stored == (label, hash, seed, disk, self.tear(cell))
    }

    /// Returns the requested atomic write unit, or else the disk's physical sector.
    fn tear(&self, cell: &Cell) -> AtomicUnit {
        self.cuts.tear.unwrap_or_else(|| AtomicUnit::of(&cell.plan))
    }

    /// Creates the row of a trial that cannot run here.
    fn skipped_row(&self, cell: &Cell, failure: &Failure, build: Option<&Build>) -> Row {
        let reason = failure.message.clone();
        let row = Row::skipped(&cell.plan, self.cuts.seed, self.cuts.disk, reason);
        Row { atomic_unit: self.tear(cell), build: build.cloned(), ..row }
    }
}

/// Returns the reason why a trial cannot run here; `None` if it can, or if it need not because its row is stored.
fn missing_requirement(
    stored: Option<&Row>,
    cell: &Cell,
    identity: impl Fn(&Plan) -> Result<Option<String>, VenueError>,
) -> Result<Option<Failure>, Failure> {
    if stored.is_some() {
        return Ok(None);
    }
    if let Some(reason) = &cell.skip {
        return Ok(Some(Failure::invalid_use(reason.clone())));
    }
    match identity(&cell.plan) {
        Ok(_) => Ok(None),
        Err(error @ VenueError::Missing(_)) => Ok(Some(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Returns the failure for a folder with a row that cannot be resumed.
fn refusal(folder: &Path, row: &Row, how: &str) -> Failure {
    let (folder, label) = (folder.display(), &row.label);
    Failure::invalid_use(format!("'{folder}' has {label} {how} give a new folder with --out"))
}

fn finished_rows(rows: &[Option<Row>]) -> Vec<Row> {
    rows.iter().flatten().cloned().collect()
}

fn none_ran(rows: &[Option<Row>]) -> bool {
    rows.iter().flatten().all(|row| row.skipped.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::matrix;
    use crate::matrix_request::{LabPlace, MatrixRequest, Place};

    /// Creates a request for ext4 and XFS.
    fn run() -> CrashRun {
        let matrix_request = MatrixRequest {
            workloads: vec!["maildir".into()],
            filesystems: vec!["ext4".into(), "xfs".into()],
            threads: 1,
            ..MatrixRequest::default()
        };
        let place = Place::Lab(LabPlace::with_defaults("hdd-7200", "6.1.0"));
        let cells = matrix(&matrix_request, &place).unwrap();
        let cuts = Cuts { count: 0, seed: 1, disk: DiskFault::Honest, tear: None, jobs: None };
        let (spec, inputs) = (RunSpec::default(), Inputs::default());
        CrashRun { spec, cuts, requests: Vec::new(), cells, inputs }
    }

    fn row(run: &CrashRun, at: usize) -> Row {
        let row = Row::new(&run.cells[at].plan, 1, run.cuts.disk, Default::default(), Vec::new());
        Row { lab_id: Some("here".into()), ..row }
    }

    fn labels(rows: &[Option<Row>]) -> Vec<Option<&str>> {
        rows.iter().map(|row| row.as_ref().map(|row| row.label.as_str())).collect()
    }

    fn missing(_: &Plan) -> Result<Option<String>, VenueError> {
        Err(VenueError::Missing("no mkfs".into()))
    }

    fn here(_: &Plan) -> Result<Option<String>, VenueError> {
        Ok(Some("here".into()))
    }

    #[test]
    fn a_finished_row_is_kept_although_its_tool_is_missing_now() {
        let run = run();
        let rows = run.stored(Path::new("out"), vec![row(&run, 1)], missing).unwrap();
        assert_eq!(labels(&rows), [None, Some("xfs")]);
        let needs = |at: usize| missing_requirement(rows[at].as_ref(), &run.cells[at], missing);
        assert_eq!(needs(0).unwrap().unwrap().message, "no mkfs");
        assert!(needs(1).unwrap().is_none());
    }

    #[test]
    fn a_row_that_cannot_be_resumed_is_refused_with_the_reason() {
        let run = run();
        let refused = |row: Row| run.stored(Path::new("out"), vec![row], here).unwrap_err().message;
        let stored = || row(&run, 0);
        for (row, expected) in [
            (
                Row { lab_id: Some("there".into()), ..stored() },
                "has ext4 from another lab; give a new",
            ),
            (Row { oracle: 1, ..stored() }, "has ext4 judged by an older, more lenient oracle"),
            (Row { seed: 2, ..stored() }, "has ext4 from another command"),
        ] {
            assert!(refused(row).contains(expected), "{expected}");
        }
        let skipped = Row { skipped: Some("no mkfs".into()), ..stored() };
        let rows = run.stored(Path::new("out"), vec![skipped], here).unwrap();
        assert_eq!(labels(&rows), [None, None]);
    }
}
