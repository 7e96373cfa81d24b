//! Prepares a trial for a replay and ends it: files that all threads share, compressible contents, and results to be
//! compared.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use fsdyno_engine::issue::shared::Slots;
use fsdyno_engine::replayed;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_workload::{Contents, Differences, Workload};

use super::{Trial, failed};

impl Trial<'_> {
    /// Creates the table of open files and the pools of contents.
    pub(super) fn prepare_replay(&mut self, workload: &dyn Workload) -> Result<(), String> {
        let Some(count) = workload.shared_slots() else { return Ok(()) };
        if matches!(self.job.plan.issuer, IssuerPlan::IoUring { .. }) {
            return Err(
                "a replay makes its calls as the recorded program did, one after the other \
                        in each thread; use --issuer sync"
                    .to_string(),
            );
        }
        self.slots = Some(Arc::new(Slots::new(count)));
        if let Some(contents) = Arc::get_mut(&mut self.contents) {
            *contents = std::mem::replace(contents, Contents::empty()).with_classes();
        }
        if let Some(recording) = workload.recording() {
            self.conditions.notes.extend(recording.notes);
            self.conditions.replay = Some(recording.report);
        }
        Ok(())
    }

    /// Reads the files and directories of a recording's initial tree once, as other programs did before the recorded
    /// one.
    /// The first read of a file after it was written changes its access time (relatime), which takes longer than a
    /// read; a program seldom makes that read.
    pub(super) fn read_tree_once(&mut self, workload: &dyn Workload) -> Result<(), String> {
        if workload.recording().is_none() {
            return Ok(());
        }
        self.target.set_timed(false);
        let read = read_below(self.target.root());
        self.target.set_timed(true);
        read.map_err(failed("read the initial tree"))
    }

    /// Marks, for a recorder of this process, where the calls of a replay begin and end: by access(2) of a path that
    /// does not exist. In the lab, no recorder runs.
    pub(super) fn mark(&self, workload: &dyn Workload, name: &str) {
        if workload.recording().is_some() && self.makes_calls() && self.job.plan.lab().is_none() {
            let path = format!("/fsdyno-mark/{name}");
            let _ = rustix::fs::access(path, rustix::fs::Access::EXISTS);
        }
    }

    /// Closes the files that the recorded program left open, and judges the results of a phase.
    pub(super) fn close_replay(
        &mut self,
        workload: &dyn Workload,
        phase: usize,
        differences: &Differences,
    ) -> Result<(), String> {
        let is_last = phase + 1 == workload.phases().len();
        if let Some(slots) = self.slots.as_ref().filter(|_| is_last) {
            slots.close_all();
        }
        let Some(recording) = workload.recording().filter(|_| self.makes_calls()) else {
            return Ok(());
        };
        if let Some(report) = &mut self.conditions.replay {
            report.differing += differences.count();
        }
        let mounted = self.conditions.mount.split_whitespace().next().unwrap_or_default();
        let (notes, failed) = replayed::judge(differences, &recording, mounted);
        let several = workload.phases();
        let name = several.get(phase).filter(|_| several.len() > 1).map(|phase| phase.name);
        let named = |note: String| match name {
            Some(name) => format!("phase {name}: {note}"),
            None => note,
        };
        self.conditions.notes.extend(notes.into_iter().map(named));
        failed.map_or(Ok(()), Err)
    }
}

/// Reads each directory below `root`, and the first byte of each file; skips what this user may not read.
fn read_below(root: BorrowedFd<'_>) -> io::Result<()> {
    let mut pending = vec![PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()))];
    while let Some(directory) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                let read = File::open(entry.path()).and_then(|mut file| file.read(&mut [0]));
                if let Err(error) = read
                    && error.kind() != io::ErrorKind::PermissionDenied
                {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
