//! Interning of values that records repeat: ten thousand trials of one study have few disks and few labs.
//!
//! A [`Shared`] value is read, compared and written like the value itself; a record that is changed gets its own
//! copy. A [`ValuePool`] replaces equal values by one, while records are read.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::plan::DiskPlan;
use crate::trial::Trial;

/// A value that several records can share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared<T>(Arc<T>);

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl From<&str> for Shared<Value> {
    fn from(text: &str) -> Shared<Value> {
        Value::from(text).into()
    }
}

impl From<String> for Shared<Value> {
    fn from(text: String) -> Shared<Value> {
        Value::from(text).into()
    }
}

impl<const N: usize> From<[(String, String); N]> for Shared<BTreeMap<String, String>> {
    fn from(pairs: [(String, String); N]) -> Shared<BTreeMap<String, String>> {
        BTreeMap::from(pairs).into()
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

/// The distinct values of the records read so far.
#[derive(Debug, Default)]
pub struct ValuePool {
    disks: HashSet<Shared<Value>>,
    labs: HashSet<Shared<BTreeMap<String, String>>>,
}

impl ValuePool {
    /// Makes a trial share its values with equal ones of earlier trials, and frees excess memory.
    pub fn share(&mut self, trial: &mut Trial) {
        intern(&mut self.labs, &mut trial.lab);
        let mut disk = |disk: &mut DiskPlan| intern(&mut self.disks, &mut disk.spec);
        if let Some(modelled) = trial.plan.medium.modelled_mut() {
            disk(&mut modelled.disk);
            modelled.journal.iter_mut().for_each(disk);
        }
        // Deserialized lists have spare capacity, since they grow by doubling.
        let ops = trial.measured.phases.iter_mut().flat_map(|phase| phase.ops.values_mut());
        ops.for_each(|stats| stats.histogram.shrink_to_fit());
    }
}

fn intern<T: Eq + Hash>(known: &mut HashSet<Shared<T>>, value: &mut Shared<T>) {
    match known.get(value) {
        Some(first) => *value = Shared(Arc::clone(&first.0)),
        None => drop(known.insert(Shared(Arc::clone(&value.0)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_value_is_written_and_read_as_the_value_itself() {
        let value = serde_json::json!({"model": {"law": "hdd"}, "rpm": 7200});
        let shared = Shared::from(value.clone());
        assert_eq!(serde_json::to_value(&shared).unwrap(), value);
        assert_eq!(serde_json::from_value::<Shared<Value>>(value).unwrap(), shared);
    }

    #[test]
    fn equal_values_are_stored_once_and_a_change_of_one_leaves_the_others() {
        let mut known = HashSet::new();
        let mut all: Vec<Shared<Value>> = ["a", "b", "a", "a"].map(Shared::from).into();
        all.iter_mut().for_each(|value| intern(&mut known, value));
        assert!(known.len() == 2 && Arc::ptr_eq(&all[0].0, &all[3].0));
        *all[3] = "c".into();
        assert_eq!(all, ["a", "b", "a", "c"].map(Shared::from));
        assert!(Arc::ptr_eq(&all[0].0, &all[2].0));
    }
}
