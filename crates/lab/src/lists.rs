//! Package lists of archives in the cache folder, for kernels that the system's own lists lack.
//!
//! apt fetches them and checks their signatures. Their kernel packages are stored in a file next to them, which begins
//! with its own SHA-256 and the time of the fetch, and is used for a day. A file that does not match its hash is not
//! used, and downloaded packages are verified against the hashes in it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fsdyno_record::bounded::{self, PARTS};
use fsdyno_record::canonical::sha256_hex;
use fsdyno_record::units::Bytes;
use rustix::fs::{FlockOperation, flock};

use crate::apt::Apt;
use crate::archive::Archive;
use crate::cache::{self, Cache};
use crate::error::LabError;
use crate::file_cache::{CacheUse, lock_file};
use crate::packages::Packages;

/// The age at which lists are fetched again.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// The cache folder of all lists.
const FOLDER: &str = "apt";

/// The lock file in the folder of an archive's lists; apt uses the same name in the folders below it.
const LOCK: &str = "lock";

/// The file of the kernel packages in the folder of an archive.
const KERNELS: &str = "kernels";

/// Fetched lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// The apt that uses these lists.
    pub apt: Apt,
    /// The archive that the lists come from.
    pub archive: Archive,
    /// The packages in them.
    pub packages: Packages,
    fetched: SystemTime,
}

impl Lists {
    /// Returns the lists that were fetched last, or `None` if they are damaged, or come from different suites or a
    /// different mirror.
    ///
    /// # Errors
    /// [`LabError::UnsafeCache`].
    pub fn cached(archive: Archive, cache: &Cache) -> Result<Option<Lists>, LabError> {
        let folder = cache.folder(archive.folder())?;
        let Ok(text) = bounded::read_to_string(&folder.join(KERNELS), &PARTS) else {
            return Ok(None);
        };
        let found = read(&text, &archive.sources(&folder));
        Ok(found.map(|(fetched, packages)| {
            let fetched = SystemTime::UNIX_EPOCH + Duration::from_secs(fetched);
            Lists { apt: Apt::in_folder(&folder), archive, packages, fetched }
        }))
    }

    /// Fetches the lists.
    ///
    /// # Errors
    /// [`LabError::UnsafeCache`]; [`LabError::NoKernel`] if apt cannot read any.
    pub fn fetch(archive: Archive, cache: &Cache, say: &dyn Fn(&str)) -> Result<Lists, LabError> {
        let folder = cache.folder(archive.folder())?;
        let start = SystemTime::now();
        let _lock = lock(&folder)?;
        // Another process may have fetched them while this one waited.
        if let Some(lists) = Lists::cached(archive, cache)?.filter(|lists| lists.fetched > start) {
            return Ok(lists);
        }
        for sub in ["lists/partial", "cache/archives/partial"] {
            cache.folder(&format!("{}/{sub}", archive.folder()))?;
        }
        let sources = archive.sources(&folder);
        let put = |name: &str, text: &str| {
            let result = cache::put(&folder, name, text.as_bytes());
            result.map_err(LabError::io("write", &folder.join(name)))
        };
        put("sources.list", &sources)?;
        say(&format!("reading the package lists of {}", archive.mirror()));
        let apt = Apt::in_folder(&folder);
        let packages = apt.update(say).and_then(|()| apt.packages()).map_err(LabError::NoKernel)?;
        let fetched = SystemTime::now();
        let seconds = fetched.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        put(KERNELS, &text(seconds, &sources, &packages))?;
        Ok(Lists { apt, archive, packages, fetched })
    }

    /// Returns true if the lists are recent. A time in the future comes from a wrong clock and is not recent.
    pub fn are_recent(&self) -> bool {
        self.fetched.elapsed().is_ok_and(|age| age < RECENT)
    }

    /// Returns true if the lists are older than this.
    pub fn are_older_than(&self, age: Duration) -> bool {
        self.fetched.elapsed().is_ok_and(|elapsed| elapsed > age)
    }

    /// Returns the age of the lists as text: `26 hours`.
    pub fn age(&self) -> String {
        let hours = self.fetched.elapsed().unwrap_or_default().as_secs() / 3600;
        match hours {
            0 => "less than an hour".into(),
            1 => "an hour".into(),
            2..48 => format!("{hours} hours"),
            _ => format!("{} days", hours / 24),
        }
    }
}

/// Returns the usage of the lists and of the files that apt keeps with them.
///
/// # Errors
/// A folder that cannot be read.
pub fn used(cache: &Cache) -> io::Result<CacheUse> {
    let folder = cache.folder(FOLDER).map_err(io::Error::other)?;
    let (files, bytes) = sizes(&folder)?;
    Ok(CacheUse { what: "package lists", folder, files, bytes: Bytes(bytes), limit: None })
}

