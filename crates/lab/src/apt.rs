//! Runs apt as any user, with the system's package lists or with separate ones.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output};

use fsdyno_record::canonical::sha256_hex;

use crate::packages::{Package, Packages};

/// Settings with which apt accepts only signed lists with SHA-256, regardless of its own settings.
const SIGNED: &[&str] = &[
    "-o",
    "Acquire::AllowInsecureRepositories=false",
    "-o",
    "APT::Get::AllowUnauthenticated=false",
    "-o",
    "Acquire::ForceHash=SHA256",
];

/// apt with a set of package lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Uses the system's lists, which are never changed.
    pub fn of_system() -> Apt {
        Apt { options: Vec::new() }
    }

    /// Uses the sources in `folder/sources.list`, with lists in that folder.
    pub fn in_folder(folder: &Path) -> Apt {
        let mut options = Vec::new();
        for (key, value) in [
            ("Dir::Etc::SourceList", folder.join("sources.list").as_path()),
            ("Dir::Etc::SourceParts", Path::new("/dev/null")),
            // The system's pins apply only to its own sources.
            ("Dir::Etc::Preferences", Path::new("/dev/null")),
            ("Dir::Etc::PreferencesParts", Path::new("/dev/null")),
            ("APT::Default-Release", Path::new("")),
            ("Dir::State::Lists", &folder.join("lists")),
            ("Dir::Cache", &folder.join("cache")),
        ] {
            options.extend(["-o".to_string(), format!("{key}={}", value.display())]);
        }
        // apt's sandbox user cannot read lists in a user's cache folder; their signatures are verified nevertheless.
        options.extend(["-o".to_string(), "APT::Sandbox::User=root".to_string()]);
        Apt { options }
    }

    fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<Output, String> {
        let mut command = Command::new(program);
        command.args(SIGNED).args(&self.options).args(arguments);
        let output = command.current_dir(folder).env("LC_ALL", "C").output();
        output.map_err(|error| format!("{program} cannot be started: {error}"))
    }

    /// Returns the kernel packages of the lists.
    ///
    /// # Errors
    /// The error of apt-cache.
    pub fn packages(&self) -> Result<Packages, String> {
        let output = self.run("apt-cache", &["dumpavail"], Path::new("/"))?;
        match output.status.success() {
            true => Ok(Packages::read(&String::from_utf8_lossy(&output.stdout))),
            false => Err(format!("apt-cache dumpavail failed: {}", last_line(&output.stderr))),
        }
    }

    /// Fetches the lists. A suite that the mirror lacks is reported with `say`; the others are still fetched.
    ///
    /// # Errors
    /// No list could be fetched, or apt-get cannot be run.
    pub fn update(&self, say: &dyn Fn(&str)) -> Result<(), String> {
        // Without this, an unreachable mirror would not be an error.
        let arguments = ["update", "-q", "-o", "APT::Update::Error-Mode=any"];
        let output = self.run("apt-get", &arguments, Path::new("/"))?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let why = stderr.lines().find(|line| line.starts_with("E: ")).unwrap_or("no message");
        let why = format!("apt-get update failed: {why}");
        let reached = |line: &str| line.starts_with("Get:") || line.starts_with("Hit:");
        match String::from_utf8_lossy(&output.stdout).lines().any(reached) {
            true => {
                say(&why);
                Ok(())
            }
            false => Err(why),
        }
    }

    /// Downloads packages into an empty folder, verifies them against the hashes of the signed list, and returns
    /// the open files in the same order.
    ///
    /// # Errors
    /// An error of apt-get, or a file with a different hash.
    pub fn download(&self, packages: &[Package], folder: &Path) -> Result<Vec<File>, String> {
        let specs: Vec<String> = packages
            .iter()
            .map(|Package { name, version, .. }| format!("{name}={version}"))
            .collect();
        let mut arguments = vec!["download", "-q"];
        arguments.extend(specs.iter().map(String::as_str));
        let output = self.run("apt-get", &arguments, folder)?;
        if !output.status.success() {
            let why = last_line(&output.stderr);
            return Err(format!("apt-get download {} failed: {why}", specs.join(" ")));
        }
        packages.iter().map(|package| open_verified(package, folder)).collect()
    }

    /// Downloads packages into a folder with everything that they depend on, as for a system on which nothing is
    /// installed. apt verifies them against the hashes of the signed list. Its output is appended to `log`.
    ///
    /// # Errors
    /// The first error of apt-get.
    pub fn download_all(&self, names: &[&str], folder: &Path, log: &Path) -> Result<(), String> {
        let archives = format!("Dir::Cache::Archives={}/", folder.display());
        let mut arguments =
            vec!["install", "-y", "-q", "--download-only", "--no-install-recommends"];
        for option in [
            &archives,
            "Dir::State::Status=/dev/null",
            "Debug::NoLocking=true",
            // The caches are for the status of this host.
            "Dir::Cache::pkgcache=",
            "Dir::Cache::srcpkgcache=",
        ] {
            arguments.extend(["-o", option]);
        }
        arguments.extend(names);
        let output = self.run("apt-get", &arguments, folder)?;
        let opened = File::options().append(true).open(log);
        let written = opened.and_then(|mut file| {
            file.write_all(&output.stdout).and_then(|()| file.write_all(&output.stderr))
        });
        written.map_err(|error| format!("{} cannot be written: {error}", log.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let why = message.lines().find(|line| line.starts_with("E: ")).unwrap_or("no message");
        Err(format!("apt-get install failed: {why}"))
    }
}

/// Opens the file of a package in a folder, `NAME_VERSION_ARCHITECTURE.deb`, and verifies its hash.
fn open_verified(package: &Package, folder: &Path) -> Result<File, String> {
    let failed = |error: std::io::Error| {
        format!("the packages in {} cannot be read: {error}", folder.display())
    };
    let prefix = format!("{}_", package.name);
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(failed)?.collect();
    let names = entries.map_err(failed)?.into_iter().map(|entry| entry.file_name());
    let name = names.into_iter().find(|name| name.to_string_lossy().starts_with(&prefix));
    let name = name.ok_or_else(|| format!("apt-get did not download {}", package.name))?;
    let mut file = File::open(folder.join(&name)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let (name, expected) = (name.display(), &package.sha256);
    match sha256_hex(&bytes) {
        found if found == *expected => Ok(file),
        found => Err(format!("{name} has the SHA-256 {found}, but the list has {expected}")),
    }
}

/// Returns the last line of a program's output.
pub fn last_line(output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    output.lines().last().unwrap_or("no message").to_string()
}
