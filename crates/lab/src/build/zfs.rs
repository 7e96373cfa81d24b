//! OpenZFS as modules for a kernel of Debian, which has ZFS only as source (zfs-dkms).
//!
//! The build runs in a root folder with the kernel's headers and with the compiler that its distribution built it with, all
//! of them packages of Debian's suites. So the modules do not depend on the compiler of this host, and nothing is
//! installed here.

use std::path::PathBuf;

use super::root::Root;
use super::{Build, BuildOptions, BuildResult, Need, check_needs, keep_modules};
use crate::archive::Archive;
use crate::cache::Cache;
use crate::error::LabError;
use crate::fetch;
use crate::kernel;
use crate::lists::Lists;
use crate::modules::Modules;

/// The name of the build and of the module.
const NAME: &str = "zfs";

/// The modules, below the folder of the source.
const MODULES: &[&str] = &["module/spl.ko", "module/zfs.ko"];

/// Programs that the build needs on this host.
const NEEDS: &[Need] = &[
    Need { what: "apt-get", package: "apt" },
    Need { what: "dpkg-deb", package: "dpkg" },
    Need { what: "tar", package: "tar" },
    Need { what: "unshare", package: "util-linux" },
    Need { what: "chroot", package: "coreutils" },
];

/// The Debian package of the source.
const SOURCE: &str = "zfs-dkms";

/// Packages of programs that a configure script and make use. The compiler comes with the headers.
const TOOLS: &[&str] = &[
    "bash",
    "coreutils",
    "dash",
    "diffutils",
    "findutils",
    "grep",
    "make",
    "mawk",
    "perl-base",
    "sed",
];

/// Builds the modules for a kernel, as requested by `--kernel`, and stores them in the cache.
///
/// # Errors
/// A kernel that has no headers in Debian's archive, that has ZFS already, or that ZFS does not support; a missing program;
/// [`LabError::NotBuilt`].
pub fn zfs(
    wish: Option<&str>,
    manner: BuildOptions,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<BuildResult, LabError> {
    check_needs(NAME, NEEDS)?;
    let kernel = kernel::find(wish, cache, false, say)?;
    let release = kernel.release.as_str();
    let wrong = |reason: String| LabError::WrongKernel { what: release.into(), reason };
    if wish.is_some_and(|wish| wish.contains('/')) {
        return Err(wrong(
            "modules are built for kernels of Debian's archive, given by release".into(),
        ));
    }
    if Modules::open(&kernel.modules, release)?.has(NAME) {
        return Err(wrong("it has zfs already".into()));
    }
    let headers = format!("linux-headers-{release}");
    let lists = with_package(&headers, release, cache, say)?;
    let build = Build::begin(NAME, manner, cache, say)?;
    let mut packages = vec![headers.as_str(), SOURCE];
    packages.extend(TOOLS);
    let root = Root::unpack(&build, &lists.apt, &packages)?;
    let source = root.source_of(&build, NAME)?;
    let compiler = root.program(&build, "gcc-")?;
    root.link(&build, "awk", "mawk")?;
    build.step("configuring (about three minutes of CPU time)");
    let [cc, linux, objects] = [
        format!("CC={compiler}"),
        format!("--with-linux=/lib/modules/{release}/source"),
        format!("--with-linux-obj=/lib/modules/{release}/build"),
    ];
    let configure = [
        "./configure",
        &cc,
        "--disable-dependency-tracking",
        "--with-config=kernel",
        &linux,
        &objects,
        // Without it, kernels newer than those that this version of ZFS names are refused.
        "--enable-linux-experimental",
    ];
    root.run(&build, &source, &configure)?;
    build.step("compiling (about three minutes of CPU time)");
    root.run(&build, &source, &["make", &format!("-j{}", manner.jobs)])?;
    let mut strip = vec!["strip", "--strip-debug"];
    strip.extend(MODULES);
    root.run(&build, &source, &strip)?;
    let files: Vec<PathBuf> = MODULES.iter().map(|file| root.path(&source).join(file)).collect();
    let origin = root.origin(&[SOURCE, &compiler, &headers]);
    keep_modules(&files, NAME, release, &origin, cache)?;
    Ok(build.done(release.to_string()))
}

/// Returns Debian's lists with the headers of a kernel: cached ones, or else new ones.
fn with_package(
    headers: &str,
    release: &str,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<Lists, LabError> {
    let wanted = [headers.to_string()];
    let has = |lists: &Lists| lists.packages.named(&wanted).is_ok();
    let mut lists = fetch::debian(cache, say)?;
    if !has(&lists) {
        lists = Lists::fetch(Archive::Debian, cache, say)?;
    }
    match has(&lists) {
        true => Ok(lists),
        false => Err(LabError::WrongKernel {
            what: release.into(),
            reason: format!(
                "Debian's archive has no {headers} (any more); 'fsdyno list kernels --available' lists its kernels"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn kernels_for_which_nothing_can_be_built_are_refused_before_any_work() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let release = "6.1.0-56-test";
        let root = folder.path().join("cache/kernels").join(release);
        let modules = root.join("lib/modules").join(release).join("kernel");
        fs::create_dir_all(&modules).unwrap();
        fs::create_dir_all(root.join("boot")).unwrap();
        let image = root.join("boot").join(format!("vmlinuz-{release}"));
        fs::write(&image, b"\x7fELF Linux version 6.1.0-56-test (me)").unwrap();
        fs::write(modules.join("zfs.ko"), "").unwrap();
        let refused = |wish: &str| {
            let manner = BuildOptions { jobs: 1, keep: false };
            let said = |line: &str| panic!("it began: {line}");
            zfs(Some(wish), manner, &cache, &said).unwrap_err().to_string()
        };
        let error = refused(release);
        assert!(error.contains("use the kernel 6.1.0-56-test: it has zfs already"), "{error}");
        let error = refused(&format!("{}:{}", image.display(), root.display()));
        assert!(error.contains("modules are built for kernels of Debian's archive"), "{error}");
        assert!(!folder.path().join("cache/builds").exists());
    }
}
