//! From what was asked to plans: workloads x file systems x disks x kernels, all of it checked
//! before any work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fsdyno_disk::{Attach, DiskSpec, partition};
use fsdyno_filesystem::{Context, Spec, SpecError};
use fsdyno_record::plan::{
    BootPlan, CpuPlan, DiskPlan, FilesystemPlan, IssuerPlan, LabPlan, MediumPlan, RaidPlan,
    VerifyMode, WorkloadPlan,
};
use fsdyno_record::{Bytes, Nanos, OpKind, Plan, suggest};
use fsdyno_venue::{InputFile, Inputs};
use fsdyno_workload::{Curve, Needs, Setting, Threads, workloads};

use crate::config;
use crate::input;
use crate::settings::{SettingError, Settings, settings};

/// What is asked, as it was typed.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Specs of file systems; none on a directory.
    pub filesystems: Vec<String>,
    /// `[WORKLOAD.]KEY=VALUE`.
    pub sets: Vec<String>,
    /// `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// Threads that issue ops.
    pub threads: u32,
    /// How they issue them.
    pub issuer: IssuerPlan,
    /// The first seed; where op counts depend on the seed, those shown are of this one.
    pub seed: u64,
    /// How much is verified.
    pub verify: VerifyMode,
    /// Version line of a file system's tool by the file system's name, where it is known: some
    /// options exist only in newer tools.
    pub tool_versions: BTreeMap<String, String>,
    /// The longest that a trial may take in its venue's clock.
    pub deadline: Nanos,
    /// The files that workloads work on, by [`crate::read_inputs`].
    pub inputs: Inputs,
}

/// The usual deadline: two days, more than the slowest file system of 2008 took for its 725,000
/// files, so that only what will never end is cut off.
pub const USUAL_DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

/// Where it is to run.
#[derive(Clone, Debug)]
pub enum Place {
    /// On a directory of this host.
    Directory {
        /// The directory, absolute.
        path: PathBuf,
        /// The row's name in tables.
        label: String,
        /// The longest name that its file system takes, in bytes, where it says so.
        longest_name: Option<usize>,
    },
    /// In the lab.
    Lab(LabPlace),
}

/// What the lab is to be.
#[derive(Clone, Debug)]
pub struct LabPlace {
    /// Disks, by name or by file.
    pub disks: Vec<String>,
    /// How several of each are put together.
    pub raid: Option<RaidPlan>,
    /// The second disk, for file systems whose spec names `{journal}`; none takes the first again.
    pub journal_disk: Option<String>,
    /// Size of its partition; none takes [`USUAL_JOURNAL`].
    pub journal_size: Option<Bytes>,
    /// Kernels: their releases once they are found, before that what was typed.
    pub kernels: Vec<String>,
    /// Whether the kernels are found: only then is it known what they can have.
    pub found: bool,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the first phase; none leaves all that the guest has.
    pub cacheable: Option<Bytes>,
    /// How fast the guest's CPU is.
    pub cpu: CpuPlan,
    /// How the guest comes up.
    pub boot: BootPlan,
    /// Block scheduler; none takes the disk file's.
    pub scheduler: Option<String>,
    /// Size of the file system.
    pub size: Size,
}

/// How large the file system on a modelled disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// [`USUAL_SIZE`], or the whole disk where that is smaller.
    #[default]
    Usual,
    /// The whole disk.
    Whole,
    /// As said.
    Exactly(Bytes),
}

/// A file system as large as a disk of today takes longer to make, mount and check than most
/// trials run, and holds none of their files elsewhere than a smaller one would.
pub const USUAL_SIZE: Bytes = Bytes(32 << 30);

/// What mke2fs gives a journal inside [`USUAL_SIZE`] (ext2fs_default_journal_size: 65,536 blocks), so
/// that moving one to a disk of its own changes where it lies, and not how large it is.
pub const USUAL_JOURNAL: Bytes = Bytes(256 << 20);

/// One plan, and what can be said of it without running it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The plan.
    pub plan: Plan,
    /// What the work needs of its file system.
    pub needs: Needs,
    /// Exact op counts by phase.
    pub phases: Vec<(String, BTreeMap<OpKind, u64>)>,
    /// Why it cannot run here, where that is known.
    pub skip: Option<String>,
    /// The longest that one of its trials may take in its venue's clock.
    pub deadline: Nanos,
}

