//! Linux 5.10 with Reiser4, in a small configuration. The user provides Reiser4's source and, unless Debian's is used,
//! that of Linux.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_record::canonical::sha256_hex;
use tempfile::TempDir;

use super::source::{self, Source, invalid_source};
use super::{Build, BuildOptions, BuildResult, Need, check_needs, linux, store_kernel};
use crate::cache::Cache;
use crate::config;
use crate::error::LabError;
use crate::fetch;

/// The name of the build and of the kernel.
const NAME: &str = "reiser4";

/// The Debian package of Linux's source.
const LINUX: &str = "linux-source-5.10";

/// The kernel series for which the changes to Linux are made.
const SERIES: &str = "5.10.";

/// The Reiser4 commit for that series, for messages.
const COMMIT: &str = "commit 0dd4af06465b of github.com/edward6/reiser4 is for 5.10";

/// The suffix of the kernel's release.
const SUFFIX: &str = "-reiser4";

/// Programs and headers that the build needs.
const NEEDS: &[Need] = &[
    Need { what: "gcc", package: "gcc" },
    Need { what: "make", package: "make" },
    Need { what: "flex", package: "flex" },
    Need { what: "bison", package: "bison" },
    Need { what: "bc", package: "bc" },
    Need { what: "tar", package: "tar" },
    Need { what: "xz", package: "xz-utils" },
    Need { what: "stdio.h", package: "libc6-dev" },
    Need { what: "gelf.h", package: "libelf-dev" },
];

/// Options in addition to those of docs/kernel.config: menu options that enable those, and options that the
/// guest's programs use.
const CONFIG: &str = include_str!("reiser4.config");

/// Words in the names of options of docs/kernel.config that this kernel omits, to shorten the build.
const OMITTED: &[&str] =
    &["BTRFS", "JFS", "F2FS", "NILFS2", "VFAT", "OVERLAY", "FUSE", "NLS", "RAID", "MD"];

/// The sources of a build.
#[derive(Clone, Debug)]
pub struct Sources {
    /// A folder with Linux 5.10, or a tar file of it; `None` for Debian's package.
    pub linux: Option<PathBuf>,
    /// A folder with Reiser4, or a tar file of it.
    pub reiser4: PathBuf,
}

/// Builds the kernel and stores it in the cache.
///
/// # Errors
/// A missing program or source, a source of a different version, or [`LabError::NotBuilt`].
pub fn reiser4(
    sources: &Sources,
    options: BuildOptions,
    cache: &Cache,
    say: &dyn Fn(&str),
) -> Result<BuildResult, LabError> {
    let module = Source::open(&sources.reiser4)?;
    check_reiser4(&module, &sources.reiser4)?;
    let linux = sources.linux.as_deref().map(|path| Ok((Source::open(path)?, path)));
    let linux = linux.transpose()?;
    if let Some((source, path)) = &linux {
        check_linux(source, path)?;
    }
    check_needs(NAME, NEEDS)?;
    let build = Build::begin(NAME, options, cache, say)?;
    let tree = build.folder.join("linux");
    // Debian's package stays on disk until the source in it has been unpacked.
    let (linux, _package) = match linux {
        Some((source, _)) => (source, None),
        None => debian_source(cache, say).map(|(source, package)| (source, Some(package)))?,
    };
    build.step("copying the sources");
    linux.copy(&build, &tree)?;
    let reiser4_folder = tree.join("fs/reiser4");
    module.copy(&build, &reiser4_folder)?;
    let origin = prepare(&build, &tree, &reiser4_folder)?;
    build.step("compiling (about eight minutes of CPU time)");
    let jobs = format!("-j{}", options.jobs);
    build.run(&["make", &jobs, "bzImage", "modules"], &tree)?;
    let release = install(&build, &tree, &origin, cache)?;
    Ok(build.done(release))
}

/// Checks that a source is the port of Reiser4 to Linux 5.10.
fn check_reiser4(source: &Source, path: &Path) -> Result<(), LabError> {
    let needed = |name: &str| {
        let missing = || invalid_source(path, format!("it has no {name}; {COMMIT}"));
        source.text(name)?.ok_or_else(missing)
    };
    needed("super_ops.c")?;
    needed("Kconfig")?;
    if source.text("volume_ops.c")?.is_some() {
        return Err(invalid_source(
            path,
            format!("it is Reiser5 (format 4.1 with volumes); {COMMIT}"),
        ));
    }
    // This field replaced a task flag that Linux 5.10 removed.
    if !needed("context.h")?.contains("flush_bd_task") {
        return Err(invalid_source(path, format!("it is for a Linux older than 5.10; {COMMIT}")));
    }
    // These methods have had this argument since Linux 5.12.
    match needed("plugin/inode_ops.c")?.contains("user_namespace") {
        true => Err(invalid_source(path, format!("it is for Linux 5.12 or newer; {COMMIT}"))),
        false => Ok(()),
    }
}

