//! Resolves a request into plans: workloads x file systems x disks x kernels, all checked before any work.

use std::collections::BTreeMap;

use fsdyno_axes::MAX_THREADS;
use fsdyno_filesystem::{Author, catalog};
use fsdyno_record::plan::{FilesystemPlan, IssuerPlan, MediumPlan, VenuePlan, WorkloadPlan};
use fsdyno_record::{Bytes, OpKind, Plan};
use fsdyno_venue::InputFile;
use fsdyno_workload::one_file::one_file;
use fsdyno_workload::{Curve, Needs, OpCounts, PhaseSpec, Setting, Threads, Workload, workloads};

use crate::config::{self, Settings};
use crate::input;
use crate::matrix_request::{Cell, MatrixError, MatrixRequest, Place};
use crate::rows::Row;
use crate::rows::device::device_rows;
use crate::rows::lab::lab_rows;
use crate::rows::model::{self as model_rows, model_rows};
use crate::server_defaults;
use crate::settings::settings;

/// Returns the cells, in the order in which the user gave workloads, kernels, disks and file systems.
///
/// # Errors
/// The first error in the request.
pub fn matrix(matrix_request: &MatrixRequest, place: &Place) -> Result<Vec<Cell>, MatrixError> {
    let works = works(matrix_request)?;
    let rows = rows(matrix_request, place)?;
    check_issuer(matrix_request, place, &works)?;
    rows.iter().try_for_each(|row| check_clients(matrix_request, row, &works))?;
    works.iter().try_for_each(|work| check_command(matrix_request, place, work))?;
    if let Place::Model(_) = place {
        model_rows::can_run(
            matrix_request,
            works.iter().map(|work| (&work.plan, work.built.as_ref())),
        )?;
    }
    let mut cells = Vec::new();
    for work in &works {
        for row in &rows {
            check_fit(work, row)?;
            let plan = Plan {
                label: row.label.clone(),
                workload: work.plan.clone(),
                filesystem: row.filesystem.clone(),
                medium: row.medium.clone(),
                venue: row.venue.clone(),
                threads: matrix_request.threads,
                issuer: matrix_request.issuer,
                verify: matrix_request.verify,
                sysctls: sysctls(&matrix_request.sysctls, row.period())?,
                hash: String::new(),
            };
            cells.push(Cell {
                row: u32::try_from(cells.len()).unwrap_or(u32::MAX),
                deadline: matrix_request.deadline,
                plan: plan.with_hash(),
                needs: work.needs,
                phases: match row.clients() {
                    1 => work.phases.clone(),
                    clients => counts(work.built.as_ref(), clients * matrix_request.threads),
                },
                skip: row.skip.clone().or_else(|| skip_reason(work, row)),
            });
        }
    }
    Ok(cells)
}

/// Checks that the clients of a row can share each workload.
fn check_clients(
    matrix_request: &MatrixRequest,
    row: &Row,
    works: &[Work],
) -> Result<(), MatrixError> {
    let (clients, threads) = (row.clients(), matrix_request.threads);
    let invalid = |text| Err(MatrixError::Wrong(text));
    if let Some(work) = works.iter().find(|work| clients > 1 && !work.shared) {
        return invalid(format!(
            "--clients {clients} is not possible: no phase of workload '{}' with these parameters can be shared; leave \
             it at 1, or use one of: {}",
            work.plan.name,
            workloads::with_shared_phases().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
        ));
    }
    match clients.saturating_mul(threads) {
        total if total > MAX_THREADS => invalid(format!(
            "--clients {clients} with --threads {threads} would be {total} threads; the maximum is {MAX_THREADS}"
        )),
        _ => Ok(()),
    }
}

/// Maximum number of ops in flight: each has its own buffers and open files.
const MAX_IN_FLIGHT: u32 = 4096;

/// Checks the issuer and the number of threads.
fn check_issuer(
    matrix_request: &MatrixRequest,
    place: &Place,
    works: &[Work],
) -> Result<(), MatrixError> {
    let (threads, issuer) = (matrix_request.threads, matrix_request.issuer);
    let invalid = |text| Err(MatrixError::Wrong(text));
    if !(1..=MAX_THREADS).contains(&threads) {
        return invalid(format!(
            "--threads {threads} is not valid; it must be from 1 to {MAX_THREADS}"
        ));
    }
    if let Some(work) = works.iter().find(|work| threads > 1 && !work.shared) {
        return invalid(format!(
            "--threads {threads} is not possible: no phase of workload '{}' with these parameters \
             can be shared among threads; leave it at 1, or use one of: {}",
            work.plan.name,
            workloads::with_shared_phases().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
        ));
    }
    if matches!(issuer, IssuerPlan::IoUring { .. }) && matches!(place, Place::Lab(_)) {
        return invalid(format!(
            "--issuer {issuer} is for directories and devices of this host: the lab does not run io_uring \
             yet; add --on DIRECTORY, or leave --issuer out"
        ));
    }
    if let Some(work) =
        works.iter().find(|work| work.built.fills_file_system() && issuer != IssuerPlan::Sync)
    {
        return invalid(format!(
            "--issuer {issuer} is not possible with workload '{}', which goes on until a call fails for \
             lack of space; leave it out",
            work.plan.name
        ));
    }
    let in_flight = threads.saturating_mul(issuer.depth());
    if in_flight > MAX_IN_FLIGHT {
        return invalid(format!(
            "--threads {threads} with --issuer {issuer} would have {in_flight} ops in flight; the \
             maximum is {MAX_IN_FLIGHT}"
        ));
    }
    Ok(())
}

