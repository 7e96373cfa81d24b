//! OpenZFS as modules for a Debian kernel. Debian ships ZFS only as source (zfs-dkms).
//!
//! The build runs in a root folder with the kernel's headers and a compiler of the version that compiled the kernel,
//! all of them packages of Debian's suites. The modules therefore do not depend on the compiler of this host, and
//! nothing is installed here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::root::{self, Root};
use super::{Build, BuildOptions, BuildResult, Need, check_needs, command_for, store_modules};
use crate::archive::Archive;
use crate::cache::Cache;
use crate::error::LabError;
use crate::fetch;
use crate::kernel;
use crate::lists::Lists;
use crate::modules::Modules;
use crate::series::{Series, SeriesRange};

/// The name of the build and of the module.
const NAME: &str = "zfs";

/// The modules, below the folder of the source.
const MODULES: &[&str] = &["module/spl.ko", "module/zfs.ko"];

/// The age up to which lists are assumed to have been fetched by this command.
const MAX_LIST_AGE: Duration = Duration::from_secs(5 * 60);

/// Programs that the build needs on this host.
const NEEDS: &[Need] = &[
    Need { what: "apt-get", package: "apt" },
    Need { what: "dpkg-deb", package: "dpkg" },
    Need { what: "unshare", package: "util-linux" },
    Need { what: "mount", package: "mount" },
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
/// A request that is not for exactly one Debian kernel; a kernel that already has ZFS, or whose headers the archive
/// does not have; a missing program or permission; [`LabError::NotBuilt`].
pub fn zfs(
    request: Option<&str>,
    options: BuildOptions,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<BuildResult, LabError> {
    request.map_or(Ok(()), |request| check_request(request, cache))?;
    check_needs(NAME, NEEDS)?;
    if let Some(problem) = root::problem() {
        return Err(LabError::NoNamespace { what: NAME.into(), problem });
    }
    let kernel = kernel::find(request, cache, false, say)?;
    let release = kernel.release.as_str();
    if Modules::open(&kernel.modules, release)?.has(NAME) {
        return Err(refusal(release, "it already has ZFS"));
    }
    let headers = format!("linux-headers-{release}");
    let lists = lists_with_package(&headers, release, cache, say)?;
    let build = Build::begin(NAME, options, cache, say)?;
    let mut packages = vec![headers.as_str(), SOURCE];
    packages.extend(TOOLS);
    let root = download(&build, &lists, &packages, cache, say)?;
    let source = root.source_of(&build, NAME)?;
    let compiler = root.compiler(&build, &headers)?;
    if let Some(maximum) = newer_than_supported(&root.path(&source), release) {
        build.step(&format!(
            "its authors support Linux up to {maximum}, and call this build experimental"
        ));
    }
    root.link(&build, "awk", "mawk")?;
    build.step("configuring (about three minutes of CPU time)");
    let [cc, jobs, linux, objects] = [
        format!("CC={compiler}"),
        format!("TEST_JOBS={}", options.jobs),
        format!("--with-linux=/lib/modules/{release}/source"),
        format!("--with-linux-obj=/lib/modules/{release}/build"),
    ];
    let configure = [
        "./configure",
        &cc,
        &jobs,
        "--disable-dependency-tracking",
        "--with-config=kernel",
        &linux,
        &objects,
        // Without it, kernels newer than those that this version of ZFS names are refused.
        "--enable-linux-experimental",
    ];
    root.run(&build, &source, &configure)?;
    build.step("compiling (about three minutes of CPU time)");
    root.run(&build, &source, &["make", &format!("-j{}", options.jobs)])?;
    let mut strip = vec!["strip", "--strip-debug"];
    strip.extend(MODULES);
    root.run(&build, &source, &strip)?;
    let files: Vec<PathBuf> = MODULES.iter().map(|file| root.path(&source).join(file)).collect();
    let origin = root.origin(&[SOURCE, &headers], &compiler);
    store_modules(&files, &build.folder, (NAME, release), &origin, cache)?;
    Ok(build.done(release.to_string()))
}

/// Downloads packages and their dependencies and unpacks them. If that fails with cached lists, which may contain
/// packages that the archive has since replaced, it is tried again with new lists.
fn download(
    build: &Build<'_>,
    lists: &Lists,
    packages: &[&str],
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<Root, LabError> {
    build.step("downloading the compiler, the headers and the source (100 to 230 MB)");
    Root::unpack(build, &lists.apt, packages).or_else(|first| {
        if !lists.are_older_than(MAX_LIST_AGE) {
            return Err(first);
        }
        build.step("downloading again, with new package lists");
        let Ok(lists) = Lists::fetch(Archive::Debian, cache, say) else { return Err(first) };
        Root::unpack(build, &lists.apt, packages)
    })
}

/// Creates the error for a kernel whose module cannot be built.
fn refusal(release: &str, why: &str) -> LabError {
    LabError::NoModuleBuild { module: NAME.into(), release: release.into(), why: why.into() }
}

/// Checks that a request is for exactly one Debian kernel, as far as that can be determined without any work.
fn check_request(request: &str, cache: &Cache) -> Result<(), LabError> {
    let is_range = || !matches!(SeriesRange::parse(request), Ok(None));
    if request.contains('/') {
        return Err(refusal(
            request,
            "only modules for Debian's kernels can be built; give a release, such as 6.12",
        ));
    }
    if request.contains(',') || is_range() {
        return Err(refusal(request, "it takes one kernel at a time, such as 6.12"));
    }
    if Archive::of(request) == Archive::Ubuntu {
        let why = format!("Ubuntu's kernels have ZFS; use it with: --kernel {request} --fs zfs");
        return Err(refusal(request, &why));
    }
    if command_for(request).is_some() || kernel::is_built_here(request, cache) {
        return Err(refusal(
            request,
            "only modules for Debian's kernels can be built, and this one is built here",
        ));
    }
    Ok(())
}

/// Returns the newest series that this version of ZFS supports, if the kernel is newer; from its file META.
fn newer_than_supported(source: &Path, release: &str) -> Option<Series> {
    let meta = fs::read_to_string(source.join("META")).ok()?;
    let maximum = meta.lines().find_map(|line| line.strip_prefix("Linux-Maximum:"))?;
    let maximum = Series::of(maximum.trim())?;
    (Series::of(release)? > maximum).then_some(maximum)
}

/// Returns Debian's lists with the headers of a kernel: cached ones, or else new ones.
fn lists_with_package(
    headers: &str,
    release: &str,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<Lists, LabError> {
    let names = [headers.to_string()];
    let has = |lists: &Lists| lists.packages.named(&names).is_ok();
    let mut lists = fetch::debian(cache, say)?;
    if !has(&lists) {
        lists = Lists::fetch(Archive::Debian, cache, say)?;
    }
    match has(&lists) {
        true => Ok(lists),
        false => {
            let why = format!(
                "Debian's archive does not have {headers}, which the build needs; 'fsdyno list kernels --available' \
                 lists its kernels"
            );
            Err(refusal(release, &why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BuildOptions = BuildOptions { jobs: 1, keep: false };

    #[test]
    fn a_request_that_is_not_one_kernel_of_debian_is_refused_before_any_work() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        for (request, part) in [
            ("/boot/vmlinuz-6.1", "only modules for Debian's kernels"),
            ("6.1,6.12", "one kernel at a time"),
            ("all", "one kernel at a time"),
            ("5.10..7.3", "one kernel at a time"),
            ("7.0.0-14-generic", "use it with: --kernel 7.0.0-14-generic --fs zfs"),
            ("reiser4", "this one is built here"),
        ] {
            let log = |line: &str| panic!("the build started: {line}");
            let error = zfs(Some(request), OPTIONS, &cache, &log).unwrap_err().to_string();
            assert!(error.contains(&format!("build zfs for {request}: ")), "{error}");
            assert!(error.contains(part), "{error}");
        }
        assert!(!folder.path().join("cache/builds").exists());
    }

    #[test]
    fn a_kernel_newer_than_zfs_supports_is_recognized_from_meta() {
        let folder = tempfile::tempdir().unwrap();
        let newer = |release| newer_than_supported(folder.path(), release).map(|it| it.to_string());
        assert_eq!(newer("7.3.4+deb13-amd64"), None);
        fs::write(folder.path().join("META"), "Name: zfs\nLinux-Maximum: 7.2\n").unwrap();
        assert_eq!(newer("7.3.4+deb13-amd64").as_deref(), Some("7.2"));
        assert_eq!(newer("7.2.13+deb14-amd64"), None);
        assert_eq!(newer("6.1.0-56-amd64"), None);
    }
}
