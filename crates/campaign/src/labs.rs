//! The labs of a request: finds or downloads their kernels, and creates a venue from them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fsdyno_axes::Axis;
use fsdyno_lab::{Cache, Lab, LabError, LabOptions};
use fsdyno_record::plan::KernelPlan;
use fsdyno_venue::{Agent, Inputs, LabVenue, SetupHooks, VenueError};

use crate::failure::Failure;
use crate::machine;
use crate::notes::{detail, say};
use crate::tool_sets;
use crate::{LabPlace, Place, RunSpec};

/// Returns the path of the agent, which is held open until this process ends.
///
/// # Errors
/// An agent that is missing or does not match this program.
pub fn agent() -> Result<PathBuf, VenueError> {
    static AGENT: OnceLock<Agent> = OnceLock::new();
    match AGENT.get() {
        Some(agent) => Ok(agent.path()),
        None => Agent::find().map(|agent| AGENT.get_or_init(|| agent).path()),
    }
}

/// The mode of a command: a dry run downloads, locks and boots nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A real run.
    Run,
    /// `--dry-run`.
    Dry,
}

/// Completes a place with the kernels found.
pub(crate) fn with_found_kernels(place: LabPlace, kernels: &[KernelPlan]) -> LabPlace {
    LabPlace { kernels: kernels.to_vec(), found: true, ..place }
}