/// Checks that a source is Linux 5.10.
fn check_linux(source: &Source, path: &Path) -> Result<(), LabError> {
    let version = version(&source.text("Makefile")?.unwrap_or_default());
    match version.as_str() {
        "" => Err(invalid_source(path, "it is not the source of Linux")),
        version if version.starts_with(SERIES) => Ok(()),
        other => Err(invalid_source(
            path,
            format!("it is Linux {other}; Reiser4 and its changes to Linux are for 5.10"),
        )),
    }
}

/// Downloads Debian's Linux source, and returns it with the folder of its package.
fn debian_source(cache: &Cache, say: &dyn Fn(&str)) -> Result<(Source, TempDir), LabError> {
    let (package, _) = fetch::packages(&[LINUX.to_string()], cache, say)?;
    let file = package.path().join(format!("usr/src/{LINUX}.tar.xz"));
    check_linux(&Source::open(&file)?, &file)?;
    Ok((Source::Archive(file), package))
}

/// Patches and configures the tree, and returns a line that records its sources.
fn prepare(build: &Build<'_>, tree: &Path, reiser4_folder: &Path) -> Result<String, LabError> {
    let reiser4 = source::hash(reiser4_folder)?;
    // A source that was built before contains generated files.
    build.run(&["make", "mrproper"], tree)?;
    let linux = source::hash(tree)?;
    linux::patch_tree(build, tree)?;
    let header = reiser4_folder.join("fsdyno.h");
    fs::write(&header, linux::HEADER).map_err(LabError::io("write", &header))?;
    let makefile = reiser4_folder.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(LabError::io("read", &makefile))?;
    fs::write(&makefile, text.clone() + linux::FLAGS).map_err(LabError::io("write", &makefile))?;
    let fragment = tree.join("fsdyno.config");
    fs::write(&fragment, configuration()).map_err(LabError::io("write", &fragment))?;
    let merge = ["scripts/kconfig/merge_config.sh", "-n", "fsdyno.config"];
    build.run(&merge, tree)?;
    let config = tree.join(".config");
    let config = fs::read_to_string(&config).map_err(LabError::io("read", &config))?;
    if let Some(option) = missing_option(&config) {
        return Err(build.failed(format!("the configuration does not have {option}")));
    }
    Ok(format!(
        "linux+reiser4 sha256:{linux} reiser4 sha256:{reiser4} config sha256:{}",
        sha256_hex(config.as_bytes())
    ))
}

/// Stores the image and the modules in the cache, and returns the release.
fn install(
    build: &Build<'_>,
    tree: &Path,
    origin: &str,
    cache: &Cache,
) -> Result<String, LabError> {
    let root = build.folder.join("root");
    let to = format!("INSTALL_MOD_PATH={}", root.display());
    build.run(&["make", "modules_install", &to, "DEPMOD=true"], tree)?;
    let release = tree.join("include/config/kernel.release");
    let release = fs::read_to_string(&release).map_err(LabError::io("read", &release))?;
    let release = release.trim().to_string();
    let boot = root.join("boot");
    let image = boot.join(format!("vmlinuz-{release}"));
    let copied = fs::create_dir_all(&boot)
        .and_then(|()| fs::copy(tree.join("arch/x86/boot/bzImage"), &image));
    copied.map_err(LabError::io("write", &image))?;
    let modules = root.join("lib/modules").join(&release);
    // These links point to the source, which will be removed.
    for link in ["build", "source"] {
        let _ = fs::remove_file(modules.join(link));
    }
    store_kernel(&root, &release, origin, cache)?;
    Ok(release)
}

/// Returns the version in Linux's Makefile, or empty if there is none.
fn version(makefile: &str) -> String {
    let part = |name: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" ="));
        line.map(str::trim).filter(|value| !value.is_empty())
    };
    let parts = ["VERSION", "PATCHLEVEL", "SUBLEVEL"].map(part);
    match parts.iter().all(Option::is_some) {
        true => parts.into_iter().flatten().collect::<Vec<_>>().join("."),
        false => String::new(),
    }
}

/// Returns the options of docs/kernel.config that this kernel has.
fn options() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_omitted = |name: &str| name.split('_').any(|word| OMITTED.contains(&word));
    config::options().filter(move |(name, _)| !is_omitted(name))
}

