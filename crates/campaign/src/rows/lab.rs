//! Builds and checks the rows of a lab: kernels x disks x file systems.

use fsdyno_axes::TODAY;
use fsdyno_disk::Attach;
use fsdyno_disk::spec::SCHEDULERS;
use fsdyno_filesystem::period::{self, PeriodSettings};
use fsdyno_filesystem::{Backing, Context, Filesystem, Spec, catalog, memory};
use fsdyno_machine::MIN_RAM;
use fsdyno_record::plan::{
    FilesystemPlan, KernelPlan, LabPlan, MediumPlan, ModelledPlan, VenuePlan,
};
use fsdyno_record::{Bytes, suggest};

use super::disk::{Disk, disk, largest};
use super::{Row, ages, created_filesystem, find_duplicate, missing_operations, network, specs};
use crate::matrix_request::{
    DEFAULT_JOURNAL, DEFAULT_SIZE, LabPlace, MatrixError, MatrixRequest, Size,
};

/// Returns a row for each kernel, disk and file system, in the given order.
pub fn lab_rows(matrix_request: &MatrixRequest, lab: &LabPlace) -> Result<Vec<Row>, MatrixError> {
    check_lab(lab)?;
    ages::check(&matrix_request.ages)?;
    check_periods(&matrix_request.periods)?;
    let specs = specs(&matrix_request.filesystems)?;
    network::check(lab, &specs)?;
    let disks: Vec<Disk> =
        lab.disks.iter().map(|requested| disk(requested)).collect::<Result<_, _>>()?;
    let journal = lab.journal_disk.as_deref().map(disk).transpose()?;
    let no_journal = !specs.iter().any(|(_, spec)| spec.names_second_disk());
    for (option, is_set) in [
        ("--journal-disk", lab.journal_disk.is_some()),
        ("--journal-size", lab.journal_size.is_some()),
    ] {
        if is_set && no_journal {
            return Err(MatrixError::Wrong(format!(
                "{option} is for a file system whose spec names {{journal}}, and none does; write \
                 --fs 'ext4 -J device={{journal}}', for example, or leave {option} out"
            )));
        }
    }
    let mut rows = Vec::new();
    for kernel in &lab.kernels {
        for (index, disk) in disks.iter().enumerate() {
            for known in &specs {
                // A file system without a disk would have the same row for each disk.
                if index > 0
                    && created_filesystem(&known.1)
                        .is_ok_and(|kind| kind.lies_on == Backing::Memory)
                {
                    continue;
                }
                let journal = journal.as_ref().unwrap_or(disk);
                for period in periods(matrix_request) {
                    let row =
                        lab_row(matrix_request, lab, known, (disk, journal), (kernel, period))?;
                    for row in network::rows(row, lab)? {
                        rows.extend(ages::rows(row, &matrix_request.ages)?);
                    }
                }
            }
        }
    }
    Ok(rows)
}

/// Returns the requested periods; `None` is the present.
fn periods(matrix_request: &MatrixRequest) -> Vec<Option<&str>> {
    match matrix_request.periods.is_empty() {
        true => vec![None],
        false => matrix_request.periods.iter().map(Option::as_deref).collect(),
    }
}

fn check_periods(periods: &[Option<String>]) -> Result<(), MatrixError> {
    for (index, requested) in periods.iter().enumerate() {
        if periods[..index].contains(requested) {
            let requested = requested.as_deref().unwrap_or(TODAY);
            return Err(MatrixError::Wrong(format!("--period names {requested} twice")));
        }
        if let Some(name) = requested {
            period::get(name).map_err(|error| MatrixError::Wrong(error.to_string()))?;
        }
    }
    Ok(())
}

/// Returns a hint for a kind that exists only as a model.
fn in_model(spec: &Spec) -> &'static str {
    match fsdyno_ext2dir::find::by_name(&spec.kind) {
        Some(_) => "; it is a model: use --on model",
        None => "",
    }
}

/// Returns the size of the journal's partition on its disk.
fn journal_size(lab: &LabPlace, disk: &Disk) -> Result<Bytes, MatrixError> {
    let largest = largest(disk, None);
    match lab.journal_size {
        None => Ok(DEFAULT_JOURNAL.min(largest)),
        Some(size) if size.0 % (1 << 20) == 0 && size.0 > 0 && size <= largest => Ok(size),
        Some(size) => Err(MatrixError::Wrong(format!(
            "--journal-size {size} is not valid: it must be in whole mebibytes, and disk '{}' has room \
             for {largest}",
            disk.name
        ))),
    }
}

