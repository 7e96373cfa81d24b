//! A root folder of Debian packages in which the commands of a build run, isolated from this host's programs, libraries
//! and devices.
//!
//! Commands run by chroot in separate namespaces, without a network, and see only the devices in [`SCRIPT`]. Mounts
//! and processes end with the command.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Build, FIXED_ENVIRONMENT, in_namespaces, problem_of};
use crate::apt::Apt;
use crate::error::LabError;

/// The folders of a root that are links to those of the same name in usr/, as in Debian since bookworm.
const MERGED: &[&str] = &["bin", "lib", "lib64", "sbin"];

/// The search path in a root.
const SEARCH_PATH: &str = "PATH=/usr/sbin:/usr/bin";

/// Mounts a few devices of this host and a /proc in the root $1, and runs the other arguments in its folder $2.
const SCRIPT: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin; export PATH
root=$1; place=$2; shift 2
# In a folder of mode 1777 only its owner may open a device with O_CREAT.
mount -t tmpfs -o mode=755 tmpfs "$root/dev" || exit
for device in null zero full random urandom; do
    : >"$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device" || exit
done
# objtool of Linux 7.3 reads its limits. A container may forbid this; older kernels do without.
mount -t proc proc "$root/proc"
exec chroot "$root" /usr/bin/env --ignore-environment --chdir="$place" "$@"
"#;

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
        for leftover in [&folder, &archives].into_iter().filter(|folder| folder.exists()) {
            fs::remove_dir_all(leftover).map_err(LabError::io("remove", leftover))?;
        }
        for folder in [folder.join("dev"), folder.join("proc"), archives.join("partial")] {
            fs::create_dir_all(&folder).map_err(LabError::io("create", &folder))?;
        }
        for name in MERGED {
            let (link, target) = (folder.join(name), format!("usr/{name}"));
            fs::create_dir_all(folder.join(&target)).map_err(LabError::io("create", &folder))?;
            if !link.is_symlink() {
                symlink(&target, &link).map_err(LabError::io("create", &link))?;
            }
        }
        let fetched = apt.download_all(names, &archives, &build.log);
        fetched.map_err(|why| build.failed(format!("{why} (is the network up?)")))?;
        let mut packages = Vec::new();
        let entries = fs::read_dir(&archives).map_err(LabError::io("read", &archives))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // NAME_VERSION_ARCHITECTURE.deb
            let mut parts = name.strip_suffix(".deb").into_iter().flat_map(|name| name.split('_'));
            if let (Some(package), Some(version)) = (parts.next(), parts.next()) {
                packages.push((package.to_string(), version.replace("%3a", ":")));
                let unpacked = unpack_into(&folder, &entry.path());
                unpacked
                    .map_err(|why| build.failed(format!("{name} cannot be unpacked: {why}")))?;
            }
        }
        fs::remove_dir_all(&archives).map_err(LabError::io("remove", &archives))?;
        Ok(Root { folder, packages })
    }

    /// Returns the host's path of a path in the root.
    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.folder.join(inside.trim_start_matches('/'))
    }

    /// Returns the versions of the named packages and of a compiler's packages, separated by commas.
    pub(super) fn origin(&self, names: &[&str], compiler: &str) -> String {
        let number = compiler.rsplit('-').next().unwrap_or_default();
        let is_compiler = |name: &str| {
            let rest = name.strip_prefix("gcc-").and_then(|name| name.strip_prefix(number));
            rest.is_some_and(|rest| !["-base", "-for-host"].contains(&rest))
        };
        let named = names.iter().flat_map(|name| self.packages.iter().find(|it| it.0 == *name));
        let compilers = self.packages.iter().filter(|(name, _)| is_compiler(name));
        let versions = named.chain(compilers).map(|(name, version)| format!("{name} {version}"));
        versions.collect::<Vec<_>>().join(", ")
    }

    /// Returns the folder, in the root, with the source of a module: `/usr/src/zfs-2.4.4`.
    pub(super) fn source_of(&self, build: &Build<'_>, module: &str) -> Result<String, LabError> {
        let entries = fs::read_dir(self.path("/usr/src")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> =
            names.filter(|name| name.strip_prefix(module).is_some_and(is_version)).collect();
        match (names.len(), names.pop()) {
            (1, Some(name)) => Ok(format!("/usr/src/{name}")),
            (count, _) => Err(build.failed(format!(
                "expected one source of {module} in the downloaded packages, found {count}"
            ))),
        }
    }

    /// Returns the compiler of a kernel, according to the configuration in its headers: `gcc-12`.
    pub(super) fn compiler(&self, build: &Build<'_>, headers: &str) -> Result<String, LabError> {
        let config = self.path("/usr/src").join(headers).join(".config");
        let config = fs::read_to_string(&config).map_err(LabError::io("read", &config))?;
        let line = config.lines().find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT=\""));
        let name = line.and_then(|text| text.split_whitespace().next()).unwrap_or_default();
        match !name.is_empty() && self.path("/usr/bin").join(name).exists() {
            true => Ok(name.to_string()),
            false => Err(build.failed(format!(
                "the kernel was compiled with '{name}', which the downloaded packages do not have"
            ))),
        }
    }

    /// Gives a program a second name, as the installation of its package would.
    pub(super) fn link(
        &self,
        build: &Build<'_>,
        name: &str,
        program: &str,
    ) -> Result<(), LabError> {
        let link = self.path("/usr/bin").join(name);
        symlink(program, &link)
            .map_err(|error| build.failed(format!("{} cannot be created: {error}", link.display())))
    }

    /// Runs a command in the folder `working_folder` of the root.
    pub(super) fn run(
        &self,
        build: &Build<'_>,
        working_folder: &str,
        args: &[&str],
    ) -> Result<(), LabError> {
        let folder = self.folder.display().to_string();
        let environment: Vec<String> =
            FIXED_ENVIRONMENT.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut command = in_root_namespaces();
        command.extend(["sh", "-c", SCRIPT, "sh", &folder, working_folder, SEARCH_PATH]);
        command.extend(environment.iter().map(String::as_str));
        command.extend(args);
        build.run_plainly(&command, &build.folder)
    }
}

