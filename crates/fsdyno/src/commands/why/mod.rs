//! `fsdyno why`: repeats stored trials under observation and explains where their time went.

mod keep;
mod show;

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_axes::naming;
use fsdyno_record::{SCHEMA, Trial};
use fsdyno_why::{Explained, StoredExplanation};

use crate::cli::Why;
use crate::exit::{Exit, Failure};
use crate::stop;
use fsdyno_campaign::explain::{Explainer, check_phase, pairs, select};
use keep::Sidecar;

/// Explains a result, or compares it with another one.
pub fn run(why: &Why) -> Result<Exit, Failure> {
    let trials = select(&why.result, &why.fs, why.seed)?;
    let rows: Vec<String> = why.against_fs.iter().cloned().collect();
    let others =
        why.against.as_deref().map(|folder| select(folder, &rows, why.seed)).transpose()?;
    let pairs = pairs(&trials, others.as_deref())?;
    others.iter().try_for_each(|others| refuse_itself(&trials, others, &pairs))?;
    check_phase(why.phase.as_deref(), &trials)?;
    let all = fsdyno_report::load([&why.result])?.trials;
    fsdyno_campaign::results::check_baseline(
        why.baseline.as_deref(),
        all.iter().map(|it| it.plan.label.as_str()),
    )?;
    if let Some(folder) = &why.out {
        let usable = fsdyno_media::file::look_at_folder(folder);
        usable.map_err(|error| Failure::io("write to", folder, &error))?;
    }
    let mut sidecar = Sidecar::of(&why.result)?;
    let stop = stop::flag()?;
    let all = trials.iter().chain(others.iter().flatten());
    let explainer = Explainer::new(all, &why.kernels, &stop)?;
    // Names distinguish the trials of both results: by kernel, disk or parameter.
    let names = naming::RowNames::of(trials.iter().chain(others.iter().flatten()));
    let mut explained: BTreeMap<(bool, usize), Explained> = BTreeMap::new();
    let mut written = BTreeSet::new();
    let mut one = |(at, other): (usize, Option<usize>)| -> Result<(), Failure> {
        let mut of = |is_other: bool, at: usize, trial: &Trial| -> Result<Explained, Failure> {
            if let Some(known) = explained.get(&(is_other, at)) {
                return Ok(known.clone());
            }
            let mut new = explainer.explain(trial)?;
            (new.workload, new.label) = (names.workload(trial), names.row(trial));
            explained.insert((is_other, at), new.clone());
            Ok(new)
        };
        let mut here = of(false, at, &trials[at])?;
        let other = other.zip(others.as_ref());
        let mut there = other.map(|(at, others)| of(true, at, &others[at])).transpose()?;
        if let Some(sidecar) = &mut sidecar {
            sidecar.add(StoredExplanation {
                schema: SCHEMA,
                it: here.clone(),
                against: there.clone(),
            })?;
        }
        if let Some(phase) = &why.phase {
            here = here.only(phase);
            there = there.map(|there| there.only(phase));
        }
        show::show(why, &here, there.as_ref(), &mut written)
    };
    let done = pairs.into_iter().try_for_each(&mut one);
    // The report includes the explanations before a failure, which is returned first.
    let page = sidecar.map_or(Ok(()), |sidecar| sidecar.page(why));
    done.and(page).map(|()| Exit::Good)
}

/// Refuses to compare a trial with itself.
fn refuse_itself(
    trials: &[Trial],
    others: &[Trial],
    pairs: &[(usize, Option<usize>)],
) -> Result<(), Failure> {
    let itself = pairs.iter().find_map(|(at, other)| {
        let trial = &trials[*at];
        (trial.identity() == others[(*other)?].identity()).then_some(trial)
    });
    itself.map_or(Ok(()), |trial| {
        Err(Failure::wrong(format!(
            "--against has the same trial of {0} on {1} as RESULT; select another configuration with --against-fs \
             LABEL, or give another result",
            trial.plan.workload.name, trial.plan.label
        )))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    /// A record of the lab from an archive.
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

    fn why(folder: &std::path::Path, trial: &Trial) -> Failure {
        why_with(folder, trial, &[])
    }

    fn why_with(folder: &std::path::Path, trial: &Trial, more: &[&str]) -> Failure {
        let line = serde_json::to_string(trial).unwrap() + "\n";
        std::fs::write(folder.join(fsdyno_record::lines::FILE), line).unwrap();
        let words = [&["fsdyno", "why", folder.to_str().unwrap()], more].concat();
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Why(why)) => run(&why).unwrap_err(),
            _ => panic!("the arguments are refused"),
        }
    }

    #[test]
    fn a_result_against_itself_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (trial, itself) = (stored(), folder.path().to_str().unwrap());
        let failure = why_with(folder.path(), &trial, &["--against", itself]);
        assert_eq!(failure.exit, Exit::WrongUse, "{}", failure.message);
        assert!(failure.message.contains("with --against-fs LABEL"), "{}", failure.message);
        let other = Trial { seed: trial.seed + 1, trial_id: "other".into(), ..trial.clone() };
        assert!(refuse_itself(&[trial], &[other], &[(0, Some(0))]).is_ok());
    }

    #[test]
    fn a_record_with_commands_that_are_not_the_catalogs_is_refused_before_any_of_them_runs() {
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
            let failure = why(folder.path(), &trial);
            assert_eq!(failure.exit, Exit::WrongUse, "{}", failure.message);
            assert!(failure.message.contains(&format!("its '{field}' has")), "{}", failure.message);
            assert!(failure.message.contains("never from a file"), "{}", failure.message);
            assert!(!left.exists());
        }
    }
}
