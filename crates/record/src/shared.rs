//! Values shared by several records: ten thousand trials of one study have few disks and few labs.
//!
//! A [`Shared`] value is read, compared and written like the value itself; modifying it in one record gives that record
//! its own copy. A [`ValuePool`](crate::value_pool::ValuePool) replaces equal values by a single one while records are
//! read.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A value that several records can share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared<T>(pub(crate) Arc<T>);

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
}
