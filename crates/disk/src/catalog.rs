//! The disks shipped with fsdyno: one file each in catalog/disks, one row each here.

use std::path::Path;

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::suggest;

use crate::spec::{DiskSpec, SpecError};

/// Name and text of every disk, in listing order: by year.
const DISKS: &[(&str, &str)] = &[
    ("instant", include_str!("../../../catalog/disks/instant.toml")),
    ("ide-2001", include_str!("../../../catalog/disks/ide-2001.toml")),
    ("scsi-10k-2004", include_str!("../../../catalog/disks/scsi-10k-2004.toml")),
    ("ata-2006", include_str!("../../../catalog/disks/ata-2006.toml")),
    ("ide-2008", include_str!("../../../catalog/disks/ide-2008.toml")),
    ("sata-2009", include_str!("../../../catalog/disks/sata-2009.toml")),
    ("hdd-7200", include_str!("../../../catalog/disks/hdd-7200.toml")),
    ("hdd-7200-18tb", include_str!("../../../catalog/disks/hdd-7200-18tb.toml")),
    ("ssd-sata", include_str!("../../../catalog/disks/ssd-sata.toml")),
    ("nvme-datacenter", include_str!("../../../catalog/disks/nvme-datacenter.toml")),
    ("nvme-consumer", include_str!("../../../catalog/disks/nvme-consumer.toml")),
    ("cloud-general", include_str!("../../../catalog/disks/cloud-general.toml")),
    ("cloud-burst", include_str!("../../../catalog/disks/cloud-burst.toml")),
    ("smr-8tb", include_str!("../../../catalog/disks/smr-8tb.toml")),
    ("sd-card-a2", include_str!("../../../catalog/disks/sd-card-a2.toml")),
];

/// An error in finding a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// No disk with this name.
    #[error(transparent)]
    Unknown(#[from] UnknownDisk),
    /// The user's file cannot be read.
    #[error("read the disk in {file}: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The kernel's error.
        error: String,
    },
    /// The profile is invalid; a test ensures that this never happens for the catalog.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// The error for a name that no disk has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("find a disk called '{name}': {hint}")]
pub struct UnknownDisk {
    /// The requested name.
    pub name: String,
    /// The nearest name, or all names.
    pub hint: String,
}

/// Returns the names of all disks, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    DISKS.iter().map(|(name, _)| *name)
}

/// Returns the text of a disk profile, with comments.
///
/// # Errors
/// [`UnknownDisk`].
pub fn text(name: &str) -> Result<&'static str, UnknownDisk> {
    DISKS
        .iter()
        .find(|row| row.0 == name)
        .map(|row| row.1)
        .ok_or_else(|| UnknownDisk { name: name.to_string(), hint: suggest::hint(name, names()) })
}

/// Returns a disk by name.
///
/// # Errors
/// [`CatalogError::Unknown`], with the nearest valid name.
pub fn get(name: &str) -> Result<DiskSpec, CatalogError> {
    Ok(DiskSpec::from_toml(&format!("catalog/disks/{name}.toml"), text(name)?)?)
}

/// Finds a disk by name, or by the path of its profile, which contains a slash or ends in `.toml`. Returns the
/// name, or the path as given.
///
/// # Errors
/// [`CatalogError`].
pub fn find(name_or_path: &str) -> Result<(String, DiskSpec), CatalogError> {
    if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
        return Ok((name_or_path.to_string(), get(name_or_path)?));
    }
    let unreadable = |error: std::io::Error| CatalogError::Unreadable {
        file: name_or_path.to_string(),
        error: error.to_string(),
    };
    let text = bounded::read_to_string(Path::new(name_or_path), &WRITTEN).map_err(unreadable)?;
    Ok((name_or_path.to_string(), DiskSpec::from_toml(name_or_path, &text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_has_its_row_and_is_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/disks");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|file| file.strip_suffix(".toml").map(str::to_string))
            .collect();
        files.sort();
        let mut rows: Vec<&str> = names().collect();
        rows.sort();
        assert_eq!(files, rows, "a file of catalog/disks has no row in catalog.rs, or vice versa");
        for name in names() {
            let spec = get(name).unwrap_or_else(|error| panic!("failed to {error}"));
            assert!(!spec.source.is_empty(), "{name} has no source");
        }
    }

    #[test]
    fn a_misspelt_name_suggests_the_nearest_one() {
        let error = get("hdd-720").unwrap_err().to_string();
        assert_eq!(error, "find a disk called 'hdd-720': did you mean 'hdd-7200'?");
        let error = get("ssd").unwrap_err().to_string();
        assert_eq!(error, "find a disk called 'ssd': did you mean 'ssd-sata'?");
        let error = get("nvme").unwrap_err().to_string();
        assert_eq!(error, "find a disk called 'nvme': did you mean 'nvme-datacenter'?");
    }

    #[test]
    fn every_parameter_of_a_disk_has_a_source() {
        for name in names() {
            let spec = get(name).unwrap();
            let documented: Vec<&str> =
                spec.source.iter().flat_map(|source| source.what.split(", ")).collect();
            let json = serde_json::to_value(&spec).unwrap();
            for part in ["model", "queue"] {
                for key in json[part].as_object().unwrap().keys().filter(|key| *key != "law") {
                    assert!(
                        documented.contains(&key.as_str()),
                        "{name}: {part}.{key} has no source"
                    );
                }
            }
        }
    }
}
