//! What is costly to make and kept between runs: snapshots of guests, images of disks.
//!
//! A folder with one file for each thing, named `KEY` or `KEY.SUFFIX`; the key says what decides it.
//! A file appears under its name only when it is whole and on the medium, so a torn one is never
//! used. Who needs what another process is making waits for it. All together take a limit at most,
//! and the ones used longest ago go first. Any of them may be removed at any time.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fsdyno_record::Bytes;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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
    folder: PathBuf,
    /// How much all of them may take on the host, in bytes.
    limit: u64,
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
    /// The files in `folder`, which together may take `limit` bytes.
    pub fn new(folder: PathBuf, limit: u64) -> Kept {
        Kept { folder, limit }
    }

    /// The file kept under `key` and the suffix of its name; if there is none, `make` writes it and
    /// gives the suffix. `go_on` is asked while another is waited for.
    ///
    /// # Errors
    /// What `make` reports, what the host refuses, and [`RunError::Stopped`].
    pub fn get<E: From<RunError>>(
        &self,
        key: &str,
        go_on: &mut dyn FnMut() -> bool,
        make: &mut dyn FnMut(&File) -> Result<String, E>,
    ) -> Result<(File, String), E> {
        fs::create_dir_all(&self.folder).map_err(host("make a folder of the cache"))?;
        let stripe: String = key.chars().take(1).collect();
        let lock = File::create(self.folder.join(format!("{LOCK}-{stripe}")))
            .map_err(host("lock the cache"))?;
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            match error {
                Errno::WOULDBLOCK if go_on() => std::thread::sleep(PERIOD),
                Errno::WOULDBLOCK => return Err(RunError::Stopped.into()),
                error => return Err(host("lock the cache")(error.into()).into()),
            }
        }
        if let Some(found) = self.find(key).map_err(host("look into the cache"))? {
            return Ok(found);
        }
        let unfinished = self.folder.join(format!("{UNFINISHED}-{stripe}"));
        // A killed maker may have left one; a reader of that file cannot exist.
        let _ = fs::remove_file(&unfinished);
        let create = || File::options().read(true).write(true).create_new(true).open(&unfinished);
        let file = create().map_err(host("write into the cache"))?;
        let made = make(&file).and_then(|suffix| {
            let kept = self.keep(key, &suffix, &file, &unfinished);
            kept.map_err(host("keep a file in the cache"))?;
            Ok((file, suffix))
        });
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made
    }

    fn find(&self, key: &str) -> io::Result<Option<(File, String)>> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let (found, suffix) = name.split_once('.').unwrap_or((name, ""));
            if found == key {
                let file = File::open(entry.path())?;
                // The time of its last use; a folder that cannot be written to is still good to read.
                let _ = file.set_modified(SystemTime::now());
                return Ok(Some((file, suffix.to_string())));
            }
        }
        Ok(None)
    }

    fn keep(&self, key: &str, suffix: &str, file: &File, unfinished: &Path) -> io::Result<()> {
        // Whatever has its name must be whole, also after the host lost its power.
        file.sync_all()?;
        let dot = if suffix.is_empty() { "" } else { "." };
        let path = self.folder.join(format!("{key}{dot}{suffix}"));
        fs::rename(unfinished, &path)?;
        self.make_room(&path)
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

    fn entries(&self) -> io::Result<Vec<fs::DirEntry>> {
        match fs::read_dir(&self.folder) {
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
        let (folder, limit) = (self.folder.clone(), Bytes(self.limit));
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
            let lock = File::create(self.folder.join(format!("{LOCK}{stripe}")))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(whole.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn write(bytes: &'static [u8]) -> impl FnMut(&File) -> Result<String, RunError> {
        move |mut file| {
            file.write_all(bytes).map_err(host("write"))?;
            Ok("suffix".into())
        }
    }

    fn never(_: &File) -> Result<String, RunError> {
        panic!("it was made again")
    }

    fn text(folder: &Path, name: &str) -> String {
        let mut text = String::new();
        File::open(folder.join(name)).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_thing_is_made_once_and_found_again_with_its_suffix() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path().into(), 1 << 30);
        let (_, made) = kept.get("key", &mut || true, &mut write(b"whole")).unwrap();
        let (_, found) = kept.get("key", &mut || true, &mut never).unwrap();
        assert_eq!((made.as_str(), found.as_str()), ("suffix", "suffix"));
        assert_eq!(text(folder.path(), "key.suffix"), "whole");
        kept.get("other", &mut || true, &mut write(b"else")).unwrap();
        assert_eq!(kept.used("things").unwrap().files, 2);
        assert_eq!(kept.clear().unwrap(), 2);
        assert_eq!(kept.used("things").unwrap().files, 0);
    }

    #[test]
    fn nothing_is_kept_of_what_failed_or_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path().into(), 1 << 30);
        let error = kept.get("key", &mut || true, &mut |_| Err(RunError::Stopped)).unwrap_err();
        assert!(matches!(error, RunError::Stopped));
        let left = folder.path().join("unfinished-k");
        assert!(!left.exists());
        fs::write(&left, "of a killed maker, and longer than the next").unwrap();
        kept.get("key", &mut || true, &mut write(b"whole")).unwrap();
        assert_eq!(text(folder.path(), "key.suffix"), "whole");
        assert!(!left.exists());
        fs::write(&left, "of a killed maker").unwrap();
        assert_eq!(kept.clear().unwrap(), 1);
        assert!(!left.exists());
    }

    #[test]
    fn two_who_need_the_same_one_make_it_once_and_who_is_stopped_waits_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path().into(), 1 << 30);
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
                    kept.get("key", &mut || true, &mut make).unwrap();
                });
            }
        });
        assert_eq!((makes.into_inner(), text(folder.path(), "key.suffix").as_str()), (1, "one"));
    }

    #[test]
    fn the_longest_unused_go_first_and_the_newest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::new(folder.path().into(), 200 << 10);
        for (age, name) in [(30, "b"), (20, "a"), (10, "c"), (40, "new")] {
            let mut file = File::create(folder.path().join(name)).unwrap();
            file.write_all(&[1; 100 << 10]).unwrap();
            file.sync_all().unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        kept.make_room(&folder.path().join("new")).unwrap();
        let left = |name: &str| folder.path().join(name).exists();
        assert_eq!(["b", "a", "c", "new"].map(left), [false, false, true, true]);
    }
}
