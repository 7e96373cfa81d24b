//! The file that `fsdyno fit` writes.

use std::io::{Read as _, Write as _};
use std::path::Path;

use fsdyno_campaign::Failure;
use fsdyno_record::shell::quote;

/// The first bytes of a file that `fsdyno fit` writes.
const HEAD: &[u8] = b"# Fitted by `fsdyno fit`";

/// Returns true if the path is a file that an earlier fit wrote.
pub fn is_written_by_fit(path: &Path) -> bool {
    // Opening a pipe would block, so only regular files are opened.
    if !std::fs::metadata(path).is_ok_and(|status| status.is_file()) {
        return false;
    }
    let mut head = [0; HEAD.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *HEAD
}

/// Checks that a fit may write this file.
///
/// # Errors
/// A name without the extension of a profile, a folder that does not exist, or a file that no fit wrote.
pub fn check_out(out: &Path) -> Result<(), Failure> {
    if out.extension().is_none_or(|end| end != "toml") {
        return Err(Failure::invalid_use(format!(
            "--out '{}' does not end in .toml, as a disk profile does",
            out.display()
        )));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::invalid_use(format!(
            "--out: there is no folder '{}'",
            folder.display()
        )));
    }
    match out.symlink_metadata().is_err() || is_written_by_fit(out) {
        true => Ok(()),
        false => Err(Failure::invalid_use(format!(
            "--out '{}' exists and was not written by fsdyno fit; give a new file",
            out.display()
        ))),
    }
}

/// The device that a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// A disk.
    Disk,
    /// The processor of this machine.
    Processor,
}

impl ProfileKind {
    /// Returns the option that uses a profile in this file.
    pub fn usage(self, out: &Path) -> String {
        let path = out.display().to_string();
        match self {
            ProfileKind::Processor => {
                let path = quote(&path);
                format!("processor: {path} (fsdyno run ... --on lab --cpu {path})")
            }
            ProfileKind::Disk => {
                // Without a slash, --disk would interpret it as a name.
                let argument =
                    quote(&if path.contains('/') { path.clone() } else { format!("./{path}") });
                format!("disk: {path} (fsdyno run ... --disk {argument})")
            }
        }
    }
}

/// Writes a new file, or replaces one of an earlier fit, atomically.
///
/// # Errors
/// The kernel's error.
pub fn write(out: &Path, text: &str) -> Result<(), Failure> {
    let fill = |file: &mut std::fs::File| file.write_all(text.as_bytes());
    let result = match is_written_by_fit(out) {
        true => fsdyno_media::file::write(out, fill),
        false => fsdyno_media::file::write_new(out, fill),
    };
    result.map_err(|error| Failure::io("write", out, &error))
}
