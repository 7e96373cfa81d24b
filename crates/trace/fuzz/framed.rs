//! Traces of arbitrary frames.

use fsdyno_trace::{End, Header, Writer};

/// Bytes as the frames of a trace, with right heads and checksums: the first two are the length of the frame of the
/// tree, what follows it is a frame of events.
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
