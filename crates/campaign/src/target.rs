//! Resolves `--on` and the options for it to targets and to the venues that run them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::{Cell, DevicePlace, HostDevice, LabPlace, ModelPlace, Place, Question, matrix};
use fsdyno_axes::{Axis, TargetKind};
use fsdyno_filesystem::Author;
use fsdyno_lab::{Cache, Lab, LabError, LabOptions};
use fsdyno_media::{EphemeralMedium, Room};
use fsdyno_ranks::Group;
use fsdyno_record::Bytes;
use fsdyno_record::plan::{EphemeralKind, EphemeralSize, IssuerPlan, KernelPlan, Target};
use fsdyno_venue::{
    Agent, HostVenue, Inputs, LabVenue, ModelVenue, RanksVenue, SetupHooks, Venue, VenueError,
    tools,
};

use crate::RunSpec;
use crate::drive;
use crate::failure::Failure;
use crate::machine;
use crate::notes::{detail, say};
use crate::tool_sets;
use crate::venues::Venues;

/// The default file system.
const FILESYSTEM: &str = "ext4";

/// The kernel's release in plans that are only checked, before the kernel is resolved.
const ANY_KERNEL: &str = "default";

/// One target of a command, and the experiment requested for it.
#[derive(Clone, Debug)]
pub struct TargetRequest {
    /// The experiment, with the file systems of this target.
    pub question: Question,
    /// The target.
    pub place: Place,
}

/// Parses each `--on` without searching for kernels, tools or drives: enough to check the request.
///
/// # Errors
/// The first option that is invalid for its target.
pub fn parse_targets(run: &RunSpec) -> Result<Vec<TargetRequest>, Failure> {
    crate::ranks::check(run)?;
    let lab = [Target::Lab.to_string()];
    let on = if run.axes.on.is_empty() { &lab } else { run.axes.on.as_slice() };
    if let Some((at, on)) = on.iter().enumerate().find(|(at, one)| on[..*at].contains(one)) {
        return Err(Failure::wrong(format!("--on {on} is given {} times; give it once", at + 1)));
    }
    let targets = on.iter().map(|on| parse_target(on)).collect::<Result<Vec<_>, _>>()?;
    if run.erase.is_some() && !targets.iter().any(drive::is_named) {
        return Err(Failure::wrong(format!(
            "--erase is for a drive (--on /dev/disk/by-id/...), and --on {} is not a drive; remove --erase",
            on.join(" --on ")
        )));
    }
    let mut requests = Vec::new();
    for target in &targets {
        let question = question(run, target);
        for place in resolve(run, target)? {
            requests.push(TargetRequest { place, question: question.clone() });
        }
    }
    Ok(requests)
}

/// Parses one value of `--on`.
pub fn parse_target(on: &str) -> Result<Target, Failure> {
    Target::parse(on).map_err(|error| Failure::wrong(format!("--on {error}")))
}

/// The cells of all targets, in the order of `--on`.
///
/// # Errors
/// The first request that is invalid.
pub fn cells(requests: &[TargetRequest]) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for request in requests {
        cells.push(request.cells()?);
    }
    Ok(numbered(cells))
}

/// Joins the cells of several targets, and numbers them.
pub fn numbered(of_targets: Vec<Vec<Cell>>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = of_targets.into_iter().flatten().collect();
    for (row, cell) in (0..).zip(&mut cells) {
        cell.row = row;
    }
    cells
}

impl TargetRequest {
    /// The cells of this target.
    ///
    /// # Errors
    /// A request that is invalid.
    pub fn cells(&self) -> Result<Vec<Cell>, Failure> {
        Ok(matrix(&self.question, &self.place)?)
    }
}

