//! Runs one trial, from the first mkfs to the last check, on any target.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fsdyno_engine::issue::shared::Slots;
use fsdyno_engine::issue::uring;
use fsdyno_engine::{PhaseError, calibrate, clock};
use fsdyno_record::acks::AckLog;
use fsdyno_record::agent::Job;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::{Mailbox, Stage, Word};
use fsdyno_record::plan::{IssuerPlan, VerifyMode};
use fsdyno_record::series::PhaseSeries;
use fsdyno_record::trial::{AgentReport, Capacity, Conditions, Gap, Measured, Outcome};
use fsdyno_record::{Bytes, Nanos, seed};
use fsdyno_workload::one_file::one_file;
use fsdyno_workload::{Contents, GapKind, Input, PhaseSpec, Setting, Workload, workloads};

use crate::account::cacheable_memory;
use crate::free_space::{FreeSpace, allow_many_files};
use crate::processor;
use crate::sampler::Sampler;
use crate::target::Target;
use crate::{acks, age};
use crate::{cacheable, machine};

mod command;
mod end;
mod phase;
mod prefill;
mod replay;

/// In practice, a benchmark starts at an arbitrary time within the periods of the kernel's timers (jbd2 every 5 s,
/// the flusher every 5 s and at 30 s); the seed determines that time.
const MAX_START_DELAY: Nanos = Nanos(30_000_000_000);

/// The first phase starts relative to a multiple of this on the guest's clock: a full minute. However long boot, mkfs
/// and mount took, and wherever the disk was formatted, the platter is then at the same angle at the first phase in
/// every trial with the same seed; a shift of one millisecond turns it by 43 degrees at 7200 rpm.
const START_GRID: Nanos = Nanos(60_000_000_000);

/// The earliest time, on the guest's clock, at which a guest in virtual time mounts a trial's file system. ReiserFS
/// treats a transaction that began in second 0 after boot as not begun, so it would compute its age differently from
/// every later mount; only a guest resumed from a snapshot is that early.
const FIRST_MOUNT: Nanos = Nanos(2_000_000_000);

/// The description of the attempted action in error messages of the sampler.
const SAMPLER: &str = "sample dirty memory";

/// Runs a job on its target; failures become part of the report.
///
/// `input` is the file that the plan's workload works on, if it has one. Without a `sampler`, the amount of dirty
/// memory over time is unknown.
pub fn run(
    job: &Job,
    target: &mut dyn Target,
    mailbox: Mailbox<'static>,
    input: Option<Input>,
    sampler: Option<Sampler>,
) -> AgentReport {
    // Modes are those that the workload specifies, whatever the umask of the caller's shell.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    let mut trial = Trial {
        job,
        target,
        mailbox,
        conditions: Conditions::default(),
        measured: Measured::default(),
        contents: Arc::new(Contents::new(job.seed).with_input(input.clone())),
        input,
        ops_before: 0,
        device: None,
        acks: None,
        work_done: Vec::new(),
        sampler,
        series: Vec::new(),
        slots: None,
        umask,
    };
    let mut result = trial.run();
    if let Some(error) = trial.target.device_error() {
        result = Err(format!(
            "the lab ran out of space for the modelled disk's bytes ({error}): the file system wrote \
             more than 14 GiB, and more than twice what the workload needs; use fewer or smaller files (--set), \
             or a file system with less write overhead"
        ));
    }
    if let (Err(reason), Some(cause)) = (&mut result, trial.target.cause()) {
        reason.push_str("; ");
        reason.push_str(&cause);
    }
    let Trial { conditions, measured, series, .. } = trial;
    let (outcome, reason) = match result {
        Ok(()) => (Outcome::Ok, None),
        Err(reason) => (Outcome::Failed, Some(reason)),
    };
    AgentReport { outcome, reason, conditions, measured, series }
}

/// Puts the report into the mailbox, without its series if they do not fit.
///
/// # Errors
/// A report that is still too long.
pub fn put_report(mailbox: Mailbox<'_>, report: &AgentReport) -> io::Result<()> {
    let write = |report: &AgentReport| {
        mailbox.write_report(&serde_json::to_vec(report)?).map_err(io::Error::other)
    };
    write(report).or_else(|error| match report.series.is_empty() {
        true => Err(error),
        false => {
            let mut report = AgentReport { series: Vec::new(), ..report.clone() };
            report.conditions.notes.push(format!("its time series were omitted: {error}"));
            write(&report)
        }
    })
}

/// Runs `work`; returns its result and the time it took.
fn elapsed<T>(work: impl FnOnce() -> T) -> (T, Nanos) {
    let start = clock::now();
    let result = work();
    (result, clock::now().since(start))
}

