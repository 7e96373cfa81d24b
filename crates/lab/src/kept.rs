//! What is costly to make and kept between runs: snapshots of guests, images of disks.
//!
//! A folder with one file for each thing, named `KEY.HASH`; the key says what decides it, the hash what is
//! in it. A file appears under its name only when it is whole and on the medium, and is used only if it
//! still has its hash; another is removed and made again. Who needs what another process is making
//! waits for it. All together take a limit at most, and the ones used longest ago go first. Any of them
//! may be removed at any time.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fsdyno_record::Bytes;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cache::{self, Cache};
use crate::error::RunError;

/// Files that are locked while a thing is looked for or made: one for each first digit of a key, so
/// that different things are made side by side.
const LOCK: &str = "lock";

/// What is being made, or was when its maker was killed; the next maker under that lock replaces it.
const UNFINISHED: &str = "unfinished";

/// How often a lock that another holds is tried again.
const PERIOD: Duration = Duration::from_millis(20);

/// A folder of such files.
#[derive(Clone, Debug)]
pub struct Kept {
    cache: Cache,
    /// The folder's name in the cache.
    name: &'static str,
    /// How much all of them may take on the host, in bytes.
    limit: u64,
    /// The hash of what is in a file.
    hash: fn(&File) -> io::Result<String>,
}

/// What a folder of kept files holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptUse {
    /// What they are, in the plural.
    pub what: &'static str,
    /// Where they lie.
    pub folder: PathBuf,
    /// How many there are.
    pub files: usize,
    /// What they take on the host.
    pub bytes: Bytes,
    /// What they may take.
    pub limit: Bytes,
}

fn host(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::Host { action, error }
}

impl Kept {
    /// The files in a folder of the cache, which together may take `limit` bytes; `hash` reads one.
    pub fn new(
        cache: &Cache,
        name: &'static str,
        limit: u64,
        hash: fn(&File) -> io::Result<String>,
    ) -> Kept {
        Kept { cache: cache.clone(), name, limit, hash }
    }

    /// The file kept under `key` and the hash of what is in it; if there is none, `make` writes it.
    /// `go_on` is asked while another is waited for.
    ///
    /// # Errors
    /// What `make` reports, what the host refuses, and [`RunError::Stopped`].
    pub fn get<E: From<RunError>>(
        &self,
        key: &str,
        go_on: &mut dyn FnMut() -> bool,
        make: &mut dyn FnMut(&File) -> Result<(), E>,
    ) -> Result<(File, String), E> {
        let folder = self.cache.folder(self.name).map_err(RunError::Cache)?;
        let stripe: String = key.chars().take(1).collect();
        let lock =
            lock_file(&folder.join(format!("{LOCK}-{stripe}"))).map_err(host("lock the cache"))?;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            match error {
                Errno::WOULDBLOCK if go_on() => std::thread::sleep(PERIOD),
                Errno::WOULDBLOCK => return Err(RunError::Stopped.into()),
                error => return Err(host("lock the cache")(error.into()).into()),
            }
        }
        if let Some(found) = self.find(&folder, key).map_err(host("look into the cache"))? {
            return Ok(found);
        }
        let unfinished = folder.join(format!("{UNFINISHED}-{stripe}"));
        // A killed maker may have left one; a reader of that file cannot exist.
        let _ = fs::remove_file(&unfinished);
        let create = || File::options().read(true).write(true).create_new(true).open(&unfinished);
        let file = create().map_err(host("write into the cache"))?;
        let made = make(&file).and_then(|()| {
            let kept = self.keep(&folder, key, &file, &unfinished);
            Ok((file, kept.map_err(host("keep a file in the cache"))?))
        });
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made
    }

    /// The file under a key that still has its hash; others are removed.
    fn find(&self, folder: &Path, key: &str) -> io::Result<Option<(File, String)>> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((found, sha256)) = name.to_str().map(parts) else { continue };
            if found != key {
                continue;
            }
            let file =
                File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(entry.path())?;
            if (self.hash)(&file)? == sha256 {
                // The time of its last use; a folder that cannot be written to is still good to read.
                let _ = file.set_modified(SystemTime::now());
                return Ok(Some((file, sha256.to_string())));
            }
            fs::remove_file(entry.path())?;
        }
        Ok(None)
    }

    fn keep(&self, folder: &Path, key: &str, file: &File, unfinished: &Path) -> io::Result<String> {
        let sha256 = (self.hash)(file)?;
        // Whatever has its name must be whole, also after the host lost its power.
        file.sync_all()?;
        let path = folder.join(format!("{key}.{sha256}"));
        fs::rename(unfinished, &path)?;
        cache::sync(folder)?;
        self.make_room(&path)?;
        Ok(sha256)
    }

    /// Removes files, the longest unused first, until all together keep to the limit; `but` stays.
    fn make_room(&self, but: &Path) -> io::Result<()> {
        let mut all = self.whole()?;
        all.sort();
        let mut total: u64 = all.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in all.iter().filter(|(_, _, path)| path != but) {
            if total <= self.limit {
                break;
            }
            // Whoever has it open keeps it; another process may have removed it just now.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= size,
            }
        }
        Ok(())
    }

    /// Every file that is whole: last use, bytes on the host, path.
    fn whole(&self) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
        let mut all = Vec::new();
        for entry in self.entries()? {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(LOCK) || name.starts_with(UNFINISHED) {
                continue;
            }
            // Blocks of stat(2) are of 512 bytes; an image is sparse.
            if let Ok(metadata) = entry.metadata() {
                all.push((metadata.modified()?, metadata.blocks() * 512, entry.path()));
            }
        }
        Ok(all)
    }

    fn folder(&self) -> PathBuf {
        self.cache.path().join(self.name)
    }

    fn entries(&self) -> io::Result<Vec<fs::DirEntry>> {
        match fs::read_dir(self.folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?.collect(),
        }
    }

    /// What is there.
    ///
    /// # Errors
    /// A folder that cannot be read; one that is not there holds nothing.
    pub fn used(&self, what: &'static str) -> io::Result<KeptUse> {
        let whole = self.whole()?;
        let bytes = Bytes(whole.iter().map(|(_, size, _)| size).sum());
        let (folder, limit) = (self.folder(), Bytes(self.limit));
        Ok(KeptUse { what, folder, files: whole.len(), bytes, limit })
    }

    /// Removes every file that nobody is making; how many whole ones there were.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn clear(&self) -> io::Result<usize> {
        let whole = self.whole()?;
        whole.iter().try_for_each(|(_, _, path)| fs::remove_file(path))?;
        for entry in self.entries()? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(stripe) = name.strip_prefix(UNFINISHED) else { continue };
            let lock = lock_file(&self.folder().join(format!("{LOCK}{stripe}")))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(whole.len())
    }
}

