//! Prepares a trial for a replay and ends it: files that all threads share, compressible contents, and results to be
//! compared.

use std::sync::Arc;

use fsdyno_engine::issue::shared::Slots;
use fsdyno_engine::{clock, read_once, replayed};
use fsdyno_record::mailbox::Word;
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
        let mailbox = self.mailbox;
        let mut note_progress = |_| mailbox.set(Word::Now, clock::now().0);
        self.target.set_timed(false);
        let read = read_once(self.target.root(), &mut note_progress);
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
        let mount_type = self.conditions.mount.split_whitespace().next().unwrap_or_default();
        let (notes, failed) = replayed::judge(differences, &recording, mount_type);
        let phases = workload.phases();
        let name = phases.get(phase).filter(|_| phases.len() > 1).map(|phase| phase.name);
        let named = |note: String| match name {
            Some(name) => format!("phase {name}: {note}"),
            None => note,
        };
        self.conditions.notes.extend(notes.into_iter().map(named));
        failed.map_or(Ok(()), Err)
    }
}
