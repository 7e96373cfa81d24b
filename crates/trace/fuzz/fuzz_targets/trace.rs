//! Any bytes as a trace: a reader gives items or one error, in bounded memory, and a second reader gives the same. What
//! was read can be written, and is read again as it was.
//!
//! `make fuzz` runs it from the seeds in `corpus/trace`. Findings are in `fuzz/artifacts/trace`; each becomes a test.
#![no_main]

use fsdyno_trace::{Checker, Item, Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::new(bytes) else { return };
    let header = reader.header().clone();
    let read: Vec<Item> = reader.map_while(Result::ok).collect();
    let mut checker = Checker::new();
    let _ = read.iter().try_for_each(|item| checker.check(item));
    let Ok(mut writer) = Writer::new(Vec::new(), &header) else { return };
    let mut kept = Vec::new();
    for item in &read {
        match item {
            Item::End(_) => break,
            item => writer.item(item).expect("memory takes it"),
        }
        kept.push(item.clone());
    }
    let written = writer.end(Default::default()).expect("memory takes it");
    let again: Vec<Item> = Reader::new(&written[..])
        .expect("it was just written")
        .map(|item| item.expect("it was just written"))
        .filter(|item| !matches!(item, Item::End(_)))
        .collect();
    // A frame holds entries before the events that follow them: within each kind the order stays.
    let split = |all: &[Item]| {
        let (events, tree): (Vec<_>, Vec<_>) =
            all.iter().cloned().partition(|item| matches!(item, Item::Event(_)));
        (events, tree)
    };
    assert_eq!(split(&again), split(&kept));
});
