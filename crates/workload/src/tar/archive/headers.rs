//! Checks the headers of an archive during decompression, so that an invalid archive is refused early.
//!
//! Only headers and sizes are checked. The kinds and names of members are checked by
//! [`super::Archive::read`] when the archive is complete.

use super::blocks::{BLOCK, Extension, MAX_EXTENSION, parse_header};
use super::{ArchiveError, Fault};

/// Maximum number of bytes after an archive's end: archivers pad their last record, which is 10 KiB by default and at
/// most 1 MiB on request.
const MAX_AFTER_END: u64 = 16 << 20;

/// Checks the bytes of an archive as they arrive.
#[derive(Debug)]
pub struct Headers {
    max_bytes: u64,
    /// Number of bytes received.
    position: u64,
    /// The content of the bytes that come next.
    expected: Expected,
    /// Sizes given by extensions: for the next member, and for all members.
    member_size: Option<u64>,
    global_size: Option<u64>,
}

#[derive(Debug)]
enum Expected {
    /// A header, with the part of it that was received.
    Header(Vec<u8>),
    /// The data of an extension of this kind, with a header at this position: the part received, and the number of
    /// remaining bytes.
    Extension { kind: u8, header: u64, data: Vec<u8>, remaining: u64 },
    /// This many bytes to skip.
    Data(u64),
    /// Padding after the end, which was at this position.
    End(u64),
}

impl Headers {
    /// Creates a checker for an archive of at most `max_bytes` bytes.
    pub fn new(max_bytes: u64) -> Headers {
        Headers {
            max_bytes,
            position: 0,
            expected: Expected::Header(Vec::new()),
            member_size: None,
            global_size: None,
        }
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    /// An invalid header, or an archive whose headers or bytes show that it is too large.
    pub fn check_next(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            let expected_length = match &self.expected {
                Expected::Header(received) => BLOCK - received.len() as u64,
                Expected::Extension { remaining, .. } | Expected::Data(remaining) => *remaining,
                Expected::End(_) => bytes.len() as u64,
            };
            let length = usize::try_from(expected_length).unwrap_or(usize::MAX).min(bytes.len());
            let (part, rest) = bytes.split_at(length);
            self.position += length as u64;
            self.check_part(part)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Checks bytes that belong to the current content.
    fn check_part(&mut self, part: &[u8]) -> Result<(), ArchiveError> {
        match &mut self.expected {
            Expected::Header(received) => {
                received.extend_from_slice(part);
                if received.len() as u64 == BLOCK {
                    let block = std::mem::take(received);
                    self.expected = self.expected_after(&block)?;
                }
            }
            Expected::Extension { data, remaining, .. } => {
                data.extend_from_slice(part);
                *remaining -= part.len() as u64;
            }
            Expected::Data(remaining) => *remaining -= part.len() as u64,
            Expected::End(end) if self.position > *end + MAX_AFTER_END => {
                return Err(ArchiveError::new(*end, Fault::After(MAX_AFTER_END)));
            }
            Expected::End(_) => {}
        }
        self.advance()
    }

    /// Returns the content that follows a header.
    fn expected_after(&mut self, block: &[u8]) -> Result<Expected, ArchiveError> {
        let offset = self.position - BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(Expected::End(offset));
        }
        let header = parse_header(block, offset)?;
        let kind = header.kind;
        if matches!(kind, b'L' | b'K' | b'x' | b'X' | b'g') {
            if header.size > MAX_EXTENSION {
                return Err(ArchiveError::new(offset, Fault::LongExtension(header.size)));
            }
            let (data, remaining) = (Vec::new(), header.size);
            return Ok(Expected::Extension { kind, header: offset, data, remaining });
        }
        let size = self.member_size.take().or(self.global_size).unwrap_or(header.size);
        let size = if super::blocks::has_data(kind) { size } else { 0 };
        match size.checked_next_multiple_of(BLOCK) {
            Some(data) if data <= self.max_bytes.saturating_sub(self.position) => {
                Ok(Expected::Data(data))
            }
            _ => Err(ArchiveError::new(offset, Fault::TooLarge { size, max: self.max_bytes })),
        }
    }

    /// Moves to the next content if the current one is complete.
    fn advance(&mut self) -> Result<(), ArchiveError> {
        loop {
            match &self.expected {
                Expected::Extension { kind, header, data, remaining: 0 } => {
                    let mut extension = Extension::default();
                    if !matches!(kind, b'L' | b'K') {
                        let result = extension.parse_pax(data);
                        result.map_err(|fault| ArchiveError::new(*header, fault))?;
                    }
                    let size =
                        if *kind == b'g' { &mut self.global_size } else { &mut self.member_size };
                    *size = extension.size.or(*size);
                    self.expected =
                        Expected::Data(self.position.next_multiple_of(BLOCK) - self.position);
                }
                Expected::Data(0) => {
                    self.expected = Expected::Header(Vec::new());
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

    fn check_all(bytes: &[u8], chunk: usize) -> Result<(), String> {
        let mut headers = Headers::new(MAX_BYTES);
        let mut results = bytes.chunks(chunk).map(|chunk| headers.check_next(chunk));
        results.find_map(Result::err).map_or(Ok(()), |error| Err(error.to_string()))
    }

    #[test]
    fn an_archive_is_accepted_for_any_division_of_its_bytes() {
        let bytes = archive();
        Archive::read(&Input::new(bytes.clone())).unwrap();
        for chunk in [1, 7, 511, 512, 513, 4096, bytes.len()] {
            assert_eq!(check_all(&bytes, chunk), Ok(()), "{chunk} at a time");
        }
    }

    #[test]
    fn an_invalid_header_is_found_at_its_position() {
        let mut bytes = archive();
        bytes[512 + 512 + 3] ^= 1;
        for chunk in [1, 512, bytes.len()] {
            let error = check_all(&bytes, chunk).unwrap_err();
            assert_eq!(error, Archive::read(&Input::new(bytes.clone())).unwrap_err().to_string());
        }
        assert!(check_all(&[b'x'; 512], 512).unwrap_err().starts_with("is not a tar archive"));
    }

    #[test]
    fn a_too_large_member_is_refused_before_its_data() {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        let mut check = |kind, size| {
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_size(size);
            header.set_cksum();
            check_all(header.as_bytes(), 512)
        };
        assert_eq!(check(b'0', 1 << 30), Ok(()));
        let error = check(b'0', MAX_BYTES).unwrap_err();
        assert!(error.contains("the maximum size of an archive is 64 GiB here"), "{error}");
        assert!(check(b'0', u64::MAX >> 1).is_err());
        assert!(check(b'L', 5 << 30).unwrap_err().contains("at most 1 MiB is allowed"));
        // Zeros compress well.
        let mut headers = Headers::new(MAX_BYTES);
        let zeros = vec![0; 1 << 20];
        let error =
            (0..).find_map(|chunk| headers.check_next(&zeros).err().map(|error| (chunk, error)));
        let (chunk, error) = error.unwrap();
        assert_eq!(
            (chunk, error.to_string()),
            (16, "at byte 0: the archive ends here, but more than 16 MiB follow".into())
        );
    }
}
