//! Kernels and modules that were built on this host, stored in the cache.
//!
//! Such a kernel is requested by its full release (5.10.223-reiser4) or by the part after its last dash (reiser4), so
//! that it is never selected in place of a distribution's kernel. Modules are added to the distribution's kernel for
//! which they were built.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_record::bounded::{self, PARTS};
use rustix::fs::{CWD, RenameFlags};

use crate::cache::{self, Cache};
use crate::error::LabError;

/// The cache folder of these kernels, with one root folder per kernel.
pub(crate) const FOLDER: &str = "built-kernels";

/// The cache folder of modules, with one folder per release, which has one folder per build.
const MODULES: &str = "built-modules";

/// The file in the folder of the modules that records the sources.
const ORIGIN: &str = "fsdyno-build";

/// Returns the folder of the modules that were built on this host for a kernel, if there are any.
pub(crate) fn modules_for(release: &str, cache: &Cache) -> Option<PathBuf> {
    let folder = cache.path().join(MODULES).join(release);
    folder.is_dir().then_some(folder)
}

/// Returns the line that records the sources of the kernel with this modules folder, if it was built on this host.
pub fn origin(modules: &Path) -> Option<String> {
    let bytes = bounded::read(&modules.join(ORIGIN), &PARTS).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_string())
}

/// Moves a newly built kernel into the cache, replacing an earlier one of the same release.
///
/// # Errors
/// An error of the host.
pub(crate) fn store_kernel(
    root: &Path,
    release: &str,
    origin: &str,
    cache: &Cache,
) -> Result<(), LabError> {
    let line = root.join("lib/modules").join(release).join(ORIGIN);
    fs::write(&line, format!("{origin}\n")).map_err(LabError::io("write", &line))?;
    // An earlier kernel is then removed together with the build folder.
    name_folder(root, &cache.folder(FOLDER)?, release)
}

/// Stores newly built modules in the cache: those of the build `name` for the kernel `release`. The modules of an
/// earlier build, if any, are then in a folder below `build_folder`, which must be in the cache.
///
/// # Errors
/// An error of the host.
pub(crate) fn store_modules(
    files: &[PathBuf],
    build_folder: &Path,
    (name, release): (&str, &str),
    origin: &str,
    cache: &Cache,
) -> Result<(), LabError> {
    let folder = cache.folder(&format!("{MODULES}/{release}"))?;
    let unnamed = build_folder.join("modules");
    fs::create_dir(&unnamed).map_err(LabError::io("create", &unnamed))?;
    for file in files {
        let copy = unnamed.join(file.file_name().unwrap_or_default());
        fs::copy(file, &copy).map_err(LabError::io("copy", file))?;
    }
    let line = unnamed.join(ORIGIN);
    fs::write(&line, format!("{origin}\n")).map_err(LabError::io("write", &line))?;
    name_folder(&unnamed, &folder, name)
}

/// Persists a finished folder and moves it into another one under a name, in exchange for the folder that already has
/// this name, if any.
fn name_folder(unnamed: &Path, folder: &Path, name: &str) -> Result<(), LabError> {
    // It must be complete once it has its name, even after a power cut of the host.
    cache::sync_file_system(unnamed).map_err(LabError::io("write", unnamed))?;
    let target = folder.join(name);
    let renamed = match fs::rename(unnamed, &target) {
        Ok(()) => Ok(()),
        Err(_) => rustix::fs::renameat_with(CWD, unnamed, CWD, &target, RenameFlags::EXCHANGE)
            .map_err(io::Error::from),
    };
    renamed.and_then(|()| cache::sync_directory(folder)).map_err(LabError::io("write", &target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel;

    #[test]
    fn a_kernel_that_was_built_here_is_used_only_by_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let release = "5.10.223-reiser4";
        for origin in ["first", "second"] {
            let root = folder.path().join("root");
            let modules = root.join("lib/modules").join(release);
            fs::create_dir_all(modules.join("kernel")).unwrap();
            fs::create_dir_all(root.join("boot")).unwrap();
            fs::write(root.join("boot").join(format!("vmlinuz-{release}")), "image").unwrap();
            store_kernel(&root, release, origin, &cache).unwrap();
        }
        let find = |request: &str| kernel::find(Some(request), &cache, true, &|_| ());
        for request in ["reiser4", release] {
            let kernel = find(request).unwrap();
            assert_eq!(kernel.release, release);
            assert_eq!(origin(&kernel.modules).as_deref(), Some("second"));
        }
        assert!(find("5.10").is_err() && find("5.10.223").is_err());
        assert!(kernel::local_kernels(&cache).iter().any(|kernel| kernel.release == release));
    }

    #[test]
    fn modules_built_again_replace_the_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        assert_eq!(modules_for("6.1.0-56-amd64", &cache), None);
        let file = folder.path().join("zfs.ko");
        for version in ["first", "second"] {
            fs::write(&file, version).unwrap();
            let build_folder = cache.folder("builds").unwrap().join(version);
            fs::create_dir(&build_folder).unwrap();
            let (files, names) = (std::slice::from_ref(&file), ("zfs", "6.1.0-56-amd64"));
            store_modules(files, &build_folder, names, version, &cache).unwrap();
        }
        let stored = modules_for("6.1.0-56-amd64", &cache).unwrap().join("zfs");
        assert_eq!(fs::read_to_string(stored.join("zfs.ko")).unwrap(), "second");
        assert_eq!(origin(&stored).as_deref(), Some("second"));
        assert_eq!(fs::read_dir(stored).unwrap().count(), 2);
        // The earlier ones are in the folder of the build, which is removed.
        assert_eq!(origin(&cache.path().join("builds/second/modules")).as_deref(), Some("first"));
    }

    #[test]
    fn a_request_for_a_kernel_that_is_not_built_yet_is_refused_with_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        for request in ["reiser4", "5.10.223-reiser4"] {
            let error = kernel::find(Some(request), &cache, false, &|line| panic!("{line}"));
            let error = error.unwrap_err();
            assert!(error.to_string().contains("it is not built yet"), "{error}");
            assert!(error.hint().unwrap().contains("fsdyno kernel build reiser4"));
            assert!(error.is_missing());
        }
        assert_eq!(origin(folder.path()), None);
    }
}
