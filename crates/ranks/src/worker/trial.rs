//! A trial in a worker: its directory and its workload, and the steps before and after its phases.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsdyno_engine::device_caches::DeviceCaches;
use fsdyno_engine::issue::shared::Slots;
use fsdyno_engine::{EngineCost, calibrate, clock, verify};
use fsdyno_record::mount_table::CLIENT_CACHE;
use fsdyno_record::plan::RanksPlan;
use fsdyno_record::{Job, Nanos, mount_table};
use fsdyno_workload::{Contents, GapKind, Setting, Workload, workloads};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::input::HeldInputs;
use super::link::Link;
use super::{Join, WorkerError};
use crate::messages::{FromRank, Preparation, Seen, TreeOf};

/// Pauses in milliseconds between readings of a tree that differs.
const READ_AGAIN: [u64; 8] = [50, 200, 750, 2_000, 5_000, 12_000, 20_000, 25_000];

const NO_INPUT: &str = "rank 0 did not send the input file of the workload";

/// A trial of a worker.
pub(super) struct Trial {
    pub(super) job: Job,
    pub(super) plan: RanksPlan,
    pub(super) rank: u32,
    pub(super) work: Box<dyn Workload>,
    pub(super) contents: Arc<Contents>,
    pub(super) engine: EngineCost,
    /// The open files that all threads share, if they share them.
    pub(super) slots: Option<Arc<Slots>>,
    /// The type of the file system.
    pub(super) filesystem_type: String,
    root: OwnedFd,
}

/// Returns the name of a rank's own directory.
fn own_name(rank: u32) -> String {
    format!("rank-{rank:05}")
}

fn failed(what: &str) -> impl FnOnce(Errno) -> WorkerError + '_ {
    move |error| {
        let error = fsdyno_engine::Errno(error.raw_os_error());
        WorkerError::plain(format!("failed to {what}: {error}"))
    }
}

impl Trial {
    /// Finds the trial's directory and builds the workload.
    pub(super) fn prepare(
        preparation: Preparation,
        join: &Join,
        inputs: &HeldInputs,
        link: &Link,
    ) -> Result<(Trial, FromRank), WorkerError> {
        let Preparation { job, folder } = preparation;
        let plan = job.plan.shared_by().cloned();
        let plan =
            plan.ok_or_else(|| WorkerError::plain("the plan is not for a group of ranks"))?;
        let began = clock::now();
        let root = open_directory(join, &folder, link)?;
        let time_to_find = clock::now().since(began);
        let input = job.plan.workload.input.as_ref().map(|input| inputs.find(&input.sha256));
        let input =
            input.map(|held| held.ok_or_else(|| WorkerError::plain(NO_INPUT))).transpose()?;
        let setting = Setting { seed: job.seed, input };
        let work = workloads::find(&job.plan.workload.name)
            .map_err(|error| WorkerError::plain(error.to_string()))?
            .build(&job.plan.workload.params, &setting)
            .map_err(|error| WorkerError::plain(error.to_string()))?;
        let (contents, slots) = contents_of(work.as_ref(), setting);
        if plan.own {
            let made = mkdirat(&root, own_name(join.rank), Mode::from_raw_mode(0o755));
            made.map_err(failed("make the rank's own directory"))?;
        }
        allow_many_files();
        let status = rustix::fs::fstat(&root).map_err(failed("inspect the trial's directory"))?;
        let device = status.st_dev;
        let trial = Trial {
            plan,
            rank: join.rank,
            work,
            contents: Arc::new(contents),
            engine: calibrate(),
            slots,
            filesystem_type: filesystem_type(&root)?,
            root,
            job,
        };
        Ok((trial, FromRank::Prepared { found: time_to_find, device }))
    }

