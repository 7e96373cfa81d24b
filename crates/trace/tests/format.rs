//! Tests of the format: a trace is read as it was written, and anything else is rejected.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use fsdyno_trace::{
    At, Builder, Call, CallKind, Checker, Entry, Event, Header, Item, Kind, Name, NodeId, Problem,
    Reader, ThreadId, TraceError, Writer,
};
use proptest::prelude::*;

/// Returns a trace with items of all kinds.
fn sample() -> Builder {
    let mut it = Builder::new();
    let dir = it.dir(Builder::ROOT, "src");
    let main = it.file(dir, "main.c", 5000);
    let file = it.open(Builder::MAIN, dir, "main.c", main, 0);
    it.read(Builder::MAIN, file, 4096, 4096);
    it.close(Builder::MAIN, file);
    let child = it.spawn(Builder::MAIN, true);
    let (node, out) = it.create(child, dir, "main.o", 0o101);
    it.write(child, out, 700);
    it.close(child, out);
    let at = At::new(dir, Name::new(b"main.o").unwrap(), Some(node));
    it.call(child, Call::Unlink { at }, 0);
    let at = At::new(dir, Name::new(b"gone").unwrap(), None);
    it.call(child, Call::Unlink { at }, -2);
    it.call(child, Call::Exit { process: true }, 0);
    it
}

fn read(bytes: &[u8]) -> (Vec<Item>, Option<TraceError>) {
    let mut items = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (items, Some(error)),
    };
    loop {
        match reader.item() {
            Ok(Some(item)) => items.push(item),
            Ok(None) => return (items, None),
            Err(error) => return (items, Some(error)),
        }
    }
}

#[test]
fn a_trace_is_read_as_it_was_written() {
    let mut it = sample();
    let bytes = it.finish().unwrap();
    let (mut items, error) = read(&bytes);
    assert!(error.is_none(), "{error:?}");
    let Some(Item::End(end)) = items.pop() else { panic!("no end") };
    assert_eq!(end.status, Some(0));
    assert_eq!(end.events[&CallKind::Open], 2);
    assert_eq!(end.events[&CallKind::Unlink], 2);
    // Entries precede the events, in a separate frame.
    assert_eq!(&items, it.items());
    assert_eq!(Reader::new(&bytes[..]).unwrap().header().recorded_by, "hand");
}

#[test]
fn a_tree_only_reader_skips_events() {
    let bytes = sample().finish().unwrap();
    let reader = Reader::new(&bytes[..]).unwrap().tree_only();
    let items: Vec<Item> = reader.map(Result::unwrap).collect();
    let kinds = |item: &Item| matches!(item, Item::Root(_) | Item::Entry(_) | Item::End(_));
    assert_eq!(items.len(), 4);
    assert!(items.iter().all(kinds), "{items:?}");
}

#[test]
fn a_truncated_trace_gives_its_valid_items_and_the_offset() {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for item in sample().items() {
        writer.item(item).unwrap();
        writer.flush().unwrap();
    }
    // Dropped without an end, as by a recorder that is killed.
    let whole = writer.end(Default::default()).unwrap();
    let all = read(&whole).0;
    let mut before = 0;
    for length in 12..whole.len() {
        let (items, error) = read(&whole[..length]);
        assert_eq!(items[..], all[..items.len()]);
        assert!(items.len() >= before);
        before = items.len();
        match error.unwrap() {
            TraceError::Truncated { offset, items: n } => {
                assert!(offset <= length as u64);
                assert_eq!(n, items.len() as u64);
            }
            other => panic!("{length}: {other}"),
        }
    }
    assert_eq!(before, all.len() - 1);
}

#[test]
fn a_changed_byte_is_detected_and_reported_with_its_offset() {
    let bytes = sample().finish().unwrap();
    for at in 12..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = read(&damaged).1;
        let error = error.unwrap_or_else(|| panic!("the change of byte {at} was not detected"));
        assert!(error.to_string().starts_with("at byte "), "{error}");
    }
}

