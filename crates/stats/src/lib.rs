//! Pure statistics of trials, every constant with its source.

pub mod histogram;

pub use histogram::Histogram;
