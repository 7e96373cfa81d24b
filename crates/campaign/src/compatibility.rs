//! Checks that trials may share a folder, because they ran in one lab or on one mount of one host, and finds stored
//! trials that are not part of the request.

use std::collections::BTreeMap;

use fsdyno_axes::naming::RowNames;
use fsdyno_axes::venue::clock;
use fsdyno_record::Plan;
use fsdyno_record::plan::BootPlan;
use fsdyno_record::trial::Trial;
use fsdyno_venue::{Venue, fingerprint};

use crate::labs::Mode;
use crate::matrix_request::Cell;
use crate::run_error::RunError;

/// Checks that the trials of these cells may share a folder with the stored ones. A dry run boots no guest for this.
///
/// # Errors
/// The stored trials have a different lab, host fingerprint or clock.
pub fn may_join(
    cells: &[Cell],
    venue: &dyn Venue,
    stored: &[Trial],
    mode: Mode,
) -> Result<(), RunError> {
    same_clock(cells, stored)?;
    for cell in cells.iter().filter(|cell| cell.skip.is_none()) {
        same_lab(venue, &cell.plan, stored, mode)?;
        same_fingerprint(venue, &cell.plan, stored)?;
    }
    Ok(())
}

/// Checks the clocks: times of a lab, a model and a host share a table only if one command requests all of them.
fn same_clock(cells: &[Cell], stored: &[Trial]) -> Result<(), RunError> {
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
        let same = |cell: &Cell| (&cell.plan.hash, &cell.plan.label) == (&plan.hash, &plan.label);
        cells.iter().any(same)
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
pub(crate) fn same_lab(
    venue: &dyn Venue,
    plan: &Plan,
    stored: &[Trial],
    mode: Mode,
) -> Result<(), RunError> {
    let mut alike = stored.iter().filter(|trial| same_machine(&trial.plan, plan)).peekable();
    if alike.peek().is_none() {
        return Ok(());
    }
    let booted = in_mode(plan, mode);
    let here = venue.identity(&booted).map_err(|error| RunError::Missing(error.to_string()))?;
    let Some(here) = here else { return Ok(()) };
    for trial in alike {
        // Repeats of one plan have the same lab, including its snapshot.
        let differs = match trial.plan.hash == plan.hash {
            true => differing(&trial.lab, &here.components, &[]),
            false => changed_components(&trial.lab, &here.components),
        };
        if let (Some(lab_id), false) = (&trial.lab_id, differs.is_empty()) {
            let (stored, current) = (short(lab_id), short(&here.lab_id));
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
pub(crate) fn same_fingerprint(
    venue: &dyn Venue,
    plan: &Plan,
    stored: &[Trial],
) -> Result<(), RunError> {
    let here = venue.fingerprint(plan).map_err(|error| RunError::Missing(error.to_string()))?;
    let alike = |trial: &&Trial| trial.plan.medium == plan.medium;
    for trial in stored.iter().filter(alike) {
        let stored = fingerprint::of_record(&trial.conditions);
        let pairs =
            here.iter().filter_map(|(what, current)| Some((what, current, stored.get(what)?)));
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

/// Returns the names of the components that both guests have, but that differ. The initramfs and its list of modules
/// are omitted, because they always differ between file systems; their contents are compared piece by piece. The
/// snapshot is omitted, because it belongs to one file system's guest on one machine.
pub(crate) fn changed_components(
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
) -> String {
    differing(a, b, &["initramfs", "modules", "snapshot"])
}

fn differing(
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
    except: &[&str],
) -> String {
    let shared = a.iter().filter(|(name, _)| !except.contains(&name.as_str()));
    let differ = shared.filter(|(name, value)| b.get(*name).is_some_and(|other| other != *value));
    differ.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_of_two_rows_have_snapshots_of_their_own_and_repeats_of_one_row_share_theirs() {
        let lab = |snapshot: &str| BTreeMap::from([("snapshot".to_string(), snapshot.to_string())]);
        assert_eq!(changed_components(&lab("a"), &lab("b")), "");
        assert_eq!(differing(&lab("a"), &lab("b"), &[]), "snapshot");
        assert_eq!(differing(&lab("a"), &lab("a"), &[]), "");
    }
}
