//! The header of a trace.

use crate::error::Problem;
use crate::wire::{Sink, Source, Wire};

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"fsdyno-t";

/// The maximum length of a string in a header, in bytes.
pub(crate) const TEXT_LIMIT: usize = 255;

/// Facts about the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The mechanism: `ptrace`, `strace text`, `fio log v3`, ...
    pub recorded_by: String,
    /// The release of the kernel, such as `6.1.0-56-amd64`, or empty if unknown.
    pub kernel: String,
    /// The number of processors of the recorded host; 0 if unknown.
    pub processors: u32,
    /// True if the components of names are replaced by hashes.
    pub anonymized: bool,
    /// True if each event has the CPU time of its thread ([`Event::think`](crate::Event::think)).
    pub has_think: bool,
    /// True if each event has a start time and a duration.
    pub has_times: bool,
}

impl Wire for Header {
    fn put(&self, out: &mut Sink) {
        put_text(&self.recorded_by, out);
        put_text(&self.kernel, out);
        self.processors.put(out);
        self.anonymized.put(out);
        self.has_think.put(out);
        self.has_times.put(out);
    }

    fn get(from: &mut Source<'_>) -> Result<Header, Problem> {
        Ok(Header {
            recorded_by: text(from)?,
            kernel: text(from)?,
            processors: Wire::get(from)?,
            anonymized: Wire::get(from)?,
            has_think: Wire::get(from)?,
            has_times: Wire::get(from)?,
        })
    }
}

/// Appends a string of at most [`TEXT_LIMIT`] bytes; a longer string is truncated.
pub(crate) fn put_text(text: &str, out: &mut Sink) {
    let mut end = text.len().min(TEXT_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.put_text(&text.as_bytes()[..end]);
}

/// Reads a string of printable characters.
pub(crate) fn text(from: &mut Source<'_>) -> Result<String, Problem> {
    let text = std::str::from_utf8(from.text(TEXT_LIMIT)?);
    let text = text.map_err(|_| Problem::Name("it is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(Problem::Name("it has control characters"));
    }
    Ok(text.to_string())
}
