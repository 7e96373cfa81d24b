//! The ways to mount a trial's file system and their consequences: only this module distinguishes them.

use fsdyno_record::plan::{BelowPlan, FilesystemPlan};
use fsdyno_workload::GapKind;

/// A way to mount a file system.
#[derive(Clone, Debug, PartialEq)]
pub enum Mounting {
    /// By the kernel, on its device.
    Device,
    /// By the kernel, in memory, where nothing is formatted, dropped or durable.
    Memory,
    /// By the kernel, as an overlay with an empty lower and an upper layer on another file system, which is mounted
    /// first.
    Over {
        /// The other file system.
        below: BelowPlan,
        /// The way in which that file system is mounted.
        on: Box<Mounting>,
    },
    /// By the kernel on a server, and by clients over a modelled network.
    Shared {
        /// The server's file system.
        below: BelowPlan,
        /// The way in which that file system is mounted.
        on: Box<Mounting>,
    },
    /// By its command, which leaves a process running that does its work (FUSE).
    Served,
    /// Not at all: the device itself stands for the workload's single file.
    Raw,
}

impl Mounting {
    /// Returns the way to mount the file system of a plan on this number of disks.
    pub fn of(plan: &FilesystemPlan, disks: usize) -> Mounting {
        let by_kernel = if disks == 0 { Mounting::Memory } else { Mounting::Device };
        match &plan.below {
            _ if plan.is_raw() => Mounting::Raw,
            _ if plan.in_user_space() => Mounting::Served,
            Some(below) if plan.is_shared() => {
                Mounting::Shared { below: below.clone(), on: Box::new(by_kernel) }
            }
            Some(below) => Mounting::Over { below: below.clone(), on: Box::new(by_kernel) },
            None => by_kernel,
        }
    }

    /// Returns true if files are stored in memory instead of on a device.
    pub fn in_memory(&self) -> bool {
        match self {
            Mounting::Memory => true,
            Mounting::Over { on, .. } | Mounting::Shared { on, .. } => on.in_memory(),
            Mounting::Device | Mounting::Served | Mounting::Raw => false,
        }
    }

    /// Returns true if a completed sync and a flush of the device's cache make changes durable: false if a process may
    /// hold them back, or if overlayfs has an option that disables syncing.
    pub fn syncs_are_durable(&self, options: &str) -> bool {
        match self {
            Mounting::Device | Mounting::Raw => true,
            Mounting::Memory | Mounting::Served => false,
            Mounting::Shared { on, .. } => on.syncs_are_durable(""),
            Mounting::Over { on, .. } => {
                on.syncs_are_durable("") && !options.split(',').any(|option| option == "volatile")
            }
        }
    }

    /// Returns the part of a wanted gap that is possible: in memory, dropping caches has no effect, and unmounting
    /// loses everything.
    pub fn possible_gap(&self, wanted: GapKind) -> GapKind {
        match wanted {
            GapKind::Drop | GapKind::Remount if self.in_memory() => GapKind::Sync,
            other => other,
        }
    }

    /// Returns the name of a gap: if nothing is mounted, a remount only drops the page cache of the device.
    pub fn gap_name(&self, done: GapKind) -> &'static str {
        match (self, done) {
            (Mounting::Raw, GapKind::Remount) => GapKind::Drop.name(),
            (_, other) => other.name(),
        }
    }

    /// Returns notes for the readers of a record of a file system of this kind.
    pub fn notes(&self, kind: &str, has_check: bool) -> Vec<String> {
        let mut notes = Vec::new();
        match self {
            Mounting::Raw => notes.push(
                "raw: no file system; the workload's single file is the device, on which O_CREAT, O_TRUNC \
                 and unlink do nothing"
                    .to_string(),
            ),
            Mounting::Served => notes.push(format!(
                "{kind}: a process in user space did the file system's work; the result is shown, but no claim \
                 about a kernel is judged by it. Data held by the process cannot be observed, so nothing \
                 is reported as durable; its CPU time is named 'fuse'"
            )),
            Mounting::Shared { .. } => notes.push(format!(
                "the server, clients and network of {} were in one guest and shared its single processor: a rate is \
                 that of all of them together, and lower than that of any one of them alone",
                kind.to_uppercase()
            )),
            Mounting::Device | Mounting::Memory | Mounting::Over { .. } => {}
        }
        if self.in_memory() {
            notes.push(format!(
                "{kind} is in memory: caches are not dropped and nothing is remounted between phases, and \
                 nothing is durable"
            ));
        } else if !has_check && *self != Mounting::Raw {
            notes.push(format!(
                "{kind} has no check command here: names and bytes were compared after a remount \
                 instead"
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: &str, mount_type: &str) -> FilesystemPlan {
        let (kind, mount_type) = (kind.to_string(), mount_type.to_string());
        FilesystemPlan { kind, mount_type, ..FilesystemPlan::default() }
    }

    #[test]
    fn every_plan_is_mounted_in_one_way() {
        let below = |kind: &str| BelowPlan {
            kind: kind.into(),
            mount_type: kind.into(),
            mount_options: String::new(),
        };
        let over =
            |kind| FilesystemPlan { below: Some(below(kind)), ..plan("overlayfs", "overlay") };
        let fuse = FilesystemPlan { mount_command: vec!["x".into()], ..plan("fuse2fs", "fuse") };
        let on = |on, kind| Mounting::Over { below: below(kind), on: Box::new(on) };
        let shared = FilesystemPlan { below: Some(below("xfs")), ..plan("nfs", "nfs") };
        let clients = Mounting::Shared { below: below("xfs"), on: Box::new(Mounting::Device) };
        for (plan, disks, expected, in_memory, durable) in [
            (plan("ext4", "ext4"), 1, Mounting::Device, false, true),
            (plan("tmpfs", "tmpfs"), 0, Mounting::Memory, true, false),
            (over("xfs"), 2, on(Mounting::Device, "xfs"), false, true),
            (over("tmpfs"), 0, on(Mounting::Memory, "tmpfs"), true, false),
            (shared, 1, clients, false, true),
            (fuse, 1, Mounting::Served, false, false),
            (plan("raw", ""), 1, Mounting::Raw, false, true),
        ] {
            let mounting = Mounting::of(&plan, disks);
            assert_eq!(mounting, expected);
            assert_eq!(mounting.in_memory(), in_memory, "{expected:?}");
            assert_eq!(mounting.syncs_are_durable("noatime"), durable, "{expected:?}");
        }
        assert!(!on(Mounting::Device, "xfs").syncs_are_durable("noatime,volatile"));
        // The meaning of that option for a different file system is unknown.
        assert!(Mounting::Device.syncs_are_durable("volatile"));
    }

    #[test]
    fn a_gap_is_named_after_the_step_that_was_done() {
        use GapKind::{BackToBack, Drop, None, Remount, Sync};
        for (mounting, names) in [
            (Mounting::Device, [None, Sync, Drop, Remount]),
            (Mounting::Served, [None, Sync, Drop, Remount]),
            (Mounting::Memory, [None, Sync, Sync, Sync]),
            (Mounting::Raw, [None, Sync, Drop, Drop]),
        ] {
            let done = |wanted| mounting.gap_name(mounting.possible_gap(wanted));
            assert_eq!([None, Sync, Drop, Remount].map(done), names.map(GapKind::name));
            assert_eq!(done(BackToBack), BackToBack.name());
        }
    }
}
