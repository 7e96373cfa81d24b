//! Snapshots of booted guests, kept between runs.
//!
//! A snapshot is one file of QEMU's (the guest's memory that is not zero, the state of its devices),
//! kept under a key that says which guest and machine it is of, with the hash of what the guest could tell
//! of it ([`crate::vmstate`]).

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use fsdyno_child::Mapped;
use fsdyno_record::canonical::sha256_hex;

use crate::cache::Cache;
use crate::error::RunError;
use crate::kept::Kept;
use crate::vmstate;

/// How much all snapshots together may take on the host, in bytes; those used longest ago go first.
/// One takes about 110 MB.
const LIMIT: u64 = 4 << 30;

/// How far the clock of a saved guest may be past the moment of its stop, in nanoseconds: the
/// way from one to the other is some thousand instructions. Now and then QEMU's main loop sees the
/// stopped processor before it knows that the machine has stopped, takes it for asleep, and lets time
/// jump to the next timer. Such a guest is not the one that goes on in a cold boot.
const SLACK: u64 = 50_000;

/// How often a guest is booted to be saved until its clock is right.
const TRIES: usize = 8;

/// A booted guest, saved.
#[derive(Debug)]
pub struct Snapshot {
    file: File,
    sha256: String,
}

impl Snapshot {
    /// SHA-256, in hex, of all that the guest could tell of it.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The file, opened anew: each QEMU reads it from its beginning.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// Where snapshots are kept.
pub fn kept(cache: &Cache) -> Kept {
    Kept::new(cache, "snapshots", LIMIT, |file| Ok(read(file)?.sha256))
}

/// The snapshot under `key`; if there is none, `make` saves one into the file it is given, and says
/// when its guest stopped by its own clock.
///
/// # Errors
/// What `make` reports, and what the host refuses.
pub fn get(
    kept: &Kept,
    key: &str,
    go_on: &mut dyn FnMut() -> bool,
    mut make: impl FnMut(&File) -> Result<u64, RunError>,
) -> Result<Snapshot, RunError> {
    let (file, sha256) = kept.get(key, go_on, &mut |file| make_right(file, &mut make))?;
    Ok(Snapshot { file, sha256 })
}

/// Makes a snapshot, again if need be, until its clock is right; the last try is taken as it is, and
/// its hash says that it is another one.
fn make_right(
    file: &File,
    make: &mut dyn FnMut(&File) -> Result<u64, RunError>,
) -> Result<(), RunError> {
    let host = |error| RunError::Host { action: "read a snapshot back", error };
    for left in (0..TRIES).rev() {
        let stopped = make(file)?;
        make_loadable(file).map_err(host)?;
        let clock = read(file).map_err(host)?.clock;
        if left == 0 || clock.is_none_or(|clock| clock <= stopped.saturating_add(SLACK)) {
            break;
        }
        file.set_len(0).and_then(|()| (&mut &*file).rewind()).map_err(host)?;
    }
    Ok(())
}

struct Contents {
    sha256: String,
    /// Not known where the file is of a form that is not known.
    clock: Option<u64>,
}

/// Makes the file loadable into a fresh machine.
fn make_loadable(file: &File) -> io::Result<()> {
    for at in vmstate::placed(mapped(file)?.as_ref()).unwrap_or_default() {
        file.write_all_at(&[0; 8], at as u64)?;
    }
    Ok(())
}

/// Reads what the file is of.
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
        panic!("it was made again")
    }

    fn text(snapshot: &Snapshot) -> String {
        let mut text = String::new();
        snapshot.open().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_snapshot_is_made_once_and_read_from_its_beginning_by_each() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept(&Cache::at(folder.path()).unwrap());
        let made = get(&kept, "key", &mut || true, write(b"saved")).unwrap();
        let found = get(&kept, "key", &mut || true, never).unwrap();
        assert_eq!(
            (text(&made), text(&found), text(&found)),
            ("saved".into(), "saved".into(), "saved".into())
        );
        assert_eq!(
            (made.sha256(), found.sha256()),
            (&*sha256_hex(b"saved"), &*sha256_hex(b"saved"))
        );
        assert_eq!(text(&get(&kept, "other", &mut || true, write(b"else")).unwrap()), "else");
    }
}
