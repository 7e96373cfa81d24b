//! Reads the user's input files for workloads: an archive, a folder (which is packed into one), or a trace.
//!
//! Agents receive an uncompressed tar archive or a compiled trace in an anonymous file, and the plan records its size
//! and SHA-256. A folder becomes an archive of its regular files, sorted by path, with their modes and times but
//! without owners, so that equal folders yield equal archives.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fsdyno_record::bounded::{self, INPUTS};
use fsdyno_record::canonical::Hash;
use fsdyno_record::{Bytes, quote};
use fsdyno_venue::{InputFile, Inputs};
use fsdyno_workload::{Domain, Headers, workloads};

use crate::matrix_request::{MatrixError, MatrixRequest};
use crate::settings::settings;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// Maximum memory for xz decompression: eight times that of `xz -9`. (zstd has a limit of its own.)
const XZ_MEMORY: u64 = 512 << 20;

/// Unsupported compression formats: magic number and name.
const UNSUPPORTED: &[(&[u8], &str)] = &[
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZIP", "lzip"),
    (b"\x5d\x00\x00", "lzma"),
    (b"\x1f\x9d", "compress"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
];

/// Reads each input file of a request's workloads once.
///
/// # Errors
/// The file that cannot be read, with the setting that names it.
pub fn read_inputs(matrix_request: &MatrixRequest) -> Result<Inputs, MatrixError> {
    let mut kinds = Vec::new();
    for name in &matrix_request.workloads {
        kinds.push(workloads::find(name)?);
    }
    let mut inputs = Inputs::default();
    for (kind, settings) in kinds.iter().zip(settings(&kinds, &matrix_request.parameters)?) {
        for param in kind.params {
            let value = settings.get(param.name).map_or(param.default, String::as_str);
            if let Some(path) = path_of(&param.domain, value)
                && inputs.by_path(path).is_none()
            {
                let invalid = |error| {
                    let path = quote::short(path);
                    MatrixError::Wrong(format!("--set {}={path}: {error}", param.name))
                };
                let file = match is_trace(&param.domain) {
                    true => read_trace(path),
                    false => read(path),
                };
                inputs.add(file.map_err(invalid)?);
            }
        }
    }
    Ok(inputs)
}

/// Returns the path in a value; `None` if the parameter is not a file, or if the value stands for "no file".
pub fn path_of<'a>(domain: &Domain, value: &'a str) -> Option<&'a str> {
    match domain {
        Domain::File | Domain::Trace => Some(value),
        Domain::Or(word, other) if *word != value => path_of(other, value),
        _ => None,
    }
}

/// Returns the absolute path that a plan records.
pub fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).ok();
    absolute.and_then(|path| path.to_str().map(String::from)).unwrap_or_else(|| path.to_string())
}

/// Returns true if the value of a parameter names a trace.
fn is_trace(domain: &Domain) -> bool {
    match domain {
        Domain::Trace => true,
        Domain::Or(_, other) => is_trace(other),
        _ => false,
    }
}

/// Compiles a trace for the workload `replay`.
fn read_trace(path: &str) -> Result<InputFile, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let mut trace = bounded::open(Path::new(path)).map_err(failed)?;
    bounded::check_regular(&trace).map_err(failed)?;
    let mut out = tempfile::tempfile().map_err(store_error)?;
    let length = fsdyno_replay::compile(&mut trace, &mut out).map_err(|error| match error {
        fsdyno_replay::ReplayError::Io(error) => store_error(error),
        error => error.to_string(),
    })?;
    out.rewind().map_err(store_error)?;
    let (mut hash, mut chunk) = (Hash::default(), vec![0; CHUNK]);
    loop {
        match out.read(&mut chunk).map_err(store_error)? {
            0 => break,
            count => hash.update(&chunk[..count]),
        }
    }
    InputFile::new(path, out, length, hash.hex()).map_err(store_error)
}

fn read(path: &str) -> Result<InputFile, String> {
    read_to(path, INPUTS.max_size)
}

fn read_to(path: &str, limit: Bytes) -> Result<InputFile, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let out = ArchiveFile::new(tempfile::tempfile().map_err(store_error)?, limit)?;
    let out = if fs::metadata(path).map_err(failed)?.is_dir() {
        pack(Path::new(path), out)?
    } else {
        let mut start = [0; 6];
        let mut file = bounded::open(Path::new(path)).map_err(failed)?;
        let length = read_start(&mut file, &mut start).map_err(failed)?;
        let file = io::Cursor::new(start).take(length as u64).chain(file);
        unpack(&mut unpacker(file, &start[..length])?, out)?
    };
    InputFile::new(path, out.file, out.length, out.hash.hex()).map_err(store_error)
}

