//! The options that an mkfs program and a file system driver support.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The options that an mkfs program and a file system driver support. Names only: the program itself checks values.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    /// Options of mkfs without a value.
    pub plain: Vec<String>,
    /// Options of mkfs with one value.
    pub valued: Vec<String>,
    /// Options of mkfs whose value is a comma-separated list, and the names in it.
    #[serde(default)]
    pub lists: BTreeMap<String, Vec<String>>,
    /// Those of these options that take one entry each, and are repeated: `-o a=1 -o b=2`.
    #[serde(default)]
    pub repeated: Vec<String>,
    /// Long option → the short one with the same meaning.
    #[serde(default)]
    pub aliases: BTreeMap<String, String>,
    /// Mount options in addition to [`crate::mount::FLAGS`].
    pub mount: Vec<String>,
    /// Options whose value is a second device, such as `-J device` or `mount logdev`: it must be
    /// `{journal}`, because a trial may touch no other device.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Existing options that cannot be used here → the reason. A name in a list is written `-d name`, a
    /// mount option `mount hash`.
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
}
