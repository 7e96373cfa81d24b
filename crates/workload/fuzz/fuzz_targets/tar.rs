//! Any bytes as an archive: read and planned, or refused, and never a panic.
#![no_main]

use fsdyno_workload::Input;
use fsdyno_workload::unpack::Unpack;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Unpack::new(&Input::new(bytes.to_vec()));
});