#[test]
fn other_files_and_other_versions_are_refused() {
    let text = |bytes: &[u8]| read(bytes).1.unwrap().to_string();
    assert_eq!(text(b"execve(\"/bin/ls\", ...)"), format!("at byte 0: {}", Problem::NotATrace));
    assert_eq!(text(b""), format!("at byte 0: {}", Problem::NotATrace));
    let mut bytes = sample().finish().unwrap();
    bytes[8] = 9;
    assert!(text(&bytes).contains("version 9"), "{}", text(&bytes));
    let mut bytes = sample().finish().unwrap();
    bytes.extend_from_slice(b"more");
    assert!(text(&bytes).contains("after the end"), "{}", text(&bytes));
}

#[test]
fn a_frame_that_claims_gigabytes_is_refused_before_memory_is_allocated() {
    let mut bytes = b"fsdyno-t\x01\0\0\0".to_vec();
    bytes.extend_from_slice(&[1, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]);
    let error = read(&bytes).1.unwrap().to_string();
    assert_eq!(
        error,
        "at byte 12: a frame of 2147483647 bytes is longer than the limit of 1048576"
    );
}

#[test]
fn a_name_is_a_single_component() {
    for bad in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b", &[b'x'; 256]] {
        assert!(Name::new(bad).is_err(), "{bad:?}");
    }
    for good in [&b"..."[..], b"\xff\xfe", b"a\nb", b"~", &[b'x'; 255]] {
        assert_eq!(Name::new(good).unwrap().bytes(), good);
    }
}

#[test]
fn identities_are_checked() {
    let check = |it: &mut Builder| {
        let mut checker = Checker::new();
        it.items().iter().try_for_each(|item| checker.check(item))
    };
    assert_eq!(check(&mut sample()), Ok(()));
    let mut it = sample();
    let unknown = At::new(NodeId(77), Name::new(b"x").unwrap(), None);
    it.call(Builder::MAIN, Call::Unlink { at: unknown }, 0);
    assert_eq!(
        check(&mut it),
        Err(Problem::Identity("node", 77, "is used before it is introduced"))
    );
    let mut it = sample();
    let file = it.file(Builder::ROOT, "f", 1);
    it.call(Builder::MAIN, Call::Unlink { at: At::new(file, Name::new(b"x").unwrap(), None) }, -20);
    let problem = check(&mut it).unwrap_err().to_string();
    assert!(problem.ends_with("is used as a directory but is not one"), "{problem}");
    let mut it = sample();
    it.call(ThreadId(5), Call::SyncAll {}, 0);
    assert!(check(&mut it).is_err());
}

proptest! {
    #[test]
    fn any_bytes_in_a_frame_are_read_as_items_or_an_error(kind in 1u8..5, bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        // A frame with a correct checksum, so that its content is decoded.
        let mut trace = Writer::new(Vec::new(), &Header::default()).unwrap().end(Default::default()).unwrap();
        let end = trace.len();
        // The end frame is the last one: 13 bytes and its items.
        let mut frame = vec![kind];
        frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&frame);
        sum.update(&bytes);
        frame.extend_from_slice(&sum.finalize().to_le_bytes());
        frame.extend_from_slice(&bytes);
        let header = end - END;
        trace.truncate(header);
        trace.extend_from_slice(&frame);
        let (items, error) = read(&trace);
        prop_assert!(error.is_some() || matches!(items.last(), Some(Item::End(_))));
    }

    #[test]
    fn numbers_of_any_size_are_preserved(think in any::<u64>(), start in 0..u64::MAX / 2, duration in 0..u64::MAX / 2, result in any::<i64>(), mode in 0u32..0o10000) {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let event = Event { thread: ThreadId(u32::MAX), think, start, duration, result, call: Call::SyncAll {} };
        let second = Event { start: start / 3, ..event.clone() };
        let entry = Entry {
            parent: NodeId(0), name: Name::new(b"n").unwrap(), node: NodeId(u32::MAX), kind: Kind::File,
            size: start, allocated: duration, mode, links: 3, inode: think,
            class: fsdyno_trace::Compressibility::Zeros, xattrs: Vec::new(),
        };
        let items = vec![Item::Entry(entry), Item::Event(event), Item::Event(second)];
        items.iter().for_each(|item| writer.item(item).unwrap());
        let bytes = writer.end(Default::default()).unwrap();
        let (mut read, error) = read(&bytes);
        prop_assert!(error.is_none());
        read.pop();
        prop_assert_eq!(read, items);
    }
}

/// The length of the end frame of an empty trace: its head, two numbers, two empty lists.
const END: usize = 13 + 4;
