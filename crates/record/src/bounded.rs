//! Opens and reads untrusted files within stated bounds.
//!
//! All code that reads such a file uses this module. The file must be a regular file, or a pipe of this process, and at
//! most the limit for its kind is read. Thus neither a device nor an endless pipe blocks a command, and no file takes
//! more memory than its kind allows.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::Bytes;

/// The maximum size of a kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the kind, in the plural.
    pub content: &'static str,
    /// Maximum size, uncompressed.
    pub max_size: Bytes,
    /// Maximum length of a line, if lines are read one by one.
    pub max_line: Option<Bytes>,
}

/// Limit for `trials.ndjson`, `series.ndjson`, `why.ndjson`.
pub const RECORDS: Limit =
    Limit { content: "records", max_size: Bytes(4 << 30), max_line: Some(Bytes(32 << 20)) };

/// Limit for `crash.json`, `schedule.json`, findings of `crash`.
pub const RESULTS: Limit =
    Limit { content: "results in JSON", max_size: Bytes(256 << 20), max_line: None };

/// Limit for files written by people: a study, a disk profile, another program's configuration.
pub const WRITTEN: Limit = Limit {
    content: "studies, disk profiles and configurations",
    max_size: Bytes(1 << 20),
    max_line: None,
};

/// Limit for a trial's log of requests.
pub const LOGS: Limit =
    Limit { content: "logs of requests", max_size: Bytes(1 << 30), max_line: None };

/// Limit for parts of a guest: kernels, modules, programs and their data.
pub const PARTS: Limit =
    Limit { content: "kernels, modules and programs", max_size: Bytes(1 << 30), max_line: None };

/// Limit for input of workloads.
pub const INPUTS: Limit = Limit {
    content: "archives and folders for workloads",
    max_size: Bytes(64 << 30),
    max_line: None,
};

/// All limits, for the document that lists them.
pub const ALL: &[&Limit] = &[&RECORDS, &RESULTS, &WRITTEN, &LOGS, &PARTS, &INPUTS];

impl Limit {
    fn too_large(&self) -> io::Error {
        let Limit { content, max_size, .. } = self;
        let text = format!("it is larger than {max_size}, and {content} are {max_size} at most");
        io::Error::new(ErrorKind::FileTooLarge, text)
    }
}

/// Opens a file for reading. A pipe is opened only through a path of this process (`/dev/stdin`, `/dev/fd/63` of a
/// shell's `<(...)`).
///
/// # Errors
/// The system's error; an error if it is a folder, a device, or a named pipe or socket.
pub fn open(path: &Path) -> io::Result<File> {
    let is_own = ["/dev/fd", "/proc/self/fd", "/dev/stdin"].iter().any(|own| path.starts_with(own));
    // Checked before opening, because opening has side effects on some devices and blocks on a pipe, and again
    // afterwards, because the path may refer to another file by then.
    check(&fs::metadata(path)?, is_own)?;
    let flags = if is_own { 0 } else { libc::O_NONBLOCK };
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    check(&file.metadata()?, is_own)?;
    Ok(file)
}

/// Checks that an open file is a regular file.
///
/// # Errors
/// Those of [`open`].
pub fn check_regular(file: &File) -> io::Result<()> {
    check(&file.metadata()?, false)
}

fn check(metadata: &Metadata, is_own: bool) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() || is_own && kind.is_fifo() {
        return Ok(());
    }
    let kinds =
        [(kind.is_dir(), "a folder"), (kind.is_fifo(), "a pipe"), (kind.is_socket(), "a socket")];
    let kind = kinds.iter().find(|(applies, _)| *applies).map_or("a device", |(_, kind)| *kind);
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}; give the path of a file")))
}

