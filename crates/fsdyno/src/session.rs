//! The session of this process: its build, signals, display of progress, and the command that was typed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_campaign::{Observer, Session, experiment};
use fsdyno_record::Plan;
use fsdyno_record::shell::quote;

use crate::{progress, version};

/// The bars, or the lines, of this process.
struct Shown;

impl experiment::Progress for Shown {
    fn begin(&self, plans: &[&Plan], todo: &[(usize, u64)], jobs: usize) -> Box<dyn Observer> {
        Box::new(progress::Display::new(plans, todo, jobs))
    }
}

/// The session of a command that `stop` ends.
pub fn of<'a>(stop: &'a Arc<AtomicBool>, command: &'a str) -> Session<'a> {
    Session { build: version::build(), stop, command, progress: &Shown }
}

/// The arguments of this command, quoted for a shell.
fn words() -> Vec<String> {
    // An argument that is not UTF-8 is shown with replacement characters.
    let args = std::env::args_os().skip(1).map(|word| quote(&word.to_string_lossy()));
    std::iter::once("fsdyno".to_string()).chain(args).collect()
}

/// This command, for a shell.
pub fn command() -> String {
    words().join(" ")
}

/// The command that resumes this one.
pub fn resume_command(folder: &Path) -> String {
    let mut words = words();
    if !words.iter().any(|word| word == "--out" || word.starts_with("--out=")) {
        words.extend(["--out".to_string(), quote(&folder.display().to_string())]);
    }
    words.join(" ")
}
