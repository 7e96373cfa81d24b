//! The networks shipped with fsdyno: one file each in catalog/networks, one row each here.

use std::path::Path;

use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::plan::NetworkPlan;
use fsdyno_record::suggest;

use crate::file::{FileError, Network};

/// Name and text of every network, in listing order.
const NETWORKS: &[(&str, &str)] = &[
    ("lan-1g", include_str!("../../../catalog/networks/lan-1g.toml")),
    ("lan-10g", include_str!("../../../catalog/networks/lan-10g.toml")),
    ("lan-25g", include_str!("../../../catalog/networks/lan-25g.toml")),
    ("wan-20ms", include_str!("../../../catalog/networks/wan-20ms.toml")),
];

/// The network of commands that name none.
pub const USUAL: &str = "lan-10g";

/// An error of finding a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The name is unknown.
    #[error("{name}: there is no network of this name; {hint}")]
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

/// The names of all networks, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    NETWORKS.iter().map(|(name, _)| *name)
}

/// Returns true for the path of a file: it has a slash or ends in `.toml`.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// The text of a network, with comments, by name or path.
///
/// # Errors
/// [`NetworkError`].
pub fn text(name: &str) -> Result<String, NetworkError> {
    if is_path(name) {
        return bounded::read_to_string(Path::new(name), &WRITTEN).map_err(|error| {
            NetworkError::Unreadable { file: name.into(), error: error.to_string() }
        });
    }
    let found = NETWORKS.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| text.to_string()).ok_or_else(|| NetworkError::Unknown {
        name: name.into(),
        hint: suggest::hint(name, names()),
    })
}

/// Finds a network by name, or by the path of its file.
///
/// # Errors
/// [`NetworkError`].
pub fn find(name: &str) -> Result<Network, NetworkError> {
    let text = text(name)?;
    let network = match is_path(name) {
        true => Network::from_toml(name, name, &text),
        false => Network::from_toml(name, &format!("catalog/networks/{name}.toml"), &text),
    };
    Ok(network?)
}

/// The network of this name or file, as a plan has it.
///
/// # Errors
/// [`NetworkError`].
pub fn plan(name: &str) -> Result<NetworkPlan, NetworkError> {
    let Network { name, bits_per_second, delay_ns, limit, .. } = find(name)?;
    Ok(NetworkPlan { name, bits_per_second, delay_ns, limit })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;

    use super::*;

    #[test]
    fn every_file_of_the_folder_has_its_row_and_is_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/networks");
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
            "a file of catalog/networks has no row in catalog.rs, or the reverse"
        );
        for name in names() {
            let network = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(network.name, name);
            for what in ["rate", "delay", "limit"] {
                let is_sourced = network.source.iter().any(|source| source.what == what);
                assert!(is_sourced, "{name}: {what} has no source");
            }
        }
        assert!(names().any(|name| name == USUAL));
    }

    #[test]
    fn the_names_say_rate_and_round_trip() {
        let rates = names().map(|name| plan(name).unwrap().bits_per_second / 1_000_000_000);
        assert_eq!(rates.collect::<Vec<_>>(), [1, 10, 25, 1]);
        assert_eq!(plan("wan-20ms").unwrap().round_trip(), Nanos(20_000_000));
    }

    #[test]
    fn an_unknown_name_suggests_the_right_one() {
        let error = find("lan-10").unwrap_err().to_string();
        assert!(
            error.starts_with("lan-10: there is no network of this name; did you mean 'lan-1"),
            "{error}"
        );
        let error = find("./no.toml").unwrap_err().to_string();
        assert!(error.starts_with("./no.toml: cannot be read: "), "{error}");
    }
}
