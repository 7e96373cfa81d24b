//! Selects the kernel of a lab, and finds its image and modules.
//!
//! `--kernel` takes a release (`6.1.0-56-amd64`), the beginning of one (`6.1`), an image (a bzImage or a vmlinux) whose
//! modules are in their default folder, or `IMAGE:MODULES`, where MODULES is the folder that contains `kernel/`, or the
//! root that was passed to `make modules_install`.
//!
//! A kernel that was built on this host (`fsdyno kernel build`) is requested by its full release, or by the part after
//! its last dash.
//!
//! Without `--kernel`, the lab uses the default kernel that it downloaded before, or else the newest installed one, or
//! else it downloads the distribution's default. A lab's kernel, and with it its results, therefore changes only when
//! the host's installed kernel or the request changes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_record::Bytes;
use fsdyno_record::bounded::{self, PARTS};
use rustix::fs::{CWD, RenameFlags};
use tempfile::TempDir;

use crate::archive::Archive;
use crate::build;
use crate::cache::{self, Cache};
use crate::error::LabError;
use crate::fetch;
pub use crate::kernel_root::Kernel;
use crate::kernel_root::{folders, in_root, of_release};
use crate::payload;
use crate::release::{by_version, has_prefix};
use crate::series::{Series, SeriesRange};

/// Finds the requested kernel, or downloads it. A kernel that is requested by its image has only its own modules: it
/// may differ from the distribution's kernel of the same release.
///
/// # Errors
/// [`LabError::WrongKernel`] for a request that cannot be met, [`LabError::NoKernel`] if none is
/// installed and none can be downloaded.
pub fn find(
    request: Option<&str>,
    cache: &Cache,
    offline: bool,
    say: &dyn Fn(&str),
) -> Result<Kernel, LabError> {
    let kernel = match request {
        Some(request) if request.contains('/') => return at_path(request),
        Some(request) if request.contains(',') => Err(LabError::WrongKernel {
            what: request.into(),
            reason: "this command takes one kernel at a time".into(),
        }),
        Some(request) => {
            let local = newest(local_kernels(cache), |kernel| is_requested(kernel, request, cache));
            match (local, build::command_for(request)) {
                (Some(kernel), _) => Ok(kernel),
                (None, Some(command)) => {
                    Err(LabError::UnbuiltKernel { what: request.into(), command })
                }
                (None, None) => download(Some(request), cache, offline, say),
            }
        }
        None => default(cache, offline, say),
    };
    kernel.map(|kernel| with_built_modules(kernel, cache))
}

/// Adds the modules that were built for a kernel on this host.
fn with_built_modules(kernel: Kernel, cache: &Cache) -> Kernel {
    Kernel { built_modules: build::modules_for(&kernel.release, cache), ..kernel }
}

