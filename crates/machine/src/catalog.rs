//! The machines shipped with fsdyno: one file each in catalog/machines, one row each here.

use std::path::Path;

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::suggest;

use crate::file::{FileError, Machine, is_path};

/// Name and text of every machine, in listing order: machines of today first, then by year.
const MACHINES: &[(&str, &str)] = &[
    ("server-2026", include_str!("../../../catalog/machines/server-2026.toml")),
    ("laptop-2026", include_str!("../../../catalog/machines/laptop-2026.toml")),
    ("cloud-2026", include_str!("../../../catalog/machines/cloud-2026.toml")),
    ("nas-2024", include_str!("../../../catalog/machines/nas-2024.toml")),
    ("pi-2024", include_str!("../../../catalog/machines/pi-2024.toml")),
    ("desktop-2008", include_str!("../../../catalog/machines/desktop-2008.toml")),
    ("server-2004", include_str!("../../../catalog/machines/server-2004.toml")),
    ("pc-2001", include_str!("../../../catalog/machines/pc-2001.toml")),
    ("classic", include_str!("../../../catalog/machines/classic.toml")),
];

/// The machine of commands that name none.
pub const USUAL: &str = "server-2026";

/// The machine of study files that name none, and of fsdyno before it had machines.
pub const CLASSIC: &str = "classic";

/// An error of finding a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The name is unknown.
    #[error("{name}: there is no machine of this name; {hint}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// The user's file cannot be read.
    #[error("{file}: cannot be read: {error}")]
    Unreadable {
        /// The file.
        file: String,
        /// The kernel's error.
        error: String,
    },
    /// Its content is invalid (a test prevents that for the catalog).
    #[error(transparent)]
    File(#[from] FileError),
}

/// The names of all machines, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    MACHINES.iter().map(|(name, _)| *name)
}

/// The text of a machine, with comments, by name or path.
///
/// # Errors
/// [`MachineError`].
pub fn text(name: &str) -> Result<String, MachineError> {
    if is_path(name) {
        return bounded::read_to_string(Path::new(name), &WRITTEN).map_err(|error| {
            MachineError::Unreadable { file: name.into(), error: error.to_string() }
        });
    }
    let found = MACHINES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| text.to_string()).ok_or_else(|| MachineError::Unknown {
        name: name.into(),
        hint: suggest::hint(name, names()),
    })
}

/// Finds a machine by name, or by the path of its file. Its disk and processor are checked, too.
///
/// # Errors
/// [`MachineError`].
pub fn find(name: &str) -> Result<Machine, MachineError> {
    let text = text(name)?;
    let machine = match is_path(name) {
        true => Machine::from_toml(name, name, &text),
        false => Machine::from_toml(name, &format!("catalog/machines/{name}.toml"), &text),
    };
    Ok(machine?)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::CpuPlan;

    use super::*;

    #[test]
    fn every_file_of_the_folder_has_its_row_and_is_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/machines");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|file| file.strip_suffix(".toml").map(str::to_string))
            .collect();
        files.sort();
        let mut rows: Vec<&str> = names().collect();
        rows.sort_unstable();
        assert_eq!(
            files, rows,
            "a file of catalog/machines has no row in catalog.rs, or the reverse"
        );
        for name in names() {
            let machine = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(machine.name, name);
            assert!(!machine.disk.contains('/'), "{name}");
            for what in ["disk", "cpu", "ram"] {
                let is_sourced = machine.source.iter().any(|source| source.what == what);
                assert!(is_sourced, "{name}: {what} has no source");
            }
        }
    }

    #[test]
    fn the_classic_machine_is_that_of_results_before_there_were_machines() {
        let Machine { disk, cpu, ram, .. } = find(CLASSIC).unwrap();
        assert_eq!((disk.as_str(), cpu, ram), ("hdd-7200", CpuPlan::default(), Bytes(1 << 30)));
    }

    #[test]
    fn an_unknown_name_suggests_the_right_one() {
        let error = find("desktop-2009").unwrap_err().to_string();
        assert_eq!(
            error,
            "desktop-2009: there is no machine of this name; did you mean 'desktop-2008'?"
        );
        let error = find("./no.toml").unwrap_err().to_string();
        assert!(error.starts_with("./no.toml: cannot be read: "), "{error}");
    }
}