/// The experiment requested for a target, as the study crate takes it.
fn question(run: &RunSpec, on: &Target) -> Question {
    let axes = &run.axes;
    let mut filesystems: Vec<String> = axes.filesystems.iter().flat_map(|it| several(it)).collect();
    if filesystems.is_empty()
        && (matches!(on, Target::Lab | Target::Ephemeral(_)) || drive::is_named(on))
    {
        filesystems.push(FILESYSTEM.to_string());
    }
    let tool_versions = filesystems
        .iter()
        .filter_map(|text| fsdyno_filesystem::Spec::parse(text).ok())
        .filter_map(|spec| fsdyno_filesystem::catalog::get(&spec.base().kind).ok())
        .filter_map(|kind| Some((kind.name.clone(), tools::version(kind)?)))
        .collect();
    let seconds = |seconds: u64| fsdyno_record::Nanos(seconds * 1_000_000_000);
    Question {
        deadline: run.deadline.map_or(crate::USUAL_DEADLINE, seconds),
        workloads: run.workloads.clone(),
        filesystems,
        sets: run.sets.clone(),
        sysctls: run.sysctls.clone(),
        threads: axes.threads,
        issuer: axes.issuer,
        seed: run.seed,
        verify: axes.verify,
        tool_versions,
        inputs: Inputs::default(),
        periods: axes.periods.clone(),
        author: run.author,
        ages: axes.ages.clone(),
        ranks: run.ranks.as_ref().map(|ranks| ranks.plan.clone()),
    }
}

/// Splits one `--fs` into specs: `ext4,xfs` is two, because each part is a plain name of a file system.
pub fn several(fs: &str) -> Vec<String> {
    let is_kind = |name: &str| {
        let model = fsdyno_ext2dir::trial::variant(name).is_some();
        model || fsdyno_filesystem::catalog::get(name).is_ok()
    };
    let parts: Vec<&str> = fs.split(',').map(str::trim).collect();
    match parts.iter().all(|part| is_kind(part)) {
        true => parts.into_iter().map(String::from).collect(),
        false => vec![fs.to_string()],
    }
}

/// The default disk of the model: one of the modelled year.
const MODEL_DISK: &str = "ide-2001";

fn model(run: &RunSpec) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Model, TargetKind::Model)?;
    let disks = match run.axes.disks.is_empty() {
        true => vec![MODEL_DISK.to_string()],
        false => run.axes.disks.clone(),
    };
    Ok(Place::Model(ModelPlace { disks, size: run.axes.size }))
}

/// Resolves one target: to a place for each machine of the lab, and to one elsewhere.
fn resolve(run: &RunSpec, target: &Target) -> Result<Vec<Place>, Failure> {
    if run.ranks.is_some() && (!matches!(target, Target::Path(_)) || drive::is_named(target)) {
        return Err(Failure::wrong(format!(
            "--ranks needs a directory that all hosts share, and --on {target} is none; give --on DIR"
        )));
    }
    let place = match target {
        Target::Lab => {
            let kernels = match run.axes.kernels.is_empty() {
                true => vec![ANY_KERNEL.into()],
                false => run.axes.kernels.iter().map(|kernel| kernel.as_str().into()).collect(),
            };
            let places = machine::places(run, &kernels, false)?;
            return Ok(places.into_iter().map(Place::Lab).collect());
        }
        Target::Model => model(run)?,
        Target::Ephemeral(made) => ephemeral_place(run, *made)?,
        Target::Path(on) if drive::is_named(target) => match run.author {
            Author::File => {
                return Err(Failure::wrong(format!(
                    "--on {on} is a drive, and a study file cannot name one; give it on the command line: \
                     fsdyno run --on {on}"
                )));
            }
            Author::User => drive::place(run, on)?,
        },
        Target::Path(on) => directory(run, on)?,
    };
    Ok(vec![place])
}

/// A device created on this host for each trial.
fn ephemeral_place(run: &RunSpec, made: EphemeralSize) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Ephemeral(made), TargetKind::Ephemeral)?;
    if run.jobs > 1 {
        return Err(Failure::wrong(format!(
            "--jobs {} is not possible with --on {made}: trials on one host disturb each other, and two file \
             systems of one seed would have the same UUID; remove --jobs",
            run.jobs
        )));
    }
    Ok(Place::Device(DevicePlace {
        device: HostDevice::Ephemeral(made),
        size: made.size,
        raid: run.axes.raid,
        journal_size: run.axes.journal_size,
    }))
}

