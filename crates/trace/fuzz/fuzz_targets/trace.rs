//! Reads arbitrary bytes as a trace: see ../check.rs.
//!
//! `make fuzz` runs it. Findings are in `fuzz/artifacts/trace`; each becomes a test.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;
#[path = "../framed.rs"]
mod framed;

fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
    check::check(&framed::framed(bytes));
});
