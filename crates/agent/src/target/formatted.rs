//! A file system made, mounted and checked for one trial on modelled disks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use fsdyno_engine::clock;
use fsdyno_filesystem::{Devices, fill, mount};
use fsdyno_record::plan::{FilesystemPlan, RaidPlan};
use fsdyno_record::trial::{Conditions, Device, DiskRole, Setup};
use fsdyno_record::{Bytes, Nanos};
use fsdyno_workload::GapKind;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::{Medium, ModelledDisk, Target, array};
use crate::account::{self, Instruments};
use crate::block_queue;
use crate::mount_info::{self, Mount};
use crate::process;
use crate::serve_disk::Shared;

/// linux/fs.h `BLKFLSBUF`: write back and drop the device's own page cache.
const BLKFLSBUF: libc::c_ulong = 0x1261;

/// How many of a tool's last lines are kept.
const TOOL_LINES: usize = 12;

/// A freshly made file system.
pub struct Formatted {
    plan: FilesystemPlan,
    seed: u64,
    /// Those of the file system, and after them that of its journal.
    disks: Vec<ModelledDisk>,
    raid: Option<RaidPlan>,
    scheduler: Option<String>,
    mount_point: PathBuf,
    root: Option<OwnedFd>,
    mounted: bool,
    /// Whether mkfs has run, perhaps in another guest.
    made: bool,
    /// Whether its disks are laid out.
    laid_out: bool,
    setup: Setup,
}

impl Formatted {
    /// A target that has not been touched yet, on these disks (one at least).
    pub fn new(
        plan: FilesystemPlan,
        seed: u64,
        disks: Vec<ModelledDisk>,
        raid: Option<RaidPlan>,
        scheduler: Option<String>,
        mount_point: PathBuf,
    ) -> Formatted {
        let (root, setup) = (None, Setup::default());
        let (mounted, made, laid_out) = (false, false, false);
        Formatted {
            plan,
            seed,
            disks,
            raid,
            scheduler,
            mount_point,
            root,
            mounted,
            made,
            laid_out,
            setup,
        }
    }

    /// The same, on disks that another guest has made.
    pub fn made(self, made: bool) -> Formatted {
        Formatted { made, ..self }
    }

    /// The same, with how long it took until here.
    pub fn after(self, boot_ns: Nanos, device_ns: Nanos) -> Formatted {
        Formatted { setup: Setup { boot_ns, device_ns, ..self.setup }, ..self }
    }

    /// The device that the file system lies on, as the kernel names it.
    fn device_name(&self) -> &str {
        match self.raid {
            Some(_) => array::NAME,
            None => self.disks.first().map_or("", ModelledDisk::device_name),
        }
    }

    fn device_path(&self) -> PathBuf {
        Path::new("/dev").join(self.device_name())
    }

    fn journal(&self) -> Option<&ModelledDisk> {
        self.disks.iter().find(|disk| disk.role == DiskRole::Journal)
    }

    /// The devices that the file system writes to: its own, and that of its journal.
    fn paths(&self) -> Vec<PathBuf> {
        let journal = self.journal().map(ModelledDisk::path);
        [Some(self.device_path()), journal].into_iter().flatten().collect()
    }

    fn filled(&self, template: &[String]) -> Vec<String> {
        let device = self.device_path();
        let journal = self.journal().map(ModelledDisk::path);
        let devices = Devices {
            device: &device.to_string_lossy(),
            journal: journal.as_deref().and_then(Path::to_str),
        };
        fill(template, devices, self.seed)
    }

    /// The part of several disks that is theirs alone, where there are several.
    fn several(&self) -> &[ModelledDisk] {
        if self.disks.len() > 1 { &self.disks } else { &[] }
    }

    /// Sets up the disks' queues and puts the array together.
    fn lay_out(&self, conditions: &mut Conditions) -> io::Result<()> {
        for disk in &self.disks {
            for note in disk.set_queue(self.scheduler.as_deref())? {
                if !conditions.notes.contains(&note) {
                    conditions.notes.push(note);
                }
            }
        }
        if let Some(raid) = self.raid {
            let members = self.disks.iter().filter(|disk| disk.role == DiskRole::Member);
            let members: Vec<String> =
                members.map(|disk| disk.path().to_string_lossy().into_owned()).collect();
            array::create(raid, &members, self.seed, conditions)?;
        }
        conditions.queue = block_queue::read_back(self.device_name());
        match self.disks.as_slice() {
            [one] => conditions.partition_start = Some(one.partition.start),
            several => {
                let named = |disk: &ModelledDisk| (disk.device_name().into(), disk.conditions());
                conditions.disks = several.iter().map(named).collect();
            }
        }
        let sectors = Path::new("/sys/block").join(self.device_name()).join("size");
        let sectors: u64 = fs::read_to_string(sectors)?.trim().parse().map_err(io::Error::other)?;
        conditions.device_size = Some(Bytes(sectors * 512));
        Ok(())
    }

