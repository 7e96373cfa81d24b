//! Derives verdicts from a study file and records: judges every claim and compares every published table with the
//! measurements. No outcome is hard-coded: every one is computed from the records.
//!
//! - `figure`: a figure of a phase, in one trial;
//! - `trials`: the trials of a cell, or the reason why none count;
//! - `check`: estimates and bounds of a claim's check;
//! - `verdict`: the verdict, from these estimates and bounds;
//! - `claims`, `table`, `factors`: the presentation.

mod check;
mod claims;
mod factors;
mod figure;
mod near;
mod period;
mod table;
#[cfg(test)]
mod tests;
mod trials;
mod verdict;

pub use near::{NEAR, SEEDS, SeedShortage, seed_shortages};

use fsdyno_record::Trial;
use fsdyno_report::study::{self, Judged};

use crate::file::{StudyFile, Variant};
use trials::Trials;

/// The results of one run in one variant.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Name of the run in the study file.
    pub run: String,
    /// Variant in which it was run.
    pub variant: Variant,
    /// The requested kernel, for a timeline: each kernel is judged separately.
    pub kernel: Option<String>,
    /// Divisor of sizes; 1 at full scale.
    pub scale: u64,
    /// Its trials.
    pub trials: Vec<Trial>,
}

/// Returns the claims with their verdicts, and the published tables with the measured values, for each variant (and
/// each kernel of a timeline) that has results.
///
/// Cells of `file` are used unchanged: if points of curves were scaled, pass the scaled file.
pub fn judge(file: &StudyFile, results: &[RunResult]) -> Judged {
    let variants = each_variant(file, results);
    Judged {
        title: file.title.clone(),
        question: file.question.clone(),
        source: file.source.clone(),
        variants: variants
            .iter()
            .map(|(kernel, kernels, trials)| judge_variant(*kernel, kernels, trials))
            .collect(),
    }
}

/// A variant (or a kernel of its timeline), the kernels of its trials, and the trials.
type Part<'a> = (Option<&'a str>, Vec<String>, Trials<'a>);

/// Returns all parts that are judged separately: each variant, and each kernel of a timeline.
fn each_variant<'a>(file: &'a StudyFile, results: &'a [RunResult]) -> Vec<Part<'a>> {
    let kernels = |variant| kernels_of(file, results, variant).into_iter();
    let parts = variants_of(file, results).into_iter().flat_map(|variant| {
        kernels(variant).map(move |kernel| part(file, results, variant, kernel))
    });
    parts.collect()
}

/// Returns the variants with results of their own, or all variants of the file if only runs with their own conditions
/// have results, because these serve every variant.
fn variants_of(file: &StudyFile, results: &[RunResult]) -> Vec<Variant> {
    let all = file.variants();
    let is_stored = |variant: &Variant| results.iter().any(|result| result.variant == *variant);
    let found: Vec<Variant> = all.iter().copied().filter(is_stored).collect();
    if found.is_empty() && !results.is_empty() { all } else { found }
}

/// Returns the kernels of a variant's timeline; a single `None` if there is no timeline.
fn kernels_of<'a>(
    file: &StudyFile,
    results: &'a [RunResult],
    variant: Variant,
) -> Vec<Option<&'a str>> {
    let mut kernels: Vec<Option<&str>> = Vec::new();
    for result in results.iter().filter(|result| serves(file, result, variant)) {
        let kernel = result.kernel.as_deref();
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    // Results without a kernel serve every point of a timeline.
    if kernels.iter().any(Option::is_some) {
        kernels.retain(Option::is_some);
    }
    kernels
}

/// Returns whether a result serves a variant.
fn serves(file: &StudyFile, result: &RunResult, variant: Variant) -> bool {
    file.run(&result.run).and_then(|run| run.serves(variant)) == Some(result.variant)
}

fn part<'a>(
    file: &'a StudyFile,
    results: &'a [RunResult],
    variant: Variant,
    kernel: Option<&'a str>,
) -> Part<'a> {
    let is_on_kernel =
        |result: &&RunResult| result.kernel.is_none() || result.kernel.as_deref() == kernel;
    let part_results =
        results.iter().filter(|result| serves(file, result, variant)).filter(is_on_kernel);
    let mut scale = 1;
    let mut runs: Vec<(&str, Vec<&Trial>)> = Vec::new();
    for result in part_results {
        scale = scale.max(result.scale);
        match runs.iter_mut().find(|(name, _)| *name == result.run) {
            Some((_, trials)) => trials.extend(&result.trials),
            None => runs.push((result.run.as_str(), result.trials.iter().collect())),
        }
    }
    let mut kernels: Vec<String> = Vec::new();
    for trial in runs.iter().flat_map(|(_, trials)| trials) {
        if let Some(kernel) = kernel_of(trial).filter(|kernel| !kernels.contains(kernel)) {
            kernels.push(kernel);
        }
    }
    (kernel, kernels, Trials { file, variant, scale, runs })
}

fn judge_variant(kernel: Option<&str>, kernels: &[String], trials: &Trials<'_>) -> study::Variant {
    let Trials { file, variant, scale, .. } = trials;
    let suffix = kernel.map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
    study::Variant {
        name: format!("{}{suffix}", variant.words()),
        conditions: variant.words().to_string(),
        kernel: kernel.map(String::from),
        scale: *scale,
        kernels: kernels.to_vec(),
        claims: claims::claims(trials),
        factors: factors::tables(trials),
        tables: file.published.iter().map(|published| table::table(published, trials)).collect(),
    }
}

/// Returns the kernel release of a trial; `None` in a model, or if unknown.
fn kernel_of(trial: &Trial) -> Option<String> {
    if trial.plan.in_model() {
        return None;
    }
    let planned = trial.plan.lab().map(|lab| lab.kernel.to_string());
    let found = || trial.conditions.kernel.split_whitespace().next().map(String::from);
    planned.or_else(found).filter(|kernel| !kernel.is_empty())
}
