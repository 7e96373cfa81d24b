//! Imports texts of other tools with arbitrary changes; `make fuzz` tries more changes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may unwrap")]

use std::path::Path;

#[path = "../fuzz/check.rs"]
mod check;

#[path = "../../trace/fuzz/arbitrary.rs"]
mod arbitrary;

#[test]
fn a_mutated_text_is_imported_completely_or_is_an_error() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/import");
    let mut paths: Vec<_> =
        std::fs::read_dir(corpus).unwrap().flatten().map(|it| it.path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|it| std::fs::read(it).unwrap()).collect();
    assert!(seeds.len() >= 4);
    let mut arbitrary = arbitrary::Arbitrary(0x9e37_79b9_7f4a_7c15);
    for count in 0..arbitrary::mutations(200, 100_000) {
        let bytes = arbitrary.mutated(&seeds);
        let done = std::panic::catch_unwind(|| check::check(&bytes));
        assert!(done.is_ok(), "mutation {count}: {:?}", String::from_utf8_lossy(&bytes));
    }
}
