//! The contents of files: slices of one seeded pool, so that no content is generated per file or stored.

use fsdyno_record::seed;

use crate::arguments::{CLASSES, Payload};
use crate::input::Input;

/// Size of the pool in bytes. Contents repeat after this many bytes.
pub const POOL: usize = 4 << 20;

/// Maximum length in bytes of a slice that is contiguous wherever it starts.
pub const MAX_SLICE: usize = 1 << 20;

/// Difference between the ids of consecutive versions of a block. Up to five versions of a block have distinct
/// contents, because none of its multiples below the fifth is a multiple of 2^22; block numbers do not exceed 2^40.
pub const VERSION_STRIDE: u64 = (1 << 56) + 1_000_003;

/// The unit of [`Contents::zero_share`] in bytes: the block size of most file systems, and smaller than the smallest
/// unit that any of them compresses. The pool and its tail are whole multiples of it.
pub const ZEROED_UNIT: usize = 4096;

/// Distance between the starts of consecutive ids: an odd number near 2^22 divided by the golden ratio (Knuth 3, 6.4,
/// Fibonacci hashing), so that neighbouring ids start far apart and the first 2^22 ids have distinct starts.
const STRIDE: u64 = 2_592_009;

/// The pool from which all contents are cut.
///
/// Byte `k` of content `id` is byte `id * STRIDE + k` of the pool, modulo its size. A write is a slice of the pool, and
/// a check is one memcmp of slices. The pool is random, so no file system can compress a content within its compression
/// window, although contents repeat after [`POOL`] bytes.
///
/// A comparison detects any flipped byte, a block from elsewhere in the file, a block of zeros, a stale block, and the
/// content of a different file. It cannot distinguish two ids that differ by a multiple of 2^22, which have the same
/// content; and contents of very few bytes can be equal by chance (one byte in 1 of 256 cases, two bytes in 1 of
/// 65,536).
#[derive(Clone, Debug)]
pub struct Contents {
    pool: Vec<u8>,
    input: Option<Input>,
    /// Pools of compressible contents by class, for payloads of [`Payload::classed`].
    classes: [Vec<u8>; CLASSES.len()],
}

static ZEROS: [u8; MAX_SLICE] = [0; MAX_SLICE];

impl Contents {
    /// Creates the pool of `seed`, which takes 5 MiB.
    pub fn new(seed: u64) -> Contents {
        let mut draws = seed::stream(seed, "contents");
        let mut pool = Vec::with_capacity(POOL + MAX_SLICE);
        pool.extend((0..POOL / 8).flat_map(|_| draws.draw().to_le_bytes()));
        pool.extend_from_within(..MAX_SLICE);
        Contents { pool, input: None, classes: Default::default() }
    }

    /// Creates contents without a pool, as a placeholder.
    pub fn empty() -> Contents {
        Contents { pool: Vec::new(), input: None, classes: Default::default() }
    }

    /// Sets the bytes from which payloads of [`Payload::INPUT`] are cut.
    pub fn with_input(self, input: Option<Input>) -> Contents {
        Contents { input, ..self }
    }

    /// Zeroes `percent` of each [`ZEROED_UNIT`] bytes of every content, in one run (two if a content begins within the
    /// run), so a compressing file system can save about that share of the space.
    pub fn zero_share(&mut self, percent: u64) {
        let random = ZEROED_UNIT - ZEROED_UNIT * percent.min(100) as usize / 100;
        for block in self.pool.chunks_mut(ZEROED_UNIT).filter(|block| block.len() > random) {
            block[random..].fill(0);
        }
    }

    /// Creates the pools for payloads of [`Payload::classed`].
    pub fn with_classes(mut self) -> Contents {
        for (pool, percent) in self.classes.iter_mut().zip(&CLASSES) {
            let mut class_contents =
                Contents { pool: self.pool.clone(), input: None, classes: Default::default() };
            class_contents.zero_share(*percent);
            *pool = class_contents.pool;
        }
        self
    }

    /// Returns content that does not come from the main pool: zeros, content of a class, or the input.
    #[cold]
    fn special(&self, payload: Payload, length: usize) -> &[u8] {
        if payload.id == Payload::ZEROS {
            return &ZEROS[..length];
        }
        if payload.id < Payload::INPUT {
            // Some generators draw ids from the whole range; without pools of classes, those ids use the main pool.
            let class = (payload.id >> Payload::CLASS_SHIFT) as usize - 1;
            let pool = self.classes.get(class).filter(|pool| !pool.is_empty());
            let start = Contents::start(payload);
            return pool.unwrap_or(&self.pool).get(start..start + length).unwrap_or_default();
        }
        let bytes = self.input.as_ref().map_or(&[][..], Input::bytes);
        let from = usize::try_from(payload.offset).unwrap_or(usize::MAX).min(bytes.len());
        &bytes[from..bytes.len().min(from.saturating_add(length))]
    }

    /// Returns the first bytes of `payload`: all of them, or [`MAX_SLICE`] if there are more; the
    /// caller continues with [`Contents::rest`].
    #[inline]
    pub fn slice(&self, payload: Payload) -> &[u8] {
        let length = (payload.length as usize).min(MAX_SLICE);
        if payload.id >= Payload::CLASSED {
            return self.special(payload, length);
        }
        let start = Contents::start(payload);
        // Never out of range: the start is below POOL, and the length does not exceed that of the pool's tail.
        self.pool.get(start..start + length).unwrap_or_default()
    }

    #[inline]
    fn start(payload: Payload) -> usize {
        payload.id.wrapping_mul(STRIDE).wrapping_add(payload.offset) as usize % POOL
    }

