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

/// Returns the limits of a disk profile in JSON ([`crate::DiskSpec`]), or `None` for an instant disk, or an invalid
/// profile.
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
            let fastest =
                profile(&spec, 1).sequential.into_iter().fold((0.0f64, 0.0f64), |fastest, rate| {
                    (fastest.0.max(rate.read_mb * 1e6), fastest.1.max(rate.write_mb * 1e6))
                });
            // The check of a trial's rates (report::validity) has a tolerance of 5 %, too.
            assert!(
                fastest.0 <= 1.05 * limits.read && fastest.1 <= 1.05 * limits.write,
                "{name}: {fastest:?}"
            );
            if matches!(spec.model, Model::Hdd(_)) {
                assert!(
                    fastest.0 > 0.9 * limits.read && fastest.1 > 0.9 * limits.write,
                    "{name}: {fastest:?}"
                );
            }
        }
        assert_eq!(limits(&Value::Null), None);
    }
}
