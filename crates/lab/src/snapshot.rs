//! Snapshots of booted guests, kept between runs.
//!
//! A snapshot is one file of QEMU's (the guest's memory that is not zero, the state of its devices),
//! named `KEY.SHA256`: the key says which guest and machine it is of, the hash what is in it
//! ([`crate::vmstate`]). All of them may be removed at any time.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fsdyno_child::Mapped;
use fsdyno_record::canonical::sha256_hex;
use rustix::fs::{FlockOperation, flock};

use crate::error::RunError;
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

/// The file that is locked while a snapshot is looked for or made.
const LOCK: &str = "lock";

/// A snapshot that is being made, or was when its maker was killed; the next maker replaces it.
const UNFINISHED: &str = "unfinished";

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

/// The snapshot under `key` in `folder`; if there is none, `make` saves one into the file it is
/// given, and says when its guest stopped by its own clock. Who needs a snapshot that another process is making waits for it.
///
/// # Errors
/// What `make` reports, and what the host refuses.
pub fn get(
    folder: &Path,
    key: &str,
    mut make: impl FnMut(&File) -> Result<u64, RunError>,
) -> Result<Snapshot, RunError> {
    let host = |action| move |error: io::Error| RunError::Host { action, error };
    fs::create_dir_all(folder).map_err(host("make the folder of snapshots"))?;
    let lock = File::create(folder.join(LOCK)).map_err(host("lock the folder of snapshots"))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| host("lock the folder of snapshots")(error.into()))?;
    if let Some(found) = find(folder, key).map_err(host("look for a snapshot"))? {
        return Ok(found);
    }
    let unfinished = folder.join(UNFINISHED);
    // A killed maker may have left one; a reader of that file cannot exist.
    let _ = fs::remove_file(&unfinished);
    let create = || File::options().read(true).write(true).create_new(true).open(&unfinished);
    let file = create().map_err(host("make a snapshot's file"))?;
    let made = make_right(&file, &mut make).and_then(|sha256| {
        keep(folder, key, file, &unfinished, sha256).map_err(host("keep a snapshot"))
    });
    if made.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    made
}

fn find(folder: &Path, key: &str) -> io::Result<Option<Snapshot>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        if let Some((_, sha256)) = parts.filter(|(found, _)| *found == key) {
            let file = File::open(entry.path())?;
            // The time of its last use; a folder that cannot be written to is still good to read.
            let _ = file.set_modified(SystemTime::now());
            return Ok(Some(Snapshot { file, sha256: sha256.to_string() }));
        }
    }
    Ok(None)
}

/// Makes a snapshot, again if need be, until its clock is right; the last try is taken as it is, and
/// its hash says that it is another one.
fn make_right(
    file: &File,
    make: &mut dyn FnMut(&File) -> Result<u64, RunError>,
) -> Result<String, RunError> {
    let host = |error| RunError::Host { action: "read a snapshot back", error };
    for _ in 1..TRIES {
        let stopped = make(file)?;
        let saved = examine(file).map_err(host)?;
        if saved.clock.is_none_or(|clock| clock <= stopped.saturating_add(SLACK)) {
            return Ok(saved.sha256);
        }
        file.set_len(0).and_then(|()| (&mut &*file).rewind()).map_err(host)?;
    }
    make(file)?;
    Ok(examine(file).map_err(host)?.sha256)
}

struct Examined {
    sha256: String,
    /// Not known where the file is of a form that is not known.
    clock: Option<u64>,
}

/// Makes the file loadable into a fresh machine, and reads what it is of.
fn examine(file: &File) -> io::Result<Examined> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    for at in vmstate::placed(Mapped::new(file, length)?.as_ref()).unwrap_or_default() {
        file.write_all_at(&[0; 8], at as u64)?;
    }
    let bytes = Mapped::new(file, length)?;
    Ok(match vmstate::read(bytes.as_ref()) {
        Some(saved) => Examined { sha256: saved.sha256, clock: Some(saved.clock) },
        None => Examined { sha256: sha256_hex(bytes.as_ref()), clock: None },
    })
}

fn keep(
    folder: &Path,
    key: &str,
    file: File,
    unfinished: &Path,
    sha256: String,
) -> io::Result<Snapshot> {
    // Whatever has its name must be whole, also after the host lost its power.
    file.sync_all()?;
    let path = folder.join(format!("{key}.{sha256}"));
    fs::rename(unfinished, &path)?;
    make_room(folder, &path, LIMIT)?;
    Ok(Snapshot { file, sha256 })
}

/// Removes snapshots, the longest unused first, until all together take `limit` bytes at most;
/// `but` stays.
fn make_room(folder: &Path, but: &Path, limit: u64) -> io::Result<()> {
    let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (metadata, path) = entry.map(|entry| (entry.metadata(), entry.path()))?;
        let metadata = metadata?;
        all.push((metadata.modified()?, metadata.len(), path));
    }
    all.sort();
    let mut total: u64 = all.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in all.iter().filter(|(_, size, path)| path != but && *size > 0) {
        if total <= limit {
            break;
        }
        // Whoever has it open keeps it.
        fs::remove_file(path)?;
        total -= size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

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
        let made = get(folder.path(), "key", write(b"saved")).unwrap();
        let found = get(folder.path(), "key", never).unwrap();
        assert_eq!(
            (text(&made), text(&found), text(&found)),
            ("saved".into(), "saved".into(), "saved".into())
        );
        assert_eq!(
            (made.sha256(), found.sha256()),
            (&*sha256_hex(b"saved"), &*sha256_hex(b"saved"))
        );
        assert_eq!(text(&get(folder.path(), "other", write(b"else")).unwrap()), "else");
    }

    #[test]
    fn nothing_is_kept_of_a_snapshot_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let error = get(folder.path(), "key", |_| Err(RunError::Stopped)).unwrap_err();
        assert!(matches!(error, RunError::Stopped));
        fs::write(folder.path().join(UNFINISHED), "of a killed maker").unwrap();
        assert_eq!(text(&get(folder.path(), "key", write(b"whole")).unwrap()), "whole");
        assert!(!folder.path().join(UNFINISHED).exists());
    }

    #[test]
    fn two_who_need_the_same_one_make_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let makes = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let make = |file: &File| {
                        makes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(20));
                        write(b"one")(file)
                    };
                    assert_eq!(text(&get(folder.path(), "key", make).unwrap()), "one");
                });
            }
        });
        assert_eq!(makes.into_inner(), 1);
    }

    #[test]
    fn the_longest_unused_go_first_and_the_newest_stays() {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in [(30, "b"), (20, "a"), (10, "c"), (40, "new")] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        make_room(folder.path(), &folder.path().join("new"), 200).unwrap();
        let left = |name: &str| folder.path().join(name).exists();
        assert_eq!(["b", "a", "c", "new"].map(left), [false, false, true, true]);
    }
}
