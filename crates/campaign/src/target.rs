//! Resolves `--on` and the options for it to targets and to the venues that run them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Cell, DevicePlace, HostDevice, MatrixRequest, ModelPlace, Place, matrix};
use fsdyno_axes::TargetKind;
use fsdyno_filesystem::Author;
use fsdyno_media::{EphemeralMedium, Room};
use fsdyno_ranks::Group;
use fsdyno_record::Bytes;
use fsdyno_record::plan::{EphemeralKind, EphemeralSize, IssuerPlan, KernelPlan, Target};
use fsdyno_venue::{HostVenue, Inputs, ModelVenue, RanksVenue, Venue, tools};

use crate::RunSpec;
use crate::drive;
use crate::failure::Failure;
use crate::labs::{Mode, agent, labs, new_lab_venue, with_found_kernels};
use crate::machine;
use crate::notes::say;
use crate::tool_sets::split_filesystems;
use crate::unsupported::refuse_unsupported;
use crate::venues::Venues;

/// The default file system.
const FILESYSTEM: &str = "ext4";

/// The kernel's release in plans that are only checked, before the kernel is resolved.
const ANY_KERNEL: &str = "default";

/// One target of a command, and the matrix requested for it.
#[derive(Clone, Debug)]
pub struct TargetRequest {
    /// The requested matrix, with the file systems of this target.
    pub matrix_request: MatrixRequest,
    /// The resolved target.
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
    if let Some((_, on)) = on.iter().enumerate().find(|(index, one)| on[..*index].contains(one)) {
        return Err(Failure::invalid_use(format!(
            "--on {on} is given more than once; give it once"
        )));
    }
    let targets = on.iter().map(|on| parse_target(on)).collect::<Result<Vec<_>, _>>()?;
    if run.erase.is_some() && !targets.iter().any(drive::is_drive) {
        return Err(Failure::invalid_use(format!(
            "--erase is for a drive (--on /dev/disk/by-id/...), and --on {} is not a drive; remove --erase",
            on.join(" --on ")
        )));
    }
    let mut requests = Vec::new();
    for target in &targets {
        let matrix_request = matrix_request(run, target);
        for place in resolve(run, target)? {
            requests.push(TargetRequest { place, matrix_request: matrix_request.clone() });
        }
    }
    Ok(requests)
}

/// Parses one value of `--on`.
pub fn parse_target(on: &str) -> Result<Target, Failure> {
    Target::parse(on).map_err(|error| Failure::invalid_use(format!("--on {error}")))
}

/// Resolves all targets to cells, in the order of `--on`.
///
/// # Errors
/// The first request that is invalid.
pub fn cells(requests: &[TargetRequest]) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for request in requests {
        cells.push(request.cells()?);
    }
    Ok(join_and_number(cells))
}

/// Joins the cells of several targets, and numbers them.
pub fn join_and_number(cells_by_target: Vec<Vec<Cell>>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = cells_by_target.into_iter().flatten().collect();
    for (row, cell) in (0..).zip(&mut cells) {
        cell.row = row;
    }
    cells
}

impl TargetRequest {
    /// Resolves this target to cells.
    ///
    /// # Errors
    /// A request that is invalid.
    pub fn cells(&self) -> Result<Vec<Cell>, Failure> {
        Ok(matrix(&self.matrix_request, &self.place)?)
    }
}

/// Returns the experiment requested for a target.
fn matrix_request(run: &RunSpec, on: &Target) -> MatrixRequest {
    let axes = &run.axes;
    let mut filesystems: Vec<String> =
        axes.filesystems.iter().flat_map(|it| split_filesystems(it)).collect();
    if filesystems.is_empty()
        && (matches!(on, Target::Lab | Target::Ephemeral(_)) || drive::is_drive(on))
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
    MatrixRequest {
        deadline: run.deadline.map_or(crate::DEFAULT_DEADLINE, seconds),
        workloads: run.workloads.clone(),
        filesystems,
        parameters: run.parameters.clone(),
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

/// The default disk of the model: a disk of the year that it models.
const MODEL_DISK: &str = "ide-2001";

fn model(run: &RunSpec) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Model, TargetKind::Model)?;
    let disks = match run.axes.disks.is_empty() {
        true => vec![MODEL_DISK.to_string()],
        false => run.axes.disks.clone(),
    };
    Ok(Place::Model(ModelPlace { disks, size: run.axes.size }))
}

