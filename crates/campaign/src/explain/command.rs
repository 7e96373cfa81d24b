//! Explains the trials of a result one by one, or compares them with those of another result.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fsdyno_axes::naming;
use fsdyno_record::{SCHEMA, Trial};
use fsdyno_report::Basis;
use fsdyno_why::{Explained, StoredExplanation};

use super::figures;
use super::sidecar::Sidecar;
use super::{Explainer, pairs, select};
use crate::{Failure, phase_name, results, stop};

/// The request of an explanation.
#[derive(Clone, Debug, Default)]
pub struct WhyRequest {
    /// The result.
    pub result: PathBuf,
    /// Another result to compare with.
    pub against: Option<PathBuf>,
    /// The labels of the configurations, or empty for all.
    pub fs: Vec<String>,
    /// The configuration of the other result, if not the one with the same label.
    pub against_fs: Option<String>,
    /// The seed of the trials, if not the lowest.
    pub seed: Option<u64>,
    /// The phase to show, if not all.
    pub phase: Option<String>,
    /// Kernels that cannot be found by their release.
    pub kernels: Vec<String>,
    /// The folder to write files to, if any.
    pub out: Option<PathBuf>,
}

impl WhyRequest {
    /// Refuses a folder that cannot be written to.
    fn check_out(&self) -> Result<(), Failure> {
        let Some(folder) = &self.out else { return Ok(()) };
        let usable = fsdyno_media::file::check_folder(folder);
        usable.map_err(|error| Failure::io("write to", folder, &error))
    }

    /// Writes the files of an explanation to the folder, if one was given. `written` has the names of earlier files.
    fn write_files(
        &self,
        explained: &Explained,
        baseline: Option<&Explained>,
        written: &mut BTreeSet<String>,
    ) -> Result<(), Failure> {
        let Some(folder) = &self.out else { return Ok(()) };
        figures::write_files(folder, explained, baseline, written)
    }
}

/// A function that shows an explanation and, if there is one, the explanation that it is compared with.
pub type Show<'s> = dyn FnMut(&Explained, Option<&Explained>) -> Result<(), Failure> + 's;

/// Reduces an explanation to the first of these phases that it has, if any are given.
fn only(explained: Explained, phases: &BTreeSet<String>) -> Explained {
    let has = |name: &&String| explained.phases.iter().any(|phase| phase.name == **name);
    match phases.iter().find(has).or_else(|| phases.first()) {
        Some(name) => explained.only_phase(name),
        None => explained,
    }
}

/// Explains a result, or compares it with another. Stores each explanation and passes it to `show`, then writes the
/// result's page, with the ratios and tables that `basis` specifies.
///
/// # Errors
/// A request that does not fit the result; a trial that is not bit-identical; an error of `show`.
pub fn explain_result(
    why: &WhyRequest,
    basis: Basis<'_>,
    show: &mut Show<'_>,
) -> Result<(), Failure> {
    let trials = select(&why.result, &why.fs, why.seed)?;
    let rows: Vec<String> = why.against_fs.iter().cloned().collect();
    let others =
        why.against.as_deref().map(|folder| select(folder, &rows, why.seed)).transpose()?;
    let pairs = pairs(&trials, others.as_deref())?;
    others.iter().try_for_each(|others| refuse_self_comparison(&trials, others, &pairs))?;
    let phases = match &why.phase {
        Some(name) => phase_name::resolve("--phase", name, &phase_name::of_trials(&trials))?,
        None => BTreeSet::new(),
    };
    let all = fsdyno_report::load([&why.result])?.trials;
    results::check_baseline(basis.baseline, all.iter().map(|it| it.plan.label.as_str()))?;
    why.check_out()?;
    let mut sidecar = Sidecar::of(&why.result)?;
    let stop = stop::flag()?;
    let all = trials.iter().chain(others.iter().flatten());
    let explainer = Explainer::new(all, &why.kernels, &stop)?;
    // Names distinguish the trials of both results: by kernel, disk or parameter.
    let names = naming::RowNames::of(trials.iter().chain(others.iter().flatten()));
    let mut explained: BTreeMap<(bool, usize), Explained> = BTreeMap::new();
    let mut written = BTreeSet::new();
    let mut explain_pair = |(index, other): (usize, Option<usize>)| -> Result<(), Failure> {
        let mut explain_once =
            |is_other: bool, index: usize, trial: &Trial| -> Result<Explained, Failure> {
                if let Some(known) = explained.get(&(is_other, index)) {
                    return Ok(known.clone());
                }
                let mut new = explainer.explain(trial)?;
                (new.workload, new.label) = (names.workload(trial), names.row(trial));
                explained.insert((is_other, index), new.clone());
                Ok(new)
            };
        let mut explanation = explain_once(false, index, &trials[index])?;
        let other = other.zip(others.as_ref());
        let mut baseline =
            other.map(|(index, others)| explain_once(true, index, &others[index])).transpose()?;
        if let Some(sidecar) = &mut sidecar {
            sidecar.add(StoredExplanation {
                schema: SCHEMA,
                explained: explanation.clone(),
                baseline: baseline.clone(),
            })?;
        }
        explanation = only(explanation, &phases);
        baseline = baseline.map(|baseline| only(baseline, &phases));
        show(&explanation, baseline.as_ref())?;
        why.write_files(&explanation, baseline.as_ref(), &mut written)
    };
    let done = pairs.into_iter().try_for_each(&mut explain_pair);
    // After a failure, the report still includes the earlier explanations; an error of the report is then ignored.
    let page = sidecar.map_or(Ok(()), |sidecar| sidecar.rewrite_report(&why.result, basis));
    done.and(page)
}