/// Refuses a command that a file specifies, and a command on a target where no program can run.
fn check_command(
    matrix_request: &MatrixRequest,
    place: &Place,
    work: &Work,
) -> Result<(), MatrixError> {
    let Some(shell) = work.built.command() else { return Ok(()) };
    let name = &work.plan.name;
    let invalid = |text: String| Err(MatrixError::Wrong(format!("workload '{name}': {text}")));
    if matrix_request.author == Author::File {
        return invalid(workloads::command::refusal(&shell.command));
    }
    if matrix_request.issuer != IssuerPlan::Sync {
        return invalid(format!(
            "--issuer {} is for ops, and a command has none",
            matrix_request.issuer
        ));
    }
    match place {
        Place::Directory { .. } | Place::Device(_) => Ok(()),
        Place::Lab(_) | Place::Model(_) => invalid(
            "a command runs on this host: add --on loop:8G, --on ram:2G or --on DIR; in the lab 'fsdyno run command' \
             replays a recording of it"
                .to_string(),
        ),
    }
}

/// A workload with its parameters bound.
struct Work {
    plan: WorkloadPlan,
    needs: Needs,
    /// True if any of its phases can be shared among threads.
    shared: bool,
    phases: Vec<(String, BTreeMap<OpKind, u64>)>,
    built: Box<dyn Workload>,
}

fn works(matrix_request: &MatrixRequest) -> Result<Vec<Work>, MatrixError> {
    let mut kinds = Vec::new();
    for name in &matrix_request.workloads {
        let kind = workloads::find(name)?;
        if kinds.iter().any(|known: &&workloads::Kind| known.name == kind.name) {
            return Err(MatrixError::Wrong(format!("workload '{name}' is named twice")));
        }
        kinds.push(kind);
    }
    if kinds.is_empty() {
        let names: Vec<&str> = workloads::ALL.iter().map(|kind| kind.name).collect();
        return Err(MatrixError::NoWorkload(format!("there are: {}", names.join(", "))));
    }
    let settings = settings(&kinds, &matrix_request.parameters)?;
    let mut works = Vec::new();
    for (kind, settings) in kinds.into_iter().zip(&settings) {
        let settings = config::expand(kind, settings).map_err(MatrixError::Wrong)?;
        let settings = server_defaults::with_defaults(kind, settings, matrix_request.author);
        for settings in points(kind, &settings)? {
            works.push(work(kind, &settings, matrix_request)?);
        }
    }
    Ok(works)
}

/// Returns the settings of each point of a curve, or the settings unchanged if there is no curve.
fn points(kind: &workloads::Kind, settings: &Settings) -> Result<Vec<Settings>, MatrixError> {
    let curve: Option<Curve> = settings.get("curve").and_then(|it| it.parse().ok());
    let Some(curve) = curve else { return Ok(vec![settings.clone()]) };
    if settings.contains_key("files") {
        return Err(MatrixError::Wrong(format!(
            "workload '{}' is given both files and curve; the curve already gives the numbers of files: \
             leave one of them out",
            kind.name
        )));
    }
    let point = |files: &u64| {
        let mut settings = settings.clone();
        settings.insert("files".to_string(), files.to_string());
        settings
    };
    Ok(curve.points().iter().map(point).collect())
}

