//! What became of claims at full scale, shown next to verdicts at a scale: another regime may turn them round.
//!
//! The table is made from the archives in `results/` (`make docs`), and a test holds it against them.

use fsdyno_report::study::{FullScale, Judged};
use serde::Deserialize;

/// The table.
const TABLE: &str = include_str!("../../../catalog/full-scale.json");

/// A claim of a study in a variant, and what became of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Known {
    /// The study's title.
    pub study: String,
    /// `as then`, `as today`, `as it stands`.
    pub conditions: String,
    /// The claim's short name.
    pub id: String,
    /// What is claimed: another claim of that name is another claim.
    pub text: String,
    /// What became of it.
    pub full_scale: FullScale,
}

/// The table, in the order of the archives; of two of one study the later one counts.
pub fn known() -> Vec<Known> {
    // The file is part of the program and a test reads it.
    serde_json::from_str(TABLE).unwrap_or_default()
}

/// Puts what is known at full scale next to the verdicts at a scale.
pub fn put_next_to(judged: &mut Judged) {
    let known = known();
    for variant in judged.variants.iter_mut().filter(|variant| variant.scale != 1) {
        for claim in variant.claims.iter_mut().filter(|claim| claim.is_judged()) {
            let same = |it: &&Known| {
                (&it.study, &it.conditions) == (&judged.title, &variant.conditions)
                    && (&it.id, &it.text) == (&claim.id, &claim.text)
            };
            claim.full_scale = known.iter().rev().find(same).map(|it| it.full_scale.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_is_shipped_can_be_read() {
        let known = known();
        assert!(known.iter().any(|it| it.study == "ext4 unlinks more slowly than ext3"));
        assert!(known.iter().all(|it| it.full_scale.result.starts_with("20")));
    }
}
