//! Recovers a file system repeatedly from the states that power cuts leave.
//!
//! The log of a trial's bytes is in the region of the input; the cuts to try are in the text of the job. The persisted
//! medium is in the second disk's region; the disk to be mounted is in the first's. For each cut, that disk is
//! written, served by a modelled disk that starts idle, mounted, walked, unmounted and checked, in a separate
//! process, which may die or hang; each outcome is immediately written where the venue reads it.

mod walk;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{Ordering, compiler_fence};

use fsdyno_crash::image::Builder;
use fsdyno_crash::recovered::{self, Recovery};
use fsdyno_crash::request::{self, RECORDS, RecoveryJob, RecoveryRequest};
use fsdyno_disk::log::data::DataLog;
use fsdyno_disk::log::region;
use fsdyno_disk::store::Memory;
use fsdyno_disk::{Action, DiskSpec, Partition, Store, partition};
use fsdyno_engine::clock;
use fsdyno_record::agent::Job;
use fsdyno_record::mailbox::{Mailbox, Stage, Word};
use fsdyno_record::plan::{FilesystemPlan, FlatLab};
use fsdyno_record::trial::{AgentReport, Conditions, DiskRole, Outcome};
use fsdyno_record::{Nanos, guest as layout};
use rustix::fs::OFlags;
use rustix::process::Signal;

use crate::child_signal::wait_for_child_signal;
use crate::exit_status::ExitStatus;
use crate::memory::{Windows, open_pci_memory};
use crate::process;
use crate::serve_disk::{self, BlockDevice, Regions, Served, Shared};
use crate::target::{Formatted, Medium, ModelledDisk, Target};
use crate::tool::{self, ToolResult};

const MOUNT_POINT: &str = "/mnt";
/// Words in kernel messages that indicate damage.
const DAMAGE: &[&str] = &["error", "corrupt", "WARNING", "BUG"];
/// The maximum number of kernel messages about damage that are kept per cut.
const MAX_DAMAGE_LINES: usize = 8;

/// Tries all cuts of the request.
pub fn run(job: &Job, mailbox: Mailbox<'static>) -> AgentReport {
    let (outcome, reason) = match try_all(job, mailbox) {
        Ok(()) => (Outcome::Ok, None),
        Err(error) => (Outcome::Failed, Some(error.to_string())),
    };
    AgentReport { outcome, reason, ..AgentReport::default() }
}

fn plan_error(message: &'static str) -> impl FnOnce() -> io::Error {
    move || io::Error::other(message)
}

fn try_all(job: &Job, mailbox: Mailbox<'static>) -> io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::empty());
    let lab = job.plan.lab().ok_or_else(plan_error("the plan is not for the lab"))?;
    let filesystem =
        job.plan.filesystem.as_ref().ok_or_else(plan_error("the plan names no file system"))?;
    let spec = DiskSpec::from_json(&lab.disk.spec).map_err(io::Error::other)?;
    let seed = partition::disk_seed(job.seed, 0);
    let partition = partition::place(&spec, lab.size, seed).map_err(io::Error::other)?;
    let request = read_request(mailbox)?;
    let log = DataLog::open(Windows::new(open_pci_memory(layout::INPUT_PCI)?)?);
    let medium =
        Store::create(Windows::new(open_pci_memory(&layout::disk_pci(1))?)?, spec.capacity);
    let (log, medium) = (log.map_err(io::Error::other)?, medium.map_err(io::Error::other)?);
    let mut builder = Builder::new(log, medium, request.disk, request.tear);
    drop(Store::create(disk()?, spec.capacity).map_err(io::Error::other)?);
    mailbox.set(Word::OpsTotal, request.cuts.len() as u64);
    mailbox.set(Word::Stage, Stage::Running as u64);
    let mut changed = Vec::new();
    let context =
        Context { job, lab, filesystem, spec: &spec, partition, request: &request, mailbox };
    for (index, cut) in request.cuts.iter().enumerate() {
        let mut work = Store::open(disk()?).map_err(io::Error::other)?;
        builder.image(cut, &changed, &mut work).map_err(io::Error::other)?;
        drop(work);
        context.try_cut_in_child(index as u32)?;
        changed = written_ranges()?;
        mailbox.set(Word::OpsDone, index as u64 + 1);
        mailbox.set(Word::Now, clock::now().0);
    }
    Ok(())
}

