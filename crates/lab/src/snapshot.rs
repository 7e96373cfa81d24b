//! Snapshots of booted guests, cached between runs.
//!
//! A snapshot is a single file from QEMU: the non-zero part of the guest's memory, and the state of its devices. The
//! key identifies the guest and the machine; the hash covers everything that the guest can see ([`crate::vmstate`]).

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use fsdyno_child::Mapped;
use fsdyno_record::canonical::sha256_hex;

use crate::cache::Cache;
use crate::error::RunError;
use crate::file_cache::FileCache;
use crate::vmstate;

/// The limit on the total size of all snapshots on the host, in bytes; the least recently used are removed first. A
/// snapshot takes about 110 MB.
const LIMIT: u64 = 4 << 30;

/// The maximum time, in nanoseconds, by which a saved guest's clock may be ahead of the time at which it stopped:
/// saving takes a few thousand instructions. Occasionally QEMU's main loop sees the stopped processor before it knows
/// that the machine has stopped, treats it as asleep, and lets time jump to the next timer. Such a guest differs from
/// one that boots cold.
const SLACK: u64 = 50_000;

/// The maximum number of boots for a snapshot whose clock is correct.
const TRIES: usize = 8;

/// A saved, booted guest.
#[derive(Debug)]
pub struct Snapshot {
    file: File,
    sha256: String,
}

impl Snapshot {
    /// Returns the SHA-256, in hex, of everything that the guest can see.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Opens the file again, because each QEMU reads it from its beginning.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// Returns the cache of snapshots.
pub fn file_cache(cache: &Cache) -> FileCache {
    FileCache::new(cache, "snapshots", LIMIT, |file| Ok(read(file)?.sha256))
}

/// Returns the snapshot under `key`; if it is missing, `make` saves one into the given file and returns the time
/// at which the guest stopped, by its own clock, in nanoseconds.
///
/// # Errors
/// Errors from `make`, and host I/O errors.
pub fn get(
    files: &FileCache,
    key: &str,
    go_on: &mut dyn FnMut() -> bool,
    mut make: impl FnMut(&File) -> Result<u64, RunError>,
) -> Result<Snapshot, RunError> {
    let (file, sha256) =
        files.get(key, go_on, &mut |file| make_until_clock_is_correct(file, &mut make))?;
    Ok(Snapshot { file, sha256 })
}

/// Makes a snapshot, repeatedly if necessary, until its clock is correct. The last attempt is used in any case; if its
/// clock is incorrect, its hash differs from that of other snapshots.
fn make_until_clock_is_correct(
    file: &File,
    make: &mut dyn FnMut(&File) -> Result<u64, RunError>,
) -> Result<(), RunError> {
    let host_error = |error| RunError::Host { action: "read a snapshot back", error };
    for remaining in (0..TRIES).rev() {
        let stopped_at = make(file)?;
        make_loadable(file).map_err(host_error)?;
        let clock = read(file).map_err(host_error)?.clock;
        if remaining == 0 || clock.is_none_or(|clock| clock <= stopped_at.saturating_add(SLACK)) {
            break;
        }
        file.set_len(0).and_then(|()| (&mut &*file).rewind()).map_err(host_error)?;
    }
    Ok(())
}

struct Contents {
    sha256: String,
    /// `None` if the format of the file is unknown.
    clock: Option<u64>,
}

/// Changes the file so that a new machine can load it.
fn make_loadable(file: &File) -> io::Result<()> {
    for at in vmstate::pci_addresses(mapped(file)?.as_ref()).unwrap_or_default() {
        file.write_all_at(&[0; 8], at as u64)?;
    }
    Ok(())
}

/// Reads the hash and the clock of the file.
fn read(file: &File) -> io::Result<Contents> {
    let bytes = mapped(file)?;
    Ok(match vmstate::read(bytes.as_ref()) {
        Some(saved) => Contents { sha256: saved.sha256, clock: Some(saved.clock) },
        None => Contents { sha256: sha256_hex(bytes.as_ref()), clock: None },
    })
}

fn mapped(file: &File) -> io::Result<Mapped> {
    Mapped::new(file, usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn write(bytes: &'static [u8]) -> impl FnMut(&File) -> Result<u64, RunError> {
        move |mut file| match file.write_all(bytes) {
            Ok(()) => Ok(0),
            Err(error) => Err(RunError::Host { action: "", error }),
        }
    }

    fn never(_: &File) -> Result<u64, RunError> {
        panic!("it was created again")
    }

    fn text(snapshot: &Snapshot) -> String {
        let mut text = String::new();
        snapshot.open().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_snapshot_is_made_once_and_each_reader_starts_at_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&Cache::at(folder.path()).unwrap());
        let made = get(&files, "key", &mut || true, write(b"saved")).unwrap();
        let found = get(&files, "key", &mut || true, never).unwrap();
        assert_eq!(
            (text(&made), text(&found), text(&found)),
            ("saved".into(), "saved".into(), "saved".into())
        );
        assert_eq!(
            (made.sha256(), found.sha256()),
            (&*sha256_hex(b"saved"), &*sha256_hex(b"saved"))
        );
        assert_eq!(text(&get(&files, "other", &mut || true, write(b"else")).unwrap()), "else");
    }
}
