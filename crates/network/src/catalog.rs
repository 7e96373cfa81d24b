//! The networks shipped with fsdyno: one file each in catalog/networks, and one row each here.

use fsdyno_catalog::{Catalog, CatalogError};
use fsdyno_record::plan::NetworkPlan;

use crate::file::Network;

/// All networks, in listing order.
const CATALOG: Catalog = Catalog {
    kind: "network",
    folder: "catalog/networks",
    rows: &[
        ("lan-1g", include_str!("../../../catalog/networks/lan-1g.toml")),
        ("lan-10g", include_str!("../../../catalog/networks/lan-10g.toml")),
        ("lan-25g", include_str!("../../../catalog/networks/lan-25g.toml")),
        ("wan-20ms", include_str!("../../../catalog/networks/wan-20ms.toml")),
    ],
};

/// The network for commands that do not name one.
pub const DEFAULT: &str = "lan-10g";

/// An error when finding a network.
pub type NetworkError = CatalogError;

/// Returns the names of all networks, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    CATALOG.names()
}

/// Returns the text of a network, with comments, by name or path.
///
/// # Errors
/// [`NetworkError`].
pub fn text(name: &str) -> Result<String, NetworkError> {
    CATALOG.text(name)
}

/// Finds a network by name, or by the path of its file.
///
/// # Errors
/// [`NetworkError`].
pub fn find(name: &str) -> Result<Network, NetworkError> {
    Ok(Network::from_toml(name, &CATALOG.file(name), &text(name)?)?)
}

/// Returns the network with this name or in this file, in the form that plans record.
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
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        CATALOG.check_rows(&root).unwrap();
        for name in names() {
            let network = find(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(network.name, name);
            for key in ["rate", "delay", "limit"] {
                let is_sourced = network.source.iter().any(|source| source.what == key);
                assert!(is_sourced, "{name}: {key} has no source");
            }
        }
        assert!(names().any(|name| name == DEFAULT));
    }

    #[test]
    fn the_names_match_the_rate_and_the_round_trip_time() {
        let rates = names().map(|name| plan(name).unwrap().bits_per_second / 1_000_000_000);
        assert_eq!(rates.collect::<Vec<_>>(), [1, 10, 25, 1]);
        assert_eq!(plan("wan-20ms").unwrap().round_trip(), Nanos(20_000_000));
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_one() {
        let error = find("lan-10").unwrap_err().to_string();
        assert!(
            error.starts_with("lan-10: there is no network with this name; did you mean 'lan-1"),
            "{error}"
        );
        let error = find("./no.toml").unwrap_err().to_string();
        assert!(error.starts_with("./no.toml: cannot be read: "), "{error}");
    }
}
