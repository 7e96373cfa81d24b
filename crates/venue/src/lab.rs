//! The lab: a guest in virtual time on a modelled disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_disk::log::region;
use fsdyno_disk::{Attach, DiskSpec};
use fsdyno_filesystem::catalog;
use fsdyno_lab::{DiskRegion, Finished, Guest, Lab, LabError, Machine, Parts, RunError};
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::plan::{FilesystemPlan, LabPlan};
use fsdyno_record::trial::{AgentReport, Host, Outcome};
use fsdyno_record::{Bytes, Job, Nanos, Plan};
use fsdyno_workload::workloads;

use crate::error::VenueError;
use crate::host::{nanos, read_report};
use crate::input::Inputs;
use crate::venue::{Identity, Ran, Venue, Watch};
use crate::{check, clock, request_log, tools};

/// Host time without any sign of life after which a guest has hung. A guest gives one with every
/// few hundred ops and every request to its disk; the longest silence is one system call that
/// needs no disk, and a quadratic one may take a minute at 400 million instructions a second.
const STALL: Duration = Duration::from_secs(600);

/// Host time that one trial may take in all.
const DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Bytes of a modelled disk that can be stored, if the work needs no more. The region in the
/// guest's address space is then 16 GiB with its index, and the file behind it is sparse.
const STORED: Bytes = Bytes(14 << 30);

/// One or more labs that differ in their kernel.
#[derive(Debug)]
pub struct LabVenue {
    labs: BTreeMap<String, Lab>,
    agent: PathBuf,
    workdir: PathBuf,
    inputs: Inputs,
    /// The result folder that takes the logs of requests.
    logs: Option<PathBuf>,
    guests: Mutex<BTreeMap<Key, Arc<Guest>>>,
}

/// What decides the parts of a guest: kernel, file system, how the disk is attached, scheduler, CPU.
type Key = (String, Option<String>, bool, String, String);

impl LabVenue {
    /// Trials are run by `agent`, the fsdyno executable, in guests of these labs; the disks'
    /// bytes lie in nameless files in `workdir`.
    pub fn new(labs: Vec<Lab>, agent: PathBuf, workdir: PathBuf) -> LabVenue {
        let labs = labs.into_iter().map(|lab| (lab.kernel_release().to_string(), lab)).collect();
        let (inputs, guests) = Default::default();
        LabVenue { labs, agent, workdir, inputs, logs: None, guests }
    }

    /// The same, with the files that workloads work on.
    pub fn with_inputs(self, inputs: Inputs) -> LabVenue {
        LabVenue { inputs, ..self }
    }

    /// The same, keeping the log of each trial's requests in a result folder.
    pub fn with_logs(self, results: Option<PathBuf>) -> LabVenue {
        LabVenue { logs: results, ..self }
    }

