//! PID 1 of the lab's guest.
//!
//! It mounts the kernel's file systems, loads modules, starts the modelled disks' servers, forks a child that runs the
//! trial, and enforces the virtual deadline. It cannot be killed and does not panic: in every case, a report is in the
//! mailbox before the machine powers off.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_disk::{Attach, DiskSpec, Partition, partition};
use fsdyno_record::agent::Job;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::{self, Mailbox, Stage, Word};
use fsdyno_record::plan::{FlatLab, FlatMedium};
use fsdyno_record::trial::{AgentReport, DiskRole, Outcome};
use fsdyno_record::{Bytes, Nanos, guest as layout};
use rustix::mount::MountFlags;
use rustix::process::Pid;

use crate::child_signal::{block_child_signal, wait_for_child_signal};
use crate::memory::{map_input, open_pci_memory, shared_words};
use crate::sampler::Sampler;
use crate::serve_disk::{self, Regions, Served, Shared};
use crate::stuck::{self, Stuck};
use crate::target::{Formatted, Medium, ModelledDisk};
use crate::{entropy, kernel_log, process, recover, shared, trial};

const MOUNT_POINT: &str = "/mnt";

/// Runs the guest to completion and shuts it down.
///
/// Unless this process is PID 1, as in a guest, it exits immediately with code 2: on a host it would mount
/// over the user's folders and reboot the machine.
pub fn guest() -> ! {
    if std::process::id() != 1 {
        eprintln!("fsdyno-agent --guest is for PID 1 of the lab's guest");
        std::process::exit(2);
    }
    if let Err(error) = init() {
        eprintln!("fsdyno-agent: {error}");
    }
    loop {
        // Without the ACPI modules, the machine cannot power itself off; the venue ends QEMU once it has the report,
        // and QEMU ends by itself on a reset (-no-reboot).
        let _ = rustix::system::reboot(rustix::system::RebootCommand::Restart);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

fn init() -> io::Result<()> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        rustix::mount::mount(kind, at, kind, MountFlags::empty(), None)?;
    }
    let memory = open_pci_memory(layout::MAILBOX_PCI)?;
    let words = shared_words(memory.as_fd(), mailbox::SIZE)?;
    let mailbox = Mailbox::new(words).map_err(io::Error::other)?;
    let report = match boot_and_run(mailbox) {
        Ok(()) => return Ok(()),
        Err(error) => failed_report(error.to_string()),
    };
    write_report(mailbox, &report)
}

fn failed_report(reason: String) -> AgentReport {
    AgentReport { outcome: Outcome::Failed, reason: Some(reason), ..AgentReport::default() }
}

fn write_report(mailbox: Mailbox<'static>, report: &AgentReport) -> io::Result<()> {
    trial::put_report(mailbox, report)
}

/// Starts everything and waits; an error here is the report's reason.
fn boot_and_run(mailbox: Mailbox<'static>) -> io::Result<()> {
    entropy::credit()?;
    load_modules()?;
    mailbox.set(Word::Stage, Stage::Ready as u64);
    stop_for_snapshot(mailbox)?;
    let booted = fsdyno_engine::clock::now();
    let job = take_job(mailbox)?;
    block_child_signal()?;
    let work = || match job.task {
        Task::Recover => recover::run(&job, mailbox),
        _ => trial(&job, booted, mailbox),
    };
    let child = process::fork(|| write_report(mailbox, &work()))?;
    watch(child, job.deadline, mailbox)
}

/// Runs in the trial's process: starts the disks, whose servers share its memory, and runs the trial.
fn trial(job: &Job, booted: Nanos, mailbox: Mailbox<'static>) -> AgentReport {
    let mut report = match run(job, booted, mailbox) {
        Ok(report) => report,
        Err(error) => failed_report(error.to_string()),
    };
    if let Some(message) = kernel_log::find_fatal() {
        report.outcome = Outcome::Failed;
        let first = report.reason.take().map(|reason| format!("{reason}; ")).unwrap_or_default();
        report.reason = Some(format!("{first}message of the guest's kernel: {message}"));
    }
    report
}

fn run(job: &Job, booted: Nanos, mailbox: Mailbox<'static>) -> io::Result<AgentReport> {
    if let Ok(loops) = fs::read_to_string(layout::PLANTED) {
        fsdyno_engine::injected_delay::set_loops(loops.parse().map_err(io::Error::other)?);
    }
    // Starts before the trial has open files or mounts, which the forked sampler would otherwise keep in use.
    let needs_sampler = job.task != Task::Prepare;
    let sampler = needs_sampler.then(|| Sampler::start(mailbox, true)).transpose()?;
    let target = target(job, mailbox)?;
    let mut target = target.with_setup_times(booted, fsdyno_engine::clock::now().since(booted));
    let input = match &job.plan.workload.input {
        Some(plan) => Some(map_input(open_pci_memory(layout::INPUT_PCI)?.as_fd(), plan.bytes)?),
        None => None,
    };
    Ok(trial::run(job, &mut target, mailbox, input, sampler))
}