    fn format(&self, conditions: &mut Conditions) -> io::Result<()> {
        if let Some(journal) = self.plan.journal.as_ref().filter(|plan| !plan.make.is_empty()) {
            let argv = self.filled(&journal.make);
            process::run(&argv, &self.plan.env)?.good(&argv)?;
            conditions.before_mkfs.push(argv);
        }
        conditions.mkfs = self.filled(&self.plan.mkfs);
        let ran = process::run(&conditions.mkfs, &self.plan.env)?;
        conditions.mkfs_output = ran.last_lines(TOOL_LINES);
        ran.good(&conditions.mkfs)?;
        // Where there is no command of its own for them, mkfs has just printed the features.
        let shown = if self.plan.features.is_empty() {
            ran
        } else {
            process::run(&self.filled(&self.plan.features), &self.plan.env)?
        };
        conditions.features = fsdyno_filesystem::features(&shown.output, &self.plan.feature_keys);
        let mut unread = Vec::new();
        unread.extend((shown.exit != Some(0)).then(|| shown.last_lines(1).join(" ")));
        if let Some(journal) = self.plan.journal.as_ref().filter(|plan| !plan.features.is_empty()) {
            let shown = process::run(&self.filled(&journal.features), &self.plan.env)?;
            let found = fsdyno_filesystem::features(&shown.output, &journal.feature_keys);
            let named = found.into_iter().map(|(key, value)| (format!("journal: {key}"), value));
            conditions.features.extend(named);
            unread.extend((shown.exit != Some(0)).then(|| shown.last_lines(1).join(" ")));
        }
        let note = |said| format!("the features in effect could not be read back: {said}");
        conditions.notes.extend(unread.into_iter().map(note));
        Ok(())
    }

    fn mount(&mut self) -> io::Result<()> {
        let options = self.filled(std::slice::from_ref(&self.plan.mount_options)).concat();
        let (flags, data) = mount::split(&options).map_err(io::Error::other)?;
        let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
        rustix::mount::mount(
            self.device_path(),
            &self.mount_point,
            self.plan.mount_type.as_str(),
            MountFlags::from_bits_retain(mount::bits(&flags) as u32),
            Some(data.as_c_str()),
        )
        .map_err(|error| {
            io::Error::other(format!(
                "mount -t {} -o '{}' {}: {error}{}",
                self.plan.mount_type,
                options,
                self.device_path().display(),
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
        for path in self.paths() {
            let device = File::open(path)?;
            // SAFETY: BLKFLSBUF takes no argument and touches no memory of this process.
            if unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as _, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Target for Formatted {
    fn make(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        let started = clock::now();
        self.set_timed(false);
        if !self.laid_out {
            self.lay_out(conditions)?;
            self.laid_out = true;
        }
        if !self.made {
            self.format(conditions)?;
            self.made = true;
        }
        self.setup.mkfs_ns += clock::now().since(started);
        Ok(())
    }

    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        self.make(conditions)?;
        let formatted = clock::now();
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
        self.disks.iter().filter_map(ModelledDisk::shared).for_each(Shared::reset_peak);
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.root())?)
    }

    fn flush_device(&mut self) -> io::Result<bool> {
        // An array hands a flush on to all its disks.
        if self.disks.iter().any(|disk| disk.shared().is_some()) {
            for path in self.paths() {
                rustix::fs::fsync(&File::open(path)?)?;
            }
        }
        Ok(self.disks.iter().filter_map(ModelledDisk::shared).all(Shared::flushed))
    }

    fn set_timed(&self, timed: bool) {
        self.disks.iter().filter_map(ModelledDisk::shared).for_each(|it| it.set_timed(timed));
    }

    fn device(&self) -> Option<Device> {
        account::sum(self.disks.iter().filter_map(ModelledDisk::counters))
    }

    fn devices(&self) -> BTreeMap<String, Device> {
        let named = |disk: &ModelledDisk| Some((disk.device_name().to_string(), disk.counters()?));
        self.several().iter().filter_map(named).collect()
    }

    fn late(&self) -> Nanos {
        self.disks.iter().map(ModelledDisk::late).fold(Nanos(0), |sum, late| sum + late)
    }

    fn device_error(&self) -> Option<io::Error> {
        self.disks.iter().filter_map(ModelledDisk::shared).find_map(Shared::failed)
    }

    fn instruments(&self) -> Instruments {
        let mut instruments = Instruments::default();
        for disk in &self.disks {
            if let Medium::Served { device, .. } = &disk.medium {
                instruments.servers.push(device.server);
                instruments.drivers.push(device.driver);
            }
        }
        instruments
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
