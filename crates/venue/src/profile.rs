//! Profiled runs: a second run of a trial in the lab that records its requests, its disk at the start of
//! each stage, and the instructions that its guest executed.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use fsdyno_disk::log::region;
use fsdyno_disk::partition;
use fsdyno_disk::store::View;
use fsdyno_lab::{Begun, Code, Counts, Finished, Guest, Machine, RunError, Snapshot};
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::{Bytes, Job};

use crate::cut;
use crate::error::VenueError;
use crate::lab::{LabVenue, disk_of, not_a_lab};
use crate::region::Region;
use crate::venue::{FinishedTrial, Watch};

/// The state at the start of a stage.
#[derive(Debug)]
pub struct StageStart {
    /// The stage.
    pub stage: Stage,
    /// The phase that it is in or follows.
    pub phase: u16,
    /// The file system's partition as its drive would have returned it; none before the first phase, and if
    /// the file system is not on a single served disk.
    pub image: Option<File>,
    /// The instructions executed until then.
    pub counts: Counts,
}

/// The results of a profiled run.
#[derive(Debug)]
pub struct ProfiledRun {
    /// The repeated trial.
    pub ran: FinishedTrial,
    /// The stages in order of their starts.
    pub seen: Vec<StageStart>,
    /// The requests to its disks; none if no disk is served.
    pub log: Option<region::Logged>,
    /// The offset of the file system on its disk.
    pub start: Bytes,
    /// Its size; none if it is not on a single served disk.
    pub size: Option<Bytes>,
}

/// The recorder of a guest while it runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    code: Code,
    /// Start and size of the partition of which images are taken.
    partition: Option<(Bytes, Bytes)>,
    workdir: PathBuf,
    seen: Vec<StageStart>,
    log: Option<region::Logged>,
}

impl Recorder {
    pub(crate) fn run(
        &mut self,
        guest: &Guest,
        machine: &Machine,
        snapshot: Option<&Snapshot>,
        job: &[u8],
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Finished, RunError> {
        let code = std::mem::take(&mut self.code);
        let mut on_begun = |begun: &Begun, disks: &[File], counts: Counts| {
            let image = self.image(begun, disks)?;
            let phase = begun.phase.try_into().unwrap_or(u16::MAX);
            self.seen.push(StageStart { stage: begun.stage, phase, image, counts });
            Ok(())
        };
        let finished = guest.profile(machine, snapshot, job, (&code, &mut on_begun), watch)?;
        if let Some(log) = &finished.log {
            let read = Region::open(log).and_then(|mut region| {
                region::read(&mut region).map_err(|wrong| io::Error::other(wrong.to_string()))
            });
            let host = |error| RunError::Host { action: "read the request log", error };
            self.log = Some(read.map_err(host)?);
        }
        Ok(finished)
    }

    /// Returns an image of the disk at the start of a stage, if it can have changed.
    fn image(&self, begun: &Begun, disks: &[File]) -> io::Result<Option<File>> {
        let (Some((start, size)), Some(disk)) = (self.partition, disks.first()) else {
            return Ok(None);
        };
        // Between a verification and the next phase the file system is only remounted.
        let verified = self.seen.last().is_some_and(|seen| seen.stage == Stage::Verifying);
        if begun.stage < Stage::Running || (begun.stage == Stage::Running && verified) {
            return Ok(None);
        }
        let mut store = cut::open(disk).map_err(|error| io::Error::other(error.to_string()))?;
        cut::partition_image(&mut store, View::Visible, start, size, &self.workdir).map(Some)
    }
}

impl LabVenue {
    /// Runs a job again to profile it. `code` derives the counted functions from the kernel's image.
    ///
    /// # Errors
    /// Those of [`crate::Venue::run`]; a kernel without a table of its functions.
    pub fn profile(
        &self,
        job: &Job,
        code: impl FnOnce(&[u8]) -> Option<Code>,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<ProfiledRun, VenueError> {
        let lab = job.plan.lab().ok_or_else(not_a_lab)?;
        let image = self
            .guest(&job.plan)?
            .kernel_image()
            .map_err(VenueError::io("read the kernel's image"))?;
        let code = code(&image).ok_or_else(|| {
            VenueError::Missing(format!(
                "the kernel {} has no table of its symbols (CONFIG_KALLSYMS)",
                lab.kernel
            ))
        })?;
        drop(image);
        let medium = &job.plan.medium;
        let disk = medium.disk().filter(|_| medium.raid().is_none()).map(disk_of).transpose()?;
        let mut range = None;
        if let Some(disk) = disk.filter(|disk| disk.attach == fsdyno_disk::Attach::Nbd) {
            let found = partition::place(&disk, medium.size(), job.seed)
                .map_err(|error| VenueError::Died(error.to_string()))?;
            range = Some((found.start, found.size));
        }
        let workdir = self.workdir().to_path_buf();
        let mut look = Recorder { code, partition: range, workdir, seen: Vec::new(), log: None };
        let ran = self.run_with(job, Some(&mut look), watch)?;
        let start = range.map_or(Bytes(0), |(start, _)| start);
        let size = range.map(|(_, size)| size);
        Ok(ProfiledRun { ran, seen: look.seen, log: look.log, start, size })
    }

    /// Returns the modules that the guest of a plan loads: names and bytes.
    ///
    /// # Errors
    /// The plan's guest cannot be prepared.
    pub fn modules_of(
        &self,
        plan: &fsdyno_record::Plan,
    ) -> Result<Vec<(String, Vec<u8>)>, VenueError> {
        let guest = self.guest(plan)?;
        let one = |module: &fsdyno_lab::Module| (module.name.clone(), module.contents.clone());
        Ok(guest.modules().iter().map(one).collect())
    }
}
