//! `--on loop:SIZE`: a loop device over a sparse, nameless file.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use fsdyno_record::Bytes;
use fsdyno_record::plan::EphemeralKind;
use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, open, openat, unlinkat};
use rustix::io::Errno;

use crate::device::Device;
use crate::directory::{kind, open_directory, unique_name};
use crate::error::MediaError;
use crate::kind::Kind;
use crate::loops;

/// The entry in the table of media.
pub const KIND: Kind = Kind {
    kind: EphemeralKind::Loop,
    about: "a loop device over a sparse file in the folder of the results (--out), as root",
    what: describe,
    available,
    make,
};

fn describe(folder: &Path) -> Result<String, MediaError> {
    Ok(format!("loop over a file on {}", kind(folder)?))
}

fn available(folder: &Path) -> Result<Bytes, MediaError> {
    let stat = fstatvfs(open_directory(folder)?);
    let stat = stat.map_err(|error| MediaError::io("inspect", folder, error))?;
    Ok(Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

fn make(folder: &Path, size: Bytes) -> Result<Device, MediaError> {
    let failed = |error| MediaError::io("create a file in", folder, error);
    let file = File::from(create_nameless(folder).map_err(failed)?);
    file.set_len(size.0)
        .map_err(|error| MediaError::io_error("create a file in", folder, error))?;
    loops::attach(file.as_fd(), size, describe(folder)?)
}

/// Creates a file without a name, or with a name that is removed immediately if the file system needs names.
/// If the process dies before the removal, it leaves an empty file whose name contains the process ID.
fn create_nameless(folder: &Path) -> Result<rustix::fd::OwnedFd, Errno> {
    let access = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    match open(folder, access | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
        result => return result,
    }
    let folder = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = unique_name();
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = openat(&folder, &name, access | create, mode)?;
    unlinkat(&folder, &name, AtFlags::empty())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backing_file_has_no_name_and_its_full_size() {
        let folder = tempfile::tempdir().unwrap();
        match make(folder.path(), Bytes(8 << 20)) {
            Ok(device) => {
                let name = device.path.file_name().unwrap();
                let size = Path::new("/sys/block").join(name).join("size");
                assert_eq!(std::fs::read_to_string(size).unwrap().trim(), "16384");
                assert!(device.what.starts_with("loop over a file on "), "{}", device.what);
            }
            Err(error) => println!("skipped: {error}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
