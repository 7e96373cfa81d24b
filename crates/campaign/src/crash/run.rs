//! The crash tests of a request: each of its file systems, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_crash::{AtomicUnit, DiskFault, FILE, Row};
use fsdyno_record::Build;
use fsdyno_record::units::counted;
use fsdyno_venue::{Inputs, LabVenue, Venue, VenueError};

use super::{CrashTest, check, folder as result_folder, job, stored};
use crate::notes::say;
use crate::target::{self, TargetRequest};
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
    /// The atomic write unit; none is the disk's physical sector.
    pub tear: Option<AtomicUnit>,
    /// Number of guests that recover at the same time; none is one per processor.
    pub jobs: Option<u16>,
}

impl Cuts {
    /// The crash test with these settings.
    pub fn test<'a>(
        self,
        venue: &'a LabVenue,
        stop: &'a Arc<AtomicBool>,
        build: Option<&'a Build>,
    ) -> CrashTest<'a> {
        let Cuts { count, disk, tear, jobs, .. } = self;
        CrashTest { venue, stop, build, cuts: count, disk, tear, jobs }
    }
}

/// A resolved request.
pub struct CrashRun {
    spec: RunSpec,
    cuts: Cuts,
    requests: Vec<TargetRequest>,
    cells: Vec<Cell>,
    inputs: Inputs,
}