/// Returns the configuration: that of a lab's kernel without some file systems, plus Reiser4.
fn configuration() -> String {
    let mut text: String = options().map(|(name, value)| format!("{name}={value}\n")).collect();
    text.push_str(CONFIG);
    text.push_str(&format!("CONFIG_LOCALVERSION=\"{SUFFIX}\"\n"));
    text
}

/// Returns an option that the lab needs and a configuration lacks, if there is one.
fn missing_option(config: &str) -> Option<&'static str> {
    let missing = config::missing_options(config);
    let needed = options().map(|(name, _)| name).find(|name| missing.contains(name));
    let has_reiser4 = config.lines().any(|line| line == "CONFIG_REISER4_FS=y");
    needed.or((!has_reiser4).then_some("CONFIG_REISER4_FS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_reiser4_and_the_options_that_every_guest_needs() {
        let text = configuration();
        for option in [
            "CONFIG_REISER4_FS=y",
            "CONFIG_PVH=y",
            "CONFIG_EXT4_FS=m",
            "CONFIG_XFS_FS=m",
            "CONFIG_BLK_DEV_NBD=m",
        ] {
            assert!(text.lines().any(|line| line == option), "{option}");
        }
        for without in ["CONFIG_BTRFS_FS", "CONFIG_BLK_DEV_MD", "CONFIG_MD=", "CONFIG_FUSE_FS"] {
            assert!(!text.contains(without), "{without}");
        }
        assert_eq!(missing_option(&text), None);
        assert_eq!(missing_option(&text.replace("CONFIG_PVH=y", "")), Some("CONFIG_PVH"));
        assert_eq!(
            missing_option(&text.replace("CONFIG_REISER4_FS=y", "")),
            Some("CONFIG_REISER4_FS")
        );
    }

    #[test]
    fn the_version_of_a_source_is_that_of_its_makefile() {
        let text = "# SPDX\nVERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 223\nEXTRAVERSION =\n";
        assert_eq!(version(text), "5.10.223");
        assert_eq!(version("all:\n\ttrue\n"), "");
    }

    /// Creates a folder with these files.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("plugin")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    /// The files of a Reiser4 source that are checked, with the contents of the port to Linux 5.10.
    const VALID: [(&str, &str); 4] = [
        ("super_ops.c", ""),
        ("Kconfig", ""),
        ("context.h", "unsigned int flush_bd_task:1;"),
        ("plugin/inode_ops.c", "int reiser4_setattr_common(struct dentry *dentry)"),
    ];

    #[test]
    fn unsuitable_sources_are_refused_before_anything_is_written() {
        let cases = [
            ("super_ops.c", None, "it has no super_ops.c"),
            ("volume_ops.c", Some(""), "it is Reiser5"),
            ("context.h", Some("int entd;"), "it is for a Linux older than 5.10"),
            (
                "plugin/inode_ops.c",
                Some("struct user_namespace *"),
                "it is for Linux 5.12 or newer",
            ),
        ];
        let linux = tree(&[("Makefile", "VERSION = 5\nPATCHLEVEL = 15\nSUBLEVEL = 1\n")]);
        let cache_parent = tempfile::tempdir().unwrap();
        let cache = Cache::at(&cache_parent.path().join("cache")).unwrap();
        let refused = |linux: Option<&Path>, reiser4: &Path| {
            let linux = linux.map(Path::to_path_buf);
            let sources = Sources { linux, reiser4: reiser4.to_path_buf() };
            let options = BuildOptions { jobs: 1, keep: false };
            let log = |line: &str| panic!("the build started: {line}");
            let error = super::reiser4(&sources, options, &cache, &log).unwrap_err();
            assert!(!cache_parent.path().join("cache").exists());
            error.to_string()
        };
        for (name, text, expected) in cases {
            let folder = tree(&VALID);
            match text {
                Some(text) => fs::write(folder.path().join(name), text).unwrap(),
                None => fs::remove_file(folder.path().join(name)).unwrap(),
            }
            let error = refused(None, folder.path());
            assert!(error.contains(expected) && error.contains("0dd4af06465b"), "{error}");
        }
        let valid = tree(&VALID);
        let error = refused(Some(linux.path()), valid.path());
        assert!(error.contains("it is Linux 5.15.1; Reiser4 and its changes"), "{error}");
        let error = refused(Some(valid.path()), valid.path());
        assert!(error.contains("it is not the source of Linux"), "{error}");
    }
}
