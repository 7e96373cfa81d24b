//! The headers of an archive that is still being unpacked: what is none is found before all of it is there.
//!
//! This looks at headers and sizes only. What members may be and be called is [`super::Archive::read`]'s to say, when the
//! archive is whole.

use super::blocks::{BLOCK, Extension, LONGEST_EXTENSION, raw};
use super::{ArchiveError, Fault};

/// How much may follow an archive's end: archivers fill up their last record, which is 10 KiB as a rule and 1 MiB at
/// most where one is asked for a longer one.
const MOST_AFTER: u64 = 16 << 20;

/// Looks at the bytes of an archive as they come.
#[derive(Debug)]
pub struct Headers {
    most: u64,
    /// How many bytes came.
    at: u64,
    /// What the bytes are that come next.
    next: Next,
    /// What stands before the next member's header, and before all of them.
    own: Option<u64>,
    global: Option<u64>,
}

#[derive(Debug)]
enum Next {
    /// A header, of which this is there.
    Header(Vec<u8>),
    /// The data of an extension of this kind, from a header at this place: what is there, and what is still to come.
    Extension { kind: u8, header: u64, data: Vec<u8>, left: u64 },
    /// So much that is of no interest here.
    Data(u64),
    /// What follows the end, which was at this place.
    End(u64),
}

impl Headers {
    /// Looks at an archive of `most` bytes at most.
    pub fn new(most: u64) -> Headers {
        Headers { most, at: 0, next: Next::Header(Vec::new()), own: None, global: None }
    }

    /// Takes the bytes that come next.
    ///
    /// # Errors
    /// A header that is none; an archive that says, or shows, that it is too large.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            let wanted = match &self.next {
                Next::Header(there) => BLOCK - there.len() as u64,
                Next::Extension { left, .. } | Next::Data(left) => *left,
                Next::End(_) => bytes.len() as u64,
            };
            let length = usize::try_from(wanted).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(length);
            self.at += length as u64;
            self.some(now)?;
            bytes = later;
        }
        Ok(())
    }

    /// No more than what is still wanted of what comes next.
    fn some(&mut self, now: &[u8]) -> Result<(), ArchiveError> {
        match &mut self.next {
            Next::Header(there) => {
                there.extend_from_slice(now);
                if there.len() as u64 == BLOCK {
                    let block = std::mem::take(there);
                    self.next = self.behind(&block)?;
                }
            }
            Next::Extension { data, left, .. } => {
                data.extend_from_slice(now);
                *left -= now.len() as u64;
            }
            Next::Data(left) => *left -= now.len() as u64,
            Next::End(end) if self.at > *end + MOST_AFTER => {
                return Err(ArchiveError::at(*end, Fault::After(MOST_AFTER)));
            }
            Next::End(_) => {}
        }
        self.settle()
    }

    /// What comes behind a header.
    fn behind(&mut self, block: &[u8]) -> Result<Next, ArchiveError> {
        let offset = self.at - BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(Next::End(offset));
        }
        let header = raw(block, offset)?;
        let kind = header.kind;
        if matches!(kind, b'L' | b'K' | b'x' | b'X' | b'g') {
            if header.size > LONGEST_EXTENSION {
                return Err(ArchiveError::at(offset, Fault::LongExtension(header.size)));
            }
            let (data, left) = (Vec::new(), header.size);
            return Ok(Next::Extension { kind, header: offset, data, left });
        }
        let size = self.own.take().or(self.global).unwrap_or(header.size);
        let size = if super::blocks::has_data(kind) { size } else { 0 };
        match size.checked_next_multiple_of(BLOCK) {
            Some(data) if data <= self.most.saturating_sub(self.at) => Ok(Next::Data(data)),
            _ => Err(ArchiveError::at(offset, Fault::TooLarge { size, most: self.most })),
        }
    }

    /// Goes on from what has come to its end.
    fn settle(&mut self) -> Result<(), ArchiveError> {
        loop {
            match &self.next {
                Next::Extension { kind, header, data, left: 0 } => {
                    let mut said = Extension::default();
                    if !matches!(kind, b'L' | b'K') {
                        let read = said.read(data);
                        read.map_err(|fault| ArchiveError::at(*header, fault))?;
                    }
                    let of = if *kind == b'g' { &mut self.global } else { &mut self.own };
                    *of = said.size.or(*of);
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

    const MOST: u64 = 64 << 30;

    /// Members with long names and links, numbers beyond octal, and what pax says of them.
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
        // A header that says nothing of a size that pax says before it.
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

    fn taken(bytes: &[u8], chunk: usize) -> Result<(), String> {
        let mut headers = Headers::new(MOST);
        let mut all = bytes.chunks(chunk).map(|chunk| headers.take(chunk));
        all.find_map(Result::err).map_or(Ok(()), |error| Err(error.to_string()))
    }

    #[test]
    fn an_archive_is_right_however_its_bytes_come() {
        let bytes = archive();
        Archive::read(&Input::new(bytes.clone())).unwrap();
        for chunk in [1, 7, 511, 512, 513, 4096, bytes.len()] {
            assert_eq!(taken(&bytes, chunk), Ok(()), "{chunk} at a time");
        }
    }

    #[test]
    fn a_header_that_is_none_is_found_where_it_stands() {
        let mut bytes = archive();
        bytes[512 + 512 + 3] ^= 1;
        for chunk in [1, 512, bytes.len()] {
            let error = taken(&bytes, chunk).unwrap_err();
            assert_eq!(error, Archive::read(&Input::new(bytes.clone())).unwrap_err().to_string());
        }
        assert!(taken(&[b'x'; 512], 512).unwrap_err().starts_with("is no tar archive"));
    }

    #[test]
    fn what_is_too_large_is_found_before_it_comes() {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        let mut of = |kind, size| {
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_size(size);
            header.set_cksum();
            taken(header.as_bytes(), 512)
        };
        assert_eq!(of(b'0', 1 << 30), Ok(()));
        let error = of(b'0', MOST).unwrap_err();
        assert!(error.contains("an archive has 64 GiB at most here"), "{error}");
        assert!(of(b'0', u64::MAX >> 1).is_err());
        assert!(of(b'L', 5 << 30).unwrap_err().contains("more than 1 MiB is none"));
        // Zeros compress well.
        let mut headers = Headers::new(MOST);
        let zeros = vec![0; 1 << 20];
        let error = (0..).find_map(|at| headers.take(&zeros).err().map(|error| (at, error)));
        let (at, error) = error.unwrap();
        assert_eq!(
            (at, error.to_string()),
            (16, "at byte 0: the archive ends here, and more than 16 MiB follow".into())
        );
    }
}
