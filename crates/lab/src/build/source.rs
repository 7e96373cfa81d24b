//! The sources of a build: a folder, or a tar file of a folder.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsdyno_record::canonical::sha256_hex;

use super::Build;
use crate::error::LabError;

/// Patterns of folders and files that are not source: a repository, and the output of an earlier build.
const NOT_SOURCE: &[&str] = &[".git", "*.o", "*.ko", "*.a", "*.cmd", "modules.order"];

/// A source to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder.
    Folder(PathBuf),
    /// A tar file with one folder.
    Archive(PathBuf),
}

/// Returns an error about a source.
pub fn invalid_source(source: &Path, why: impl Into<String>) -> LabError {
    LabError::WrongSource { what: source.display().to_string(), why: why.into() }
}

impl Source {
    /// Opens a source, which must exist.
    pub fn open(path: &Path) -> Result<Source, LabError> {
        let absolute =
            fs::canonicalize(path).map_err(|error| invalid_source(path, error.to_string()))?;
        match absolute.is_dir() {
            true => Ok(Source::Folder(absolute)),
            false => Ok(Source::Archive(absolute)),
        }
    }

    /// Reads a file of the source without copying the whole source; `None` if there is no such file.
    pub fn text(&self, name: &str) -> Result<Option<String>, LabError> {
        let file = match self {
            Source::Folder(folder) => return Ok(fs::read_to_string(folder.join(name)).ok()),
            Source::Archive(file) => file,
        };
        let mut command = Command::new("tar");
        command.args(["--extract", "--to-stdout", "--occurrence=1", "--wildcards", "--file"]);
        command.arg(file).arg("--no-wildcards-match-slash").arg(format!("*/{name}"));
        command.stdin(Stdio::null()).env("LC_ALL", "C");
        let output = command.output().map_err(LabError::io("read", file))?;
        let message = String::from_utf8_lossy(&output.stderr);
        let is_tar = !message.contains("does not look like a tar archive");
        let is_absent = is_tar && message.contains("Not found in archive");
        if !output.status.success() && !is_absent {
            let message = message.lines().next().unwrap_or_default().to_string();
            return Err(invalid_source(
                file,
                format!("it is neither a folder nor a tar file ({message})"),
            ));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(output.status.success().then_some(text))
    }

    /// Copies the source into a new folder.
    pub fn copy(&self, build: &Build<'_>, to: &Path) -> Result<(), LabError> {
        fs::create_dir(to).map_err(LabError::io("create", to))?;
        match self {
            Source::Archive(file) => {
                let file = file.display().to_string();
                build.run(&["tar", "xf", &file, "--strip-components=1", "--no-same-owner"], to)
            }
            Source::Folder(folder) => copy_folder(build, folder, to),
        }
    }
}

/// Copies a folder, except for files that are not source.
fn copy_folder(build: &Build<'_>, folder: &Path, to: &Path) -> Result<(), LabError> {
    let packed = build.folder.join("source.tar");
    let (file, from) = (packed.display().to_string(), folder.display().to_string());
    let mut args = vec!["tar".to_string(), "cf".into(), file.clone()];
    args.extend(NOT_SOURCE.iter().map(|name| format!("--exclude={name}")));
    args.extend(["-C".to_string(), from, ".".into()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    build.run(&args, to)?;
    build.run(&["tar", "xf", &file, "--no-same-owner"], to)?;
    fs::remove_file(&packed).map_err(LabError::io("remove", &packed))
}

/// Returns a hash, in hex, of the names and contents of all files and links below a folder.
pub fn hash(folder: &Path) -> Result<String, LabError> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut text = Vec::new();
    for path in files {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        let contents = match fs::read_link(&path) {
            Ok(target) => target.as_os_str().as_bytes().to_vec(),
            Err(_) => read(&path)?,
        };
        text.extend(name.as_os_str().as_bytes());
        text.push(0);
        text.extend(sha256_hex(&contents).into_bytes());
        text.push(b'\n');
    }
    Ok(sha256_hex(&text))
}

fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let mut bytes = Vec::new();
    let result = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    result.map_err(LabError::io("read", path))?;
    Ok(bytes)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), LabError> {
    for entry in fs::read_dir(folder).map_err(LabError::io("read", folder))? {
        let entry = entry.map_err(LabError::io("read", folder))?;
        let kind = entry.file_type().map_err(LabError::io("read", folder))?;
        match kind.is_dir() {
            true => list(&entry.path(), files)?,
            false => files.push(entry.path()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::BuildOptions;
    use super::*;
    use crate::cache::Cache;

    #[test]
    fn a_folder_and_a_tar_file_of_it_are_the_same_source() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::create_dir_all(tree.join(".git")).unwrap();
        fs::write(tree.join("Makefile"), "top").unwrap();
        fs::write(tree.join("sub/Makefile"), "inner").unwrap();
        fs::write(tree.join(".git/HEAD"), "x").unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let options = BuildOptions { jobs: 1, keep: false };
        let build = Build::begin("thing", options, &cache, &|_| ()).unwrap();
        let archive = folder.path().join("tree.tar");
        let args = ["tar", "cf", archive.to_str().unwrap(), "--exclude=.git", "tree"];
        build.run(&args, folder.path()).unwrap();
        let mut hashes = Vec::new();
        for (index, path) in [&tree, &archive].into_iter().enumerate() {
            let source = Source::open(path).unwrap();
            assert_eq!(source.text("Makefile").unwrap().as_deref(), Some("top"));
            assert_eq!(source.text("Kconfig").unwrap(), None);
            let to = build.folder.join(index.to_string());
            source.copy(&build, &to).unwrap();
            assert!(!to.join(".git").exists() && to.join("sub/Makefile").is_file());
            hashes.push(hash(&to).unwrap());
        }
        assert_eq!(hashes[0], hashes[1]);
        fs::rename(build.folder.join("0/Makefile"), build.folder.join("0/makefile")).unwrap();
        assert_ne!(hash(&build.folder.join("0")).unwrap(), hashes[0]);
    }

    #[test]
    fn an_invalid_source_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Source::open(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("/none: No such file or directory"), "{error}");
        let file = folder.path().join("text");
        fs::write(&file, "some text").unwrap();
        let error = Source::open(&file).unwrap().text("Makefile").unwrap_err().to_string();
        assert!(error.contains("/text: it is neither a folder nor a tar file"), "{error}");
    }
}
