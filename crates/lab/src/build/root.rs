//! A root folder of Debian packages in which the commands of a build run, apart from the programs and libraries of this
//! host.
//!
//! Commands run in a mount namespace of their own, where the root has this host's /dev; a user other than root needs a
//! user namespace for that. The mounts end with the command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Build, FIXED};
use crate::apt::Apt;
use crate::error::LabError;

/// The folders of a root that are links to those of the same name in usr/, as in Debian since bookworm.
const MERGED: &[&str] = &["bin", "lib", "lib64", "sbin"];

/// The search path in a root.
const PATH: &str = "PATH=/usr/sbin:/usr/bin";

/// Gives the root $1 this host's /dev, and runs the other arguments in its folder $2.
const SCRIPT: &str = "root=$1; place=$2; shift 2; mount --rbind /dev \"$root/dev\" && exec chroot \"$root\" env --ignore-environment --chdir=\"$place\" \"$@\"";

/// A root folder of packages.
pub(super) struct Root {
    folder: PathBuf,
    /// The names of the packages with their versions.
    packages: Vec<(String, String)>,
}

impl Root {
    /// Downloads packages with everything that they depend on, and unpacks them into the build's folder.
    pub(super) fn unpack(build: &Build<'_>, apt: &Apt, names: &[&str]) -> Result<Root, LabError> {
        let [folder, archives] = ["root", "packages"].map(|name| build.folder.join(name));
        for folder in [folder.join("dev"), archives.join("partial")] {
            fs::create_dir_all(&folder).map_err(LabError::io("create", &folder))?;
        }
        for name in MERGED {
            let (link, place) = (folder.join(name), format!("usr/{name}"));
            fs::create_dir_all(folder.join(&place))
                .and_then(|()| symlink(&place, &link))
                .map_err(LabError::io("create", &link))?;
        }
        build.step("downloading the compiler, the headers and the source (about 110 MB)");
        apt.download_all(names, &archives).map_err(|why| build.failed(why))?;
        let mut packages = Vec::new();
        let entries = fs::read_dir(&archives).map_err(LabError::io("read", &archives))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // NAME_VERSION_ARCHITECTURE.deb
            let mut parts = name.strip_suffix(".deb").into_iter().flat_map(|name| name.split('_'));
            if let (Some(package), Some(version)) = (parts.next(), parts.next()) {
                packages.push((package.to_string(), version.replace("%3a", ":")));
                unpack_into(&folder, &entry.path()).map_err(|why| build.failed(why))?;
            }
        }
        fs::remove_dir_all(&archives).map_err(LabError::io("remove", &archives))?;
        Ok(Root { folder, packages })
    }

    /// Returns the host's path of a path in the root.
    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.folder.join(inside.trim_start_matches('/'))
    }

    /// Returns the versions of packages, separated by commas.
    pub(super) fn origin(&self, names: &[&str]) -> String {
        let version = |name: &&str| {
            let found = self.packages.iter().find(|(package, _)| package == name);
            found.map(|(name, version)| format!("{name} {version}"))
        };
        names.iter().filter_map(version).collect::<Vec<_>>().join(", ")
    }

    /// Returns the folder, in the root, with the source of a module: `/usr/src/zfs-2.4.4`.
    pub(super) fn source_of(&self, build: &Build<'_>, module: &str) -> Result<String, LabError> {
        let prefix = format!("{module}-");
        let found = only(&self.path("/usr/src"), &prefix, |rest| rest.contains('.'));
        found
            .map(|name| format!("/usr/src/{name}"))
            .map_err(|why| build.failed(format!("the packages have {why} of {module}")))
    }

    /// Returns the name of the program that consists of a prefix and a number: `gcc-12`.
    pub(super) fn program(&self, build: &Build<'_>, prefix: &str) -> Result<String, LabError> {
        let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
        only(&self.path("/usr/bin"), prefix, is_number)
            .map_err(|why| build.failed(format!("the packages have {why} of {prefix}N")))
    }

    /// Gives a program a second name, which a package's installation would otherwise do.
    pub(super) fn link(
        &self,
        build: &Build<'_>,
        name: &str,
        program: &str,
    ) -> Result<(), LabError> {
        let link = self.path("/usr/bin").join(name);
        symlink(program, &link)
            .map_err(|error| build.failed(format!("{}: {error}", link.display())))
    }

    /// Runs a command in a folder of the root.
    pub(super) fn run(
        &self,
        build: &Build<'_>,
        place: &str,
        words: &[&str],
    ) -> Result<(), LabError> {
        let folder = self.folder.display().to_string();
        let fixed: Vec<String> =
            FIXED.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut command = vec!["unshare", "--mount"];
        if !rustix::process::geteuid().is_root() {
            command.extend(["--user", "--map-root-user"]);
        }
        command.extend(["sh", "-c", SCRIPT, "sh", &folder, place, PATH]);
        command.extend(fixed.iter().map(String::as_str));
        command.extend(words);
        build.run(&command, &build.folder)
    }
}

/// Unpacks a package into a root. Packages of older suites have folders such as /lib, where the root has links.
fn unpack_into(root: &Path, package: &Path) -> Result<(), String> {
    let mut contents = Command::new("dpkg-deb");
    contents.arg("--fsys-tarfile").arg(package).env("LC_ALL", "C").stdout(Stdio::piped());
    let mut contents = contents.spawn().map_err(|error| format!("dpkg-deb: {error}"))?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--keep-directory-symlink", "--no-same-owner", "-C"])
        .arg(root)
        .env("LC_ALL", "C");
    let output = tar.stdin(contents.stdout.take().map_or(Stdio::null(), Stdio::from)).output();
    let status = contents.wait().map_err(|error| format!("dpkg-deb: {error}"))?;
    let output = output.map_err(|error| format!("tar: {error}"))?;
    match status.success() && output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().next().unwrap_or("dpkg-deb failed");
            Err(format!("unpack {}: {why}", package.display()))
        }
    }
}

/// Returns the only name in a folder that consists of a prefix and a matching rest; the error is the number of names.
fn only(folder: &Path, prefix: &str, fits: impl Fn(&str) -> bool) -> Result<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| name.strip_prefix(prefix).is_some_and(&fits)).collect();
    match (names.len(), names.pop()) {
        (1, Some(name)) => Ok(name),
        (count, _) => Err(format!("{count} versions")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_must_be_the_only_one_is_found_or_the_number_of_names_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
        let gcc = || only(folder.path(), "gcc-", is_number);
        assert_eq!(gcc(), Err("0 versions".into()));
        for name in ["gcc-12", "gcc-ar-12", "gcc-nm-12", "gcc"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(gcc(), Ok("gcc-12".into()));
        fs::write(folder.path().join("gcc-14"), "").unwrap();
        assert_eq!(gcc(), Err("2 versions".into()));
    }

    #[test]
    fn the_versions_of_the_named_packages_are_the_origin() {
        let package = |name: &str, version: &str| (name.to_string(), version.to_string());
        let packages = vec![
            package("gcc-12", "12.5.0-11"),
            package("make", "4.4"),
            package("zfs-dkms", "2.4"),
        ];
        let root = Root { folder: PathBuf::from("/root"), packages };
        assert_eq!(root.origin(&["zfs-dkms", "gcc-12"]), "zfs-dkms 2.4, gcc-12 12.5.0-11");
        assert_eq!(root.path("/usr/src"), Path::new("/root/usr/src"));
    }
}
