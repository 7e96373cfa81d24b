//! The messages of a mail workload: their lengths, lines and bytes.

use fsdyno_record::quote;
use fsdyno_record::seed::{SplitMix64, mix};

use crate::input::Input;
use crate::op::Payload;
use crate::tar::archive::{Archive, MemberKind};

/// Binary logarithm of the median length of a synthetic message, in units of 2^-16: 3.5 KiB [OWN], three quarters of
/// the distance from 2^11 to 2^12, because `mixed_length` interpolates linearly between powers of two.
const MEDIAN: i64 = (11 << 16) + (3 << 14);
/// Scale, in thousandths, for a standard deviation of 1.4 octaves [OWN]; the sum of four uniform draws has a standard
/// deviation of 0.577.
const SCALE_THOUSANDTHS: i64 = 2425;
/// One message in this many has an attachment, which makes it longer by four octaves [OWN].
const ATTACHMENT_INTERVAL: u64 = 64;
/// One line in this many is empty: only a newline [OWN].
const EMPTY_LINE_INTERVAL: u64 = 8;
/// Minimum and maximum length of the other lines, in bytes with the newline; the average over all lines is 50 [OWN].
const LINE_LENGTHS: (u64, u64) = (20, 95);
/// Number of lines in the cycle from which synthetic mail is cut: a message begins at any line of it, and the number of
/// lines of a message is computed without iterating over them [OWN].
const CYCLE_LINES: u64 = 4096;
/// Maximum length of a line of real mail in bytes; a longer line is written in pieces, as through a buffer.
const MAX_LINE_LENGTH: usize = 64 << 10;

/// Messages, numbered from zero. Synthetic mail is the same for every seed, as the mail of the script of 2004 was,
/// and unlimited; real mail repeats from its beginning.
#[derive(Clone, Debug)]
pub struct Messages(Source);

#[derive(Clone, Debug)]
enum Source {
    /// All of the same length, or of lengths from the mix.
    Synthetic { length: Option<u64>, lines: Lines },
    /// The regular files of an archive.
    Real { input: Input, members: Vec<Member> },
}

/// A message in an archive; 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Member {
    offset: u64,
    length: u32,
    lines: u32,
}

impl Messages {
    /// Creates messages of `length` bytes, or of lengths from the mix.
    pub fn synthetic(length: Option<u64>) -> Messages {
        Messages(Source::Synthetic { length, lines: Lines::new() })
    }

    /// Reads messages from the regular files of a tar archive, in its order.
    ///
    /// # Errors
    /// The input is not an archive, contains no message, or contains a message of 4 GiB or more. The error text is one
    /// line.
    pub fn real(input: &Input) -> Result<Messages, String> {
        let archive = Archive::read(input).map_err(|error| error.to_string())?;
        let mut members = Vec::new();
        for member in archive.members() {
            let MemberKind::File { data, size } = member.kind else { continue };
            let length = u32::try_from(size).map_err(|_| {
                let name = String::from_utf8_lossy(&member.path);
                format!(
                    "message '{}' has {size} bytes; it must be smaller than 4 GiB",
                    quote::short(&name)
                )
            })?;
            let lines = count_real_lines(input.bytes(), data, size);
            members.push(Member { offset: data, length, lines });
        }
        if members.is_empty() {
            return Err("it contains no regular file; give a directory of messages".to_string());
        }
        Ok(Messages(Source::Real { input: input.clone(), members }))
    }

    /// Returns the length of a message in bytes.
    pub fn length(&self, message: u64) -> u64 {
        match &self.0 {
            Source::Synthetic { length, .. } => length.unwrap_or_else(|| mixed_length(message)),
            Source::Real { members, .. } => u64::from(member(members, message).length),
        }
    }

    /// Returns the length of line `number` of a message in bytes, with its newline; the line begins at `offset`,
    /// `remaining` bytes before the message's end.
    ///
    /// The lines of synthetic mail are only computed lengths: its bytes are generated without newlines at their ends.
    pub fn line_length(&self, message: u64, number: u64, offset: u64, remaining: u64) -> u32 {
        match &self.0 {
            Source::Real { input, members } => {
                let from = member(members, message).offset + offset;
                real_line_length(input.bytes(), from, remaining)
            }
            Source::Synthetic { lines, .. } => lines.length(message, number).min(remaining) as u32,
        }
    }

    /// Returns the number of lines of a message.
    pub fn line_count(&self, message: u64) -> u64 {
        match &self.0 {
            Source::Synthetic { lines, .. } => lines.count_lines(message, self.length(message)),
            Source::Real { members, .. } => u64::from(member(members, message).lines),
        }
    }

    /// Returns `length` bytes, from `offset` on, of a file that consists of `prefix_length` bytes and the message.
    ///
    /// The bytes of the prefix are arbitrary: generated for synthetic mail; for real mail, the end of the archive's
    /// header before the message.
    pub fn payload(&self, message: u64, prefix_length: u32, offset: u64, length: u32) -> Payload {
        match &self.0 {
            Source::Real { members, .. } => Payload {
                id: Payload::INPUT,
                offset: (member(members, message).offset + offset)
                    .saturating_sub(u64::from(prefix_length)),
                length,
            },
            _ => Payload { id: message, offset, length },
        }
    }
}

fn member(members: &[Member], message: u64) -> Member {
    members[(message % members.len() as u64) as usize]
}