/// Opens the region of the disk that is mounted.
fn disk() -> io::Result<Windows> {
    Windows::new(open_pci_memory(&layout::disk_pci(0))?)
}

/// Reads the request from the text of the job.
fn read_request(mailbox: Mailbox<'static>) -> io::Result<RecoveryRequest> {
    let text = mailbox.job().map_err(io::Error::other)?;
    Ok(serde_json::from_slice::<RecoveryJob>(&text)?.order)
}

/// Returns the ranges in bytes that were written or discarded on the disk since its server started.
fn written_ranges() -> io::Result<Vec<(u64, u64)>> {
    let mut windows = Windows::new(open_pci_memory(layout::LOG_PCI)?)?;
    let logged = region::read(&mut windows).map_err(io::Error::other)?;
    if logged.lost > 0 {
        return Err(io::Error::other("a recovery made more requests than are logged"));
    }
    let is_change =
        |entry: &fsdyno_disk::log::Entry| matches!(entry.action, Action::Write | Action::Trim);
    let entries = logged.entries.iter().filter(|entry| is_change(entry));
    Ok(entries.map(|entry| (entry.sector * 512, u64::from(entry.sectors) * 512)).collect())
}

/// The parts that all cuts share.
#[derive(Clone, Copy)]
struct Context<'a> {
    job: &'a Job,
    lab: &'a FlatLab,
    filesystem: &'a FilesystemPlan,
    spec: &'a DiskSpec,
    partition: Partition,
    request: &'a RecoveryRequest,
    mailbox: Mailbox<'static>,
}

