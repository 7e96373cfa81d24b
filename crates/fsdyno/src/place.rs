//! From what was typed after `--on` and beside it to a place and the venue that runs there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_lab::{Lab, LabOptions, user_cache};
use fsdyno_media::{Made, Room};
use fsdyno_record::Bytes;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_study::{Cell, DevicePlace, LabPlace, ModelPlace, Place, Question, USUAL_RAM};
use fsdyno_venue::{Attention, HostVenue, Inputs, LabVenue, ModelVenue, Venue, tools};

use crate::cli::Run;
use crate::drive;
use crate::exit::Failure;
use crate::output::say;

/// The disk of the lab if none is named.
const DISK: &str = "hdd-7200";

/// The file system that is made if none is named.
const FILESYSTEM: &str = "ext4";

/// The kernel's name in plans that are only looked at, where it is not known which one it will be.
const ANY_KERNEL: &str = "default";

/// What is asked, in the words of the study.
pub fn question(run: &Run) -> Question {
    let mut filesystems = run.filesystems.clone();
    if filesystems.is_empty()
        && (is_lab(run) || Made::parse(&run.on).is_some() || drive::is_named(run))
    {
        filesystems.push(FILESYSTEM.to_string());
    }
    let tool_versions = filesystems
        .iter()
        .filter_map(|text| fsdyno_filesystem::Spec::parse(text).ok())
        .filter_map(|spec| fsdyno_filesystem::catalog::get(&spec.made().kind).ok())
        .filter_map(|kind| Some((kind.name.clone(), tools::version(kind)?)))
        .collect();
    let seconds = |seconds: u64| fsdyno_record::Nanos(seconds * 1_000_000_000);
    Question {
        deadline: run.deadline.map_or(fsdyno_study::USUAL_DEADLINE, seconds),
        workloads: run.workloads.clone(),
        filesystems,
        sets: run.sets.clone(),
        sysctls: run.sysctls.clone(),
        threads: run.threads,
        issuer: run.issuer,
        seed: run.seed,
        verify: run.verify,
        tool_versions,
        inputs: Inputs::default(),
        period: run.period.clone(),
        ages: run.ages.clone(),
    }
}

/// Whether it is to run in the lab.
pub fn is_lab(run: &Run) -> bool {
    run.on == "lab"
}

/// Whether it is to run in a model of a file system.
fn is_model(run: &Run) -> bool {
    run.on == "model"
}

/// The disk of a model if none is named: one of the year that it is a model of.
const MODEL_DISK: &str = "ide-2001";

fn model(run: &Run) -> Result<Place, Failure> {
    if let Some(option) = given(run).into_iter().find(|it| !matches!(*it, "--disk" | "--size")) {
        return Err(Failure::wrong(format!(
            "{option} is for the lab, and --on model is a model in this program; leave one out"
        )));
    }
    let disks = match run.disks.is_empty() {
        true => vec![MODEL_DISK.to_string()],
        false => run.disks.clone(),
    };
    Ok(Place::Model(ModelPlace { disks, size: run.size.unwrap_or_default() }))
}

/// The place as typed, before anything is looked for: enough to check a question.
pub fn typed(run: &Run) -> Result<Place, Failure> {
    let is_drive = !is_lab(run) && drive::is_named(run);
    if run.erase.is_some() && !is_drive {
        return Err(Failure::wrong(format!(
            "--erase is for a drive (--on /dev/disk/by-id/...), and --on {} is none; leave it out",
            run.on
        )));
    }
    if is_drive {
        return drive::place(run);
    }
    if is_lab(run) {
        check_ram(run.ram.unwrap_or(USUAL_RAM))?;
        let kernels = match run.kernels.is_empty() {
            true => vec![ANY_KERNEL.to_string()],
            false => run.kernels.clone(),
        };
        return Ok(Place::Lab(lab_place(run, kernels, false)));
    }
    if is_model(run) {
        return model(run);
    }
    match Made::parse(&run.on) {
        Some(made) => {
            made_place(run, made.map_err(|error| Failure::wrong(format!("--on {error}")))?)
        }
        None => directory(run),
    }
}

/// A medium that is made on this host for each trial.
fn made_place(run: &Run, made: Made) -> Result<Place, Failure> {
    refuse_for_lab(run, "a device of this host", &["--raid", "--journal-size", "--age"])?;
    if run.jobs > 1 {
        return Err(Failure::wrong(format!(
            "--jobs {} is not possible with --on {made}: trials on one host disturb each other, and two \
             file systems of one seed would have one UUID; leave --jobs out",
            run.jobs
        )));
    }
    // A dry run makes nothing, and may be asked for by anybody.
    if !run.dry_run {
        made.allowed()?;
    }
    Ok(Place::Device(DevicePlace {
        on: made.to_string(),
        size: made.size,
        raid: run.raid,
        journal_size: run.journal_size,
    }))
}

