//! Refuses options that a target does not support.

use fsdyno_axes::{Axis, TargetKind};
use fsdyno_record::plan::Target;

use crate::failure::Failure;
use crate::spec::RunSpec;

/// Refuses the first option that a target does not support.
pub fn refuse_unsupported(run: &RunSpec, on: &Target, kind: TargetKind) -> Result<(), Failure> {
    let what = match kind {
        TargetKind::Lab => return Ok(()),
        TargetKind::Model => "a model",
        TargetKind::Directory => "a directory of this host",
        TargetKind::Ephemeral => "a device of this host",
        TargetKind::Drive => "a drive of this host",
    };
    let given = run.axes.given.iter().filter_map(|key| Axis::of(key));
    let axis = given
        .filter(|axis| !axis.targets.contains(&kind))
        .map(|axis| (axis.key, axis.unsupported_reason));
    let others = [
        ("keep-log", run.keep_log, ""),
        ("sysctl", !run.sysctls.is_empty(), SETTINGS),
        ("change", !run.changes.is_empty(), ""),
    ];
    let others = others.into_iter().filter(|(_, given, _)| *given).map(|(key, _, why)| (key, why));
    match axis.chain(others).next() {
        None => Ok(()),
        Some((key, why)) => Err(Failure::wrong(format!(
            "--{key} works only in the lab, but --on {on} is {what}; remove one of them{why}"
        ))),
    }
}

/// The reason that sysctls can be set only in the lab.
const SETTINGS: &str = "; fsdyno records the settings of this host but does not change them";
