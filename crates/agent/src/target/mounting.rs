//! How a trial's file system is mounted, and what follows from that: the one place that knows how many
//! kinds there are.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use fsdyno_filesystem::mount;
use fsdyno_record::plan::{BelowPlan, FilesystemPlan, PoolPlan};
use fsdyno_record::trial::Conditions;
use fsdyno_workload::GapKind;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::formatted::Formatted;
use super::userspace;
use crate::mount_info;
use crate::process;

/// linux/fs.h `BLKFLSBUF`: write back and drop the device's own page cache.
const BLKFLSBUF: libc::c_ulong = 0x1261;

/// A way to mount a file system.
#[derive(Clone, Debug, PartialEq)]
pub enum Mounting {
    /// By the kernel, on its device.
    Device,
    /// By the kernel, in memory, where nothing is made, dropped or durable.
    Memory,
    /// By the kernel, over an empty and an upper layer on another one, which is mounted first.
    Over {
        /// The other file system.
        below: BelowPlan,
        /// The way in which that is mounted.
        on: Box<Mounting>,
    },
    /// By its command, of which a process stays that does its work (FUSE).
    Served,
    /// Not at all: the device itself stands for the workload's one file.
    Raw,
}

impl Mounting {
    /// Returns the way for a plan on this number of disks.
    pub fn of(plan: &FilesystemPlan, disks: usize) -> Mounting {
        let by_kernel = if disks == 0 { Mounting::Memory } else { Mounting::Device };
        match &plan.below {
            _ if plan.is_raw() => Mounting::Raw,
            _ if plan.in_user_space() => Mounting::Served,
            Some(below) => Mounting::Over { below: below.clone(), on: Box::new(by_kernel) },
            None => by_kernel,
        }
    }

    /// True if files are stored in memory, and on no device.
    pub fn in_memory(&self) -> bool {
        match self {
            Mounting::Memory => true,
            Mounting::Over { on, .. } => on.in_memory(),
            Mounting::Device | Mounting::Served | Mounting::Raw => false,
        }
    }

    /// True if a sync that returned, and a flush of the device's cache, make durable what was done: not where
    /// a process may hold it, nor where overlayfs has an option that has it sync nothing.
    pub fn syncs_are_durable(&self, options: &str) -> bool {
        match self {
            Mounting::Device | Mounting::Raw => true,
            Mounting::Memory | Mounting::Served => false,
            Mounting::Over { on, .. } => {
                on.syncs_are_durable("") && !options.split(',').any(|option| option == "volatile")
            }
        }
    }

    /// Returns the possible part of a wanted gap: in memory dropping keeps all, and unmounting keeps nothing.
    pub fn can_do(&self, wanted: GapKind) -> GapKind {
        match wanted {
            GapKind::Drop | GapKind::Remount if self.in_memory() => GapKind::Sync,
            other => other,
        }
    }

    /// The name of a gap: where nothing is mounted, a remount only drops what the page cache has of the
    /// device.
    pub fn name_of(&self, done: GapKind) -> &'static str {
        match (self, done) {
            (Mounting::Raw, GapKind::Remount) => GapKind::Drop.name(),
            (_, other) => other.name(),
        }
    }

    /// Notes for the readers of a record of a file system of this kind.
    pub fn notes(&self, kind: &str, has_check: bool) -> Vec<String> {
        let mut notes = Vec::new();
        match self {
            Mounting::Raw => notes.push(
                "raw: no file system; the workload's one file is the device, on which O_CREAT, O_TRUNC \
                 and unlink do nothing"
                    .to_string(),
            ),
            Mounting::Served => notes.push(format!(
                "{kind}: a process in user space did the file system's work; it is shown, and no claim \
                 about a kernel is judged by it. What the process holds cannot be read, so nothing \
                 is called durable; its CPU time is named 'fuse'"
            )),
            Mounting::Device | Mounting::Memory | Mounting::Over { .. } => {}
        }
        if self.in_memory() {
            notes.push(format!(
                "{kind} lies in memory: nothing is dropped or mounted anew between phases, and nothing is \
                 durable"
            ));
        } else if !has_check && *self != Mounting::Raw {
            notes.push(format!(
                "{kind} has no check of its own here: what was compared are the names and bytes, after a \
                 remount"
            ));
        }
        notes
    }
}

