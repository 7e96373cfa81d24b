//! Replaces the names of results on the command line by their paths.

use std::path::{Path, PathBuf};

use fsdyno_campaign::about::find;
use fsdyno_study::{is_built_in, result_path};

use crate::cli::Command;
use crate::exit::Failure;

/// Returns the command with each name of a result replaced by its path.
///
/// # Errors
/// No result has the name, or several results have it.
pub fn with_paths(mut command: Command) -> Result<Command, Failure> {
    // `compare` resolves names itself, because a name without a result must leave a bisection undecided.
    for path in result_args(&mut command) {
        *path = result_path(path)?;
    }
    match &mut command {
        Command::Show(show) if show.kind.reads_results() => {
            for name in &mut show.names {
                *name = result_path(Path::new(name))?.to_string_lossy().into_owned();
            }
        }
        // The name of a study takes precedence.
        Command::Study(study) if study.check.is_some() && !is_built_in(&study.study) => {
            study.study = find(Path::new(&study.study))?.to_string_lossy().into_owned();
        }
        _ => {}
    }
    Ok(command)
}

/// Returns the results among the arguments of a command.
fn result_args(command: &mut Command) -> Vec<&mut PathBuf> {
    match command {
        Command::Report(report) => report.results.iter_mut().collect(),
        Command::Merge(merge) => merge.shares.iter_mut().collect(),
        Command::Why(why) => std::iter::once(&mut why.result).chain(&mut why.against).collect(),
        Command::Note(note) => vec![&mut note.result],
        _ => Vec::new(),
    }
}
