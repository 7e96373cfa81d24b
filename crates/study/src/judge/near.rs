//! Finds verdicts that a few more seeds may change: claims whose number is near its bound and has too few seeds.

use std::collections::BTreeSet;

use super::check;
use super::{RunResult, each_variant};
use crate::file::{StudyFile, Test, Variant};

/// Factor within which a number is near its bound: in most of the repeated studies, the seed changes times at full
/// scale by a smaller factor.
pub const NEAR: f64 = 1.2;

/// Number of seeds required for a verdict near its bound.
pub const SEEDS: u32 = 3;

/// Rows of a run in a variant that need more seeds, and the claims that need them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedShortage {
    /// The run.
    pub run: String,
    /// Variant in which it is run.
    pub variant: Variant,
    /// Labels of its rows.
    pub rows: BTreeSet<String>,
    /// The claims.
    pub claims: BTreeSet<String>,
}

/// Returns the claims near their bounds with fewer seeds than [`SEEDS`], grouped by run. Exponents are excluded:
/// they are fitted over sizes.
pub fn seed_shortages(file: &StudyFile, results: &[RunResult]) -> Vec<SeedShortage> {
    let mut found: Vec<SeedShortage> = Vec::new();
    for (_, _, trials) in each_variant(file, results) {
        for claim in &file.claims {
            let Test::Check(check) = &claim.test else { continue };
            let Ok(measured) = check::measure(check, claim.margin, &trials) else { continue };
            let parts = measured.parts.iter().filter(|part| {
                let has_few_seeds = part.estimate.n < SEEDS as usize;
                !part.fitted && has_few_seeds && part.is_near(NEAR) && !part.inside_model()
            });
            for (run, row) in parts.flat_map(|part| &part.rows) {
                let Some(variant) = file.run(run).and_then(|run| run.serves(trials.variant)) else {
                    continue;
                };
                let index = found
                    .iter()
                    .position(|shortage| shortage.run == *run && shortage.variant == variant);
                let index = index.unwrap_or_else(|| {
                    let (rows, claims) = Default::default();
                    found.push(SeedShortage { run: run.clone(), variant, rows, claims });
                    found.len() - 1
                });
                found[index].rows.insert(row.clone());
                found[index].claims.insert(claim.id.clone());
            }
        }
    }
    found
}
