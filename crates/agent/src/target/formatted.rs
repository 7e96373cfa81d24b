//! A file system that is created and mounted for one trial on modelled disks or on devices of this host.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsdyno_engine::clock;
use fsdyno_filesystem::{Devices, fill};
use fsdyno_record::Nanos;
use fsdyno_record::plan::{FilesystemPlan, RaidPlan};
use fsdyno_record::trial::{Conditions, Device, DiskRole, Setup, VerifyReport};
use fsdyno_workload::GapKind;

use super::mounting::Mounting;
use super::userspace::Workers;
use super::{Medium, ModelledDisk, Target, WriteCounters, array};
use crate::account::{self, Instruments};
use crate::held_device::HeldDevice;
use crate::serve_disk::Shared;
use crate::shared;

/// A file system created for a trial.
pub struct Formatted {
    pub(super) plan: FilesystemPlan,
    pub(super) mounting: Mounting,
    pub(super) seed: u64,
    /// The disks of the file system, followed by that of its journal.
    pub(super) disks: Vec<ModelledDisk>,
    pub(super) raid: Option<RaidPlan>,
    /// The kernel's name for the array, if there is one.
    pub(super) array: String,
    /// The number that UUIDs are drawn from, if it differs from the seed.
    pub(super) uuids: Option<u64>,
    /// The devices of this host that it uses, checked again before each command that writes to them.
    pub(super) held: Arc<[HeldDevice]>,
    pub(super) scheduler: Option<String>,
    pub(super) mount_point: PathBuf,
    pub(super) root: Option<OwnedFd>,
    pub(super) mounted: bool,
    /// The clients and the network over which it is shared, if it is.
    pub(super) shared: Option<shared::Shared>,
    /// The processes that do its work, if the kernel does not.
    pub(super) workers: Workers,
    /// True once mkfs has run, possibly in a different guest.
    formatted: bool,
    /// True once its disks are prepared.
    laid_out: bool,
    setup: Setup,
}

impl Formatted {
    /// Creates a target on these disks (at least one), without touching them yet.
    pub fn new(
        plan: FilesystemPlan,
        seed: u64,
        disks: Vec<ModelledDisk>,
        raid: Option<RaidPlan>,
        scheduler: Option<String>,
        mount_point: PathBuf,
    ) -> Formatted {
        Formatted {
            seed,
            raid,
            array: array::NAME.to_string(),
            uuids: None,
            held: Arc::new([]),
            scheduler,
            mounting: Mounting::of(&plan, disks.len()),
            plan,
            disks,
            mount_point,
            root: None,
            mounted: false,
            shared: None,
            formatted: false,
            laid_out: false,
            workers: Workers::default(),
            setup: Setup::default(),
        }
    }

    /// Returns the same target for a host, where other arrays and UUIDs exist too: with its own array name, with the
    /// number that UUIDs are drawn from, and with the descriptors that hold the devices open.
    pub fn for_host(self, array: Option<String>, uuids: u64, held: Arc<[HeldDevice]>) -> Formatted {
        Formatted { array: array.unwrap_or(self.array), uuids: Some(uuids), held, ..self }
    }

    /// Returns the same target, shared over a network if there is one.
    pub fn shared_over(self, shared: Option<shared::Shared>) -> Formatted {
        Formatted { shared, ..self }
    }

    /// Checks that the devices' names still refer to the held devices, before each command that writes.
    pub(super) fn recheck_devices(&self) -> io::Result<()> {
        self.held.iter().try_for_each(HeldDevice::verify)
    }

    /// Returns the same target on disks that a different guest has already formatted, if `formatted`.
    pub fn already_formatted(self, formatted: bool) -> Formatted {
        Formatted { formatted, ..self }
    }

    /// Returns the same target with the time that the previous steps took.
    pub fn with_setup_times(self, boot_ns: Nanos, device_ns: Nanos) -> Formatted {
        Formatted { setup: Setup { boot_ns, device_ns, ..self.setup }, ..self }
    }

    /// Returns the kernel's name for the device of the file system.
    pub(super) fn device_name(&self) -> &str {
        match self.raid {
            Some(_) => &self.array,
            None => self.disks.first().map_or("", ModelledDisk::device_name),
        }
    }

    pub(super) fn device_path(&self) -> PathBuf {
        Path::new("/dev").join(self.device_name())
    }

    pub(super) fn journal(&self) -> Option<&ModelledDisk> {
        self.disks.iter().find(|disk| disk.role == DiskRole::Journal)
    }

