//! The size of an in-memory file system.

use fsdyno_record::Bytes;
use fsdyno_record::plan::FilesystemPlan;

use crate::Spec;

/// Returns the size in a spec's mount options, as written.
pub fn size_option(spec: &Spec) -> Option<&str> {
    spec.base().mount.iter().find_map(|option| option.strip_prefix("size="))
}

/// Sets the size of a file system in memory in its plan, unless its spec sets one. Without either, the
/// kernel uses half of the RAM.
pub fn set_size(plan: &mut FilesystemPlan, spec: &Spec, size: Option<Bytes>) {
    let (Some(size), None) = (size, size_option(spec)) else { return };
    let options = match &mut plan.below {
        Some(below) => &mut below.mount_options,
        None => &mut plan.mount_options,
    };
    let comma = if options.is_empty() { "" } else { "," };
    options.push_str(&format!("{comma}size={}", size.0));
}
