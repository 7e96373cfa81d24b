//! Records the state of a profiled guest at the start of each stage.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use fsdyno_disk::log::region;
use fsdyno_disk::store::View;
use fsdyno_lab::{Code, Counts, Finished, Guest, Machine, PausedStage, RunError, Snapshot};
use fsdyno_record::Bytes;
use fsdyno_record::mailbox::{Progress, Stage};

use crate::disk_image;
use crate::region::Region;
use crate::venue::Watch;

/// The recorder of a profiled guest while it runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) code: Code,
    /// Start and size of the partition that is imaged.
    pub(crate) partition: Option<(Bytes, Bytes)>,
    pub(crate) workdir: PathBuf,
    pub(crate) stages: Vec<StageStart>,
    pub(crate) log: Option<region::RequestLog>,
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
        let mut on_stage = |stage: &PausedStage, disks: &[File], counts: Counts| {
            let image = self.image(stage, disks)?;
            let phase = stage.phase.try_into().unwrap_or(u16::MAX);
            self.stages.push(StageStart { stage: stage.stage, phase, image, counts });
            Ok(())
        };
        let finished = guest.profile(machine, snapshot, job, (&code, &mut on_stage), watch)?;
        if let Some(log) = &finished.log {
            let read = Region::open(log).and_then(|mut region| {
                region::read(&mut region).map_err(|error| io::Error::other(error.to_string()))
            });
            let to_run_error = |error| RunError::Host { action: "read the request log", error };
            self.log = Some(read.map_err(to_run_error)?);
        }
        Ok(finished)
    }

    /// Returns an image of the disk at the start of a stage, if it may have changed.
    fn image(&self, stage: &PausedStage, disks: &[File]) -> io::Result<Option<File>> {
        let (Some((start, size)), Some(disk)) = (self.partition, disks.first()) else {
            return Ok(None);
        };
        // Between a verification and the next phase, the file system is only remounted.
        let verified =
            self.stages.last().is_some_and(|previous| previous.stage == Stage::Verifying);
        if stage.stage < Stage::Running || (stage.stage == Stage::Running && verified) {
            return Ok(None);
        }
        let mut store =
            disk_image::open(disk).map_err(|error| io::Error::other(error.to_string()))?;
        disk_image::partition_image(&mut store, View::Visible, start, size, &self.workdir).map(Some)
    }
}

/// The state at the start of a stage.
#[derive(Debug)]
pub struct StageStart {
    /// The stage.
    pub stage: Stage,
    /// The phase that the stage is in or follows.
    pub phase: u16,
    /// The file system's partition as its drive would have returned it, or `None` before the first phase, or if the
    /// file system is not on a single served disk.
    pub image: Option<File>,
    /// The instructions executed up to then.
    pub counts: Counts,
}
