//! From what was typed after `--on` and beside it to a place and the venue that runs there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsdyno_lab::{Lab, LabOptions, user_cache};
use fsdyno_media::Room;
use fsdyno_record::Bytes;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_study::{Cell, LabPlace, Place, Question};
use fsdyno_venue::{Attention, HostVenue, Inputs, LabVenue, Venue, tools};

use crate::cli::Run;
use crate::exit::Failure;
use crate::output::say;

/// The disk of the lab if none is named.
const DISK: &str = "hdd-7200";

/// The file system of the lab if none is named.
const FILESYSTEM: &str = "ext4";

/// RAM of the guest if nothing is said.
const RAM: Bytes = Bytes(1 << 30);

/// The kernel's name in plans that are only looked at, where it is not known which one it will be.
const ANY_KERNEL: &str = "default";

/// What is asked, in the words of the study.
pub fn question(run: &Run) -> Question {
    let mut filesystems = run.filesystems.clone();
    if filesystems.is_empty() && is_lab(run) {
        filesystems.push(FILESYSTEM.to_string());
    }
    let tool_versions = filesystems
        .iter()
        .filter_map(|text| fsdyno_filesystem::Spec::parse(text).ok())
        .filter_map(|spec| fsdyno_filesystem::catalog::get(&spec.kind).ok())
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
        ages: run.ages.clone(),
    }
}

/// Whether it is to run in the lab.
pub fn is_lab(run: &Run) -> bool {
    run.on == "lab"
}

/// The place as typed, before anything is looked for: enough to check a question.
pub fn typed(run: &Run) -> Result<Place, Failure> {
    if is_lab(run) {
        let kernels = match run.kernels.is_empty() {
            true => vec![ANY_KERNEL.to_string()],
            false => run.kernels.clone(),
        };
        return Ok(Place::Lab(lab_place(run, kernels, false)));
    }
    directory(run)
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
        ram: run.ram.unwrap_or(RAM),
        cacheable: run.cacheable,
        cpu: run.cpu,
        boot: run.boot,
        accel: run.accel,
        scheduler: run.scheduler.clone(),
        size: run.size.unwrap_or_default(),
    }
}

fn directory(run: &Run) -> Result<Place, Failure> {
    let on = run.on.as_str();
    let device = on.starts_with("/dev/") && !Path::new(on).is_dir();
    if on.starts_with("loop:") || on.starts_with("ram:") || device {
        return Err(Failure::wrong(format!(
            "--on {on} is not there yet; there are: lab, or a directory of this host"
        )));
    }
    for (option, given) in [
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
    ] {
        if given {
            return Err(Failure::wrong(format!(
                "{option} is for the lab, and --on {on} is a directory of this host; leave one out"
            )));
        }
    }
    let path = Path::new(on);
    if !path.exists() && !on.contains('/') {
        return Err(Failure::wrong(format!(
            "there is no medium and no directory '{on}'; there are: lab, or a directory of this host"
        )));
    }
    fsdyno_media::check(path, &Room::default())?;
    let kind = fsdyno_media::directory::kind(path)?;
    let path = std::fs::canonicalize(path)
        .map_err(|error| Failure::wrong(format!("failed to find '{on}': {error}")))?;
    let longest_name = rustix::fs::statvfs(&path).ok().map(|status| status.f_namemax as usize);
    Ok(Place::Directory { path, label: kind, longest_name })
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
        Place::Directory { .. } => {
            let venue = HostVenue::new(executable()).with_inputs(inputs.clone());
            Ok((Box::new(venue), place))
        }
        Place::Lab(_) => {
            let mut labs = Vec::new();
            for kernel in kernels(run) {
                labs.push(find_lab(kernel, false)?);
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
            Ok((Box::new(venue), place))
        }
    }
}

/// The place for a dry run: kernels that are here are named, and none is brought.
pub fn dry(run: &Run, place: Place) -> Place {
    if matches!(place, Place::Directory { .. }) {
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
