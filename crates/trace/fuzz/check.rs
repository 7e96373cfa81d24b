//! The properties of a reader of arbitrary bytes: it returns items or one error, in bounded memory, and the items can
//! be written and are then read unchanged. Used by the fuzz target and the test of mutated traces.

use fsdyno_trace::{Checker, Item, Reader, Writer};

/// Panics if a property does not hold.
pub fn check(bytes: &[u8]) {
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
            item => writer.item(item).expect("a write to memory"),
        }
        kept.push(item.clone());
    }
    let written = writer.end(Default::default()).expect("a write to memory");
    let again: Vec<Item> = Reader::new(&written[..])
        .expect("it was just written")
        .map(|item| item.expect("it was just written"))
        .filter(|item| !matches!(item, Item::End(_)))
        .collect();
    // A frame has entries before events, so the order is preserved only within each kind.
    let split = |all: &[Item]| {
        let (events, tree): (Vec<_>, Vec<_>) =
            all.iter().cloned().partition(|item| matches!(item, Item::Event(_)));
        (events, tree)
    };
    assert_eq!(split(&again), split(&kept));
}