/// Checks that this process may create the requested devices, before it creates anything, even the result folder.
///
/// # Errors
/// A missing permission or tool.
pub fn check_permission(requests: &[TargetRequest]) -> Result<(), Failure> {
    for request in requests {
        let Place::Device(device) = &request.place else { continue };
        if let HostDevice::Ephemeral(made) = device.device {
            EphemeralMedium::from(made).check_privileges()?;
        }
    }
    Ok(())
}

/// Refuses the first option that a target does not support.
pub fn refuse_unsupported(run: &RunSpec, on: &Target, kind: TargetKind) -> Result<(), Failure> {
    let what = match kind {
        TargetKind::Lab => return Ok(()),
        TargetKind::Model => "a model",
        TargetKind::Directory => "a directory of this host",
        TargetKind::Ephemeral => "a device of this host",
        TargetKind::Drive => "a drive of this host",
    };
    let given = run.axes.given.iter().filter_map(|key| Axis::of(key));
    let axis =
        given.filter(|axis| !axis.targets.contains(&kind)).map(|axis| (axis.key, axis.elsewhere));
    let others = [
        ("keep-log", run.keep_log, ""),
        ("sysctl", !run.sysctls.is_empty(), SETTINGS),
        ("change", !run.changes.is_empty(), ""),
    ];
    let others = others.into_iter().filter(|(_, given, _)| *given).map(|(key, _, why)| (key, why));
    match axis.chain(others).next() {
        None => Ok(()),
        Some((key, why)) => Err(Failure::wrong(format!(
            "--{key} is for the lab, and --on {on} is {what}; remove one of them{why}"
        ))),
    }
}

/// The reason that sysctls are for the lab.
const SETTINGS: &str = "; fsdyno does not change settings of this host, and records them";

fn directory(run: &RunSpec, on: &str) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Path(on.into()), TargetKind::Directory)?;
    let path = Path::new(on);
    if !path.exists() && !on.contains('/') {
        return Err(Failure::wrong(format!(
            "--on {on}: no such medium or directory; possible are: {}",
            target_forms()
        )));
    }
    fsdyno_media::check(path, &Room::default())?;
    let mut kind = fsdyno_media::directory::kind(path)?;
    if let Some(ranks) = &run.ranks {
        kind.push_str(&ranks.label());
    }
    let path = std::fs::canonicalize(path)
        .map_err(|error| Failure::wrong(format!("failed to find '{on}': {error}")))?;
    let longest_name = rustix::fs::statvfs(&path).ok().map(|status| status.f_namemax as usize);
    Ok(Place::Directory { path, label: kind, longest_name })
}

/// The possible values of `--on`.
fn target_forms() -> String {
    let made = EphemeralKind::ALL.map(|kind| format!("{}:SIZE", kind.name()));
    format!("lab, model, {}, /dev/DRIVE, or a directory of this host", made.join(", "))
}

/// Checks that the directory has space for the largest cells that run at the same time, and reports what a killed
/// run left there.
pub fn check_directory(path: &Path, cells: &[Cell], jobs: usize) -> Result<(), Failure> {
    let jobs = jobs.max(1) as u64;
    // The null issuer writes nothing.
    let calls = |cell: &&Cell| cell.plan.issuer != IssuerPlan::Null;
    let most = |part: fn(&Cell) -> u64| cells.iter().filter(calls).map(part).max().unwrap_or(0);
    let room = Room {
        bytes: Bytes(most(|cell| cell.needs.bytes.0).saturating_mul(jobs)),
        inodes: most(|cell| cell.needs.inodes).saturating_mul(jobs),
        longest_name: cells.iter().map(|cell| cell.needs.longest_name).max().unwrap_or(0),
    };
    fsdyno_media::check(path, &room)?;
    let left = fsdyno_media::leftovers(path)?;
    if let Some(first) = left.first() {
        say(&format!(
            "fsdyno: an earlier run was killed and left '{}'{}; clean up with: fsdyno doctor --clean '{}'",
            first.path.display(),
            if left.len() > 1 { format!(" and {} more", left.len() - 1) } else { String::new() },
            path.display()
        ));
    }
    Ok(())
}

