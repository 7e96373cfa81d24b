//! A file system made, mounted and checked for one trial on a block device of our own.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use fsdyno_disk::DiskSpec;
use fsdyno_engine::clock;
use fsdyno_filesystem::{fill, mount};
use fsdyno_record::plan::FilesystemPlan;
use fsdyno_record::trial::{Conditions, Device, Setup};
use fsdyno_record::{Bytes, Nanos};
use fsdyno_workload::GapKind;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::Target;
use crate::account::{self, Instruments};
use crate::block_queue;
use crate::mount_info::{self, Mount};
use crate::process;
use crate::serve_disk::{BlockDevice, Shared};

/// linux/fs.h `BLKFLSBUF`: write back and drop the device's own page cache.
const BLKFLSBUF: libc::c_ulong = 0x1261;

/// How many of a tool's last lines are kept.
const TOOL_LINES: usize = 12;

/// The device under the file system.
pub enum Medium {
    /// A modelled disk and what its server tells.
    Served {
        /// The device.
        device: BlockDevice,
        /// Its server's counters.
        shared: Shared,
    },
    /// A device that answers at once and has no server (the lab's NVDIMM).
    Instant {
        /// As the kernel names it: `pmem0`.
        name: String,
    },
}

impl Medium {
    fn name(&self) -> &str {
        match self {
            Medium::Served { device, .. } => &device.name,
            Medium::Instant { name } => name,
        }
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }
}

/// A freshly made file system.
pub struct Formatted {
    plan: FilesystemPlan,
    seed: u64,
    medium: Medium,
    spec: DiskSpec,
    scheduler: Option<String>,
    partition_start: Bytes,
    mount_point: PathBuf,
    root: Option<OwnedFd>,
    mounted: bool,
    setup: Setup,
}

impl Formatted {
    /// A target that has not been touched yet.
    pub fn new(
        plan: FilesystemPlan,
        seed: u64,
        medium: Medium,
        spec: DiskSpec,
        scheduler: Option<String>,
        partition_start: Bytes,
        mount_point: PathBuf,
    ) -> Formatted {
        Formatted {
            plan,
            seed,
            medium,
            spec,
            scheduler,
            partition_start,
            mount_point,
            root: None,
            mounted: false,
            setup: Setup::default(),
        }
    }

    /// The same, with how long it took until here.
    pub fn after(self, boot_ns: Nanos, device_ns: Nanos) -> Formatted {
        Formatted { setup: Setup { boot_ns, device_ns, ..self.setup }, ..self }
    }

    fn argv(&self, template: &[String]) -> Vec<String> {
        fill(template, &self.medium.path().to_string_lossy(), self.seed)
    }

    fn format(&self, conditions: &mut Conditions) -> io::Result<()> {
        conditions.mkfs = self.argv(&self.plan.mkfs);
        let ran = process::run(&conditions.mkfs, &self.plan.env)?;
        conditions.mkfs_output = ran.last_lines(TOOL_LINES);
        if ran.exit != Some(0) {
            return Err(io::Error::other(format!(
                "{} failed ({}): {}",
                conditions.mkfs.join(" "),
                ran.exit.map_or("killed".to_string(), |code| format!("exit code {code}")),
                ran.last_lines(3).join(" / ")
            )));
        }
        // Where there is no command of its own for them, mkfs has just printed the features.
        let shown = if self.plan.features.is_empty() {
            ran
        } else {
            process::run(&self.argv(&self.plan.features), &self.plan.env)?
        };
        conditions.features = fsdyno_filesystem::features(&shown.output, &self.plan.feature_keys);
        if shown.exit != Some(0) {
            let said = shown.last_lines(1).join(" ");
            conditions.notes.push(format!("the features in effect could not be read back: {said}"));
        }
        Ok(())
    }

