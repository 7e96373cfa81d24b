//! A cache of files that are expensive to create, kept between runs: guest snapshots, prepared disk images.
//!
//! It is a folder with one file per item, named `KEY.HASH`: the key identifies the item's inputs, the hash its
//! contents. A file gets its name only once it is complete and persisted, and is used only if it still matches its
//! hash; otherwise it is removed and created again. A process that needs an item that another process is creating waits
//! for it. The total size is limited, and the least recently used files are removed first. Any file may be removed at
//! any time.

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

/// The prefix of the files that are locked while an item is looked up or created: one per first digit of a key, so
/// that different items can be created in parallel.
const LOCK: &str = "lock";

/// The prefix of unfinished files; a file left by a killed process is replaced by the next one that takes its lock.
const UNFINISHED: &str = "unfinished";

/// The interval between attempts to take a lock.
const PERIOD: Duration = Duration::from_millis(20);

/// A folder of cached files.
#[derive(Clone, Debug)]
pub struct FileCache {
    cache: Cache,
    /// The folder's name in the cache.
    name: &'static str,
    /// The limit of the files' total size on the host, in bytes.
    limit: u64,
    /// The function that computes the hash of a file's contents.
    hash: fn(&File) -> io::Result<String>,
}

/// The usage of a folder of cached files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// The kind of files, in the plural.
    pub what: &'static str,
    /// The folder.
    pub folder: PathBuf,
    /// The number of files.
    pub files: usize,
    /// Their total size on the host.
    pub bytes: Bytes,
    /// The limit of their total size, if there is one.
    pub limit: Option<Bytes>,
}

/// Returns a function that creates a [`RunError::Host`], for `map_err`.
fn host_error(action: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::Host { action, error }
}

impl FileCache {
    /// Opens a folder of the cache, limited to `limit` bytes; `hash` computes the hash of a file.
    pub fn new(
        cache: &Cache,
        name: &'static str,
        limit: u64,
        hash: fn(&File) -> io::Result<String>,
    ) -> FileCache {
        FileCache { cache: cache.clone(), name, limit, hash }
    }

    /// Returns the file under `key` and the hash of its contents; if it is missing, `make` writes it. While another
    /// process holds the lock, `go_on` is polled; if it returns false, the call fails.
    ///
    /// # Errors
    /// Errors from `make` and from the host, and [`RunError::Stopped`].
    pub fn get<E: From<RunError>>(
        &self,
        key: &str,
        go_on: &mut dyn FnMut() -> bool,
        make: &mut dyn FnMut(&File) -> Result<(), E>,
    ) -> Result<(File, String), E> {
        let folder = self.cache.folder(self.name).map_err(RunError::Cache)?;
        let stripe: String = key.chars().take(1).collect();
        let lock = lock_file(&folder.join(format!("{LOCK}-{stripe}")))
            .map_err(host_error("lock the cache"))?;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            match error {
                Errno::WOULDBLOCK if go_on() => std::thread::sleep(PERIOD),
                Errno::WOULDBLOCK => return Err(RunError::Stopped.into()),
                error => return Err(host_error("lock the cache")(error.into()).into()),
            }
        }
        if let Some(found) = self.find(&folder, key).map_err(host_error("read the cache"))? {
            return Ok(found);
        }
        let unfinished = folder.join(format!("{UNFINISHED}-{stripe}"));
        // A killed process may have left a file; no process reads it.
        let _ = fs::remove_file(&unfinished);
        let create = || File::options().read(true).write(true).create_new(true).open(&unfinished);
        let file = create().map_err(host_error("write into the cache"))?;
        let result = make(&file).and_then(|()| {
            let stored = self.store(&folder, key, &file, &unfinished);
            Ok((file, stored.map_err(host_error("store a file in the cache"))?))
        });
        if result.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        result
    }

    /// Returns true if there is a file under `key`; its contents are not compared with its hash.
    pub fn contains(&self, key: &str) -> bool {
        let names = self.entries().unwrap_or_default().into_iter().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_str().is_some_and(|name| split_name(name).0 == key))
    }

    /// Finds the file under a key that still matches its hash, and removes those that do not.
    fn find(&self, folder: &Path, key: &str) -> io::Result<Option<(File, String)>> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((found, sha256)) = name.to_str().map(split_name) else { continue };
            if found != key {
                continue;
            }
            let file =
                File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(entry.path())?;
            if (self.hash)(&file)? == sha256 {
                // Records the time of last use. A failure is ignored, because a read-only folder is usable too.
                let _ = file.set_modified(SystemTime::now());
                return Ok(Some((file, sha256.to_string())));
            }
            fs::remove_file(entry.path())?;
        }
        Ok(None)
    }

    fn store(
        &self,
        folder: &Path,
        key: &str,
        file: &File,
        unfinished: &Path,
    ) -> io::Result<String> {
        let sha256 = (self.hash)(file)?;
        // A file must be complete once it has its name, even after a power cut of the host.
        file.sync_all()?;
        let path = folder.join(format!("{key}.{sha256}"));
        fs::rename(unfinished, &path)?;
        cache::sync_directory(folder)?;
        self.evict(&path)?;
        Ok(sha256)
    }

    /// Removes the least recently used files until the total size is within the limit; `keep` is not removed.
    fn evict(&self, keep: &Path) -> io::Result<()> {
        let mut files = self.complete()?;
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files.iter().filter(|(_, _, path)| path != keep) {
            if total <= self.limit {
                break;
            }
            // Processes that have the file open can still use it; another process may just have removed it.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= size,
            }
        }
        Ok(())
    }

    /// Returns all complete files: last use, bytes on the host, path.
    fn complete(&self) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
        let mut files = Vec::new();
        for entry in self.entries()? {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(LOCK) || name.starts_with(UNFINISHED) {
                continue;
            }
            // stat(2) counts blocks of 512 bytes; the length would be wrong, because an image is sparse.
            if let Ok(metadata) = entry.metadata() {
                files.push((metadata.modified()?, metadata.blocks() * 512, entry.path()));
            }
        }
        Ok(files)
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

    /// Returns the usage of the folder.
    ///
    /// # Errors
    /// A folder that cannot be read; a missing one is empty.
    pub fn used(&self, what: &'static str) -> io::Result<CacheUse> {
        let files = self.complete()?;
        let bytes = Bytes(files.iter().map(|(_, size, _)| size).sum());
        let (folder, limit) = (self.folder(), Some(Bytes(self.limit)));
        Ok(CacheUse { what, folder, files: files.len(), bytes, limit })
    }

    /// Removes every file except those that a process is creating, and returns the number of complete files removed.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn clear(&self) -> io::Result<usize> {
        let files = self.complete()?;
        files.iter().try_for_each(|(_, _, path)| fs::remove_file(path))?;
        for entry in self.entries()? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(stripe) = name.strip_prefix(UNFINISHED) else { continue };
            let lock = lock_file(&self.folder().join(format!("{LOCK}{stripe}")))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(files.len())
    }
}