    /// Returns the remainder of `payload` after its first `done` bytes.
    #[inline]
    pub fn rest(payload: Payload, done: u32) -> Payload {
        Payload {
            id: payload.id,
            offset: payload.offset + u64::from(done),
            length: payload.length.saturating_sub(done),
        }
    }

    /// Returns the index of the first byte of `found` that differs from `payload`, if any; if `found` is longer than
    /// the payload, it differs at the payload's end.
    pub fn difference(&self, payload: Payload, found: &[u8]) -> Option<u64> {
        let mut remaining = payload;
        let mut rest_found = found;
        while !rest_found.is_empty() {
            let expected = self.slice(remaining);
            let length = expected.len().min(rest_found.len());
            if rest_found[..length] != expected[..length] {
                let index = rest_found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
                return Some((found.len() - rest_found.len() + index) as u64);
            }
            if length == 0 {
                return Some((found.len() - rest_found.len()) as u64);
            }
            rest_found = &rest_found[length..];
            remaining = Contents::rest(remaining, length as u32);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(id: u64, offset: u64, length: u32) -> Payload {
        Payload { id, offset, length }
    }

    #[test]
    fn a_content_read_in_parts_is_the_content() {
        let contents = Contents::new(1);
        for id in [0, 1, 17, 4_194_303, u64::MAX] {
            let whole = contents.slice(payload(id, 0, 300_000));
            let parts = [payload(id, 0, 100_001), payload(id, 100_001, 199_999)];
            assert_eq!(parts.map(|part| contents.slice(part)).concat(), whole);
        }
    }

    #[test]
    fn every_id_has_contents_with_and_without_classes() {
        let plain = Contents::new(1);
        let classed = Contents::new(1).with_classes();
        for bit in 0..64 {
            let one = payload(1 << bit, 5, 100);
            assert_eq!(plain.slice(one).len(), 100, "bit {bit}");
            assert_eq!(classed.slice(one).len(), 100, "bit {bit}");
        }
        let one = Payload::classed(9, 1, 0, 4096);
        assert_ne!(plain.slice(one), classed.slice(one));
    }

    #[test]
    fn a_long_content_wraps_around_the_end_of_the_pool() {
        let contents = Contents::new(1);
        let mut remaining = payload(3, 0, 3 * POOL as u32 + 5);
        let mut bytes = Vec::new();
        while remaining.length > 0 {
            let slice = contents.slice(remaining);
            bytes.extend_from_slice(slice);
            remaining = Contents::rest(remaining, slice.len() as u32);
        }
        assert_eq!(bytes.len(), 3 * POOL + 5);
        assert_eq!(bytes[..POOL], bytes[POOL..2 * POOL]);
        assert_eq!(contents.difference(payload(3, 0, 3 * POOL as u32 + 5), &bytes), None);
    }

    #[test]
    fn the_first_four_million_ids_have_distinct_starts() {
        let mut seen = vec![false; POOL];
        for id in 0..POOL as u64 {
            let start = id.wrapping_mul(STRIDE) as usize % POOL;
            assert!(!std::mem::replace(&mut seen[start], true), "{id}");
        }
    }

    #[test]
    fn a_flipped_byte_other_content_and_excess_bytes_are_found_where_they_are() {
        let contents = Contents::new(9);
        let correct = contents.slice(payload(5, 0, 5000)).to_vec();
        let mut changed = correct.clone();
        changed[4321] ^= 1;
        assert_eq!(contents.difference(payload(5, 0, 5000), &changed), Some(4321));
        assert_eq!(contents.difference(payload(5, 0, 5000), &correct), None);
        assert!(contents.difference(payload(6, 0, 5000), &correct).is_some());
        assert!(Contents::new(10).difference(payload(5, 0, 5000), &correct).is_some());
        assert_eq!(contents.difference(payload(5, 0, 4999), &correct), Some(4999));
    }

    #[test]
    fn a_content_with_zeros_has_its_share_of_zeros_in_each_block_wherever_it_begins() {
        let zeros = |percent, id| {
            let mut contents = Contents::new(1);
            contents.zero_share(percent);
            let bytes = contents.slice(payload(id, 0, MAX_SLICE as u32)).to_vec();
            assert_eq!(contents.difference(payload(id, 0, MAX_SLICE as u32), &bytes), None);
            let count = |block: &[u8]| block.iter().filter(|byte| **byte == 0).count();
            bytes.chunks(ZEROED_UNIT).map(count).collect::<Vec<_>>()
        };
        for id in [0, 1, 2, 4_194_303] {
            assert!(zeros(100, id).iter().all(|zeros| *zeros == ZEROED_UNIT));
            // In addition to the 2,048 zeroed bytes, 8 of 2,048 random bytes are zero.
            assert!(zeros(50, id).iter().all(|zeros| (2048..2048 + 40).contains(zeros)), "{id}");
            assert!(zeros(0, id).iter().all(|zeros| *zeros < 60), "16 of 4,096 random bytes");
        }
    }

    #[test]
    fn a_window_of_the_pool_does_not_repeat_itself() {
        let contents = Contents::new(1);
        let window = contents.slice(payload(0, 0, 128 << 10));
        let mut words: Vec<&[u8]> = window.chunks(4).collect();
        words.sort_unstable();
        let repeats = words.windows(2).filter(|pair| pair[0] == pair[1]).count();
        // 32,768 random words of 32 bits repeat 0.125 times on average.
        assert!(repeats < 5, "{repeats} words repeat");
    }
}
