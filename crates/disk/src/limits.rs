//! Maximum data rates of a disk, from its model: no phase of a valid trial can be faster.

use serde_json::Value;

use crate::models::Model;

/// Maximum rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Rate of reads from the medium: a hard disk's outermost zone, or a solid-state disk's interface.
    pub read: f64,
    /// Rate of writes to the medium.
    pub write: f64,
}

/// Returns the limits of a disk profile in JSON ([`crate::DiskSpec`]); none for an instant disk, or
/// an invalid profile.
pub fn limits(spec: &Value) -> Option<Limits> {
    let model: Model = serde_json::from_value(spec.get("model")?.clone()).ok()?;
    model.limits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::profile::profile;

    #[test]
    fn no_disk_of_the_catalog_exceeds_its_limits_and_hard_disks_nearly_reach_them() {
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
            // The flag's own slack is 5 % (report::validity).
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
