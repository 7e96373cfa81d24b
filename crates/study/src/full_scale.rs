//! Verdicts on claims at full scale, shown next to those at a reduced scale, which caches may reverse.
//!
//! The table is generated from the archives in `results/` (`make docs`), and a test compares it with them.

use fsdyno_report::study::{FullScale, Judged};
use serde::{Deserialize, Serialize};

use crate::file::Claim;

/// The table, as JSON.
const TABLE: &str = include_str!("../../../catalog/full-scale.json");

/// The verdict of a study's claim under one set of conditions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FullScaleVerdict {
    /// The study's title.
    pub study: String,
    /// `as then`, `as today`, `as it stands`.
    pub conditions: String,
    /// The claim's short name.
    pub id: String,
    /// The claim's text: the same name with a different text is a different claim.
    pub text: String,
    /// The verdict.
    pub full_scale: FullScale,
}

/// Returns the table, in the order of the archives; if a claim has several verdicts, the last one counts.
pub fn full_scale_verdicts() -> Vec<FullScaleVerdict> {
    // Parsing cannot fail: the file is compiled into the program, and a test parses it.
    serde_json::from_str(TABLE).unwrap_or_default()
}

/// Returns the stored verdicts on a claim of a study, one for each set of conditions.
pub fn verdicts_on(title: &str, claim: &Claim) -> Vec<FullScaleVerdict> {
    let mut found: Vec<FullScaleVerdict> = Vec::new();
    for stored in full_scale_verdicts() {
        if (stored.study.as_str(), &stored.id, &stored.text) == (title, &claim.id, &claim.text) {
            found.retain(|earlier| earlier.conditions != stored.conditions);
            found.push(stored);
        }
    }
    found
}

/// Adds the known verdicts at full scale to those at a reduced scale.
pub fn add_full_scale_verdicts(judged: &mut Judged) {
    let verdicts = full_scale_verdicts();
    for variant in judged.variants.iter_mut().filter(|variant| variant.scale != 1) {
        for claim in variant.claims.iter_mut().filter(|claim| claim.is_judged()) {
            let is_of_claim = |verdict: &&FullScaleVerdict| {
                (&verdict.study, &verdict.conditions) == (&judged.title, &variant.conditions)
                    && (&verdict.id, &verdict.text) == (&claim.id, &claim.text)
            };
            claim.full_scale =
                verdicts.iter().rev().find(is_of_claim).map(|verdict| verdict.full_scale.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_can_be_parsed() {
        let verdicts = full_scale_verdicts();
        assert!(
            verdicts.iter().any(|verdict| verdict.study == "ext4 unlinks more slowly than ext3")
        );
        assert!(verdicts.iter().all(|verdict| verdict.full_scale.result.starts_with("20")));
    }
}
