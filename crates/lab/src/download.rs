//! Downloads the tools of a file system that no package of this host provides.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use fsdyno_filesystem::Filesystem;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::cache::{self, Cache};
use crate::error::LabError;
use crate::fetch;
use crate::tool_set::{FOLDER, LAUNCH, launcher, program_in, root_in};
use crate::tools;

/// Downloads the tools of a file system into the cache, unless the host or the cache already has them.
///
/// # Errors
/// [`LabError::NoToolSet`] if a package is not in any list or cannot be downloaded; errors of the cache.
pub fn download(kind: &Filesystem, cache: &Cache, say: &dyn Fn(&str)) -> Result<(), LabError> {
    if is_available(kind) || root_in(cache, kind).is_dir() {
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
        let program = program_in(unpacked.path(), tool).ok_or_else(|| LabError::NoToolSet {
            kind: kind.name.clone(),
            why: format!("none of {} has {tool}", kind.downloaded.join(", ")),
        })?;
        let script = launch.join(tool);
        let result = fs::write(&script, launcher(&program, &packages))
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
        result.map_err(LabError::io("write", &script))?;
    }
    cache::sync_file_system(unpacked.path()).map_err(LabError::io("write", unpacked.path()))?;
    let root = root_in(cache, kind);
    store(unpacked, &root).map_err(LabError::io("create", &root))?;
    cache::sync_directory(&folder).map_err(LabError::io("write", &folder))
}

/// Gives the unpacked tools their name. The first process wins; any other process has downloaded the same packages.
fn store(unpacked: TempDir, root: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, unpacked.path(), CWD, root, RenameFlags::NOREPLACE) {
        Ok(()) => {
            // It is no longer a temporary folder.
            let _ = unpacked.keep();
            Ok(())
        }
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if all tools of a file system are available without a download.
fn is_available(kind: &Filesystem) -> bool {
    kind.downloaded.is_empty() || kind.tools.iter().all(|tool| tools::find(tool).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_downloads_is_stored_and_another_failure_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = |content: &str| {
            let unpacked = tempfile::tempdir_in(folder.path()).unwrap();
            fs::write(unpacked.path().join("tool"), content).unwrap();
            unpacked
        };
        let root = folder.path().join("tools");
        store(unpacked("first"), &root).unwrap();
        store(unpacked("second"), &root).unwrap();
        assert_eq!(fs::read_to_string(root.join("tool")).unwrap(), "first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary folder remains");
        let error = store(unpacked("third"), &folder.path().join("missing/tools")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
