//! From a study file and records to verdicts: every claim judged, every published table beside what was
//! measured. Nothing here knows an outcome; all of it follows from the records.
//!
//! - `figure`: a figure of a phase, in one trial;
//! - `trials`: the trials of a cell, or why there are none that count;
//! - `check`: from a claim's check to estimates and their bounds;
//! - `verdict`: from those to how the claim stands;
//! - `claims`, `table`: what is shown.

mod check;
mod claims;
mod figure;
mod near;
mod period;
mod table;
#[cfg(test)]
mod tests;
mod trials;
mod verdict;

pub use near::{NEAR, Near, SEEDS, near};

use fsdyno_record::Trial;
use fsdyno_report::study::{self, Judged};

use crate::file::{StudyFile, Variant};
use trials::Trials;

/// What came of one run in one variant.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The run's name in the study file.
    pub run: String,
    /// The variant that it was run in.
    pub variant: Variant,
    /// The kernel that was asked for, where the study is a timeline: each is judged by itself.
    pub kernel: Option<String>,
    /// What sizes were divided by; 1 at full scale.
    pub scale: u64,
    /// Its trials.
    pub trials: Vec<Trial>,
}

/// The end of a study: for each variant (and each kernel of a timeline) that has results, its claims with their
/// verdicts, and its published tables beside the measured ones.
///
/// The cells of `file` are looked up as they stand: where points of curves were scaled, the file has to
/// be the scaled one.
pub fn judge(file: &StudyFile, results: &[RunResult]) -> Judged {
    let variants = each_variant(file, results);
    Judged {
        title: file.title.clone(),
        question: file.question.clone(),
        source: file.source.clone(),
        variants: variants
            .iter()
            .map(|(kernel, kernels, it)| judged(*kernel, kernels, it))
            .collect(),
    }
}

/// A variant (or a kernel of its timeline), the kernels that its trials ran on, and the trials.
type Part<'a> = (Option<&'a str>, Vec<String>, Trials<'a>);

/// All that is judged by itself: each variant, and of a timeline each kernel.
fn each_variant<'a>(file: &'a StudyFile, results: &'a [RunResult]) -> Vec<Part<'a>> {
    let kernels = |variant| kernels_of(file, results, variant).into_iter();
    let parts = variants_of(file, results).into_iter().flat_map(|variant| {
        kernels(variant).map(move |kernel| part(file, results, variant, kernel))
    });
    parts.collect()
}

/// The variants that anything was run for; a run that stands as it is serves all of them, and has a variant of
/// its own only where there is no other.
fn variants_of(file: &StudyFile, results: &[RunResult]) -> Vec<Variant> {
    let all = file.variants();
    let own = |variant: &Variant| results.iter().any(|result| result.variant == *variant);
    let found: Vec<Variant> = all.iter().copied().filter(own).collect();
    if found.is_empty() && !results.is_empty() { all } else { found }
}

/// The kernels of a variant's timeline; one without a name where it is none.
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
    // What needs no kernel serves every point of a timeline.
    if kernels.iter().any(Option::is_some) {
        kernels.retain(Option::is_some);
    }
    kernels
}

/// Whether a result stands for its run in a variant.
fn serves(file: &StudyFile, result: &RunResult, variant: Variant) -> bool {
    file.run(&result.run).and_then(|run| run.serves(variant)) == Some(result.variant)
}

fn part<'a>(
    file: &'a StudyFile,
    results: &'a [RunResult],
    variant: Variant,
    kernel: Option<&'a str>,
) -> Part<'a> {
    let of_kernel =
        |result: &&RunResult| result.kernel.is_none() || result.kernel.as_deref() == kernel;
    let mine = results.iter().filter(|result| serves(file, result, variant)).filter(of_kernel);
    let mut scale = 1;
    let mut runs: Vec<(&str, Vec<&Trial>)> = Vec::new();
    for result in mine {
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

fn judged(kernel: Option<&str>, kernels: &[String], trials: &Trials<'_>) -> study::Variant {
    let Trials { file, variant, scale, .. } = trials;
    let named = kernel.map(|kernel| format!(", kernel {kernel}")).unwrap_or_default();
    study::Variant {
        name: format!("{}{named}", variant.words()),
        conditions: variant.words().to_string(),
        kernel: kernel.map(String::from),
        scale: *scale,
        kernels: kernels.to_vec(),
        claims: claims::claims(trials),
        tables: file.published.iter().map(|of| table::table(of, trials)).collect(),
    }
}

/// The release of the kernel that a trial ran on; none in a model, and where it is not known.
fn kernel_of(trial: &Trial) -> Option<String> {
    let of_lab = trial.plan.lab().map(|lab| lab.kernel.clone());
    let found = || trial.conditions.kernel.split_whitespace().next().map(String::from);
    of_lab.or_else(found).filter(|kernel| !kernel.is_empty() && trial.plan.model().is_none())
}
