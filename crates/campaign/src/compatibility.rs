//! Checks that trials may share a folder, because they ran in one lab or on one mount of one host, and finds stored
//! trials that are not part of the request.

use std::collections::BTreeMap;

use fsdyno_axes::naming::RowNames;
use fsdyno_axes::venue::clock;
use fsdyno_filesystem::{Filesystem, catalog};
use fsdyno_record::Plan;
use fsdyno_record::plan::{BootPlan, FilesystemPlan};
use fsdyno_record::trial::Trial;
use fsdyno_venue::{Venue, fingerprint};

use crate::labs::Mode;
use crate::matrix_request::Cell;
use crate::run_error::RunError;

/// Checks that the trials of these cells may share a folder with the stored ones. A dry run boots no guest for this.
///
/// # Errors
/// The stored trials have a different lab, host fingerprint or clock.
pub fn check_compatible(
    cells: &[Cell],
    venue: &dyn Venue,
    stored: &[Trial],
    mode: Mode,
) -> Result<(), RunError> {
    check_clock(cells, stored)?;
    for cell in cells.iter().filter(|cell| cell.skip.is_none()) {
        check_lab(venue, &cell.plan, stored, mode)?;
        check_fingerprint(venue, &cell.plan, stored)?;
    }
    Ok(())
}

/// Checks the clocks: times of a lab, a model and a host share a table only if one command requests all of them.
fn check_clock(cells: &[Cell], stored: &[Trial]) -> Result<(), RunError> {
    let clocks: Vec<&str> = cells.iter().map(|cell| clock(&cell.plan.venue)).collect();
    let other = stored.iter().map(|trial| clock(&trial.plan.venue)).find(|it| !clocks.contains(it));
    match (other, clocks.first()) {
        (Some(stored), Some(current)) => Err(RunError::OtherClock { stored, current }),
        _ => Ok(()),
    }
}

/// Returns the number of stored trials that do not belong to these cells, and the names of their rows.
pub fn unrequested_trials<'a>(
    cells: &[Cell],
    stored: impl Iterator<Item = &'a Trial> + Clone,
) -> (usize, Vec<String>) {
    let is_requested = |plan: &Plan| {
        let is_of_plan =
            |cell: &Cell| (&cell.plan.hash, &cell.plan.label) == (&plan.hash, &plan.label);
        cells.iter().any(is_of_plan)
    };
    let plans = cells.iter().map(|cell| &cell.plan);
    let names = RowNames::of(plans.chain(stored.clone().map(|trial| &trial.plan)));
    let others: Vec<&Plan> =
        stored.map(|trial| &trial.plan).filter(|plan| !is_requested(plan)).collect();
    let name = |plan: &&Plan| format!("{} on {}", names.workload(*plan), names.row(*plan));
    let mut rows: Vec<String> = Vec::new();
    for row in others.iter().map(name) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    (others.len(), rows)
}

/// Checks the lab: results of two labs in one folder would be mistaken for repeats in one lab.
pub(crate) fn check_lab(
    venue: &dyn Venue,
    plan: &Plan,
    stored: &[Trial],
    mode: Mode,
) -> Result<(), RunError> {
    let mut comparable = stored.iter().filter(|trial| same_machine(&trial.plan, plan)).peekable();
    if comparable.peek().is_none() {
        return Ok(());
    }
    let booted = in_mode(plan, mode);
    let current_lab =
        venue.identity(&booted).map_err(|error| RunError::Missing(error.to_string()))?;
    let Some(current_lab) = current_lab else { return Ok(()) };
    for trial in comparable {
        // Repeats of one plan have the same lab, including its snapshot.
        let differs = match trial.plan.hash == plan.hash {
            true => differing_components(&trial.lab, &current_lab.components, |_| true),
            false => changed_components(
                guest(trial),
                (plan.filesystem.as_ref(), &current_lab.components),
            ),
        };
        if let (Some(lab_id), false) = (&trial.lab_id, differs.is_empty()) {
            let (stored, current) = (short(lab_id), short(&current_lab.lab_id));
            return Err(RunError::OtherLab { stored, current, differs });
        }
    }
    Ok(())
}

/// Returns the plan whose identity is compared. In a dry run it boots cold, because otherwise a snapshot would be
/// created; apart from the snapshot, the components are the same.
pub(crate) fn in_mode(plan: &Plan, mode: Mode) -> Plan {
    let mut plan = plan.clone();
    if let (Some(lab), Mode::Dry) = (plan.lab_mut(), mode) {
        lab.boot = BootPlan::Cold;
    }
    plan
}

