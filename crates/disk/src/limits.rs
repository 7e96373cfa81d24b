//! The fastest that a disk can pass data, read off its law: no phase of a trial can be faster honestly.

use serde_json::Value;

use crate::model::Model;

/// Bytes a second at best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// From the medium: of a hard disk the outermost zone's rate, of a solid-state disk its interface's.
    pub read: f64,
    /// Onto the medium.
    pub write: f64,
}

/// The limits of a disk by its file as JSON ([`crate::DiskSpec`]); none of one that does all at once, and
/// of what is no such file.
pub fn limits(spec: &Value) -> Option<Limits> {
    let bytes = |kb: u64| kb as f64 * 1e3;
    match serde_json::from_value(spec.get("model")?.clone()).ok()? {
        Model::Instant(_) => None,
        Model::Hdd(hdd) => {
            let rate = bytes(hdd.outer_rate_kb.max(hdd.inner_rate_kb));
            Some(Limits { read: rate, write: rate })
        }
        Model::Ssd(ssd) => {
            Some(Limits { read: bytes(ssd.read_rate_kb), write: bytes(ssd.write_rate_kb) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::profile::profile;

    #[test]
    fn no_disk_of_the_catalog_passes_more_in_a_long_run_and_hard_disks_nearly_as_much() {
        for name in catalog::names() {
            let spec = catalog::get(name).unwrap();
            let Some(limits) = limits(&serde_json::to_value(&spec).unwrap()) else {
                assert!(matches!(spec.model, Model::Instant(_)), "{name}");
                continue;
            };
            let best =
                profile(&spec, 1).sequential.into_iter().fold((0.0f64, 0.0f64), |best, at| {
                    (best.0.max(at.read_mb * 1e6), best.1.max(at.write_mb * 1e6))
                });
            // The flag's own slack is 5 % (stats::validity).
            assert!(
                best.0 <= 1.05 * limits.read && best.1 <= 1.05 * limits.write,
                "{name}: {best:?}"
            );
            if matches!(spec.model, Model::Hdd(_)) {
                assert!(
                    best.0 > 0.9 * limits.read && best.1 > 0.9 * limits.write,
                    "{name}: {best:?}"
                );
            }
        }
        assert_eq!(limits(&Value::Null), None);
    }
}
