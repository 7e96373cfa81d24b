//! Any bytes as a request log: refused, or read to its end without a panic or a gigabyte. A log
//! that is read and written again is unchanged.
//!
//! `make fuzz` runs it from the seeds in `corpus/request_log`. Findings are in
//! `fuzz/artifacts/request_log`; each becomes a case in `../tests/log.rs`.
#![no_main]

use fsdyno_disk::log::file;
use fsdyno_disk::log::region::RequestLog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(log) = file::open(bytes) else { return };
    let lost = log.lost();
    let Ok(entries) = log.collect::<Result<Vec<_>, _>>() else { return };
    let logged = RequestLog { entries, lost };
    let mut again = Vec::new();
    file::write(&logged, &mut again).expect("a vector accepts all bytes");
    let entries: Vec<_> =
        file::open(&again).expect("a log").map(|entry| entry.expect("whole")).collect();
    assert_eq!(RequestLog { entries, lost }, logged);
});
