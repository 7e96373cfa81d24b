//! The files that the lab keeps in the cache between commands.

use std::io;

use crate::cache::Cache;
use crate::file_cache::{CacheUse, FileCache};
use crate::{image, lists, snapshot, vmlinux};

/// Returns the usage of the caches of kernels, snapshots, images and package lists.
///
/// # Errors
/// A folder that cannot be read.
pub fn caches(cache: &Cache) -> io::Result<Vec<CacheUse>> {
    Ok(vec![
        vmlinux::file_cache(cache).used("unpacked kernels")?,
        snapshot::file_cache(cache).used("snapshots of guests")?,
        image::file_cache(cache).used("images of disks")?,
        lists::used(cache)?,
    ])
}

/// Empties these caches, except for files that another process is creating, and returns the number of removed
/// files.
///
/// # Errors
/// A file that cannot be removed.
pub fn clear_caches(cache: &Cache) -> io::Result<usize> {
    let all = [vmlinux::file_cache(cache), snapshot::file_cache(cache), image::file_cache(cache)];
    let files: usize = all.iter().map(FileCache::clear).sum::<io::Result<usize>>()?;
    Ok(files + lists::clear(cache)?)
}