/// Removes the lists and the files that apt keeps with them, and returns the number of removed files. Waits until no
/// other process is fetching lists.
///
/// # Errors
/// A file that cannot be removed.
pub fn clear(cache: &Cache) -> io::Result<usize> {
    let folder = cache.folder(FOLDER).map_err(io::Error::other)?;
    let _lock = lock(&folder).map_err(io::Error::other)?;
    let (files, _) = sizes(&folder)?;
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(files)
}

/// Returns the number of files in a folder and their size in bytes, excluding lock files.
fn sizes(folder: &Path) -> io::Result<(usize, u64)> {
    let mut sum = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (files, bytes) = match entry.metadata()? {
            metadata if metadata.is_dir() => sizes(&entry.path())?,
            metadata if entry.file_name() != LOCK => (1, metadata.len()),
            _ => (0, 0),
        };
        sum = (sum.0 + files, sum.1 + bytes);
    }
    Ok(sum)
}

/// Locks a folder against other processes that fetch lists into it, and waits for them if necessary.
fn lock(folder: &Path) -> Result<File, LabError> {
    let path = folder.join(LOCK);
    let file = lock_file(&path).map_err(LabError::io("open", &path))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| LabError::io("lock", &path)(error.into()))?;
    Ok(file)
}

/// Returns the contents of the stored file: its hash, the time, the sources, the packages.
fn text(fetched: u64, sources: &str, packages: &Packages) -> String {
    let rest = format!("{fetched}\n{sources}\n{}", packages.list());
    format!("{}\n{rest}", sha256_hex(rest.as_bytes()))
}

/// Returns the time and the packages of a stored file, if it is undamaged and was made from these sources.
fn read(text: &str, sources: &str) -> Option<(u64, Packages)> {
    let (hash, rest) = text.split_once('\n')?;
    if sha256_hex(rest.as_bytes()) != hash {
        return None;
    }
    let (fetched, rest) = rest.split_once('\n')?;
    let list = rest.strip_prefix(sources)?.strip_prefix('\n')?;
    Some((fetched.parse().ok()?, Packages::read(list)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::packages::tests::{SPLIT, list};

    /// Stores a list in a cache, as if it had been fetched some time ago.
    pub fn keep(cache: &Cache, list: &str, ago: Duration) {
        let fetched = (SystemTime::now() - ago).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let folder = cache.folder(FOLDER).unwrap();
        let text =
            text(fetched.as_secs(), &Archive::Debian.sources(&folder), &Packages::read(list));
        cache::put(&folder, KERNELS, text.as_bytes()).unwrap();
    }

    #[test]
    fn clearing_removes_the_lists_and_the_files_that_apt_keeps() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        keep(&cache, &list(&SPLIT), Duration::ZERO);
        let archives = cache.folder("apt/cache/archives").unwrap();
        fs::write(archives.join("linux-image.deb"), "a package").unwrap();
        fs::write(archives.join(LOCK), "").unwrap();
        let usage = used(&cache).unwrap();
        assert!(usage.files == 2 && usage.bytes > Bytes(9), "{usage:?}");
        assert_eq!(clear(&cache).unwrap(), 2);
        assert_eq!(Lists::cached(Archive::Debian, &cache).unwrap(), None);
        let usage = used(&cache).unwrap();
        assert_eq!((usage.files, usage.bytes, clear(&cache).unwrap()), (0, Bytes(0), 0));
    }

    #[test]
    fn lists_are_recent_for_a_day_and_report_their_age() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        assert_eq!(Lists::cached(Archive::Debian, &cache).unwrap(), None);
        let hour = Duration::from_secs(3600);
        for (ago, recent, age) in [
            (hour / 2, true, "less than an hour"),
            (hour * 23, true, "23 hours"),
            (hour * 25, false, "25 hours"),
            (hour * 24 * 9, false, "9 days"),
        ] {
            keep(&cache, &list(&SPLIT), ago);
            let lists = Lists::cached(Archive::Debian, &cache).unwrap().unwrap();
            assert_eq!((lists.are_recent(), lists.age().as_str()), (recent, age));
            assert_eq!(lists.packages, Packages::read(&list(&SPLIT)));
        }
        let ahead = SystemTime::now() + hour;
        let lists =
            Lists { fetched: ahead, ..Lists::cached(Archive::Debian, &cache).unwrap().unwrap() };
        assert!(!lists.are_recent());
    }

    #[test]
    fn an_altered_list_or_one_of_other_suites_is_not_used() {
        let packages = Packages::read(&list(&SPLIT));
        let stored = text(7, "deb x\n", &packages);
        assert_eq!(read(&stored, "deb x\n"), Some((7, packages)));
        assert_eq!(read(&stored, "deb y\n"), None);
        assert_eq!(read(&stored[..stored.len() - 20], "deb x\n"), None);
        for (from, to) in [("5e\n", "5f\n"), ("7\n", "8\n"), ("-base-", "-bass-")] {
            let (hash, rest) = stored.split_once('\n').unwrap();
            let altered = rest.replacen(from, to, 1);
            assert_ne!(altered, rest);
            assert_eq!(read(&format!("{hash}\n{altered}"), "deb x\n"), None, "{from}");
        }
    }
}
