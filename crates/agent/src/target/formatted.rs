//! A file system made and mounted for one trial on modelled disks or on devices of this host.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsdyno_engine::clock;
use fsdyno_filesystem::{Devices, fill, mount};
use fsdyno_record::plan::{BelowPlan, FeatureWord, FilesystemPlan, RaidPlan};
use fsdyno_record::trial::{Conditions, Device, DiskRole, Setup};
use fsdyno_record::{Bytes, Nanos};
use fsdyno_workload::GapKind;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::userspace::{self, Workers};
use super::{Medium, ModelledDisk, Target, WrittenAt, array};
use crate::account::{self, Instruments};
use crate::block_queue;
use crate::mount_info::{self, Mount};
use crate::process;
use crate::proven::Held;
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
    /// As the kernel names the array, where there is one.
    array: String,
    /// What UUIDs are drawn from, where it is not the seed.
    uuids: Option<u64>,
    /// The devices of this host that it lies on, proven again before whatever writes to them.
    held: Arc<[Held]>,
    scheduler: Option<String>,
    mount_point: PathBuf,
    root: Option<OwnedFd>,
    mounted: bool,
    /// The processes that do its work, where the kernel does not.
    workers: Workers,
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
        Formatted {
            plan,
            seed,
            disks,
            raid,
            array: array::NAME.to_string(),
            uuids: None,
            held: Arc::new([]),
            scheduler,
            mount_point,
            root: None,
            mounted: false,
            made: false,
            laid_out: false,
            workers: Workers::default(),
            setup: Setup::default(),
        }
    }

    /// The same on a host, where others have arrays and UUIDs too: with another name for its array,
    /// with what UUIDs are drawn from, and with what keeps the devices ours.
    pub fn beside_others(self, array: Option<String>, uuids: u64, held: Arc<[Held]>) -> Formatted {
        Formatted { array: array.unwrap_or(self.array), uuids: Some(uuids), held, ..self }
    }

    /// Whether the devices' names still mean what is held: asked before each command that writes.
    fn prove(&self) -> io::Result<()> {
        self.held.iter().try_for_each(Held::prove)
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
            Some(_) => &self.array,
            None => self.disks.first().map_or("", ModelledDisk::device_name),
        }
    }

    fn device_path(&self) -> PathBuf {
        Path::new("/dev").join(self.device_name())
    }

    fn journal(&self) -> Option<&ModelledDisk> {
        self.disks.iter().find(|disk| disk.role == DiskRole::Journal)
    }

    /// Whether it lies in memory, where nothing is made, dropped or durable.
    fn in_memory(&self) -> bool {
        self.disks.is_empty()
    }

    /// Whether a sync that came back, and the device's cache emptied, make durable what was done: not
    /// where a process may hold it, nor where overlayfs was told to sync nothing.
    fn keeps_its_word(&self) -> bool {
        let volatile = self.plan.below.is_some()
            && self.plan.mount_options.split(',').any(|option| option == "volatile");
        !self.in_memory() && !self.plan.in_user_space() && !volatile
    }

    /// The devices that the file system writes to: its own, and that of its journal.
    fn paths(&self) -> Vec<PathBuf> {
        if self.in_memory() {
            return Vec::new();
        }
        let journal = self.journal().map(ModelledDisk::path);
        [Some(self.device_path()), journal].into_iter().flatten().collect()
    }

    fn filled(&self, template: &[String]) -> Vec<String> {
        let device = self.device_path();
        let journal = self.journal().map(ModelledDisk::path);
        let devices = Devices {
            device: &device.to_string_lossy(),
            journal: journal.as_deref().and_then(Path::to_str),
            uuids: self.uuids,
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
            self.prove()?;
            array::create(&self.array, raid, &members, (self.seed, self.uuids), conditions)?;
        }
        if self.in_memory() {
            return Ok(());
        }
        conditions.queue = block_queue::read_back(self.device_name());
        match self.disks.as_slice() {
            [one] => {
                conditions.partition_start = one.spec.as_ref().map(|_| one.partition.start);
            }
            several => {
                let named = |disk: &ModelledDisk| (disk.device_name().into(), disk.conditions());
                conditions.disks = several.iter().map(named).collect();
            }
        }
        conditions.device_size = Some(Bytes(block_queue::size(self.device_name())?));
        Ok(())
    }

    fn format(&self, conditions: &mut Conditions) -> io::Result<()> {
        if self.plan.is_raw() {
            return Ok(());
        }
        if let Some(journal) = self.plan.journal.as_ref().filter(|plan| !plan.make.is_empty()) {
            let argv = self.filled(&journal.make);
            self.prove()?;
            process::run(&argv, &self.plan.env)?.good(&argv)?;
            conditions.before_mkfs.push(argv);
        }
        if self.plan.mkfs.is_empty() {
            return Ok(());
        }
        conditions.mkfs = self.filled(&self.plan.mkfs);
        self.prove()?;
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
        for word in &self.plan.feature_words {
            let value = feature_word(&self.device_path(), word)?;
            conditions.features.insert(word.key.clone(), value.to_string());
        }
        if let Some(journal) = self.plan.journal.as_ref().filter(|plan| !plan.features.is_empty()) {
            let shown = process::run(&self.filled(&journal.features), &self.plan.env)?;
            let found = fsdyno_filesystem::features(&shown.output, &journal.feature_keys);
            let named = found.into_iter().map(|(key, value)| (format!("journal: {key}"), value));
            conditions.features.extend(named);
            unread.extend((shown.exit != Some(0)).then(|| shown.last_lines(1).join(" ")));
        }
        let bytes =
            fsdyno_filesystem::journal_bytes(&conditions.features, &self.plan.journal_bytes);
        conditions.features.extend(bytes.map(|bytes| ("journal bytes".into(), bytes.to_string())));
        let note = |said| format!("the features in effect could not be read back: {said}");
        conditions.notes.extend(unread.into_iter().map(note));
        Ok(())
    }

    /// Whether no disk has anything in its cache.
    fn caches_are_empty(&self) -> bool {
        self.disks.iter().filter_map(ModelledDisk::shared).all(Shared::flushed)
    }

    /// What a reader of the record must know of such a file system.
    fn note(&self, conditions: &mut Conditions) {
        let kind = &self.plan.kind;
        let mut note = |text: String| conditions.notes.push(text);
        if self.plan.in_user_space() {
            note(format!(
                "{kind}: a process in user space did the file system's work; it is shown, and no claim \
                 about a kernel is judged by it. What the process holds cannot be asked for, so nothing \
                 is called durable; its CPU time is named 'fuse'"
            ));
        }
        if self.in_memory() {
            note(format!(
                "{kind} lies in memory: nothing is dropped or mounted anew between phases, and nothing is \
                 durable"
            ));
        } else if self.plan.check.is_empty() {
            note(format!(
                "{kind} has no check of its own here: what was compared are the names and bytes, after a \
                 remount"
            ));
        }
    }

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

    fn mount(&mut self) -> io::Result<()> {
        self.prove()?;
        if self.plan.is_raw() {
            return self.open_root();
        }
        if self.plan.in_user_space() {
            let place = self.mount_point.to_string_lossy();
            let argv = self.filled(&self.plan.mount_command);
            let argv: Vec<String> =
                argv.iter().map(|word| word.replace("{mount}", &place)).collect();
            self.workers = userspace::mount(&argv, &self.plan.env, &self.mount_point)?;
        } else if let Some(below) = &self.plan.below {
            self.mount_over(below)?;
        } else {
            let (kind, options) = (&self.plan.mount_type, &self.plan.mount_options);
            self.mount_by_kernel(&self.source(kind), kind, options, &self.mount_point)?;
        }
        self.mounted = true;
        self.open_root()?;
        self.workers.look();
        Ok(())
    }

    /// Where the file system below another is mounted.
    fn place_below(&self) -> PathBuf {
        self.mount_point.with_extension("below")
    }

    /// Mounts the file system that was made, and the other over an empty and an upper layer on it.
    fn mount_over(&self, below: &BelowPlan) -> io::Result<()> {
        let place = self.place_below();
        fs::create_dir_all(&place)?;
        let (kind, options) = (&below.mount_type, &below.mount_options);
        self.mount_by_kernel(&self.source(kind), kind, options, &place)?;
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

    /// What is mounted: the device; what lies on none is named after itself in /proc/mounts.
    fn source(&self, kind: &str) -> PathBuf {
        if self.in_memory() { PathBuf::from(kind) } else { self.device_path() }
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

    fn unmount(&mut self) -> io::Result<()> {
        self.root = None;
        if self.mounted {
            rustix::mount::unmount(&self.mount_point, UnmountFlags::empty())?;
            self.mounted = false;
            self.workers.wait()?;
            if self.plan.below.is_some() {
                rustix::mount::unmount(self.place_below(), UnmountFlags::empty())?;
            }
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

/// What a file system keeps at a fixed place of its device.
fn feature_word(device: &Path, word: &FeatureWord) -> io::Result<u32> {
    let mut bytes = [0; 4];
    File::open(device)?.read_exact_at(&mut bytes, word.at)?;
    let mask = u32::MAX.checked_shr(32u32.saturating_sub(word.bits)).unwrap_or(0);
    Ok(u32::from_le_bytes(bytes) & mask)
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
        if self.plan.is_raw() {
            conditions.mount = format!("none: {} itself", self.device_path().display());
            conditions.notes.push(
                "raw: no file system; the workload's one file is the device, on which O_CREAT, O_TRUNC \
                 and unlink do nothing"
                    .to_string(),
            );
            return Ok(());
        }
        let at = self.mount_point.to_string_lossy();
        conditions.mount = mount_info::in_effect(&Mount::At(&at))?
            .ok_or_else(|| io::Error::other(format!("{at} is not mounted")))?;
        let all = mount_info::all_options(self.device_name());
        conditions.features.extend(all.map(|options| ("mount options".into(), options)));
        if self.plan.below.is_some() {
            let below = self.place_below();
            let below = mount_info::in_effect(&Mount::At(&below.to_string_lossy()))?;
            conditions.below = below.unwrap_or_default();
        }
        conditions.userspace = self.plan.in_user_space();
        self.note(conditions);
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

    fn device_file(&self) -> Option<PathBuf> {
        self.plan.is_raw().then(|| self.device_path())
    }

    fn gap(&mut self, wanted: GapKind) -> io::Result<&'static str> {
        match wanted {
            GapKind::None | GapKind::BackToBack => {}
            // There, dropping keeps all and unmounting keeps nothing.
            GapKind::Drop | GapKind::Remount if self.in_memory() => {
                self.sync()?;
                return Ok(GapKind::Sync.name());
            }
            GapKind::Sync => self.sync()?,
            // Nothing is mounted; what the page cache holds of the device is dropped.
            GapKind::Remount if self.plan.is_raw() => {
                self.sync()?;
                self.unmount()?;
                self.mount()?;
                return Ok(GapKind::Drop.name());
            }
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
        if self.plan.is_raw() {
            return Ok(rustix::fs::fsync(&File::open(self.device_path())?)?);
        }
        Ok(rustix::fs::syncfs(self.root())?)
    }

    fn flush_device(&mut self) -> io::Result<bool> {
        // An array hands a flush on to all its disks.
        if self.disks.iter().any(ModelledDisk::has_cache) {
            for path in self.paths() {
                rustix::fs::fsync(&File::open(path)?)?;
            }
        }
        Ok(self.keeps_its_word() && self.caches_are_empty())
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

    fn written_at(&self) -> Option<WrittenAt> {
        let files = self.disks.iter().filter_map(ModelledDisk::stat_file).collect();
        Some(WrittenAt { files, any: !self.disks.is_empty() })
    }

    fn late(&self) -> Nanos {
        self.disks.iter().map(ModelledDisk::late).fold(Nanos(0), |sum, late| sum + late)
    }

    fn device_error(&self) -> Option<io::Error> {
        self.disks.iter().filter_map(ModelledDisk::shared).find_map(Shared::failed)
    }

    fn cause(&self) -> Option<String> {
        self.workers.died()
    }

    fn instruments(&self) -> Instruments {
        let workers = self.workers.now();
        let mut instruments = Instruments { workers, ..Instruments::default() };
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
        self.flush_device()?;
        match self.caches_are_empty() {
            true => Ok(()),
            false => Err(io::Error::other("the disk answered a flush with its cache not empty")),
        }
    }
}
