//! Reads traces with arbitrary changes; `make fuzz` tries more changes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may unwrap")]

#[path = "../fuzz/arbitrary.rs"]
mod arbitrary;
#[path = "../fuzz/check.rs"]
mod check;
#[path = "../fuzz/framed.rs"]
mod framed;
#[path = "../fuzz/seed.rs"]
mod seed;

#[test]
fn a_mutated_trace_is_read_as_items_or_an_error() {
    let traces = seed::seeds();
    // Complete traces, whose checksums no longer match after a change.
    let whole = traces.each_ref().map(|it| framed::framed(it));
    for trace in &whole {
        let items = fsdyno_trace::Reader::new(&trace[..]).unwrap().map_while(Result::ok);
        assert!(items.count() > 50);
    }
    let mut arbitrary = arbitrary::Arbitrary(0x9e37_79b9_7f4a_7c15);
    for count in 0..arbitrary::mutations(200, 100_000) {
        let bytes = match count % 8 {
            0 => arbitrary.mutated(&whole),
            _ => framed::framed(&arbitrary.mutated(&traces)),
        };
        let done = std::panic::catch_unwind(|| check::check(&bytes));
        assert!(done.is_ok(), "mutation {count}: {bytes:?}");
    }
}
