//! Result files, plain or compressed (by `fsdyno report --archive`): readers accept both.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use fsdyno_record::bounded::{self, Bounded, Limit};

/// The extension appended to a compressed file's name: `trials.ndjson.zst`.
const ENDING: &str = "zst";

/// The compression level: high, because records are repetitive, written once and read often.
const LEVEL: i32 = 19;

/// The name of a file's compressed form.
pub fn name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_os_string();
    name.push(".");
    name.push(ENDING);
    name.into()
}

/// The file itself, or its compressed form if only that exists.
pub fn find(file: &Path) -> Option<PathBuf> {
    [file.to_path_buf(), name(file)].into_iter().find(|path| path.is_file())
}

/// Opens a file, or its compressed form if the file does not exist, for reading from the start; what is unpacked is
/// limited in size.
///
/// # Errors
/// The system's error for the file itself, if neither form exists or the path is not a file.
pub fn open(file: &Path, limit: &Limit) -> io::Result<Box<dyn BufRead>> {
    let path = match bounded::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => find(file).ok_or(error)?,
        opened => return read(opened?, file, limit),
    };
    read(bounded::open(&path)?, &path, limit)
}

/// Returns true if an error means that the compressed form is damaged, not that the system failed.
pub fn is_damage(path: &Path, error: &io::Error) -> bool {
    let other = [ErrorKind::FileTooLarge, ErrorKind::InvalidInput];
    is_packed(path) && error.raw_os_error().is_none() && !other.contains(&error.kind())
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

fn read(opened: File, path: &Path, limit: &Limit) -> io::Result<Box<dyn BufRead>> {
    Ok(match is_packed(path) {
        true => {
            let mut source = BufReader::new(opened);
            // The library unpacks nothing from an empty file, which would look like a complete file without lines.
            if source.fill_buf()?.is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "it is empty"));
            }
            let unpacked = zstd::stream::read::Decoder::with_buffer(source)?;
            Box::new(BufReader::new(Bounded::new(unpacked, limit)))
        }
        false => Box::new(BufReader::new(Bounded::new_for_file(opened, limit)?)),
    })
}

/// Compresses a source.
///
/// # Errors
/// An error of the source or the library.
pub fn compress(source: impl Read) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(source, LEVEL)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::bounded::RECORDS;

    use super::*;

    fn text(file: &Path) -> io::Result<String> {
        let mut text = String::new();
        open(file, &RECORDS)?.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn a_file_is_read_plain_or_compressed_and_the_plain_form_is_preferred() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trials.ndjson");
        assert_eq!(text(&file).unwrap_err().kind(), ErrorKind::NotFound);
        let lines = "one line as any other\n".repeat(1000);
        let bytes = compress(lines.as_bytes()).unwrap();
        assert!(bytes.len() * 50 < lines.len());
        std::fs::write(name(&file), &bytes).unwrap();
        assert_eq!(find(&file), Some(folder.path().join("trials.ndjson.zst")));
        assert_eq!(text(&file).unwrap(), lines);
        assert_eq!(text(&name(&file)).unwrap(), lines);
        // A truncated compressed file is an error, not a shorter file.
        std::fs::write(name(&file), &bytes[..bytes.len() - 3]).unwrap();
        assert!(text(&file).is_err());
        std::fs::write(&file, "plain").unwrap();
        assert_eq!(text(&file).unwrap(), "plain");
    }
}
