//! Files that the user names for output: whatever is typed, a drive is not overwritten.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Creates a file, or empties one that is there; never a block device.
///
/// # Errors
/// What the kernel says, or that the path is a block device.
pub fn create(path: &Path) -> io::Result<File> {
    let is_drive = |metadata: io::Result<std::fs::Metadata>| {
        metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let refuse =
        || Err(io::Error::other("it is a block device, and all that is on it would be lost"));
    if is_drive(std::fs::metadata(path)) {
        return refuse();
    }
    let file = File::create(path)?;
    // A link may have come to mean another one. Opening alone has changed nothing.
    if is_drive(file.metadata()) { refuse() } else { Ok(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_or_emptied_and_a_drive_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for _ in 0..2 {
            io::Write::write_all(&mut create(&path).unwrap(), b"text").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"text");
        }
        assert!(create(Path::new("/dev/null")).is_ok(), "a character device is a fine place");
        let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
        let mut nodes = devices.map(|entry| Path::new("/dev").join(entry.file_name()));
        let Some(node) = nodes.find(|node| node.exists()) else {
            return println!("skipped: no block device here");
        };
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(node, &link).unwrap();
        assert!(create(&link).unwrap_err().to_string().contains("block device"));
    }
}
