//! The request of a study: which part of its file is run, and how.

use std::path::PathBuf;

use crate::file::{Scale, Variant};

/// The request of a study.
#[derive(Clone, Debug, Default)]
pub struct StudyRequest {
    /// A study that comes with fsdyno, or a study file; to repeat stored trials, the folder of a study.
    pub study: String,
    /// The conditions; `None` for all.
    pub variant: Option<Variant>,
    /// The names of the runs, or empty for all.
    pub only: Vec<String>,
    /// The labels of the configurations, or empty for all.
    pub fs: Vec<String>,
    /// The kernels of runs in the lab, in place of the default.
    pub kernels: Vec<String>,
    /// The CPU of runs in the lab, in place of the one in the file.
    pub cpu: Option<String>,
    /// The scale, if not that of the file.
    pub scale: Option<Scale>,
    /// Number of trials of each configuration, if not that of the file.
    pub repeat: Option<u32>,
    /// True if no seeds are added for verdicts near their bounds.
    pub no_more_seeds: bool,
    /// The first seed, if not that of the file.
    pub seed: Option<u64>,
    /// Number of trials of a run that are executed at the same time.
    pub jobs: u16,
    /// The result folder, if not a new one.
    pub out: Option<PathBuf>,
}

impl StudyRequest {
    /// Requests a whole study, as its file specifies it.
    pub fn of(study: &str) -> StudyRequest {
        StudyRequest { study: study.into(), jobs: 1, ..StudyRequest::default() }
    }
}
