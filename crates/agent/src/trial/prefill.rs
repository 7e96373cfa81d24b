//! Creates the files that a workload's first phase expects, untimed before that phase, and reads them back.

use std::sync::Arc;

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{Recorder, clock, run_phase};
use fsdyno_record::mailbox::Word;
use fsdyno_workload::{GapKind, Prefill, Workload};

use super::{Trial, failed, failure};

impl Trial<'_> {
    /// Creates the files that the first phase expects, untimed, and reads them back to check them.
    pub(super) fn prefill(&mut self, workload: &dyn Workload) -> Result<(), String> {
        self.set_up_command(workload)?;
        let Some(Prefill { mut ops, tree }) = workload.prefill().filter(|_| self.makes_calls())
        else {
            return Ok(());
        };
        let root = self.target.root().try_clone_to_owned().map_err(failed("open the root"))?;
        let (mut issuer, mut recorder) =
            (SyncIssuer::new(root, Arc::clone(&self.contents)), Recorder::new());
        let mailbox = self.mailbox;
        let mut on_progress = |_| mailbox.set(Word::Now, clock::now().0);
        let before = self.space_used().map_err(failed("statfs"))?;
        self.target.set_timed(false);
        run_phase(ops.as_mut(), &mut issuer, &mut recorder, &mut on_progress)
            .map_err(|error| failure("prefill", &error.into()))?;
        drop(issuer);
        self.run_untimed(|target| target.gap(GapKind::Remount)).map_err(failed("remount"))?;
        let space = self.space_used().map_err(failed("statfs"))?;
        let calls: Vec<String> =
            recorder.counts().iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        self.conditions.notes.push(format!(
            "the initial tree of the first phase was created outside the timed phases (calls: {}); the file system \
             used {before} before and {space} after",
            calls.join(", ")
        ));
        self.compare(tree.as_ref())?;
        self.read_tree_once(workload)
    }
}
