//! A second pass of a trial in the lab, looked at: its requests, its disk at the start of each stage, and
//! what its guest executed.

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
use crate::venue::{Ran, Watch};

/// A stage that began.
#[derive(Debug)]
pub struct Seen {
    /// Which.
    pub stage: Stage,
    /// In or after which phase.
    pub phase: u16,
    /// The file system's partition as its drive would have answered then; none where the trial has not
    /// come to its first gap, and where the file system does not lie on one served disk.
    pub image: Option<File>,
    /// What was executed until then.
    pub counts: Counts,
}

/// What a second pass saw.
#[derive(Debug)]
pub struct Looked {
    /// The trial, once more.
    pub ran: Ran,
    /// The stages in the order in which they began.
    pub seen: Vec<Seen>,
    /// The requests to its disks; none where no disk is served.
    pub log: Option<region::Logged>,
    /// Where the file system begins on its disk.
    pub start: Bytes,
    /// Its size; none where it does not lie on one served disk.
    pub size: Option<Bytes>,
}

/// What looks at a guest while it runs.
#[derive(Debug)]
pub(crate) struct Look {
    code: Code,
    /// Start and size of the partition that images are made of.
    partition: Option<(Bytes, Bytes)>,
    workdir: PathBuf,
    seen: Vec<Seen>,
    log: Option<region::Logged>,
}

impl Look {
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
            self.seen.push(Seen { stage: begun.stage, phase, image, counts });
            Ok(())
        };
        let finished = guest.look(machine, snapshot, job, (&code, &mut on_begun), watch)?;
        if let Some(log) = &finished.log {
            let read = Region::open(log).and_then(|mut region| {
                region::read(&mut region).map_err(|wrong| io::Error::other(wrong.to_string()))
            });
            let host = |error| RunError::Host { action: "read the request log", error };
            self.log = Some(read.map_err(host)?);
        }
        Ok(finished)
    }

    /// What is on the disk as a stage begins, where it is worth to be looked at.
    fn image(&self, begun: &Begun, disks: &[File]) -> io::Result<Option<File>> {
        let (Some((start, size)), Some(disk)) = (self.partition, disks.first()) else {
            return Ok(None);
        };
        // Between a verification and the phase after it the file system is only mounted anew.
        let verified = self.seen.last().is_some_and(|seen| seen.stage == Stage::Verifying);
        if begun.stage < Stage::Running || (begun.stage == Stage::Running && verified) {
            return Ok(None);
        }
        let mut store = cut::open(disk).map_err(|error| io::Error::other(error.to_string()))?;
        cut::partition_image(&mut store, View::Visible, start, size, &self.workdir).map(Some)
    }
}

impl LabVenue {
    /// Runs a job once more to look at it. `code` tells from the image of the kernel and what it executes.
    ///
    /// # Errors
    /// What [`crate::Venue::run`] has; a kernel whose functions cannot be told.
    pub fn look(
        &self,
        job: &Job,
        code: impl FnOnce(&[u8]) -> Option<Code>,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Looked, VenueError> {
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
        let served = !lab.in_memory()
            && lab.raid.is_none()
            && disk_of(&lab.disk)?.attach == fsdyno_disk::Attach::Nbd;
        let mut place = None;
        if served {
            let found = partition::place(&disk_of(&lab.disk)?, lab.size, job.seed)
                .map_err(|error| VenueError::Died(error.to_string()))?;
            place = Some((found.start, found.size));
        }
        let workdir = self.workdir().to_path_buf();
        let mut look = Look { code, partition: place, workdir, seen: Vec::new(), log: None };
        let ran = self.run_with(job, Some(&mut look), watch)?;
        let start = place.map_or(Bytes(0), |(start, _)| start);
        let size = place.map(|(_, size)| size);
        Ok(Looked { ran, seen: look.seen, log: look.log, start, size })
    }

    /// The modules that the guest of a plan loads, by name, with their bytes.
    ///
    /// # Errors
    /// What the plan's guest lacks.
    pub fn modules_of(
        &self,
        plan: &fsdyno_record::Plan,
    ) -> Result<Vec<(String, Vec<u8>)>, VenueError> {
        let guest = self.guest(plan)?;
        let one = |module: &fsdyno_lab::Module| (module.name.clone(), module.contents.clone());
        Ok(guest.modules().iter().map(one).collect())
    }
}
