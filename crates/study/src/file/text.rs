//! Reads the text of a study file, whose path may by mistake be that of a device, a folder or a large file.

use std::path::Path;

use fsdyno_record::bounded::{self, WRITTEN};

use super::error::FileError;
use super::read::{Source, line_starts};

/// The error of a study file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A system error, or a file that is not regular or too large.
    #[error("failed to read the study '{file}': {error}")]
    Io {
        /// The given file name.
        file: String,
        /// The error.
        #[source]
        error: std::io::Error,
    },
    /// Not UTF-8, with the position.
    #[error(transparent)]
    NoText(#[from] FileError),
}

/// Reads the text of a study file.
///
/// # Errors
/// A system error, or a file that is not regular, too large, or not UTF-8. At most the maximum size of a study is read.
pub fn read_text(file: &str) -> Result<String, TextError> {
    let failed = |error| TextError::Io { file: file.to_string(), error };
    let bytes = bounded::read(Path::new(file), &WRITTEN).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let valid_part = std::str::from_utf8(&bytes[..offset]).unwrap_or_default();
        let source =
            Source { file: &file.into(), text: valid_part, lines: &line_starts(valid_part) };
        let byte = bytes.get(offset).copied().unwrap_or_default();
        source
            .error(offset, format!("the byte 0x{byte:02x} is not valid UTF-8"), "save it as UTF-8")
            .into()
    })
}

/// Returns a text without the byte order mark that some editors write.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{StudyFile, with_scale};

    const EXAMPLE: &str = include_str!("example.toml");

    /// Returns the error for a file with these bytes, with its path replaced by `my.toml`.
    fn error_for(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.toml").display().to_string();
        std::fs::write(&path, bytes).unwrap();
        read_text(&path).unwrap_err().to_string().replace(&path, "my.toml")
    }

    #[test]
    fn invalid_utf_8_is_reported_with_its_position() {
        let expected = "my.toml:2:5: the byte 0xf6 is not valid UTF-8; save it as UTF-8";
        assert_eq!(
            error_for(
                "title\nä = "
                    .as_bytes()
                    .iter()
                    .chain(b"\xf6")
                    .copied()
                    .collect::<Vec<u8>>()
                    .as_slice()
            ),
            expected
        );
        let utf16 = error_for(b"\xff\xfet\0");
        assert!(utf16.starts_with("my.toml:1:1: the byte 0xff is not valid UTF-8"), "{utf16}");
    }

    #[test]
    fn an_endless_or_too_large_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &str| read_text(path).unwrap_err().to_string();
        assert!(message("/dev/zero").ends_with("it is a device; give the path of a file"));
        assert!(message(&folder.path().display().to_string()).contains("it is a folder;"));
        assert!(message("/nonexistent/my.toml").contains("No such file"));
        let limit = usize::try_from(WRITTEN.max_size.0).unwrap();
        assert!(error_for(&vec![b'#'; limit + 1]).contains("larger than 1 MiB"));
        let path = folder.path().join("most.toml").display().to_string();
        std::fs::write(&path, vec![b'#'; limit]).unwrap();
        assert_eq!(read_text(&path).unwrap().len(), limit);
    }

    #[test]
    fn a_byte_order_mark_changes_no_position_and_allows_a_scale() {
        let marked = format!("\u{feff}{EXAMPLE}");
        StudyFile::parse("my.toml", &marked).unwrap();
        let message = |text: &str| StudyFile::parse("my.toml", text).unwrap_err().to_string();
        let invalid = |text: &str| text.replacen("#:schema", "x = 1 #", 1);
        assert_eq!(message(&invalid(&marked)), message(&invalid(EXAMPLE)));
        let tenth = "1/10".parse().unwrap();
        // The scale is inserted after a leading comment, or before a key on the first line.
        for text in [EXAMPLE.to_string(), EXAMPLE.lines().skip(2).collect::<Vec<_>>().join("\n")] {
            let stored = with_scale(&format!("\u{feff}{text}"), tenth);
            assert_eq!(stored, with_scale(&text, tenth));
            assert_eq!(StudyFile::parse("my.toml", &stored).unwrap().scale, tenth);
        }
    }
}
