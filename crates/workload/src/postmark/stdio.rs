//! The system calls of stdio for fread(3) and fwrite(3) of consecutive blocks.
//!
//! As observed with strace for glibc 2.36 [RUN: Debian's PostMark with blocks of 512, 8192 and 10,000 bytes]: blocks
//! smaller than the buffer are collected in it. A larger block first fills the buffer, which is then written; whole
//! multiples of the buffer size are written directly, and the rest of the block stays in the buffer. Reading is
//! symmetric: the rest of a block that is smaller than the buffer is read by filling the buffer, and larger parts are
//! read in whole multiples into the caller's memory.

/// Size of the buffer in bytes: st_blksize of ext2 to ext4, XFS and btrfs [RUN]. A file system that reports a different
/// size would have a different buffer and different calls.
pub const BUFFER: u32 = 4096;

/// Returns the number of calls if blocks fit in the buffer, one per full or partial buffer, or `None` for larger
/// blocks.
fn buffered_calls(bytes: u64, block: u32) -> Option<u64> {
    (block <= BUFFER).then(|| bytes.div_ceil(u64::from(BUFFER)))
}

/// Lengths of the write(2) calls of a program that passes `bytes` bytes to fwrite(3) in equal
/// blocks and a shorter last one, and then calls fclose(3).
#[derive(Clone, Debug)]
pub struct Writes {
    /// Number of bytes not yet passed to fwrite(3).
    remaining: u64,
    block: u32,
    /// Number of bytes in the buffer, and its free space; both are zero before the first block has created the buffer.
    buffered: u32,
    free: u32,
    /// Length of the call that follows the call that emptied the buffer, or zero if there is none.
    next_length: u32,
}

impl Writes {
    /// Creates the writes of `bytes` in blocks of `block`, which is at least one.
    pub fn new(bytes: u64, block: u32) -> Writes {
        Writes { remaining: bytes, block: block.max(1), buffered: 0, free: 0, next_length: 0 }
    }

    /// Returns the number of calls, if none has been made yet.
    pub fn count_calls(self) -> u64 {
        buffered_calls(self.remaining, self.block).unwrap_or_else(|| self.count() as u64)
    }
}

impl Iterator for Writes {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.next_length > 0 {
            return Some(std::mem::take(&mut self.next_length));
        }
        while self.remaining > 0 {
            let block = u64::from(self.block).min(self.remaining) as u32;
            self.remaining -= u64::from(block);
            let overflow = block - block.min(self.free);
            self.buffered += block - overflow;
            if overflow > 0 {
                let full = std::mem::replace(&mut self.buffered, overflow % BUFFER);
                self.next_length = overflow - overflow % BUFFER;
                self.free = BUFFER - self.buffered;
                let first = if full > 0 { full } else { std::mem::take(&mut self.next_length) };
                if first > 0 {
                    return Some(first);
                }
            } else {
                self.free -= block;
            }
        }
        let last = std::mem::take(&mut self.buffered);
        (last > 0).then_some(last)
    }
}

/// Lengths that the read(2) calls request when a program reads a whole file with fread(3) in equal
/// blocks and a shorter last one; the last call may request more than exists.
#[derive(Clone, Debug)]
pub struct Reads {
    /// Number of bytes not yet requested by fread(3).
    remaining: u64,
    block: u32,
    /// Number of bytes that the current block still needs.
    block_remaining: u32,
    /// Number of bytes in the buffer.
    buffered: u32,
    /// Number of bytes of the file that have not been read.
    unread: u64,
}

impl Reads {
    /// Creates the reads of a file of `bytes` in blocks of `block`, which is at least one.
    pub fn new(bytes: u64, block: u32) -> Reads {
        Reads {
            remaining: bytes,
            block: block.max(1),
            block_remaining: 0,
            buffered: 0,
            unread: bytes,
        }
    }

    /// Returns the number of calls, if none has been made yet.
    pub fn count_calls(self) -> u64 {
        buffered_calls(self.remaining, self.block).unwrap_or_else(|| self.count() as u64)
    }
}

impl Iterator for Reads {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if self.block_remaining == 0 {
                if self.remaining == 0 {
                    return None;
                }
                self.block_remaining = u64::from(self.block).min(self.remaining) as u32;
                self.remaining -= u64::from(self.block_remaining);
            }
            let length = self.block_remaining.min(self.buffered);
            self.block_remaining -= length;
            self.buffered -= length;
            if self.block_remaining > 0 {
                break;
            }
        }
        if self.block_remaining < BUFFER {
            self.buffered = u64::from(BUFFER).min(self.unread) as u32;
            self.unread -= u64::from(self.buffered);
            return Some(BUFFER);
        }
        let direct = self.block_remaining - self.block_remaining % BUFFER;
        self.block_remaining -= direct;
        self.unread -= u64::from(direct);
        Some(direct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn writes(bytes: u64, block: u32) -> Vec<u32> {
        Writes::new(bytes, block).collect()
    }

    fn reads(bytes: u64, block: u32) -> Vec<u32> {
        Reads::new(bytes, block).collect()
    }

    #[test]
    fn writes_are_split_as_traced_by_strace() {
        assert_eq!(writes(16_486, 512), [4096, 4096, 4096, 4096, 102]);
        assert_eq!(writes(30_000, 10_000), [8192, 4096, 4096, 4096, 8192, 1328]);
        assert_eq!(writes(20_000, 8192), [8192, 4096, 4096, 3616]);
        assert_eq!(writes(1, 10_000), [1]);
    }

    #[test]
    fn reads_are_split_as_traced_by_strace() {
        assert_eq!(reads(9533, 512), [4096, 4096, 4096]);
        assert_eq!(reads(30_000, 10_000), [8192, 4096, 4096, 4096, 8192, 4096]);
        assert_eq!(reads(20_000, 8192), [8192, 8192, 4096]);
        assert_eq!(reads(8192, 512), [4096, 4096]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_blocks_within_the_buffer_make_calls_of_the_buffer(
            bytes in 0u64..200_000,
            block in 1u32..20_000,
        ) {
            let calls = writes(bytes, block);
            prop_assert_eq!(calls.iter().map(|length| u64::from(*length)).sum::<u64>(), bytes);
            prop_assert!(calls.iter().all(|length| *length > 0));
            let requested: u64 = reads(bytes, block).iter().map(|length| u64::from(*length)).sum();
            prop_assert!((bytes..bytes + u64::from(BUFFER)).contains(&requested));
            if block <= BUFFER {
                let count = bytes.div_ceil(u64::from(BUFFER)) as usize;
                prop_assert_eq!((calls.len(), reads(bytes, block).len()), (count, count));
            }
            prop_assert_eq!(Writes::new(bytes, block).count_calls(), calls.len() as u64);
            prop_assert_eq!(Reads::new(bytes, block).count_calls(), reads(bytes, block).len() as u64);
        }
    }
}
