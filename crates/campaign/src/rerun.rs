//! Repeats stored trials: finds the labs that they need, creates their jobs, and compares lab identities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::MatrixRequest;
use fsdyno_lab::{Cache, Lab, LabError, LabOptions};
use fsdyno_record::job::Task;
use fsdyno_record::plan::KernelPlan;
use fsdyno_record::{Job, Plan, Trial, trial};
use fsdyno_venue::commands::refuse_user_command;
use fsdyno_venue::{Commands, Identity, Inputs, LabVenue, SetupHooks};

use crate::failure::Failure;
use crate::notes::say;

/// Finds a lab for each kernel of these trials. `requested` holds the values of `--kernel`, for kernels that cannot be
/// found by their release.
///
/// # Errors
/// A requirement that is missing or unusable.
pub fn find_venue<'a>(
    trials: impl Iterator<Item = &'a Trial>,
    requested: &[String],
    stop: &Arc<AtomicBool>,
) -> Result<LabVenue, Failure> {
    let mut kernels = BTreeSet::new();
    let mut plans = Vec::new();
    for trial in trials {
        // The record may come from someone else: its commands are checked before anything in it is used.
        Commands::derive(&trial.plan)?;
        refuse_user_command(&trial.plan)?;
        kernels.extend(trial.plan.lab().map(|lab| lab.kernel.clone()));
        plans.push(&trial.plan);
    }
    let inputs = read_inputs(&plans)?;
    let labs = find_labs(&kernels, requested)?;
    let hooks =
        SetupHooks { log: |line| say(&format!("fsdyno: {line}")), cancel: Arc::clone(stop) };
    Ok(LabVenue::new(labs, crate::labs::agent()?, std::env::temp_dir(), Cache::of_user()?)
        .with_inputs(inputs)
        .with_setup_hooks(hooks))
}

/// Reads the input files that stored plans name.
///
/// # Errors
/// A file that cannot be read.
pub fn read_inputs(plans: &[&Plan]) -> Result<Inputs, Failure> {
    let mut matrix_request = MatrixRequest::default();
    for workload in plans.iter().map(|plan| &plan.workload) {
        if let Some(input) = &workload.input {
            let value = workload.params.get(&input.parameter).cloned().unwrap_or_default();
            matrix_request.workloads.push(workload.name.clone());
            matrix_request
                .parameters
                .push(format!("{}.{}={value}", workload.name, input.parameter));
        }
    }
    matrix_request.workloads.dedup();
    Ok(crate::read_inputs(&matrix_request)?)
}

/// Returns the job that repeats a stored trial.
pub fn job(trial: &Trial) -> Job {
    Job {
        trial_id: trial.trial_id.clone(),
        seed: trial.seed,
        plan: trial.plan.clone(),
        // The guest reads the deadline, so it must be that of the first run.
        deadline: trial.deadline_ns.unwrap_or(crate::DEFAULT_DEADLINE),
        task: Task::Whole,
    }
}

/// Returns the components in which this lab's identity differs from that of a stored trial.
pub fn differing_components(here: &Identity, trial: &Trial) -> Vec<String> {
    trial::differing_components(&here.components, &trial.lab)
}

/// Finds the labs of the kernels named in plans.
fn find_labs(kernels: &BTreeSet<KernelPlan>, requested: &[String]) -> Result<Vec<Lab>, Failure> {
    let find = |kernel: &str| {
        let (kernel, cache) = (Some(kernel.to_string()), Cache::of_user()?);
        let options = LabOptions { kernel, qemu: None, cache, offline: false };
        Lab::find(&options, &|line| say(&format!("fsdyno: {line}")))
    };
    let mut lab_by_kernel: BTreeMap<&KernelPlan, Lab> = BTreeMap::new();
    for kernel in requested {
        let lab = find(kernel)?;
        let fits = |plan: &&KernelPlan| {
            let same_request = plan.request.as_ref().is_none_or(|request| request == kernel);
            lab.kernel_release() == plan.release
                && same_request
                && !lab_by_kernel.contains_key(plan)
        };
        match kernels.iter().find(fits) {
            Some(plan) => drop(lab_by_kernel.insert(plan, lab)),
            // This is checked first, because the search for the other kernels may download them.
            None => {
                return Err(Failure::invalid_use(format!(
                    "--kernel {kernel} is {}, and none of the trials ran on it; they ran on: {}",
                    lab.kernel_release(),
                    kernels.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                )));
            }
        }
    }
    let mut lab_for = |plan: &KernelPlan| -> Result<Lab, Failure> {
        let lab = match lab_by_kernel.remove(plan) {
            Some(lab) => lab,
            None => find(plan.request()).map_err(|error| with_image_hint(plan, error))?,
        };
        Ok(lab.requested_as(plan.request.clone()))
    };
    kernels.iter().map(&mut lab_for).collect()
}

/// Adds a hint to the error for a kernel that was not found: the user may have built it.
fn with_image_hint(kernel: &KernelPlan, error: LabError) -> Failure {
    let failure = Failure::from(error);
    let message = format!(
        "{failure}; if it was your own image ({kernel}), give it again: --kernel IMAGE or IMAGE:MODULES"
    );
    Failure { message, ..failure }
}