    pub(crate) fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// Runs a job until `stop` says so, and cuts it there; its first disk's bytes.
    pub(crate) fn run_until(
        &self,
        job: &Job,
        stop: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(File, Progress), VenueError> {
        let guest = self.guest(&job.plan)?;
        let machine = self.machine(&job.plan)?;
        let text = serde_json::to_vec(&job.for_agent())
            .map_err(|error| VenueError::Died(error.to_string()))?;
        let cut = guest.cut(&machine, &text, stop).map_err(from_run)?;
        let region = cut.disks.into_iter().next().ok_or_else(not_a_lab)?;
        Ok((region, cut.progress))
    }

    /// The guest for a plan: packed once, shared by all trials that need the same parts.
    fn guest(&self, plan: &Plan) -> Result<Arc<Guest>, VenueError> {
        let (kernel, disk) = lab_of(plan)?;
        let kind = plan.filesystem.as_ref().map(|filesystem| filesystem.kind.clone());
        let scheduler = scheduler_of(plan, &disk);
        let cpu = plan.lab().map(|lab| lab.cpu).unwrap_or_default();
        let pmem = disk.attach == Attach::Pmem;
        let key = (kernel.to_string(), kind, pmem, scheduler.clone(), cpu.to_string());
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = guests.get(&key) {
            return Ok(Arc::clone(guest));
        }
        let lab = self.labs.get(kernel).ok_or_else(|| {
            VenueError::Missing(format!("the plan's kernel {kernel} is none of this lab's"))
        })?;
        let mut parts = parts(&self.agent, plan.filesystem.as_ref(), disk.attach, &scheduler)?;
        parts.cpu = cpu;
        let guest = Arc::new(lab.prepare(&parts).map_err(from_lab)?);
        guests.insert(key, Arc::clone(&guest));
        Ok(guest)
    }

    /// Has the file system that a good trial left checked; how long that took.
    fn check(
        &self,
        job: &Job,
        finished: &Finished,
        report: &mut AgentReport,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<Option<Nanos>, VenueError> {
        let (Some(filesystem), [region, ..], Outcome::Ok) =
            (&job.plan.filesystem, finished.disks.as_slice(), report.outcome)
        else {
            return Ok(None);
        };
        let (_, disk) = lab_of(&job.plan)?;
        let image = match disk.attach {
            Attach::Nbd => &check::image(region, &report.conditions, &self.workdir)?,
            Attach::Pmem => region,
        };
        let (checked, elapsed) =
            check::check(filesystem, image, job.seed, &finished.progress, watch)?;
        if !checked.clean {
            report.outcome = Outcome::Failed;
            report.reason = Some(check::reason(&checked));
        }
        report.measured.check = Some(checked);
        Ok(Some(nanos(elapsed)))
    }

    fn machine(&self, plan: &Plan) -> Result<Machine, VenueError> {
        let (_, disk) = lab_of(plan)?;
        let LabPlan { ram, size, .. } = plan.lab().ok_or_else(not_a_lab)?;
        let attach = match disk.attach {
            Attach::Nbd => fsdyno_lab::Attach::Nbd,
            Attach::Pmem => fsdyno_lab::Attach::Pmem,
        };
        let region = match disk.attach {
            // The kernel itself reads and writes an NVDIMM, byte for byte.
            Attach::Pmem => size.unwrap_or(disk.capacity),
            Attach::Nbd => Bytes(fsdyno_disk::store::region_size(
                disk.capacity,
                stored_limit(plan, &self.inputs)?,
            )),
        };
        Ok(Machine {
            ram: *ram,
            disks: vec![DiskRegion { region, attach }],
            log: (disk.attach == Attach::Nbd).then_some(Bytes(region::SIZE)),
            input: self.inputs.of(&plan.workload)?.map(|input| Arc::clone(input.file())),
            workdir: self.workdir.clone(),
            stall: STALL,
            deadline: DEADLINE,
        })
    }
}

impl Venue for LabVenue {
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
        self.guest(plan).map(|guest| Some(identity(&guest)))
    }

    fn run(&self, job: &Job, watch: &mut dyn FnMut(&Progress) -> Watch) -> Result<Ran, VenueError> {
        let guest = self.guest(&job.plan)?;
        let machine = self.machine(&job.plan)?;
        let text = serde_json::to_vec(&job.for_agent())
            .map_err(|error| VenueError::Died(error.to_string()))?;
        let started = clock::now();
        let finished = guest.run(&machine, &text, watch).map_err(from_run)?;
        let mut report = read_report(&finished.report)?;
        report.conditions.tools = tools_of(&job.plan);
        let log = match (&self.logs, &finished.log) {
            (Some(results), Some(log)) => {
                let lost = request_log::keep(log, results, &job.trial_id)?;
                if lost > 0 {
                    report.conditions.notes.push(format!(
                        "{lost} requests did not fit into the log, which takes {} of each disk",
                        region::MOST_ENTRIES
                    ));
                }
                Some(request_log::name(&job.trial_id))
            }
            _ => None,
        };
        let checking = Instant::now();
        let check_ns = self.check(job, &finished, &mut report, watch)?;
        let image = check_ns.map(|check| nanos(checking.elapsed()) - check);
        let host = Host {
            started,
            elapsed_ns: nanos(finished.elapsed),
            first_op_ns: finished.first_op.map(nanos),
            cpu_ns: finished.cpu.map(nanos),
            memory: finished.memory,
            check_ns,
            stages: stages(&finished, &report, image),
            stored: Some(finished.stored),
            log,
        };
        Ok(Ran { report, host, identity: Some(identity(&guest)) })
    }
}

/// Host time by the names of stages and phases.
fn stages(
    finished: &Finished,
    report: &AgentReport,
    image: Option<Nanos>,
) -> BTreeMap<String, Nanos> {
    let mut named: BTreeMap<String, Nanos> =
        image.map(|ns| ("image".into(), ns)).into_iter().collect();
    for (stage, phase, time) in &finished.stages {
        let phase = usize::try_from(*phase).ok().and_then(|at| report.measured.phases.get(at));
        let name = match (stage, phase) {
            (Stage::Running, Some(phase)) => format!("phase {}", phase.name),
            _ => stage.name().to_string(),
        };
        *named.entry(name).or_default() += nanos(*time);
    }
    named
}

fn identity(guest: &Guest) -> Identity {
    Identity { lab_id: guest.lab_id().to_string(), components: guest.components().clone() }
}

/// Kernel and disk of a plan.
pub(crate) fn lab_of(plan: &Plan) -> Result<(&str, DiskSpec), VenueError> {
    let LabPlan { disk, kernel, .. } = plan.lab().ok_or_else(not_a_lab)?;
    let spec = DiskSpec::from_json(&disk.spec)
        .map_err(|error| VenueError::Died(format!("disk '{}': {error}", disk.name)))?;
    Ok((kernel, spec))
}

/// The version of mkfs, which the guest has from this host.
fn tools_of(plan: &Plan) -> BTreeMap<String, String> {
    let kind = plan.filesystem.as_ref().and_then(|plan| catalog::get(&plan.kind).ok());
    let line =
        |kind: &catalog::Filesystem| Some((kind.version.first()?.clone(), tools::version(kind)?));
    kind.and_then(line).into_iter().collect()
}

fn not_a_lab() -> VenueError {
    VenueError::Died("a plan for a directory came to the lab".into())
}

/// How much of the disk can be stored: twice what the work writes leaves room for journals and
/// copies on write.
fn stored_limit(plan: &Plan, inputs: &Inputs) -> Result<Bytes, VenueError> {
    let died = |error: String| VenueError::Died(error);
    let kind = workloads::find(&plan.workload.name).map_err(|error| died(error.to_string()))?;
    let workload = kind
        .build(&plan.workload.params, &inputs.setting(plan, 0)?)
        .map_err(|error| died(error.to_string()))?;
    let twice = workload.needs().bytes.0.saturating_mul(2);
    let mut limit = STORED.0;
    while limit < twice {
        limit *= 2;
    }
    Ok(Bytes(limit))
}

/// The scheduler that was asked for, or the disk's own.
fn scheduler_of(plan: &Plan, disk: &DiskSpec) -> String {
    let asked = plan.lab().and_then(|lab| lab.scheduler.clone());
    asked.unwrap_or_else(|| disk.queue.scheduler.clone())
}

/// What goes into the guest for a file system on a disk.
fn parts(
    agent: &std::path::Path,
    filesystem: Option<&FilesystemPlan>,
    attach: Attach,
    scheduler: &str,
) -> Result<Parts, VenueError> {
    let mut parts = Parts { agent: agent.to_path_buf(), ..Parts::default() };
    let disk_modules: &[&str] = match attach {
        // One device is used; each further one costs boot time.
        Attach::Nbd => &["nbd nbds_max=1"],
        Attach::Pmem => &["nfit", "nd_pmem"],
    };
    parts.modules.extend(disk_modules.iter().map(ToString::to_string));
    // The other schedulers are part of every kernel that has them.
    let module = match scheduler {
        "bfq" => Some("bfq"),
        "kyber" => Some("kyber-iosched"),
        _ => None,
    };
    parts.modules.extend(module.map(String::from));
    let Some(filesystem) = filesystem else { return Ok(parts) };
    parts.modules.extend(filesystem.modules.iter().cloned());
    let kind =
        catalog::get(&filesystem.kind).map_err(|error| VenueError::Died(error.to_string()))?;
    // The check runs on the host, so its tool stays out of the guest; that it is missing has to be
    // found before the work and not after the first trial.
    parts.host_tools.extend(filesystem.check.first().cloned());
    for argv in [&filesystem.mkfs, &filesystem.features] {
        parts.tools.extend(argv.first().filter(|tool| !parts.tools.contains(tool)).cloned());
    }
    for path in &kind.files {
        // A file that the host's tools do without is not needed in the guest either.
        if let Ok(contents) = std::fs::read(path) {
            parts.files.push((path.clone(), contents));
        }
    }
    Ok(parts)
}

/// What the lab lacks, with what brings it.
pub(crate) fn from_lab(error: LabError) -> VenueError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    VenueError::Missing(format!("failed to {error}{hint}"))
}

