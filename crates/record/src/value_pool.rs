//! Interns values that records repeat while the records are read.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use serde_json::Value;

use crate::plan::DiskPlan;
use crate::shared::Shared;
use crate::trial::Trial;

/// The distinct values of the records read so far.
#[derive(Debug, Default)]
pub struct ValuePool {
    disks: HashSet<Shared<Value>>,
    labs: HashSet<Shared<BTreeMap<String, String>>>,
}

impl ValuePool {
    /// Replaces the values of a trial by equal ones of earlier trials, and frees excess memory.
    pub fn share(&mut self, trial: &mut Trial) {
        intern(&mut self.labs, &mut trial.lab);
        let mut disk = |disk: &mut DiskPlan| intern(&mut self.disks, &mut disk.spec);
        if let Some(modelled) = trial.plan.medium.modelled_mut() {
            disk(&mut modelled.disk);
            modelled.journal.iter_mut().for_each(disk);
        }
        // Deserialized lists have spare capacity, because they grow by doubling.
        let ops = trial.measured.phases.iter_mut().flat_map(|phase| phase.ops.values_mut());
        ops.for_each(|stats| stats.histogram.shrink_to_fit());
    }
}

fn intern<T: Eq + Hash>(known: &mut HashSet<Shared<T>>, value: &mut Shared<T>) {
    match known.get(value) {
        Some(shared) => *value = Shared(Arc::clone(&shared.0)),
        None => drop(known.insert(Shared(Arc::clone(&value.0)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once_and_a_change_affects_only_one() {
        let mut known = HashSet::new();
        let mut all: Vec<Shared<Value>> = ["a", "b", "a", "a"].map(Shared::from).into();
        all.iter_mut().for_each(|value| intern(&mut known, value));
        assert!(known.len() == 2 && Arc::ptr_eq(&all[0].0, &all[3].0));
        *all[3] = "c".into();
        assert_eq!(all, ["a", "b", "a", "c"].map(Shared::from));
        assert!(Arc::ptr_eq(&all[0].0, &all[2].0));
    }
}