/// A guest touches all of its memory sooner or later, and more than this host has would be taken from
/// whatever else runs here.
fn check_ram(ram: Bytes) -> Result<(), Failure> {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    let (memory, swap) = (info.totalram * unit, info.totalswap * unit);
    if ram.0 > memory.saturating_add(swap) {
        return Err(Failure::wrong(format!(
            "--ram {ram} is more than this host has: {} and {} of swap",
            Bytes(memory),
            Bytes(swap)
        )));
    }
    Ok(())
}

fn lab_place(run: &Run, kernels: Vec<String>, found: bool) -> LabPlace {
    let disks = match run.disks.is_empty() {
        true => vec![DISK.to_string()],
        false => run.disks.clone(),
    };
    LabPlace {
        disks,
        kernels,
        found,
        raid: run.raid,
        journal_disk: run.journal_disk.clone(),
        journal_size: run.journal_size,
        ram: run.ram.unwrap_or(USUAL_RAM),
        cacheable: run.cacheable,
        cpu: run.cpu,
        boot: run.boot,
        accel: run.accel,
        scheduler: run.scheduler.clone(),
        size: run.size.unwrap_or_default(),
    }
}

/// The options that are for the lab and were given.
fn given(run: &Run) -> Vec<&'static str> {
    let options = [
        ("--disk", !run.disks.is_empty()),
        ("--kernel", !run.kernels.is_empty()),
        ("--raid", run.raid.is_some()),
        ("--journal-disk", run.journal_disk.is_some()),
        ("--journal-size", run.journal_size.is_some()),
        ("--ram", run.ram.is_some()),
        ("--cacheable", run.cacheable.is_some()),
        ("--cpu", !run.cpu.is_usual()),
        ("--boot", !run.boot.is_cold()),
        ("--accel", !run.accel.is_exact()),
        ("--keep-log", run.keep_log),
        ("--size", run.size.is_some()),
        ("--age", !run.ages.is_empty()),
        ("--scheduler", run.scheduler.is_some()),
        ("--sysctl", !run.sysctls.is_empty()),
        ("--period", run.period.is_some()),
        ("--change", !run.changes.is_empty()),
    ];
    options.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect()
}

/// Refuses the options that are for the lab, but for some that have a meaning here too.
pub fn refuse_for_lab(run: &Run, what: &str, but: &[&str]) -> Result<(), Failure> {
    let Some(option) = given(run).into_iter().find(|option| !but.contains(option)) else {
        return Ok(());
    };
    let on = &run.on;
    let why = match option {
        "--scheduler" | "--sysctl" => {
            "; what is set on this host stays the user's to set, and records say what it is"
        }
        "--size" if Made::parse(on).is_some() => "; the size stands in --on",
        "--age" => {
            "; it ages a file system that is made anew, in the lab, on loop:SIZE, ram:SIZE or a drive"
        }
        _ => "",
    };
    Err(Failure::wrong(format!(
        "{option} is for the lab, and --on {on} is {what}; leave one out{why}"
    )))
}

fn directory(run: &Run) -> Result<Place, Failure> {
    let on = run.on.as_str();
    refuse_for_lab(run, "a directory of this host", &[])?;
    let path = Path::new(on);
    if !path.exists() && !on.contains('/') {
        return Err(Failure::wrong(format!(
            "there is no medium and no directory '{on}'; there are: {}",
            there_are()
        )));
    }
    fsdyno_media::check(path, &Room::default())?;
    let kind = fsdyno_media::directory::kind(path)?;
    let path = std::fs::canonicalize(path)
        .map_err(|error| Failure::wrong(format!("failed to find '{on}': {error}")))?;
    let longest_name = rustix::fs::statvfs(&path).ok().map(|status| status.f_namemax as usize);
    Ok(Place::Directory { path, label: kind, longest_name })
}

/// What `--on` takes.
fn there_are() -> String {
    let made = fsdyno_media::made::KINDS.iter().map(|kind| format!("{}:SIZE", kind.name));
    let made: Vec<String> = made.collect();
    format!("lab, model, {}, /dev/DRIVE, or a directory of this host", made.join(", "))
}

/// Whether the directory has room for the largest cells that run side by side, and whether a
/// dead run left something there.
pub fn check_directory(path: &Path, cells: &[Cell], jobs: usize) -> Result<(), Failure> {
    let jobs = jobs.max(1) as u64;
    // What is never written needs no room.
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
            "fsdyno: an earlier run was killed and left '{}'{}; remove with: fsdyno doctor --clean '{}'",
            first.path.display(),
            if left.len() > 1 { format!(" and {} more", left.len() - 1) } else { String::new() },
            path.display()
        ));
    }
    Ok(())
}

