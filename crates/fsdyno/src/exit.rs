//! Exit codes, and the failures that lead to them.

pub use fsdyno_campaign::failure::{Exit, Failure, HELP};