/// Returns the release of the kernel that [`find`] would return. If it would have to be downloaded, the release is
/// looked up in package lists, and only those are downloaded.
///
/// # Errors
/// Those of [`find`].
pub fn expected_kernel_release(
    request: Option<&str>,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<String, LabError> {
    match find(request, cache, true, say) {
        Ok(kernel) => Ok(kernel.release),
        Err(LabError::NoKernel(_)) => fetch::release(request, cache, say),
        Err(error) => Err(error),
    }
}

/// Returns true if a kernel is the requested one: its release begins with the request. A kernel from another
/// distribution's archive matches only its full release, so that downloading it does not change the result of other
/// requests; one that was built on this host matches only its full release or its name.
fn is_requested(kernel: &Kernel, request: &str, cache: &Cache) -> bool {
    if is_built(kernel, cache) {
        return build::is_requested(&kernel.release, request);
    }
    has_prefix(&kernel.release, request)
        && (kernel.release == request || !is_foreign(kernel, cache))
}

/// Returns true if a kernel is from another distribution's archive.
fn is_foreign(kernel: &Kernel, cache: &Cache) -> bool {
    kernel.modules.starts_with(cache.path().join(FOREIGN))
}

/// Returns true if a request is for a kernel that was built on this host.
pub(crate) fn is_built_here(request: &str, cache: &Cache) -> bool {
    let kernels = local_kernels(cache).into_iter();
    kernels
        .filter(|kernel| is_built(kernel, cache))
        .any(|it| build::is_requested(&it.release, request))
}

/// Returns true if a kernel was built on this host.
fn is_built(kernel: &Kernel, cache: &Cache) -> bool {
    kernel.modules.starts_with(cache.path().join(build::FOLDER))
}

/// Returns the kernels that need no download: installed ones and those in the cache, newest first.
pub fn local_kernels(cache: &Cache) -> Vec<Kernel> {
    let mut kernels = in_root(Path::new("/"));
    for folder in [KERNELS, FOREIGN, build::FOLDER] {
        kernels.extend(folders(&cache.path().join(folder)).iter().flat_map(|root| in_root(root)));
    }
    kernels.sort_by(|a, b| by_version(&b.release, &a.release));
    kernels.dedup_by(|a, b| a.release == b.release);
    kernels.into_iter().map(|kernel| with_built_modules(kernel, cache)).collect()
}

/// A kernel that can be requested by its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// The release, as in `uname -r`.
    pub release: String,
    /// The size of the packages to download for it; `None` for a kernel that needs no download.
    pub download: Option<Bytes>,
}

/// Returns the kernels that need no download, and those of Debian's suites, newest first.
///
/// # Errors
/// [`LabError::NoKernel`] if Debian's package lists are not in the cache and cannot be downloaded.
pub fn available(cache: &Cache, say: &dyn Fn(&str)) -> Result<Vec<Available>, LabError> {
    let mut all: Vec<Available> = local_kernels(cache)
        .into_iter()
        .map(|kernel| Available { release: kernel.release, download: None })
        .collect();
    for kernel in fetch::available(cache, say)? {
        if all.iter().all(|it| it.release != kernel.release) {
            let size = kernel.packages.iter().map(|package| package.size).sum();
            all.push(Available { release: kernel.release, download: Some(Bytes(size)) });
        }
    }
    all.sort_by(|a, b| by_version(&b.release, &a.release));
    Ok(all)
}

/// Expands a request for several series (`all`, `5.10..7.3`) into one request per available series, oldest first;
/// returns any other request unchanged.
///
/// # Errors
/// [`LabError::WrongKernel`] for an invalid range or one without any kernel; those of [`available`] and of `cache`,
/// which is opened only for several series.
pub fn expand(
    request: &str,
    cache: impl Fn() -> Result<Cache, LabError>,
    say: &dyn Fn(&str),
) -> Result<Vec<String>, LabError> {
    let invalid = |reason| LabError::WrongKernel { what: request.to_string(), reason };
    match SeriesRange::parse(request).map_err(invalid)? {
        None => Ok(vec![request.to_string()]),
        Some(range) => {
            let cache = cache()?;
            let mut all = available(&cache, say)?;
            let needs_full_name =
                |kernel: &Kernel| is_foreign(kernel, &cache) || is_built(kernel, &cache);
            let excluded: Vec<Kernel> =
                local_kernels(&cache).into_iter().filter(needs_full_name).collect();
            all.retain(|kernel| excluded.iter().all(|it| it.release != kernel.release));
            in_range(range, &all).map_err(invalid)
        }
    }
}

/// Returns the series of kernels in a range, oldest first.
fn in_range(range: SeriesRange, kernels: &[Available]) -> Result<Vec<String>, String> {
    let series: BTreeSet<Series> =
        kernels.iter().filter_map(|kernel| Series::of(&kernel.release)).collect();
    let inside = series.iter().filter(|series| range.contains(**series));
    let inside: Vec<String> = inside.map(Series::to_string).collect();
    let all: Vec<String> = series.iter().map(Series::to_string).collect();
    match inside.is_empty() {
        true => Err(format!("no kernel is in this range; available: {}", all.join(", "))),
        false => Ok(inside),
    }
}

