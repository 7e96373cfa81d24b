//! The cache folder of a lab: kernels, snapshots, disk images.
//!
//! A lab boots files from it and unpacks packages into it, as root if root runs it, so no other user may be able to
//! change anything in it. Every component of its path must belong to root or to the user of this process, and must not
//! be writable by others. (In a sticky folder such as /tmp, others can add entries but cannot replace existing ones.) A
//! path below the folder then refers to the same file as long as this process does not change it.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use crate::error::LabError;

/// The maximum number of symbolic links in a path, as in Linux.
const LINKS: u32 = 40;

/// The cache folder of root if root has no home directory.
const ROOT_CACHE: &str = "/var/cache";

/// A folder that no other user can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the user's cache: `fsdyno` below the cache folder of the XDG Base Directory Specification.
    ///
    /// # Errors
    /// Those of [`Cache::at`], and [`LabError::UnsafeCache`] if no folder is known.
    pub fn of_user() -> Result<Cache, LabError> {
        let xdg = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
        // If HOME is unset, this is the home directory in /etc/passwd.
        let home = env::home_dir().filter(|home| home.is_dir());
        let root = user() == 0;
        let folder = match (xdg, home) {
            (Some(folder), _) => PathBuf::from(folder),
            (None, Some(home)) => home.join(".cache"),
            (None, None) if root => PathBuf::from(ROOT_CACHE),
            (None, None) => {
                let reason = "HOME names no folder, and neither does /etc/passwd".into();
                return Err(LabError::UnsafeCache { folder: "~/.cache".into(), reason });
            }
        };
        Cache::at(&folder.join("fsdyno"))
    }

    /// Opens a cache in a folder, which may not exist yet.
    ///
    /// # Errors
    /// [`LabError::UnsafeCache`] if another user can change it.
    pub fn at(folder: &Path) -> Result<Cache, LabError> {
        walk(folder, Absent::Leave).map(|folder| Cache { folder })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns a folder in the cache, creating it if it is missing.
    ///
    /// # Errors
    /// Those of [`Cache::at`], and host I/O errors.
    pub fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        walk(&self.folder.join(name), Absent::Create)
    }
}

/// Writes a file into a folder atomically and durably.
pub fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    sync_directory(folder)
}

/// Syncs the file system that contains a folder.
pub fn sync_file_system(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

/// Syncs the directory entries of a folder.
pub fn sync_directory(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The handling of a missing folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    Leave,
    Create,
}

/// Resolves links in a path, and checks that no other user can change its target.
fn walk(path: &Path, absent: Absent) -> Result<PathBuf, LabError> {
    let unsafe_for = |reason| LabError::UnsafeCache { folder: path.into(), reason };
    let absolute = std::path::absolute(path).map_err(LabError::io("find", path))?;
    // The remaining components, in reverse order.
    let mut remaining = components(&absolute);
    let (mut resolved, mut links) = (PathBuf::new(), 0);
    while let Some(component) = remaining.pop() {
        match component.to_str() {
            // The parent has been checked already, and is not a link.
            Some("..") => drop(resolved.pop()),
            _ => resolved.push(component),
        }
        let metadata = match (fs::symlink_metadata(&resolved), absent) {
            (Err(error), Absent::Leave) if error.kind() == ErrorKind::NotFound => {
                resolved.extend(remaining.into_iter().rev());
                return Ok(resolved);
            }
            (Err(error), Absent::Create) if error.kind() == ErrorKind::NotFound => {
                create_private(&resolved)?
            }
            (metadata, _) => metadata.map_err(LabError::io("inspect", &resolved))?,
        };
        check_component(&resolved, &metadata, remaining.is_empty()).map_err(unsafe_for)?;
        if metadata.is_symlink() {
            links += 1;
            if links > LINKS {
                return Err(unsafe_for(format!(
                    "too many symbolic links at {}",
                    resolved.display()
                )));
            }
            let target = fs::read_link(&resolved).map_err(LabError::io("read", &resolved))?;
            resolved.pop();
            remaining.extend(components(&target));
        }
    }
    Ok(resolved)
}

/// Creates a private folder, unless another process has created it, and returns its status.
fn create_private(folder: &Path) -> Result<Metadata, LabError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(LabError::io("create", folder)(error))
        }
        _ => fs::symlink_metadata(folder).map_err(LabError::io("inspect", folder)),
    }
}