    /// Opens the directory in which a phase works: the common one, or that of a rank.
    pub(super) fn directory(&self, rank: Option<u32>) -> Result<OwnedFd, WorkerError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = rank.map_or_else(|| ".".to_string(), own_name);
        let mut opened = openat(&self.root, &name, flags, Mode::empty());
        let begin = Instant::now();
        // It has existed since all ranks were prepared; this client may not see it yet.
        while opened.as_ref().err() == Some(&Errno::NOENT) && begin.elapsed() < CLIENT_CACHE {
            std::thread::sleep(Duration::from_millis(20));
            opened = openat(&self.root, &name, flags, Mode::empty());
        }
        opened.map_err(failed("open the rank's directory"))
    }

    pub(super) fn sync(&self) -> Result<FromRank, WorkerError> {
        let io = |error: io::Error| {
            WorkerError::plain(format!("failed to find the device below the file system: {error}"))
        };
        let mount = mount_table::mount_of_file(self.root.as_fd()).map_err(io)?;
        let mut caches =
            DeviceCaches::of_filesystem(self.root.as_fd(), mount.as_ref()).map_err(io)?;
        caches.count_flushes_before_sync();
        rustix::fs::syncfs(&self.root).map_err(failed("sync the file system"))?;
        let at = clock::now();
        let kind = mount.map_or_else(|| "unknown".to_string(), |mount| mount.kind);
        let doubt = caches.uncertainty().map(|why| format!("file system {kind}: {why}"));
        Ok(FromRank::Synced { at, doubt })
    }

    pub(super) fn gap(&self, wanted: GapKind) -> Result<&'static str, WorkerError> {
        if matches!(wanted, GapKind::None | GapKind::BackToBack) {
            return Ok(wanted.name());
        }
        rustix::fs::syncfs(&self.root).map_err(failed("sync the file system"))?;
        if wanted == GapKind::Sync || std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
            return Ok(GapKind::Sync.name());
        }
        Ok(GapKind::Drop.name())
    }

    /// Compares a tree with the expected tree after a phase. If caches may explain differences, rereads the tree
    /// until the differences are gone or the time is up.
    pub(super) fn verify(
        &self,
        phase: Option<usize>,
        tree: &TreeOf,
        settle: Nanos,
        link: &Link,
    ) -> Result<Seen, WorkerError> {
        let begin = clock::now();
        let read = || -> Result<_, WorkerError> {
            let root = self.directory(tree.of)?;
            let expected = match phase {
                Some(phase) => self.work.tree_after(phase, &tree.done),
                None => match self.work.prefill() {
                    Some(prefill) => prefill.tree,
                    None => {
                        return Err(WorkerError::plain(
                            "the workload has no initial tree to verify",
                        ));
                    }
                },
            };
            let mut before = 0;
            let mut tick = |entries: u64| {
                link.add_read(entries.saturating_sub(before));
                before = entries;
            };
            let (mode, seed) = (self.job.plan.verify, self.job.seed);
            verify(root.as_fd(), expected.as_ref(), &self.contents, mode, seed, &mut tick).map_err(
                |error: io::Error| {
                    WorkerError::plain(format!("failed to verify the tree: {error}"))
                },
            )
        };
        let first = read()?;
        let mut seen = Seen { report: first.clone(), ..Seen::default() };
        for pause in READ_AGAIN {
            if seen.report.problems == 0 || clock::now().since(begin) >= settle {
                break;
            }
            std::thread::sleep(Duration::from_millis(pause));
            link.add_read(1);
            seen.report = read()?;
            seen.settled = clock::now().since(begin);
        }
        seen.stale = first.problems.saturating_sub(seen.report.problems);
        if seen.stale == 0 {
            seen.settled = Nanos(0);
        }
        Ok(seen)
    }
}

/// Returns the contents that a workload writes, and its table of open files if its threads share one.
fn contents_of(
    work: &dyn Workload,
    Setting { seed, input }: Setting,
) -> (Contents, Option<Arc<Slots>>) {
    let mut contents = Contents::new(seed).with_input(input);
    contents.zero_share(work.zeros());
    match work.shared_slots() {
        Some(count) => (contents.with_classes(), Some(Arc::new(Slots::new(count)))),
        None => (contents, None),
    }
}

/// Returns the type of the file system of a directory.
fn filesystem_type(root: &OwnedFd) -> Result<String, WorkerError> {
    let mount = mount_table::mount_of_file(root.as_fd()).map_err(|error| {
        WorkerError::plain(format!("failed to read /proc/self/mountinfo: {error}"))
    })?;
    Ok(mount.map(|mount| mount.kind).unwrap_or_default())
}

/// Opens the trial's directory, which rank 0 has just created and which this client may not see yet.
fn open_directory(join: &Join, folder: &str, link: &Link) -> Result<OwnedFd, WorkerError> {
    let path = join.on.join(folder);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let begin = Instant::now();
    loop {
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(root) => return Ok(root),
            Err(Errno::NOENT) if begin.elapsed() < CLIENT_CACHE => {}
            Err(error) => {
                return Err(WorkerError::plain(format!(
                    "'{}', which rank 0 has created, cannot be opened: {}; is --on the same file system on all hosts?",
                    path.display(),
                    fsdyno_engine::Errno(error.raw_os_error())
                )));
            }
        }
        // A sign of life for rank 0, which would otherwise consider this worker stalled.
        link.add_read(1);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Raises the limit on open files to the maximum that the system allows.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the default limit applies, and a phase that needs more reports the error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
