//! The machines shipped with fsdyno: one file each in catalog/machines, and one row each here.

use fsdyno_catalog::{Catalog, CatalogError};

use crate::file::Machine;

/// All machines, in listing order: current machines first, then older ones from newest to oldest.
const CATALOG: Catalog = Catalog {
    kind: "machine",
    folder: "catalog/machines",
    rows: &[
        ("server-2026", include_str!("../../../catalog/machines/server-2026.toml")),
        ("laptop-2026", include_str!("../../../catalog/machines/laptop-2026.toml")),
        ("cloud-2026", include_str!("../../../catalog/machines/cloud-2026.toml")),
        ("nas-2024", include_str!("../../../catalog/machines/nas-2024.toml")),
        ("pi-2024", include_str!("../../../catalog/machines/pi-2024.toml")),
        ("desktop-2008", include_str!("../../../catalog/machines/desktop-2008.toml")),
        ("server-2004", include_str!("../../../catalog/machines/server-2004.toml")),
        ("pc-2001", include_str!("../../../catalog/machines/pc-2001.toml")),
        ("classic", include_str!("../../../catalog/machines/classic.toml")),
    ],
};

/// The machine for commands that do not name one.
pub const DEFAULT: &str = "server-2026";

/// The machine for study files that do not name one; its values are those of fsdyno versions without machines.
pub const CLASSIC: &str = "classic";

/// An error when finding a machine.
pub type MachineError = CatalogError;

/// Returns the names of all machines, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    CATALOG.names()
}

/// Returns the text of a machine, with comments, by name or path.
///
/// # Errors
/// [`MachineError`].
pub fn text(name: &str) -> Result<String, MachineError> {
    CATALOG.text(name)
}

/// Finds a machine by name, or by the path of its file. Its disk and processor are also checked.
///
/// # Errors
/// [`MachineError`].
pub fn find(name: &str) -> Result<Machine, MachineError> {
    Ok(Machine::from_toml(name, &CATALOG.file(name), &text(name)?)?)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::CpuPlan;

    use super::*;

    #[test]
    fn every_file_of_the_folder_has_its_row_and_is_valid() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        CATALOG.check_rows(&root).unwrap();
        for name in names() {
            let machine = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(machine.name, name);
            assert!(!machine.disk.contains('/'), "{name}");
            for key in ["disk", "cpu", "ram"] {
                let is_sourced = machine.source.iter().any(|source| source.what == key);
                assert!(is_sourced, "{name}: {key} has no source");
            }
        }
    }

    #[test]
    fn the_classic_machine_has_the_values_of_fsdyno_versions_without_machines() {
        let Machine { disk, cpu, ram, .. } = find(CLASSIC).unwrap();
        assert_eq!((disk.as_str(), cpu, ram), ("hdd-7200", CpuPlan::default(), Bytes(1 << 30)));
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_one() {
        let error = find("desktop-2009").unwrap_err().to_string();
        assert_eq!(
            error,
            "desktop-2009: there is no machine with this name; did you mean 'desktop-2008'?"
        );
        let error = find("./no.toml").unwrap_err().to_string();
        assert!(error.starts_with("./no.toml: cannot be read: "), "{error}");
    }
}