impl Context<'_> {
    /// Tries one cut in a separate process. If it dies or hangs, the guest is ended, because its kernel can no longer
    /// be trusted; the record then describes how that happened.
    fn try_cut_in_child(&self, index: u32) -> io::Result<()> {
        let context = *self;
        let child = process::fork(move || context.try_cut(index))?;
        let end = clock::now() + self.request.deadline;
        loop {
            let status = process::try_wait(child)?;
            let remaining = end.since(clock::now());
            let cause = match status {
                Some(ExitStatus::SUCCESS) => return Ok(()),
                // The failure is ours (no space, a tool that does not start) and not a finding; its message says so.
                Some(status @ ExitStatus::Exited(_)) => {
                    return Err(io::Error::other(format!("cut {index}: {status}")));
                }
                Some(status) => format!("the process that recovered it ended: {status}"),
                None if remaining == Nanos(0) => {
                    format!(
                        "it hung: it did not return within {} of virtual time",
                        self.request.deadline
                    )
                }
                None => {
                    wait_for_child_signal(remaining);
                    continue;
                }
            };
            let lost = Some(format!("{cause}{}", crate::kernel_log::tail()));
            append_result(&Recovery { index, lost, ..Recovery::default() }, &[])?;
            return Err(io::Error::other(cause));
        }
    }

    fn try_cut(&self, index: u32) -> io::Result<()> {
        let mut kernel = kernel_log();
        let shared = Shared::new()?;
        let regions = Regions {
            index: 0,
            bytes: open_pci_memory(&layout::disk_pci(0))?,
            log: open_pci_memory(layout::LOG_PCI)?,
            data: None,
            formatted: true,
        };
        let seed = partition::disk_seed(self.job.seed, 0);
        let Context { spec, partition, .. } = *self;
        let served = Served { spec, seed, partition, cpu: &self.lab.cpu };
        let device = serve_disk::start(regions, served, shared, self.mailbox)?;
        let mut recovery = Recovery { index, ..Recovery::default() };
        let mut tree = Vec::new();
        self.recover(&device, shared, &mut recovery, &mut tree)?;
        recovery.kernel = kernel.as_mut().map(damage).unwrap_or_default();
        append_result(&recovery, &tree)?;
        // If a device is mounted whose file system is still mounted, the kernel returns that same file system, and the
        // next image would be read through the old one. The remaining cuts are therefore left to a different guest.
        if self.target(&device, shared).is_mounted()? {
            return Err(io::Error::other(
                "the file system recovered after a cut cannot be unmounted",
            ));
        }
        end_disk(&device)
    }

    fn recover(
        &self,
        device: &BlockDevice,
        shared: Shared,
        recovery: &mut Recovery,
        tree: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut target = self.target(device, shared);
        match self.mount_and_walk(&mut target, recovery, tree) {
            Ok(None) => {}
            // It was readable but may still be mounted, so it must not be checked or repaired.
            Ok(Some(reason)) => {
                recovery.unclean = Some(format!("it could not be unmounted cleanly: {reason}"));
                return Ok(());
            }
            Err(error) => recovery.refused = Some(error.to_string()),
        }
        if target.is_mounted()? {
            recovery.lost = recovery.refused.clone();
            return Ok(());
        }
        let unclean = self.check(&target, &self.filesystem.check, &self.filesystem.check_clean)?;
        recovery.unclean = unclean;
        if recovery.refused.is_none() && recovery.unclean.is_none() {
            return Ok(());
        }
        if self.request.repair.is_empty() {
            recovery.lost = recovery.refused.clone();
            return Ok(());
        }
        // The state after the repair, or after the last resort, is the one that matters to the user.
        let mut after_repair = Recovery::default();
        recovery.repair =
            Some(self.repair(&self.request.repair, device, shared, &mut after_repair, tree)?);
        let is_mounted = self.target(device, shared).is_mounted()?;
        if after_repair.lost.is_some() && !is_mounted && !self.request.last_resort.is_empty() {
            let last_resort_output =
                self.repair(&self.request.last_resort, device, shared, &mut after_repair, tree)?;
            recovery.last_resort = Some(last_resort_output);
        }
        recovery.lost = after_repair.lost;
        recovery.unclean = recovery.unclean.take().or(after_repair.unclean);
        if recovery.refused.is_some() {
            recovery.mount_ns = after_repair.mount_ns;
        }
        Ok(())
    }

    /// Runs a repair, untimed, and examines the result. Returns its output; sets the tree, and in `after_repair` the
    /// time of the mount, or why it still could not be mounted.
    fn repair(
        &self,
        argv: &[String],
        device: &BlockDevice,
        shared: Shared,
        after_repair: &mut Recovery,
        tree: &mut Vec<u8>,
    ) -> io::Result<String> {
        let mut target = self.target(device, shared);
        target.set_timed(false);
        let result = tool::run(&target.fill_in(argv), &self.filesystem.env)?;
        tree.clear();
        *after_repair = Recovery::default();
        match self.mount_and_walk(&mut target, after_repair, tree) {
            Ok(None) => {}
            Ok(Some(reason)) => {
                after_repair.unclean = Some(format!("it could not be unmounted cleanly: {reason}"));
            }
            Err(error) => after_repair.lost = Some(error.to_string()),
        }
        Ok(summary(&result))
    }

    fn target(&self, device: &BlockDevice, shared: Shared) -> Formatted {
        let disk = ModelledDisk {
            name: self.lab.disk.name.clone(),
            spec: Some(self.spec.clone()),
            role: DiskRole::Data,
            partition: self.partition,
            medium: Medium::Served { device: device.clone(), shared },
        };
        let (plan, scheduler) = (self.filesystem.clone(), self.lab.scheduler.clone());
        Formatted::new(plan, self.job.seed, vec![disk], None, scheduler, MOUNT_POINT.into())
            .already_formatted(true)
    }

    /// Mounts the file system, timed, and reads everything in it, untimed. Returns why it could not be unmounted
    /// cleanly afterwards, if it could not.
    fn mount_and_walk(
        &self,
        target: &mut Formatted,
        recovery: &mut Recovery,
        tree: &mut Vec<u8>,
    ) -> io::Result<Option<String>> {
        let mounted = target.prepare(&mut Conditions::default());
        recovery.mount_ns = target.setup().unwrap_or_default().mount_ns;
        target.set_timed(false);
        let walked = mounted.map(|()| walk::walk(&Path::new(MOUNT_POINT).join("trial"), tree));
        // A file system that became read-only may refuse to be unmounted cleanly.
        let finished = target.finish();
        walked.map(|()| finished.err().map(|error| error.to_string()))
    }

    /// Runs a check and returns its findings, or `None` if the file system is clean.
    fn check(
        &self,
        target: &Formatted,
        argv: &[String],
        clean: &[i32],
    ) -> io::Result<Option<String>> {
        if argv.is_empty() {
            return Ok(None);
        }
        target.set_timed(false);
        let result = tool::run(&target.fill_in(argv), &self.filesystem.env)?;
        let is_clean = result.exit.is_some_and(|exit| clean.contains(&exit));
        Ok((!is_clean).then(|| summary(&result)))
    }
}

