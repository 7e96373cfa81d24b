//! Runs commands of the user as the work of a trial.

use fsdyno_engine::{Outcome, clock};
use fsdyno_record::Nanos;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Word;
use fsdyno_workload::workloads::command;
use fsdyno_workload::{GapKind, Workload};

use super::{Trial, failed};
use crate::{shell, tree_hash};

/// The CPU time of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// In user mode.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
}

impl Trial<'_> {
    /// Runs the setup of a command, if there is one; it is not part of any measurement.
    pub(super) fn set_up_command(&mut self, workload: &dyn Workload) -> Result<(), String> {
        let Some(shell) = workload.command() else { return Ok(()) };
        if self.job.task != Task::Command {
            return Err(command::refusal(&shell.command));
        }
        let Some(setup) = &shell.setup else { return Ok(()) };
        self.target.set_timed(false);
        let result = self.shell(setup, "setup");
        self.target.set_timed(true);
        result?;
        self.conditions
            .notes
            .push(format!("run before the phase, not part of any figure: {setup}"));
        Ok(())
    }

    /// Runs the command of a phase, if it has one, and puts its times into the outcome.
    pub(super) fn run_command(
        &mut self,
        workload: &dyn Workload,
        outcome: &mut Outcome,
    ) -> Result<Spent, String> {
        let Some(shell) = workload.command() else { return Ok(Spent::default()) };
        if self.job.task != Task::Command {
            return Err(command::refusal(&shell.command));
        }
        let result = self.shell(&shell.command, "command")?;
        (outcome.started, outcome.returned) = (result.started, result.returned);
        Ok(Spent { user: result.user, system: result.system })
    }

    fn shell(&mut self, line: &str, role: &str) -> Result<shell::CommandResult, String> {
        self.mailbox.set(Word::Now, clock::now().0);
        let result = shell::run(line, self.target.root(), self.umask).map_err(failed(role))?;
        if let Some(failure) = &result.failure {
            return Err(format!("the {role} '{line}' {failure}"));
        }
        if result.left_running > 0 {
            self.conditions.notes.push(format!(
                "the {role} left {} processes running, which were ended before the sync",
                result.left_running
            ));
        }
        Ok(result)
    }

    /// Hashes the tree that a command left, read back with cold caches.
    pub(super) fn hash_tree(&mut self, workload: &dyn Workload) -> Result<(), String> {
        if workload.command().is_none() {
            return Ok(());
        }
        self.run_untimed(|target| target.gap(GapKind::Remount)).map_err(failed("last remount"))?;
        let mailbox = self.mailbox;
        let mut on_progress = || mailbox.set(Word::Now, clock::now().0);
        let tree = self.run_untimed(|target| tree_hash::hash(target.root(), &mut on_progress));
        self.measured.tree = Some(tree.map_err(failed("read the tree back"))?);
        Ok(())
    }
}