fn failed(action: &str) -> impl FnOnce(io::Error) -> String + '_ {
    move |error| format!("{action}: {error}")
}

/// Describes a phase that failed, with a hint for the user.
fn failure(phase: &str, error: &PhaseError) -> String {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("phase {phase}: {error}{hint}")
}

struct Trial<'a> {
    job: &'a Job,
    target: &'a mut dyn Target,
    mailbox: Mailbox<'static>,
    conditions: Conditions,
    measured: Measured,
    contents: Arc<Contents>,
    input: Option<Input>,
    ops_before: u64,
    /// The device that stands for the workload's single file, and that file's name.
    device: Option<(CString, Vec<u8>)>,
    /// The log of the times at which ops returned, if there is one.
    acks: Option<AckLog>,
    /// For each phase so far, the amount of work that each rank has done.
    work_done: Vec<Vec<u64>>,
    sampler: Option<Sampler>,
    series: Vec<PhaseSeries>,
    /// The open files that all threads share, if they are shared in this workload.
    slots: Option<Arc<Slots>>,
    /// The umask of the caller, for commands of the user.
    umask: rustix::fs::Mode,
}

impl Trial<'_> {
    fn run(&mut self) -> Result<(), String> {
        let plan = &self.job.plan;
        if self.job.task == Task::Prepare {
            return self.prepare_image();
        }
        let setting = Setting { seed: self.job.seed, input: self.input.clone() };
        let workload = workloads::find(&plan.workload.name)
            .map_err(|error| error.to_string())?
            .build(&plan.workload.params, &setting)
            .map_err(|error| error.to_string())?;
        if let Some(contents) = Arc::get_mut(&mut self.contents) {
            contents.zero_share(workload.zeros());
        }
        self.prepare_replay(workload.as_ref())?;
        let phases = workload.phases();
        self.announce(workload.as_ref(), &phases);
        self.prepare_issuer()?;
        self.acks =
            acks::open_log(self.job, workload.as_ref()).map_err(failed("the log of ops"))?;
        self.prepare()?;
        let device = self.target.device_file();
        if let Some(path) = &device {
            let file = one_file(workload.as_ref())?;
            let text =
                CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
            self.device = Some((text, file));
        }
        if self.makes_calls() && device.is_none() {
            let free_space = FreeSpace::read(self.target.root()).map_err(failed("statfs"))?;
            free_space.check_fits(&workload.needs())?;
        }
        self.prefill(workload.as_ref())?;
        if self.acks.is_some() {
            // A power cut must undo neither the tree's root nor the initial files of the first phase.
            self.target.sync().map_err(failed("syncfs"))?;
            self.target.flush_device().map_err(failed("flush the device"))?;
        }
        let engine_cost = calibrate();
        let empty = workload
            .fills_file_system()
            .then(|| self.read_capacity())
            .transpose()
            .map_err(failed("statfs"))?;
        self.wait_for_start();
        for (index, spec) in phases.iter().enumerate() {
            self.gap(workload.as_ref(), &phases, index)?;
            self.stage(Stage::Running);
            self.mailbox.set(Word::Phase, index as u64);
            let next = phases.get(index + 1);
            let continues = next.is_some_and(|next| next.gap == GapKind::BackToBack);
            let phase = self.phase(workload.as_ref(), index, spec, engine_cost, continues)?;
            self.measured.phases.push(phase);
        }
        if let Some(empty) = empty {
            self.measured.capacity = Some(self.capacity(empty).map_err(failed("statfs"))?);
        }
        self.finish(workload.as_ref(), &phases)
    }

    /// Creates only the part of the trial that persists on the disks.
    fn prepare_image(&mut self) -> Result<(), String> {
        self.stage(Stage::Preparing);
        self.set_conditions()?;
        self.wait_for_clock();
        let conditions = &mut self.conditions;
        match self.job.plan.age().is_some() {
            false => {
                self.target.make(conditions).map_err(failed("prepare"))?;
                self.measured.setup = self.target.setup();
            }
            true => {
                self.target.prepare(conditions).map_err(failed("prepare"))?;
                self.measured.setup = self.target.setup();
                self.age()?;
            }
        }
        self.target.finish().map_err(failed("unmount"))
    }

    /// Ages the freshly mounted file system; its calls do not count towards the target's timed work.
    fn age(&mut self) -> Result<(), String> {
        let Some(plan) = self.job.plan.age().cloned() else { return Ok(()) };
        self.target.set_timed(false);
        let mailbox = self.mailbox;
        mailbox.set(Word::OpsDone, 0);
        let mut on_progress = |done: u64, all: u64| {
            mailbox.set(Word::OpsTotal, all);
            mailbox.set(Word::OpsDone, done.min(all));
            mailbox.set(Word::Now, clock::now().0);
        };
        let (aged, elapsed_ns) =
            elapsed(|| age::age(&plan, self.job.seed, self.target.root(), &mut on_progress));
        self.conditions.aged = Some(aged.map_err(failed("age the file system"))?);
        if let Some(setup) = &mut self.measured.setup {
            setup.age_ns = Some(elapsed_ns);
        }
        Ok(())
    }

    /// Compares the aged files with their census, after all measurements.
    fn verify_aged_files(&mut self) -> Result<(), String> {
        if self.job.plan.age().is_none() {
            return Ok(());
        }
        let mailbox = self.mailbox;
        let mut on_progress = || mailbox.set(Word::Now, clock::now().0);
        self.run_untimed(|target| age::verify_census(target.root(), &mut on_progress))
            .map_err(failed("verify"))
    }

    fn stage(&self, stage: Stage) {
        self.mailbox.set(Word::Stage, stage as u64);
        self.mailbox.set(Word::Now, clock::now().0);
    }

    fn announce(&self, workload: &dyn Workload, phases: &[PhaseSpec]) {
        let total: u64 = phases
            .iter()
            .enumerate()
            .flat_map(|(index, phase)| {
                workload.counts(index, phase.threads.count_of(self.job.plan.ranks())).into_values()
            })
            .sum();
        self.mailbox.set(Word::Phases, phases.len() as u64);
        self.mailbox.set(Word::OpsTotal, total);
        self.stage(Stage::Preparing);
    }

    /// Returns true if the issuer actually makes calls.
    fn makes_calls(&self) -> bool {
        self.job.plan.issuer != IssuerPlan::Null
    }

    /// Prepares the issuer, before the target is touched.
    fn prepare_issuer(&mut self) -> Result<(), String> {
        match self.job.plan.issuer {
            IssuerPlan::Sync => {}
            IssuerPlan::IoUring { .. } => uring::probe().map_err(failed("io_uring"))?,
            IssuerPlan::Null => self.conditions.notes.push(
                "issuer null: no call was made, so there is nothing to verify, and all times are \
                 those of the instrument itself; callers neither slept nor computed"
                    .to_string(),
            ),
        }
        allow_many_files();
        Ok(())
    }

    /// Sets the sysctls, checks the machine, and records the conditions, before the target is touched.
    fn set_conditions(&mut self) -> Result<(), String> {
        let plan = &self.job.plan;
        machine::set_sysctls(&plan.sysctls).map_err(failed("prepare"))?;
        self.conditions.venue = if plan.in_lab() { "lab" } else { "host" }.to_string();
        machine::describe(&mut self.conditions, &plan.sysctls).map_err(failed("prepare"))?;
        if let Some(lab) = plan.lab() {
            machine::check_clock(&lab.cpu).map_err(failed("prepare"))?;
            self.conditions.notes.extend(machine::describe_unscaled_timer(&lab.cpu));
        }
        if let Some(counting) = self.counts_only_issuer() {
            processor::start(counting).map_err(failed("prepare"))?;
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), String> {
        self.set_conditions()?;
        self.wait_for_clock();
        self.target.prepare(&mut self.conditions).map_err(failed("prepare"))?;
        self.measured.setup = self.target.setup();
        if self.job.plan.age().is_some() && self.job.task.is_complete_trial() {
            self.age()?;
            self.run_untimed(|target| target.gap(GapKind::Remount)).map_err(failed("remount"))?;
        }
        let plan = &self.job.plan;
        if let Some((wanted, ram)) = plan.lab().and_then(|lab| Some((lab.cacheable?, lab.ram))) {
            cacheable::limit_to(wanted, ram).map_err(failed("prepare"))?;
        }
        self.conditions.cacheable_memory = cacheable_memory();
        Ok(())
    }

    /// Returns, if the guest runs under a processor model, whether the model counts only the issuing thread.
    fn counts_only_issuer(&self) -> Option<bool> {
        let processor = self.job.plan.lab()?.cpu.processor()?;
        self.in_virtual_time().then_some(processor.counting)
    }

    /// Returns true if time is virtual, so that waiting costs the host nothing.
    fn in_virtual_time(&self) -> bool {
        self.job.plan.lab().is_some_and(|lab| lab.accel.is_exact())
    }

    /// Waits until the guest's clock has passed its first seconds; see [`FIRST_MOUNT`].
    fn wait_for_clock(&self) {
        if self.in_virtual_time() {
            clock::sleep_until(FIRST_MOUNT);
        }
    }

    /// Waits for the time at which the first phase begins.
    fn wait_for_start(&self) {
        if self.in_virtual_time() {
            let delay = seed::stream(self.job.seed, "start delay").below(MAX_START_DELAY.0);
            let minute = clock::now().0.next_multiple_of(START_GRID.0);
            clock::sleep_until(Nanos(minute + delay));
        }
    }

    /// Executes the gap before a phase and then verifies the previous phase: after the gap, so that with a cold gap
    /// the data are read back from the device. The same gap follows again, untimed, so that the phase finds the
    /// state that it requires.
    fn gap(
        &mut self,
        workload: &dyn Workload,
        phases: &[PhaseSpec],
        index: usize,
    ) -> Result<(), String> {
        let spec = &phases[index];
        if spec.gap == GapKind::BackToBack && index > 0 {
            self.note_back_to_back(spec.name, phases[index - 1].name);
            return Ok(());
        }
        self.stage(Stage::Gap);
        let (done, elapsed_ns) = elapsed(|| self.target.gap(spec.gap));
        let done = done.map_err(failed(spec.gap.name()))?.to_string();
        let before = spec.name.to_string();
        let wanted = spec.gap.name().to_string();
        self.measured.gaps.push(Gap { before: before.clone(), wanted, done, elapsed_ns });
        if index > 0 && phases[index - 1].verify && self.makes_calls() {
            if spec.gap == GapKind::None {
                self.conditions.notes.push(format!(
                    "phase {} follows the verification of phase {}, which has read the tree back \
                     ({}), so this phase finds data in the cache that it would otherwise read from the device",
                    spec.name,
                    phases[index - 1].name,
                    match self.job.plan.verify {
                        VerifyMode::Full => "every byte",
                        VerifyMode::Names => "names and sizes",
                        VerifyMode::Sampled => "names, sizes and one file in 64",
                    }
                ));
            }
            let (verified, elapsed_ns) = elapsed(|| {
                self.verify(workload, index - 1)?;
                self.run_untimed(|target| target.gap(spec.gap)).map_err(failed("after verifying"))
            });
            let done = verified?.to_string();
            self.measured.gaps.push(Gap { before, wanted: "verify".into(), done, elapsed_ns });
        }
        Ok(())
    }

    /// Records that a phase follows the previous one immediately, as in the benchmark that the workload reproduces.
    fn note_back_to_back(&mut self, name: &str, before: &str) {
        let wanted = GapKind::BackToBack.name().to_string();
        let (done, elapsed_ns) = (wanted.clone(), Nanos::default());
        self.measured.gaps.push(Gap { before: name.to_string(), wanted, done, elapsed_ns });
        self.conditions.notes.push(format!(
            "phase {name} follows phase {before} immediately: {before} has no synced or durable \
             time, and its result was not verified before {name} began"
        ));
    }

    fn run_untimed<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Target) -> io::Result<T>,
    ) -> io::Result<T> {
        self.target.set_timed(false);
        let result = work(self.target);
        self.target.set_timed(true);
        result
    }

    fn space_used(&self) -> io::Result<Bytes> {
        if self.device.is_some() {
            return Ok(Bytes(0));
        }
        let stat = rustix::fs::fstatvfs(self.target.root())?;
        Ok(Bytes(stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize))
    }

    /// Reads the capacity with statfs(2), as the capacity of an empty file system.
    fn read_capacity(&self) -> io::Result<Capacity> {
        let stat = rustix::fs::fstatvfs(self.target.root())?;
        let inodes = (stat.f_files > 0).then_some(stat.f_ffree);
        Ok(Capacity {
            device: self.conditions.device_size,
            total: Bytes(stat.f_blocks * stat.f_frsize),
            free_empty: Bytes(stat.f_bfree * stat.f_frsize),
            inodes_empty: inodes,
            ..Capacity::default()
        })
    }

    /// Returns the capacity of a file system that was empty before and is now full.
    fn capacity(&self, empty: Capacity) -> io::Result<Capacity> {
        let full = self.read_capacity()?;
        let count = |unit: &str| {
            let phases = self.measured.phases.iter();
            phases.filter_map(|phase| phase.books.get(unit).copied()).sum()
        };
        Ok(Capacity {
            // Read from a full file system, these are its values when full.
            free_full: full.free_empty,
            inodes_full: full.inodes_empty,
            files: count("files"),
            directories: count("directories"),
            data: Bytes(count("data bytes")),
            ..empty
        })
    }
}
