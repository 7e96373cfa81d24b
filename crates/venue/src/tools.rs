//! The programs of a file system on this host: whether they are there, and which version.

use std::process::{Command, Stdio};

use fsdyno_filesystem::Filesystem;
use fsdyno_lab::find_program;

/// The first line that says a version, on stdout or stderr, of the very program that a guest gets.
pub fn version(filesystem: &Filesystem) -> Option<String> {
    version_by(&filesystem.version)
}

/// The same of any program, by the command that prints it.
pub fn version_by(argv: &[String]) -> Option<String> {
    let (program, arguments) = argv.split_first()?;
    let program = find_program(program).ok()?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let digit = |line: &&str| line.bytes().any(|byte| byte.is_ascii_digit());
    text.lines().find(digit).map(|line| line.trim().to_string())
}

/// The programs of a file system that are not here.
pub fn missing(filesystem: &Filesystem) -> Vec<String> {
    filesystem.tools.iter().filter(|tool| find_program(tool).is_err()).cloned().collect()
}
