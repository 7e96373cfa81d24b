//! The programs of a file system on this host: presence and versions.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use fsdyno_filesystem::{Filesystem, array, catalog};
use fsdyno_lab::find_program;
use fsdyno_record::Plan;

/// Returns the version line that mkfs prints; the program is the same as in a guest.
pub fn version(filesystem: &Filesystem) -> Option<String> {
    version_line(&filesystem.version)
}

/// Returns the first line with a digit that a version command prints on stdout or stderr. A process runs each command
/// once, and again only if its program was replaced.
pub fn version_line(argv: &[String]) -> Option<String> {
    type Lines = BTreeMap<(Vec<String>, [i64; 5]), Option<String>>;
    static KNOWN: Mutex<Lines> = Mutex::new(BTreeMap::new());
    let program = find_program(argv.first()?).ok()?;
    let metadata = program.metadata().ok()?;
    let (device, inode) = (metadata.dev() as i64, metadata.ino() as i64);
    let (changed, size) = ((metadata.ctime(), metadata.ctime_nsec()), metadata.size() as i64);
    let key = (argv.to_vec(), [device, inode, size, changed.0, changed.1]);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = known().get(&key) {
        return line.clone();
    }
    let line = printed_version(&program, &argv[1..]);
    known().insert(key, line.clone());
    line
}

fn printed_version(program: &Path, arguments: &[String]) -> Option<String> {
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
