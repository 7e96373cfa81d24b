//! Reads the files of the user's that workloads work on: an archive, or a folder that becomes one.
//!
//! Whatever it is, agents get an uncompressed tar archive in a nameless file, and the plan says its
//! size and SHA-256. A folder becomes an archive of its regular files sorted by path, with their modes
//! and times and without owners, so that equal folders are equal archives.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fsdyno_record::quote;
use fsdyno_venue::{InputFile, Inputs};
use fsdyno_workload::{Domain, workloads};

use crate::question::{MatrixError, Question};
use crate::settings::settings;

/// How much is copied at a time, in bytes.
const CHUNK: usize = 1 << 20;

/// What compressed files begin with, and what is to be said where it cannot be unpacked.
const OTHERS: &[(&[u8], &str)] = &[
    (b"BZh", "bzip2"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZIP", "lzip"),
    (b"\x5d\x00\x00", "lzma"),
    (b"\x1f\x9d", "compress"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
];

/// Reads every file that a workload of the question works on, each once.
///
/// # Errors
/// What cannot be read, with the setting that names it.
pub fn read_inputs(question: &Question) -> Result<Inputs, MatrixError> {
    let mut kinds = Vec::new();
    for name in &question.workloads {
        kinds.push(workloads::find(name)?);
    }
    let mut inputs = Inputs::default();
    for (kind, settings) in kinds.iter().zip(settings(&kinds, &question.sets)?) {
        for param in kind.params {
            let value = settings.get(param.name).map_or(param.default, String::as_str);
            if let Some(path) = path_of(&param.domain, value)
                && inputs.typed(path).is_none()
            {
                let wrong = |error| {
                    let path = quote::short(path);
                    MatrixError::Wrong(format!("--set {}={path}: {error}", param.name))
                };
                inputs.add(read(path).map_err(wrong)?);
            }
        }
    }
    Ok(inputs)
}

/// The path that a value is; none for another kind of parameter, or its word for "no file".
pub fn path_of<'a>(domain: &Domain, value: &'a str) -> Option<&'a str> {
    match domain {
        Domain::File => Some(value),
        Domain::Or(word, other) if *word != value => path_of(other, value),
        _ => None,
    }
}

/// The path that a plan says: one that is right in every folder.
pub fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).ok();
    absolute.and_then(|path| path.to_str().map(String::from)).unwrap_or_else(|| path.to_string())
}

fn read(path: &str) -> Result<InputFile, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let metadata = fs::metadata(path).map_err(failed)?;
    let mut out = tempfile::tempfile().map_err(no_room)?;
    let length = if metadata.is_dir() {
        pack(Path::new(path), &out)?
    } else if metadata.is_file() {
        let mut start = [0; 6];
        let file = File::open(path).map_err(failed)?;
        let there = file.read_at(&mut start, 0).map_err(failed)?;
        let mut source = unpacker(file, &start[..there])?;
        copy(&mut source, &mut out)?
    } else {
        return Err("is neither a file nor a folder".to_string());
    };
    InputFile::new(path, out, length).map_err(no_room)
}

fn no_room(error: io::Error) -> String {
    let folder = std::env::temp_dir();
    format!("cannot be kept in '{}': {error}; TMPDIR names another folder", folder.display())
}

/// What reads a file without its compression, which its first bytes tell.
fn unpacker(file: File, start: &[u8]) -> Result<Box<dyn Read>, String> {
    if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(format!(
            "is compressed by {name}; unpack it first, or give it as tar, tar.gz, tar.xz or tar.zst"
        ));
    }
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(liblzma::read::XzDecoder::new_multi_decoder(BufReader::new(file)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(
            zstd::Decoder::new(file).map_err(|error| format!("cannot be unpacked: {error}"))?,
        ),
        _ => Box::new(file),
    })
}

/// Copies to the end; how many bytes there were.
fn copy(from: &mut dyn Read, to: &mut File) -> Result<u64, String> {
    let mut chunk = vec![0; CHUNK];
    let mut total = 0;
    loop {
        let length = match from.read(&mut chunk) {
            Ok(0) => return Ok(total),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("cannot be unpacked: {error} after {total} bytes")),
        };
        to.write_all(&chunk[..length]).map_err(no_room)?;
        total += length as u64;
    }
}

/// Packs the regular files of a folder; how many bytes that makes.
fn pack(folder: &Path, out: &File) -> Result<u64, String> {
    let mut paths = Vec::new();
    walk(folder, Path::new(""), &mut paths)?;
    if paths.is_empty() {
        return Err("is a folder without a single regular file".to_string());
    }
    // By their bytes, so that the order is the same everywhere.
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let mut builder = tar::Builder::new(BufWriter::with_capacity(CHUNK, out));
    for path in &paths {
        let failed = |error: io::Error| format!("'{}' cannot be read: {error}", path.display());
        let mut file = File::open(folder.join(path)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents).map_err(failed)?;
        let seconds = metadata.modified().map_err(failed)?;
        let seconds = seconds.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut header = tar::Header::new_gnu();
        header.set_mode(metadata.permissions().mode() & 0o7777);
        header.set_mtime(seconds);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(contents.len() as u64);
        builder.append_data(&mut header, path, contents.as_slice()).map_err(no_room)?;
    }
    let buffer = builder.into_inner().map_err(no_room)?;
    let file = buffer.into_inner().map_err(|error| no_room(error.into_error()))?;
    Ok(file.metadata().map_err(no_room)?.len())
}

/// All regular files below a folder; links are not followed.
fn walk(folder: &Path, below: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let here = folder.join(below);
    let failed = |error: io::Error| format!("'{}' cannot be read: {error}", here.display());
    for entry in fs::read_dir(&here).map_err(failed)? {
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
    fn whatever_it_is_compressed_by_the_archive_and_its_hash_are_the_same() {
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
    fn what_cannot_be_unpacked_is_said_with_what_would_be_right() {
        let folder = tempfile::tempdir().unwrap();
        for by in ["gz", "xz", "zst"] {
            let cut = compressed(by);
            let path = write(folder.path(), "cut", &cut[..cut.len() / 2]);
            let error = read(&path).unwrap_err();
            assert!(error.starts_with("cannot be unpacked"), "{by}: {error}");
        }
        let error = read(&write(folder.path(), "x.bz2", b"BZh91AY")).unwrap_err();
        assert!(error.contains("bzip2") && error.contains("tar.zst"), "{error}");
        assert!(read("/dev/null").unwrap_err().contains("neither"));
        assert!(read("/nowhere").unwrap_err().contains("No such file"));
        assert!(read(folder.path().join("x.bz2/y").to_str().unwrap()).is_err());
    }

    #[test]
    fn equal_folders_are_equal_archives_of_their_files_by_path() {
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
        assert!(read(empty.path().to_str().unwrap()).unwrap_err().contains("without a single"));
    }

    #[test]
    fn a_path_is_what_is_no_word() {
        let domain = Domain::Or("none", &Domain::File);
        assert_eq!(path_of(&domain, "none"), None);
        assert_eq!(path_of(&domain, "./none"), Some("./none"));
        assert_eq!(path_of(&Domain::YesNo, "yes"), None);
    }
}
