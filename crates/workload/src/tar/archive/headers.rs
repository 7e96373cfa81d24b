//! Checks the headers of an archive during decompression, so that an invalid archive is refused early.
//!
//! Only headers and sizes are checked. The kinds and names of members are checked by
//! [`super::Archive::read`] when the archive is complete.

use super::blocks::{BLOCK, Extension, MAX_EXTENSION, raw};
use super::{ArchiveError, Fault};

/// Maximum number of bytes after an archive's end: archivers pad their last record, which is 10 KiB by default and at
/// most 1 MiB on request.
const MAX_AFTER_END: u64 = 16 << 20;

/// Checks the bytes of an archive as they arrive.
#[derive(Debug)]
pub struct Headers {
    max_bytes: u64,
    /// Number of bytes received.
    at: u64,
    /// The content of the bytes that come next.
    next: Next,
    /// Sizes given by extensions: for the next member, and for all members.
    own: Option<u64>,
    global: Option<u64>,
}

#[derive(Debug)]
enum Next {
    /// A header, with the part of it that was received.
    Header(Vec<u8>),
    /// The data of an extension of this kind, with a header at this position: the part received, and the number of
    /// bytes left.
    Extension { kind: u8, header: u64, data: Vec<u8>, left: u64 },
    /// This many bytes to skip.
    Data(u64),
    /// Padding after the end, which was at this position.
    End(u64),
}

impl Headers {
    /// Creates a checker for an archive of at most `max_bytes` bytes.
    pub fn new(max_bytes: u64) -> Headers {
        Headers { max_bytes, at: 0, next: Next::Header(Vec::new()), own: None, global: None }
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    /// An invalid header, or an archive whose headers or bytes show that it is too large.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            let missing = match &self.next {
                Next::Header(received) => BLOCK - received.len() as u64,
                Next::Extension { left, .. } | Next::Data(left) => *left,
                Next::End(_) => bytes.len() as u64,
            };
            let length = usize::try_from(missing).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(length);
            self.at += length as u64;
            self.take_part(now)?;
            bytes = later;
        }
        Ok(())
    }

    /// Checks bytes that belong to the current content.
    fn take_part(&mut self, now: &[u8]) -> Result<(), ArchiveError> {
        match &mut self.next {
            Next::Header(received) => {
                received.extend_from_slice(now);
                if received.len() as u64 == BLOCK {
                    let block = std::mem::take(received);
                    self.next = self.after_header(&block)?;
                }
            }
            Next::Extension { data, left, .. } => {
                data.extend_from_slice(now);
                *left -= now.len() as u64;
            }
            Next::Data(left) => *left -= now.len() as u64,
            Next::End(end) if self.at > *end + MAX_AFTER_END => {
                return Err(ArchiveError::at(*end, Fault::After(MAX_AFTER_END)));
            }
            Next::End(_) => {}
        }
        self.advance()
    }

    /// Returns the content that follows a header.
    fn after_header(&mut self, block: &[u8]) -> Result<Next, ArchiveError> {
        let offset = self.at - BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(Next::End(offset));
        }
        let header = raw(block, offset)?;
        let kind = header.kind;
        if matches!(kind, b'L' | b'K' | b'x' | b'X' | b'g') {
            if header.size > MAX_EXTENSION {
                return Err(ArchiveError::at(offset, Fault::LongExtension(header.size)));
            }
            let (data, left) = (Vec::new(), header.size);
            return Ok(Next::Extension { kind, header: offset, data, left });
        }
        let size = self.own.take().or(self.global).unwrap_or(header.size);
        let size = if super::blocks::has_data(kind) { size } else { 0 };
        match size.checked_next_multiple_of(BLOCK) {
            Some(data) if data <= self.max_bytes.saturating_sub(self.at) => Ok(Next::Data(data)),
            _ => Err(ArchiveError::at(offset, Fault::TooLarge { size, most: self.max_bytes })),
        }
    }

    /// Moves to the next content if the current one is complete.
    fn advance(&mut self) -> Result<(), ArchiveError> {
        loop {
            match &self.next {
                Next::Extension { kind, header, data, left: 0 } => {
                    let mut extension = Extension::default();
                    if !matches!(kind, b'L' | b'K') {
                        let read = extension.read(data);
                        read.map_err(|fault| ArchiveError::at(*header, fault))?;
                    }
                    let size = if *kind == b'g' { &mut self.global } else { &mut self.own };
                    *size = extension.size.or(*size);
                    self.next = Next::Data(self.at.next_multiple_of(BLOCK) - self.at);
                }
                Next::Data(0) => {
                    self.next = Next::Header(Vec::new());
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::tar::archive::Archive;

    const MAX_BYTES: u64 = 64 << 30;

    /// Members with long names and links, numbers beyond octal, and pax extensions.
    fn archive() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let long = "d/".repeat(120) + "file";
        for (path, contents) in [("a", &b"hello"[..]), (&long, &[7; 512]), ("empty", b"")] {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(contents.len() as u64);
            builder.append_data(&mut header, path, contents).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "link", &long).unwrap();
        // A header without a size, which only the pax extension before it contains.
        builder.append_pax_extensions([("size", &b"700"[..])]).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_path("pax").unwrap();
        header.set_size(0);
        header.set_cksum();
        let mut bytes = builder.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        bytes.extend(header.as_bytes());
        bytes.extend([1; 1024]);
        bytes.extend([0; 1024]);
        bytes
    }

    fn take_all(bytes: &[u8], chunk: usize) -> Result<(), String> {
        let mut headers = Headers::new(MAX_BYTES);
        let mut all = bytes.chunks(chunk).map(|chunk| headers.take(chunk));
        all.find_map(Result::err).map_or(Ok(()), |error| Err(error.to_string()))
    }

    #[test]
    fn an_archive_is_accepted_for_any_division_of_its_bytes() {
        let bytes = archive();
        Archive::read(&Input::new(bytes.clone())).unwrap();
        for chunk in [1, 7, 511, 512, 513, 4096, bytes.len()] {
            assert_eq!(take_all(&bytes, chunk), Ok(()), "{chunk} at a time");
        }
    }

    #[test]
    fn an_invalid_header_is_found_at_its_position() {
        let mut bytes = archive();
        bytes[512 + 512 + 3] ^= 1;
        for chunk in [1, 512, bytes.len()] {
            let error = take_all(&bytes, chunk).unwrap_err();
            assert_eq!(error, Archive::read(&Input::new(bytes.clone())).unwrap_err().to_string());
        }
        assert!(take_all(&[b'x'; 512], 512).unwrap_err().starts_with("is not a tar archive"));
    }

    #[test]
    fn a_too_large_member_is_refused_before_its_data() {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        let mut of = |kind, size| {
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_size(size);
            header.set_cksum();
            take_all(header.as_bytes(), 512)
        };
        assert_eq!(of(b'0', 1 << 30), Ok(()));
        let error = of(b'0', MAX_BYTES).unwrap_err();
        assert!(error.contains("the maximum archive size here is 64 GiB"), "{error}");
        assert!(of(b'0', u64::MAX >> 1).is_err());
        assert!(of(b'L', 5 << 30).unwrap_err().contains("at most 1 MiB is allowed"));
        // Zeros compress well.
        let mut headers = Headers::new(MAX_BYTES);
        let zeros = vec![0; 1 << 20];
        let error = (0..).find_map(|at| headers.take(&zeros).err().map(|error| (at, error)));
        let (at, error) = error.unwrap();
        assert_eq!(
            (at, error.to_string()),
            (16, "at byte 0: the archive ends here, but more than 16 MiB follow".into())
        );
    }
}