/// The folder of results whose place was not given.
pub const RESULTS: &str = "fsdyno-results";

/// The default result folder: `fsdyno-results/<UTC time>-<name>`.
pub fn default_folder(name: &str) -> PathBuf {
    let time: String =
        fsdyno_venue::clock::now().chars().filter(char::is_ascii_alphanumeric).collect();
    Path::new(RESULTS).join(format!("{time}-{name}"))
}

/// Returns the path of the agent, which is held open until this process ends.
///
/// # Errors
/// An agent that is missing or does not fit.
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

/// Finds the venues of all targets, and completes the targets with the kernels' releases.
///
/// # Errors
/// A requirement that is missing or unusable.
pub fn venues(
    run: &RunSpec,
    requests: Vec<TargetRequest>,
    results: &Path,
    stop: &Arc<AtomicBool>,
    mode: Mode,
) -> Result<(Venues, Vec<TargetRequest>), Failure> {
    let (mut venues, mut known) = (Vec::new(), Vec::new());
    // One for all machines.
    let mut kernels: Option<Vec<KernelPlan>> = None;
    for TargetRequest { question, place } in requests {
        let inputs = question.inputs.clone();
        let host = || agent().map(|agent| HostVenue::new(agent).with_inputs(inputs.clone()));
        let (venue, place): (Option<Box<dyn Venue>>, Place) = match place {
            Place::Model(_) => (Some(Box::new(ModelVenue)), place),
            Place::Directory { .. } => match &run.ranks {
                None => (Some(Box::new(host()?)), place),
                Some(ranks) => (ranks.group.get().map(shared), place),
            },
            Place::Device(device) => {
                // A folder that does not exist yet will be on the file system of its parent.
                let there =
                    results.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
                let mut venue = host()?.with_folder(there);
                if let (HostDevice::Drive(path), Mode::Run) = (&device.device, mode) {
                    venue = venue.with_drive(drive::inspect(run, path)?.claim()?);
                }
                (Some(Box::new(venue)), Place::Device(device))
            }
            Place::Lab(place) => match &kernels {
                Some(names) => (None, Place::Lab(found(place, names))),
                None => {
                    let (labs, names) = labs(run, mode)?;
                    let place = Place::Lab(found(place, &names));
                    let venue =
                        labs.map(|labs| lab_of(run, labs, inputs, results, stop)).transpose()?;
                    kernels = Some(names);
                    (venue.map(|venue| Box::new(venue) as Box<dyn Venue>), place)
                }
            },
        };
        venues.push((place.clone(), venue));
        known.push(TargetRequest { question, place });
    }
    Ok((Venues::new(venues), known))
}

/// The venue of processes that have come together.
fn shared(group: &Arc<Group>) -> Box<dyn Venue> {
    Box::new(RanksVenue::new(Arc::clone(group)))
}

/// Completes a place with the kernels found.
fn found(place: LabPlace, kernels: &[KernelPlan]) -> LabPlace {
    LabPlace { kernels: kernels.to_vec(), found: true, ..place }
}

