//! Compiles traces with arbitrary changes; `make fuzz` tries more changes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may unwrap")]

#[path = "../../trace/fuzz/arbitrary.rs"]
mod arbitrary;
#[path = "../fuzz/check.rs"]
mod check;
#[path = "../../trace/fuzz/framed.rs"]
mod framed;
#[path = "../../trace/fuzz/seed.rs"]
mod seed;

#[test]
fn a_mutated_trace_is_compiled_within_bounds_or_is_an_error() {
    let seeds = seed::seeds();
    let mut arbitrary = arbitrary::Arbitrary(0x9e37_79b9_7f4a_7c15);
    for count in 0..arbitrary::mutations(100, 30_000) {
        let bytes = arbitrary.mutated(&seeds);
        let done = std::panic::catch_unwind(|| check::check(&framed::framed(&bytes)));
        assert!(done.is_ok(), "mutation {count}: {bytes:?}");
    }
}
