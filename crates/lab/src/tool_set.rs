//! Tools that the host's distribution may not have: packages of Debian's other suites, with all libraries, unpacked
//! into the cache and started by their own loader. Nothing outside of the cache changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fsdyno_filesystem::{Filesystem, catalog};
use rustix::fs::{CWD, RenameFlags};

use crate::cache::{self, Cache};
use crate::error::LabError;
use crate::fetch;
use crate::tools;

/// The folder of tool sets in the cache, with a root folder each.
const FOLDER: &str = "tools";

/// The folder in a root with a script for each program that starts it on this host.
const LAUNCH: &str = "launch";

/// The loader and the libraries of a root.
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A program of a tool set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downloaded {
    /// The ELF file.
    pub program: PathBuf,
    /// The root folder whose loader and libraries it needs.
    pub root: PathBuf,
}

/// Downloads the tools of a file system into the cache, unless the host or the cache has them.
///
/// # Errors
/// [`LabError::NoToolSet`] if a package is in no list or cannot be downloaded; errors of the cache.
pub fn bring(kind: &Filesystem, cache: &Cache, say: &dyn Fn(&str)) -> Result<(), LabError> {
    if is_here(kind) || root_in(cache, kind).is_dir() {
        return Ok(());
    }
    let failed = |error: LabError| match error {
        LabError::NoKernel(why) => LabError::NoToolSet { kind: kind.name.clone(), why },
        other => other,
    };
    let folder = cache.folder(FOLDER)?;
    let (unpacked, packages) = fetch::packages(&kind.downloaded, cache, say).map_err(failed)?;
    let launch = unpacked.path().join(LAUNCH);
    fs::create_dir(&launch).map_err(LabError::io("create", &launch))?;
    for tool in &kind.tools {
        let below = program_in(unpacked.path(), tool).ok_or_else(|| LabError::NoToolSet {
            kind: kind.name.clone(),
            why: format!("none of {} has {tool}", kind.downloaded.join(", ")),
        })?;
        let script = launch.join(tool);
        let written = fs::write(&script, launcher(&below, &packages))
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
        written.map_err(LabError::io("write", &script))?;
    }
    cache::sync_all(unpacked.path()).map_err(LabError::io("write", unpacked.path()))?;
    let root = root_in(cache, kind);
    // The first process wins; another one downloaded the same packages.
    if rustix::fs::renameat_with(CWD, unpacked.path(), CWD, &root, RenameFlags::NOREPLACE).is_ok() {
        let _ = unpacked.keep();
    }
    cache::sync(&folder).map_err(LabError::io("write", &folder))
}

/// Reports whether the tools of a file system are installed or in the cache, or would be downloaded by a run.
pub fn can_bring(kind: &Filesystem) -> bool {
    !kind.downloaded.is_empty()
}

/// Reports whether all tools of a file system are found without a download.
fn is_here(kind: &Filesystem) -> bool {
    kind.downloaded.is_empty() || kind.tools.iter().all(|tool| tools::find(tool).is_ok())
}

/// Returns the script that starts a program of a tool set in the user's cache.
pub(crate) fn launcher_of(tool: &str) -> Option<PathBuf> {
    let kind = with_tool(tool)?;
    let cache = Cache::of_user().ok()?;
    Some(root_in(&cache, kind).join(LAUNCH).join(tool)).filter(|path| path.is_file())
}

/// Returns the program that one of these scripts starts; none for another file.
pub(crate) fn downloaded(script: &Path) -> Option<Downloaded> {
    let folder = script.parent()?;
    let root = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == LAUNCH))?;
    let tool = script.file_name()?.to_str()?;
    let program = root.join(program_in(root, tool)?);
    Some(Downloaded { program, root: root.to_path_buf() }).filter(|_| root.join(LOADER).is_file())
}

fn with_tool(tool: &str) -> Option<&'static Filesystem> {
    let has = |kind: &&Filesystem| kind.tools.iter().any(|name| name == tool);
    catalog::all().iter().filter(|kind| can_bring(kind)).find(has)
}

fn root_in(cache: &Cache, kind: &Filesystem) -> PathBuf {
    cache.path().join(FOLDER).join(&kind.name)
}

/// Returns the path of a program below a root.
fn program_in(root: &Path, tool: &str) -> Option<PathBuf> {
    let folders = ["usr/sbin", "usr/bin", "sbin", "bin"];
    folders
        .map(|folder| Path::new(folder).join(tool))
        .into_iter()
        .find(|at| root.join(at).is_file())
}

/// Returns a script that starts a program with the loader and the libraries of its root. It names the packages, so that the hash
/// of the script changes with them, and no folder of the host.
fn launcher(program: &Path, packages: &str) -> String {
    let program = program.display();
    format!(
        "#!/bin/sh\n# fsdyno: a program with its own libraries, of these packages:\n{packages}\
         root=${{0%/{LAUNCH}/*}}\n\
         exec \"$root/{LOADER}\" --library-path \"$root/{LIBRARIES}\" \"$root/{program}\" \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with a program that is the host's own `echo`, its loader and its libraries.
    fn root() -> Option<tempfile::TempDir> {
        let root = tempfile::tempdir().unwrap();
        let echo = tools::find("echo").unwrap();
        let mut files = tools::Files::new();
        tools::add_libraries(&echo, None, &mut files).unwrap();
        for (path, file) in &files {
            let name = Path::new(path).file_name().unwrap();
            let loader = name.to_string_lossy().starts_with("ld-linux");
            let at = if loader { PathBuf::from(LOADER) } else { Path::new(LIBRARIES).join(name) };
            let at = root.path().join(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::copy(file, at).unwrap();
        }
        let program = root.path().join("usr/bin/echo");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::copy(&echo, &program).unwrap();
        let script = root.path().join(LAUNCH).join("echo");
        fs::create_dir(script.parent().unwrap()).unwrap();
        fs::write(&script, launcher(Path::new("usr/bin/echo"), "# echo 1 5e\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        root.path().join(LOADER).is_file().then_some(root)
    }

    #[test]
    fn a_program_starts_with_the_loader_and_libraries_of_its_own_root() {
        let Some(root) = root() else {
            println!("skipped: this host's loader has another name");
            return;
        };
        let script = root.path().join(LAUNCH).join("echo");
        let output = std::process::Command::new(&script).arg("two words").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "two words\n");
        let found = downloaded(&script).unwrap();
        assert_eq!(found.program, root.path().join("usr/bin/echo"));
        // The guest's loader and C library are those of the root.
        let mut files = tools::Files::new();
        tools::add_libraries(&found.program, Some(&found.root), &mut files).unwrap();
        assert!(files.contains_key("/lib64/ld-linux-x86-64.so.2"), "{files:?}");
        assert!(files.values().all(|file| file.starts_with(root.path())), "{files:?}");
        assert!(files.keys().all(|path| !path.contains(root.path().to_str().unwrap())));
    }

    #[test]
    fn a_program_of_the_host_is_not_of_a_tool_set() {
        assert_eq!(downloaded(&tools::find("true").unwrap()), None);
        assert_eq!(launcher_of("mke2fs"), None);
    }
}
