//! Finds file systems and mount options that give up durability: acknowledged work may be lost in a power cut.

use fsdyno_record::plan::FilesystemPlan;
use fsdyno_record::trial::Conditions;

use crate::catalog::{Filesystem, all};
use crate::mount;

/// The key of `gives_up_durability` for the file system itself, without any option.
const ALWAYS: &str = "always";

/// The prefix of a mount option in the keys of `gives_up_durability`.
const MOUNT: &str = "mount ";

/// Returns the reasons why work that a trial acknowledged may be lost, one sentence each: from the options of the plan,
/// and from those in effect according to the kernel's mount table. Empty if the catalog lists none.
pub fn risks(plan: Option<&FilesystemPlan>, conditions: &Conditions) -> Vec<String> {
    let mut mounted: Vec<(&Filesystem, String)> = Vec::new();
    for line in [&conditions.mount, &conditions.below] {
        let (kind, options) = line.split_once(' ').unwrap_or((line, ""));
        let drivers = all().iter().filter(|it| !kind.is_empty() && it.mount.kind == kind);
        // The mount's own options and those of the superblock, separated by a blank.
        mounted.extend(drivers.map(|it| (it, options.replace(' ', ","))));
    }
    if let Some(plan) = plan {
        let below = plan.below.as_ref();
        let below = below.map(|below| (below.kind.as_str(), below.mount_options.clone()));
        let own = (plan.kind.as_str(), plan.mount_options.clone());
        for (kind, options) in [Some(own), below].into_iter().flatten() {
            mounted
                .extend(all().iter().filter(|it| it.name == kind).map(|it| (it, options.clone())));
        }
    }
    let mut risks: Vec<(String, &str)> = Vec::new();
    for (filesystem, options) in &mounted {
        for (option, reason) in durability_losses(filesystem, options) {
            // The mount table shows `barrier=0` as `nobarrier`; each reason appears once, with the plan's option.
            match risks.iter_mut().find(|(_, known)| *known == reason) {
                Some((known, _)) => *known = option,
                None => risks.push((option, reason)),
            }
        }
    }
    risks.extend(plan.into_iter().flat_map(losses_of_mkfs));
    risks.into_iter().map(|(option, reason)| format!("{option}: {reason}")).collect()
}

/// Returns the mkfs options of a plan that give up durability, with their reasons; keys include the value, as in `-O
/// sync=disabled`.
fn losses_of_mkfs(plan: &FilesystemPlan) -> Vec<(String, &'static str)> {
    let kinds = all().iter().filter(|it| it.name == plan.kind);
    let table = kinds.flat_map(Filesystem::durability_losses);
    let is_used = |key: &str| {
        plan.mkfs.windows(2).any(|words| key.split_once(' ') == Some((&words[0], &words[1])))
    };
    let losses = table.filter(|(key, _)| key.starts_with('-') && is_used(key));
    losses.map(|(key, reason)| (key.clone(), reason.as_str())).collect()
}

