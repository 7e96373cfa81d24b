//! The lab venue: a guest in virtual time on modelled disks.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_disk::log::region;
use fsdyno_disk::{Attach, DiskSpec};
use fsdyno_lab::{Cache, Change, DiskRegion, Finished, Guest, ImageResult, Lab, Machine, Snapshot};
use fsdyno_record::canonical;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::{KernelPlan, MediumPlan};
use fsdyno_record::trial::{AgentReport, Conditions, Host, Outcome};
use fsdyno_record::{Bytes, Job, Nanos, Plan};
use fsdyno_workload::Setting;

use crate::agent_report::{nanos, read_report};
use crate::commands::{Commands, serialize_job};
use crate::error::{VenueError, from_lab, from_run};
use crate::input::Inputs;
use crate::lab_plan::{disk_of, not_a_lab, stored_limit};
use crate::parts::{Hardware, hardware, parts, programs_of};
use crate::prepared::{self, SetupHooks};
use crate::profile_recorder::Recorder;
use crate::venue::{FinishedTrial, Identity, Venue, Watch};
use crate::{array, check, clock, request_log, tools};

/// The host time without any sign of life after which a guest counts as hung. A guest gives a sign of life every few
/// hundred ops, and at every request to a disk. The longest silence is that of a system call that needs no disk: one
/// that takes quadratic time may last a minute at 400 million instructions per second.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);

/// The limit of one trial's host time.
const DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The note in the records of a guest that ran on this host's own CPU.
const NOT_REPEATABLE: &str = "accelerated by KVM: the guest ran on this host's CPU and in host time, which other work \
     disturbs; the results are not bit-identical, and there is no lab identity";

/// The lab venue: one or more labs with different kernels.
#[derive(Debug)]
pub struct LabVenue {
    labs: BTreeMap<KernelPlan, Lab>,
    agent: PathBuf,
    workdir: PathBuf,
    cache: Cache,
    inputs: Inputs,
    /// Changes applied to every guest, for benchmarks.
    guest_changes: Vec<Change>,
    /// The result folder in which request logs are stored.
    logs: Option<PathBuf>,
    hooks: SetupHooks,
    /// The result of the KVM probe: the error if KVM does not work here.
    kvm: OnceLock<Option<VenueError>>,
    guests: Mutex<BTreeMap<Key, Arc<Guest>>>,
}

/// The inputs that determine the parts of a guest: kernel, file system (with its programs, which a spec may
/// name), hardware of its disks, CPU.
type Key = (KernelPlan, Option<String>, Hardware, String);

impl LabVenue {
    /// Creates a venue whose trials are run by `agent`, the program unpacked by [`crate::Agent`], in guests of these
    /// labs; the disks are nameless files in `workdir`, and snapshots of guests are stored in `cache`.
    pub fn new(labs: Vec<Lab>, agent: PathBuf, workdir: PathBuf, cache: Cache) -> LabVenue {
        let labs = labs.into_iter().map(|lab| (lab.kernel_plan(), lab)).collect();
        let (inputs, guests, hooks, guest_changes) = Default::default();
        let kvm = OnceLock::new();
        LabVenue {
            labs,
            agent,
            workdir,
            cache,
            inputs,
            guest_changes,
            logs: None,
            hooks,
            kvm,
            guests,
        }
    }

    /// Sets the hooks of slow preparation steps.
    pub fn with_setup_hooks(self, hooks: SetupHooks) -> LabVenue {
        LabVenue { hooks, ..self }
    }

    /// Sets the input files of workloads.
    pub fn with_inputs(self, inputs: Inputs) -> LabVenue {
        LabVenue { inputs, ..self }
    }

    /// Returns the inputs of a plan's workload other than its parameters.
    ///
    /// # Errors
    /// A plan with an input that has not been read.
    pub fn setting(&self, plan: &Plan, seed: u64) -> Result<Setting, VenueError> {
        self.inputs.setting(plan, seed)
    }

    /// Sets the result folder in which the request log of each trial is stored.
    pub fn with_logs(self, results: Option<PathBuf>) -> LabVenue {
        LabVenue { logs: results, ..self }
    }

    /// Sets the changes to each guest.
    pub fn with_changes(self, guest_changes: Vec<Change>) -> LabVenue {
        LabVenue { guest_changes, ..self }
    }

