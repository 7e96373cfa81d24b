//! Any bytes as a trace: see ../check.rs.
//!
//! `make fuzz` runs it from the seeds in `corpus/trace`. Findings are in `fuzz/artifacts/trace`; each becomes a test.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
    check::check(&check::framed(bytes));
});
