//! Study files, and the verdicts on their claims.

pub mod archive;
pub mod file;
pub mod full_scale;
pub mod judge;
pub mod repetition;
pub mod stored;