/// Returns the kernel that [`find`] uses if none is requested, provided that it needs no download.
pub fn default_kernel(cache: &Cache) -> Option<Kernel> {
    find(None, cache, true, &|_| ()).ok()
}

/// The cache folder of unpacked kernels, with one root folder per kernel.
const KERNELS: &str = "kernels";

/// The cache folder of unpacked kernels from another distribution's archive.
const FOREIGN: &str = "foreign-kernels";

/// The file in [`KERNELS`] with the release of the downloaded default kernel.
const DEFAULT: &str = "default";

fn kernel_folder(cache: &Cache) -> PathBuf {
    cache.path().join(KERNELS)
}

fn default(cache: &Cache, offline: bool, say: &dyn Fn(&str)) -> Result<Kernel, LabError> {
    let mark = kernel_folder(cache).join(DEFAULT);
    let release = fs::read_to_string(&mark).unwrap_or_default();
    if let Some(kernel) =
        local_kernels(cache).into_iter().find(|kernel| kernel.release == release.trim())
    {
        return Ok(kernel);
    }
    if let Some(kernel) = newest(in_root(Path::new("/")), |_| true) {
        return Ok(kernel);
    }
    let kernel = download(None, cache, offline, say)?;
    let folder = cache.folder(KERNELS)?;
    cache::put(&folder, DEFAULT, kernel.release.as_bytes())
        .map_err(LabError::io("write", &mark))?;
    Ok(kernel)
}

fn download(
    request: Option<&str>,
    cache: &Cache,
    offline: bool,
    say: &dyn Fn(&str),
) -> Result<Kernel, LabError> {
    if offline {
        let missing = request.map_or("no kernel".into(), |request| format!("no kernel {request}"));
        return Err(LabError::NoKernel(format!(
            "{missing} is installed or cached, and downloads are disabled"
        )));
    }
    let (release, archive, unpacked) = fetch::kernel(request, cache, say)?;
    let folder = cache.folder(if archive == Archive::Debian { KERNELS } else { FOREIGN })?;
    let root = folder.join(&release);
    // A kernel must be complete once it has its name, even after a power cut of the host.
    cache::sync_file_system(unpacked.path()).map_err(LabError::io("write", unpacked.path()))?;
    keep(unpacked, &root, &release).map_err(LabError::io("write", &root))?;
    cache::sync_directory(&folder).map_err(LabError::io("write", &folder))?;
    of_release(&root, &release)
        .ok_or_else(|| LabError::NoKernel(format!("{} holds no kernel", root.display())))
}

/// Gives an unpacked kernel its name. The first process wins: a rename is atomic, and all have downloaded the same
/// packages. A folder without a kernel, left by an image package without its modules, is replaced.
fn keep(unpacked: TempDir, root: &Path, release: &str) -> io::Result<()> {
    if fs::rename(unpacked.path(), root).is_ok() {
        // It is no longer a temporary folder.
        let _ = unpacked.keep();
    } else if of_release(root, release).is_none() {
        rustix::fs::renameat_with(CWD, unpacked.path(), CWD, root, RenameFlags::EXCHANGE)?;
    }
    Ok(())
}

/// Parses `IMAGE` or `IMAGE:MODULES`.
fn at_path(request: &str) -> Result<Kernel, LabError> {
    let invalid = |reason: String| LabError::WrongKernel { what: request.to_string(), reason };
    let (image, modules) = match request.split_once(':') {
        Some((image, modules)) => (PathBuf::from(image), Some(PathBuf::from(modules))),
        None => (PathBuf::from(request), None),
    };
    let bytes = bounded::read(&image, &PARTS)
        .map_err(|error| invalid(format!("its image cannot be read: {error}")))?;
    let release = payload::release(&bytes).ok_or_else(|| {
        invalid(format!("{} is neither a bzImage nor a vmlinux", image.display()))
    })?;
    let folder = image.parent().unwrap_or(Path::new("."));
    let candidates = match &modules {
        Some(folder) => vec![folder.clone(), folder.join("lib/modules").join(&release)],
        // `..` is for an image in its modules folder.
        None => ["lib/modules", "../lib/modules", "../usr/lib/modules", "..", "/lib/modules"]
            .map(|below| folder.join(below).join(&release))
            .to_vec(),
    };
    let found = candidates.iter().find(|folder| folder.join("kernel").is_dir()).cloned();
    let modules = found.ok_or_else(|| {
        let tried: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        invalid(format!("no modules for {release} in any of {}", tried.join(", ")))
    })?;
    Ok(Kernel { release, image, modules, built_modules: None })
}

