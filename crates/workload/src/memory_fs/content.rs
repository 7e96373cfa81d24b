//! The content of a file as pieces of payloads.

use std::collections::BTreeMap;

use crate::op::Payload;

/// The bytes of a file: payloads by offset, without overlap. Bytes that no payload covers are a hole and read
/// as zeros.
///
/// The bytes themselves are not stored. A payload that continues the one before it is merged with it, so that a
/// file written from beginning to end with one content is one piece, whatever the sizes of its writes.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pieces: BTreeMap<u64, Payload>,
    size: u64,
}

impl Content {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes a payload at an offset in bytes, which may be past the end.
    pub fn write(&mut self, offset: u64, payload: Payload) {
        if payload.length == 0 {
            return;
        }
        let end = offset + u64::from(payload.length);
        let remainder = self.stored_piece(end);
        self.remove(offset, end);
        if let Some(remainder) = remainder {
            self.pieces.insert(end, remainder);
        }
        self.insert(offset, payload);
        self.size = self.size.max(end);
    }

    /// Sets the size in bytes; a longer file ends in a hole.
    pub fn resize(&mut self, size: u64) {
        self.remove(size, u64::MAX);
        self.size = size;
    }

    /// Returns the rest of the payload at an offset; in a hole, zeros up to the next payload; `None` at or past the
    /// end of the file.
    pub fn piece(&self, offset: u64) -> Option<Payload> {
        if offset >= self.size {
            return None;
        }
        self.stored_piece(offset).or_else(|| {
            let next = self.pieces.range(offset..).next().map_or(self.size, |(start, _)| *start);
            Some(Payload::zeros(offset, (next - offset).min(u32::MAX.into()) as u32))
        })
    }

    /// Returns the number of payloads, which determines the memory used.
    pub fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the part of a stored payload from `position` on.
    fn stored_piece(&self, position: u64) -> Option<Payload> {
        let (start, piece) = self.pieces.range(..=position).next_back()?;
        let skipped = position - start;
        (skipped < u64::from(piece.length)).then(|| Payload {
            id: piece.id,
            offset: piece.offset + skipped,
            length: piece.length - skipped as u32,
        })
    }

    /// Turns a range of bytes into a hole.
    fn remove(&mut self, from: u64, to: u64) {
        if let Some((start, piece)) = self.pieces.range_mut(..from).next_back() {
            piece.length = piece.length.min((from - start).min(u32::MAX.into()) as u32);
        }
        while let Some((start, _)) = self.pieces.range(from..to).next() {
            let start = *start;
            self.pieces.remove(&start);
        }
    }

    /// Adds a payload to a hole, merged with its neighbours if they are parts of one content.
    fn insert(&mut self, offset: u64, mut payload: Payload) {
        let end = offset + u64::from(payload.length);
        if let Some(next) = self.pieces.get(&end)
            && let Some(both) = join(payload, *next)
        {
            self.pieces.remove(&end);
            payload = both;
        }
        if let Some((start, before)) = self.pieces.range_mut(..offset).next_back()
            && start + u64::from(before.length) == offset
            && let Some(both) = join(*before, payload)
        {
            *before = both;
            return;
        }
        self.pieces.insert(offset, payload);
    }
}

/// Returns two consecutive payloads as one, if the second continues the content of the first.
fn join(first: Payload, second: Payload) -> Option<Payload> {
    let continues = first.id == second.id
        && first.offset.checked_add(first.length.into()) == Some(second.offset);
    let length = first.length.checked_add(second.length).filter(|_| continues)?;
    Some(Payload { length, ..first })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(id: u64, length: u32) -> Payload {
        Payload { id, offset: 0, length }
    }

    fn pieces(content: &Content) -> Vec<(u64, u64, u64, u32)> {
        let pieces = content.pieces.iter();
        pieces.map(|(offset, piece)| (*offset, piece.id, piece.offset, piece.length)).collect()
    }

    #[test]
    fn overwritten_content_has_the_newest_bytes() {
        let mut content = Content::default();
        content.write(0, bytes(1, 1000));
        content.write(400, bytes(2, 100));
        content.write(900, bytes(3, 300));
        let expected = [(0, 1, 0, 400), (400, 2, 0, 100), (500, 1, 500, 400), (900, 3, 0, 300)];
        assert_eq!((pieces(&content), content.size()), (expected.to_vec(), 1200));
        content.write(100, bytes(4, 1000));
        assert_eq!(content.piece_count(), 3);
        content.resize(1050);
        assert_eq!(pieces(&content), [(0, 1, 0, 100), (100, 4, 0, 950)]);
        assert_eq!(content.size(), 1050);
    }

    #[test]
    fn consecutive_writes_of_one_content_are_one_piece() {
        let mut content = Content::default();
        let parts = [3, 0, 2, 1, 4]
            .map(|block| (block * 512, Payload { id: 7, offset: block * 512, length: 512 }));
        parts.into_iter().for_each(|(offset, part)| content.write(offset, part));
        assert_eq!(pieces(&content), [(0, 7, 0, 5 * 512)]);
        // The same content again, but not from the byte where it ended.
        content.write(5 * 512, bytes(7, 512));
        assert_eq!(content.piece_count(), 2);
    }

    #[test]
    fn a_hole_reads_as_zeros_and_a_file_shortened_and_grown_again_has_one() {
        let mut content = Content::default();
        content.write(1000, bytes(1, 10));
        assert_eq!(content.piece(0), Some(Payload::zeros(0, 1000)));
        assert_eq!(content.piece(1004), Some(Payload { id: 1, offset: 4, length: 6 }));
        content.resize(1005);
        content.resize(1 << 40);
        assert_eq!(content.piece(1003).map(|piece| piece.length), Some(2));
        assert_eq!(content.piece(1005), Some(Payload::zeros(1005, u32::MAX)));
        assert_eq!(content.piece(1 << 40), None);
    }

    proptest! {
        #[test]
        fn content_equals_an_array_of_bytes(
            steps in prop::collection::vec((0..40u64, 0..20u32, 0..3u64, 0..5u64, any::<bool>()), 0..40),
        ) {
            let (mut content, mut expected) = (Content::default(), Vec::new());
            for (start, length, id, offset, resize) in steps {
                if resize {
                    content.resize(start);
                    expected.resize(start as usize, None);
                } else if length > 0 {
                    content.write(start, Payload { id, offset, length });
                    expected.resize(expected.len().max(start as usize + length as usize), None);
                    for byte in 0..u64::from(length) {
                        expected[(start + byte) as usize] = Some((id, offset + byte));
                    }
                }
            }
            prop_assert_eq!(content.size(), expected.len() as u64);
            for (index, byte) in expected.iter().enumerate() {
                let piece = content.piece(index as u64).unwrap();
                let found = (piece.id != Payload::ZEROS).then_some((piece.id, piece.offset));
                prop_assert_eq!(found, *byte, "byte {}", index);
            }
        }
    }
}
