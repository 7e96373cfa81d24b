//! The QEMU on this host: path, version, and the files that affect its results.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_record::canonical::sha256_hex;

use crate::error::LabError;
use crate::qemu::MACHINE_TYPE;
use crate::tools;

/// A QEMU that can run a lab.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// The first line of `--version`, without "QEMU emulator version".
    pub version: String,
    /// SHA-256 of the program.
    pub sha256: String,
    /// Hashes (SHA-256) of the firmware files that a guest executes, by name.
    pub firmware: BTreeMap<String, String>,
    /// The program and all firmware files.
    pub(crate) files: Vec<HashedFile>,
}

/// A file in the state in which it was hashed. It is opened again by name later and may have been replaced by then: a
/// package may be upgraded during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashedFile {
    pub path: PathBuf,
    /// Device, inode, size, and time of last change in seconds and nanoseconds.
    stamp: (u64, u64, u64, i64, i64),
}

impl HashedFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<(HashedFile, Vec<u8>), LabError> {
        let read = || -> io::Result<_> {
            let mut file = File::open(path)?;
            // Before reading, so that a change during the read is detected.
            let stamp = stamp(&file.metadata()?);
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok((HashedFile { path: path.into(), stamp }, bytes))
        };
        read().map_err(LabError::io("read", path))
    }

    /// Returns true if the file is unchanged.
    pub fn is_unchanged(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| stamp(&metadata) == self.stamp)
    }
}

fn stamp(metadata: &Metadata) -> (u64, u64, u64, i64, i64) {
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec())
}

/// The firmware that a machine without screen and network loads (strace [RUN]): the BIOS, the APIC's
/// option ROM, and the ROM that enters the kernel (pvh for an ELF, linuxboot for a bzImage).
const FIRMWARE: &[&str] = &["bios-256k.bin", "kvmvapic.bin", "pvh.bin", "linuxboot_dma.bin"];

/// Finds QEMU and queries its features.
///
/// # Errors
/// [`LabError::NoQemu`] if there is none; [`LabError::WrongQemu`] if it does not run, or lacks the machine
/// type, the emulation, or its firmware.
pub fn probe_qemu(requested: Option<&Path>) -> Result<Qemu, LabError> {
    let path = match requested {
        Some(path) if path.is_file() => path.to_path_buf(),
        Some(path) => return Err(LabError::NoQemu(format!("{} is not a file", path.display()))),
        None => tools::find("qemu-system-x86_64").map_err(|_| {
            LabError::NoQemu("qemu-system-x86_64 is neither in PATH nor in /usr/sbin".into())
        })?,
    };
    let invalid = |reason: String| LabError::WrongQemu { path: path.clone(), reason };
    let version = version_of(&query(&path, "--version").map_err(&invalid)?)
        .ok_or_else(|| invalid("its --version is not that of QEMU".into()))?;
    let lists = |question: [&str; 2], name: &str| -> Result<bool, LabError> {
        let answer = query(&path, &question.join(" ")).map_err(&invalid)?;
        Ok(answer.split_whitespace().any(|word| word == name))
    };
    if !lists(["-accel", "help"], "tcg")? {
        return Err(invalid("it was built without emulation (tcg)".into()));
    }
    if !lists(["-machine", "help"], MACHINE_TYPE)? {
        return Err(invalid(format!(
            "version {version} does not support the machine {MACHINE_TYPE}"
        )));
    }
    let folders = query(&path, "-L help").map_err(&invalid)?;
    let folders: Vec<PathBuf> = folders.lines().map(PathBuf::from).collect();
    let (mut firmware, mut files) = (BTreeMap::new(), Vec::new());
    for (name, found) in firmware_in(&folders).map_err(&invalid)? {
        let (file, bytes) = HashedFile::read(&found)?;
        firmware.insert(name, sha256_hex(&bytes));
        files.push(file);
    }
    // If QEMU is built with modules, the emulation is one of them.
    let mut program = Vec::new();
    for part in [Some(path.clone()), tcg_module()].iter().flatten() {
        let (file, bytes) = HashedFile::read(part)?;
        program.extend(bytes);
        files.push(file);
    }
    Ok(Qemu { sha256: sha256_hex(&program), path, version, firmware, files })
}

/// Returns the module that executes the guest's instructions, at its path on Debian and Ubuntu, or `None` if it is
/// part of the program.
fn tcg_module() -> Option<PathBuf> {
    let folder = std::env::var_os("QEMU_MODULE_DIR").map(PathBuf::from);
    let default = ["/usr/lib/x86_64-linux-gnu/qemu", "/usr/lib/qemu", "/usr/lib64/qemu"];
    folder
        .into_iter()
        .chain(default.map(PathBuf::from))
        .map(|folder| folder.join("accel-tcg-x86_64.so"))
        .find(|path| path.is_file())
}

fn query(path: &Path, arguments: &str) -> Result<String, String> {
    let mut command = Command::new(path);
    command.args(arguments.split(' ')).env("LC_ALL", "C");
    let output = command.output().map_err(|error| format!("it does not run: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!("{arguments}: {}", message.lines().last().unwrap_or("no message")))
    }
}

fn version_of(text: &str) -> Option<String> {
    Some(text.lines().next()?.strip_prefix("QEMU emulator version ")?.trim().to_string())
}

fn firmware_in(folders: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, String> {
    FIRMWARE
        .iter()
        .map(|name| {
            let file = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
            let file = file.ok_or_else(|| format!("its firmware {name} is not installed"))?;
            Ok((name.to_string(), file))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fake(script: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qemu");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    }

    #[test]
    fn the_hint_of_a_missing_qemu_installs_it() {
        let error = probe_qemu(Some(Path::new("/no/qemu"))).unwrap_err();
        assert!(error.is_missing());
        assert_eq!(error.hint().unwrap(), "apt-get install qemu-system-x86");
    }

    #[test]
    fn a_qemu_without_the_machine_is_refused_with_its_version() {
        let (_folder, path) = fake(
            "case \"$*\" in --version) echo QEMU emulator version 5.2.0;; \
             '-accel help') echo tcg;; '-machine help') echo pc-q35-5.2;; esac",
        );
        let error = probe_qemu(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("version 5.2.0 does not support the machine pc-q35-7.1"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_qemu_is_refused() {
        let (_folder, path) = fake("echo hello");
        let error = probe_qemu(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("is not that of QEMU"), "{error}");
    }

    #[test]
    fn the_qemu_of_this_host_has_all_four_files_of_firmware() {
        match probe_qemu(None) {
            Ok(qemu) => assert_eq!(qemu.firmware.len(), FIRMWARE.len()),
            Err(error) => {
                assert!(error.is_missing(), "{error}");
                println!("skipped: {error}");
            }
        }
    }
}