fn work(
    kind: &workloads::Kind,
    settings: &Settings,
    matrix_request: &MatrixRequest,
) -> Result<Work, MatrixError> {
    let set: Vec<(&str, &str)> =
        settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut params = kind.resolve(&set)?;
    let named = input_of(kind, &params, matrix_request);
    let input = named.map(|(_, file)| file.input());
    let workload = kind.build(&params, &Setting { seed: matrix_request.seed, input })?;
    params.retain(|name, _| !workload.unused_params().contains(&name.as_str()));
    let input = named.map(|(parameter, file)| {
        params.insert(parameter.to_string(), input::absolute(file.path()));
        file.plan(parameter)
    });
    let mut ranks = matrix_request.threads.saturating_mul(matrix_request.issuer.depth());
    if let Some(plan) = &matrix_request.ranks {
        crate::ranks::check_workload(kind.name, workload.as_ref(), plan)
            .map_err(MatrixError::Wrong)?;
        ranks = if plan.own { ranks } else { ranks.saturating_mul(plan.ranks) };
    }
    let shared = workload.phases().iter().any(|phase| phase.threads == Threads::Any);
    let phases = counts(workload.as_ref(), ranks);
    let plan = WorkloadPlan { name: kind.name.to_string(), params, input };
    let (needs, phases) = match &matrix_request.ranks {
        Some(plan) => crate::ranks::for_all_ranks(plan, workload.needs(), phases),
        None => (workload.needs(), phases),
    };
    Ok(Work { plan, needs, shared, phases, built: workload })
}

/// Returns the name and the exact op counts of each phase.
fn counts(workload: &dyn Workload, ranks: u32) -> Vec<(String, OpCounts)> {
    let count = |(index, phase): (usize, &PhaseSpec)| {
        // A phase that ends when one of its ranks ends has an upper limit but no exact count.
        let counts = match workload.ends_with(index) {
            Some(_) => OpCounts::new(),
            None => workload.counts(index, phase.threads.count_of(ranks)),
        };
        (phase.name.to_string(), counts)
    };
    workload.phases().iter().enumerate().map(count).collect()
}

/// Returns the input file of a workload, and the parameter that names it.
fn input_of<'a>(
    kind: &workloads::Kind,
    params: &BTreeMap<String, String>,
    matrix_request: &'a MatrixRequest,
) -> Option<(&'static str, &'a InputFile)> {
    kind.params.iter().find_map(|param| {
        let path = input::path_of(&param.domain, params.get(param.name)?)?;
        Some((param.name, matrix_request.inputs.by_path(path)?))
    })
}

fn rows(matrix_request: &MatrixRequest, place: &Place) -> Result<Vec<Row>, MatrixError> {
    match place {
        Place::Directory { path, label, max_name_length } => {
            if let Some(spec) = matrix_request.filesystems.first() {
                return Err(MatrixError::Wrong(format!(
                    "--fs '{spec}' cannot be created in a directory, which is used as it is; \
                     leave --fs out, or use --on lab"
                )));
            }
            let Some(path) = path.to_str() else {
                return Err(MatrixError::Wrong(format!(
                    "the path '{}' is not UTF-8 and cannot be recorded; name another directory",
                    path.display()
                )));
            };
            let medium = MediumPlan::Directory { path: path.to_string() };
            let label = label.clone();
            let (max_name_length, capacity, skip) = (*max_name_length, None, None);
            let venue = matrix_request.ranks.clone().map_or(VenuePlan::Host, VenuePlan::Ranks);
            let (filesystem, missing_operations) = (None, BTreeMap::new());
            Ok(vec![Row {
                label,
                filesystem,
                medium,
                venue,
                max_name_length,
                capacity,
                missing_operations,
                skip,
            }])
        }
        Place::Device(device) => device_rows(matrix_request, device),
        Place::Lab(lab) => lab_rows(matrix_request, lab),
        Place::Model(model) => model_rows(matrix_request, model),
    }
}

/// Returns the reason why the file system cannot run the workload, as a sentence.
fn skip_reason(work: &Work, row: &Row) -> Option<String> {
    let name = &work.plan.name;
    let sentence = |why: &String| format!("workload '{name}' cannot run on {}: {why}", row.label);
    if let Some(why) = row.missing_operations.get(&format!("workload {name}")) {
        return Some(sentence(why));
    }
    let mut ops = work.phases.iter().flat_map(|(_, counts)| counts).filter(|(_, n)| **n > 0);
    ops.find_map(|(op, _)| row.missing_operations.get(&format!("op {op}"))).map(sentence)
}

