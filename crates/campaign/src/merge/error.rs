//! The errors of a merge.

use std::path::PathBuf;

use crate::share::ShareError;
use crate::store::StoreError;

/// The error of a merge.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A folder is not a share, or cannot be read or written.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A folder's trials cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A share's run has not ended.
    #[error("'{}' is in use by another fsdyno; merge when its run has ended", .0.display())]
    InUse(PathBuf),
    /// The target folder holds something else.
    #[error(
        "'{}' holds {found} and is not a merged folder; give the merged trials a new folder", .folder.display()
    )]
    OutTaken {
        /// The folder.
        folder: PathBuf,
        /// Its contents.
        found: String,
    },
    /// Two shares belong to different commands.
    #[error(
        "'{}' and '{}' are not shares of one command: {what}; {commands}", .first.display(), .second.display()
    )]
    OtherCommand {
        /// One folder.
        first: PathBuf,
        /// The other folder.
        second: PathBuf,
        /// The difference between their schedules.
        what: String,
        /// The commands.
        commands: String,
    },
    /// A share holds a trial of a different command.
    #[error("'{}' holds the trial {trial_id} of '{label}', which its {} does not plan",
        .folder.display(), crate::share::FILE)]
    Unplanned {
        /// The folder.
        folder: PathBuf,
        /// The trial.
        trial_id: String,
        /// Its label.
        label: String,
    },
    /// Two shares ran in different labs, or on different hosts.
    #[error(
        "'{}' and '{}' did not run in one lab or on one host, so their trials are not repeats of each other: \
         {what}", .first.display(), .second.display()
    )]
    OtherPlace {
        /// One folder.
        first: PathBuf,
        /// The other folder.
        second: PathBuf,
        /// The difference.
        what: String,
    },
    /// A trial outside the lab was measured twice.
    #[error(
        "'{}' and '{}' both measured the trial {trial} on a host, where no two \
         measurements are alike; leave one of the folders out", .first.display(), .second.display()
    )]
    Twice {
        /// One folder.
        first: PathBuf,
        /// The other folder.
        second: PathBuf,
        /// The trial and its label.
        trial: String,
    },
    /// One trial has two results under one lab identity, which must never happen.
    #[error(
        "THE LAB DID NOT REPEAT: '{}' and '{}' ran the trial {trial} in one lab and differ \
         in {what}. Keep both folders and report it: one of the machines, \
         or the lab itself, cannot be trusted; nothing was merged", .first.display(), .second.display()
    )]
    Differs {
        /// One folder.
        first: PathBuf,
        /// The other folder.
        second: PathBuf,
        /// The trial and its label.
        trial: String,
        /// The first difference between the records, with both values.
        what: String,
    },
    /// A different log already has the name of a trial's log.
    #[error(
        "'{}' exists and differs from the log '{}'; name a new folder for the merged trials",
        .existing.display(), .log.display()
    )]
    OtherLog {
        /// The existing file.
        existing: PathBuf,
        /// The trial's log.
        log: PathBuf,
    },
    /// A log cannot be read or written.
    #[error("failed to {what} '{}': {source}", .path.display())]
    Log {
        /// The action.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Trials are missing.
    #[error(
        "trials are missing: {0}; run or name these shares, or merge the others with --partial"
    )]
    Missing(String),
}
