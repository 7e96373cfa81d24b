//! One file system call with its thread, dependencies and timing.

use fsdyno_record::Nanos;

pub use crate::arguments::{DirSlot, FileSlot, OpenFlags, Payload};
pub use crate::call::{Call, Compound, RemoveOrder};

/// One file system call, or a call that the engine expands into many ([`Call::Compound`]).
///
/// A generator receives the same `Op` each time and rewrites it in place, so that the hot loop
/// allocates nothing and copies no names.
#[derive(Clone, Debug)]
pub struct Op {
    /// The call and its arguments.
    pub call: Call,
    /// The name that is the call's argument, relative to the call's directory; it may contain slashes, as in the
    /// original program. A call on a file slot does not use it, but it remains the name with which the file was opened,
    /// for messages.
    pub name: Name,
    /// The second name of rename, link and symlink.
    pub second_name: Name,
    /// The thread of the workload that issues the op, from zero.
    pub thread: u32,
    /// The progress of another thread that the op waits for. Ops of the same thread are ordered without it.
    pub after: ProgressPoint,
    /// Further points that the op waits for if `after` is set; all of them must be reached. Only blocking calls wait
    /// for several points.
    pub also_after: Vec<ProgressPoint>,
    /// Think time of the caller before the op: sleep, without processor time.
    pub think: Nanos,
    /// Compute time of the caller before the op: processor time of the program that the workload models. Neither
    /// `think` nor `compute` is part of a latency.
    pub compute: Nanos,
    /// Time at which the op is due, relative to the start of the phase: it is not issued earlier, and its latency is
    /// measured from then, even if its thread could issue it only later because the previous op had not returned. An op
    /// that waits for a slow one is thus as slow as its caller would observe (G. Tene, "coordinated omission"). Zero
    /// means immediately, with the latency measured from the issue of the op.
    pub due: Nanos,
    /// The required outcome of the call.
    pub expect: Expect,
    /// The number that `expect` refers to.
    pub result: u64,
}

/// A point in the stream of a thread: `ops` of its ops have returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressPoint {
    /// The thread, from zero.
    pub thread: u32,
    /// Number of its ops in this phase, with each call of an expanded op counted, or zero for no wait.
    pub ops: u64,
}

/// The required outcome of a call. Some programs, such as GNU tar, make calls that fail, and those cost time too; a
/// call with a different outcome fails the trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// The call succeeds.
    #[default]
    Success,
    /// The call fails with ENOENT.
    Missing,
    /// The call fails with EEXIST.
    Exists,
    /// The call fails with the error number [`Op::result`].
    Errno,
    /// The call succeeds with the result [`Op::result`]: bytes moved, or a size.
    Result,
    /// The result of the call is not compared.
    Any,
}

/// Bytes that `cp` copies at a time: coreutils 9.1 reads 131,072, as strace shows.
pub const COPY_BUFFER: u64 = 128 << 10;

/// Bytes that tar reads and writes at a time: 20 blocks of 512, GNU tar's default record.
pub const RECORD: u64 = 20 * 512;

impl Default for Op {
    fn default() -> Op {
        Op {
            call: Call::Stat { dir: DirSlot::ROOT },
            name: Name::default(),
            second_name: Name::default(),
            thread: 0,
            after: ProgressPoint::default(),
            also_after: Vec::new(),
            think: Nanos(0),
            compute: Nanos(0),
            due: Nanos(0),
            expect: Expect::Success,
            result: 0,
        }
    }
}

/// Powers of ten, by exponent.
const POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Returns the limit below which [`eight_digits`] writes numbers of `width` digits, or zero if it cannot.
pub(crate) fn digits_limit(width: usize) -> u64 {
    POWERS.get(width).copied().unwrap_or(0)
}

/// Computes the eight digits of a number below 10^8, the first in the lowest byte.
///
/// The number is split into halves of four digits, quarters of two digits, then bytes of one digit, all parts of a word
/// in parallel; division by 100 and by 10 is multiplication by their reciprocals in 20 and in 10 bits, exact below
/// 10,000 and below 100 (Warren, Hacker's Delight, chapter 10). A loop over digits would cost a fifth of all
/// instructions that the engine adds to a call.
#[inline]
fn eight_digits(number: u32) -> u64 {
    let halves = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let quarters = hundreds | (halves - 100 * hundreds) << 16;
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | (quarters - 10 * tens) << 8) | 0x3030_3030_3030_3030
}

/// A path relative to a directory slot, always terminated by NUL, so that it can be passed to the kernel as is.
#[derive(Clone)]
pub struct Name {
    bytes: [u8; Name::CAPACITY],
    length: u16,
}

impl Name {
    /// Maximum size of a path that a workload may use, in bytes with its NUL.
    pub const CAPACITY: usize = 1024;