/// Checks that the work fits the file system; a directory is checked by the media crate.
fn check_fit(work: &Work, row: &Row) -> Result<(), MatrixError> {
    let name = &work.plan.name;
    if let Some(longest) = row.max_name_length.filter(|longest| *longest < work.needs.longest_name)
    {
        return Err(MatrixError::Wrong(format!(
            "workload '{name}' has names of {} bytes, and {} allows {longest} at most; choose shorter \
             names, or a file system that allows them",
            work.needs.longest_name, row.label
        )));
    }
    if row.filesystem.as_ref().is_some_and(FilesystemPlan::is_raw) {
        one_file(work.built.as_ref()).map_err(|why| {
            MatrixError::Wrong(format!(
                "workload '{name}' cannot run on --fs raw, where the device stands for one file: {why}; \
                 bonnie with --set bonnie.files=0 can, and bigfile"
            ))
        })?;
    } else if work.built.fills_file_system() {
        check_filled(work, row)?;
    }
    if let Some(capacity) = row.capacity.filter(|capacity| *capacity < work.needs.bytes) {
        return Err(MatrixError::Wrong(format!(
            "workload '{name}' writes {} at once and {} has {capacity}; make it smaller with --set \
             or the file system larger with {}",
            work.needs.bytes,
            row.label,
            how_to_enlarge(&row.medium)
        )));
    }
    let min_size = smallest_file(row).0.saturating_mul(work.needs.inodes);
    if let Some(capacity) =
        row.capacity.filter(|capacity| capacity.0 < min_size && !work.built.fills_file_system())
    {
        return Err(MatrixError::Wrong(format!(
            "workload '{name}' has {} files and directories at once, which take more than {} on {}, and it has \
             {capacity}; make the work smaller with --set or the file system larger with {}",
            work.needs.inodes,
            Bytes(min_size),
            row.label,
            how_to_enlarge(&row.medium)
        )));
    }
    Ok(())
}

/// Returns the minimum space that a file takes on a row's file system.
fn smallest_file(row: &Row) -> Bytes {
    let kind = row.filesystem.as_ref().and_then(|plan| catalog::get(&plan.kind).ok());
    kind.and_then(|kind| kind.limits.as_ref()).map_or(Bytes(0), |limits| limits.smallest_file)
}

/// Returns the option that enlarges the file system.
fn how_to_enlarge(medium: &MediumPlan) -> String {
    match (medium, medium.ephemeral()) {
        (_, Some((device, _))) => format!("a larger {}:SIZE", device.kind.name()),
        (MediumPlan::Drive { .. }, None) => "a larger drive".to_string(),
        _ => "--size".to_string(),
    }
}

/// Returns advice on how to make the file system small enough to be filled.
fn how_to_shrink(medium: &MediumPlan) -> String {
    match (medium, medium.ephemeral()) {
        (MediumPlan::Drive { .. }, _) => "take a device such as --on loop:256M".to_string(),
        (_, Some((device, _))) => {
            let name = device.kind.name();
            format!("give {name}:SIZE of {MAX_FILLED} or less, such as --on {name}:256M")
        }
        _ => format!("give --size {MAX_FILLED} or less, such as --size 256M"),
    }
}

/// Largest file system that a workload may fill: a larger one takes hours, and the lab's disk stores only 14 GiB.
const MAX_FILLED: Bytes = Bytes(4 << 30);

/// Checks a workload that fills its file system: the file system must be created for it, and be small.
fn check_filled(work: &Work, row: &Row) -> Result<(), MatrixError> {
    let name = &work.plan.name;
    if row.filesystem.is_none() {
        return Err(MatrixError::Wrong(format!(
            "workload '{name}' fills its file system to the last block, and a directory of this host \
             is on your own file system; use --on lab with --size 256M, or --set most=N"
        )));
    }
    match row.capacity {
        Some(capacity) if capacity <= MAX_FILLED => Ok(()),
        _ => Err(MatrixError::Wrong(format!(
            "workload '{name}' fills its file system, which takes long if that is large; {}, or \
             --set most=N",
            how_to_shrink(&row.medium)
        ))),
    }
}

/// Returns the sysctls of the row's period, overridden by the requested ones.
fn sysctls(
    requested: &[String],
    period: Option<&str>,
) -> Result<BTreeMap<String, String>, MatrixError> {
    let mut sysctls = BTreeMap::new();
    if let Some(name) = period {
        let period = fsdyno_filesystem::period::get(name)
            .map_err(|error| MatrixError::Wrong(error.to_string()))?;
        sysctls.extend(period.sysctls.clone());
    }
    for text in requested {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match text.split_once('=') {
            // The key becomes a path below /proc/sys in the guest.
            Some((key, value))
                if key.contains('.') && key.bytes().all(plain) && !key.contains("..") =>
            {
                // Of a limit in percent and the same limit in bytes, the kernel keeps the one set last.
                if let Some(limit) = key.trim().strip_suffix("_bytes") {
                    sysctls.remove(&format!("{limit}_ratio"));
                }
                sysctls.insert(key.trim().to_string(), value.trim().to_string());
            }
            _ => {
                return Err(MatrixError::Wrong(format!(
                    "--sysctl '{text}' is not valid; write it as KEY=VALUE, such as \
                     vm.dirty_ratio=10"
                )));
            }
        }
    }
    Ok(sysctls)
}

#[cfg(test)]
mod tests;