/// Reads the first bytes of a file into `start`; returns their number, which is less than its length if the file is
/// shorter. (A pipe cannot be rewound.)
fn read_start(file: &mut File, start: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < start.len() {
        match file.read(&mut start[length..])? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

/// An anonymous file that receives an archive, with its hash.
struct ArchiveFile {
    file: File,
    hash: Hash,
    length: u64,
    limit: u64,
}

impl ArchiveFile {
    /// Limits the size to `limit` bytes, and to nine tenths of the free space.
    fn new(file: File, limit: Bytes) -> Result<ArchiveFile, String> {
        let disk = rustix::fs::fstatvfs(&file).map_err(|error| store_error(error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        Ok(ArchiveFile {
            file,
            hash: Hash::default(),
            length: 0,
            limit: limit.0.min(free / 10 * 9),
        })
    }
}

impl Write for ArchiveFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.limit - self.length {
            return Err(io::Error::new(
                ErrorKind::StorageFull,
                format!("it is more than {}", Bytes(self.limit)),
            ));
        }
        let length = self.file.write(bytes)?;
        self.hash.update(&bytes[..length]);
        self.length += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn store_error(error: io::Error) -> String {
    let folder = std::env::temp_dir();
    format!("cannot be stored in '{}': {error}; set TMPDIR to use another folder", folder.display())
}

/// Returns a decompressing reader, chosen by the first bytes.
fn unpacker(file: impl Read + 'static, start: &[u8]) -> Result<Box<dyn Read>, String> {
    if let Some((_, name)) = UNSUPPORTED.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(format!(
            "is compressed with {name}; unpack it first, or give it as tar, tar.gz, tar.xz or tar.zst"
        ));
    }
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let flags = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, flags);
            let stream = stream.map_err(|error| format!("cannot be unpacked: {error}"))?;
            Box::new(liblzma::read::XzDecoder::new_stream(BufReader::new(file), stream))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(
            zstd::Decoder::new(file).map_err(|error| format!("cannot be unpacked: {error}"))?,
        ),
        _ => Box::new(file),
    })
}

/// Unpacks an archive and checks its headers at the same time.
fn unpack(from: &mut dyn Read, mut to: ArchiveFile) -> Result<ArchiveFile, String> {
    let mut chunk = vec![0; CHUNK];
    let mut headers = Headers::new(to.limit);
    loop {
        let length = match from.read(&mut chunk) {
            Ok(0) => return Ok(to),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(format!("cannot be unpacked: {error} after {} bytes", to.length));
            }
        };
        headers.check_next(&chunk[..length]).map_err(|error| error.to_string())?;
        to.write_all(&chunk[..length]).map_err(store_error)?;
    }
}

/// Packs the regular files of a folder.
fn pack(folder: &Path, out: ArchiveFile) -> Result<ArchiveFile, String> {
    let mut paths = Vec::new();
    walk(folder, Path::new(""), &mut paths)?;
    if paths.is_empty() {
        return Err("is a folder without any regular files".to_string());
    }
    // The total is checked before anything is copied.
    let sizes = paths.iter().map(|path| fs::metadata(folder.join(path)).map_or(0, |it| it.len()));
    let total = Bytes(sizes.sum());
    if total.0 > out.limit {
        return Err(format!("is a folder of {total}, and the limit here is {}", Bytes(out.limit)));
    }
    // Sorted by bytes, so that the order is the same everywhere.
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let mut builder = tar::Builder::new(BufWriter::with_capacity(CHUNK, out));
    for path in &paths {
        let failed = |error: io::Error| format!("'{}' cannot be read: {error}", path.display());
        let file = bounded::open(&folder.join(path)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let seconds = metadata.modified().map_err(failed)?;
        let seconds = seconds.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut header = tar::Header::new_gnu();
        header.set_mode(metadata.permissions().mode() & 0o7777);
        header.set_mtime(seconds);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(metadata.len());
        let mut contents = Exactly { source: file, left: metadata.len() };
        builder.append_data(&mut header, path, &mut contents).map_err(store_error)?;
        if contents.left > 0 {
            return Err(format!("'{}' became shorter while it was read", path.display()));
        }
    }
    let buffer = builder.into_inner().map_err(store_error)?;
    buffer.into_inner().map_err(|error| store_error(error.into_error()))
}

/// A reader of an exact number of bytes; `left` of them are still to be read.
struct Exactly<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.by_ref().take(self.left).read(buffer)?;
        self.left -= length as u64;
        Ok(length)
    }
}