/// Returns the components of a path in reverse order.
fn components(path: &Path) -> Vec<OsString> {
    let components = path.components().filter(|component| *component != Component::CurDir);
    let components: Vec<OsString> =
        components.map(|component| component.as_os_str().to_owned()).collect();
    components.into_iter().rev().collect()
}

/// Checks that no other user can change a component.
fn check_component(path: &Path, metadata: &Metadata, is_last: bool) -> Result<(), String> {
    let (owner, user, shown) = (metadata.uid(), user(), path.display());
    if owner != user && owner != 0 && !is_unmapped(owner) {
        return Err(format!(
            "{shown} belongs to user {owner}, not to user {user}; the lab boots files from it"
        ));
    }
    if metadata.is_symlink() {
        return Ok(());
    }
    if !metadata.is_dir() {
        return Err(format!("{shown} is not a folder"));
    }
    let (mode, sticky) = (metadata.mode() & 0o7777, metadata.mode() & 0o1000 != 0);
    if mode & 0o022 != 0 && (is_last || !sticky) {
        return Err(format!(
            "other users may write to {shown} (mode {mode:o}), and the lab boots files from it; \
             to fix it, run `chmod go-w {shown}`"
        ));
    }
    Ok(())
}

/// Returns true if an owner is not mapped in this user namespace, which may be true of the root that owns the system's
/// folders.
fn is_unmapped(owner: u32) -> bool {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let is_initial = read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
    !is_initial && read("/proc/sys/kernel/overflowuid").trim() == owner.to_string()
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    fn cache_error(folder: &Path) -> String {
        let error = Cache::at(folder).unwrap_err();
        assert!(error.hint().unwrap().contains("XDG_CACHE_HOME="), "{error}");
        error.to_string()
    }

    fn set_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_cache_is_private_to_its_user() {
        let base = tempfile::tempdir().unwrap();
        let cache = Cache::at(&base.path().join("new/fsdyno")).unwrap();
        assert!(!cache.path().exists());
        let folder = cache.folder("kernels").unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(cache.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_wherever_it_is_on_the_path() {
        let base = tempfile::tempdir().unwrap();
        let inner = base.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        for (folder, bits) in [("a", 0o777), ("a", 0o775), ("a/b", 0o722), ("a/b", 0o1777)] {
            let folder = base.path().join(folder);
            set_mode(&folder, bits);
            let error = cache_error(&inner);
            assert!(error.contains(&format!("{} (mode {bits:o})", folder.display())), "{error}");
            set_mode(&folder, 0o755);
        }
        // In a sticky folder no user can replace another's entries.
        set_mode(&base.path().join("a"), 0o1777);
        Cache::at(&inner).unwrap();
        set_mode(&inner, 0o777);
        assert!(Cache::at(base.path()).unwrap().folder("a/b").is_err());
    }

    #[test]
    fn folders_and_links_of_another_user_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let [folder, link] = ["folder", "link"].map(|name| base.path().join(name));
        fs::create_dir(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        assert_eq!(Cache::at(&link.join("fsdyno")).unwrap().path(), folder.join("fsdyno"));
        if user() != 0 {
            return;
        }
        lchown(&link, Some(65534), None).unwrap();
        let error = cache_error(&link.join("fsdyno"));
        assert!(error.contains("link belongs to user 65534"), "{error}");
        chown(&folder, Some(65534), None).unwrap();
        let error = cache_error(&folder.join("fsdyno"));
        assert!(error.contains("folder belongs to user 65534"), "{error}");
    }

    #[test]
    fn links_are_checked_one_by_one() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("a/b")).unwrap();
        symlink("../a/./b", base.path().join("a/link")).unwrap();
        let through = Cache::at(&base.path().join("a/link/fsdyno")).unwrap();
        assert_eq!(through.path(), base.path().join("a/b/fsdyno"));
        symlink("circle", base.path().join("circle")).unwrap();
        assert!(cache_error(&base.path().join("circle/x")).contains("too many symbolic links at "));
        fs::write(base.path().join("file"), "").unwrap();
        assert!(cache_error(&base.path().join("file")).contains("is not a folder"));
    }

    #[test]
    fn a_file_replaces_a_link_and_is_not_written_through_it() {
        let base = tempfile::tempdir().unwrap();
        let victim = base.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, base.path().join("default")).unwrap();
        put(base.path(), "default", b"6.1").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(base.path().join("default")).unwrap(), "6.1");
    }
}
