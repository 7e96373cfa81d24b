//! Host programs for the guest: their paths, and the loader and libraries that they need.
//!
//! Dependencies are read from the ELF headers rather than with ldd, which runs the program's loader; not every host has
//! that loader.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_record::guest::TOOL_FOLDER;

use crate::elf::{Dynamic, Elf};
use crate::error::LabError;
use crate::tool_set;

/// Files for a guest: the file on the host, by its path in the guest.
pub type Files = BTreeMap<String, PathBuf>;

/// Finds a program: by its absolute path, or in the folders of PATH, then the sbin folders, then the tool sets in the
/// cache.
///
/// # Errors
/// [`LabError::NoTool`].
pub fn find(name: &str) -> Result<PathBuf, LabError> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        let is_usable = path.is_absolute() && is_program(&path);
        return is_usable.then_some(path).ok_or_else(|| LabError::NoTool(name.to_string()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    folders
        .chain(sbin)
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
        .or_else(|| tool_set::launcher_of(name))
        .ok_or_else(|| LabError::NoTool(name.to_string()))
}

/// Returns a program's path in a guest: the path by which it was specified, or else a path in the folder of tools.
pub fn in_guest(tool: &str) -> String {
    if tool.starts_with('/') { tool.to_string() } else { format!("{TOOL_FOLDER}/{tool}") }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The library that glibc loads when a thread is cancelled, as libfuse does at unmount; no ELF header names it.
const LOADED_BY_LIBC: &str = "libgcc_s.so.1";

/// Adds to `files` the loader and the libraries of `program`, recursively: those of a tool set's root first, if one is
/// given, then the host's.
///
/// All libraries go into the folder of the C library, which the loader searches without a cache.
///
/// # Errors
/// [`LabError::NoLibrary`] for a library that is not installed; an unreadable or damaged file.
pub fn add_libraries(
    program: &Path,
    root: Option<&Path>,
    files: &mut Files,
) -> Result<(), LabError> {
    let libraries = Libraries::of(root);
    let library_folder = libraries.find("libc.so.6", &[], program).ok();
    let library_folder =
        library_folder.as_deref().and_then(Path::parent).unwrap_or(Path::new("/lib"));
    let library_folder = match root.and_then(|root| library_folder.strip_prefix(root).ok()) {
        Some(below) => Path::new("/").join(below),
        None => library_folder.to_path_buf(),
    };
    let mut pending = vec![program.to_path_buf()];
    while let Some(file) = pending.pop() {
        let (interpreter, dynamic) = headers(&file)?;
        if let Some(loader) = interpreter {
            let in_root = root.map(|root| root.join("usr").join(loader.trim_start_matches('/')));
            let in_root = in_root.filter(|path| path.is_file());
            files.insert(loader.clone(), in_root.unwrap_or(PathBuf::from(loader)));
        }
        if dynamic.needed.iter().any(|soname| soname == "libc.so.6")
            && let Ok(found) = libraries.find(LOADED_BY_LIBC, &[], &file)
        {
            files.insert(library_folder.join(LOADED_BY_LIBC).to_string_lossy().into_owned(), found);
        }
        for soname in dynamic.needed {
            let found = libraries.find(&soname, &dynamic.search, &file)?;
            // The loader itself is often among the libraries; it has already been added.
            let path = library_folder.join(&soname).to_string_lossy().into_owned();
            if !soname.starts_with("ld-linux") && files.insert(path, found.clone()).is_none() {
                pending.push(found);
            }
        }
    }
    Ok(())
}

fn headers(file: &Path) -> Result<(Option<String>, Dynamic), LabError> {
    let bytes = crate::read(file)?;
    let read = || {
        let elf = Elf::parse(&bytes)?;
        Ok((elf.interpreter()?, elf.dynamic()?))
    };
    read().map_err(LabError::damaged(file))
}

/// The libraries of a root folder, if any, followed by those of this host.
struct Libraries {
    root: Option<PathBuf>,
    cached: BTreeMap<String, PathBuf>,
}

/// The default folders of ld.so(8), including Debian's multiarch folders.
const STANDARD_FOLDERS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

impl Libraries {
    fn of(root: Option<&Path>) -> Libraries {
        let cache = fs::read("/etc/ld.so.cache").unwrap_or_default();
        Libraries { root: root.map(Path::to_path_buf), cached: parse_cache(&cache) }
    }

    /// Finds a library: first in the root, then in the order of ld.so(8): the program's own folders, the cache, the
    /// standard folders.
    fn find(&self, soname: &str, search: &[String], user: &Path) -> Result<PathBuf, LabError> {
        let real = user.canonicalize().unwrap_or_else(|_| user.to_path_buf());
        let origin = real.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        let search = search.iter().map(|folder| {
            PathBuf::from(folder.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin))
        });
        let cached = self.cached.get(soname).cloned();
        let standard = STANDARD_FOLDERS.iter().map(|folder| Path::new(folder).join(soname));
        let root = self.root.iter().flat_map(|root| {
            STANDARD_FOLDERS.iter().map(|folder| root.join(folder.trim_start_matches('/')))
        });
        root.chain(search)
            .map(|folder| folder.join(soname))
            .chain(cached)
            .chain(standard)
            .find(|path| path.is_file())
            .ok_or_else(|| LabError::NoLibrary {
                library: soname.to_string(),
                needed_by: user.to_path_buf(),
            })
    }
}

/// Parses ld.so.cache (glibc's dl-cache.h, "glibc-ld.so.cache1.1") into paths by soname, for x86-64 and without the
/// variants for CPUs newer than the guest's. Unreadable entries are skipped, because the standard folders are also
/// searched.
fn parse_cache(cache: &[u8]) -> BTreeMap<String, PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    // FLAG_ELF_LIBC6 | FLAG_X8664_LIB64.
    const X86_64: u32 = 0x0303;
    let mut found = BTreeMap::new();
    // An older format may precede this one.
    let start = cache.windows(MAGIC.len()).position(|window| window == MAGIC);
    let Some(cache) = start.and_then(|start| cache.get(start..)) else { return found };
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(cache.get(at..at + 4)?.try_into().ok()?))
    };
    let text = |at: u32| -> Option<String> {
        let bytes = cache.get(at as usize..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    for index in 0..word(20).unwrap_or(0) as usize {
        let at = HEADER + index * ENTRY;
        let entry = (word(at), word(at + 4), word(at + 8), word(at + 16), word(at + 20));
        let (Some(flags), Some(key), Some(value), Some(low), Some(high)) = entry else { break };
        if flags == X86_64 && low == 0 && high == 0 {
            if let (Some(key), Some(value)) = (text(key), text(value)) {
                found.entry(key).or_insert_with(|| PathBuf::from(value));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_needs_its_loader_and_the_c_library() {
        let mut files = Files::new();
        add_libraries(&find("true").unwrap(), None, &mut files).unwrap();
        assert!(files.keys().any(|path| path.contains("ld-linux")), "{files:?}");
        assert!(files.keys().any(|path| path.ends_with("/libc.so.6")), "{files:?}");
        assert!(files.values().all(|file| file.is_file()));
    }

    #[test]
    fn libraries_of_libraries_are_included() {
        let Ok(mke2fs) = find("mke2fs") else {
            println!("skipped: mke2fs is not installed");
            return;
        };
        let mut files = Files::new();
        add_libraries(&mke2fs, None, &mut files).unwrap();
        // mke2fs itself needs libext2fs, which needs libcom_err.
        for library in ["libext2fs.so.2", "libcom_err.so.2"] {
            assert!(files.keys().any(|path| path.ends_with(library)), "{library}: {files:?}");
        }
    }

    #[test]
    fn programs_are_found_in_the_sbin_folders_and_by_absolute_path() {
        assert!(find("sh").unwrap().is_absolute());
        let sh = find("sh").unwrap().canonicalize().unwrap();
        assert_eq!(find(sh.to_str().unwrap()).unwrap(), sh);
        assert!(find("/no/such/program").is_err() && find("/etc/passwd").is_err());
        assert!(find("./sh").is_err(), "relative paths are refused");
        assert_eq!([in_guest("mke2fs"), in_guest("/opt/x")], ["/bin/mke2fs", "/opt/x"]);
        let error = find("no-such-program-anywhere").unwrap_err();
        assert!(matches!(error, LabError::NoTool(name) if name == "no-such-program-anywhere"));
    }

    #[test]
    fn a_damaged_library_cache_is_ignored() {
        assert!(parse_cache(b"").is_empty());
        let mut cache = b"glibc-ld.so.cache1.1".to_vec();
        cache.extend_from_slice(&u32::MAX.to_le_bytes());
        cache.resize(200, 3);
        assert!(parse_cache(&cache).is_empty());
    }

    #[test]
    fn the_error_of_a_missing_library_names_its_user() {
        let error = Libraries::of(None).find("libnone.so.9", &[], Path::new("/bin/true"));
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "find the library 'libnone.so.9' that /bin/true needs");
    }
}