    pub(crate) fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// Runs a job until `stop` returns true, cuts the guest's power, and returns the contents of its first disk and
    /// its progress.
    pub(crate) fn run_until(
        &self,
        job: &Job,
        stop: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(File, Progress), VenueError> {
        let guest = self.guest(&job.plan)?;
        let machine = self.machine(&job.plan)?;
        let text = serialize_job(job.for_agent())?;
        let cut = guest.cut(&machine, &text, stop).map_err(from_run)?;
        let region = cut.disks.into_iter().next().ok_or_else(not_a_lab)?;
        Ok((region, cut.progress))
    }

    /// Returns the guest for a plan; it is packed once and shared by all trials that need the same parts.
    pub(crate) fn guest(&self, plan: &Plan) -> Result<Arc<Guest>, VenueError> {
        let lab_plan = plan.lab().ok_or_else(not_a_lab)?;
        let kernel = &lab_plan.kernel;
        let commands = Commands::derive(plan)?;
        let kind = commands.as_ref().map(programs_of);
        let cpu = canonical::to_string(&lab_plan.cpu).unwrap_or_default();
        let key = (kernel.clone(), kind, hardware(plan)?, cpu);
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = guests.get(&key) {
            return Ok(Arc::clone(guest));
        }
        let guest = Arc::new(self.pack(plan, commands.as_ref(), &key.2, &[])?);
        guests.insert(key, Arc::clone(&guest));
        Ok(guest)
    }

    /// Packs a guest for a plan with additional programs.
    pub(crate) fn guest_with(&self, plan: &Plan, tools: &[String]) -> Result<Guest, VenueError> {
        let hardware = hardware(plan)?;
        self.pack(plan, Commands::derive(plan)?.as_ref(), &hardware, tools)
    }

    fn pack(
        &self,
        plan: &Plan,
        commands: Option<&Commands>,
        hardware: &Hardware,
        tools: &[String],
    ) -> Result<Guest, VenueError> {
        let lab_plan = plan.lab().ok_or_else(not_a_lab)?;
        let kernel = &lab_plan.kernel;
        let lab = self.labs.get(kernel).ok_or_else(|| {
            VenueError::Missing(format!("the lab has no kernel {kernel}, which the plan needs"))
        })?;
        let mut parts = parts(&self.agent, commands, plan.medium.raid(), hardware)?;
        parts.cpu = lab_plan.cpu.clone();
        for tool in tools {
            if !parts.tools.contains(tool) {
                parts.tools.push(tool.clone());
            }
        }
        self.guest_changes.iter().for_each(|change| change.make(&mut parts));
        lab.prepare(&parts).map_err(from_lab)
    }

    /// Checks that KVM works here, with one probe per venue.
    fn probe_kvm(&self, plan: &Plan) -> Result<(), VenueError> {
        let lab = plan.lab().and_then(|lab| self.labs.get(&lab.kernel)).ok_or_else(not_a_lab)?;
        let probed = self.kvm.get_or_init(|| lab.probe_kvm().map_err(from_lab).err());
        match probed {
            Some(VenueError::Missing(message)) => Err(VenueError::Missing(message.clone())),
            Some(error) => Err(VenueError::Failed(error.to_string())),
            None => Ok(()),
        }
    }

    /// Returns the snapshot from which a plan's guest resumes, unless it boots cold.
    fn snapshot(
        &self,
        plan: &Plan,
        guest: &Guest,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Option<Arc<Snapshot>>, VenueError> {
        if plan.lab().is_none_or(|lab| lab.boot.is_cold()) {
            return Ok(None);
        }
        let (machine, log) = (self.machine(plan)?, self.hooks.log);
        guest.snapshot(&machine, &self.cache, &log, watch).map(Some).map_err(from_run)
    }

    /// Checks the file system of a successful trial, and returns the time of the check.
    fn check(
        &self,
        job: &Job,
        finished: &Finished,
        report: &mut AgentReport,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Option<Nanos>, VenueError> {
        check::check_trial(job, report, &finished.progress, watch, |report| {
            let medium = &job.plan.medium;
            let image = |index, found: &Conditions| self.image(medium, index, finished, found);
            let journal = match medium.journal() {
                Some(_) => Some(image(medium.data_disks(), &report.conditions)?),
                None => None,
            };
            let device = match medium.raid() {
                Some(_) => self.array(medium, finished, report)?,
                None => image(0, &report.conditions)?,
            };
            Ok(check::Images { device, journal, names: check::IMAGES.map(String::from) })
        })
    }

    /// Returns the final image of the partition on one of the guest's disks.
    fn image(
        &self,
        medium: &MediumPlan,
        index: u32,
        finished: &Finished,
        conditions: &Conditions,
    ) -> Result<File, VenueError> {
        let region = finished.disks.get(index as usize).ok_or_else(|| {
            VenueError::Failed(format!("the guest did not keep the contents of its disk {index}"))
        })?;
        let journal = medium.journal().filter(|_| index == medium.data_disks());
        let disk = journal.or(medium.disk()).ok_or_else(not_a_lab)?;
        if disk_of(disk)?.attach == Attach::Pmem {
            return region
                .try_clone()
                .map_err(VenueError::io_without_path("open the disk's bytes"));
        }
        let single = (conditions.partition_start, conditions.device_size);
        let per_disk = conditions.disks.get(&format!("nbd{index}"));
        let per_disk = per_disk.map(|disk| (disk.partition_start, disk.size));
        let (start, size) = per_disk.or(single.0.zip(single.1)).unwrap_or_default();
        check::medium_image(region, start, size, &self.workdir)
    }

    /// Returns the final image of the guest's array. Incorrect parity fails the trial; copies may differ, because
    /// a page that changes while it is written, and is then freed, may differ on the two disks (md(4)).
    fn array(
        &self,
        medium: &MediumPlan,
        finished: &Finished,
        report: &mut AgentReport,
    ) -> Result<File, VenueError> {
        let disks: Vec<File> = (0..medium.data_disks())
            .map(|index| self.image(medium, index, finished, &report.conditions))
            .collect::<Result<_, _>>()?;
        let size = report.conditions.device_size.unwrap_or_default();
        let assembled = array::assemble(&disks, size, &self.workdir)?;
        if assembled.damaged_stripes > 0 && assembled.has_parity {
            report.outcome = Outcome::Failed;
            report.reason = Some(format!("the array is damaged: {}", assembled.describe_result()));
        } else if assembled.damaged_stripes > 0 {
            report
                .conditions
                .notes
                .push(format!("the array at the end: {}", assembled.describe_result()));
        }
        report.conditions.array.insert("found".into(), assembled.describe_result());
        Ok(assembled.image)
    }

    pub(crate) fn machine(&self, plan: &Plan) -> Result<Machine, VenueError> {
        let lab = plan.lab().ok_or_else(not_a_lab)?;
        let stored = stored_limit(plan, &self.inputs)?;
        // The kernel itself reads and writes an NVDIMM.
        let region = |disk: &DiskSpec, size: Option<Bytes>, stored: Bytes| match disk.attach {
            Attach::Pmem => DiskRegion {
                region: size.unwrap_or(disk.capacity),
                attach: fsdyno_lab::Attach::Pmem,
            },
            Attach::Nbd => DiskRegion {
                region: Bytes(fsdyno_disk::store::region_size(disk.capacity, stored)),
                attach: fsdyno_lab::Attach::Nbd,
            },
        };
        let mut disks = Vec::new();
        let medium = &plan.medium;
        if let Some(disk) = medium.disk() {
            let data = region(&disk_of(disk)?, medium.size(), stored);
            disks.resize(medium.data_disks() as usize, data);
        }
        if let Some(journal) = medium.journal() {
            // A block is stored at most twice: as visible through the drive, and as persisted.
            let disk = disk_of(journal)?;
            let size = medium.journal_size().unwrap_or(disk.capacity);
            disks.push(region(&disk, Some(size), Bytes(size.0.saturating_mul(2))));
        }
        Ok(Machine {
            ram: lab.ram,
            accel: lab.accel,
            image: None,
            log: disks
                .iter()
                .any(|disk| disk.attach == fsdyno_lab::Attach::Nbd)
                .then_some(Bytes(region::SIZE)),
            disks,
            input: self.inputs.for_workload(&plan.workload)?.map(|input| Arc::clone(input.file())),
            workdir: self.workdir.clone(),
            stall: STALL_TIMEOUT,
            deadline: DEADLINE,
        })
    }
}

impl Venue for LabVenue {
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
        let guest = self.guest(plan)?;
        if plan.lab().is_some_and(|lab| !lab.accel.is_exact()) {
            self.probe_kvm(plan)?;
            return Ok(None);
        }
        let stop = &self.hooks.cancel;
        let mut watch =
            |_: &Progress| if stop.load(Ordering::Relaxed) { Watch::Stop } else { Watch::GoOn };
        let snapshot = self.snapshot(plan, &guest, &mut watch)?;
        Ok(Some(identity(&guest, snapshot.as_deref())))
    }

    fn missing_snapshot(&self, plan: &Plan) -> Result<Option<String>, VenueError> {
        if plan.lab().is_none_or(|lab| lab.boot.is_cold() || !lab.accel.is_exact()) {
            return Ok(None);
        }
        let guest = self.guest(plan)?;
        Ok(guest.missing_snapshot(&self.machine(plan)?, &self.cache))
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        self.run_with(job, None, watch)
    }
}

impl LabVenue {
    /// Runs a job, and profiles it if there is a `recorder`.
    pub(crate) fn run_with(
        &self,
        job: &Job,
        recorder: Option<&mut Recorder>,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let guest = self.guest(&job.plan)?;
        let mut machine = self.machine(&job.plan)?;
        let snapshot = self.snapshot(&job.plan, &guest, watch)?;
        let started = clock::now();
        let boots: (&Guest, _) = (&guest, snapshot.as_deref());
        let image = match prepared::prepare_disks(job, boots, &machine, &self.cache, watch)? {
            Some(ImageResult::Image(image)) => Some(image),
            Some(ImageResult::Failed(finished)) => {
                return unprepared_trial(job, &finished, started, (&machine, boots.0, boots.1));
            }
            None => None,
        };
        let task = if image.is_some() { Task::RunPrepared } else { job.task };
        let text = serialize_job(Job { task, ..job.for_agent() })?;
        machine.image = image.clone();
        let finished = match (recorder, &snapshot) {
            (Some(recorder), _) => {
                recorder.run(&guest, &machine, snapshot.as_deref(), &text, watch)
            }
            (None, Some(snapshot)) => guest.run_from(snapshot, &machine, &text, watch),
            (None, None) => guest.run(&machine, &text, watch),
        }
        .map_err(from_run)?;
        let mut report = read_report(&finished.report)?;
        report.conditions.tools = tools::of_plan(&job.plan);
        if let Some(image) = &image {
            prepared::merge_report(image.report(), &mut report);
        }
        let (log, log_note) = self.store_log(job, &finished);
        let check_started = Instant::now();
        let check_ns = self.check(job, &finished, &mut report, watch)?;
        let image_time = check_ns.map(|check| nanos(check_started.elapsed()) - check);
        let mut stages = stages(&finished, &report, image_time);
        let preparation_time = image.and_then(|image| image.took());
        stages.extend(preparation_time.map(|took| ("make".to_string(), nanos(took))));
        let host = Host {
            started,
            elapsed_ns: nanos(finished.elapsed),
            first_op_ns: finished.first_op.map(nanos),
            cpu_ns: finished.cpu.map(nanos),
            memory: finished.memory,
            check_ns,
            stages,
            stored: Some(finished.stored),
            log,
            log_note,
            ..Host::default()
        };
        Ok(finish_trial(report, host, (&machine, &guest, snapshot.as_deref())))
    }

    /// Stores a trial's request log; returns its name and a note.
    fn store_log(&self, job: &Job, finished: &Finished) -> (Option<String>, Option<String>) {
        let (Some(results), Some(log)) = (&self.logs, &finished.log) else { return (None, None) };
        // A log that cannot be stored does not fail the trial.
        let stored = request_log::store(log, results, &job.trial_id);
        let note = match &stored {
            Ok(0) => None,
            Ok(lost) => Some(format!(
                "{lost} requests did not fit into the log, which holds {} per disk",
                region::MAX_ENTRIES
            )),
            Err(error) => Some(format!("the request log was not stored: {error}")),
        };
        (stored.ok().map(|_| request_log::name(&job.trial_id)), note)
    }
}

/// Returns the trial of a guest that failed to prepare the disks.
fn unprepared_trial(
    job: &Job,
    finished: &Finished,
    started: String,
    boot: (&Machine, &Guest, Option<&Snapshot>),
) -> Result<FinishedTrial, VenueError> {
    let mut report = read_report(&finished.report)?;
    report.conditions.tools = tools::of_plan(&job.plan);
    let elapsed_ns = nanos(finished.elapsed);
    Ok(finish_trial(report, Host { started, elapsed_ns, ..Host::default() }, boot))
}

/// Completes a trial with its identity, or with the note that it has none.
fn finish_trial(
    mut report: AgentReport,
    host: Host,
    (machine, guest, snapshot): (&Machine, &Guest, Option<&Snapshot>),
) -> FinishedTrial {
    let exact = machine.accel.is_exact();
    if !exact {
        report.conditions.notes.push(NOT_REPEATABLE.into());
    }
    FinishedTrial { report, host, identity: exact.then(|| identity(guest, snapshot)) }
}

/// Returns host times, keyed by the names of stages and phases.
fn stages(
    finished: &Finished,
    report: &AgentReport,
    image: Option<Nanos>,
) -> BTreeMap<String, Nanos> {
    let phases: Vec<&str> =
        report.measured.phases.iter().map(|phase| phase.name.as_str()).collect();
    let mut times = finished.stages.by_name(&phases);
    times.extend(image.map(|ns| ("image".to_string(), ns)));
    times
}

fn identity(guest: &Guest, snapshot: Option<&Snapshot>) -> Identity {
    match snapshot {
        None => {
            Identity { lab_id: guest.lab_id().to_string(), components: guest.components().clone() }
        }
        Some(snapshot) => {
            let components = guest.components_from(snapshot);
            Identity { lab_id: fsdyno_lab::lab_id(&components), components }
        }
    }
}

#[cfg(test)]
mod tests;
