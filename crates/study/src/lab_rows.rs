//! The rows of a lab: kernels x disks x file systems, all that was typed of them checked.

use std::collections::BTreeSet;

use fsdyno_disk::spec::SCHEDULERS;
use fsdyno_disk::{Attach, DiskSpec, partition};
use fsdyno_filesystem::{Context, Spec};
use fsdyno_record::plan::{AgePlan, DiskPlan, LabPlan, MediumPlan, RaidPlan};
use fsdyno_record::{Bytes, suggest};
use fsdyno_workload::sizes::Sizes;

use crate::matrix::Row;
use crate::question::{LabPlace, MatrixError, Question, Size, USUAL_JOURNAL, USUAL_SIZE};

/// A row for each kernel, disk and file system, in the order in which they were given.
pub fn lab_rows(question: &Question, lab: &LabPlace) -> Result<Vec<Row>, MatrixError> {
    check_lab(lab)?;
    check_ages(&question.ages, lab)?;
    let specs = specs(question)?;
    let disks: Vec<Disk> = lab.disks.iter().map(|typed| disk(typed)).collect::<Result<_, _>>()?;
    let journal = lab.journal_disk.as_deref().map(disk).transpose()?;
    let no_journal = !specs.iter().any(|(_, spec)| spec.names_second_disk());
    for (option, given) in [
        ("--journal-disk", lab.journal_disk.is_some()),
        ("--journal-size", lab.journal_size.is_some()),
    ] {
        if given && no_journal {
            return Err(MatrixError::Wrong(format!(
                "{option} is for a file system whose spec names {{journal}}, and none does; write \
                 --fs 'ext4 -J device={{journal}}', for example, or leave {option} out"
            )));
        }
    }
    let mut rows = Vec::new();
    for kernel in &lab.kernels {
        for disk in &disks {
            for known in &specs {
                let journal = journal.as_ref().unwrap_or(disk);
                let row = lab_row(question, lab, known, (disk, journal), kernel)?;
                rows.extend(aged(row, &question.ages));
            }
        }
    }
    Ok(rows)
}

fn check_ages(ages: &[Option<AgePlan>], lab: &LabPlace) -> Result<(), MatrixError> {
    let wrong = |text| Err(MatrixError::Wrong(text));
    for (at, age) in ages.iter().enumerate() {
        let typed = age.as_ref().map_or("none".to_string(), ToString::to_string);
        if ages[..at].contains(age) {
            return wrong(format!("--age {typed} is there twice"));
        }
        let Some(age) = age else { continue };
        if age.files.parse::<Sizes>().is_err() {
            return wrong(format!(
                "--age {typed}: '{}' are no sizes of files; write 4096, 4K-1M, mix or \
                 lognormal:64K:1.5",
                age.files
            ));
        }
        if lab.raid.is_some() {
            return wrong(format!(
                "--age {typed} is not there yet on a RAID: its disks are made by another guest, and \
                 an array would have to be put together again; leave one of them out"
            ));
        }
    }
    Ok(())
}

/// A row for each age; its room is what ageing leaves.
fn aged(row: Row, ages: &[Option<AgePlan>]) -> Vec<Row> {
    let age = |age: &Option<AgePlan>| {
        let mut aged = row.clone();
        if let (Some(age), Some(filesystem)) = (age, &mut aged.filesystem) {
            aged.room = aged.room.map(|room| Bytes(room.0 / 100 * u64::from(100 - age.fill)));
            filesystem.age = Some(age.clone());
        }
        aged
    };
    match ages.is_empty() {
        true => vec![row],
        false => ages.iter().map(age).collect(),
    }
}

fn specs(question: &Question) -> Result<Vec<(String, Spec)>, MatrixError> {
    let mut labels = BTreeSet::new();
    let mut specs = Vec::new();
    for text in &question.filesystems {
        let spec = Spec::parse(text).map_err(MatrixError::spec(text))?;
        if !labels.insert(spec.name()) {
            return Err(MatrixError::SameLabel(spec.name()));
        }
        specs.push((text.clone(), spec));
    }
    Ok(specs)
}

/// A disk that was typed.
struct Disk {
    name: String,
    spec: DiskSpec,
}

impl Disk {
    fn plan(&self) -> Result<DiskPlan, MatrixError> {
        let spec = serde_json::to_value(&self.spec)
            .map_err(|error| MatrixError::Wrong(format!("disk '{}': {error}", self.name)))?;
        Ok(DiskPlan { name: self.name.clone(), spec })
    }
}

/// A disk of the catalog, or of a file of the user's.
fn disk(typed: &str) -> Result<Disk, MatrixError> {
    let (name, spec) = fsdyno_disk::catalog::find(typed)
        .map_err(|error| MatrixError::Disk(format!("failed to {error}")))?;
    Ok(Disk { name, spec })
}

/// The size of the journal's partition on its disk.
fn journal_size(lab: &LabPlace, disk: &Disk) -> Result<Bytes, MatrixError> {
    let largest = largest(disk, None);
    match lab.journal_size {
        None => Ok(USUAL_JOURNAL.min(largest)),
        Some(size) if size.0 % (1 << 20) == 0 && size.0 > 0 && size <= largest => Ok(size),
        Some(size) => Err(MatrixError::Wrong(format!(
            "--journal-size {size} is not possible: it takes whole mebibytes, and disk '{}' has room \
             for {largest}",
            disk.name
        ))),
    }
}