/// Refuses to compare a trial with itself.
fn refuse_self_comparison(
    trials: &[Trial],
    others: &[Trial],
    pairs: &[(usize, Option<usize>)],
) -> Result<(), Failure> {
    let itself = pairs.iter().find_map(|(index, other)| {
        let trial = &trials[*index];
        (trial.identity() == others[(*other)?].identity()).then_some(trial)
    });
    itself.map_or(Ok(()), |trial| {
        Err(Failure::invalid_use(format!(
            "--against has the same trial of {0} on {1} as RESULT; select another row with --against-fs \
             NAME, or give another result",
            trial.plan.workload.name, trial.plan.label
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    /// Returns an archived record of a lab trial.
    fn stored() -> Trial {
        let results = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../results/2026-11-23-wishes/as-it-stands/commits"
        );
        let trials = fsdyno_report::load([results]).unwrap().trials;
        let on_ext4 = |trial: &Trial| {
            let plan = trial.plan.filesystem.as_ref();
            plan.is_some_and(|plan| plan.kind == "ext4" && trial.plan.lab().is_some())
        };
        trials.into_iter().find(on_ext4).unwrap()
    }

    fn explain_error(folder: &std::path::Path, trial: &Trial, against: Option<PathBuf>) -> Failure {
        let line = serde_json::to_string(trial).unwrap() + "\n";
        std::fs::write(folder.join(fsdyno_record::lines::FILE), line).unwrap();
        let request = WhyRequest { result: folder.to_path_buf(), against, ..WhyRequest::default() };
        explain_result(&request, None.into(), &mut |_, _| Ok(())).unwrap_err()
    }

    #[test]
    fn a_result_against_itself_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (trial, itself) = (stored(), folder.path().to_path_buf());
        let failure = explain_error(folder.path(), &trial, Some(itself));
        assert_eq!(failure.exit, Exit::InvalidUse, "{}", failure.message);
        assert!(failure.message.contains("with --against-fs NAME"), "{}", failure.message);
        let other = Trial { seed: trial.seed + 1, trial_id: "other".into(), ..trial.clone() };
        assert!(refuse_self_comparison(&[trial], &[other], &[(0, Some(0))]).is_ok());
    }

    #[test]
    fn a_record_with_commands_that_are_not_in_the_catalog_is_refused_before_any_of_them_runs() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("left");
        type Forge = fn(&mut fsdyno_record::plan::FilesystemPlan, String);
        let forged: [(&str, Forge); 2] = [
            ("check", |plan, left| {
                plan.check = ["sh", "-c", &format!("id > {left}")].map(String::from).into()
            }),
            ("env", |plan, left| drop(plan.env.insert("LD_PRELOAD".into(), left))),
        ];
        for (field, forge) in forged {
            let mut trial = stored();
            let plan = trial.plan.filesystem.as_mut().unwrap();
            forge(plan, left.to_str().unwrap().to_string());
            let failure = explain_error(folder.path(), &trial, None);
            assert_eq!(failure.exit, Exit::InvalidUse, "{}", failure.message);
            assert!(failure.message.contains(&format!("its '{field}' has")), "{}", failure.message);
            assert!(failure.message.contains("never from a file"), "{}", failure.message);
            assert!(!left.exists());
        }
    }
}
