//! What holds for any bytes as a trace: a reader gives items or one error, in bounded memory. What was read can be written,
//! and is read again as it was. Used by the fuzz target, and by the test of mutated traces.

use fsdyno_trace::{Checker, Item, Reader, Writer};

/// Panics if it does not hold.
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
}
