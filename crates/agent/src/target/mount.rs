//! Mounts and unmounts a trial's file system.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use fsdyno_filesystem::mount;
use fsdyno_record::plan::{BelowPlan, PoolPlan};
use fsdyno_record::trial::Conditions;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::formatted::Formatted;
use super::mounting::Mounting;
use super::userspace;
use crate::{mount_info, tool};

/// linux/fs.h `BLKFLSBUF`: write back and drop the device's own page cache.
const BLKFLSBUF: libc::c_ulong = 0x1261;

impl Formatted {
    /// Opens the trial's own directory on the mounted file system; without a file system, an empty one at the same
    /// path: in the guest's memory, or, on a host, in a tmpfs that belongs to the trial.
    fn open_root(&mut self) -> io::Result<()> {
        let trial = self.mount_point.join("trial");
        if !trial.is_dir() {
            fs::create_dir(&trial)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.root = Some(rustix::fs::open(&trial, flags, Mode::empty())?);
        Ok(())
    }

    /// Mounts the file system, and opens the trial's own directory on it.
    pub(super) fn mount(&mut self) -> io::Result<()> {
        self.recheck_devices()?;
        match &self.mounting {
            Mounting::Raw => return self.open_root(),
            Mounting::Served => {
                let mount_point = self.mount_point.to_string_lossy();
                let argv = self.fill_in(&self.plan.mount_command);
                let argv: Vec<String> =
                    argv.iter().map(|word| word.replace("{mount}", &mount_point)).collect();
                self.workers = userspace::mount(&argv, &self.plan.env, &self.mount_point)?;
            }
            Mounting::Over { below, .. } => self.mount_over(below)?,
            Mounting::Shared { below, .. } => {
                let below = below.clone();
                return self.mount_shared(&below);
            }
            Mounting::Device | Mounting::Memory => {
                self.import_pool()?;
                let (kind, options) = (&self.plan.mount_type, &self.plan.mount_options);
                let source = self.source(kind);
                let result = self.mount_by_kernel(&source, kind, options, &self.mount_point);
                if result.is_err() {
                    // The error of the mount is the one to report.
                    let _ = self.export_pool();
                }
                result?;
            }
        }
        self.mounted = true;
        self.open_root()?;
        self.workers.record_pids();
        Ok(())
    }

    /// Returns the mount point of the lower file system.
    pub(super) fn lower_mount_point(&self) -> PathBuf {
        self.mount_point.with_extension("below")
    }

    /// Mounts the lower file system, and the upper one over an empty lower layer and an upper layer on it.
    fn mount_over(&self, below: &BelowPlan) -> io::Result<()> {
        let mount_point = self.lower_mount_point();
        fs::create_dir_all(&mount_point)?;
        let (kind, options) = (&below.mount_type, &below.mount_options);
        self.mount_by_kernel(&self.source(kind), kind, options, &mount_point)?;
        let result = self.mount_layers(&mount_point);
        if result.is_err() {
            // The target then counts as not mounted, which the next check relies on.
            let _ = rustix::mount::unmount(&mount_point, UnmountFlags::empty());
        }
        result
    }

    /// Mounts a file system over layers on the file system that is mounted at `folder`.
    fn mount_layers(&self, folder: &Path) -> io::Result<()> {
        let mut options = Vec::new();
        for layer in ["lower", "upper", "work"] {
            let path = folder.join(layer);
            fs::create_dir_all(&path)?;
            options.push(format!("{layer}dir={}", path.display()));
        }
        // The marker that `volatile` leaves prevents the next mount, since after a crash the layers may be damaged
        // (Documentation/filesystems/overlayfs.rst, "Volatile mount"). Here, nothing has crashed.
        let marker = folder.join("work").join("work/incompat/volatile");
        match fs::remove_dir_all(marker) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        options
            .extend((!self.plan.mount_options.is_empty()).then(|| self.plan.mount_options.clone()));
        let kind = &self.plan.mount_type;
        self.mount_by_kernel(Path::new(kind), kind, &options.join(","), &self.mount_point)
    }

    /// Imports the pool, if it is mounted from one.
    pub(super) fn import_pool(&self) -> io::Result<()> {
        self.run_on_pool(|pool| &pool.import)
    }

    /// Exports the pool, if it is mounted from one.
    pub(super) fn export_pool(&self) -> io::Result<()> {
        self.run_on_pool(|pool| &pool.export)
    }

    fn run_on_pool(&self, command: fn(&PoolPlan) -> &Vec<String>) -> io::Result<()> {
        let Some(pool) = &self.plan.pool else { return Ok(()) };
        let argv = self.fill_in(command(pool));
        tool::run(&argv, &self.plan.env)?.check(&argv)
    }

    /// Returns the source of the mount: the device or its pool; without a device, the type, as shown in /proc/mounts.
    pub(super) fn source(&self, kind: &str) -> PathBuf {
        if let Some(pool) = &self.plan.pool {
            return PathBuf::from(&pool.name);
        }
        if self.mounting.in_memory() { PathBuf::from(kind) } else { self.device_path() }
    }

    pub(super) fn mount_by_kernel(
        &self,
        source: &Path,
        kind: &str,
        options: &str,
        target: &Path,
    ) -> io::Result<()> {
        let options = self.fill_in(&[options.to_string()]).concat();
        let (flags, data) = mount::split(&options).map_err(io::Error::other)?;
        let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
        let bits = MountFlags::from_bits_retain(mount::bits(&flags) as u32);
        rustix::mount::mount(source, target, kind, bits, Some(data.as_c_str())).map_err(|error| {
            io::Error::other(format!(
                "mount -t {kind} -o '{options}' {}: {error}{}",
                source.display(),
                self.kernel_message(),
            ))
        })
    }

    /// Returns the kernel's last message if all its messages belong to this trial, as in the lab.
    fn kernel_message(&self) -> String {
        if self.held.is_empty() { crate::kernel_log::hint() } else { String::new() }
    }

    /// Returns true if anything is mounted at its mount point or at that of the lower file system.
    ///
    /// # Errors
    /// Errors from reading the mount table.
    pub fn is_mounted(&self) -> io::Result<bool> {
        for path in [&self.access_path(), &self.lower_mount_point()] {
            if mount_info::in_effect(&path.to_string_lossy())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Unmounts the file system, and drops the page cache of its devices.
    pub(super) fn unmount(&mut self) -> io::Result<()> {
        self.root = None;
        self.unmount_shared()?;
        if self.mounted {
            rustix::mount::unmount(&self.mount_point, UnmountFlags::empty())?;
            self.mounted = false;
            self.workers.wait()?;
            self.export_pool()?;
            if let Mounting::Over { .. } = self.mounting {
                rustix::mount::unmount(self.lower_mount_point(), UnmountFlags::empty())?;
            }
        }
        self.drop_devices_cache()
    }

    /// Drops the page cache of the devices: the blocks that mkfs wrote, and the metadata that file systems
    /// keep there. The kernel does so at the last close of a device, but a driver or the keeper holds
    /// it open.
    pub(super) fn drop_devices_cache(&self) -> io::Result<()> {
        for path in self.paths() {
            let device = File::open(path)?;
            // SAFETY: BLKFLSBUF takes no argument and touches no memory of this process.
            if unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as _, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Records the mount in the conditions.
    pub(super) fn describe_mount(&self, conditions: &mut Conditions) -> io::Result<()> {
        if let Mounting::Raw = self.mounting {
            conditions.mount = format!("none: {} itself", self.device_path().display());
            return Ok(());
        }
        let path = self.access_path();
        let path = path.to_string_lossy();
        conditions.mount = mount_info::in_effect(&path)?
            .ok_or_else(|| io::Error::other(format!("{path} is not mounted")))?;
        let all = mount_info::all_options(self.device_name());
        conditions.features.extend(all.map(|options| ("mount options".into(), options)));
        if let Mounting::Over { .. } | Mounting::Shared { .. } = self.mounting {
            let below = self.lower_mount_point();
            let below = mount_info::in_effect(&below.to_string_lossy())?;
            conditions.below = below.unwrap_or_default();
        }
        conditions.userspace = self.mounting == Mounting::Served;
        Ok(())
    }
}