fn lab_of(
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

/// Finds the lab for a command that only runs in the lab, and completes the target with the kernels' releases.
///
/// # Errors
/// A requirement that is missing or unusable.
pub fn lab_venue(
    run: &RunSpec,
    results: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(LabVenue, Place), Failure> {
    let (labs, names) = labs(run, Mode::Run)?;
    let venue = lab_of(run, labs.unwrap_or_default(), Inputs::default(), results, stop)?;
    let place = machine::places(run, &names, true)?.into_iter().next();
    let place = place.ok_or_else(|| Failure::wrong("the command names no machine"))?;
    Ok((venue, Place::Lab(place)))
}

/// Replaces requests for several series of kernels (`all`, `5.10..7.3`) by one for each series that is here or in Debian's
/// suites; `None` if there are none.
///
/// # Errors
/// A wrong or empty range; package lists that are neither cached nor can be downloaded.
pub fn expand_kernels(requested: &[String]) -> Result<Option<Vec<String>>, Failure> {
    let expand = |kernel: &String| fsdyno_lab::expand_kernels(kernel, Cache::of_user, &say_line);
    let expanded: Vec<Vec<String>> = requested.iter().map(expand).collect::<Result<_, _>>()?;
    let expanded: Vec<String> = expanded.into_iter().flatten().collect();
    Ok((expanded != requested).then_some(expanded))
}

/// Finds the labs of all requested kernels, and the kernels' names in plans. A run downloads missing kernels; a dry
/// run only looks them up, and returns no labs if one is missing.
fn labs(run: &RunSpec, mode: Mode) -> Result<(Option<Vec<Lab>>, Vec<KernelPlan>), Failure> {
    let (mut labs, mut releases) = (Vec::new(), Vec::new());
    // The --kernel of each lab; a kernel that is not downloaded yet has no lab.
    let mut of: Vec<usize> = Vec::new();
    for (at, kernel) in kernels(run).into_iter().enumerate() {
        match find_lab(kernel.clone(), mode == Mode::Dry) {
            Ok(lab) => {
                detail(&format!(
                    "fsdyno: lab of kernel {} in {} {}",
                    lab.kernel_release(),
                    lab.qemu().path.display(),
                    lab.qemu().version
                ));
                releases.push(lab.kernel_release().to_string());
                of.push(at);
                labs.push(lab);
            }
            Err(LabError::NoKernel(_)) if mode == Mode::Dry => {
                let cache = Cache::of_user()?;
                let release = fsdyno_lab::kernel_would_be(kernel.as_deref(), &cache, &say_line)?;
                say(&format!(
                    "fsdyno: kernel {release} is not installed; the run downloads it and then checks its features"
                ));
                releases.push(release);
            }
            Err(error) => return Err(error.into()),
        }
    }
    for (at, lab) in labs.iter().enumerate() {
        if let Some(other) = labs[..at].iter().position(|other: &Lab| other.has_kernel_of(lab)) {
            return Err(Failure::wrong(format!(
                "--kernel {} and --kernel {} are the same kernel, {}; give it once",
                run.axes.kernels[of[other]],
                run.axes.kernels[of[at]],
                lab.kernel_release()
            )));
        }
    }
    if mode == Mode::Run {
        tool_sets::bring(run, &releases)?;
    }
    let names = names(&releases.iter().map(String::as_str).collect::<Vec<_>>(), &run.axes.kernels);
    let all = labs.len() == releases.len();
    let labs =
        labs.into_iter().zip(&of).map(|(lab, at)| lab.requested_as(names[*at].request.clone()));
    Ok((all.then(|| labs.collect()), names))
}

/// The kernels in plans: the release, with the value of `--kernel` if several have one release.
fn names(releases: &[&str], given: &[String]) -> Vec<KernelPlan> {
    let name = |(at, release): (usize, &&str)| {
        let several = releases.iter().filter(|other| *other == release).count() > 1;
        let request = given.get(at).filter(|given| several && given != release).cloned();
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
    fn kernels_are_named_by_release_and_builds_of_one_release_by_their_file_too() {
        let given = ["6.1", "new/bzImage:mods", "5.10"].map(String::from);
        let names = |releases: [&str; 3]| -> Vec<String> {
            names(&releases, &given).iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(["6.1.0", "6.2.0", "5.10.0"]), ["6.1.0", "6.2.0", "5.10.0"]);
        let both = names(["6.1.0", "6.1.0", "5.10.0"]);
        assert_eq!(both, ["6.1.0@6.1", "6.1.0@new/bzImage:mods", "5.10.0"]);
    }
}