fn lab_row(
    matrix_request: &MatrixRequest,
    lab: &LabPlace,
    (text, spec): &(String, Spec),
    (disk, journal): (&Disk, &Disk),
    (kernel, period): (&KernelPlan, Option<&str>),
) -> Result<Row, MatrixError> {
    let unknown = |error: catalog::Unknown| MatrixError::Spec {
        spec: text.clone(),
        error: error.to_string() + in_model(spec),
    };
    // The spec's own kind and, for a stacked file system, the kind below it.
    let top = catalog::get(&spec.kind).map_err(unknown)?;
    let filesystem = created_filesystem(spec).map_err(unknown)?;
    let release = kernel.release.as_str();
    let skip = top.check_kernel(release).and(filesystem.check_kernel(release));
    let skip = skip.err().filter(|_| lab.found);
    let version = matrix_request.tool_versions.get(&filesystem.name).map(String::as_str);
    let max_name_length = Some(top.longest_name.min(filesystem.longest_name));
    let missing_operations = missing_operations(top, filesystem);
    if filesystem.lies_on == Backing::Memory {
        period_settings(period, spec, Bytes(0))?;
        let plan = top.plan(spec, Context::Lab, version).map_err(MatrixError::spec(text))?;
        let (filesystem, capacity) = in_memory(plan, spec, lab);
        return Ok(Row {
            label: spec.name(),
            filesystem: Some(filesystem),
            medium: MediumPlan::Memory { size: capacity },
            venue: VenuePlan::Lab(LabPlan { scheduler: None, ..guest(lab, kernel) }),
            max_name_length,
            capacity,
            missing_operations,
            skip: skip.map(|error| error.to_string()),
        });
    }
    let capacity = capacity(lab, disk, spec, filesystem)?;
    let settings = period_settings(period, spec, capacity)?;
    let context = Context::of_lab(lab.raid);
    let plan = top
        .plan_for_period(spec, context, version, settings.as_ref())
        .map_err(MatrixError::spec(text))?;
    let second = spec.names_second_disk();
    Ok(Row {
        label: spec.name(),
        filesystem: Some(plan),
        medium: MediumPlan::Modelled(ModelledPlan {
            disk: disk.plan(settings.as_ref())?,
            raid: lab.raid,
            journal: second.then(|| journal.plan(settings.as_ref())).transpose()?,
            journal_size: second.then(|| journal_size(lab, journal)).transpose()?,
            size: Some(capacity),
        }),
        venue: VenuePlan::Lab(guest(lab, kernel)),
        max_name_length,
        capacity: Some(capacity),
        missing_operations,
        skip: skip.map(|error| error.to_string()),
    })
}

/// Returns the size of the file system, if it fits on the disks and suffices for its kind.
fn capacity(
    lab: &LabPlace,
    disk: &Disk,
    spec: &Spec,
    filesystem: &Filesystem,
) -> Result<Bytes, MatrixError> {
    if lab.raid.is_some() && disk.spec.attach == Attach::Pmem {
        return Err(MatrixError::Wrong(format!(
            "disk '{}' has no timing model (requests complete at once), so it cannot be a RAID member; use a \
             disk with a model: --disk hdd-7200",
            disk.name
        )));
    }
    let largest = largest(disk, lab.raid);
    let capacity = match lab.size {
        Size::Default => DEFAULT_SIZE.min(largest),
        Size::Whole => largest,
        Size::Exactly(size) => size,
    };
    if capacity > largest {
        return Err(MatrixError::Wrong(format!(
            "--size {capacity} is more than {}disk '{}' can hold: {largest}",
            lab.raid.map(|raid| format!("RAID {raid} of ")).unwrap_or_default(),
            disk.name
        )));
    }
    if capacity < filesystem.minimum_size && lab.size == Size::Default {
        return Err(MatrixError::Wrong(format!(
            "disk '{}' is too small for {}: it holds {largest}, and {} needs at least {}",
            disk.name, spec.kind, spec.kind, filesystem.minimum_size
        )));
    }
    if capacity < filesystem.minimum_size {
        return Err(MatrixError::Wrong(format!(
            "--size {capacity} is too small for {}, which needs at least {}",
            spec.kind, filesystem.minimum_size
        )));
    }
    Ok(capacity)
}