/// Creates the venue of these labs.
pub(crate) fn new_lab_venue(
    run: &RunSpec,
    labs: Vec<Lab>,
    inputs: Inputs,
    results: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<LabVenue, Failure> {
    let hooks =
        SetupHooks { log: |line| say(&format!("fsdyno: {line}")), cancel: Arc::clone(stop) };
    let venue = LabVenue::new(labs, agent()?, std::env::temp_dir(), Cache::of_user()?)
        .with_inputs(inputs)
        .with_logs(run.keep_log.then(|| results.to_path_buf()))
        .with_changes(run.changes.clone())
        .with_setup_hooks(hooks);
    Ok(venue)
}

/// Finds the lab for a command that runs only in the lab, and returns it with the target, which names its kernels.
///
/// # Errors
/// A requirement that is missing or unusable.
pub fn lab_venue(
    run: &RunSpec,
    results: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(LabVenue, Place), Failure> {
    let (labs, names) = labs(run, Mode::Run)?;
    let venue = new_lab_venue(run, labs.unwrap_or_default(), Inputs::default(), results, stop)?;
    let place = machine::places(run, &names, true)?.into_iter().next();
    let place = place.ok_or_else(|| Failure::invalid_use("the command names no machine"))?;
    Ok((venue, Place::Lab(place)))
}

/// Replaces each request for several kernels (`6.1,6.12`) with one request per kernel, and each request for several
/// series (`all`, `5.10..7.3`) with one per series that is on this host or in Debian's suites; returns `None` if there
/// are no such requests.
///
/// # Errors
/// An invalid or empty range; package lists that are not cached and cannot be downloaded.
pub fn expand_kernels(requested: &[String]) -> Result<Option<Vec<String>>, Failure> {
    let axis = Axis::of("kernel");
    let mut expanded = Vec::new();
    for request in requested {
        let parts = axis.map_or(Ok(vec![request.as_str()]), |axis| axis.parts(request));
        for part in parts.map_err(Failure::invalid_use)? {
            expanded.extend(fsdyno_lab::expand_kernels(part, Cache::of_user, &say_line)?);
        }
    }
    Ok((expanded != requested).then_some(expanded))
}

/// Finds the labs of all requested kernels, and the kernels' names in plans. A run downloads missing kernels; a dry
/// run only looks them up, and returns no labs if one is missing.
pub(crate) fn labs(
    run: &RunSpec,
    mode: Mode,
) -> Result<(Option<Vec<Lab>>, Vec<KernelPlan>), Failure> {
    let (mut labs, mut releases) = (Vec::new(), Vec::new());
    // The index of each lab's --kernel; a kernel that is not downloaded yet has no lab.
    let mut kernel_indices: Vec<usize> = Vec::new();
    for (index, kernel) in kernels(run).into_iter().enumerate() {
        match find_lab(kernel.clone(), mode == Mode::Dry) {
            Ok(lab) => {
                detail(&format!(
                    "fsdyno: lab of kernel {} in {} {}",
                    lab.kernel_release(),
                    lab.qemu().path.display(),
                    lab.qemu().version
                ));
                releases.push(lab.kernel_release().to_string());
                kernel_indices.push(index);
                labs.push(lab);
            }
            Err(LabError::NoKernel(_)) if mode == Mode::Dry => {
                let cache = Cache::of_user()?;
                let release =
                    fsdyno_lab::expected_kernel_release(kernel.as_deref(), &cache, &say_line)?;
                say(&format!(
                    "fsdyno: kernel {release} is not installed; the run downloads it and then checks its features"
                ));
                releases.push(release);
            }
            Err(error) => return Err(error.into()),
        }
    }
    for (index, lab) in labs.iter().enumerate() {
        if let Some(other) = labs[..index].iter().position(|other: &Lab| other.has_kernel_of(lab)) {
            return Err(Failure::invalid_use(format!(
                "--kernel {} and --kernel {} are the same kernel, {}; give it once",
                run.axes.kernels[kernel_indices[other]],
                run.axes.kernels[kernel_indices[index]],
                lab.kernel_release()
            )));
        }
    }
    if mode == Mode::Run {
        tool_sets::download(run, &releases)?;
    }
    let names = names(&releases.iter().map(String::as_str).collect::<Vec<_>>(), &run.axes.kernels);
    let is_complete = labs.len() == releases.len();
    let labs = labs
        .into_iter()
        .zip(&kernel_indices)
        .map(|(lab, index)| lab.requested_as(names[*index].request.clone()));
    Ok((is_complete.then(|| labs.collect()), names))
}

/// Returns the kernels as plans name them: by release, and by the value of `--kernel` if several share a release.
fn names(releases: &[&str], requests: &[String]) -> Vec<KernelPlan> {
    let name = |(index, release): (usize, &&str)| {
        let several = releases.iter().filter(|other| *other == release).count() > 1;
        let request = requests.get(index).filter(|it| several && it != release).cloned();
        KernelPlan { release: release.to_string(), request }
    };
    releases.iter().enumerate().map(name).collect()
}

fn kernels(run: &RunSpec) -> Vec<Option<String>> {
    match run.axes.kernels.is_empty() {
        true => vec![None],
        false => run.axes.kernels.iter().cloned().map(Some).collect(),
    }
}

fn find_lab(kernel: Option<String>, offline: bool) -> Result<Lab, LabError> {
    Lab::find(&LabOptions { kernel, qemu: None, cache: Cache::of_user()?, offline }, &say_line)
}

fn say_line(line: &str) {
    say(&format!("fsdyno: {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_several_kernels_becomes_one_request_per_kernel() {
        let expand = |kernels: &[&str]| {
            let kernels: Vec<String> = kernels.iter().map(ToString::to_string).collect();
            expand_kernels(&kernels)
        };
        let three = ["6.1", "5.10", "7.3"].map(String::from).to_vec();
        assert_eq!(expand(&["6.1,5.10", "7.3"]).unwrap(), Some(three));
        assert_eq!(expand(&["/boot/a,b", "7.3"]).unwrap(), None);
        assert!(
            expand(&["6.1,"]).unwrap_err().message.contains("empty value before or after a comma")
        );
    }

    #[test]
    fn kernels_are_named_by_release_and_builds_of_one_release_also_by_their_file() {
        let requests = ["6.1", "new/bzImage:mods", "5.10"].map(String::from);
        let names = |releases: [&str; 3]| -> Vec<String> {
            names(&releases, &requests).iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(["6.1.0", "6.2.0", "5.10.0"]), ["6.1.0", "6.2.0", "5.10.0"]);
        let both = names(["6.1.0", "6.1.0", "5.10.0"]);
        assert_eq!(both, ["6.1.0@6.1", "6.1.0@new/bzImage:mods", "5.10.0"]);
    }
}
