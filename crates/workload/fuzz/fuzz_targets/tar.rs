//! Any bytes as an archive: refused in one line, or extracted and removed with ops that are all
//! legal and result in the predicted tree, without a panic, a long wait or much memory.
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
//! New paths are stored in `fuzz/found`. If they are worth keeping, a small set that covers all of them
//! replaces the seeds (a run with `-merge=1 -set_cover_merge=1 -use_counters=0
//! -max_len=3072`, new folder first).
//!
//! Its findings are in `fuzz/artifacts/tar`; each becomes a file in `../tests/corpus/tar` that is named
//! for the mistake, with a row in `../tests/suite/corpus.rs`.
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
            memory::check_workload_with_input("tarball", &[("archive", "fuzz")], 7, input);
        }
        Err(error) => message::check(&error.to_string()),
    }
});
