//! The crash tests of a request: each of its file systems, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_crash::{AtomicUnit, DiskFault, Row};
use fsdyno_record::Build;
use fsdyno_record::units::counted;
use fsdyno_venue::{Inputs, LabVenue, Venue, VenueError};

use super::{CrashTest, check, folder as result_folder, job};
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

    /// Tests all file systems, and writes the rows and the findings to a folder.
    ///
    /// # Errors
    /// A missing requirement, or a failure before the first row.
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
        let (mut skipped, mut failed): (Option<Failure>, Option<Failure>) = (None, None);
        let mut rows = Vec::new();
        for (cell, name) in self.cells.iter().zip(&names) {
            if let Some(failure) = missing_requirement(&venue, cell)? {
                say(&format!("fsdyno: {} is skipped: {failure}", cell.plan.label));
                rows.push(self.skipped_row(cell, &failure, build));
                skipped.get_or_insert(failure);
                if !none_ran(&rows) {
                    result_folder::rows(folder, &rows)?;
                }
                continue;
            }
            let job = job(&cell.plan, self.cuts.seed, cell.deadline);
            let row = self.cuts.test(&venue, stop, build).row(&job);
            let row = row.and_then(|row| {
                result_folder::findings(folder, name, &row, job.deadline)?;
                Ok(row)
            });
            match row {
                Ok(row) => rows.push(row),
                // The finished rows are kept and printed before the error is returned.
                Err(failure) => {
                    failed = Some(failure);
                    break;
                }
            }
            result_folder::rows(folder, &rows)?;
        }
        if let Some(failure) = failed.take_if(|_| none_ran(&rows)) {
            return Err(failure);
        }
        match skipped.filter(|_| none_ran(&rows)) {
            Some(failure) => Err(failure),
            None => Ok(Tested { rows, failed }),
        }
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

fn none_ran(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.skipped.is_some())
}
