//! Mounts and unmounts a file system that clients share.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use fsdyno_record::plan::BelowPlan;

use super::formatted::Formatted;
use crate::nfs;

impl Formatted {
    /// Mounts the file system, exports it, and mounts it for each client.
    pub(super) fn mount_shared(&mut self, below: &BelowPlan) -> io::Result<()> {
        let place = self.place_below();
        fs::create_dir_all(&place)?;
        self.import()?;
        let (kind, options) = (&below.mount_type, &below.mount_options);
        self.mount_by_kernel(&self.source(kind), kind, options, &place)?;
        let shared = self.shared.as_mut().ok_or_else(|| io::Error::other("no network"))?;
        shared.mount(&place)?;
        let first = shared.roots().first().map(|root| root.try_clone_to_owned()).transpose()?;
        self.root = first;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts it for all clients and on the server, if it is shared.
    pub(super) fn unmount_shared(&mut self) -> io::Result<()> {
        let below = self.place_below();
        if let Some(shared) = self.shared.as_mut().filter(|_| self.mounted) {
            shared.unmount(&below)?;
            self.mounted = false;
            self.export()?;
        }
        Ok(())
    }

    /// Syncs the mounts of all clients, and then the server's file system.
    pub(super) fn sync_shared(&self) -> io::Result<()> {
        self.shared.as_ref().map_or(Ok(()), nfs::Shared::sync)?;
        Ok(rustix::fs::syncfs(File::open(self.place_below())?)?)
    }

    /// Returns the path at which users access the file system: the first, if there are several mounts.
    pub(super) fn seen_at(&self) -> PathBuf {
        self.shared.as_ref().map_or(self.mount_point.clone(), nfs::Shared::first)
    }
}