/// Key and hash in the name of a file.
fn parts(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

/// A file to be locked, empty, made if need be.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::digest;

    fn write(bytes: &'static [u8]) -> impl FnMut(&File) -> Result<(), RunError> {
        move |mut file| file.write_all(bytes).map_err(host("write"))
    }

    fn never(_: &File) -> Result<(), RunError> {
        panic!("it was made again")
    }

    fn of(folder: &tempfile::TempDir, limit: u64) -> Kept {
        let cache = Cache::at(folder.path()).unwrap();
        Kept::new(&cache, "things", limit, digest::of_file)
    }

    fn text(mut file: &File) -> String {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_thing_is_made_once_and_found_again_with_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let kept = of(&folder, 1 << 30);
        let (_, made) = kept.get("key", &mut || true, &mut write(b"whole")).unwrap();
        let (file, found) = kept.get("key", &mut || true, &mut never).unwrap();
        assert_eq!((text(&file).as_str(), made), ("whole", found));
        kept.get("other", &mut || true, &mut write(b"else")).unwrap();
        assert_eq!(kept.used("things").unwrap().files, 2);
        assert_eq!(kept.clear().unwrap(), 2);
        assert_eq!(kept.used("things").unwrap().files, 0);
    }

    #[test]
    fn what_was_changed_since_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = of(&folder, 1 << 30);
        let (_, made) = kept.get("key", &mut || true, &mut write(b"#1 SMP")).unwrap();
        let path = kept.folder().join(format!("key.{made}"));
        fs::write(&path, "#9 PWN").unwrap();
        let (file, again) = kept.get("key", &mut || true, &mut write(b"#1 SMP")).unwrap();
        assert_eq!((text(&file).as_str(), again), ("#1 SMP", made));
        // As an earlier fsdyno named what it kept.
        fs::rename(&path, kept.folder().join("key")).unwrap();
        kept.get("key", &mut || true, &mut write(b"#1 SMP")).unwrap();
        assert!(path.exists() && !kept.folder().join("key").exists());
    }

    #[test]
    fn nothing_is_kept_of_what_failed_or_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = of(&folder, 1 << 30);
        let error = kept.get("key", &mut || true, &mut |_| Err(RunError::Stopped)).unwrap_err();
        assert!(matches!(error, RunError::Stopped));
        let left = kept.folder().join("unfinished-k");
        assert!(!left.exists());
        fs::write(&left, "of a killed maker, and longer than the next").unwrap();
        let (file, _) = kept.get("key", &mut || true, &mut write(b"whole")).unwrap();
        assert_eq!(text(&file), "whole");
        assert!(!left.exists());
        fs::write(&left, "of a killed maker").unwrap();
        assert_eq!(kept.clear().unwrap(), 1);
        assert!(!left.exists());
    }

    #[test]
    fn two_who_need_the_same_one_make_it_once_and_who_is_stopped_waits_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let kept = of(&folder, 1 << 30);
        let makes = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut make = |file: &File| {
                        makes.fetch_add(1, Ordering::Relaxed);
                        let stopped = kept.get("key", &mut || false, &mut never).unwrap_err();
                        assert!(matches!(stopped, RunError::Stopped));
                        write(b"one")(file)
                    };
                    let (file, _) = kept.get("key", &mut || true, &mut make).unwrap();
                    assert_eq!(text(&file), "one");
                });
            }
        });
        assert_eq!(makes.into_inner(), 1);
    }

    #[test]
    fn the_longest_unused_go_first_and_the_newest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let kept = of(&folder, 200 << 10);
        let folder = kept.cache.folder("things").unwrap();
        for (age, name) in [(30, "b"), (20, "a"), (10, "c"), (40, "new")] {
            let mut file = File::create(folder.join(name)).unwrap();
            file.write_all(&[1; 100 << 10]).unwrap();
            file.sync_all().unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        kept.make_room(&folder.join("new")).unwrap();
        let left = |name: &str| folder.join(name).exists();
        assert_eq!(["b", "a", "c", "new"].map(left), [false, false, true, true]);
    }
}
