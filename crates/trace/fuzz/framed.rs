//! Traces of arbitrary frames.

use fsdyno_trace::{End, Header, Writer};

/// Converts bytes to the frames of a trace, with correct heads and checksums. The first two bytes are the length of the
/// frame of the tree; the bytes after that frame are a frame of events.
pub fn framed(bytes: &[u8]) -> Vec<u8> {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else { return Vec::new() };
    let tree = usize::from(u16::from_le_bytes(*length)).min(bytes.len());
    let header = Header { has_think: true, has_times: true, ..Header::default() };
    let writer = Writer::new(Vec::new(), &header).expect("a write to memory");
    let begin = writer.written() as usize;
    let mut trace = writer.end(End::default()).expect("a write to memory");
    trace.truncate(begin);
    for (kind, part) in [(2, &bytes[..tree]), (3, &bytes[tree..])] {
        let length = (part.len() as u32).to_le_bytes();
        let head = [&[kind][..], &length, &length].concat();
        let sum = crc32fast::hash(&[&head[..], part].concat());
        trace.extend([&head[..], &sum.to_le_bytes(), part].concat());
    }
    trace
}
