//! Traces with arbitrary changes, as `make fuzz` makes more of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something is not as it should be"
)]

#[path = "../fuzz/arbitrary.rs"]
mod arbitrary;
#[path = "../fuzz/check.rs"]
mod check;

/// The beginnings of the first frames of the tree and of events of a trace, as `framed` takes them.
fn seed(trace: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(trace[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut parts) = (12, [Vec::new(), Vec::new()]);
    while at < trace.len() {
        let (kind, packed, length) = (trace[at], word(at + 1), word(at + 5));
        let stored = &trace[at + 13..at + 13 + packed];
        if kind == 2 || kind == 3 {
            let bytes = match packed == length {
                true => stored.to_vec(),
                false => lz4_flex::block::decompress(stored, length).unwrap(),
            };
            let part = &mut parts[usize::from(kind) - 2];
            if part.is_empty() {
                *part = bytes[..bytes.len().min(3000)].to_vec();
            }
        }
        at += 13 + packed;
    }
    let [tree, events] = parts;
    assert!(!tree.is_empty() && !events.is_empty());
    [&(tree.len() as u16).to_le_bytes()[..], &tree, &events].concat()
}

#[test]
fn a_trace_with_changes_is_read_as_items_or_an_error() {
    let traces = ["sqlite-wal", "rsync", "git-clone"].map(|name| {
        let at = format!("{}/../../examples/traces/{name}.trace", env!("CARGO_MANIFEST_DIR"));
        seed(&std::fs::read(at).unwrap())
    });
    // Whole traces, of which the checksums no longer fit.
    let whole = traces.each_ref().map(|it| check::framed(it));
    for trace in &whole {
        let items = fsdyno_trace::Reader::new(&trace[..]).unwrap().map_while(Result::ok);
        assert!(items.count() > 50);
    }
    let mut arbitrary = arbitrary::Arbitrary(0x9e37_79b9_7f4a_7c15);
    for count in 0..arbitrary::mutations(200, 100_000) {
        let bytes = match count % 8 {
            0 => arbitrary.mutated(&whole),
            _ => check::framed(&arbitrary.mutated(&traces)),
        };
        let done = std::panic::catch_unwind(|| check::check(&bytes));
        assert!(done.is_ok(), "mutation {count}: {bytes:?}");
    }
}
