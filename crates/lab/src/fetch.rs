//! Downloads a kernel of the distribution with apt, as any user: its packages are downloaded to the cache folder and
//! unpacked there. The system's own package lists are only read; a release that they lack is searched for in lists of
//! Debian's suites, or of Ubuntu's suite for a full Ubuntu release.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use fsdyno_record::Bytes;
use tempfile::TempDir;

use crate::apt::{self, Apt};
use crate::archive::{Archive, KEYRING, UBUNTU_KEYS};
use crate::cache::{self, Cache};
use crate::error::LabError;
use crate::kernel_root;
use crate::lists::Lists;
use crate::packages::{KernelPackages, META_PACKAGES, Package};

/// The path of Ubuntu's public keys in the Debian package that contains them.
const UBUNTU_KEYRING: &str = "usr/share/keyrings/ubuntu-archive-keyring.gpg";

/// Downloads the kernel whose release begins with `request`, or the distribution's default, and returns its
/// release, its archive and the folder below `cache` into which it was unpacked.
///
/// # Errors
/// [`LabError::NoKernel`] with apt's message.
pub fn kernel(
    request: Option<&str>,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<(String, Archive, TempDir), LabError> {
    let mut found = find(request, cache, say)?;
    let mut unpacked = found.unpack(cache, say);
    // A mirror may have removed packages that cached lists still contain.
    if let (Err(_), Some(request), true) = (&unpacked, request, found.from_cached_lists)
        && let Ok(lists) = lists(Archive::of(request), cache, say)
    {
        found = found.find_again(&lists, request, say)?;
        unpacked = found.unpack(cache, say);
    }
    Ok((found.kernel.release, found.archive, unpacked?))
}

/// Returns the release that [`kernel`] would download.
///
/// # Errors
/// [`LabError::NoKernel`] if no list contains one.
pub fn release(
    request: Option<&str>,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<String, LabError> {
    Ok(find(request, cache, say)?.kernel.release)
}

/// A kernel found in package lists.
struct Found {
    apt: Apt,
    /// The kernel's archive; `Debian` for the system's own lists, whatever the distribution.
    archive: Archive,
    kernel: KernelPackages,
    /// The series of the kernels in the lists.
    series: String,
    /// True if the lists were fetched by an earlier run.
    from_cached_lists: bool,
}

/// Searches for a kernel in the system's lists, and then in those of the archive that a request implies.
fn find(request: Option<&str>, cache: &Cache, say: &dyn Fn(&str)) -> Result<Found, LabError> {
    let apt = Apt::of_system();
    let packages = apt.packages();
    let found = packages.as_ref().ok().and_then(|packages| match request {
        Some(request) => packages.newest(request),
        None => packages.default_kernel(),
    });
    let found = match (found, packages, request) {
        (Some(kernel), Ok(packages), _) => Found {
            apt,
            archive: Archive::Debian,
            kernel,
            series: packages.series(),
            from_cached_lists: false,
        },
        (_, _, Some(request)) => {
            let archive = Archive::of(request);
            find_in_suites(
                request,
                Lists::cached(archive, cache)?,
                &|| lists(archive, cache, say),
                say,
            )?
        }
        (_, Err(why), None) => return Err(LabError::NoKernel(why)),
        (None, Ok(_), None) => {
            let metas = META_PACKAGES.join(", ");
            return Err(LabError::NoKernel(format!("apt knows none of {metas}")));
        }
    };
    let KernelPackages { release, missing, .. } = &found.kernel;
    if !missing.is_empty() {
        let missing = missing.join(", ");
        say(&format!("the package lists lack parts of kernel {release}: {missing}"));
    }
    Ok(found)
}

/// Returns the kernels in Debian's suites that have all their packages, newest first. Lists from the last day are used
/// as they are; older ones are fetched again, and are used only if that fails.
///
/// # Errors
/// [`LabError::NoKernel`] if there are no lists and none can be fetched.
pub fn available(cache: &Cache, say: &dyn Fn(&str)) -> Result<Vec<KernelPackages>, LabError> {
    debian(cache, say).map(|it| it.packages.complete_kernels())
}

/// Downloads packages from Debian's suites by name; returns the folder below `cache` into which they were unpacked,
/// and one comment line per package with its version and hash.
///
/// # Errors
/// [`LabError::NoKernel`] with the names that are in no list, or with apt's message.
pub fn packages(
    names: &[String],
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<(TempDir, String), LabError> {
    let attempt = |lists: &Lists| match lists.packages.named(names) {
        Ok(packages) => unpack(&lists.apt, &packages, cache, say).map(|it| (it, packages)),
        Err(missing) => Err(LabError::NoKernel(format!(
            "{} left Debian's archive: it is in none of {}",
            missing.join(", "),
            lists.archive.suites()
        ))),
    };
    let lists = debian(cache, say)?;
    // Cached lists may contain packages that a mirror has since removed, or may lack new ones.
    let found = attempt(&lists).or_else(|_| attempt(&Lists::fetch(Archive::Debian, cache, say)?));
    let (folder, packages) = found?;
    let line = |it: &Package| format!("# {} {} {}\n", it.name, it.version, it.sha256);
    Ok((folder, packages.iter().map(line).collect()))
}

/// Returns the lists of Debian's suites: those in the cache if they are from the last day, or else new ones.
///
/// # Errors
/// [`LabError::NoKernel`] if there are no lists and none can be fetched.
pub fn debian(cache: &Cache, say: &dyn Fn(&str)) -> Result<Lists, LabError> {
    let fetch = || Lists::fetch(Archive::Debian, cache, say);
    recent(Lists::cached(Archive::Debian, cache)?, &fetch, say)
}

/// Fetches the lists of an archive, after its keys if the system's apt does not have them.
fn lists(archive: Archive, cache: &Cache, say: &dyn Fn(&str)) -> Result<Lists, LabError> {
    if archive == Archive::Ubuntu {
        let keys = cache.folder(archive.folder())?.join(KEYRING);
        if !keys.is_file() {
            fetch_keys(&keys, cache, say)?;
        }
    }
    Lists::fetch(archive, cache, say)
}

/// Copies Ubuntu's public keys out of the Debian package that contains them.
fn fetch_keys(to: &Path, cache: &Cache, say: &dyn Fn(&str)) -> Result<(), LabError> {
    let (root, _) = packages(&[UBUNTU_KEYS.to_string()], cache, say)?;
    let from = root.path().join(UBUNTU_KEYRING);
    let keys = fs::read(&from).map_err(LabError::io("read", &from))?;
    let (folder, name) = (to.parent().unwrap_or(to), KEYRING);
    cache::put(folder, name, &keys).map_err(LabError::io("write", to))
}

/// Downloads packages and unpacks them into one folder below the cache.
fn unpack(
    apt: &Apt,
    packages: &[Package],
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<TempDir, LabError> {
    let [folder, root] = [temporary_in(cache)?, temporary_in(cache)?];
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let size = Bytes(packages.iter().map(|package| package.size).sum());
    say(&format!("downloading {} ({size})", names.join(", ")));
    let files = apt.download(packages, folder.path()).map_err(LabError::NoKernel)?;
    for file in files {
        let mut unpack = Command::new("dpkg-deb");
        unpack.args(["-x", "/proc/self/fd/0"]).arg(root.path()).env("LC_ALL", "C").stdin(file);
        let failed = |why: String| LabError::NoKernel(format!("dpkg-deb -x failed: {why}"));
        let output = unpack.output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(apt::last_line(&output.stderr)));
        }
    }
    Ok(root)
}

/// Returns the cached lists if they are from the last day, or else fetched ones, or else the older cached ones.
fn recent(
    cached: Option<Lists>,
    fetch: &dyn Fn() -> Result<Lists, LabError>,
    say: &dyn Fn(&str),
) -> Result<Lists, LabError> {
    match cached {
        Some(lists) if lists.are_recent() => Ok(lists),
        cached => fetch_or_cached(cached, fetch, say).map(|(lists, _)| lists),
    }
}

/// Returns fetched lists, or else the cached ones after a message, and whether they are the cached ones.
fn fetch_or_cached(
    cached: Option<Lists>,
    fetch: &dyn Fn() -> Result<Lists, LabError>,
    say: &dyn Fn(&str),
) -> Result<(Lists, bool), LabError> {
    match (fetch(), cached) {
        (Ok(lists), _) => Ok((lists, false)),
        (Err(why @ LabError::NoKernel(_)), Some(lists)) => {
            say(&format!("failed to {why}; using the package lists of {} ago", lists.age()));
            Ok((lists, true))
        }
        (Err(why), _) => Err(why),
    }
}

/// Searches for a kernel in the cached lists if they are recent, and then in those that `fetch` downloads.
fn find_in_suites(
    request: &str,
    cached: Option<Lists>,
    fetch: &dyn Fn() -> Result<Lists, LabError>,
    say: &dyn Fn(&str),
) -> Result<Found, LabError> {
    let recent = cached.as_ref().filter(|lists| lists.are_recent());
    if let Some(Ok(found)) = recent.map(|lists| Found::in_lists(lists, request, true))
        && found.kernel.missing.is_empty()
    {
        return Ok(found);
    }
    let (lists, from_cache) = fetch_or_cached(cached, fetch, say)?;
    Found::in_lists(&lists, request, from_cache)
}

impl Found {
    fn in_lists(lists: &Lists, request: &str, from_cached_lists: bool) -> Result<Found, LabError> {
        let Lists { apt, archive, packages, .. } = lists;
        let (apt, archive, series) = (apt.clone(), *archive, packages.series());
        match packages.newest(request) {
            Some(kernel) => Ok(Found { apt, archive, kernel, series, from_cached_lists }),
            None => Err(LabError::NoKernel(format!(
                "no kernel {request} is available; {}'s {} have {series}",
                lists.archive.name(),
                lists.archive.suites()
            ))),
        }
    }

    /// Searches for the kernel in lists that were fetched later: the archive may now have a different kernel of the
    /// series, or none.
    fn find_again(
        &self,
        lists: &Lists,
        request: &str,
        say: &dyn Fn(&str),
    ) -> Result<Found, LabError> {
        let (old, archive) = (&self.kernel.release, lists.archive.name());
        match Found::in_lists(lists, request, false) {
            Ok(found) if found.kernel.release != *old => {
                let new = &found.kernel.release;
                say(&format!("the kernel {old} has left {archive}'s archive; downloading {new}"));
                Ok(found)
            }
            Err(LabError::NoKernel(why)) => Err(LabError::NoKernel(format!(
                "the kernel {old} has left {archive}'s archive: {why}"
            ))),
            other => other,
        }
    }

    /// Downloads and unpacks the packages.
    fn unpack(&self, cache: &Cache, say: &dyn Fn(&str)) -> Result<TempDir, LabError> {
        let KernelPackages { release, packages, missing } = &self.kernel;
        let root = unpack(&self.apt, packages, cache, say)?;
        if kernel_root::of_release(root.path(), release).is_some() {
            return Ok(root);
        }
        let missing = match missing.as_slice() {
            [] => String::new(),
            missing => format!("; no package list has {}", missing.join(", ")),
        };
        Err(LabError::NoKernel(format!(
            "the packages of {release} contain no kernel image with modules{missing}; complete \
             kernels are available for {}",
            self.series
        )))
    }
}

/// The beginning of the names of temporary folders in the cache.
const TEMPORARY: &str = ".unpack-";

/// The age from which a temporary folder is assumed to have been left by a killed process.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Creates a folder that is removed when its handle is dropped. Folders that killed processes left are removed.
fn temporary_in(cache: &Cache) -> Result<TempDir, LabError> {
    let folder = cache.folder("")?;
    remove_stale(&folder, SystemTime::now());
    let created = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(&folder);
    created.map_err(LabError::io("create a folder in", &folder))
}

/// Removes temporary folders that have not changed for [`STALE`], as far as possible.
fn remove_stale(folder: &Path, now: SystemTime) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        let is_stale = |metadata: fs::Metadata| {
            // Not the modification time, which unpacking sets to that of the package.
            let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
            now > SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + STALE
        };
        if is_temporary && entry.metadata().is_ok_and(is_stale) {
            // Another process may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::lists::tests::keep;
    use crate::packages::tests::{SPLIT, list};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Searches for 7.3 with lists cached some hours ago, or none, and with new lists, or without a network if `new` is
    /// `None`; returns the kernel or the error, whether lists were fetched, and the messages.
    fn search(
        cached: Option<(&str, u32)>,
        new: Option<&str>,
    ) -> (Result<String, String>, bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        if let Some((list, hours)) = cached {
            keep(&cache, list, HOUR * hours);
        }
        let cached = Lists::cached(Archive::Debian, &cache).unwrap();
        let (fetched, messages) = (Cell::new(false), RefCell::new(String::new()));
        let fetch = || {
            fetched.set(true);
            let new = new.ok_or(LabError::NoKernel("no network".into()))?;
            keep(&cache, new, Duration::ZERO);
            Ok(Lists::cached(Archive::Debian, &cache)?.unwrap())
        };
        let found =
            find_in_suites("7.3", cached, &fetch, &|line| messages.borrow_mut().push_str(line));
        let found = found.map(|found| found.kernel.release).map_err(|error| error.to_string());
        (found, fetched.get(), messages.into_inner())
    }

    #[test]
    fn lists_are_fetched_if_they_are_older_than_a_day_or_lack_the_kernel() {
        let (split, other) = (list(&SPLIT), list(&[("linux-image-6.1.0-9-amd64", "")]));
        let release = || Ok("7.3.4+deb13-amd64".to_string());
        let quiet = String::new;
        assert_eq!(search(Some((&split, 23)), None), (release(), false, quiet()));
        assert_eq!(search(Some((&split, 25)), Some(&split)), (release(), true, quiet()));
        assert_eq!(search(Some((&other, 1)), Some(&split)), (release(), true, quiet()));
        assert_eq!(search(None, Some(&split)), (release(), true, quiet()));
        // An image without its modules does not count as a kernel.
        assert_eq!(search(Some((&list(&SPLIT[..3]), 1)), Some(&split)), (release(), true, quiet()));
        let (found, fetched, _) = search(Some((&split, 25)), Some(&other));
        let error = found.unwrap_err();
        assert!(
            fetched && error.contains("no kernel 7.3 is available; Debian's bullseye, "),
            "{error}"
        );
        assert!(error.contains("experimental have 6.1"), "{error}");
    }

    #[test]
    fn a_kernel_that_left_the_archive_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let lists = |list: &str| {
            keep(&cache, list, Duration::ZERO);
            Lists::cached(Archive::Debian, &cache).unwrap().unwrap()
        };
        let image = |release: &str| list(&[(format!("linux-image-{release}-amd64").as_str(), "")]);
        let old = Found::in_lists(&lists(&image("6.1.0-9")), "6.1", true).unwrap();
        let messages = RefCell::new(String::new());
        let say = |line: &str| messages.borrow_mut().push_str(line);
        let found = old.find_again(&lists(&image("6.1.0-12")), "6.1", &say).unwrap();
        assert_eq!(found.kernel.release, "6.1.0-12-amd64");
        let expected =
            "the kernel 6.1.0-9-amd64 has left Debian's archive; downloading 6.1.0-12-amd64";
        assert_eq!(messages.borrow().as_str(), expected);
        let error =
            old.find_again(&lists(&image("6.12.3")), "6.1", &say).err().unwrap().to_string();
        assert!(
            error.contains("6.1.0-9-amd64 has left Debian's archive: no kernel 6.1"),
            "{error}"
        );
    }

    #[test]
    fn without_a_network_older_lists_are_used_and_their_age_is_reported() {
        let split = list(&SPLIT);
        let (found, fetched, messages) = search(Some((&split, 72)), None);
        assert!(found.is_ok() && fetched, "{found:?}");
        assert!(
            messages.contains("no network; using the package lists of 3 days ago"),
            "{messages}"
        );
        let (found, _, messages) = search(None, None);
        assert!(found.unwrap_err().contains("no network") && messages.is_empty());
    }

    #[test]
    fn folders_that_a_killed_process_left_are_removed_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".unpack-abc/usr", ".unpack-def", "kernels"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let remaining = |now| {
            remove_stale(folder.path(), now);
            fs::read_dir(folder.path()).unwrap().count()
        };
        assert_eq!(remaining(SystemTime::now()), 3);
        assert_eq!(remaining(SystemTime::now() + STALE + HOUR), 1);
        assert!(folder.path().join("kernels").is_dir());
    }
}