fn newest(kernels: Vec<Kernel>, is_wanted: impl Fn(&Kernel) -> bool) -> Option<Kernel> {
    kernels.into_iter().filter(is_wanted).max_by(|a, b| by_version(&a.release, &b.release))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(releases: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("boot")).unwrap();
        for release in releases {
            let modules = root.path().join("lib/modules").join(release).join("kernel");
            fs::create_dir_all(modules).unwrap();
            let image = root.path().join("boot").join(format!("vmlinuz-{release}"));
            fs::write(image, b"\x7fELF Linux version 6.1.0-9-amd64 (me)").unwrap();
        }
        root
    }

    fn silent(_: &str) {}

    #[test]
    fn releases_are_ordered_as_numbers_and_matched_at_boundaries() {
        assert!(by_version("6.1.0-9-amd64", "6.1.0-56-amd64").is_lt());
        assert!(by_version("6.12.1", "6.9.1").is_gt());
        assert!(
            has_prefix("6.1.0-56-amd64", "6.1") && has_prefix("6.1.0-56-amd64", "6.1.0-56-amd64")
        );
        assert!(!has_prefix("6.12.0-1-amd64", "6.1") && !has_prefix("6.1.0-56-amd64", "6.1.0-5"));
    }

    #[test]
    fn the_newest_kernel_in_the_cache_that_matches_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        for release in ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.3-amd64"] {
            let target = root(&[release]).keep();
            cache.folder(KERNELS).unwrap();
            fs::rename(target, kernel_folder(&cache).join(release)).unwrap();
        }
        let kernel = find(Some("6.1"), &cache, true, &silent).unwrap();
        assert_eq!(kernel.release, "6.1.0-56-amd64");
        assert!(kernel.image.is_file() && kernel.modules.ends_with("6.1.0-56-amd64"));
    }

    #[test]
    fn a_kernel_of_another_archive_is_used_only_if_its_full_release_is_requested() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        for (folder, release) in [(KERNELS, "7.0.2-amd64"), (FOREIGN, "7.0.0-14-generic")] {
            let folder = cache.folder(folder).unwrap();
            fs::rename(root(&[release]).keep(), folder.join(release)).unwrap();
        }
        let found =
            |request| find(Some(request), &cache, true, &silent).map(|kernel| kernel.release);
        assert_eq!(found("7.0").unwrap(), "7.0.2-amd64");
        assert_eq!(found("7.0.0-14-generic").unwrap(), "7.0.0-14-generic");
        assert!(found("7.0.0").is_err() && found("7.0.0-14").is_err());
        assert!(local_kernels(&cache).iter().any(|kernel| kernel.release == "7.0.0-14-generic"));
        let default = default(&cache, true, &silent).map(|kernel| kernel.release);
        assert_ne!(default.ok().as_deref(), Some("7.0.0-14-generic"));
    }

    #[test]
    fn a_range_becomes_the_available_series_and_a_name_is_unchanged() {
        let kernel =
            |release: &str| Available { release: release.to_string(), download: Some(Bytes(1)) };
        let all = ["7.3.4+deb13-amd64", "6.12.9-amd64", "6.12.1-amd64", "6.1.0-9-amd64"];
        let all = all.map(kernel);
        let range = |text| SeriesRange::parse(text).unwrap().unwrap();
        assert_eq!(in_range(range("all"), &all).unwrap(), ["6.1", "6.12", "7.3"]);
        assert_eq!(in_range(range("6.2..7.0"), &all).unwrap(), ["6.12"]);
        let error = in_range(range("8.0.."), &all).unwrap_err();
        assert!(error.ends_with("available: 6.1, 6.12, 7.3"), "{error}");
        assert_eq!(
            expand("6.1.0-9", || panic!("the cache is opened"), &silent).unwrap(),
            ["6.1.0-9"]
        );
        let folder = tempfile::tempdir().unwrap();
        let one = find(Some("6.1,6.12"), &Cache::at(folder.path()).unwrap(), true, &silent);
        assert!(one.unwrap_err().to_string().contains("one kernel at a time"));
    }

    #[test]
    fn without_a_kernel_and_without_a_network_the_error_has_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let error = find(Some("0.99"), &cache, true, &silent).unwrap_err();
        assert!(error.to_string().contains("no kernel 0.99 is installed or cached"), "{error}");
        assert!(error.is_missing() && error.hint().unwrap().contains("apt-get update"));
    }

    #[test]
    fn the_modules_of_an_image_are_found_next_to_it_or_in_the_given_folder() {
        let root = root(&["6.1.0-9-amd64"]);
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let image = root.path().join("boot/vmlinuz-6.1.0-9-amd64");
        let image = image.to_str().unwrap();
        let kernel = find(Some(image), &cache, true, &silent).unwrap();
        assert_eq!(kernel.release, "6.1.0-9-amd64");
        let with_modules = format!("{image}:{}", root.path().display());
        assert_eq!(
            find(Some(&with_modules), &cache, true, &silent).unwrap().modules,
            root.path().join("lib/modules/6.1.0-9-amd64")
        );
        let error = find(Some(&format!("{image}:/nowhere")), &cache, true, &silent);
        let error = error.unwrap_err();
        assert!(error.to_string().contains("no modules for 6.1.0-9-amd64"), "{error}");
        assert!(!error.is_missing());
    }

    #[test]
    fn an_image_in_the_folder_of_its_modules_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib/modules/7.3.4-amd64");
        fs::create_dir_all(folder.join("kernel")).unwrap();
        assert_eq!(in_root(root.path()), []);
        let image = folder.join("vmlinuz");
        fs::write(&image, b"\x7fELF Linux version 7.3.4-amd64 (me)").unwrap();
        let kernel =
            Kernel { release: "7.3.4-amd64".into(), image, modules: folder, built_modules: None };
        assert_eq!(in_root(root.path()), std::slice::from_ref(&kernel));
        let named = at_path(kernel.image.to_str().unwrap()).unwrap();
        assert_eq!(fs::canonicalize(named.modules).unwrap(), kernel.modules);
        // The image in boot/ is the one that the machine boots.
        let boot = root.path().join("boot/vmlinuz-7.3.4-amd64");
        fs::create_dir(root.path().join("boot")).unwrap();
        fs::copy(&kernel.image, &boot).unwrap();
        assert_eq!(in_root(root.path())[0].image, boot);
    }

    #[test]
    fn a_folder_without_a_kernel_is_replaced_and_one_with_a_kernel_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("6.1.0-9-amd64");
        fs::create_dir_all(target.join("usr/share/doc")).unwrap();
        let [first, second] = [(); 2].map(|()| root(&["6.1.0-9-amd64"]));
        keep(first, &target, "6.1.0-9-amd64").unwrap();
        assert!(of_release(&target, "6.1.0-9-amd64").is_some());
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let before = inode(&target);
        keep(second, &target, "6.1.0-9-amd64").unwrap();
        assert_eq!(inode(&target), before);
    }

    #[test]
    fn a_path_to_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let error = find(Some("/etc/passwd"), &cache, true, &silent).unwrap_err();
        assert!(error.to_string().contains("neither a bzImage nor a vmlinux"), "{error}");
    }
}