/// Collects all regular files below a folder; links are not followed.
fn walk(folder: &Path, below: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let subfolder = folder.join(below);
    let failed = |error: io::Error| format!("'{}' cannot be read: {error}", subfolder.display());
    for entry in fs::read_dir(&subfolder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = below.join(entry.file_name());
        if kind.is_dir() {
            walk(folder, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(5);
        builder.append_data(&mut header, "a/b", &b"hello"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    }

    fn compressed(by: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match by {
            "gz" => {
                let mut encoder = flate2::write::GzEncoder::new(&mut out, Default::default());
                encoder.write_all(&tar()).unwrap();
                encoder.finish().unwrap();
            }
            "xz" => {
                let mut encoder = liblzma::write::XzEncoder::new(&mut out, 1);
                encoder.write_all(&tar()).unwrap();
                encoder.finish().unwrap();
            }
            _ => out = zstd::encode_all(&tar()[..], 1).unwrap(),
        }
        out
    }

    #[test]
    fn every_compression_yields_the_same_archive_and_hash() {
        let folder = tempfile::tempdir().unwrap();
        let plain = read(&write(folder.path(), "x", &tar())).unwrap();
        assert_eq!(plain.input().bytes(), tar());
        assert_eq!(plain.plan("archive").bytes.0, 2048);
        assert!(plain.file().metadata().unwrap().len().is_power_of_two());
        for by in ["gz", "xz", "zst"] {
            let read = read(&write(folder.path(), "x", &compressed(by))).unwrap();
            assert_eq!(read.plan("archive"), plain.plan("archive"), "{by}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_or_no_archive_is_refused_while_it_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        // 1 GiB compressed to about 30 KB, whose first block shows that it is not an archive.
        let bomb = zstd::encode_all(io::repeat(b'x').take(1 << 30), 1).unwrap();
        let start_time = std::time::Instant::now();
        let error = read(&write(folder.path(), "bomb", &bomb)).unwrap_err();
        assert_eq!(error, "is not a tar archive: a header with its checksum was expected");
        assert!(start_time.elapsed() < std::time::Duration::from_secs(5));
        let small = write(folder.path(), "x", &tar());
        let error = read_to(&small, Bytes(1024)).unwrap_err();
        assert!(
            error.ends_with("it is more than 1 KiB; set TMPDIR to use another folder"),
            "{error}"
        );
        let error = read_to(&small, Bytes(512)).unwrap_err();
        assert!(
            error.contains("it declares 5 B of data; the maximum size of an archive is 512 B here"),
            "{error}"
        );
    }

    #[test]
    fn unsupported_files_are_refused_with_a_remedy_or_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        for by in ["gz", "xz", "zst"] {
            let cut = compressed(by);
            let path = write(folder.path(), "cut", &cut[..cut.len() / 2]);
            let error = read(&path).unwrap_err();
            assert!(error.starts_with("cannot be unpacked"), "{by}: {error}");
        }
        let error = read(&write(folder.path(), "x.bz2", b"BZh91AY")).unwrap_err();
        assert!(error.contains("bzip2") && error.contains("tar.zst"), "{error}");
        assert!(read("/dev/null").unwrap_err().contains("it is a device"));
        assert!(read("/nowhere").unwrap_err().contains("No such file"));
        assert!(read(folder.path().join("x.bz2/y").to_str().unwrap()).is_err());
    }

    #[test]
    fn equal_folders_yield_equal_archives_sorted_by_path() {
        let make = |names: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("cur/deep")).unwrap();
            for name in names {
                let path = write(folder.path(), name, name.as_bytes());
                fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
                let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
                File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            }
            std::os::unix::fs::symlink("z", folder.path().join("link")).unwrap();
            read(folder.path().to_str().unwrap()).unwrap()
        };
        let one = make(&["z", "cur/a", "cur/deep/b", "cur/B"]);
        let other = make(&["cur/B", "cur/deep/b", "cur/a", "z"]);
        assert_eq!(one.plan("x"), other.plan("x"));
        let archive = fsdyno_workload::Archive::read(&one.input()).unwrap();
        let paths: Vec<&[u8]> = archive.members().iter().map(|member| &*member.path).collect();
        assert_eq!(paths, [&b"cur/B"[..], b"cur/a", b"cur/deep/b", b"z"]);
        let ok = |mode, mtime| (mode, mtime) == (0o640, 1_000_000_000);
        assert!(archive.members().iter().all(|member| ok(member.mode, member.mtime)));
        let empty = tempfile::tempdir().unwrap();
        assert!(read(empty.path().to_str().unwrap()).unwrap_err().contains("without any regular"));
    }

    #[test]
    fn any_value_but_a_reserved_word_is_a_path() {
        let domain = Domain::Or("none", &Domain::File);
        assert_eq!(path_of(&domain, "none"), None);
        assert_eq!(path_of(&domain, "./none"), Some("./none"));
        assert_eq!(path_of(&Domain::YesNo, "yes"), None);
    }
}
