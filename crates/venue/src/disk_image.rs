//! Images of a guest's disk, from the region that holds its bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_disk::store::{Memory, Store, View};
use fsdyno_record::Bytes;

use crate::error::VenueError;
use crate::region::Region;

/// Opens the store in a region.
pub fn open(region: &File) -> Result<Store<Region>, VenueError> {
    let region = Region::open(region)
        .map_err(VenueError::io_without_path("open the region with the disk's contents"))?;
    Store::open(region)
        .map_err(|error| VenueError::Failed(format!("failed to read the disk's bytes: {error}")))
}

/// Writes a part of a disk to a nameless sparse file in `workdir`.
///
/// # Errors
/// No space for the image.
pub fn partition_image<M: Memory>(
    store: &mut Store<M>,
    view: View,
    Bytes(start): Bytes,
    Bytes(length): Bytes,
    workdir: &Path,
) -> std::io::Result<File> {
    let image = tempfile::tempfile_in(workdir)?;
    image.set_len(length)?;
    let mut result = std::io::Result::Ok(());
    store.export(view, &mut |offset, bytes| {
        if let Some(position) = offset.checked_sub(start).filter(|position| *position < length)
            && result.is_ok()
        {
            result = image.write_all_at(bytes, position);
        }
    });
    result.map(|()| image)
}
