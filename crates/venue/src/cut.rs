//! Power cuts of a guest: the contents of its disk afterwards.

use std::fs::File;

use fsdyno_crash::image::Builder;
use fsdyno_crash::request::RecoveryRequest;
use fsdyno_disk::log::data::{Event, EventKind};
use fsdyno_disk::partition;
use fsdyno_disk::store::{Store, View};
use fsdyno_record::Job;
use fsdyno_record::mailbox::Progress;

use crate::disk_image::{open, partition_image};
use crate::error::VenueError;
use crate::lab::LabVenue;
use crate::lab_plan::{disk_of, not_a_lab};
use crate::logged::LoggedTrial;

/// Space, in bytes, for a store's tables and for the blocks that mkfs writes, which are not logged.
const TABLE_SPACE: u64 = 256 << 20;

/// The state of a guest after a power cut.
#[derive(Debug)]
pub struct PowerCut {
    /// The file system's partition as persisted on the medium, in a nameless sparse file.
    pub medium: File,
    /// The partition as the drive would have returned it if power had not been cut.
    pub visible: File,
    /// The ranges of the partition in which the two may differ: first byte and length, ascending.
    pub volatile: Vec<(u64, u64)>,
    /// The progress of the trial.
    pub progress: Progress,
}

impl LabVenue {
    /// Runs a job on a served disk and cuts the guest's power at the first poll of its progress for
    /// which `is_due` returns true. Polls follow host time, so the time of the cut is not reproducible.
    ///
    /// # Errors
    /// Those of [`crate::Venue::run`], and a trial that ended before the cut.
    pub fn cut(
        &self,
        job: &Job,
        is_due: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<PowerCut, VenueError> {
        let medium = &job.plan.medium;
        let disk = medium.disk().ok_or_else(not_a_lab)?;
        if medium.disks() > 1 {
            return Err(VenueError::Failed(
                "a guest with several disks cannot have a power cut yet".into(),
            ));
        }
        let (region, progress) = self.run_until(job, is_due)?;
        let (disk, size) = (disk_of(disk)?, medium.size());
        let part = partition::place(&disk, size, job.seed)
            .map_err(|error| VenueError::Failed(error.to_string()))?;
        let mut store = open(&region)?;
        let mut image = |view| {
            partition_image(&mut store, view, part.start, part.size, self.workdir())
                .map_err(VenueError::io("write an image of the disk in", self.workdir()))
        };
        let (medium, visible) = (image(View::Medium)?, image(View::Visible)?);
        let mut volatile = Vec::new();
        store.volatile(&mut |first, length| volatile.push((first - part.start.0, length)));
        Ok(PowerCut { medium, visible, volatile, progress })
    }
}

impl LabVenue {
    /// Returns the file system of a logged trial as the first cut of `request` left it, in a nameless sparse
    /// file: the image that [`LabVenue::recover`] mounts, before any mount.
    ///
    /// # Errors
    /// The log is damaged, or there is no space for the image.
    pub fn image_of_cut(
        &self,
        job: &Job,
        logged: &LoggedTrial,
        request: &RecoveryRequest,
    ) -> Result<File, VenueError> {
        let medium = &job.plan.medium;
        let spec = disk_of(medium.disk().ok_or_else(not_a_lab)?)?;
        let image_error =
            |error: String| VenueError::Failed(format!("failed to build the image: {error}"));
        let part = partition::place(&spec, medium.size(), partition::disk_seed(job.seed, 0))
            .map_err(|error| image_error(error.to_string()))?;
        let log = logged.bytes()?;
        let blocks = |event: &Event| (event.end().div_ceil(8) - event.sector / 8) * 4096;
        // In the worst case, each block needs its own page.
        let writes = log.events().iter().filter(|event| event.kind == EventKind::Write);
        let space = TABLE_SPACE + 2 * writes.map(blocks).sum::<u64>();
        let store = || {
            Store::create(vec![0; space as usize], spec.capacity)
                .map_err(|error| image_error(error.to_string()))
        };
        let mut after_cut = store()?;
        let cut = request.cuts.first().ok_or_else(|| image_error("no cut was requested".into()))?;
        Builder::new(log, store()?, request.disk, request.tear)
            .image(cut, &[], &mut after_cut)
            .map_err(|error| image_error(error.to_string()))?;
        partition_image(&mut after_cut, View::Medium, part.start, part.size, self.workdir())
            .map_err(VenueError::io("write the image of a cut in", self.workdir()))
    }
}