impl Cell {
    /// Ops of the whole trial.
    pub fn ops(&self) -> u64 {
        self.phases.iter().flat_map(|(_, counts)| counts.values()).sum()
    }
}

/// What is wrong with a question, in one line that says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// Nothing to run.
    #[error("no workload is named; {0}")]
    NoWorkload(String),
    /// No workload has the name.
    #[error(transparent)]
    Workload(#[from] workloads::Unknown),
    /// A `--set` cannot be meant.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A parameter has a wrong value.
    #[error(transparent)]
    Param(#[from] fsdyno_workload::params::ParamError),
    /// A spec cannot be meant.
    #[error("--fs '{spec}': {error}")]
    Spec {
        /// As typed.
        spec: String,
        /// What is wrong with it.
        error: String,
    },
    /// No disk has the name.
    #[error("{0}")]
    Disk(String),
    /// Two rows of the table would have one name.
    #[error("two file systems are called '{0}'; give one a name of its own: --fs 'NAME={0}'")]
    SameLabel(String),
    /// Something else that was typed is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl MatrixError {
    fn spec(spec: &str) -> impl FnOnce(SpecError) -> MatrixError + '_ {
        move |error| MatrixError::Spec { spec: spec.to_string(), error: error.to_string() }
    }
}

/// The plans, ordered as the user gave workloads, kernels, disks and file systems.
///
/// # Errors
/// The first thing that cannot be meant.
pub fn matrix(question: &Question, place: &Place) -> Result<Vec<Cell>, MatrixError> {
    let works = works(question)?;
    let sysctls = sysctls(&question.sysctls)?;
    let rows = rows(question, place)?;
    issuers(question, place, &works)?;
    let mut cells = Vec::new();
    for work in &works {
        for row in &rows {
            fits(work, row)?;
            let plan = Plan {
                label: row.label.clone(),
                workload: work.plan.clone(),
                filesystem: row.filesystem.clone(),
                medium: row.medium.clone(),
                threads: question.threads,
                issuer: question.issuer,
                verify: question.verify,
                sysctls: sysctls.clone(),
                hash: String::new(),
            };
            cells.push(Cell {
                deadline: question.deadline,
                plan: plan.sealed(),
                needs: work.needs,
                phases: work.phases.clone(),
                skip: row.skip.clone(),
            });
        }
    }
    Ok(cells)
}

/// The most threads that a trial may have.
const MOST_THREADS: u32 = 512;

/// The most ops that a trial may have in flight: each has buffers and open files of its own.
const MOST_IN_FLIGHT: u32 = 4096;

/// Whether ops can be issued as asked.
fn issuers(question: &Question, place: &Place, works: &[Work]) -> Result<(), MatrixError> {
    let (threads, issuer) = (question.threads, question.issuer);
    let wrong = |text| Err(MatrixError::Wrong(text));
    if !(1..=MOST_THREADS).contains(&threads) {
        return wrong(format!(
            "--threads {threads} is not possible; it is a number from 1 to {MOST_THREADS}"
        ));
    }
    if let Some(work) = works.iter().find(|work| threads > 1 && !work.shared) {
        return wrong(format!(
            "--threads {threads} is not possible: no phase of workload '{}' with these parameters \
             can be shared among threads; leave it at 1",
            work.plan.name
        ));
    }
    if matches!(issuer, IssuerPlan::IoUring { .. }) && matches!(place, Place::Lab(_)) {
        return wrong(format!(
            "--issuer {issuer} is for directories and devices of this host (--on DIRECTORY): that \
             io_uring's workers keep the lab's digits the same in every run is not proven"
        ));
    }
    let in_flight = threads.saturating_mul(issuer.depth());
    if in_flight > MOST_IN_FLIGHT {
        return wrong(format!(
            "--threads {threads} with --issuer {issuer} would have {in_flight} ops in flight; it is \
             at most {MOST_IN_FLIGHT}"
        ));
    }
    Ok(())
}