/// The largest file system that a disk, or an array of such disks, has room for.
fn largest(disk: &Disk, raid: Option<RaidPlan>) -> Bytes {
    let one = match disk.spec.attach {
        Attach::Nbd => partition::largest(&disk.spec),
        Attach::Pmem => disk.spec.capacity,
    };
    raid.map_or(one, |raid| partition::largest_array(one, raid))
}

fn lab_row(
    question: &Question,
    lab: &LabPlace,
    (text, spec): &(String, Spec),
    (disk, journal): (&Disk, &Disk),
    kernel: &str,
) -> Result<Row, MatrixError> {
    let filesystem = fsdyno_filesystem::catalog::get(&spec.kind)
        .map_err(|error| MatrixError::Spec { spec: text.clone(), error: error.to_string() })?;
    let release = kernel.split_once('@').map_or(kernel, |(release, _)| release);
    let skip = filesystem.check_kernel(release).err().filter(|_| lab.found);
    let version = question.tool_versions.get(&spec.kind).map(String::as_str);
    let plan = filesystem.plan(spec, Context::Lab, version).map_err(MatrixError::spec(text))?;
    if lab.raid.is_some() && disk.spec.attach == Attach::Pmem {
        return Err(MatrixError::Wrong(format!(
            "disk '{}' answers at once and without a server, and cannot be in a RAID here; take a \
             disk with a model: --disk hdd-7200",
            disk.name
        )));
    }
    let largest = largest(disk, lab.raid);
    let room = match lab.size {
        Size::Usual => USUAL_SIZE.min(largest),
        Size::Whole => largest,
        Size::Exactly(size) => size,
    };
    if room > largest {
        return Err(MatrixError::Wrong(format!(
            "--size {room} is more than {}disk '{}' has room for: {largest}",
            lab.raid.map(|raid| format!("RAID {raid} of ")).unwrap_or_default(),
            disk.name
        )));
    }
    if room < filesystem.minimum_size && lab.size == Size::Usual {
        return Err(MatrixError::Wrong(format!(
            "disk '{}' is too small for {}: it has room for {largest}, and {} takes at least {}",
            disk.name, spec.kind, spec.kind, filesystem.minimum_size
        )));
    }
    if room < filesystem.minimum_size {
        return Err(MatrixError::Wrong(format!(
            "--size {room} is too small for {}, which takes at least {}",
            spec.kind, filesystem.minimum_size
        )));
    }
    let second = spec.names_second_disk();
    Ok(Row {
        label: spec.name(),
        filesystem: Some(plan),
        medium: MediumPlan::Lab(LabPlan {
            disk: disk.plan()?,
            raid: lab.raid,
            journal: second.then(|| journal.plan()).transpose()?,
            journal_size: second.then(|| journal_size(lab, journal)).transpose()?,
            size: Some(room),
            ram: lab.ram,
            cacheable: lab.cacheable,
            scheduler: lab.scheduler.clone(),
            kernel: kernel.to_string(),
            cpu: lab.cpu,
            boot: lab.boot,
            accel: lab.accel,
        }),
        longest_name: Some(filesystem.longest_name),
        room: Some(room),
        skip: skip.map(|error| error.to_string()),
    })
}

/// Less RAM than this does not hold the guest's initramfs beside its kernel.
const LEAST_RAM: Bytes = Bytes(96 << 20);

/// What kernel, initramfs and agent take of a guest's RAM at the very least: 91 MiB of 256 MiB were
/// seen, and 120 MiB of 1 GiB (Linux 6.1, ext4).
const GUEST_TAKES: Bytes = Bytes(64 << 20);

/// Less than this does not let a file system write.
const LEAST_CACHEABLE: Bytes = Bytes(32 << 20);

fn check_lab(lab: &LabPlace) -> Result<(), MatrixError> {
    if let Some(scheduler) = &lab.scheduler
        && !SCHEDULERS.contains(&scheduler.as_str())
    {
        let hint = suggest::hint(scheduler, SCHEDULERS.iter().copied());
        return Err(MatrixError::Wrong(format!("there is no scheduler '{scheduler}'; {hint}")));
    }
    if lab.ram < LEAST_RAM || lab.ram.0 % (1 << 20) != 0 {
        return Err(MatrixError::Wrong(format!(
            "--ram {} is not right: it takes whole mebibytes, at least {LEAST_RAM}",
            lab.ram
        )));
    }
    if let Some(cacheable) = lab.cacheable
        && (cacheable.0.saturating_add(GUEST_TAKES.0) > lab.ram.0 || cacheable < LEAST_CACHEABLE)
    {
        return Err(MatrixError::Wrong(format!(
            "--cacheable {cacheable} is not possible with --ram {}: it takes at least \
             {LEAST_CACHEABLE}, and kernel and agent take {GUEST_TAKES} of the RAM or more",
            lab.ram
        )));
    }
    if let Some(disk) = twice(&lab.disks) {
        return Err(MatrixError::Wrong(format!("--disk names {disk} twice")));
    }
    if let Some(kernel) = twice(&lab.kernels) {
        return Err(MatrixError::Wrong(format!("--kernel names {kernel} twice")));
    }
    if !lab.accel.is_exact() && !(lab.boot.is_cold() && lab.cpu.is_usual()) {
        return Err(MatrixError::Wrong(format!(
            "--accel {} runs a guest on this host's CPU and in its time; --boot snapshot and --cpu are for \
             virtual time: leave them out",
            lab.accel.name()
        )));
    }
    Ok(())
}

fn twice(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}