/// Computes the length of a message in the mix: log-normal, approximated in integers. The logarithm is the sum of four
/// uniform draws (Irwin and Hall), which is bounded at 3.5 standard deviations; an occasional attachment is added.
fn mixed_length(message: u64) -> u64 {
    let mut draws = SplitMix64::new(mix(message ^ 0x6d61_696c));
    let draw = draws.draw();
    let sum: i64 = (0..4).map(|word| ((draw >> (16 * word)) & 0xffff) as i64).sum();
    let logarithm = (MEDIAN + (sum - (2 << 16)) * SCALE_THOUSANDTHS / 1000) as u64;
    let whole = 1 << (logarithm >> 16);
    let length = whole + ((whole * (logarithm & 0xffff)) >> 16);
    if draws.below(ATTACHMENT_INTERVAL) == 0 { length << 4 } else { length }
}

/// The lines of synthetic mail, as the start of each line and the end of the last; takes 16 KiB.
#[derive(Clone, Debug)]
struct Lines(Vec<u32>);

impl Lines {
    fn new() -> Lines {
        let ends = (0..CYCLE_LINES).scan(0, |end, number| {
            *end += synthetic_line_length(number);
            Some(*end)
        });
        Lines(std::iter::once(0).chain(ends).collect())
    }

    /// Returns the index in the cycle of a message's first line.
    fn first_line(message: u64) -> u64 {
        mix(message) % CYCLE_LINES
    }

    fn length(&self, message: u64, number: u64) -> u64 {
        let line = ((Lines::first_line(message) + number) % CYCLE_LINES) as usize;
        u64::from(self.0[line + 1] - self.0[line])
    }

    /// Returns the number of lines that begin in a message of `length` bytes.
    fn count_lines(&self, message: u64, length: u64) -> u64 {
        if length == 0 {
            return 0;
        }
        let first = Lines::first_line(message);
        let cycle_length = u64::from(self.0[CYCLE_LINES as usize]);
        // The message's end, counted from the start of the first line of the cycle.
        let end = u64::from(self.0[first as usize]) + length;
        let (cycles, remaining) = ((end - 1) / cycle_length, (end - 1) % cycle_length + 1);
        let line_number = self.0.partition_point(|start| u64::from(*start) < remaining) as u64;
        cycles * CYCLE_LINES + line_number - first
    }
}

fn synthetic_line_length(number: u64) -> u32 {
    let draw = mix(number ^ 0x6c69_6e65);
    if draw % EMPTY_LINE_INTERVAL == 0 {
        return 1;
    }
    (LINE_LENGTHS.0 + (((draw >> 32) * (LINE_LENGTHS.1 - LINE_LENGTHS.0 + 1)) >> 32)) as u32
}

fn count_real_lines(bytes: &[u8], from: u64, length: u64) -> u32 {
    let (mut offset, mut lines) = (0, 0);
    while offset < length {
        offset += u64::from(real_line_length(bytes, from + offset, length - offset));
        lines += 1;
    }
    lines
}

fn real_line_length(bytes: &[u8], from: u64, remaining: u64) -> u32 {
    let from = from as usize;
    let max = (remaining as usize).min(MAX_LINE_LENGTH);
    let line = bytes.get(from..from + max).unwrap_or_default();
    line.iter().position(|byte| *byte == b'\n').map_or(max, |end| end + 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_mix_has_the_stated_distribution() {
        let mail = Messages::synthetic(None);
        let mut lengths: Vec<u64> = (0..77_133).map(|message| mail.length(message)).collect();
        lengths.sort_unstable();
        let count = lengths.len() as f64;
        // Computed by hand: one in 64 is longer by four octaves. That raises the median from 3,584 bytes by
        // about 40 bytes: it becomes a slightly higher quantile of the other messages.
        let median = lengths[lengths.len() / 2];
        assert!((3_550..3_710).contains(&median), "median {median}");
        // A log-normal mean is the median times exp(0.97^2 / 2) = 1.60; attachments multiply it by 1.23, to 7,080; the
        // bounded tail and the linear fraction reduce it slightly.
        let mean = lengths.iter().sum::<u64>() as f64 / count;
        assert!((6_600.0..7_200.0).contains(&mean), "mean {mean}");
        // Above 64 KiB: 0.016 % without an attachment (the volume 0.2474^4/24 of a corner of the unit hypercube of
        // four uniform draws),
        // 42.9 % of those with one; four standard deviations are 0.0012.
        let long = lengths.iter().filter(|length| **length > 64 << 10).count() as f64 / count;
        assert!((long - 0.0069).abs() < 0.0013, "{long} are long");
        assert!(lengths[0] >= 100 && lengths[lengths.len() - 1] < 2 << 20, "{:?}", lengths[0]);
    }

    #[test]
    fn lines_are_fifty_bytes_long_on_average_and_add_up_to_the_message() {
        let mail = Messages::synthetic(None);
        let (mut bytes, mut lines) = (0, 0);
        for message in 0..2_000 {
            let (mut offset, mut number) = (0, 0);
            let length = mail.length(message);
            while offset < length {
                let line = mail.line_length(message, number, offset, length - offset);
                assert!((1..=95).contains(&line), "{line}");
                (offset, number) = (offset + u64::from(line), number + 1);
            }
            assert_eq!(offset, length);
            assert_eq!(number, mail.line_count(message));
            (bytes, lines) = (bytes + offset, lines + number);
        }
        // Messages that span the cycle of lines many times, up to the byte at which a cycle ends and beyond.
        for length in [0, 1, 95, 206_000, 1_000_000, 16 << 20] {
            let mail = Messages::synthetic(Some(length));
            for message in 0..5 {
                let (mut offset, mut number) = (0, 0);
                while offset < length {
                    offset += u64::from(mail.line_length(message, number, offset, length - offset));
                    number += 1;
                }
                assert_eq!((offset, number), (length, mail.line_count(message)));
            }
        }
        // 1/8 of 1 byte and 7/8 of 57.5 on average are 50.4; last lines are shorter.
        let mean = bytes as f64 / lines as f64;
        assert!((49.0..51.0).contains(&mean), "{mean}");
    }
}