    fn mount(&mut self) -> io::Result<()> {
        let (flags, data) = mount::split(&self.plan.mount_options).map_err(io::Error::other)?;
        let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
        rustix::mount::mount(
            self.medium.path(),
            &self.mount_point,
            self.plan.mount_type.as_str(),
            MountFlags::from_bits_retain(mount::bits(&flags) as u32),
            Some(data.as_c_str()),
        )
        .map_err(|error| {
            io::Error::other(format!(
                "mount -t {} -o '{}' {}: {error}{}",
                self.plan.mount_type,
                self.plan.mount_options,
                self.medium.path().display(),
                crate::kernel_log::hint(),
            ))
        })?;
        self.mounted = true;
        let trial = self.mount_point.join("trial");
        if !trial.is_dir() {
            fs::create_dir(&trial)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.root = Some(rustix::fs::open(&trial, flags, Mode::empty())?);
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        self.root = None;
        if self.mounted {
            rustix::mount::unmount(&self.mount_point, UnmountFlags::empty())?;
            self.mounted = false;
        }
        // The driver keeps the device open, so the kernel does not drop its page cache, where file
        // systems keep their metadata, by itself as it would after the last close.
        let device = File::open(self.medium.path())?;
        // SAFETY: BLKFLSBUF takes no argument and touches no memory of this process.
        if unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as _, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Target for Formatted {
    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        let started = clock::now();
        self.set_timed(false);
        match &self.medium {
            Medium::Served { device, .. } => {
                block_queue::set(&device.name, &self.spec.queue, self.scheduler.as_deref())?;
            }
            Medium::Instant { name } => block_queue::count_requests(name)?,
        }
        conditions.queue = block_queue::read_back(self.medium.name());
        conditions.notes.extend(block_queue::differences(&self.spec.queue, &conditions.queue));
        conditions.partition_start = Some(self.partition_start);
        let sectors = Path::new("/sys/block").join(self.medium.name()).join("size");
        let sectors: u64 = fs::read_to_string(sectors)?.trim().parse().map_err(io::Error::other)?;
        conditions.device_size = Some(Bytes(sectors * 512));
        self.format(conditions)?;
        let formatted = clock::now();
        self.setup.mkfs_ns = formatted.since(started);
        self.set_timed(true);
        self.mount()?;
        self.setup.mount_ns = clock::now().since(formatted);
        let at = self.mount_point.to_string_lossy();
        conditions.mount = mount_info::in_effect(&Mount::At(&at))?
            .ok_or_else(|| io::Error::other(format!("{at} is not mounted")))?;
        Ok(())
    }

    fn setup(&self) -> Option<Setup> {
        Some(self.setup)
    }

    fn root(&self) -> BorrowedFd<'_> {
        match &self.root {
            Some(root) => root.as_fd(),
            // Between unmount and mount there is no tree; the current directory stands in so
            // that a misuse shows as a wrong tree in verification, not as a crash of PID 1.
            None => rustix::fs::CWD,
        }
    }

    fn gap(&mut self, wanted: GapKind) -> io::Result<&'static str> {
        match wanted {
            GapKind::None | GapKind::BackToBack => {}
            GapKind::Sync => self.sync()?,
            GapKind::Drop => {
                self.sync()?;
                fs::write("/proc/sys/vm/drop_caches", "3")?;
            }
            GapKind::Remount => {
                self.sync()?;
                self.unmount()?;
                self.mount()?;
            }
        }
        Ok(wanted.name())
    }

    fn start_phase(&mut self) {
        if let Medium::Served { shared, .. } = &self.medium {
            shared.reset_peak();
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.root())?)
    }

    fn flush_device(&mut self) -> io::Result<bool> {
        let Medium::Served { shared, device } = &self.medium else { return Ok(true) };
        rustix::fs::fsync(&File::open(&device.path)?)?;
        Ok(shared.flushed())
    }

    fn set_timed(&self, timed: bool) {
        if let Medium::Served { shared, .. } = &self.medium {
            shared.set_timed(timed);
        }
    }

    fn device(&self) -> Option<Device> {
        match &self.medium {
            Medium::Served { shared, .. } => Some(shared.device()),
            Medium::Instant { name } => {
                let stat = Path::new("/sys/block").join(name).join("stat");
                let mut device = account::parse_device_stat(&fs::read_to_string(stat).ok()?)?;
                device.busy_ns = None;
                Some(device)
            }
        }
    }

    fn late(&self) -> Nanos {
        match &self.medium {
            Medium::Served { shared, .. } => shared.late(),
            Medium::Instant { .. } => Nanos(0),
        }
    }

    fn device_error(&self) -> Option<io::Error> {
        match &self.medium {
            Medium::Served { shared, .. } => shared.failed(),
            Medium::Instant { .. } => None,
        }
    }

    fn instruments(&self) -> Instruments {
        match &self.medium {
            Medium::Served { device, .. } => {
                Instruments { server: Some(device.server), driver: Some(device.driver) }
            }
            Medium::Instant { .. } => Instruments::default(),
        }
    }

    /// As a shutdown does: what the file system has written leaves the drive's cache too.
    fn finish(&mut self) -> io::Result<()> {
        self.unmount()?;
        match self.flush_device()? {
            true => Ok(()),
            false => Err(io::Error::other("the disk answered a flush with its cache not empty")),
        }
    }
}
