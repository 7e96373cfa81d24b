//! Separate sections for each of several machines, if several file systems ran on one of them.

use std::collections::BTreeMap;

use fsdyno_axes::naming::RowNames;
use fsdyno_record::Trial;

use crate::run::Run;

/// The machines that have separate sections, because a file system on one machine is not compared with a different
/// one on a different machine. Empty unless there are several machines, all named, and at least one of them ran several
/// file systems.
#[derive(Default)]
pub struct Machines {
    /// The names of rows by machine.
    rows: BTreeMap<String, RowNames>,
}

impl Machines {
    /// The machines of these trials.
    pub fn of(trials: &[&Trial]) -> Machines {
        let mut by_machine: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
        for trial in trials {
            by_machine.entry(name_of(trial).unwrap_or_default()).or_default().push(trial);
        }
        let has_several =
            |group: &Vec<&Trial>| group.iter().any(|trial| trial.plan.label != group[0].plan.label);
        let all_named = !by_machine.contains_key("");
        if by_machine.len() < 2 || !all_named || !by_machine.values().any(has_several) {
            return Machines::default();
        }
        let names = |(name, trials): (&str, Vec<&Trial>)| (name.to_string(), RowNames::of(trials));
        Machines { rows: by_machine.into_iter().map(names).collect() }
    }

    /// The name of the machine of a trial, if machines have separate sections.
    pub fn name<'t>(&self, trial: &'t Trial) -> Option<&'t str> {
        name_of(trial).filter(|name| self.rows.contains_key(*name))
    }

    /// The names of the rows of a section, if machines have separate sections.
    pub fn rows(&self, runs: &[Run<'_>]) -> Option<&RowNames> {
        self.rows.get(name_of(runs.first()?.0)?)
    }
}

/// The machine of a trial.
pub fn name_of(trial: &Trial) -> Option<&str> {
    trial.plan.lab()?.machine.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Section;
    use crate::{fixture, view};

    /// The fixture's dirops trials twice, each on the machine that `machine_of` returns.
    fn on_machines(machine_of: impl Fn(&Trial) -> Option<&'static str>) -> Vec<Trial> {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.workload.name == "dirops");
        let mut second = trials.clone();
        for (index, trial) in trials.iter_mut().chain(&mut second).enumerate() {
            trial.trial_id = format!("{index}");
            trial.plan.hash = format!("{index}");
            let machine = machine_of(trial).map(String::from);
            trial.plan.lab_mut().unwrap().machine = machine;
        }
        trials
    }

    fn titles(machine_of: impl Fn(&Trial) -> Option<&'static str>) -> Vec<String> {
        view::sections(&on_machines(machine_of), None).iter().map(Section::title).collect()
    }

    #[test]
    fn the_title_of_a_page_names_the_work_once_and_then_the_machines() {
        let by_parity = |trial: &Trial| Some(if trial.seed % 2 == 0 { "pc" } else { "server" });
        let html = crate::html(&on_machines(by_parity), &[], None).unwrap();
        assert!(html.contains("<title>dirops on ext4, xfs, far: server, pc | fsdyno</title>"));
        let html = crate::html(&on_machines(|_| Some("pc")), &[], None).unwrap();
        assert!(html.contains("<title>dirops on ext4, xfs, far | fsdyno</title>"));
    }

    #[test]
    fn file_systems_that_ran_on_several_machines_are_compared_on_each_machine() {
        let by_parity = |trial: &Trial| match trial.seed % 2 {
            0 => Some("pc"),
            _ => Some("server"),
        };
        let separate = titles(by_parity);
        assert_eq!(separate.len(), 4, "{separate:?}");
        assert!(separate.contains(&"dirops on pc create".to_string()), "{separate:?}");
        let together = ["dirops create", "dirops delete"];
        assert_eq!(titles(|_| Some("pc")), together);
        // If each file system ran on its own machine, the machines are compared.
        let own = |trial: &Trial| match trial.plan.label.as_str() {
            "ext4" => Some("pc"),
            "xfs" => Some("server"),
            _ => Some("laptop"),
        };
        assert_eq!(titles(own), together);
    }
}
