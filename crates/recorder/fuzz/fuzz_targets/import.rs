//! Imports arbitrary text as the output of another tool: see ../check.rs.
//!
//! `make fuzz` runs it from the seeds in `corpus/import`. Findings are in `fuzz/artifacts/import`; each becomes a test.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

fuzz_target!(|bytes: &[u8]| check::check(bytes));