impl Formatted {
    /// The trial's own directory on what is mounted; without a file system an empty one where it would be:
    /// in the guest's memory, or on a host in a tmpfs of the trial's own.
    fn open_root(&mut self) -> io::Result<()> {
        let trial = self.mount_point.join("trial");
        if !trial.is_dir() {
            fs::create_dir(&trial)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.root = Some(rustix::fs::open(&trial, flags, Mode::empty())?);
        Ok(())
    }

    /// Mounts it, and opens the trial's own directory on it.
    pub(super) fn mount(&mut self) -> io::Result<()> {
        self.prove()?;
        match &self.mounting {
            Mounting::Raw => return self.open_root(),
            Mounting::Served => {
                let place = self.mount_point.to_string_lossy();
                let argv = self.filled(&self.plan.mount_command);
                let argv: Vec<String> =
                    argv.iter().map(|word| word.replace("{mount}", &place)).collect();
                self.workers = userspace::mount(&argv, &self.plan.env, &self.mount_point)?;
            }
            Mounting::Over { below, .. } => self.mount_over(below)?,
            Mounting::Device | Mounting::Memory => {
                self.import()?;
                let (kind, options) = (&self.plan.mount_type, &self.plan.mount_options);
                let source = self.source(kind);
                let mounted = self.mount_by_kernel(&source, kind, options, &self.mount_point);
                if mounted.is_err() {
                    // The error of the mount is the one to report.
                    let _ = self.export();
                }
                mounted?;
            }
        }
        self.mounted = true;
        self.open_root()?;
        self.workers.look();
        Ok(())
    }

    /// The mount point of the file system below another.
    fn place_below(&self) -> PathBuf {
        self.mount_point.with_extension("below")
    }

    /// Mounts the file system that was made, and the other over an empty and an upper layer on it.
    fn mount_over(&self, below: &BelowPlan) -> io::Result<()> {
        let place = self.place_below();
        fs::create_dir_all(&place)?;
        let (kind, options) = (&below.mount_type, &below.mount_options);
        self.mount_by_kernel(&self.source(kind), kind, options, &place)?;
        let laid = self.lay_over(&place);
        if laid.is_err() {
            // What lies below counts as not mounted then; the next check relies on that.
            let _ = rustix::mount::unmount(&place, UnmountFlags::empty());
        }
        laid
    }

    /// Mounts a file system over layers on the one that is mounted at `place`.
    fn lay_over(&self, place: &Path) -> io::Result<()> {
        let mut options = Vec::new();
        for layer in ["lower", "upper", "work"] {
            let path = place.join(layer);
            fs::create_dir_all(&path)?;
            options.push(format!("{layer}dir={}", path.display()));
        }
        // What `volatile` leaves behind forbids another mount, since after a crash the layers may be damaged
        // (Documentation/filesystems/overlayfs.rst, "Volatile mount"). Here nothing crashed.
        let mark = place.join("work").join("work/incompat/volatile");
        match fs::remove_dir_all(mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        options
            .extend((!self.plan.mount_options.is_empty()).then(|| self.plan.mount_options.clone()));
        let kind = &self.plan.mount_type;
        self.mount_by_kernel(Path::new(kind), kind, &options.join(","), &self.mount_point)
    }

    /// Imports the pool, if it is mounted from one.
    fn import(&self) -> io::Result<()> {
        self.run_on_pool(|pool| &pool.import)
    }

    /// Exports that pool.
    pub(super) fn export(&self) -> io::Result<()> {
        self.run_on_pool(|pool| &pool.export)
    }

    fn run_on_pool(&self, command: fn(&PoolPlan) -> &Vec<String>) -> io::Result<()> {
        let Some(pool) = &self.plan.pool else { return Ok(()) };
        let argv = self.filled(command(pool));
        process::run(&argv, &self.plan.env)?.good(&argv)
    }

    /// The source of the mount: the device or its pool; a file system on none is named after itself in /proc/mounts.
    fn source(&self, kind: &str) -> PathBuf {
        if let Some(pool) = &self.plan.pool {
            return PathBuf::from(&pool.name);
        }
        if self.mounting.in_memory() { PathBuf::from(kind) } else { self.device_path() }
    }

    fn mount_by_kernel(
        &self,
        source: &Path,
        kind: &str,
        options: &str,
        at: &Path,
    ) -> io::Result<()> {
        let options = self.filled(&[options.to_string()]).concat();
        let (flags, data) = mount::split(&options).map_err(io::Error::other)?;
        let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
        let bits = MountFlags::from_bits_retain(mount::bits(&flags) as u32);
        rustix::mount::mount(source, at, kind, bits, Some(data.as_c_str())).map_err(|error| {
            io::Error::other(format!(
                "mount -t {kind} -o '{options}' {}: {error}{}",
                source.display(),
                self.kernels_word(),
            ))
        })
    }

    /// The kernel's last message where all of them are of this trial: in the lab.
    fn kernels_word(&self) -> String {
        if self.held.is_empty() { crate::kernel_log::hint() } else { String::new() }
    }

    /// True if anything is mounted at its mount point, or at that of the file system below it.
    ///
    /// # Errors
    /// What reading the table of mounts reports.
    pub fn is_mounted(&self) -> io::Result<bool> {
        for place in [&self.mount_point, &self.place_below()] {
            if mount_info::in_effect(&place.to_string_lossy())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Unmounts it, and drops what is cached of its devices.
    pub(super) fn unmount(&mut self) -> io::Result<()> {
        self.root = None;
        if self.mounted {
            rustix::mount::unmount(&self.mount_point, UnmountFlags::empty())?;
            self.mounted = false;
            self.workers.wait()?;
            self.export()?;
            if let Mounting::Over { .. } = self.mounting {
                rustix::mount::unmount(self.place_below(), UnmountFlags::empty())?;
            }
        }
        self.drop_devices_cache()
    }

    /// Drops what the page cache holds of the devices: what mkfs wrote, and the metadata that file systems
    /// keep there. The kernel does so after the last close of a device, but a driver or the keeper keeps
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

    /// Says into the conditions what is mounted.
    pub(super) fn tell_mount(&self, conditions: &mut Conditions) -> io::Result<()> {
        if let Mounting::Raw = self.mounting {
            conditions.mount = format!("none: {} itself", self.device_path().display());
            return Ok(());
        }
        let at = self.mount_point.to_string_lossy();
        conditions.mount = mount_info::in_effect(&at)?
            .ok_or_else(|| io::Error::other(format!("{at} is not mounted")))?;
        let all = mount_info::all_options(self.device_name());
        conditions.features.extend(all.map(|options| ("mount options".into(), options)));
        if let Mounting::Over { .. } = self.mounting {
            let below = self.place_below();
            let below = mount_info::in_effect(&below.to_string_lossy())?;
            conditions.below = below.unwrap_or_default();
        }
        conditions.userspace = self.mounting == Mounting::Served;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: &str, mount_type: &str) -> FilesystemPlan {
        let (kind, mount_type) = (kind.to_string(), mount_type.to_string());
        FilesystemPlan { kind, mount_type, ..FilesystemPlan::default() }
    }

    #[test]
    fn every_plan_is_mounted_in_one_way() {
        let below = |kind: &str| BelowPlan {
            kind: kind.into(),
            mount_type: kind.into(),
            mount_options: String::new(),
        };
        let over =
            |kind| FilesystemPlan { below: Some(below(kind)), ..plan("overlayfs", "overlay") };
        let fuse = FilesystemPlan { mount_command: vec!["x".into()], ..plan("fuse2fs", "fuse") };
        let on = |on, kind| Mounting::Over { below: below(kind), on: Box::new(on) };
        for (plan, disks, right, in_memory, durable) in [
            (plan("ext4", "ext4"), 1, Mounting::Device, false, true),
            (plan("tmpfs", "tmpfs"), 0, Mounting::Memory, true, false),
            (over("xfs"), 2, on(Mounting::Device, "xfs"), false, true),
            (over("tmpfs"), 0, on(Mounting::Memory, "tmpfs"), true, false),
            (fuse, 1, Mounting::Served, false, false),
            (plan("raw", ""), 1, Mounting::Raw, false, true),
        ] {
            let mounting = Mounting::of(&plan, disks);
            assert_eq!(mounting, right);
            assert_eq!(mounting.in_memory(), in_memory, "{right:?}");
            assert_eq!(mounting.syncs_are_durable("noatime"), durable, "{right:?}");
        }
        assert!(!on(Mounting::Device, "xfs").syncs_are_durable("noatime,volatile"));
        // The meaning of that option for another file system is not known.
        assert!(Mounting::Device.syncs_are_durable("volatile"));
    }

    #[test]
    fn what_a_gap_cannot_do_it_is_not_called() {
        use GapKind::{BackToBack, Drop, None, Remount, Sync};
        for (mounting, names) in [
            (Mounting::Device, [None, Sync, Drop, Remount]),
            (Mounting::Served, [None, Sync, Drop, Remount]),
            (Mounting::Memory, [None, Sync, Sync, Sync]),
            (Mounting::Raw, [None, Sync, Drop, Drop]),
        ] {
            let done = |wanted| mounting.name_of(mounting.can_do(wanted));
            assert_eq!([None, Sync, Drop, Remount].map(done), names.map(GapKind::name));
            assert_eq!(done(BackToBack), BackToBack.name());
        }
    }
}
