//! A kernel on disk, and the search for kernels below a root folder, in the layout of packages.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build;

/// A kernel on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The release, as in `uname -r`.
    pub release: String,
    /// The bzImage or vmlinux.
    pub image: PathBuf,
    /// The folder that contains `kernel/` and modules.dep.
    pub modules: PathBuf,
    /// The folder of the modules that were built for it on this host (`fsdyno kernel build zfs`), if it is used with
    /// them.
    pub built_modules: Option<PathBuf>,
}

impl Kernel {
    /// Returns the parts of this kernel that were built on this host: `kernel` if all of it was, otherwise the names of
    /// the builds of modules (`zfs`).
    pub fn built_here(&self) -> Vec<String> {
        if build::origin(&self.modules).is_some() {
            return vec!["kernel".into()];
        }
        let builds = self.built_modules.iter().flat_map(|folder| folders(folder));
        let mut names: Vec<String> = builds
            .filter_map(|build| Some(build.file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names
    }
}

/// Returns the kernel with this release below a root folder.
pub(crate) fn of_release(root: &Path, release: &str) -> Option<Kernel> {
    in_root(root).into_iter().find(|kernel| kernel.release == release)
}

/// Returns the kernels below a root folder: each lib/modules/RELEASE for which there is a readable
/// boot/vmlinuz-RELEASE, or which contains a vmlinuz (in Debian's packages since 6.19, in other distributions' for
/// longer).
pub(crate) fn in_root(root: &Path) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    // Debian moved its modules below usr/ in 2024.
    for modules in ["usr/lib/modules", "lib/modules"] {
        for modules in folders(&root.join(modules)) {
            let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let images =
                [root.join("boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
            // Ubuntu's images can be read only by root.
            let image = images.into_iter().find(|image| fs::File::open(image).is_ok());
            let Some(image) = image.filter(|_| modules.join("kernel").is_dir()) else { continue };
            if kernels.iter().all(|kernel: &Kernel| kernel.release != release) {
                kernels.push(Kernel { release, image, modules, built_modules: None });
            }
        }
    }
    kernels
}

/// Returns the subfolders of a folder.
pub(crate) fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
