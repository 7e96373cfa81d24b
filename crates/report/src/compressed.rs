//! Files of results as they were written, or compressed, as `fsdyno report --archive` leaves them: readers take either.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

/// What the name of a compressed file ends in, behind its own: `trials.ndjson.zst`.
const ENDING: &str = "zst";

/// How hard it is compressed: records are written once and read often, and repeat themselves.
const LEVEL: i32 = 19;

/// The name of a file's compressed form.
pub fn name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_os_string();
    name.push(".");
    name.push(ENDING);
    name.into()
}

/// The file itself, or its compressed form where only that is there.
pub fn find(file: &Path) -> Option<PathBuf> {
    [file.to_path_buf(), name(file)].into_iter().find(|path| path.is_file())
}

/// Opens a file to be read from its beginning; where it is not there, its compressed form.
///
/// # Errors
/// What the system says of the file itself, if there is neither.
pub fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    let path = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => find(file).ok_or(error)?,
        opened => return read(opened?, file),
    };
    read(File::open(&path)?, &path)
}

/// Whether what failed is the compressed form itself, and not the system that holds the file.
pub fn is_damage(path: &Path, error: &io::Error) -> bool {
    is_packed(path) && error.raw_os_error().is_none()
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

fn read(opened: File, path: &Path) -> io::Result<Box<dyn BufRead>> {
    Ok(match is_packed(path) {
        true => {
            let mut source = BufReader::new(opened);
            // Of nothing the library makes nothing, which looks like a whole file without a line.
            if source.fill_buf()?.is_empty() {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "it is empty"));
            }
            Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(source)?))
        }
        false => Box::new(BufReader::new(opened)),
    })
}

/// Bytes as they lie in a compressed file.
///
/// # Errors
/// What the library refused.
pub fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(bytes, LEVEL)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn text(file: &Path) -> io::Result<String> {
        let mut text = String::new();
        open(file)?.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn a_file_is_read_as_it_is_or_compressed_and_what_is_there_plain_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trials.ndjson");
        assert_eq!(text(&file).unwrap_err().kind(), ErrorKind::NotFound);
        let lines = "one line as any other\n".repeat(1000);
        let bytes = packed(lines.as_bytes()).unwrap();
        assert!(bytes.len() * 50 < lines.len());
        std::fs::write(name(&file), &bytes).unwrap();
        assert_eq!(find(&file), Some(folder.path().join("trials.ndjson.zst")));
        assert_eq!(text(&file).unwrap(), lines);
        assert_eq!(text(&name(&file)).unwrap(), lines);
        // What was cut off is no shorter file.
        std::fs::write(name(&file), &bytes[..bytes.len() - 3]).unwrap();
        assert!(text(&file).is_err());
        std::fs::write(&file, "plain").unwrap();
        assert_eq!(text(&file).unwrap(), "plain");
    }
}