/// Returns the options among these that give up durability, with their reasons.
fn durability_losses(
    filesystem: &'static Filesystem,
    options: &str,
) -> Vec<(String, &'static str)> {
    let items = mount::items(options).unwrap_or_default();
    let table = filesystem.durability_losses();
    let matching_option = |key: &str| -> Option<String> {
        if key == ALWAYS {
            return Some(filesystem.name.clone());
        }
        let name = key.strip_prefix(MOUNT)?;
        // `checkpoint=disable` may be followed by a colon and a limit.
        let is_match =
            |item: &&String| item.as_str() == name || item.starts_with(&format!("{name}:"));
        items.iter().find(is_match).cloned()
    };
    table
        .iter()
        .filter_map(|(key, reason)| Some((matching_option(key)?, reason.as_str())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Spec};

    fn planned(spec: &str) -> Vec<String> {
        let spec: Spec = spec.parse().unwrap();
        let filesystem = crate::catalog::get(&spec.kind).unwrap();
        let plan = filesystem.plan(&spec, Context::Lab, None).unwrap();
        risks(Some(&plan), &Conditions::default())
    }

    fn mounted(line: &str) -> Vec<String> {
        risks(None, &Conditions { mount: line.into(), ..Conditions::default() })
    }

    #[test]
    fn options_that_give_up_durability_are_named_with_their_reason() {
        for spec in [
            "ext3 @ barrier=0",
            "ext4 @ nobarrier",
            "ext4 @ data=writeback,nobarrier",
            "btrfs @ nobarrier",
            "f2fs @ nobarrier",
            "f2fs @ fsync_mode=nobarrier",
            "f2fs @ checkpoint=disable:10%",
            "f2fs @ disable_roll_forward",
            "jfs @ nointegrity",
            "nilfs2 @ nobarrier",
            "reiserfs @ barrier=none",
            "overlayfs,volatile:xfs",
            "overlayfs:ext4 @ barrier=0",
            "tmpfs",
        ] {
            let risks = planned(spec);
            assert_eq!(risks.len(), 1, "{spec}: {risks:?}");
            let (option, reason) = risks[0].split_once(": ").unwrap();
            assert!(spec.contains(option) && reason.contains("power cut"), "{spec}: {risks:?}");
        }
    }

    #[test]
    fn options_that_only_delay_writes_or_omit_a_journal_are_not_marked() {
        for spec in [
            "ext4",
            "ext4 @ barrier=1,data=writeback,commit=60",
            "ext4 -O ^has_journal",
            "btrfs @ notreelog",
            "f2fs @ fsync_mode=posix",
            "reiserfs @ barrier=flush",
            "xfs",
            "overlayfs:ext4",
        ] {
            assert_eq!(planned(spec), [""; 0], "{spec}");
        }
    }

    #[test]
    fn the_mount_table_of_a_directory_is_read_and_no_reason_appears_twice() {
        assert_eq!(mounted("ext4 rw,noatime rw,nobarrier,data=ordered").len(), 1);
        assert_eq!(mounted("xfs rw,relatime rw,nobarrier").len(), 1);
        assert_eq!(mounted("overlay rw,relatime rw,lowerdir=a,volatile").len(), 1);
        assert_eq!(mounted("tmpfs rw,nosuid").len(), 1);
        assert_eq!(mounted("xfs rw,relatime rw,attr2"), [""; 0]);
        assert_eq!(mounted(""), [""; 0]);
        let spec: Spec = "ext4 @ barrier=0".parse().unwrap();
        let plan = crate::catalog::get("ext4").unwrap().plan(&spec, Context::Lab, None).unwrap();
        let mount = "ext4 rw,relatime rw,nobarrier".into();
        let both = risks(Some(&plan), &Conditions { mount, ..Conditions::default() });
        assert_eq!(both.len(), 1, "{both:?}");
        assert!(both[0].starts_with("barrier=0: "), "{both:?}");
    }

    #[test]
    fn a_property_of_a_pool_that_gives_up_durability_is_named() {
        let risks = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            let plan = crate::catalog::get("zfs").unwrap().plan(&spec, Context::Lab, None).unwrap();
            risks(Some(&plan), &Conditions::default())
        };
        let found = risks("zfs -O compression=off,sync=disabled");
        assert!(found.len() == 1 && found[0].starts_with("-O sync=disabled: fsync"), "{found:?}");
        assert_eq!(risks("zfs -O sync=always"), [""; 0]);
    }

    #[test]
    fn every_entry_of_the_catalog_is_an_option_with_a_reason() {
        for filesystem in all() {
            for (key, reason) in filesystem.durability_losses() {
                let is_mkfs_option = key.starts_with('-') && key.contains(' ');
                let known = key == ALWAYS || key.starts_with(MOUNT) || is_mkfs_option;
                assert!(known, "{}: {key}", filesystem.name);
                assert!(reason.contains("power cut"), "{}: {reason}", filesystem.name);
            }
        }
    }
}