/// Returns the lab's guest with a kernel.
fn guest(lab: &LabPlace, kernel: &KernelPlan) -> LabPlan {
    LabPlan { kernel: kernel.clone(), ..lab.guest.clone() }
}

/// Returns the settings of a period for a file system; `None` for the present.
fn period_settings(
    name: Option<&str>,
    spec: &Spec,
    size: Bytes,
) -> Result<Option<PeriodSettings<'static>>, MatrixError> {
    let Some(name) = name else { return Ok(None) };
    let period = period::get(name).map_err(|error| MatrixError::Wrong(error.to_string()))?;
    let Some(settings) = period.settings_for(&spec.kind, size) else {
        let kinds: Vec<&str> = period.filesystem.keys().map(String::as_str).collect();
        return Err(MatrixError::Wrong(format!(
            "--period {name} has no {}; it has {}: remove --period or choose another --fs",
            spec.kind,
            kinds.join(", ")
        )));
    };
    Ok(Some(settings))
}

/// Returns the plan of a file system in memory, with the size given by --size unless its own options set one, and that
/// size, if known.
fn in_memory(
    mut plan: FilesystemPlan,
    spec: &Spec,
    lab: &LabPlace,
) -> (FilesystemPlan, Option<Bytes>) {
    let size = match (memory::size_option(spec), lab.size) {
        // A size that does not parse, such as a percentage of the RAM, is computed by the kernel.
        (Some(stated), _) => stated.to_uppercase().parse().ok(),
        // A size that is meant for the disks of other rows may exceed the memory.
        (None, Size::Exactly(size)) if size < lab.guest.ram => Some(size),
        (None, _) => None,
    };
    memory::set_size(&mut plan, spec, size);
    (plan, size)
}

/// Minimum RAM that the kernel, initramfs and agent of a guest use: measured 91 MiB of 256 MiB, and 120 MiB of 1 GiB
/// (Linux 6.1, ext4).
const GUEST_TAKES: Bytes = Bytes(64 << 20);

/// Minimum cacheable memory with which a file system can make progress on writes.
pub const MIN_CACHEABLE: Bytes = Bytes(32 << 20);

fn check_lab(lab: &LabPlace) -> Result<(), MatrixError> {
    let guest = &lab.guest;
    if let Some(scheduler) = &guest.scheduler
        && !SCHEDULERS.contains(&scheduler.as_str())
    {
        let hint = suggest::hint(scheduler, SCHEDULERS.iter().copied());
        return Err(MatrixError::Wrong(format!("there is no scheduler '{scheduler}'; {hint}")));
    }
    if guest.ram < MIN_RAM || guest.ram.0 % (1 << 20) != 0 {
        return Err(MatrixError::Wrong(format!(
            "--ram {} is not valid: it must be in whole mebibytes, at least {MIN_RAM}",
            guest.ram
        )));
    }
    if let Some(cacheable) = guest.cacheable
        && (cacheable.0.saturating_add(GUEST_TAKES.0) > guest.ram.0 || cacheable < MIN_CACHEABLE)
    {
        return Err(MatrixError::Wrong(format!(
            "--cacheable {cacheable} is not possible with --ram {}: it must be at least \
             {MIN_CACHEABLE}, and kernel and agent take at least {GUEST_TAKES} of the RAM",
            guest.ram
        )));
    }
    if let Some(disk) = find_duplicate(&lab.disks) {
        return Err(MatrixError::Wrong(format!("--disk names {disk} twice")));
    }
    if let Some(kernel) = find_duplicate(&lab.kernels) {
        return Err(MatrixError::Wrong(format!("--kernel names {kernel} twice")));
    }
    let needs_virtual_time = !guest.boot.is_cold() || !guest.cpu.is_default();
    if needs_virtual_time && !guest.accel.is_exact() {
        return Err(MatrixError::Wrong(format!(
            "--accel {} runs a guest on this host's CPU and in real time; --boot snapshot and --cpu are for \
             virtual time: leave them out",
            guest.accel.name()
        )));
    }
    Ok(())
}
