//! Tools that the host's distribution may lack: packages of other Debian suites, unpacked into the cache with all
//! their libraries and started with their own loader. Nothing outside the cache changes.

use std::path::{Path, PathBuf};

use fsdyno_filesystem::{Filesystem, catalog};

use crate::cache::Cache;

/// The cache folder of the tool sets, with one root folder per set.
pub(crate) const FOLDER: &str = "tools";

/// The folder in a root that contains a launcher for each program: a script that starts the program on this host.
pub(crate) const LAUNCH: &str = "launch";

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

/// Returns true if the tools of a file system can be downloaded as a tool set.
pub fn can_download(kind: &Filesystem) -> bool {
    !kind.downloaded.is_empty()
}

/// Returns the launcher of a tool, if a tool set in the user's cache has it.
pub(crate) fn launcher_of(tool: &str) -> Option<PathBuf> {
    let kind = filesystem_with_tool(tool)?;
    let cache = Cache::of_user().ok()?;
    Some(root_in(&cache, kind).join(LAUNCH).join(tool)).filter(|path| path.is_file())
}

/// Returns the program that a launcher starts, or `None` for any other file.
pub(crate) fn downloaded(script: &Path) -> Option<Downloaded> {
    let folder = script.parent()?;
    let root = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == LAUNCH))?;
    let tool = script.file_name()?.to_str()?;
    let program = root.join(program_in(root, tool)?);
    Some(Downloaded { program, root: root.to_path_buf() }).filter(|_| root.join(LOADER).is_file())
}

fn filesystem_with_tool(tool: &str) -> Option<&'static Filesystem> {
    let has = |kind: &&Filesystem| kind.tools.iter().any(|name| name == tool);
    catalog::all().iter().filter(|kind| can_download(kind)).find(has)
}

pub(crate) fn root_in(cache: &Cache, kind: &Filesystem) -> PathBuf {
    cache.path().join(FOLDER).join(&kind.name)
}

/// Returns the path of a program below a root.
pub(crate) fn program_in(root: &Path, tool: &str) -> Option<PathBuf> {
    let folders = ["usr/sbin", "usr/bin", "sbin", "bin"];
    folders
        .map(|folder| Path::new(folder).join(tool))
        .into_iter()
        .find(|path| root.join(path).is_file())
}

/// Returns the text of a launcher, which starts a program with the loader and the libraries of its root. The text names
/// the packages, so that its hash changes with them; it names no folder of the host.
pub(crate) fn launcher(program: &Path, packages: &str) -> String {
    let program = program.display();
    format!(
        "#!/bin/sh\n# fsdyno: a program with its own libraries, of these packages:\n{packages}\
         root=${{0%/{LAUNCH}/*}}\n\
         exec \"$root/{LOADER}\" --library-path \"$root/{LIBRARIES}\" \"$root/{program}\" \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tools;

    /// Makes a root with the host's own `echo`, its loader and its libraries.
    fn root() -> Option<tempfile::TempDir> {
        let root = tempfile::tempdir().unwrap();
        let echo = tools::find("echo").unwrap();
        let mut files = tools::Files::new();
        tools::add_libraries(&echo, None, &mut files).unwrap();
        for (path, file) in &files {
            let name = Path::new(path).file_name().unwrap();
            let is_loader = name.to_string_lossy().starts_with("ld-linux");
            let target =
                if is_loader { PathBuf::from(LOADER) } else { Path::new(LIBRARIES).join(name) };
            let target = root.path().join(target);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(file, target).unwrap();
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
    fn a_program_of_the_host_belongs_to_no_tool_set() {
        assert_eq!(downloaded(&tools::find("true").unwrap()), None);
        assert_eq!(launcher_of("mke2fs"), None);
    }
}
