//! The blocks of a tar archive: headers with their checksums, and the records before a header that
//! extend it.
//!
//! Supported formats are those of GNU tar and POSIX: v7, ustar, GNU (long names and links, numbers
//! in base 256) and pax (path, linkpath, size, mtime).

use std::borrow::Cow;

use super::{ArchiveError, Fault};

/// Size of an archive block in bytes.
pub const BLOCK: u64 = 512;

/// Maximum size in bytes of an extension that is read: names have up to 4 KiB today, and extended attributes 64 KiB.
pub(super) const MAX_EXTENSION: u64 = 1 << 20;

/// A header, with its extensions applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its position, in bytes from the start of the archive.
    pub offset: u64,
    /// The name of the member as written in the archive.
    pub name: Cow<'a, [u8]>,
    /// The type flag.
    pub kind: u8,
    /// The target of a link.
    pub target: &'a [u8],
    /// Permission bits.
    pub mode: u32,
    /// Modification time in whole seconds since 1970.
    pub mtime: i64,
    /// Size of the data in bytes.
    pub size: u64,
    /// Position of the data.
    pub data: u64,
}

/// Walks an archive from header to header.
#[derive(Debug)]
pub struct Blocks<'a> {
    bytes: &'a [u8],
    position: u64,
    /// The global pax header, which applies to all members.
    global: Extension<'a>,
}

/// Extensions of a header. They refer to the archive's bytes, because a global extension can have 1 MiB and applies to
/// every member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extension<'a> {
    name: Option<&'a [u8]>,
    target: Option<&'a [u8]>,
    pub(super) size: Option<u64>,
    mtime: Option<i64>,
}

impl<'a> Blocks<'a> {
    /// Creates a walk over the blocks of an archive that begins at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Blocks<'a> {
        Blocks { bytes, position: 0, global: Extension::default() }
    }

    /// Reads the next member's header; returns `None` at the end, which is a block of zeros or the end of the file.
    ///
    /// # Errors
    /// The mistake in the archive, and its position.
    pub fn next_header(&mut self) -> Result<Option<Header<'a>>, ArchiveError> {
        let mut extensions = Extension::default();
        let mut has_extension = false;
        loop {
            let offset = self.position;
            let Some(block) = self.next_block()? else {
                if has_extension {
                    return Err(ArchiveError::new(offset, Fault::NoMember));
                }
                return Ok(None);
            };
            let mut header = parse_header(block, offset)?;
            header.data = offset + BLOCK;
            let result = match header.kind {
                b'L' => {
                    extensions.name = Some(until_nul(self.read_extension(&header)?));
                    Ok(())
                }
                b'K' => {
                    extensions.target = Some(until_nul(self.read_extension(&header)?));
                    Ok(())
                }
                b'x' | b'X' => extensions.parse_pax(self.read_extension(&header)?),
                b'g' => self.read_extension(&header).map(|text| self.global.parse_pax(text))?,
                _ => return self.finish_header(header, extensions).map(Some),
            };
            result.map_err(|fault| ArchiveError::new(offset, fault))?;
            has_extension = true;
        }
    }

    /// Reads the next block; returns `None` at the end.
    fn next_block(&mut self) -> Result<Option<&'a [u8]>, ArchiveError> {
        let remaining = self.bytes.get(self.position as usize..).unwrap_or_default();
        if remaining.is_empty() && self.position > 0 {
            return Ok(None);
        }
        let Some(block) = remaining.get(..BLOCK as usize) else {
            let fault = if self.position == 0 { Fault::NotTar } else { Fault::ShortHeader };
            return Err(ArchiveError::new(self.position, fault));
        };
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        self.position += BLOCK;
        Ok(Some(block))
    }

    /// Returns the data of an extension and advances past it.
    fn read_extension(&mut self, header: &Header<'_>) -> Result<&'a [u8], ArchiveError> {
        if header.size > MAX_EXTENSION {
            return Err(ArchiveError::new(header.offset, Fault::LongExtension(header.size)));
        }
        let data = self.data(header)?;
        self.position += header.size.next_multiple_of(BLOCK);
        Ok(data)
    }

    fn data(&self, header: &Header<'_>) -> Result<&'a [u8], ArchiveError> {
        let end = header.data.checked_add(header.size).filter(|end| *end <= i64::MAX as u64);
        end.and_then(|end| self.bytes.get(header.data as usize..end as usize)).ok_or_else(|| {
            let found = (self.bytes.len() as u64).saturating_sub(header.data);
            ArchiveError::new(header.offset, Fault::Truncated { size: header.size, found })
        })
    }

    /// Applies the extensions to a member's header and advances past its data; extensions directly before the header
    /// override the global ones.
    fn finish_header(
        &mut self,
        mut header: Header<'a>,
        extensions: Extension<'a>,
    ) -> Result<Header<'a>, ArchiveError> {
        let global = self.global;
        header.name = extensions.name.or(global.name).map_or(header.name, Cow::Borrowed);
        header.target = extensions.target.or(global.target).unwrap_or(header.target);
        header.size = extensions.size.or(global.size).unwrap_or(header.size);
        header.mtime = extensions.mtime.or(global.mtime).unwrap_or(header.mtime);
        if !has_data(header.kind) {
            header.size = 0;
        }
        self.data(&header).map_err(|error| error.with_member(&header.name))?;
        self.position = header.data + header.size.next_multiple_of(BLOCK);
        Ok(header)
    }
}