/// Reads a whole file.
///
/// # Errors
/// Those of [`open`]; a file that is too large, before any of it is read.
pub fn read(path: &Path, limit: &Limit) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Bounded::new_for_file(open(path)?, limit)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole text file.
///
/// # Errors
/// Those of [`read`]; a file that is not UTF-8.
pub fn read_to_string(path: &Path, limit: &Limit) -> io::Result<String> {
    let text = String::from_utf8(read(path, limit)?);
    text.map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// Replaces `text` with the next line including its newline; returns its length in bytes.
///
/// # Errors
/// The source's error; a line that is too long, before the rest of it is read.
pub fn read_line(
    source: &mut impl BufRead,
    limit: &Limit,
    text: &mut Vec<u8>,
) -> io::Result<usize> {
    text.clear();
    let max = limit.max_line.unwrap_or(limit.max_size);
    let length = source.by_ref().take(max.0 + 1).read_until(b'\n', text)?;
    if length as u64 > max.0 {
        let text =
            format!("the line is longer than {max}, the limit for lines of {}", limit.content);
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(length)
}

/// A reader that fails beyond the limit of its kind.
#[derive(Debug)]
pub struct Bounded<R> {
    source: R,
    limit: Limit,
    remaining: u64,
}

impl<R: Read> Bounded<R> {
    /// Bounds a source from its current position.
    pub fn new(source: R, limit: &Limit) -> Bounded<R> {
        Bounded { source, limit: *limit, remaining: limit.max_size.0 }
    }
}

impl Bounded<File> {
    /// Bounds an open file that is read from its start.
    ///
    /// # Errors
    /// A file that is too large; nothing is read from it.
    pub fn new_for_file(file: File, limit: &Limit) -> io::Result<Bounded<File>> {
        match file.metadata()?.len() > limit.max_size.0 {
            true => Err(limit.too_large()),
            false => Ok(Bounded::new(file, limit)),
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // One byte beyond the limit distinguishes the end of the source from an excess.
        let max = usize::try_from(self.remaining + 1).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.source.read(&mut buffer[..max])?;
        match self.remaining.checked_sub(length as u64) {
            Some(remaining) => self.remaining = remaining,
            None => return Err(self.limit.too_large()),
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::time::{Duration, Instant};

    use super::*;

    const SMALL: Limit = Limit { content: "notes", max_size: Bytes(8), max_line: Some(Bytes(4)) };

    fn read_small(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read(file.path(), &SMALL).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_to_its_limit_and_not_beyond() {
        assert_eq!(read_small(b"12345678").unwrap(), b"12345678");
        assert_eq!(
            read_small(b"123456789").unwrap_err(),
            "it is larger than 8 B, and notes are 8 B at most"
        );
        let mut bounded = Bounded::new(io::repeat(1), &SMALL);
        let mut all = Vec::new();
        let error = bounded.read_to_end(&mut all).unwrap_err();
        assert!(error.kind() == ErrorKind::FileTooLarge && all.len() <= 8);
    }

    #[test]
    fn a_line_is_read_to_its_limit_and_not_beyond() {
        let mut source = BufReader::new(&b"123\n\n1234"[..]);
        let mut text = Vec::new();
        for expected in [&b"123\n"[..], b"\n", b"1234", b""] {
            assert_eq!(read_line(&mut source, &SMALL, &mut text).unwrap(), expected.len());
            assert_eq!(text, expected);
        }
        let mut endless = BufReader::new(io::repeat(1));
        let error = read_line(&mut endless, &SMALL, &mut text).unwrap_err().to_string();
        assert_eq!(error, "the line is longer than 4 B, the limit for lines of notes");
        assert_eq!(text.len(), 5);
    }

    #[test]
    fn a_device_folder_or_named_pipe_is_refused_and_a_pipe_of_this_process_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(status.success());
        let start = Instant::now();
        for (path, kind) in
            [(Path::new("/dev/zero"), "a device"), (folder.path(), "a folder"), (&pipe, "a pipe")]
        {
            let error = open(path).unwrap_err().to_string();
            assert_eq!(error, format!("it is {kind}; give the path of a file"));
        }
        assert!(start.elapsed() < Duration::from_secs(5));
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"1234").unwrap();
        drop(writer);
        let own = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read(Path::new(&own), &SMALL).unwrap(), b"1234");
    }
}