/// A workload with its parameters bound.
struct Work {
    plan: WorkloadPlan,
    needs: Needs,
    /// Whether any of its phases can be shared among threads.
    shared: bool,
    phases: Vec<(String, BTreeMap<OpKind, u64>)>,
}

fn works(question: &Question) -> Result<Vec<Work>, MatrixError> {
    let mut kinds = Vec::new();
    for name in &question.workloads {
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
    let settings = settings(&kinds, &question.sets)?;
    let mut works = Vec::new();
    for (kind, settings) in kinds.into_iter().zip(&settings) {
        let settings = config::expand(kind, settings).map_err(MatrixError::Wrong)?;
        for settings in points(kind, &settings)? {
            works.push(work(kind, &settings, question)?);
        }
    }
    Ok(works)
}

/// The settings of each point of a curve; one and the same where there is no curve.
fn points(kind: &workloads::Kind, settings: &Settings) -> Result<Vec<Settings>, MatrixError> {
    let curve: Option<Curve> = settings.get("curve").and_then(|typed| typed.parse().ok());
    let Some(curve) = curve else { return Ok(vec![settings.clone()]) };
    if settings.contains_key("files") {
        return Err(MatrixError::Wrong(format!(
            "workload '{}' is given both files and curve; the curve says how many files there are: \
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
    question: &Question,
) -> Result<Work, MatrixError> {
    let set: Vec<(&str, &str)> =
        settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut params = kind.resolve(&set)?;
    let named = input_of(kind, &params, question);
    let input = named.map(|(_, file)| file.input());
    let workload = kind.build(&params, &Setting { seed: question.seed, input })?;
    params.retain(|name, _| !workload.idle_params().contains(&name.as_str()));
    let input = named.map(|(parameter, file)| {
        params.insert(parameter.to_string(), input::absolute(file.path()));
        file.plan(parameter)
    });
    let ranks = question.threads.saturating_mul(question.issuer.depth());
    let phases = workload.phases();
    let shared = phases.iter().any(|phase| phase.threads == Threads::Any);
    let phases = phases
        .iter()
        .enumerate()
        .map(|(at, phase)| (phase.name.to_string(), workload.counts(at, phase.threads.of(ranks))))
        .collect();
    let plan = WorkloadPlan { name: kind.name.to_string(), params, input };
    Ok(Work { plan, needs: workload.needs(), shared, phases })
}

/// The file that a workload works on, and the parameter that names it.
fn input_of<'a>(
    kind: &workloads::Kind,
    params: &BTreeMap<String, String>,
    question: &'a Question,
) -> Option<(&'static str, &'a InputFile)> {
    kind.params.iter().find_map(|param| {
        let path = input::path_of(&param.domain, params.get(param.name)?)?;
        Some((param.name, question.inputs.typed(path)?))
    })
}

/// A row of the table: what the work runs on.
struct Row {
    label: String,
    filesystem: Option<FilesystemPlan>,
    medium: MediumPlan,
    longest_name: Option<usize>,
    room: Option<Bytes>,
    skip: Option<String>,
}

fn rows(question: &Question, place: &Place) -> Result<Vec<Row>, MatrixError> {
    match place {
        Place::Directory { path, label, longest_name } => {
            if let Some(spec) = question.filesystems.first() {
                return Err(MatrixError::Wrong(format!(
                    "--fs '{spec}' cannot be made in a directory, which is used as it is; \
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
            let (longest_name, room, skip) = (*longest_name, None, None);
            Ok(vec![Row { label, filesystem: None, medium, longest_name, room, skip }])
        }
        Place::Lab(lab) => lab_rows(question, lab),
    }
}

fn lab_rows(question: &Question, lab: &LabPlace) -> Result<Vec<Row>, MatrixError> {
    check_lab(lab)?;
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
                rows.push(lab_row(question, lab, known, (disk, journal), kernel)?);
            }
        }
    }
    Ok(rows)
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
    let skip = filesystem.check_kernel(kernel).err().filter(|_| lab.found);
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
        }),
        longest_name: Some(filesystem.longest_name),
        room: Some(room),
        skip: skip.map(|error| error.to_string()),
    })
}

/// Block schedulers of Linux since 5.0.
const SCHEDULERS: &[&str] = &["none", "mq-deadline", "bfq", "kyber"];

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
        return Err(MatrixError::Wrong(format!(
            "--kernel names {kernel} twice; two builds of one release are compared by two runs, \
             each with a folder of its own: fsdyno report FOLDER FOLDER"
        )));
    }
    Ok(())
}