/// Resolves one target to its places: one for each machine of the lab, and a single one for any other target.
fn resolve(run: &RunSpec, target: &Target) -> Result<Vec<Place>, Failure> {
    if run.ranks.is_some() && (!matches!(target, Target::Path(_)) || drive::is_drive(target)) {
        return Err(Failure::invalid_use(format!(
            "--ranks needs a directory that all hosts share, and --on {target} is not one; give --on DIR"
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
        Target::Ephemeral(ephemeral) => ephemeral_place(run, *ephemeral)?,
        Target::Path(on) if drive::is_drive(target) => match run.author {
            Author::File => {
                return Err(Failure::invalid_use(format!(
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

/// Returns the place of a device that is created on this host for each trial.
fn ephemeral_place(run: &RunSpec, ephemeral: EphemeralSize) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Ephemeral(ephemeral), TargetKind::Ephemeral)?;
    if run.jobs > 1 {
        return Err(Failure::invalid_use(format!(
            "--jobs {} is not possible with --on {ephemeral}: trials on one host disturb each other, and two file \
             systems of one seed would have the same UUID; remove --jobs",
            run.jobs
        )));
    }
    Ok(Place::Device(DevicePlace {
        device: HostDevice::Ephemeral(ephemeral),
        size: ephemeral.size,
        raid: run.axes.raid,
        journal_size: run.axes.journal_size,
    }))
}

/// Checks that this process may create the requested devices, before it creates anything, including the result folder.
///
/// # Errors
/// A missing permission or tool.
pub fn check_permission(requests: &[TargetRequest]) -> Result<(), Failure> {
    for request in requests {
        let Place::Device(device) = &request.place else { continue };
        if let HostDevice::Ephemeral(ephemeral) = device.device {
            EphemeralMedium::from(ephemeral).check_privileges()?;
        }
    }
    Ok(())
}

fn directory(run: &RunSpec, on: &str) -> Result<Place, Failure> {
    refuse_unsupported(run, &Target::Path(on.into()), TargetKind::Directory)?;
    let path = Path::new(on);
    if !path.exists() && !on.contains('/') {
        return Err(Failure::invalid_use(format!(
            "--on {on}: no such medium or directory; valid values are: {}",
            target_forms()
        )));
    }
    fsdyno_media::check(path, &Room::default())?;
    let mut kind = fsdyno_media::directory::kind(path)?;
    if let Some(ranks) = &run.ranks {
        kind.push_str(&ranks.plan.label_suffix());
    }
    let path = std::fs::canonicalize(path)
        .map_err(|error| Failure::invalid_use(format!("failed to find '{on}': {error}")))?;
    let max_name_length = rustix::fs::statvfs(&path).ok().map(|status| status.f_namemax as usize);
    Ok(Place::Directory { path, label: kind, max_name_length })
}

/// Lists the possible values of `--on`.
fn target_forms() -> String {
    let ephemeral = EphemeralKind::ALL.map(|kind| format!("{}:SIZE", kind.name()));
    format!("lab, model, {}, /dev/DRIVE, or a directory of this host", ephemeral.join(", "))
}

/// Checks that the directory has space for `jobs` trials of the largest cell at the same time, and reports what a
/// killed run left behind there.
pub fn check_directory(path: &Path, cells: &[Cell], jobs: usize) -> Result<(), Failure> {
    let jobs = jobs.max(1) as u64;
    // The null issuer writes nothing.
    let makes_calls = |cell: &&Cell| cell.plan.issuer != IssuerPlan::Null;
    let largest =
        |field: fn(&Cell) -> u64| cells.iter().filter(makes_calls).map(field).max().unwrap_or(0);
    let room = Room {
        bytes: Bytes(largest(|cell| cell.needs.bytes.0).saturating_mul(jobs)),
        inodes: largest(|cell| cell.needs.inodes).saturating_mul(jobs),
        longest_name: cells.iter().map(|cell| cell.needs.longest_name).max().unwrap_or(0),
    };
    fsdyno_media::check(path, &room)?;
    let leftovers = fsdyno_media::leftovers(path)?;
    if let Some(first) = leftovers.first() {
        say(&format!(
            "fsdyno: an earlier run was killed and left '{}'{}; clean up with: fsdyno doctor --clean {}",
            first.path.display(),
            match leftovers.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            },
            fsdyno_record::shell::quote(&path.to_string_lossy())
        ));
    }
    Ok(())
}

/// The default parent folder of result folders.
pub const RESULTS: &str = "fsdyno-results";

/// Returns the default result folder: `fsdyno-results/<UTC time>-<name>`.
pub fn default_folder(name: &str) -> PathBuf {
    let time: String =
        fsdyno_venue::clock::now().chars().filter(char::is_ascii_alphanumeric).collect();
    Path::new(RESULTS).join(format!("{time}-{name}"))
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
    // The kernels are found once for all machines.
    let mut kernels: Option<Vec<KernelPlan>> = None;
    for TargetRequest { matrix_request, place } in requests {
        let inputs = matrix_request.inputs.clone();
        let host = || agent().map(|agent| HostVenue::new(agent).with_inputs(inputs.clone()));
        let (venue, place): (Option<Box<dyn Venue>>, Place) = match place {
            Place::Model(_) => (Some(Box::new(ModelVenue)), place),
            Place::Directory { .. } => match &run.ranks {
                None => (Some(Box::new(host()?)), place),
                Some(ranks) => (ranks.group.get().map(|group| ranks_venue(group, inputs)), place),
            },
            Place::Device(device) => {
                // A folder that does not exist yet will be on the file system of its parent.
                let existing_folder =
                    results.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
                let mut venue = host()?.with_backing_folder(existing_folder);
                if let (HostDevice::Drive(path), Mode::Run) = (&device.device, mode) {
                    venue = venue.with_drive(drive::inspect(run, path)?.claim()?);
                }
                (Some(Box::new(venue)), Place::Device(device))
            }
            Place::Lab(place) => match &kernels {
                Some(names) => (None, Place::Lab(with_found_kernels(place, names))),
                None => {
                    let (labs, names) = labs(run, mode)?;
                    let place = Place::Lab(with_found_kernels(place, &names));
                    let venue = labs
                        .map(|labs| new_lab_venue(run, labs, inputs, results, stop))
                        .transpose()?;
                    kernels = Some(names);
                    (venue.map(|venue| Box::new(venue) as Box<dyn Venue>), place)
                }
            },
        };
        venues.push((place.clone(), venue));
        known.push(TargetRequest { matrix_request, place });
    }
    Ok((Venues::new(venues), known))
}

/// Returns the venue of processes that have found each other.
fn ranks_venue(group: &Arc<Group>, inputs: Inputs) -> Box<dyn Venue> {
    Box::new(RanksVenue::new(Arc::clone(group)).with_inputs(inputs))
}
