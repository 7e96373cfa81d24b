//! Verifies after a phase, and ends the trial.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fsdyno_engine::{clock, verify, verify_device};
use fsdyno_record::mailbox::{Stage, Word};
use fsdyno_record::trial::{Gap, VerifyReport};
use fsdyno_workload::{GapKind, PhaseSpec, Tree, Workload};

use super::{Trial, elapsed, failed};

impl Trial<'_> {
    /// Compares the tree with the expected state after a phase.
    pub(super) fn verify(&mut self, workload: &dyn Workload, phase: usize) -> Result<(), String> {
        self.stage(Stage::Verifying);
        let done = self.work_done.get(phase).map_or(&[][..], Vec::as_slice);
        let tree = workload.tree_after(phase, done);
        self.compare(tree.as_ref())
    }

    /// Compares the tree with its expected contents, untimed.
    pub(super) fn compare(&mut self, tree: &dyn Tree) -> Result<(), String> {
        self.target.set_timed(false);
        let mode = self.job.plan.verify;
        let mailbox = self.mailbox;
        let mut on_progress = |entries: u64| {
            if entries % 256 == 0 {
                mailbox.set(Word::Now, clock::now().0);
            }
        };
        let seed = self.job.seed;
        let report = match &self.device {
            Some((device, file)) => File::open(Path::new(OsStr::from_bytes(device.to_bytes())))
                .and_then(|device| verify_device(device, tree, file, &self.contents, mode)),
            None => self.target.with_observer(&mut |root| {
                verify(root, tree, &self.contents, mode, seed, &mut on_progress)
            }),
        };
        self.target.set_timed(true);
        let report: VerifyReport = report.map_err(failed("verify"))?;
        let total = &mut self.measured.verify;
        total.mode = mode;
        total.files += report.files;
        total.directories += report.directories;
        total.bytes = total.bytes + report.bytes;
        total.problems += report.problems;
        total.elapsed_ns += report.elapsed_ns;
        total.examples.extend(report.examples);
        match total.examples.first() {
            Some(first) => Err(format!("verify found {} differences: {first}", total.problems)),
            None => Ok(()),
        }
    }

    /// Verifies the last phase, if needed, unmounts, and sums up the costs of the instrument.
    pub(super) fn finish(
        &mut self,
        workload: &dyn Workload,
        phases: &[PhaseSpec],
    ) -> Result<(), String> {
        if let Some(last) =
            phases.len().checked_sub(1).filter(|last| phases[*last].verify && self.makes_calls())
        {
            let (verified, elapsed_ns) = elapsed(|| {
                let done = self.run_untimed(|target| target.gap(GapKind::Remount));
                let done = done.map_err(failed("last remount"))?;
                self.verify(workload, last).map(|()| done)
            });
            let (before, wanted) = (String::new(), "verify".to_string());
            let done = verified?.to_string();
            self.measured.gaps.push(Gap { before, wanted, done, elapsed_ns });
        }
        self.hash_tree(workload)?;
        self.verify_aged_files()?;
        self.stage(Stage::Checking);
        self.target.finish().map_err(failed("unmount"))?;
        let phases = &self.measured.phases;
        for instrument in phases.iter().map(|phase| phase.instrument) {
            let total = &mut self.measured.instrument;
            total.server_cpu_ns += instrument.server_cpu_ns;
            total.driver_cpu_ns += instrument.driver_cpu_ns;
            total.late_ns += instrument.late_ns;
            total.engine_ns += instrument.engine_ns;
            total.sampler_cpu_ns += instrument.sampler_cpu_ns;
        }
        Ok(())
    }
}