/// Returns the arguments that run a command in the namespaces of a root.
fn in_root_namespaces() -> Vec<&'static str> {
    in_namespaces(&["--mount", "--net"], "--map-root-user")
}

/// Returns the reason why this user can run nothing in a root, if there is one.
pub(super) fn problem() -> Option<String> {
    let mut args = in_root_namespaces();
    args.extend(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    problem_of(&args)
}

/// Returns true if the rest of a name is a version: `-2.4.4`.
fn is_version(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Unpacks a package into a root. Packages of older suites ship /lib and the like as directories; in the root these are
/// links. A member that would be written outside the root, by its name or through a link, is an error.
fn unpack_into(root: &Path, package: &Path) -> Result<(), String> {
    let mut command = Command::new("dpkg-deb");
    command.arg("--fsys-tarfile").arg(package).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("dpkg-deb cannot be started: {error}"))?;
    let contents = child.stdout.take().map(|contents| unpack_tar(contents, root));
    // The end of the pipe is closed by now, so dpkg-deb ends even if not all of its output was read.
    let output = child
        .wait_with_output()
        .map_err(|error| format!("the output of dpkg-deb cannot be read: {error}"))?;
    match contents {
        Some(Err(why)) => Err(why),
        _ if !output.status.success() => Err(crate::apt::last_line(&output.stderr)),
        _ => Ok(()),
    }
}

fn unpack_tar(contents: impl Read, root: &Path) -> Result<(), String> {
    let mut archive = tar::Archive::new(contents);
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let name = entry.path().map_or_else(|_| PathBuf::from("?"), |path| path.into_owned());
        // tar would replace a link to a folder with a folder.
        if entry.header().entry_type().is_dir() && root.join(&name).is_dir() {
            continue;
        }
        match entry.unpack_in(root) {
            Ok(true) => {}
            Ok(false) => return Err(format!("'{}' leads out of its folder", name.display())),
            Err(error) => {
                return Err(format!("its member '{}' cannot be written: {error}", name.display()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Builds a package from some files, with a link for each text that begins with `->`.
    fn package(folder: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let tree = folder.join(name);
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        let control = format!(
            "Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: me\nDescription: x\n"
        );
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        for (path, text) in files {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text.strip_prefix("->") {
                Some(target) => symlink(target, &path).unwrap(),
                None => fs::write(&path, text).unwrap(),
            }
        }
        let file = folder.join(format!("{name}.deb"));
        let made = Command::new("dpkg-deb").arg("--build").args([&tree, &file]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        file
    }

    #[test]
    fn packages_are_merged_into_usr_and_nothing_is_written_outside_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let [root, outside] = ["root", "outside"].map(|name| folder.path().join(name));
        fs::create_dir_all(root.join("usr/lib")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        let link = format!("->{}", outside.display());
        let files = [("lib/modules/6.1/build", link.as_str()), ("lib/a", "1")];
        unpack_into(&root, &package(folder.path(), "old", &files)).unwrap();
        assert!(root.join("lib").is_symlink());
        assert_eq!(fs::read_to_string(root.join("usr/lib/a")).unwrap(), "1");
        let files = [("usr/lib/modules/6.1/build/b", "2")];
        let error = unpack_into(&root, &package(folder.path(), "bad", &files)).unwrap_err();
        assert!(error.contains("usr/lib/modules/6.1/build/b"), "{error}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        let error = unpack_into(&root, &folder.path().join("none.deb")).unwrap_err();
        assert!(error.contains("none.deb"), "{error}");
    }

    #[test]
    fn the_versions_of_the_named_packages_are_the_origin() {
        let package = |name: &str, version: &str| (name.to_string(), version.to_string());
        let packages = vec![
            package("gcc-14-x86-64-linux-gnu", "14.4.0-3"),
            package("gcc-14-base", "14.4.0-3"),
            package("zfs-dkms", "2.4"),
        ];
        let root = Root { folder: PathBuf::from("/root"), packages };
        let origin = root.origin(&["zfs-dkms"], "x86_64-linux-gnu-gcc-14");
        assert_eq!(origin, "zfs-dkms 2.4, gcc-14-x86-64-linux-gnu 14.4.0-3");
        assert_eq!(root.path("/usr/src"), Path::new("/root/usr/src"));
        assert!(is_version("-2.4.4") && !is_version("-dkms") && !is_version("2"));
    }
}
