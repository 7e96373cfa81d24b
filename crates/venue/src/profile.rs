//! Profiled runs: a second run of a trial in the lab that records its requests, its disk at the start of
//! each stage, and the instructions that its guest executed.

use fsdyno_disk::log::region;
use fsdyno_disk::partition;
use fsdyno_lab::Code;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::{Bytes, Job};

use crate::error::VenueError;
use crate::lab::LabVenue;
use crate::lab_plan::{disk_of, not_a_lab};
use crate::profile_recorder::{Recorder, StageStart};
use crate::venue::{FinishedTrial, Watch};

/// The results of a profiled run.
#[derive(Debug)]
pub struct ProfiledRun {
    /// The repeated trial.
    pub trial: FinishedTrial,
    /// The starts of the stages, in order.
    pub stages: Vec<StageStart>,
    /// The requests to the guest's disks; `None` if fsdyno serves none of them.
    pub log: Option<region::RequestLog>,
    /// The offset of the file system on its disk.
    pub start: Bytes,
    /// The size of the file system, or `None` if it is not on a single served disk.
    pub size: Option<Bytes>,
}

impl LabVenue {
    /// Runs a job again to profile it. `code` derives the functions to count from the kernel's image.
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
            .map_err(VenueError::io_without_path("read the kernel's image"))?;
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
            let partition = partition::place(&disk, medium.size(), job.seed)
                .map_err(|error| VenueError::Failed(error.to_string()))?;
            range = Some((partition.start, partition.size));
        }
        let workdir = self.workdir().to_path_buf();
        let mut recorder =
            Recorder { code, partition: range, workdir, stages: Vec::new(), log: None };
        let trial = self.run_with(job, Some(&mut recorder), watch)?;
        let start = range.map_or(Bytes(0), |(start, _)| start);
        let size = range.map(|(_, size)| size);
        Ok(ProfiledRun { trial, stages: recorder.stages, log: recorder.log, start, size })
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
        let name_and_contents =
            |module: &fsdyno_lab::Module| (module.name.clone(), module.contents.clone());
        Ok(guest.modules().iter().map(name_and_contents).collect())
    }
}