/// Compares the host fingerprint of a directory: with a different kernel or mount, the same path gives other results.
pub(crate) fn check_fingerprint(
    venue: &dyn Venue,
    plan: &Plan,
    stored: &[Trial],
) -> Result<(), RunError> {
    let current_fingerprint =
        venue.fingerprint(plan).map_err(|error| RunError::Missing(error.to_string()))?;
    let same_medium = |trial: &&Trial| trial.plan.medium == plan.medium;
    for trial in stored.iter().filter(same_medium) {
        let stored = fingerprint::of_record(&trial.conditions);
        let pairs = current_fingerprint
            .iter()
            .filter_map(|(what, current)| Some((what, current, stored.get(what)?)));
        if let Some((what, current, stored)) = pairs.into_iter().find(|(_, a, b)| a != b) {
            let [what, stored, current] = [what, stored, current].map(String::clone);
            return Err(RunError::OtherFingerprint { what, stored, current });
        }
    }
    Ok(())
}

/// Returns whether two plans have the same machine and kernel, so that their guests share components.
pub(crate) fn same_machine(a: &Plan, b: &Plan) -> bool {
    let same_guest = a
        .lab()
        .zip(b.lab())
        .is_some_and(|(a, b)| (&a.kernel, a.boot, &a.cpu) == (&b.kernel, b.boot, &b.cpu));
    same_guest && a.disk_name() == b.disk_name()
}

/// The components of a guest, with the file system of its plan.
pub(crate) type Guest<'a> = (Option<&'a FilesystemPlan>, &'a BTreeMap<String, String>);

/// Returns the names of the components that both guests have and that differ. The initramfs and its list of modules
/// are omitted, because they always differ between file systems; their contents are compared piece by piece. The
/// snapshot is omitted, because it belongs to one file system's guest on one machine. Libraries are compared only
/// between tools of one set: downloaded tools include their own.
pub(crate) fn changed_components((filesystem, a): Guest<'_>, (other, b): Guest<'_>) -> String {
    let one_set = tool_set(filesystem) == tool_set(other);
    let is_compared = |name: &str| {
        !["initramfs", "modules", "snapshot"].contains(&name)
            && (one_set || !name.starts_with("library "))
    };
    differing_components(a, b, is_compared)
}

/// Returns the components of a stored trial's guest.
pub(crate) fn guest(trial: &Trial) -> Guest<'_> {
    (trial.plan.filesystem.as_ref(), &trial.lab)
}

/// Returns the file system that may have its own tools and libraries; `None` if it has those of this host.
fn tool_set(filesystem: Option<&FilesystemPlan>) -> Option<&str> {
    let kind = filesystem?.made_kind();
    let is_downloaded = |kind: &Filesystem| !kind.downloaded.is_empty();
    catalog::get(kind).is_ok_and(is_downloaded).then_some(kind)
}

fn differing_components(
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
    is_compared: impl Fn(&str) -> bool,
) -> String {
    let shared = a.iter().filter(|(name, _)| is_compared(name));
    let differ = shared.filter(|(name, value)| b.get(*name).is_some_and(|other| other != *value));
    differ.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: &str) -> FilesystemPlan {
        FilesystemPlan { kind: kind.into(), ..FilesystemPlan::default() }
    }

    fn components(parts: &[(&str, &str)]) -> BTreeMap<String, String> {
        parts.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn guests_of_two_rows_have_different_snapshots_and_repeats_of_one_row_share_one() {
        let lab = |snapshot: &str| components(&[("snapshot", snapshot)]);
        let (plan, a, b) = (plan("ext4"), lab("a"), lab("b"));
        assert_eq!(changed_components((Some(&plan), &a), (Some(&plan), &b)), "");
        assert_eq!(differing_components(&a, &b, |_| true), "snapshot");
        assert_eq!(differing_components(&a, &a, |_| true), "");
    }

    #[test]
    fn libraries_differ_between_a_downloaded_tool_set_and_this_hosts_tools() {
        let lab = |libc: &str| components(&[("library libc.so.6", libc), ("agent", "a")]);
        let (a, b) = (lab("2.36"), lab("2.43"));
        let [ext4, xfs, zfs] = ["ext4", "xfs", "zfs"].map(plan);
        assert_eq!(changed_components((Some(&xfs), &a), (Some(&zfs), &b)), "");
        assert_eq!(changed_components((Some(&xfs), &a), (Some(&ext4), &b)), "library libc.so.6");
        assert_eq!(changed_components((Some(&zfs), &a), (Some(&zfs), &b)), "library libc.so.6");
        let other_agent = components(&[("agent", "b")]);
        assert_eq!(changed_components((Some(&xfs), &a), (Some(&zfs), &other_agent)), "agent");
    }
}
