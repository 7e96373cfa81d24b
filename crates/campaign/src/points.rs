//! Runs trials of individual configurations of one file system in batches, as a search needs them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use fsdyno_record::trial::{Outcome, trial_id};
use fsdyno_record::{Plan, Trial};
use fsdyno_venue::{Inputs, Venue, VenueError};

use crate::experiment::{Experiment, Session, run_shown};
use crate::failure::{Exit, Failure};
use crate::labs::Mode;
use crate::target::{self, TargetRequest};
use crate::{Cell, Place, RunSpec, Slot, Store, Venues, is_stored};

/// The settings of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PointSettings {
    /// The file system with its options.
    pub spec: String,
    /// Sysctls in addition to those of the request: `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// The block scheduler, if not that of the request.
    pub scheduler: Option<String>,
    /// A workload other than the request's, with its parameters.
    pub work: Option<(String, Vec<String>)>,
}

/// A venue for configurations of one target, and the folder of their trials.
pub struct Points<'a> {
    spec: RunSpec,
    request: TargetRequest,
    venues: Venues,
    store: &'a mut Store,
    session: &'a Session<'a>,
}

impl<'a> Points<'a> {
    /// Finds everything that the trials of a request need. The request must have one workload and one target.
    ///
    /// # Errors
    /// An invalid request; a requirement that is missing.
    pub fn open(
        spec: RunSpec,
        store: &'a mut Store,
        session: &'a Session<'a>,
    ) -> Result<Points<'a>, Failure> {
        let mut requests = Experiment::resolve(spec.clone())?.requests;
        if let [TargetRequest { place: Place::Directory { path, .. }, .. }] = requests.as_slice() {
            return Err(Failure::invalid_use(format!(
                "--on {} is a directory, whose file system cannot be created with other options; use the lab, or, as \
                 root, --on loop:SIZE",
                path.display()
            )));
        }
        if requests.len() != 1 {
            return Err(Failure::invalid_use("one target and one machine are searched at a time"));
        }
        target::check_permission(&requests)?;
        for request in &mut requests {
            request.matrix_request.inputs = crate::read_inputs(&request.matrix_request)?;
        }
        let (venues, requests) =
            target::venues(&spec, requests, store.folder(), session.stop, Mode::Run)?;
        let request = requests.into_iter().next();
        let request = request.ok_or_else(|| Failure::invalid_use("the command names no target"))?;
        Ok(Points { spec, request, venues, store, session })
    }

    /// Returns the release of the kernel that trials run on.
    pub fn kernel(&self) -> Option<String> {
        match &self.request.place {
            Place::Lab(lab) => lab.kernels.first().map(|kernel| kernel.release.clone()),
            _ => rustix::system::uname().release().to_str().ok().map(String::from),
        }
    }

    /// Returns true if trials run in the lab, where sysctls and schedulers can be set and trials of a seed form pairs.
    pub fn is_lab(&self) -> bool {
        matches!(self.request.place, Place::Lab(_))
    }

    /// Returns the input files of workloads.
    pub fn inputs(&self) -> &Inputs {
        &self.request.matrix_request.inputs
    }

    /// Returns the number of trials that run at the same time.
    pub fn jobs(&self) -> u16 {
        self.spec.jobs
    }

    /// Returns the venue.
    pub fn venue(&self) -> &dyn Venue {
        &self.venues
    }

    /// Returns the stored trials.
    pub fn stored(&self) -> &[Trial] {
        self.store.trials()
    }

    /// Resolves a configuration to its cell.
    ///
    /// # Errors
    /// Settings that are invalid.
    pub fn cell(&self, settings: &PointSettings) -> Result<Cell, Failure> {
        let mut request = self.request.clone();
        request.matrix_request.filesystems = vec![settings.spec.clone()];
        request.matrix_request.sysctls.extend(settings.sysctls.iter().cloned());
        if let (Place::Lab(lab), Some(scheduler)) = (&mut request.place, &settings.scheduler) {
            lab.guest.scheduler = Some(scheduler.clone());
        }
        if let Some((workload, parameters)) = &settings.work {
            request.matrix_request.workloads = vec![workload.clone()];
            request.matrix_request.parameters.clone_from(parameters);
            request.matrix_request.inputs = crate::read_inputs(&request.matrix_request)?;
        }
        crate::sysctl::check(request.matrix_request.sysctls.iter().map(String::as_str))?;
        let cell = request.cells()?.into_iter().next();
        let mut cell =
            cell.ok_or_else(|| Failure::invalid_use("the request has no configuration"))?;
        match self.venues.identity(&cell.plan) {
            Ok(_) => {}
            Err(VenueError::Missing(reason)) => cell.skip = cell.skip.or(Some(reason)),
            Err(error) => return Err(error.into()),
        }
        Ok(cell)
    }

    /// Runs the trials of these configurations and seeds that are not stored yet, and returns all in the given order.
    ///
    /// # Errors
    /// Settings that are invalid; the reason that a run ended early, with [`Exit::Stopped`] if it was stopped.
    pub fn run(&mut self, requested: &[(PointSettings, u64)]) -> Result<Vec<Trial>, Failure> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut cell_indices: BTreeMap<&PointSettings, usize> = BTreeMap::new();
        let mut schedule = Vec::new();
        let first = self.store.trials().iter().filter_map(|trial| trial.row).max();
        let first = first.map_or(0, |row| row + 1);
        for (settings, seed) in requested {
            let cell = match cell_indices.get(settings) {
                Some(cell) => *cell,
                None => {
                    let cell = self.cell(settings)?;
                    cells.push(Cell { row: first + cells.len() as u32, ..cell });
                    cell_indices.insert(settings, cells.len() - 1);
                    cells.len() - 1
                }
            };
            schedule.push(Slot { cell, seed: *seed, round: 0, repeats: None });
        }
        self.run_schedule(&schedule, &cells)?;
        schedule.iter().map(|slot| self.stored_trial(&cells[slot.cell].plan, slot.seed)).collect()
    }

    fn run_schedule(&mut self, schedule: &[Slot], cells: &[Cell]) -> Result<(), Failure> {
        if schedule.iter().all(|slot| is_stored(self.store, cells, slot)) {
            return Ok(());
        }
        let jobs = usize::from(self.spec.jobs);
        let summary = run_shown((schedule, cells), &self.venues, self.store, self.session, jobs)?;
        match self.session.stop.load(Ordering::Relaxed) && summary.left > 0 {
            true => Err(Failure { exit: Exit::Stopped, message: "stopped".into() }),
            false => Ok(()),
        }
    }

    /// Returns the latest successful record of a trial, or the latest record if none is successful.
    fn stored_trial(&self, plan: &Plan, seed: u64) -> Result<Trial, Failure> {
        let id = trial_id(plan, seed);
        let records = || {
            let all = self.store.trials().iter().rev();
            all.filter(|trial| trial.trial_id == id && trial.plan.label == plan.label)
        };
        let found =
            records().find(|trial| trial.outcome == Outcome::Ok).or_else(|| records().next());
        found.cloned().ok_or_else(|| Failure {
            exit: Exit::TrialFailed,
            message: format!("the trial of {} with seed {seed} is not stored", plan.label),
        })
    }
}