/// Stops a machine that is to be saved, always between the same two instructions. The execution up to here is the same
/// for every job; a machine that is not to be saved continues immediately, having executed the same instructions. A
/// kernel without /dev/port (CONFIG_DEVPORT) continues too.
fn stop_for_snapshot(mailbox: Mailbox<'static>) -> io::Result<()> {
    match fs::File::options().write(true).open("/dev/port") {
        Ok(ports) => {
            // SAFETY: reads a counter that every processor of this architecture has.
            mailbox.set(Word::StoppedAt, unsafe { std::arch::x86_64::_rdtsc() });
            ports.write_all_at(&[layout::STOP_EVENT], layout::STOP_PORT)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn take_job(mailbox: Mailbox<'static>) -> io::Result<Job> {
    let text = mailbox.job().map_err(io::Error::other)?;
    if text.is_empty() {
        // A machine that is to be saved has no job yet, and should have been stopped before this point.
        return Err(io::Error::other(
            "this kernel has no /dev/port (CONFIG_DEVPORT), which --boot snapshot needs",
        ));
    }
    Ok(serde_json::from_slice(&text)?)
}

/// Loads the modules in the lab's list, in the order of the list.
fn load_modules() -> io::Result<()> {
    let list = fs::read_to_string(layout::MODULE_LIST).unwrap_or_default();
    for line in list.lines().filter(|line| !line.is_empty()) {
        let (path, parameters) = line.split_once(' ').unwrap_or((line, ""));
        let parameters = std::ffi::CString::new(parameters).map_err(io::Error::other)?;
        let file = fs::File::open(path)?;
        match rustix::system::finit_module(&file, &parameters, 0) {
            // Already loaded; or an optimized implementation that this processor does not support (such as
            // crc32_pclmul, which f2fs requests on Linux 5.10), whose users fall back to the generic one.
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::NODEV) => {}
            Err(error) => {
                let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
                return Err(io::Error::other(format!(
                    "load module {name}: {error}{}",
                    kernel_log::hint()
                )));
            }
        }
    }
    Ok(())
}

fn target(job: &Job, mailbox: Mailbox<'static>) -> io::Result<Formatted> {
    let FlatMedium::Lab(lab) = &job.plan.medium else {
        return Err(io::Error::other("the plan is not for the lab"));
    };
    let Some(filesystem) = job.plan.filesystem.clone() else {
        return Err(io::Error::other("the plan names no file system"));
    };
    let disks = disks(job, lab, mailbox)?;
    let scheduler = lab.scheduler.clone();
    let shared = match filesystem.is_shared() {
        true => Some(shared::Shared::of(lab, &filesystem, MOUNT_POINT.as_ref())?),
        false => None,
    };
    let target =
        Formatted::new(filesystem, job.seed, disks, lab.raid, scheduler, MOUNT_POINT.into());
    Ok(target.already_formatted(job.task == Task::RunPrepared).shared_over(shared))
}

/// Starts the disks of the file system, followed by that of its journal.
fn disks(job: &Job, lab: &FlatLab, mailbox: Mailbox<'static>) -> io::Result<Vec<ModelledDisk>> {
    let (role, size) = match lab.raid {
        Some(raid) => (DiskRole::Member, lab.size.map(|size| partition::member_size(size, raid))),
        None => (DiskRole::Data, lab.size),
    };
    let mut roles = vec![(&lab.disk, role, size); lab.data_disks() as usize];
    roles.extend(lab.journal.as_ref().map(|disk| (disk, DiskRole::Journal, lab.journal_size)));
    let region = layout::disk_pci(roles.len() as u8);
    let logged = job.task == Task::Logged;
    let mut data = logged.then(|| open_pci_memory(&region)).transpose()?;
    let mut disks = Vec::with_capacity(roles.len());
    let mut instant_disks = 0;
    for (index, (plan, role, size)) in (0u8..).zip(roles) {
        let spec = DiskSpec::from_json(&plan.spec).map_err(io::Error::other)?;
        let (medium, partition) = match spec.attach {
            Attach::Nbd => {
                let seed = partition::disk_seed(job.seed, index.into());
                let partition = partition::place(&spec, size, seed).map_err(io::Error::other)?;
                let shared = Shared::new()?;
                let regions = Regions {
                    index,
                    bytes: open_pci_memory(&layout::disk_pci(index))?,
                    log: open_pci_memory(layout::LOG_PCI)?,
                    data: data.take(),
                    formatted: job.task == Task::RunPrepared,
                };
                let served = Served { spec: &spec, seed, partition, cpu: &lab.cpu };
                let device = serve_disk::start(regions, served, shared, mailbox)?;
                (Medium::Served { device, shared }, partition)
            }
            Attach::Pmem => {
                instant_disks += 1;
                let name = format!("pmem{}", instant_disks - 1);
                let size = size.unwrap_or(spec.capacity);
                (Medium::Instant { name }, Partition { start: Bytes(0), size })
            }
        };
        let (name, spec) = (plan.name.clone(), Some(spec));
        disks.push(ModelledDisk { name, spec, role, partition, medium });
    }
    Ok(disks)
}

/// Waits for the trial; an error states why the trial wrote no report itself.
fn watch(child: Pid, deadline: Nanos, mailbox: Mailbox<'static>) -> io::Result<()> {
    let end = fsdyno_engine::clock::now() + deadline;
    let mut stuck = Stuck::default();
    loop {
        // The disks' servers and drivers are the trial's own children: when one of them fails, the trial gets I/O
        // errors and reports them itself.
        if let Some(status) = process::try_wait(child)? {
            if mailbox.get(Word::ReportLength) > 0 {
                return Ok(());
            }
            return Err(io::Error::other(format!(
                "the trial ended without a report: {status}{}",
                kernel_log::tail()
            )));
        }
        let now = fsdyno_engine::clock::now();
        let remaining = end.since(now);
        if remaining == Nanos(0) {
            return Err(io::Error::other(format!(
                "not done within {deadline} of virtual time{}",
                kernel_log::tail()
            )));
        }
        if let Some(reason) = stuck.check(now, mailbox) {
            return Err(io::Error::other(format!("{reason}{}", kernel_log::tail())));
        }
        wait_for_child_signal(remaining.min(stuck::CHECK_INTERVAL));
    }
}
