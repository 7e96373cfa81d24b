//! Study files, their runs, and the verdicts on their claims.

pub mod archive;
pub mod check;
mod compare;
pub mod file;
pub mod full_scale;
pub mod judge;
mod named;
mod outdated;
pub mod repetition;
mod request;
mod runs;
mod seeds;
mod so_far;
pub mod stored;
mod study_result;
mod study_run;

pub use compare::{CompareRequest, compare};
pub use named::{built_in, find_study, is_built_in, result_path};
pub use request::StudyRequest;
pub use runs::{Planned, Runs, time_of};
pub use study_result::StudyResult;
