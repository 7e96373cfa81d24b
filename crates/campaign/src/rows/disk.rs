//! The requested modelled disks of a matrix.

use fsdyno_disk::spec::WriteCache;
use fsdyno_disk::{Attach, DiskSpec, partition};
use fsdyno_filesystem::period::PeriodSettings;
use fsdyno_record::Bytes;
use fsdyno_record::plan::{DiskPlan, RaidPlan};

use crate::matrix_request::MatrixError;

/// A requested disk.
pub struct Disk {
    /// The name in tables.
    pub name: String,
    /// The disk profile.
    pub spec: DiskSpec,
}

impl Disk {
    pub(crate) fn plan(
        &self,
        period: Option<&PeriodSettings<'_>>,
    ) -> Result<DiskPlan, MatrixError> {
        let mut spec = self.spec.clone();
        if let Some(cache) = period.and_then(|period| period.settings.write_cache.as_deref()) {
            // An unknown name leaves the cache type of the disk profile unchanged.
            let known = [WriteCache::WriteBack, WriteCache::WriteThrough];
            let named = known.into_iter().find(|known| known.name() == cache);
            spec.queue.write_cache = named.unwrap_or(spec.queue.write_cache);
        }
        let spec = serde_json::to_value(&spec)
            .map_err(|error| MatrixError::Wrong(format!("disk '{}': {error}", self.name)))?;
        Ok(DiskPlan { name: self.name.clone(), spec: spec.into() })
    }
}

/// Returns a disk from the catalog, or from a user's file.
///
/// # Errors
/// An unknown disk, or an invalid file.
pub fn disk(requested: &str) -> Result<Disk, MatrixError> {
    let (name, spec) = fsdyno_disk::catalog::find(requested)
        .map_err(|error| MatrixError::Disk(format!("failed to {error}")))?;
    Ok(Disk { name, spec })
}

/// Returns the size of the largest file system that fits on a disk, or on an array of such disks.
pub fn largest(disk: &Disk, raid: Option<RaidPlan>) -> Bytes {
    let one = match disk.spec.attach {
        Attach::Nbd => partition::largest(&disk.spec),
        Attach::Pmem => disk.spec.capacity,
    };
    raid.map_or(one, |raid| partition::largest_array(one, raid))
}
