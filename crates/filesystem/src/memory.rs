//! How large a file system in memory is.

use fsdyno_record::Bytes;
use fsdyno_record::plan::FilesystemPlan;

use crate::Spec;

/// The size that a spec's own mount options state, as it is written there.
pub fn stated(spec: &Spec) -> Option<&str> {
    spec.made().mount.iter().find_map(|option| option.strip_prefix("size="))
}

/// Gives a plan of a file system in memory this size, where its spec states none. Without either it is the
/// kernel's to choose: half of the RAM.
pub fn limit(plan: &mut FilesystemPlan, spec: &Spec, size: Option<Bytes>) {
    let (Some(size), None) = (size, stated(spec)) else { return };
    let options = match &mut plan.below {
        Some(below) => &mut below.mount_options,
        None => &mut plan.mount_options,
    };
    let comma = if options.is_empty() { "" } else { "," };
    options.push_str(&format!("{comma}size={}", size.0));
}
