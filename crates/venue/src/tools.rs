//! The programs of a file system on this host: presence and versions.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use fsdyno_filesystem::{Filesystem, array, catalog};
use fsdyno_lab::find_program;
use fsdyno_record::Plan;

/// Returns the version line that mkfs prints; the program is the same as in a guest.
pub fn version(filesystem: &Filesystem) -> Option<String> {
    version_line(&filesystem.version)
}

/// Returns the first line with a digit that a version command prints on stdout or stderr.
pub fn version_line(argv: &[String]) -> Option<String> {
    let (program, arguments) = argv.split_first()?;
    let program = find_program(program).ok()?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let has_digit = |line: &&str| line.bytes().any(|byte| byte.is_ascii_digit());
    text.lines().find(has_digit).map(|line| line.trim().to_string())
}

/// Returns the programs of a file system that are not installed.
pub fn missing(filesystem: &Filesystem) -> Vec<String> {
    filesystem.tools.iter().filter(|tool| find_program(tool).is_err()).cloned().collect()
}

/// Returns the versions of mkfs and mdadm for a plan.
pub fn of_plan(plan: &Plan) -> BTreeMap<String, String> {
    let kind = plan.filesystem.as_ref().and_then(|plan| catalog::get(plan.made_kind()).ok());
    let line = |kind: &Filesystem| Some((kind.version.first()?.clone(), version(kind)?));
    let array = plan
        .medium
        .raid()
        .and_then(|_| Some((array::TOOL.to_string(), version_line(&array::version())?)));
    kind.and_then(line).into_iter().chain(array).collect()
}