/// This executable; the kernel's link stays right even if the file is replaced while it runs.
pub fn executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// The venue for a place, and the place with what is only now known of it: the kernels' releases.
pub fn venue(
    run: &Run,
    place: Place,
    inputs: &Inputs,
    results: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(Box<dyn Venue>, Place), Failure> {
    match place {
        Place::Model(_) => Ok((Box::new(ModelVenue), place)),
        Place::Directory { .. } => {
            let venue = HostVenue::new(executable()).with_inputs(inputs.clone());
            Ok((Box::new(venue), place))
        }
        Place::Device(_) => {
            let mut venue = HostVenue::new(executable()).with_folder(results);
            if drive::is_named(run) {
                venue = venue.with_drive(drive::look(run)?.claim()?);
            }
            Ok((Box::new(venue.with_inputs(inputs.clone())), place))
        }
        Place::Lab(_) => {
            let mut labs = Vec::new();
            for kernel in kernels(run) {
                labs.push(find_lab(kernel, false)?);
            }
            for (at, lab) in labs.iter().enumerate() {
                if let Some(other) = labs[..at].iter().position(|other| other.has_kernel_of(lab)) {
                    return Err(Failure::wrong(format!(
                        "--kernel {} and --kernel {} are one kernel, {}; name it once",
                        run.kernels[other],
                        run.kernels[at],
                        lab.kernel_release()
                    )));
                }
            }
            let releases: Vec<&str> = labs.iter().map(Lab::kernel_release).collect();
            let names = names(&releases, &run.kernels);
            let labs = labs.into_iter().zip(&names).map(|(lab, name)| lab.named(name.clone()));
            let labs = labs.collect();
            let place = Place::Lab(lab_place(run, names, true));
            let venue = LabVenue::new(labs, executable(), std::env::temp_dir(), user_cache());
            let logs = run.keep_log.then(|| results.to_path_buf());
            let attention =
                Attention { say: |line| say(&format!("fsdyno: {line}")), stop: Arc::clone(stop) };
            let venue = venue.with_inputs(inputs.clone()).with_logs(logs).with_attention(attention);
            let venue = venue.with_changes(run.changes.clone());
            Ok((Box::new(venue), place))
        }
    }
}

/// The place for a dry run: kernels that are here are named, and none is brought.
pub fn dry(run: &Run, place: Place) -> Place {
    if !matches!(place, Place::Lab(_)) {
        return place;
    }
    let mut releases = Vec::new();
    let mut found = true;
    for kernel in kernels(run) {
        match find_lab(kernel.clone(), true) {
            Ok(lab) => releases.push(lab.kernel_release().to_string()),
            Err(error) => {
                say(&format!("fsdyno: {error}"));
                found = false;
                releases.push(kernel.unwrap_or_else(|| ANY_KERNEL.to_string()));
            }
        }
    }
    let releases: Vec<&str> = releases.iter().map(String::as_str).collect();
    Place::Lab(lab_place(run, names(&releases, &run.kernels), found))
}

/// What plans call kernels of these releases: the release, and where several have one, with it what was
/// typed for each.
fn names(releases: &[&str], typed: &[String]) -> Vec<String> {
    let name = |(at, release): (usize, &&str)| {
        let several = releases.iter().filter(|other| *other == release).count() > 1;
        match typed.get(at) {
            Some(typed) if several && typed != release => format!("{release}@{typed}"),
            _ => release.to_string(),
        }
    };
    releases.iter().enumerate().map(name).collect()
}

fn kernels(run: &Run) -> Vec<Option<String>> {
    match run.kernels.is_empty() {
        true => vec![None],
        false => run.kernels.iter().cloned().map(Some).collect(),
    }
}

fn find_lab(kernel: Option<String>, offline: bool) -> Result<Lab, Failure> {
    let options = LabOptions { kernel, qemu: None, cache: user_cache(), offline };
    Ok(Lab::find(&options, &|line| say(&format!("fsdyno: {line}")))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_called_by_release_and_builds_of_one_release_by_their_file_too() {
        let typed = ["6.1", "new/bzImage:mods", "5.10"].map(String::from);
        let names = |releases: [&str; 3]| names(&releases, &typed);
        assert_eq!(names(["6.1.0", "6.2.0", "5.10.0"]), ["6.1.0", "6.2.0", "5.10.0"]);
        let both = names(["6.1.0", "6.1.0", "5.10.0"]);
        assert_eq!(both, ["6.1.0@6.1", "6.1.0@new/bzImage:mods", "5.10.0"]);
    }
}
