//! Stored explanations in a result folder, for its page.

use serde::{Deserialize, Serialize};

use crate::explained::Explained;

/// Name of the file in a result folder, one explained trial per line.
pub const FILE: &str = "why.ndjson";

/// A stored explanation of a trial, alone or compared with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredExplanation {
    /// Version of the schema of records.
    pub schema: u32,
    /// The explanation.
    #[serde(rename = "it")]
    pub explained: Explained,
    /// The explanation with which it was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "against")]
    pub baseline: Option<Explained>,
}

impl StoredExplanation {
    /// Returns true if this explanation replaces the other one: both are of the same trial, compared with the same
    /// baseline.
    pub fn replaces(&self, other: &StoredExplanation) -> bool {
        let subject = |explanation: &StoredExplanation| {
            (key(&explanation.explained), explanation.baseline.as_ref().map(key))
        };
        subject(self) == subject(other)
    }
}

/// Returns the identity of the trial, and its label, which is not part of the identity.
fn key(explained: &Explained) -> (String, String) {
    (explained.trial_id.clone(), explained.plan_label.clone())
}
