//! What a result folder keeps of an explanation, so that its page shows it.

use serde::{Deserialize, Serialize};

use crate::explained::Explained;

/// The name of the file in a result folder, one explained trial a line.
pub const FILE: &str = "why.ndjson";

/// A trial that was explained, alone or against another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Version of the schema of records.
    pub schema: u32,
    /// The trial.
    pub it: Explained,
    /// What it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Explained>,
}

impl Told {
    /// Whether this one takes the place of the other: it says the same of the same trial.
    pub fn replaces(&self, other: &Told) -> bool {
        let of = |told: &Told| (key(&told.it), told.against.as_ref().map(key));
        of(self) == of(other)
    }
}

/// A trial and its row, which the identity leaves out.
fn key(it: &Explained) -> (String, String) {
    (it.trial_id.clone(), it.plan_label.clone())
}
