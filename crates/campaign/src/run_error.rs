//! The errors that end a run.

use crate::store::StoreError;

/// The error that ended a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Results cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A requirement of every trial is missing.
    #[error("{0}")]
    Missing(String),
    /// The folder's trials come from a different lab.
    #[error(
        "the trials in this folder have the lab identity {stored}, and this lab is {current} \
         (different: {differs}); choose a new folder with --out"
    )]
    OtherLab {
        /// Prefix of the stored identity.
        stored: String,
        /// Prefix of the identity here.
        current: String,
        /// Names of the components that differ.
        differs: String,
    },
    /// The folder's trials were measured with a different clock.
    #[error(
        "the trials in this folder ran {stored}, and these would run {current}: their times do not \
         belong in one table; give --out a new folder"
    )]
    OtherClock {
        /// Venue of the stored trials.
        stored: &'static str,
        /// Venue of the trials of this run.
        current: &'static str,
    },
    /// The folder's trials ran in the same directory, but on a different kernel, mount or device.
    #[error(
        "the trials in this folder ran with the {what} '{stored}', and it is '{current}' now; \
         give --out a new folder"
    )]
    OtherFingerprint {
        /// The condition that differs.
        what: String,
        /// Its value in a stored trial.
        stored: String,
        /// Its value here.
        current: String,
    },
}