fn summary(result: &ToolResult) -> String {
    let exit = result.exit.map_or("killed".to_string(), |exit| format!("exit code {exit}"));
    format!("{exit}: {}", result.last_lines(6).join(" / "))
}

/// Kills the driver, which also ends the server, and waits for both.
fn end_disk(device: &BlockDevice) -> io::Result<()> {
    rustix::process::kill_process(device.driver, Signal::KILL)?;
    for pid in [device.driver, device.server] {
        while process::try_wait(pid)?.is_none() {
            wait_for_child_signal(Nanos(1_000_000));
        }
    }
    Ok(())
}

/// Appends a record to the results that the venue reads.
fn append_result(recovery: &Recovery, tree: &[u8]) -> io::Result<()> {
    let mut windows = Windows::new(open_pci_memory(layout::LOG_PCI)?)?;
    let length_word = windows.slice(request::RESULTS_OFFSET + 8, 8);
    let end = length_word.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let record = recovered::record(recovery, tree);
    if RECORDS + end + record.len() as u64 > request::RESULTS_MAX {
        return Err(io::Error::other("no space left for the results"));
    }
    let mut offset = request::RESULTS_OFFSET + RECORDS + end;
    for part in record.chunks(1 << 20) {
        windows.slice(offset, part.len()).copy_from_slice(part);
        offset += part.len() as u64;
    }
    compiler_fence(Ordering::SeqCst);
    let end = end + record.len() as u64;
    windows.slice(request::RESULTS_OFFSET + 8, 8).copy_from_slice(&end.to_le_bytes());
    Ok(())
}

/// Opens the kernel's log at its end.
fn kernel_log() -> Option<File> {
    let mut log = File::open("/dev/kmsg").ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    rustix::fs::fcntl_setfl(log.as_fd(), OFlags::NONBLOCK).ok()?;
    Some(log)
}

/// Returns the lines of a log that report damage.
fn damage(log: &mut File) -> Vec<String> {
    let (mut lines, mut record) = (Vec::new(), [0; 8192]);
    loop {
        let length = match log.read(&mut record) {
            Ok(length @ 1..) => length,
            // Some messages were overwritten before they were read; the next read continues with the oldest one left
            // (kmsg ABI).
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => continue,
            _ => break,
        };
        let text = String::from_utf8_lossy(&record[..length]);
        let Some((_, message)) = text.split_once(';') else { continue };
        let line = message.lines().next().unwrap_or_default();
        if lines.len() < MAX_DAMAGE_LINES && DAMAGE.iter().any(|word| line.contains(word)) {
            lines.push(line.to_string());
        }
    }
    lines
}