/// Splits the name of a file into key and hash.
fn split_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

/// Opens a lock file, creating it if necessary.
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
        move |mut file| file.write_all(bytes).map_err(host_error("write"))
    }

    fn never(_: &File) -> Result<(), RunError> {
        panic!("it was created again")
    }

    fn file_cache(folder: &tempfile::TempDir, limit: u64) -> FileCache {
        let cache = Cache::at(folder.path()).unwrap();
        FileCache::new(&cache, "things", limit, digest::of_file)
    }

    fn text(mut file: &File) -> String {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn an_item_is_created_once_and_found_again_with_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&folder, 1 << 30);
        assert!(!files.contains("key"));
        let (_, made) = files.get("key", &mut || true, &mut write(b"whole")).unwrap();
        let (file, found) = files.get("key", &mut || true, &mut never).unwrap();
        assert!(files.contains("key") && !files.contains("ke"));
        assert_eq!((text(&file).as_str(), made), ("whole", found));
        files.get("other", &mut || true, &mut write(b"else")).unwrap();
        assert_eq!(files.used("things").unwrap().files, 2);
        assert_eq!(files.clear().unwrap(), 2);
        assert_eq!(files.used("things").unwrap().files, 0);
    }

    #[test]
    fn a_changed_file_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&folder, 1 << 30);
        let (_, hash) = files.get("key", &mut || true, &mut write(b"#1 SMP")).unwrap();
        let path = files.folder().join(format!("key.{hash}"));
        fs::write(&path, "#9 PWN").unwrap();
        let (file, again) = files.get("key", &mut || true, &mut write(b"#1 SMP")).unwrap();
        assert_eq!((text(&file).as_str(), again), ("#1 SMP", hash));
        // The name that an earlier fsdyno gave it.
        fs::rename(&path, files.folder().join("key")).unwrap();
        files.get("key", &mut || true, &mut write(b"#1 SMP")).unwrap();
        assert!(path.exists() && !files.folder().join("key").exists());
    }

    #[test]
    fn a_failed_or_killed_process_stores_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&folder, 1 << 30);
        let error = files.get("key", &mut || true, &mut |_| Err(RunError::Stopped)).unwrap_err();
        assert!(matches!(error, RunError::Stopped));
        let unfinished = files.folder().join("unfinished-k");
        assert!(!unfinished.exists());
        fs::write(&unfinished, "of a killed maker, and longer than the next").unwrap();
        let (file, _) = files.get("key", &mut || true, &mut write(b"whole")).unwrap();
        assert_eq!(text(&file), "whole");
        assert!(!unfinished.exists());
        fs::write(&unfinished, "of a killed maker").unwrap();
        assert_eq!(files.clear().unwrap(), 1);
        assert!(!unfinished.exists());
    }

    #[test]
    fn concurrent_users_create_an_item_once_and_a_stopped_one_does_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&folder, 1 << 30);
        let makes = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut make = |file: &File| {
                        makes.fetch_add(1, Ordering::Relaxed);
                        let stopped = files.get("key", &mut || false, &mut never).unwrap_err();
                        assert!(matches!(stopped, RunError::Stopped));
                        write(b"one")(file)
                    };
                    let (file, _) = files.get("key", &mut || true, &mut make).unwrap();
                    assert_eq!(text(&file), "one");
                });
            }
        });
        assert_eq!(makes.into_inner(), 1);
    }

    #[test]
    fn the_least_recently_used_are_removed_first_and_the_newest_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&folder, 200 << 10);
        let folder = files.cache.folder("things").unwrap();
        for (age, name) in [(30, "b"), (20, "a"), (10, "c"), (40, "new")] {
            let mut file = File::create(folder.join(name)).unwrap();
            file.write_all(&[1; 100 << 10]).unwrap();
            file.sync_all().unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        files.evict(&folder.join("new")).unwrap();
        let exists = |name: &str| folder.join(name).exists();
        assert_eq!(["b", "a", "c", "new"].map(exists), [false, false, true, true]);
    }
}
