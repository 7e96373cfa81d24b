//! Any bytes as an archive: refused in one line, or extracted and removed with ops that are all
//! legal and leave the predicted tree. Never a panic, a minute's wait or a gigabyte.
//!
//! `make fuzz` runs it from the seeds in `corpus/tar` and `../tests/corpus/tar`, and so does
//!
//! ```text
//! cd crates/workload && mkdir -p fuzz/found/tar
//! RUSTC_BOOTSTRAP=1 cargo fuzz run tar fuzz/found/tar fuzz/corpus/tar \
//!     tests/corpus/tar -- -dict=fuzz/tar.dict -max_len=16384 -timeout=5 \
//!     -rss_limit_mb=1024 -max_total_time=360
//! ```
//!
//! New paths gather in `fuzz/found`. Where they are worth keeping, a small set that covers them all
//! takes the place of the seeds (a run with `-merge=1 -set_cover_merge=1 -use_counters=0
//! -max_len=3072`, new folder first).
//!
//! What it finds lies in `fuzz/artifacts/tar`; it becomes a file in `../tests/corpus/tar` that is named
//! for the mistake, with a row in `../tests/corpus.rs`.
#![no_main]

#[path = "../../tests/suite/memory/mod.rs"]
mod memory;
mod message;

use fsdyno_workload::Input;
use fsdyno_workload::tar::unpack::Unpack;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes.to_vec());
    match Unpack::new(&input) {
        Ok(_) => {
            memory::prove_input("tarball", &[("archive", "fuzz")], 7, input);
        }
        Err(error) => message::check(&error.to_string()),
    }
});
