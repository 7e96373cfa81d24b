//! The built-in spaces: one file for each file system.

use fsdyno_record::suggest;

use super::{Space, SpaceError};

/// All spaces, in the order of the catalog of file systems. To add a space, add its file and a row here.
const FILES: &[(&str, &str)] = &[
    ("ext4", include_str!("../../../../catalog/spaces/ext4.toml")),
    ("xfs", include_str!("../../../../catalog/spaces/xfs.toml")),
    ("btrfs", include_str!("../../../../catalog/spaces/btrfs.toml")),
    ("f2fs", include_str!("../../../../catalog/spaces/f2fs.toml")),
];

/// Returns the file systems that have a space.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns the text of a space.
///
/// # Errors
/// The file system has no space.
pub fn text(name: &str) -> Result<&'static str, SpaceError> {
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| SpaceError::Unknown {
        name: name.to_string(),
        hint: format!("{}; give your own with --space FILE", suggest::hint(name, names())),
    })
}

/// Finds the space of a file system.
///
/// # Errors
/// The file system has no space.
pub fn find(name: &str) -> Result<Space, SpaceError> {
    Space::parse(text(name)?, &format!("catalog/spaces/{name}.toml"))
}
