//! The session of this process: its build, signals, display of progress, and command line.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_campaign::time_left::Planned;
use fsdyno_campaign::{Observer, Session, Summary, experiment};
use fsdyno_ranks::launcher;
use fsdyno_record::Plan;
use fsdyno_record::shell::quote;
use fsdyno_record::units::counted;

use crate::exit::Exit;
use crate::output::say;
use crate::{progress, version};

/// The display of progress on this process's terminal: bars, or lines.
struct ProgressDisplay;

impl experiment::Progress for ProgressDisplay {
    fn begin(&self, plans: &[&Plan], todo: &[Planned], jobs: usize) -> Box<dyn Observer> {
        Box::new(progress::Display::new(plans, todo, jobs))
    }
}

/// Creates the session of a command that `stop` ends.
pub fn create<'a>(stop: &'a Arc<AtomicBool>, command: &'a str) -> Session<'a> {
    Session { build: version::build(), stop, command, progress: &ProgressDisplay }
}

/// Returns the name and the arguments of this command, each quoted for a shell.
fn quoted_args() -> Vec<String> {
    // An argument that is not UTF-8 is shown with replacement characters.
    let args = std::env::args_os().skip(1).map(|arg| quote(&arg.to_string_lossy()));
    std::iter::once("fsdyno".to_string()).chain(args).collect()
}

/// Returns this command line, quoted for a shell.
pub fn command() -> String {
    quoted_args().join(" ")
}

/// Returns the exit code for the trials that were run; if they were stopped, prints how to resume them.
pub fn exit(stop: &AtomicBool, summary: &Summary, folder: &Path) -> Exit {
    if stop.load(Ordering::Relaxed) && summary.left > 0 {
        say(&format!(
            "fsdyno: stopped with {} of {} left; resume with:\n  {}",
            summary.left,
            counted(summary.trials(), "trial"),
            resume_command(folder)
        ));
        return Exit::Stopped;
    }
    if summary.failed > 0 { Exit::TrialFailed } else { Exit::Success }
}

/// Returns the command that resumes this one, with the launcher that started it as one of several ranks.
pub fn resume_command(folder: &Path) -> String {
    let mut args = quoted_args();
    if let Some((_, ranks)) = launcher::started_by_mpi(&|name| std::env::var(name).ok()) {
        args.splice(..0, ["mpiexec".to_string(), "-n".into(), ranks.to_string()]);
    }
    if !args.iter().any(|word| word == "--out" || word.starts_with("--out=")) {
        args.extend(["--out".to_string(), quote(&folder.display().to_string())]);
    }
    args.join(" ")
}