impl<'a> Extension<'a> {
    /// Reads pax records: `LENGTH KEY=VALUE\n`; the length counts the whole record.
    pub(super) fn parse_pax(&mut self, mut text: &'a [u8]) -> Result<(), Fault> {
        while !text.is_empty() {
            let (key, value, remaining) = parse_pax_record(text).ok_or(Fault::Record)?;
            text = remaining;
            let text = || std::str::from_utf8(value).ok();
            match key {
                b"path" => self.name = Some(value),
                b"linkpath" => self.target = Some(value),
                b"size" => {
                    let size = text().and_then(|text| text.parse().ok());
                    self.size = Some(size.ok_or(Fault::Number("size"))?);
                }
                b"mtime" => {
                    let seconds = text().and_then(whole_seconds);
                    self.mtime = Some(seconds.ok_or(Fault::Number("mtime"))?);
                }
                _ if key.starts_with(b"GNU.sparse.") => return Err(Fault::Sparse),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the key and value of the first record, and the text after it.
fn parse_pax_record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    let record = text.get(space + 1..length)?;
    let record = record.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((&record[..equals], &record[equals + 1..], &text[length..]))
}

/// Parses the seconds of `1234567890.123`, rounded down as file systems do.
fn whole_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let is_below = whole.starts_with('-') && fraction.bytes().any(|digit| digit != b'0');
    seconds.checked_sub(i64::from(is_below))
}

/// Returns true if data follows the header of a member of this kind. The size of a link, if its archiver sets one, is
/// that of its target.
pub(super) fn has_data(kind: u8) -> bool {
    !matches!(kind, b'1' | b'2' | b'3' | b'4' | b'5' | b'6')
}

/// Parses a header's block, without its extensions.
pub(super) fn parse_header(block: &[u8], offset: u64) -> Result<Header<'_>, ArchiveError> {
    let error = |fault| ArchiveError::new(offset, fault);
    let field = |from: usize, length: usize| &block[from..from + length];
    if !is_checksum_correct(block) {
        return Err(error(if offset == 0 { Fault::NotTar } else { Fault::Checksum }));
    }
    let size = parse_number(field(124, 12)).and_then(|size| u64::try_from(size).ok());
    let mut name = Cow::Borrowed(until_nul(field(0, 100)));
    // GNU tar's header has other fields at the offset where POSIX has the prefix of a long name.
    if field(257, 6) == b"ustar\0" && block[345] != 0 {
        name = [until_nul(field(345, 155)), &name].join(&b'/').into();
    }
    let header = Header {
        offset,
        kind: block[156],
        target: until_nul(field(157, 100)),
        mode: parse_number(field(100, 8)).ok_or_else(|| error(Fault::Number("mode")))? as u32
            & 0o7777,
        mtime: parse_number(field(136, 12)).ok_or_else(|| error(Fault::Number("mtime")))?,
        size: size.ok_or_else(|| error(Fault::Number("size")))?,
        data: 0,
        name,
    };
    Ok(header)
}

/// Checks the sum of all bytes, with spaces in place of the checksum itself; some old archivers added the bytes as
/// signed numbers.
fn is_checksum_correct(block: &[u8]) -> bool {
    let checksum_field = 148..156;
    let bytes = || {
        block
            .iter()
            .enumerate()
            .map(|(index, byte)| if checksum_field.contains(&index) { b' ' } else { *byte })
    };
    let unsigned: i64 = bytes().map(i64::from).sum();
    let signed: i64 = bytes().map(|byte| i64::from(byte as i8)).sum();
    parse_number(&block[checksum_field.clone()]).is_some_and(|sum| sum == unsigned || sum == signed)
}

/// Returns a field up to its NUL.
fn until_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|byte| *byte == 0).unwrap_or(field.len())]
}

