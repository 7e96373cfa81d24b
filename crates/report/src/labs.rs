//! The labs that trials ran in, and what distinguishes them.

use std::collections::BTreeMap;

use fsdyno_axes::naming::RowNames;
use fsdyno_axes::subject::Subject;
use fsdyno_record::Trial;
use fsdyno_record::trial::differing_components;

/// A lab identity in a result.
#[derive(Debug)]
pub struct LabRows<'a> {
    /// The identity.
    pub id: &'a str,
    /// The rows that ran in it.
    pub rows: Vec<String>,
    /// The components in which the lab differs from an earlier lab that ran one of the same rows; empty if there is no
    /// such lab.
    pub differs: Vec<String>,
    components: &'a BTreeMap<String, String>,
}

/// The distinct lab identities with the rows that ran in each, in the order of the trials.
pub fn labs(trials: &[Trial]) -> Vec<LabRows<'_>> {
    // The identity is displayed next to the name, so the name need not include it.
    let row = |trial| Subject { lab_id: None, ..Subject::from(trial) };
    let names = RowNames::of(trials.iter().filter(|trial| trial.lab_id.is_some()).map(row));
    let mut labs: Vec<LabRows<'_>> = Vec::new();
    for trial in trials {
        let Some(id) = trial.lab_id.as_deref() else { continue };
        let row = names.row(row(trial));
        match labs.iter_mut().find(|lab| lab.id == id) {
            Some(lab) if lab.rows.contains(&row) => {}
            Some(lab) => lab.rows.push(row),
            None => {
                let (rows, differs) = (vec![row], Vec::new());
                labs.push(LabRows { id, rows, differs, components: &trial.lab });
            }
        }
    }
    for index in 1..labs.len() {
        let (earlier, lab) = (&labs[..index], &labs[index]);
        let shares = |other: &&LabRows<'_>| other.rows.iter().any(|row| lab.rows.contains(row));
        if let Some(other) = earlier.iter().find(shares) {
            labs[index].differs = differing_components(other.components, lab.components);
        }
    }
    labs
}