fn from_run(error: RunError) -> VenueError {
    match error {
        RunError::Stopped => VenueError::Stopped,
        other => {
            let hint = other.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            VenueError::Died(format!("failed to {other}{hint}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::{MediumPlan, WorkloadPlan};

    use super::*;

    #[test]
    fn the_version_of_mkfs_is_known_by_the_name_of_the_program() {
        let Ok(kind) = catalog::get("ext4") else { panic!("no ext4") };
        let spec = fsdyno_filesystem::Spec::parse("ext4").unwrap();
        let plan = Plan {
            label: "ext4".into(),
            workload: WorkloadPlan {
                name: "dirops".into(),
                params: Default::default(),
                input: None,
            },
            filesystem: Some(kind.plan(&spec, fsdyno_filesystem::Context::Lab, None).unwrap()),
            medium: MediumPlan::Directory { path: "/".into() },
            threads: 1,
            issuer: fsdyno_record::plan::IssuerPlan::Sync,
            verify: Default::default(),
            sysctls: Default::default(),
            hash: String::new(),
        };
        if !tools::missing(kind).is_empty() {
            println!("skipped: e2fsprogs is not installed");
            return;
        }
        assert!(tools_of(&plan)["mke2fs"].contains("mke2fs 1."), "{:?}", tools_of(&plan));
        assert!(tools_of(&Plan { filesystem: None, ..plan }).is_empty());
    }

    #[test]
    fn a_guest_gets_the_tools_modules_and_files_of_its_file_system() {
        let spec = fsdyno_filesystem::Spec::parse("ext4").unwrap();
        let kind = catalog::get("ext4").unwrap();
        let plan = kind.plan(&spec, fsdyno_filesystem::Context::Lab, None).unwrap();
        let parts = parts(std::path::Path::new("/x"), Some(&plan), Attach::Nbd, "bfq").unwrap();
        assert_eq!(parts.modules, ["nbd nbds_max=1", "bfq", "ext4"]);
        assert!(parts.tools.contains(&"mke2fs".to_string()));
        assert_eq!(parts.host_tools, ["e2fsck"]);
        assert!(!parts.tools.contains(&"e2fsck".to_string()), "{parts:?}");
        let there = std::path::Path::new("/etc/mke2fs.conf").exists();
        assert_eq!(parts.files.iter().any(|(path, _)| path == "/etc/mke2fs.conf"), there);
    }
}