    /// Empties the name.
    #[inline]
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps the first `length` bytes.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        let length = length.min(self.length as usize);
        self.length = length as u16;
        self.bytes[length] = 0;
    }

    /// Appends bytes; those that do not fit are cut off (generators check the lengths of names when they are built).
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        let end = self.length as usize;
        let count = text.len().min(Name::CAPACITY - 1 - end);
        self.bytes[end..end + count].copy_from_slice(&text[..count]);
        self.length = (end + count) as u16;
        self.bytes[end + count] = 0;
    }

    /// Appends a decimal number with at least `width` digits.
    #[inline]
    pub fn push_number(&mut self, mut number: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let mut first = digits.len();
        while number > 0 {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        first = first.min(digits.len() - width.clamp(1, digits.len()));
        self.push(&digits[first..]);
    }

    /// Writes a number with at least `width` digits (at least one) at byte `offset` and ends the name after it, for
    /// names that differ only in the number. `offset` must be at most the length of the name.
    #[inline]
    pub fn set_number(&mut self, offset: usize, number: u64, width: usize) {
        if width > 0 && number < digits_limit(width) {
            self.set_digits(offset as u16, number as u32, width as u16);
        } else {
            self.set_long_number(offset, number, width);
        }
    }

    /// Increments the number that ends the name if only its last digit changes; returns false, and changes nothing, if
    /// it would carry. Nine out of ten consecutive names cost no more than this.
    #[inline]
    pub fn increment(&mut self) -> bool {
        let last = usize::from(self.length).wrapping_sub(1);
        match self.bytes.get_mut(last) {
            Some(digit @ b'0'..=b'8') => {
                *digit += 1;
                true
            }
            _ => false,
        }
    }

    /// Does the work of [`Name::set_number`] for a number below [`digits_limit`] of the width.
    #[inline]
    pub(crate) fn set_digits(&mut self, offset: u16, number: u32, width: u16) {
        let from = usize::from(offset);
        match self.bytes.get_mut(from..from + 9) {
            Some(digits_and_nul) => {
                // The last `width` digits are moved to the front; zeros, hence a NUL, follow them.
                let digits = eight_digits(number) >> ((8 * (8 - u32::from(width))) % 64);
                digits_and_nul[..8].copy_from_slice(&digits.to_le_bytes());
                digits_and_nul[8] = 0;
                self.length = offset + width;
            }
            None => self.set_long_number(from, u64::from(number), usize::from(width)),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn set_long_number(&mut self, offset: usize, number: u64, width: usize) {
        self.truncate(offset);
        self.push_number(number, width);
    }

    /// Returns the name without its NUL.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    /// Returns a pointer to the first byte, for a system call; a NUL always ends the name.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Returns the name with its NUL, for the kernel.
    #[inline]
    pub fn as_bytes_with_nul(&self) -> &[u8] {
        &self.bytes[..=self.length as usize]
    }

    /// Returns the name as text, for messages.
    pub fn display(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl Default for Name {
    fn default() -> Name {
        Name { bytes: [0; Name::CAPACITY], length: 0 }
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_set_with_its_digits_whatever_the_name_was() {
        let mut name = Name::default();
        name.push(b"d/f");
        for number in
            (0..=999_999).chain([9_999_999, 10_000_000, 99_999_999, 100_000_000, u64::MAX])
        {
            let width = (number % 10) as usize;
            name.set_number(3, number, width);
            let expected = format!("d/f{number:0width$}");
            assert_eq!(name.as_bytes(), expected.as_bytes());
            assert_eq!(name.as_bytes_with_nul().last(), Some(&0));
        }
        name.set_number(3, 8, 2);
        assert!(name.increment() && name.as_bytes() == b"d/f09");
        assert!(!name.increment() && name.as_bytes() == b"d/f09");
        for number in (0..100_000_000).step_by(9973) {
            assert_eq!(eight_digits(number).to_le_bytes(), format!("{number:08}").as_bytes());
        }
        name.clear();
        name.push(&[b'x'; 1020]);
        name.set_number(1020, 12345, 5);
        assert_eq!(
            name.as_bytes_with_nul().len(),
            Name::CAPACITY,
            "cut off, with a NUL at its end"
        );
    }

    #[test]
    fn a_name_is_built_in_place_and_ends_in_nul() {
        let mut name = Name::default();
        name.push(b"d/f");
        name.push_number(42, 5);
        assert_eq!(name.as_bytes(), b"d/f00042");
        name.truncate(3);
        name.push_number(0, 1);
        assert_eq!(name.as_bytes_with_nul(), b"d/f0\0");
        name.push(&[b'x'; 2000]);
        assert_eq!(name.as_bytes_with_nul().len(), Name::CAPACITY);
        assert_eq!(name.as_bytes_with_nul().last(), Some(&0));
    }
}
