//! The errors of a result folder.

use std::path::{Path, PathBuf};

use fsdyno_record::SCHEMA;
use fsdyno_record::lines::{BadLine, FILE, Fault, ReadError};

/// The reason why a folder cannot hold results.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder holds something else.
    #[error(
        "'{}' is not empty and holds no {FILE}; give --out a new folder or one of results",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A file exists instead of the folder.
    #[error("'{}' is not a folder; give --out a folder", .0.display())]
    NotAFolder(PathBuf),
    /// Another run is writing to the folder.
    #[error("'{}' is in use by another fsdyno; give --out another folder", .0.display())]
    InUse(PathBuf),
    /// A line other than the last cannot be read.
    #[error("'{}' line {line} is not a trial: {error}; give --out a new folder", .path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The error in the line.
        error: String,
    },
    /// A system call failed.
    #[error("failed to {what} '{}': {source}", .path.display())]
    Io {
        /// The action.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Returns the error for a file whose records cannot be read.
pub(crate) fn unread(path: &Path, error: ReadError) -> StoreError {
    let BadLine { line, fault } = match error {
        ReadError::Bad(bad) => bad,
        ReadError::Io(error) => return io("read", path)(error),
    };
    let error = match fault {
        Fault::Newer(found) => {
            format!("its schema is {found}, but this fsdyno knows schemas up to {SCHEMA}")
        }
        Fault::Broken(error) => error,
    };
    StoreError::BadLine { path: path.into(), line, error }
}

pub(crate) fn io<'a>(
    what: &'static str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { what, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_system_call_names_the_operation_the_path_and_the_reason() {
        let full = std::io::Error::from_raw_os_error(28);
        let message = io("write", Path::new("out/trials.ndjson"))(full).to_string();
        let expected = "failed to write 'out/trials.ndjson': No space left on device (os error 28)";
        assert_eq!(message, expected);
    }
}