/// Parses a number in octal digits between spaces and NULs (an empty field is zero), or in base 256 if the first bit is
/// set; the second bit is the sign.
fn parse_number(field: &[u8]) -> Option<i64> {
    let first = *field.first()?;
    if first & 0x80 != 0 {
        let start: i64 =
            if first & 0x40 == 0 { i64::from(first & 0x3f) } else { i64::from(first as i8) };
        return field[1..]
            .iter()
            .try_fold(start, |sum, byte| sum.checked_mul(256)?.checked_add(i64::from(*byte)));
    }
    let digits = field.iter().skip_while(|byte| **byte == b' ');
    let digits: Vec<u8> = digits.take_while(|byte| !matches!(**byte, b' ' | 0)).copied().collect();
    digits.iter().try_fold(0i64, |sum, digit| {
        let digit = matches!(digit, b'0'..=b'7').then(|| i64::from(digit - b'0'))?;
        sum.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_in_base_256_and_nothing_else() {
        assert_eq!(parse_number(b"0000644\0"), Some(0o644));
        assert_eq!(parse_number(b"  644 \0\0"), Some(0o644));
        assert_eq!(parse_number(b"\0\0\0\0"), Some(0));
        assert_eq!(parse_number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(2 << 32));
        assert_eq!(parse_number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), Some(-2));
        assert_eq!(parse_number(b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(parse_number(b"0000648\0"), None);
        assert_eq!(parse_number(b"-1\0"), None);
        assert_eq!(parse_number(b"7777777777777777777777777"), None);
    }

    #[test]
    fn seconds_are_rounded_down() {
        for (text, seconds) in
            [("17", 17), ("17.9", 17), ("-17", -17), ("-17.5", -18), ("-0.5", -1), ("-3.000", -3)]
        {
            assert_eq!(whole_seconds(text), Some(seconds), "{text}");
        }
        for invalid in ["", "x", "1.x", "1e3", "99999999999999999999"] {
            assert_eq!(whole_seconds(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_record_has_its_declared_length() {
        assert_eq!(
            parse_pax_record(b"9 path=a\nrest"),
            Some((&b"path"[..], &b"a"[..], &b"rest"[..]))
        );
        for invalid in
            [&b"8 path=a\n"[..], b"11 path=a\n", b"path=a\n", b"0 path=a\n", b"9 pathxa\n"]
        {
            assert_eq!(parse_pax_record(invalid), None, "{invalid:?}");
        }
    }
}
