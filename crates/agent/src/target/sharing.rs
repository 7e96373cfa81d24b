//! Mounts and unmounts a file system that clients share.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use fsdyno_record::plan::BelowPlan;

use super::formatted::Formatted;
use crate::shared;

impl Formatted {
    /// Mounts the file system (from its pool, if any), serves it over a network, and mounts it for each client.
    pub(super) fn mount_shared(&mut self, below: &BelowPlan) -> io::Result<()> {
        let server_mount = self.lower_mount_point();
        fs::create_dir_all(&server_mount)?;
        self.import_pool()?;
        let (kind, options) = (&below.mount_type, &below.mount_options);
        self.mount_by_kernel(&self.source(kind), kind, options, &server_mount)?;
        let shared =
            self.shared.as_mut().ok_or_else(|| io::Error::other("the clients have no network"))?;
        shared.mount(&server_mount)?;
        let first = shared.roots().first().map(|root| root.try_clone_to_owned()).transpose()?;
        self.root = first;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts a shared file system for all clients and on the server, and exports its pool, if any.
    pub(super) fn unmount_shared(&mut self) -> io::Result<()> {
        let server_mount = self.lower_mount_point();
        if let Some(shared) = self.shared.as_mut().filter(|_| self.mounted) {
            shared.unmount(&server_mount)?;
            self.mounted = false;
            self.export_pool()?;
        }
        Ok(())
    }

    /// Syncs the mounts of all clients, and then the server's file system.
    pub(super) fn sync_shared(&self) -> io::Result<()> {
        self.shared.as_ref().map_or(Ok(()), shared::Shared::sync)?;
        Ok(rustix::fs::syncfs(File::open(self.lower_mount_point())?)?)
    }

    /// Returns the mount point at which the file system is accessed; that of the first client, if clients share it.
    pub(super) fn access_path(&self) -> PathBuf {
        self.shared.as_ref().map_or(self.mount_point.clone(), shared::Shared::first_mount_point)
    }
}
