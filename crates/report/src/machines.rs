//! Separate sections for each of several machines, if several file systems ran on one of them.

use std::collections::BTreeMap;

use fsdyno_axes::naming::RowNames;
use fsdyno_record::Trial;

use crate::run::Run;

/// The machines that have separate sections, because a file system on one machine is not compared with a different
/// one on a different machine. Empty unless there are several machines, all named, at least one of which ran several
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
            by_machine.entry(machine(trial).unwrap_or_default()).or_default().push(trial);
        }
        let has_several =
            |group: &Vec<&Trial>| group.iter().any(|it| it.plan.label != group[0].plan.label);
        let all_named = !by_machine.contains_key("");
        if by_machine.len() < 2 || !all_named || !by_machine.values().any(has_several) {
            return Machines::default();
        }
        let named = |(name, of): (&str, Vec<&Trial>)| (name.to_string(), RowNames::of(of));
        Machines { rows: by_machine.into_iter().map(named).collect() }
    }

    /// The name of the machine of a trial, if machines have separate sections.
    pub fn name<'t>(&self, trial: &'t Trial) -> Option<&'t str> {
        machine(trial).filter(|name| self.rows.contains_key(*name))
    }

    /// The names of the rows of a section, if machines have separate sections.
    pub fn rows(&self, runs: &[Run<'_>]) -> Option<&RowNames> {
        self.rows.get(machine(runs.first()?.0)?)
    }
}

fn machine(trial: &Trial) -> Option<&str> {
    trial.plan.lab()?.machine.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Section;
    use crate::{fixture, view};

    /// The titles of the sections of the fixture's dirops, each trial on the machine that `machine_of` names.
    fn titles(machine_of: impl Fn(&Trial) -> Option<&'static str>) -> Vec<String> {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.workload.name == "dirops");
        let mut second = trials.clone();
        for (at, trial) in trials.iter_mut().chain(&mut second).enumerate() {
            trial.trial_id = format!("{at}");
            trial.plan.hash = format!("{at}");
            let machine = machine_of(trial).map(String::from);
            trial.plan.lab_mut().unwrap().machine = machine;
        }
        view::sections(&trials, None).iter().map(Section::title).collect()
    }

    #[test]
    fn file_systems_are_compared_on_one_machine_if_each_ran_on_several() {
        let odd = |trial: &Trial| match trial.seed % 2 {
            0 => Some("pc"),
            _ => Some("server"),
        };
        let apart = titles(odd);
        assert_eq!(apart.len(), 4, "{apart:?}");
        assert!(apart.contains(&"dirops on pc create".to_string()), "{apart:?}");
        let together = ["dirops create", "dirops delete"];
        assert_eq!(titles(|_| Some("pc")), together);
        // A machine for each file system: the machines are what is compared.
        let own = |trial: &Trial| match trial.plan.label.as_str() {
            "ext4" => Some("pc"),
            "xfs" => Some("server"),
            _ => Some("laptop"),
        };
        assert_eq!(titles(own), together);
    }
}
