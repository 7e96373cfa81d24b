//! Sizes in the files of the catalog, and the option that sets the size of a journal.

use fsdyno_record::Bytes;
use serde::{Deserialize, Deserializer};

/// Suffixes for a number of bytes: powers of 1,024.
const BINARY: [char; 8] = ['k', 'm', 'g', 't', 'K', 'M', 'G', 'T'];

/// The mkfs option for the journal size, and the minimum size that mkfs accepts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizing {
    /// An option of mkfs, or option and name such as `-J size`.
    #[serde(rename = "at")]
    pub option: String,
    /// The unit of a plain number; if mkfs counts in bytes, it also accepts the suffixes K, M and G.
    #[serde(deserialize_with = "size")]
    pub unit: Bytes,
    /// The minimum size of a journal that mkfs accepts.
    #[serde(deserialize_with = "size")]
    pub least: Bytes,
    /// The minimum size of a journal with the settings of a [`crate::Period`], if it differs.
    #[serde(default, deserialize_with = "some_size")]
    pub least_for_period: Option<Bytes>,
    /// The minimum size of a second disk for the journal if the journal's size is not given; `None` if it is that of
    /// a journal.
    #[serde(default, deserialize_with = "some_size")]
    pub least_disk: Option<Bytes>,
}

impl Sizing {
    /// Returns the minimum size of a journal.
    pub fn least(&self, for_period: bool) -> Bytes {
        self.least_for_period.filter(|_| for_period).unwrap_or(self.least)
    }

    /// Returns the minimum size of a disk for a journal whose size the spec does not set.
    pub fn least_disk(&self, for_period: bool) -> Bytes {
        self.least_disk.unwrap_or(self.least(for_period))
    }

    pub(crate) fn read(&self, value: &str) -> Option<Bytes> {
        match value.bytes().all(|byte| byte.is_ascii_digit()) {
            true => value.parse::<u64>().ok()?.checked_mul(self.unit.0).map(Bytes),
            // mkfs.xfs's suffixes b and s mean blocks and sectors, whose size depends on other options.
            false if self.unit == Bytes(1) && value.ends_with(BINARY) => value.parse().ok(),
            false => None,
        }
    }

    /// Formats a size in whole units, or in MiB if the unit is a byte.
    pub(crate) fn write(&self, size: Bytes) -> String {
        match self.unit {
            Bytes(1) => format!("{}m", size.0 >> 20),
            unit => (size.0 / unit.0.max(1)).to_string(),
        }
    }
}

pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

pub(crate) fn some_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bytes>, D::Error> {
    size(deserializer).map(Some)
}
