//! Any bytes as a configuration of PostMark and the files that it loads: refused in one line, or
//! parameters that the workload accepts or refuses in one line, with the counts of its ops.
//!
//! `make fuzz` runs it from the seeds in `corpus/postmark_config` and `../tests/corpus/postmark`, and so does
//!
//! ```text
//! cd crates/workload && mkdir -p fuzz/found/postmark_config
//! RUSTC_BOOTSTRAP=1 cargo fuzz run postmark_config fuzz/found/postmark_config fuzz/corpus/postmark_config \
//!     tests/corpus/postmark -- -dict=fuzz/postmark_config.dict -max_len=4096 -timeout=5 \
//!     -rss_limit_mb=1024 -max_total_time=360
//! ```
//!
//! New paths are stored in `fuzz/found`. If they are worth keeping, a small set that covers all of them
//! replaces the seeds (a run with `-merge=1 -set_cover_merge=1 -use_counters=0
//! -max_len=3072`, new folder first).
//!
//! Its findings are in `fuzz/artifacts/postmark_config`; each becomes a pair of files in
//! `../tests/corpus/postmark`, named for the mistake.
#![no_main]

mod message;

use std::collections::BTreeMap;

use fsdyno_record::OpKind;
use fsdyno_workload::{Op, OpCounts, Setting, Share, Workload, workloads};
use libfuzzer_sys::fuzz_target;

/// Larger configurations are valid, but too slow for a fuzzer.
const MAX_SIZE: u64 = 300;

fuzz_target!(|bytes: &[u8]| {
    // Files are separated by a byte that is not text; the first is `pm`, those after it `a`, `b`,
    // ...
    let files: Vec<&[u8]> = bytes.split(|byte| *byte == 0xff).collect();
    let read = |name: &str| {
        let index = match name.as_bytes() {
            b"pm" => Some(0),
            [letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a') + 1),
            _ => None,
        };
        let file = index.and_then(|index| files.get(index));
        file.map(|file| file.to_vec()).ok_or_else(|| "there is no such file".to_string())
    };
    let kind = workloads::find("postmark").expect("the workload exists");
    let map = match (kind.config.expect("the workload has configurations"))("pm", &read) {
        Ok(map) => map,
        Err(error) => return message::check(&error),
    };
    let is_small = |key: &str| map[key].parse().is_ok_and(|number: u64| number <= MAX_SIZE);
    // A file of a GiB in blocks of a byte is valid, too.
    let has_few_calls = map["size-high"].parse().is_ok_and(|size: u64| size <= 1000 * MAX_SIZE)
        && ["read", "write"].into_iter().all(|key| map[key].len() >= 3);
    if has_few_calls && ["number", "transactions", "subdirectories"].into_iter().all(is_small) {
        match kind.build(&map, &Setting::seed(7)) {
            Ok(work) => count(work.as_ref()),
            Err(error) => message::check(&error.to_string()),
        }
    } else if let Err(error) = resolve(kind, &map) {
        message::check(&error.to_string());
    }
});

fn resolve(
    kind: &workloads::Kind,
    map: &BTreeMap<String, String>,
) -> Result<(), fsdyno_workload::ParamError> {
    let set: Vec<(&str, &str)> = map.iter().map(|(key, value)| (&**key, &**value)).collect();
    kind.resolve(&set).map(drop)
}

/// Checks the number of the ops against the counts.
fn count(work: &dyn Workload) {
    for phase in 0..work.phases().len() {
        let mut counts = OpCounts::new();
        let (mut ops, mut op) = (work.ops(phase, Share::WHOLE), Op::default());
        while ops.next(&mut op) {
            let kind: Option<OpKind> = op.call.kind();
            if let Some(kind) = kind {
                *counts.entry(kind).or_default() += 1;
            }
        }
        assert_eq!(counts, work.counts(phase, 1));
    }
}
