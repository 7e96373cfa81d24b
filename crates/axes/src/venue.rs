//! Descriptions of the venues of plans, and the kinds of targets. All text about venues is here.

use fsdyno_record::Plan;
use fsdyno_record::plan::{MediumPlan, VenuePlan};
use fsdyno_record::units::counted;

/// A kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// The lab.
    Lab,
    /// A model of a file system.
    Model,
    /// A directory of this host.
    Directory,
    /// A device that is created for each trial.
    Ephemeral,
    /// A drive of this host.
    Drive,
}

impl TargetKind {
    /// Returns the kind of a plan's target.
    pub fn of(plan: &Plan) -> TargetKind {
        match (&plan.venue, &plan.medium) {
            (VenuePlan::Lab(_), _) => TargetKind::Lab,
            (VenuePlan::Model { .. }, _) => TargetKind::Model,
            (VenuePlan::Host, MediumPlan::Drive { .. }) => TargetKind::Drive,
            (VenuePlan::Host, MediumPlan::Loop(_) | MediumPlan::Ram(_)) => TargetKind::Ephemeral,
            (VenuePlan::Host | VenuePlan::Ranks(_), _) => TargetKind::Directory,
        }
    }
}

/// Returns the clock that measures a plan's times. Times of different clocks share a table only on request.
pub fn clock(venue: &VenuePlan) -> &'static str {
    match venue {
        VenuePlan::Lab(lab) if lab.accel.is_exact() => "in the lab",
        VenuePlan::Lab(_) => "in the lab under KVM",
        VenuePlan::Model { .. } => "in the model",
        VenuePlan::Host | VenuePlan::Ranks(_) => "on a host",
    }
}

/// The prefix of [`pace`] in the lab, before the CPU.
pub const PACE_OF_LAB: &str = "lab ";

/// Returns a key that is equal for venues where a trial takes about the same time on this machine.
pub fn pace(venue: &VenuePlan) -> String {
    match venue {
        VenuePlan::Host => "host".to_string(),
        VenuePlan::Ranks(shared) => format!("{} ranks", shared.ranks),
        VenuePlan::Lab(lab) if !lab.accel.is_exact() => "kvm".to_string(),
        VenuePlan::Lab(lab) => {
            let network = if lab.network.is_some() { " network" } else { "" };
            format!("{PACE_OF_LAB}{} {:?}{network}", lab.cpu, lab.boot)
        }
        VenuePlan::Model { .. } => "model".to_string(),
    }
}

/// Returns the venue and the medium `on` of a plan, for a list of plans.
pub fn describe(venue: &VenuePlan, on: &str) -> String {
    match venue {
        VenuePlan::Host => on.to_string(),
        VenuePlan::Ranks(shared) => {
            format!("{on}, shared by {}", counted(shared.ranks as usize, "rank"))
        }
        VenuePlan::Lab(lab) if !lab.accel.is_exact() => {
            format!("in the lab (KVM: host time, not repeatable) {on}")
        }
        VenuePlan::Lab(_) => format!("in the lab {on}"),
        VenuePlan::Model { .. } => format!("in the model, without a kernel, {on}"),
    }
}

/// Returns a medium with its venue, as part of a sentence: `the modelled disk hdd-7200 in the lab (virtual time)`.
pub fn of_medium(plan: &Plan, medium: &str) -> String {
    match &plan.venue {
        VenuePlan::Host => format!("{medium} of this host"),
        VenuePlan::Ranks(plan) => {
            let each = if plan.own { ", a directory each" } else { "" };
            let shift = match plan.shift {
                0 => String::new(),
                shift => format!(", shifted by {shift} in each phase"),
            };
            let wall = plan.stonewall.map(|limit| format!(", stonewall {limit}"));
            let wall = wall.unwrap_or_default();
            format!(
                "{medium}, shared by {}{each}{shift}{wall}",
                counted(plan.ranks as usize, "rank")
            )
        }
        VenuePlan::Model { .. } => format!("{medium} below a model of ext2 directories"),
        VenuePlan::Lab(lab) => {
            let time = if lab.accel.is_exact() { "virtual time" } else { "KVM: host time" };
            match plan.medium {
                MediumPlan::Memory { .. } => format!("{medium} of the lab's guest ({time})"),
                _ => format!("{medium} in the lab ({time})"),
            }
        }
    }
}
