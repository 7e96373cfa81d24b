//! Programs of this host: whether they are there, and which version.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use fsdyno_filesystem::Filesystem;

/// Where a program is: in PATH, or where Debian keeps what only root used to run.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The first line that says a version, on stdout or stderr.
pub fn version(filesystem: &Filesystem) -> Option<String> {
    let (program, arguments) = filesystem.version.split_first()?;
    let output = Command::new(find(program)?).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let digit = |line: &&str| line.bytes().any(|byte| byte.is_ascii_digit());
    text.lines().find(digit).map(|line| line.trim().to_string())
}

/// The programs of a file system that are not here.
pub fn missing(filesystem: &Filesystem) -> Vec<String> {
    filesystem.tools.iter().filter(|tool| find(tool).is_none()).cloned().collect()
}
