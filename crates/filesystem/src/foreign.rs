//! Existing file systems that are not in the catalog.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

/// An existing file system that is not in the catalog. Its name is not a typing error, so suggesting similar names
/// would not help.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForeignFilesystem {
    /// A spec that mounts it through FUSE.
    fuse: Option<String>,
    /// Its magic number in statfs(2).
    pub magic: Option<u64>,
}

/// Returns the foreign file systems by name.
pub(crate) fn foreign_filesystems() -> &'static BTreeMap<String, ForeignFilesystem> {
    static FILESYSTEMS: OnceLock<BTreeMap<String, ForeignFilesystem>> = OnceLock::new();
    let text = include_str!("../../../catalog/other-filesystems.toml");
    // The file is part of the program, and a test parses it.
    FILESYSTEMS.get_or_init(|| toml::from_str(text).unwrap_or_default())
}

/// Returns a hint for a file system that exists but is not in the catalog.
pub fn foreign_hint(kind: &str) -> Option<String> {
    Some(match &foreign_filesystems().get(kind)?.fuse {
        None => format!("fsdyno cannot make {kind}; --on DIR runs on a mounted one"),
        Some(spec) => format!("use FUSE: --fs '{spec}' (or --on DIR on a mounted one)"),
    })
}