/// The rows of a request, and the failure that ended it.
pub struct Tested {
    /// The rows; if a file system failed, those before it.
    pub rows: Vec<Row>,
    /// The failure.
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
            Some(request) => read_inputs(&request.question)?,
            None => Inputs::default(),
        };
        requests.iter_mut().for_each(|request| request.question.inputs = inputs.clone());
        let cells = target::cells(&requests)?;
        cells.iter().try_for_each(|cell| check(&cell.plan, &inputs))?;
        Ok(CrashRun { spec, cuts, requests, cells, inputs })
    }

    /// Describes what would be done, a line for each file system.
    pub fn plan(&self) -> String {
        let lines = self.cells.iter().map(|cell| {
            let disk = cell.plan.disk_name().unwrap_or_default();
            let (label, workload) = (&cell.plan.label, &cell.plan.workload.name);
            let (calls, tear) = (cell.ops(), self.tear(cell));
            let cuts = counted(self.cuts.count as usize, "crash point");
            format!("{label}: {workload} once ({calls} calls) on {disk}, {cuts}, torn at {tear}\n")
        });
        lines.collect()
    }

    /// Tests everything that is not stored yet, and writes the rows and the findings to a folder.
    ///
    /// # Errors
    /// A missing requirement, stored rows of another command, or a failure before the first row.
    pub fn test(
        mut self,
        folder: &Path,
        stop: &Arc<AtomicBool>,
        build: Option<&Build>,
    ) -> Result<Tested, Failure> {
        let (venue, known) = labs::lab_venue(&self.spec, folder, stop)?;
        let venue = venue.with_inputs(self.inputs.clone());
        self.requests.iter_mut().for_each(|request| request.place = known.clone());
        self.cells = target::cells(&self.requests)?;
        let names =
            result_folder::file_names(self.cells.iter().map(|cell| cell.plan.label.as_str()));
        let mut rows = self.stored(folder, &venue)?;
        let (mut skipped, mut failed): (Option<Failure>, Option<Failure>) = (None, None);
        for (at, (cell, name)) in self.cells.iter().zip(&names).enumerate() {
            if let Some(failure) = missing_requirement(&venue, cell)? {
                say(&format!("fsdyno: {} is skipped: {failure}", cell.plan.label));
                rows[at] = Some(self.skipped_row(cell, &failure, build));
                skipped.get_or_insert(failure);
            } else {
                match self.row(rows[at].take(), cell, &self.cuts.test(&venue, stop, build)) {
                    Ok(row) => rows[at] = Some(row),
                    // The finished rows are kept and printed before the error is returned.
                    Err(failure) => {
                        failed = Some(failure);
                        break;
                    }
                }
            }
            if let Some(row) = rows[at].as_ref().filter(|_| !none_ran(&rows)) {
                result_folder::rows(folder, &done(&rows))?;
                result_folder::findings(folder, name, row, cell.deadline)?;
            }
        }
        if let Some(failure) = failed.take_if(|_| none_ran(&rows)) {
            return Err(failure);
        }
        match skipped.filter(|_| none_ran(&rows)) {
            Some(failure) => Err(failure),
            None => Ok(Tested { rows: done(&rows), failed }),
        }
    }

    /// The row of a cell: the stored one, or a new one.
    fn row(&self, stored: Option<Row>, cell: &Cell, test: &CrashTest<'_>) -> Result<Row, Failure> {
        match stored {
            Some(row) => {
                let cuts = counted(row.tried.len(), "crash point");
                say(&format!("fsdyno: {}: {cuts} are stored", row.label));
                Ok(row)
            }
            None => test.row(&job(&cell.plan, self.cuts.seed, cell.deadline)),
        }
    }

    /// The stored row of each cell, if it has one; skipped rows are tried again.
    fn stored(&self, folder: &Path, venue: &LabVenue) -> Result<Vec<Option<Row>>, Failure> {
        let mut rows: Vec<Option<Row>> = self.cells.iter().map(|_| None).collect();
        let file = folder.join(FILE);
        let all = if file.exists() { stored::read(&file)? } else { Vec::new() };
        for row in all {
            let is_of = |cell: &Cell| self.is_of(&row, cell);
            let at = self.cells.iter().position(is_of).ok_or_else(|| other(folder, &row))?;
            if row.skipped.is_some() {
                continue;
            }
            let lab_id = venue.identity(&self.cells[at].plan)?.map(|identity| identity.lab_id);
            if row.lab_id != lab_id {
                return Err(Failure::wrong(format!(
                    "'{}' has {} in another lab; give a new folder with --out",
                    folder.display(),
                    row.label
                )));
            }
            rows[at] = Some(row);
        }
        Ok(rows)
    }

    /// Tests whether a stored row is that of a cell under these settings.
    fn is_of(&self, row: &Row, cell: &Cell) -> bool {
        let Cuts { count, seed, disk, .. } = self.cuts;
        let of = (row.label.as_str(), row.plan.hash.as_str(), row.seed, row.disk, row.tear);
        // A trial without a timed phase has no crash points.
        let all = row.tried.is_empty() || row.tried.len() == count as usize;
        let here = (cell.plan.label.as_str(), cell.plan.hash.as_str(), seed, disk);
        all && !row.has_old_oracle() && of == (here.0, here.1, here.2, here.3, self.tear(cell))
    }

    /// The requested atomic write unit, or else the disk's physical sector.
    fn tear(&self, cell: &Cell) -> AtomicUnit {
        self.cuts.tear.unwrap_or_else(|| AtomicUnit::of(&cell.plan))
    }

    /// The row of a trial that cannot run here.
    fn skipped_row(&self, cell: &Cell, failure: &Failure, build: Option<&Build>) -> Row {
        let reason = failure.message.clone();
        let row = Row::skipped(&cell.plan, self.cuts.seed, self.cuts.disk, reason);
        Row { tear: self.tear(cell), build: build.cloned(), ..row }
    }
}

/// Returns the reason why a trial cannot run here.
fn missing_requirement(venue: &LabVenue, cell: &Cell) -> Result<Option<Failure>, Failure> {
    if let Some(reason) = &cell.skip {
        return Ok(Some(Failure::wrong(reason.clone())));
    }
    match venue.identity(&cell.plan) {
        Ok(_) => Ok(None),
        Err(error @ VenueError::Missing(_)) => Ok(Some(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// The failure of a folder that has a row of another command.
fn other(folder: &Path, row: &Row) -> Failure {
    Failure::wrong(format!(
        "'{}' has {} by another command (other work, options, seed or number of cuts); repeat that one to resume it, or \
         give a new folder with --out",
        folder.display(),
        row.label
    ))
}

fn done(rows: &[Option<Row>]) -> Vec<Row> {
    rows.iter().flatten().cloned().collect()
}

fn none_ran(rows: &[Option<Row>]) -> bool {
    rows.iter().flatten().all(|row| row.skipped.is_some())
}