fn twice(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

/// Whether the work fits what it runs on; a directory is asked itself, by the media crate.
fn fits(work: &Work, row: &Row) -> Result<(), MatrixError> {
    let name = &work.plan.name;
    if let Some(longest) = row.longest_name.filter(|longest| *longest < work.needs.longest_name) {
        return Err(MatrixError::Wrong(format!(
            "workload '{name}' has names of {} bytes and {} takes {longest} at most; choose shorter \
             names, or a file system that takes them",
            work.needs.longest_name, row.label
        )));
    }
    if let Some(room) = row.room.filter(|room| *room < work.needs.bytes) {
        return Err(MatrixError::Wrong(format!(
            "workload '{name}' writes {} at once and {} has {room}; make it smaller with --set \
             or the file system larger with --size",
            work.needs.bytes, row.label
        )));
    }
    Ok(())
}

fn sysctls(typed: &[String]) -> Result<BTreeMap<String, String>, MatrixError> {
    let mut sysctls = BTreeMap::new();
    for text in typed {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match text.split_once('=') {
            // The key becomes a path below /proc/sys in the guest.
            Some((key, value))
                if key.contains('.') && key.bytes().all(plain) && !key.contains("..") =>
            {
                sysctls.insert(key.trim().to_string(), value.trim().to_string());
            }
            _ => {
                return Err(MatrixError::Wrong(format!(
                    "--sysctl '{text}' is not right; write it as KEY=VALUE, such as \
                     vm.dirty_ratio=10"
                )));
            }
        }
    }
    Ok(sysctls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> LabPlace {
        LabPlace {
            disks: vec!["hdd-7200".into()],
            raid: None,
            journal_disk: None,
            journal_size: None,
            kernels: vec!["6.1.0".into()],
            found: true,
            ram: Bytes(1 << 30),
            cacheable: None,
            cpu: Default::default(),
            boot: Default::default(),
            scheduler: None,
            size: Size::Usual,
        }
    }

    fn ask(workloads: &[&str], filesystems: &[&str]) -> Question {
        let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Question {
            deadline: USUAL_DEADLINE,
            workloads: strings(workloads),
            filesystems: strings(filesystems),
            threads: 1,
            issuer: IssuerPlan::Sync,
            ..Question::default()
        }
    }

    fn refusal(question: &Question, lab: LabPlace) -> String {
        matrix(question, &Place::Lab(lab)).unwrap_err().to_string()
    }

    #[test]
    fn an_outer_journal_gets_a_disk_and_a_size_and_an_array_its_disks() {
        let question = ask(&["dirops"], &["far=ext4 -J device={journal}", "ext4"]);
        let raid = Some("5x3:64K".parse().unwrap());
        let cells = matrix(&question, &Place::Lab(LabPlace { raid, ..lab() })).unwrap();
        let labs: Vec<&LabPlan> = cells.iter().filter_map(|cell| cell.plan.lab()).collect();
        assert_eq!(labs[0].journal_size, Some(USUAL_JOURNAL));
        assert_eq!((labs[0].disks(), labs[1].disks()), (4, 3));
        assert_eq!((&labs[1].journal, labs[1].journal_size), (&None, None));
    }

    #[test]
    fn every_combination_becomes_a_cell_with_a_hash_of_its_own() {
        let question = ask(&["dirops", "tarball"], &["ext4", "small=ext4 -I 128", "xfs"]);
        let disks = vec!["hdd-7200".into(), "instant".into()];
        let cells = matrix(&question, &Place::Lab(LabPlace { disks, ..lab() })).unwrap();
        assert_eq!(cells.len(), 2 * 2 * 3);
        let hashes: BTreeSet<&String> = cells.iter().map(|cell| &cell.plan.hash).collect();
        assert_eq!(hashes.len(), cells.len());
        assert_eq!(cells[1].plan.label, "small");
        assert!(cells.iter().all(|cell| cell.ops() > 0));
    }

    #[test]
    fn a_curve_is_a_cell_for_each_of_its_points() {
        let curve = |sets: &[&str]| {
            let sets = sets.iter().map(ToString::to_string).collect();
            matrix(&Question { sets, ..ask(&["dirops"], &["ext4", "xfs"]) }, &Place::Lab(lab()))
        };
        let cells = curve(&["curve=100..10000x10"]).unwrap();
        let files: Vec<&str> =
            cells.iter().map(|cell| cell.plan.workload.params["files"].as_str()).collect();
        assert_eq!(files, ["100", "100", "1000", "1000", "10000", "10000"]);
        assert!(cells.iter().all(|cell| cell.plan.workload.params["curve"] == "100..10000x10"));
        let text = curve(&["curve=10..20/5", "files=7"]).unwrap_err().to_string();
        assert!(text.contains("leave one of them out"), "{text}");
        let text = curve(&["curve=10..5/1"]).unwrap_err().to_string();
        assert!(text.contains("FROM..TO/STEP"), "{text}");
    }

    #[test]
    fn wrong_names_are_refused_with_the_nearest_right_one() {
        assert!(refusal(&ask(&["dirop"], &["ext4"]), lab()).contains("'dirops'"));
        assert!(refusal(&ask(&["dirops"], &["ext5"]), lab()).contains("ext"));
        let disks = vec!["hdd-720".into()];
        let text = refusal(&ask(&["dirops"], &["ext4"]), LabPlace { disks, ..lab() });
        assert!(text.contains("'hdd-7200'"), "{text}");
        let scheduler = Some("mq-dedline".into());
        let text = refusal(&ask(&["dirops"], &["ext4"]), LabPlace { scheduler, ..lab() });
        assert!(text.contains("'mq-deadline'"), "{text}");
    }

    #[test]
    fn two_kernels_make_rows_of_one_label_that_the_grammar_takes() {
        let kernels = vec!["5.10.0-9-amd64".into(), "6.1.0-44-amd64".into()];
        let cells =
            matrix(&ask(&["dirops"], &["ext4", "xfs"]), &Place::Lab(LabPlace { kernels, ..lab() }));
        let labels: Vec<String> = cells.unwrap().into_iter().map(|cell| cell.plan.label).collect();
        assert_eq!(labels, ["ext4", "xfs", "ext4", "xfs"]);
    }

    #[test]
    fn only_a_kernel_that_was_found_is_asked_for_its_file_systems() {
        let question = ask(&["dirops"], &["ext4", "reiserfs"]);
        let cells = |kernel: &str, found| {
            let kernels = vec![kernel.to_string()];
            matrix(&question, &Place::Lab(LabPlace { kernels, found, ..lab() })).unwrap()
        };
        for typed in ["6", "6.1", "/boot/vmlinuz", "default"] {
            assert!(cells(typed, false).iter().all(|cell| cell.skip.is_none()), "{typed}");
        }
        let found = cells("6.13.2-amd64", true);
        assert_eq!(found[0].skip, None);
        assert!(found[1].skip.as_ref().unwrap().contains("no longer has reiserfs"));
    }

    #[test]
    fn one_release_twice_is_refused_with_what_to_do() {
        let kernels = vec!["6.1.0".to_string(); 2];
        let text = refusal(&ask(&["dirops"], &["ext4"]), LabPlace { kernels, ..lab() });
        assert!(text.contains("6.1.0 twice") && text.contains("two runs"), "{text}");
    }

    #[test]
    fn threads_are_for_workloads_that_can_share_a_phase() {
        let asked = |workloads: &[&str], threads| Question { threads, ..ask(workloads, &["ext4"]) };
        let cells = matrix(&asked(&["dirops"], 8), &Place::Lab(lab())).unwrap();
        assert_eq!(cells[0].plan.threads, 8);
        assert_eq!(cells[0].phases[0].1[&OpKind::Open], 8, "each opens the directory");
        let text = refusal(&asked(&["dirops", "tarball"], 2), lab());
        assert!(text.contains("--threads 2") && text.contains("'tarball'"), "{text}");
        for threads in [0, 513] {
            let text = refusal(&asked(&["dirops"], threads), lab());
            assert!(text.contains("1 to 512"), "{text}");
        }
    }

    #[test]
    fn io_uring_is_for_the_host_and_null_for_both() {
        let issued = |threads, issuer: &str| Question {
            threads,
            issuer: issuer.parse().unwrap(),
            ..ask(&["dirops"], &[])
        };
        let host =
            Place::Directory { path: "/tmp".into(), label: "tmpfs".into(), longest_name: None };
        let cells = matrix(&issued(2, "io_uring:16"), &host).unwrap();
        assert_eq!(cells[0].phases[0].1[&OpKind::Open], 32, "each op in flight has a share");
        let text = matrix(&issued(2, "io_uring:4096"), &host).unwrap_err().to_string();
        assert!(text.contains("8192 ops in flight"), "{text}");
        let in_lab = Question { filesystems: vec!["ext4".into()], ..issued(1, "io_uring:4") };
        assert!(refusal(&in_lab, lab()).contains("not proven"));
        let null = Question { issuer: IssuerPlan::Null, ..ask(&["dirops"], &["ext4"]) };
        assert_eq!(matrix(&null, &Place::Lab(lab())).unwrap()[0].plan.issuer, IssuerPlan::Null);
        assert!(matrix(&issued(1, "null"), &host).is_ok());
    }

    #[test]
    fn one_label_for_two_rows_is_refused() {
        let text = refusal(&ask(&["dirops"], &["a=ext4", "a=xfs"]), lab());
        assert!(text.contains("called 'a'"), "{text}");
    }

    #[test]
    fn a_directory_takes_no_file_system() {
        let place =
            Place::Directory { path: "/tmp".into(), label: "tmpfs".into(), longest_name: Some(40) };
        let sets = vec!["prefix=aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd".to_string()];
        let long = matrix(&Question { sets, ..ask(&["dirops"], &[]) }, &place).unwrap_err();
        assert!(long.to_string().contains("names of 47 bytes and tmpfs takes 40"), "{long}");
        assert!(matrix(&ask(&["dirops"], &["ext4"]), &place).is_err());
        assert_eq!(matrix(&ask(&["dirops"], &[]), &place).unwrap().len(), 1);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let question = ask(&["dirops"], &["ext4"]);
        let size = Size::Exactly(Bytes(1 << 50));
        assert!(refusal(&question, LabPlace { size, ..lab() }).contains("more than disk"));
        let size = Size::Exactly(Bytes(4096));
        assert!(refusal(&question, LabPlace { size, ..lab() }).contains("too small"));
        assert!(refusal(&question, LabPlace { ram: Bytes(1000), ..lab() }).contains("--ram"));
        for mib in [31, 961, 2048] {
            let place = LabPlace { cacheable: Some(Bytes(mib << 20)), ..lab() };
            assert!(refusal(&question, place).contains("64 MiB of the RAM"), "{mib} MiB of 1 GiB");
        }
        let (raid, disks) = (Some("5x3".parse().unwrap()), vec!["instant".to_string()]);
        let text = refusal(&question, LabPlace { raid, disks, ..lab() });
        assert!(text.contains("cannot be in a RAID"), "{text}");
        let journal_size = Some(Bytes(1 << 30));
        let text = refusal(&question, LabPlace { journal_size, ..lab() });
        assert!(text.contains("names {journal}, and none does"), "{text}");
        let outer = ask(&["dirops"], &["ext4 -J device={journal}"]);
        for wrong in [Bytes(1000), Bytes(1 << 50)] {
            let text = refusal(&outer, LabPlace { journal_size: Some(wrong), ..lab() });
            assert!(text.contains("whole mebibytes"), "{text}");
        }
    }

    #[test]
    fn a_sysctl_that_could_leave_proc_sys_is_refused() {
        for bad in ["vm.dirty_ratio", "../../etc/passwd=x", "vm..x=1", "=1", "a b.c=1"] {
            assert!(sysctls(&[bad.to_string()]).is_err(), "{bad}");
        }
        assert_eq!(sysctls(&["vm.dirty_ratio=10".into()]).unwrap()["vm.dirty_ratio"], "10");
    }
}
