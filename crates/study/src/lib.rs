//! Study files, their runs, and the verdicts on their claims.

pub mod archive;
pub mod check;
mod end;
pub mod file;
pub mod full_scale;
pub mod judge;
mod named;
pub mod repetition;
mod request;
mod runs;
mod seeds;
pub mod stored;
mod study_run;

pub use end::End;
pub use named::{built_in, named};
pub use request::StudyRequest;
pub use runs::{Planned, Runs, time_of};
