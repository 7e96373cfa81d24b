//! Refuses options that a target does not support.

use fsdyno_axes::{Axis, HOST_SETTINGS, TargetKind};
use fsdyno_record::plan::Target;

use crate::failure::Failure;
use crate::spec::RunSpec;

/// Refuses the first option that a target does not support.
pub fn refuse_unsupported(run: &RunSpec, on: &Target, kind: TargetKind) -> Result<(), Failure> {
    let target_description = match kind {
        TargetKind::Lab => return Ok(()),
        TargetKind::Model => "a model",
        TargetKind::Directory => "a directory of this host",
        TargetKind::Ephemeral => "a device of this host",
        TargetKind::Drive => "a drive of this host",
    };
    let requested = run.axes.explicit.iter().filter_map(|key| Axis::of(key));
    let axis = requested
        .filter(|axis| !axis.targets.contains(&kind))
        .map(|axis| (axis.key, axis.targets, axis.unsupported_reason));
    let others = [
        ("keep-log", run.keep_log, ""),
        ("sysctl", !run.sysctls.is_empty(), HOST_SETTINGS),
        ("change", !run.changes.is_empty(), ""),
    ];
    let others = others.into_iter().filter(|(_, is_set, _)| *is_set);
    let others = others.map(|(key, _, why)| (key, &[TargetKind::Lab][..], why));
    match axis.chain(others).next() {
        None => Ok(()),
        Some((key, targets, why)) => Err(Failure::invalid_use(format!(
            "--{key} works only {}, but --on {on} is {target_description}; remove one of them{why}",
            list_places(targets)
        ))),
    }
}

/// Lists where an option works: `in the lab or on a model`.
fn list_places(targets: &[TargetKind]) -> String {
    let places = targets.iter().map(|kind| match kind {
        TargetKind::Lab => "in the lab",
        TargetKind::Model => "on a model",
        TargetKind::Directory => "in a directory",
        TargetKind::Ephemeral => "on loop:SIZE or ram:SIZE",
        TargetKind::Drive => "on a drive",
    });
    let places: Vec<&str> = places.collect();
    match places.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => places.concat(),
    }
}
