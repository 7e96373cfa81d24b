//! Compiles arbitrary bytes as a trace for a replay: see ../check.rs.
//!
//! `make fuzz` runs it. Findings are in `fuzz/artifacts/compile`; each becomes a test.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;
#[path = "../../../trace/fuzz/framed.rs"]
mod framed;

fuzz_target!(|bytes: &[u8]| check::check(&framed::framed(bytes)));
