//! Stored trials that run again: the labs that they need, the job of each, and how this lab differs from theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_lab::{Cache, Lab, LabError, LabOptions};
use fsdyno_record::plan::{Task, kernel_names};
use fsdyno_record::{Job, Trial};
use fsdyno_study::Question;
use fsdyno_venue::{Commands, Identity, LabVenue, SetupHooks};

use crate::exit::Failure;
use crate::output::say;
use crate::place;

/// A lab for each kernel of these trials. `given` are kernels that are not found by their release, as
/// `run --kernel` takes them.
///
/// # Errors
/// What is missing, or cannot be used.
pub fn venue<'a>(
    trials: impl Iterator<Item = &'a Trial>,
    given: &[String],
    stop: &Arc<AtomicBool>,
) -> Result<LabVenue, Failure> {
    let mut kernels = BTreeSet::new();
    let mut question = Question::default();
    for trial in trials {
        // The record may be of somebody else: nothing of it is looked for before its commands are proven.
        Commands::of(&trial.plan)?;
        kernels.extend(trial.plan.lab().map(|lab| lab.kernel.clone()));
        let workload = &trial.plan.workload;
        if let Some(input) = &workload.input {
            let value = workload.params.get(&input.parameter).cloned().unwrap_or_default();
            question.workloads.push(workload.name.clone());
            let set = format!("{}.{}={value}", workload.name, input.parameter);
            question.sets.push(set);
        }
    }
    question.workloads.dedup();
    let inputs = fsdyno_study::read_inputs(&question)?;
    let labs = labs(&kernels, given)?;
    let hooks =
        SetupHooks { log: |line| say(&format!("fsdyno: {line}")), cancel: Arc::clone(stop) };
    Ok(LabVenue::new(labs, place::executable(), std::env::temp_dir(), Cache::of_user()?)
        .with_inputs(inputs)
        .with_setup_hooks(hooks))
}

/// The job of a stored trial.
pub fn job(trial: &Trial) -> Job {
    Job {
        trial_id: trial.trial_id.clone(),
        seed: trial.seed,
        plan: trial.plan.clone(),
        // Part of what the guest reads, so it has to be that of the first run.
        deadline: trial.deadline_ns.unwrap_or(fsdyno_study::USUAL_DEADLINE),
        task: Task::Whole,
    }
}

/// The components of the lab identity in which this lab differs from that of a stored trial.
pub fn differ(here: &Identity, trial: &Trial) -> Vec<String> {
    let names: BTreeSet<&String> = here.components.keys().chain(trial.lab.keys()).collect();
    let differs = |name: &&String| here.components.get(*name) != trial.lab.get(*name);
    names.into_iter().filter(differs).cloned().collect()
}

/// The labs of the kernels that plans name.
fn labs(kernels: &BTreeSet<String>, given: &[String]) -> Result<Vec<Lab>, Failure> {
    let find = |kernel: &str| {
        let (kernel, cache) = (Some(kernel.to_string()), Cache::of_user()?);
        let options = LabOptions { kernel, qemu: None, cache, offline: false };
        Lab::find(&options, &|line| say(&format!("fsdyno: {line}")))
    };
    let mut of_given: BTreeMap<&String, Lab> = BTreeMap::new();
    for kernel in given {
        let lab = find(kernel)?;
        let fits = |name: &&String| {
            // What was given stands behind the release, where several builds have one.
            let (release, called) = name.split_once('@').unwrap_or((name, kernel));
            lab.kernel_release() == release && called == kernel && !of_given.contains_key(name)
        };
        match kernels.iter().find(fits) {
            Some(name) => drop(of_given.insert(name, lab)),
            // Before the others are looked for, which may mean to bring them.
            None => {
                return Err(Failure::wrong(format!(
                    "--kernel {kernel} is {}, and no trial that is explained ran on that; they ran on: {}",
                    lab.kernel_release(),
                    kernels.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
                )));
            }
        }
    }
    let mut of = |name: &String| -> Result<Lab, Failure> {
        let lab = match of_given.remove(name) {
            Some(lab) => lab,
            None => find(kernel_names(name).1).map_err(|error| missing(name, error))?,
        };
        Ok(lab.named(name.clone()))
    };
    kernels.iter().map(&mut of).collect()
}

/// A kernel that nothing here finds may be one that the user built.
fn missing(name: &str, error: LabError) -> Failure {
    let failure = Failure::from(error);
    let message = format!(
        "{failure}; if it was an image of yours ({name}), name it again: --kernel IMAGE or IMAGE:MODULES"
    );
    Failure { message, ..failure }
}
