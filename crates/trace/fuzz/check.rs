//! What holds for any bytes as a trace: a reader gives items or one error, in bounded memory. What was read can be written,
//! and is read again as it was. Used by the fuzz target, and by the test of mutated traces.

use fsdyno_trace::{Checker, End, Header, Item, Reader, Writer};

/// Bytes as the frames of a trace, with right heads and checksums: the first two are the length of the frame of the tree,
/// what follows it is a frame of events.
pub fn framed(bytes: &[u8]) -> Vec<u8> {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else { return Vec::new() };
    let tree = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let header = Header { has_think: true, has_times: true, ..Header::default() };
    let writer = Writer::new(Vec::new(), &header).expect("memory takes it");
    let begin = writer.written() as usize;
    let mut whole = writer.end(End::default()).expect("memory takes it");
    whole.truncate(begin);
    for (kind, part) in [(2, &bytes[..tree]), (3, &bytes[tree..])] {
        let length = (part.len() as u32).to_le_bytes();
        let head = [&[kind][..], &length, &length].concat();
        let sum = crc32fast::hash(&[&head[..], part].concat());
        whole.extend([&head[..], &sum.to_le_bytes(), part].concat());
    }
    whole
}

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
