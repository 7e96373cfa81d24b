//! Compares the CPU times of a processor profile in the lab with those of this machine, on work to which no profile is
//! fitted.

use std::fmt::Write as _;

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, stop};
use fsdyno_processor::fit::{self, COSTS, Point, Validation};
use fsdyno_record::Trial;

use super::trials::{Runner, Times, kernel_of_this_machine};

/// A workload with its parameters, and the file systems on which it runs.
struct Work {
    words: &'static [&'static str],
    filesystems: &'static [&'static str],
}

const FILESYSTEMS: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs"];
/// File systems that do not search a directory from its beginning.
const INDEXED: &[&str] = &["ext3", "ext4", "xfs", "btrfs"];
const OPTIONS: &[&str] = &[
    "ext4",
    "inodes-128=ext4 -I 128",
    "bigalloc=ext4 -O bigalloc",
    "xfs",
    "no-finobt=xfs -m finobt=0",
    "btrfs",
    "nodatacow=btrfs @ nodatacow",
];

/// Work that differs from that of a fit in lengths of names, sizes of directories, options or workloads.
const ALL: &[Work] = &[
    Work { words: &["calls", "--set", "files=1000", "--set", "name=24"], filesystems: FILESYSTEMS },
    Work { words: &["calls", "--set", "files=2000", "--set", "name=16"], filesystems: OPTIONS },
    Work { words: &["dirops", "--set", "files=100000", "--set", "stat=yes"], filesystems: INDEXED },
    Work { words: &["tarball", "--set", "files=5000"], filesystems: FILESYSTEMS },
    Work { words: &["postmark"], filesystems: FILESYSTEMS },
    Work {
        words: &["replay", "--set", "think=none", "--set", GIT_CLONE_PARAM],
        filesystems: FILESYSTEMS,
    },
];

/// The parameter of a replay that is replaced by one with the path of [`GIT_CLONE`], which is written to a folder.
const GIT_CLONE_PARAM: &str = "trace=git-clone.trace";
/// A recording of `git clone` and `git checkout`: the example of that name.
const GIT_CLONE: &[u8] = include_bytes!("../../../../examples/traces/git-clone.trace");

/// Repetitions on this machine, more if it is busy; the fastest counts.
const REPEATS: u32 = 6;
/// The minimum CPU time of a phase that is long enough to be measured.
const MIN_PHASE_NS: u64 = 2_000_000;

/// Measures, predicts, and returns the comparison as Markdown, or `None` if the user stopped it.
///
/// # Errors
/// A process that is not root, an unknown profile, a machine that is too busy, failed trials.
pub fn check(kernel: Option<String>, profile: &str) -> Result<Option<String>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::invalid_use(
            "--check mounts file systems in memory and must run as root; use sudo".to_string(),
        ));
    }
    fsdyno_processor::find(profile)?;
    let stop = stop::flag()?;
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::invalid_use(format!("failed to create a folder: {error}")))?;
    let kernel = kernel.or_else(kernel_of_this_machine);
    let trace = folder.path().join("git-clone.trace");
    std::fs::write(&trace, GIT_CLONE).map_err(|error| {
        Failure::invalid_use(format!("failed to write {}: {error}", trace.display()))
    })?;
    let trace_param = format!("trace={}", trace.display());
    let runner = Runner { folder: folder.path(), kernel, stop: &stop };
    let mut predicted = Vec::new();
    for (at, work) in ALL.iter().enumerate() {
        say(&format!("fsdyno: {}", work.words.join(" ")));
        let filesystems = work.filesystems.iter().flat_map(|fs| ["--fs", fs]);
        let words = |on: &[&'static str]| -> Vec<&str> {
            let own = work.words.iter().copied();
            own.map(|word| if word == GIT_CLONE_PARAM { trace_param.as_str() } else { word })
                .chain(on.iter().copied())
                .chain(filesystems.clone())
                .collect()
        };
        let host = words(&["--on", "ram:2G"]);
        let host = runner.measure(&host, REPEATS, &format!("host-{at}"), times)?;
        let Some(host) = host else { return Ok(None) };
        let mut lab =
            words(&["--on", "lab", "--machine", "classic", "--disk", "instant", "--jobs", "2"]);
        let kernel = runner.kernel_words();
        lab.extend(["--cpu", profile]);
        lab.extend(kernel.iter().map(String::as_str));
        let Some(lab) = runner.trials(&lab, 1, &format!("lab-{at}"))? else {
            return Ok(None);
        };
        let lab = times(&lab);
        predicted.extend(host.into_iter().filter_map(|((filesystem, operation), times)| {
            let predicted = lab.get(&(filesystem.clone(), operation.clone()))?;
            let setting = work.words.join(" ").replace(" --set", "");
            let (measured_ns, counts) = (times[0], [0.0; COSTS]);
            Some((Point { filesystem, operation, setting, measured_ns, counts }, predicted[0]))
        }));
    }
    Ok(Some(table(profile, &fit::judge(predicted))))
}

/// Returns the CPU times of each label and phase in nanoseconds per call, ascending.
fn times(trials: &[Trial]) -> Times {
    let mut times = Times::new();
    for trial in trials {
        for phase in trial.measured.phases.iter().filter(|phase| phase.cpu_ns.0 >= MIN_PHASE_NS) {
            let calls: u64 = phase.ops.values().map(|op| op.count).sum();
            let key = (trial.plan.label.clone(), phase.name.clone());
            times.entry(key).or_default().push(phase.cpu_ns.0 as f64 / calls.max(1) as f64);
        }
    }
    times.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
    times
}

/// Returns the comparison as Markdown: the errors of each workload and of all, then each phase.
fn table(profile: &str, all: &Validation) -> String {
    let mut text = format!(
        "CPU times by {profile}, over those of this machine:\n\n\
         | work | phases | median error | worst | ratios between file systems (rms) | \
         pairs over 10 % apart in the wrong order | pairs within 10 %, over 10 % apart in the lab |\n\
         |---|---|---|---|---|---|---|\n"
    );
    let mut line = |name: &str, found: &Validation| {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} of {} | {} of {} |",
            found.predicted.len(),
            percent(found.median),
            percent(found.worst),
            percent(found.ratio - 1.0),
            found.wrong_order,
            found.differing_pairs,
            found.false_differences,
            found.alike_pairs,
        );
    };
    let mut settings: Vec<&str> = Vec::new();
    for (point, _) in &all.predicted {
        if !settings.contains(&point.setting.as_str()) {
            settings.push(&point.setting);
        }
    }
    for setting in &settings {
        let of_setting = all.predicted.iter().filter(|(point, _)| point.setting == *setting);
        line(setting, &fit::judge(of_setting.cloned().collect()));
    }
    line("all", all);
    text.push_str(
        "\n| work | phase | file system | this machine, us per call | predicted | error |\n\
         |---|---|---|---|---|---|\n",
    );
    for (point, ns) in &all.predicted {
        let Point { filesystem, operation, setting, measured_ns, .. } = point;
        let _ = writeln!(
            text,
            "| {setting} | {operation} | {filesystem} | {:.2} | {:.2} | {:+.0} % |",
            measured_ns / 1000.0,
            ns / 1000.0,
            (ns / measured_ns - 1.0) * 100.0
        );
    }
    text
}