    /// Returns the devices that the file system writes to: its own, and that of its journal.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        if self.mounting.in_memory() {
            return Vec::new();
        }
        let journal = self.journal().map(ModelledDisk::path);
        [Some(self.device_path()), journal].into_iter().flatten().collect()
    }

    /// Returns the arguments of a command with device, journal and UUIDs filled in.
    pub fn fill_in(&self, template: &[String]) -> Vec<String> {
        let device = self.device_path();
        let journal = self.journal().map(ModelledDisk::path);
        let devices = Devices {
            device: &device.to_string_lossy(),
            journal: journal.as_deref().and_then(Path::to_str),
            uuids: self.uuids,
        };
        fill(template, devices, self.seed)
    }

    /// Returns the disks if there are several, else none.
    fn disks_if_several(&self) -> &[ModelledDisk] {
        if self.disks.len() > 1 { &self.disks } else { &[] }
    }

    /// Returns true if no disk has anything in its cache.
    fn caches_are_empty(&self) -> bool {
        self.disks.iter().filter_map(ModelledDisk::shared).all(Shared::is_flushed)
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
        if !self.formatted {
            self.format(conditions)?;
        }
        self.setup.mkfs_ns += clock::now().since(started);
        if !self.formatted {
            self.drop_devices_cache()?;
            if self.plan.settles {
                self.settle(conditions)?;
            }
            self.formatted = true;
        }
        Ok(())
    }

    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        self.make(conditions)?;
        let formatted = clock::now();
        self.set_timed(true);
        self.mount()?;
        self.setup.mount_ns = clock::now().since(formatted);
        self.describe_mount(conditions)?;
        self.disks.iter().try_for_each(|disk| disk.check_queue(self.scheduler.as_deref()))?;
        let has_check = !self.plan.check.is_empty();
        conditions.notes.extend(self.mounting.notes(&self.plan.kind, has_check));
        Ok(())
    }

    fn setup(&self) -> Option<Setup> {
        Some(self.setup)
    }

    fn root(&self) -> BorrowedFd<'_> {
        match &self.root {
            Some(root) => root.as_fd(),
            // Between unmount and mount there is no tree; the current directory is used instead, so that misuse shows
            // up as a wrong tree in verification and not as a crash of PID 1.
            None => rustix::fs::CWD,
        }
    }

    fn roots(&self) -> Vec<BorrowedFd<'_>> {
        match self.shared.as_ref().map(shared::Shared::roots) {
            Some(roots) if !roots.is_empty() => roots,
            _ => vec![self.root()],
        }
    }

    fn with_observer(
        &self,
        examine: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<VerifyReport>,
    ) -> io::Result<VerifyReport> {
        match &self.shared {
            Some(shared) => shared.with_observer(examine),
            None => examine(self.root()),
        }
    }

    fn device_file(&self) -> Option<PathBuf> {
        matches!(self.mounting, Mounting::Raw).then(|| self.device_path())
    }

    fn gap(&mut self, wanted: GapKind) -> io::Result<&'static str> {
        let done = self.mounting.possible_gap(wanted);
        match done {
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
        Ok(self.mounting.gap_name(done))
    }

    fn start_phase(&mut self) {
        self.disks.iter().filter_map(ModelledDisk::shared).for_each(Shared::reset_peak);
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.mounting {
            Mounting::Raw => Ok(rustix::fs::fsync(&File::open(self.device_path())?)?),
            Mounting::Shared { .. } => self.sync_shared(),
            _ => Ok(rustix::fs::syncfs(self.root())?),
        }
    }

    fn flush_device(&mut self) -> io::Result<bool> {
        // An array forwards a flush to all its disks.
        if self.disks.iter().any(ModelledDisk::has_cache) {
            for path in self.paths() {
                rustix::fs::fsync(&File::open(path)?)?;
            }
        }
        Ok(self.mounting.syncs_are_durable(&self.plan.mount_options) && self.caches_are_empty())
    }

    fn set_timed(&self, timed: bool) {
        self.disks.iter().filter_map(ModelledDisk::shared).for_each(|it| it.set_timed(timed));
    }

    fn device(&self) -> Option<Device> {
        account::sum(self.disks.iter().filter_map(ModelledDisk::counters))
    }

    fn devices(&self) -> BTreeMap<String, Device> {
        let named = |disk: &ModelledDisk| Some((disk.device_name().to_string(), disk.counters()?));
        self.disks_if_several().iter().filter_map(named).collect()
    }

    fn write_counters(&self) -> Option<WriteCounters> {
        let files = self.disks.iter().filter_map(ModelledDisk::stat_file).collect();
        Some(WriteCounters { files, has_device: !self.disks.is_empty() })
    }

    fn lateness(&self) -> Nanos {
        self.disks.iter().map(ModelledDisk::lateness).fold(Nanos(0), |sum, late| sum + late)
    }

    fn device_error(&self) -> Option<io::Error> {
        self.disks.iter().filter_map(ModelledDisk::shared).find_map(Shared::error)
    }

    fn cause(&self) -> Option<String> {
        self.workers.describe_death()
    }

    fn instruments(&self) -> Instruments {
        let workers = self.workers.current_pids();
        let mut instruments = Instruments { workers, ..Instruments::default() };
        for disk in &self.disks {
            if let Medium::Served { device, .. } = &disk.medium {
                instruments.servers.push(device.server);
                instruments.drivers.push(device.driver);
            }
        }
        instruments
    }

    /// Unmounts and flushes, like a shutdown: the data written by the file system leave the drive's cache too.
    fn finish(&mut self) -> io::Result<()> {
        self.unmount()?;
        self.flush_device()?;
        match self.caches_are_empty() {
            true => Ok(()),
            false => {
                Err(io::Error::other("the disk completed a flush with data still in its cache"))
            }
        }
    }
}
