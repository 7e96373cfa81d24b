//! Fits a processor profile to this machine.
//!
//! The workload `calls` runs in memory on this machine, and in the lab with a model that counts. The costs of the
//! model's events are then fitted to this machine's CPU times, and validated on operations and file systems that were
//! excluded from the fit.

mod check;
mod trials;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, stop};
use fsdyno_processor::fit::{self, COSTS, Costs, Point, Validation};
use fsdyno_processor::{CacheSizes, Errors, Profile};
use fsdyno_record::Trial;
use fsdyno_record::processor::EVENTS;

use self::trials::{Runner, Times};
use crate::file::write;
pub use check::check;

/// File systems that are measured on a RAM device, as root; without root only tmpfs is measured.
const FILESYSTEMS: [&str; 4] = ["ext2", "ext4", "xfs", "btrfs"];
const MEMORY: &str = "tmpfs";
/// Lengths of names, for directory blocks with many entries and with few.
const NAMES: [u64; 2] = [8, 60];
/// Numbers of files in a directory, each with the repetitions on this machine, more if it is busy; the fastest counts.
/// Short trials need more.
const DIRECTORIES: [(u64, u32); 2] = [(100, 40), (3000, 8)];

/// The size of one way of the model's first caches, and of its instruction cache if the machine reports none.
const WAY_KIB: u64 = 4;
const DEFAULT_L1I_KIB: u64 = 32;

/// The time of an instruction while the lab counts. Events cost nothing then, so that no estimate affects the counts.
const COUNTING_INSTRUCTION_NS: f64 = 0.0625;

/// Measures, counts, and fits a processor profile; returns `None` if the user stopped it. `kernel` is that of the
/// lab's guests; if none, the version of this machine's kernel is used.
///
/// # Errors
/// A machine that is too busy or does not report its caches; failed trials.
pub fn processor(kernel: Option<String>) -> Result<Option<String>, Failure> {
    let kernel = kernel.or_else(trials::kernel_of_this_machine);
    let stop = stop::flag()?;
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::invalid_use(format!("failed to create a folder: {error}")))?;
    let caches = caches()?;
    let root = rustix::process::geteuid().is_root();
    if !root {
        say(
            "fsdyno: without root only tmpfs is measured: the profile is fitted to fewer operations; use sudo",
        );
    }
    let counting = folder.path().join("counting.toml");
    write(&counting, &profile_text("counts", &counting_costs(), caches, None, true)?)?;
    let runner = Runner { folder: folder.path(), kernel, stop: &stop };
    let mut points = Vec::new();
    let conditions =
        NAMES.into_iter().flat_map(|name| DIRECTORIES.map(|directory| (name, directory)));
    for (name, (files, repeats)) in conditions {
        let work = Work { runner: &runner, name, files, repeats, root };
        let Some(measured) = work.on_host()? else { return Ok(None) };
        let Some(counted) = work.in_lab(&counting)? else { return Ok(None) };
        points.extend(work.pair(&measured, &counted));
    }
    if points.is_empty() {
        return Err(Failure::invalid_use(
            "the lab counted none of the operations that this machine measured".to_string(),
        ));
    }
    let costs = fit::fit(&points);
    let by_operation = fit::validate(&points, |point| point.operation.clone());
    let by_filesystem = fit::validate(&points, |point| point.filesystem.clone());
    // Without root there is only one file system, and no ratio.
    let errors = root.then(|| errors(&[&by_operation, &by_filesystem]));
    let mut text = String::from("# Fitted by `fsdyno fit`: a processor, by `fsdyno fit cpu`\n");
    text.push_str(&report(&points, &costs, &by_operation, root.then_some(&by_filesystem)));
    text.push_str(&profile_text(&about(), &costs, caches, errors, false)?);
    Ok(Some(text))
}

fn counting_costs() -> Costs {
    let mut costs = [0.0; COSTS];
    costs[0] = COUNTING_INSTRUCTION_NS;
    costs
}

/// The trials with one length of names and one number of files.
struct Work<'a> {
    runner: &'a Runner<'a>,
    name: u64,
    files: u64,
    repeats: u32,
    root: bool,
}

impl Work<'_> {
    /// Measures each file system and phase on this machine; returns `None` if it was stopped.
    fn on_host(&self) -> Result<Option<Times>, Failure> {
        let shm = self.folder_in_memory()?;
        let memory = ["--on", &shm.path().display().to_string()].map(String::from);
        let Some(mut times) = self.measure("host-tmpfs", &memory)? else { return Ok(None) };
        if self.root {
            let mut args = vec!["--on".to_string(), "ram:2G".to_string()];
            args.extend(FILESYSTEMS.iter().flat_map(|fs| ["--fs".to_string(), fs.to_string()]));
            let Some(found) = self.measure("host", &args)? else { return Ok(None) };
            times.extend(found);
        }
        Ok(Some(times))
    }

    fn in_lab(&self, counting: &Path) -> Result<Option<Vec<Trial>>, Failure> {
        let cpu = counting.display().to_string();
        let mut args = [
            "--on",
            "lab",
            "--machine",
            "classic",
            "--disk",
            "instant",
            "--cpu",
            &cpu,
            "--fs",
            MEMORY,
        ]
        .map(String::from)
        .to_vec();
        if self.root {
            args.extend(FILESYSTEMS.iter().flat_map(|fs| ["--fs".to_string(), fs.to_string()]));
        }
        args.extend(self.runner.kernel_words());
        self.trials("lab", &args)
    }

    /// Creates a folder in a file system in memory.
    fn folder_in_memory(&self) -> Result<tempfile::TempDir, Failure> {
        tempfile::tempdir_in("/dev/shm").map_err(|error| {
            Failure::invalid_use(format!("failed to create a folder in /dev/shm: {error}"))
        })
    }

    /// Runs `calls` on this machine and returns the times of its phases, or `None` if it was stopped.
    fn measure(&self, name: &str, args: &[String]) -> Result<Option<Times>, Failure> {
        self.named(name, args, |words, out| {
            self.runner.measure(words, self.repeats, out, |trials| self.times(trials))
        })
    }

    /// Runs `calls` once and returns its trials, or `None` if it was stopped.
    fn trials(&self, name: &str, args: &[String]) -> Result<Option<Vec<Trial>>, Failure> {
        self.named(name, args, |words, out| self.runner.trials(words, 1, out))
    }

    /// Calls `run` with the arguments of `calls` and the name of a folder for its results.
    fn named<T>(
        &self,
        name: &str,
        args: &[String],
        run: impl FnOnce(&[&str], &str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        say(&format!("fsdyno: {name}, {}", self.setting()));
        let (files, names) = (format!("files={}", self.files), format!("name={}", self.name));
        let mut words = vec!["calls", "--set", &files, "--set", &names];
        words.extend(args.iter().map(String::as_str));
        run(&words, &format!("{name}-{}-{}", self.name, self.files))
    }

    /// Returns the conditions as text.
    fn setting(&self) -> String {
        format!("{} files, names of {} bytes", self.files, self.name)
    }

    /// Returns the CPU times of each file system and phase in nanoseconds per operation, ascending.
    fn times(&self, trials: &[Trial]) -> Times {
        let mut times = Times::new();
        for trial in trials {
            for phase in &trial.measured.phases {
                let key = (filesystem(trial), phase.name.clone());
                times.entry(key).or_default().push(phase.cpu_ns.0 as f64 / self.files as f64);
            }
        }
        times.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
        times
    }

    /// Pairs the times of this machine with the counts of the lab.
    fn pair(&self, times: &Times, counted: &[Trial]) -> Vec<Point> {
        let mut points = Vec::new();
        for trial in counted {
            for phase in &trial.measured.phases {
                let key = (filesystem(trial), phase.name.clone());
                let (Some(times), Some(counts)) = (times.get(&key), &phase.processor) else {
                    continue;
                };
                let count = |event: &str| {
                    counts.events.get(event).copied().unwrap_or_default() as f64 / self.files as f64
                };
                let mut row = [0.0; COSTS];
                row[0] = count("instructions");
                for (at, event) in EVENTS.iter().enumerate() {
                    row[at + 1] = count(event);
                }
                points.push(Point {
                    filesystem: key.0,
                    operation: key.1,
                    setting: self.setting(),
                    measured_ns: times[0],
                    counts: row,
                });
            }
        }
        points
    }
}

/// Returns the name of a trial's file system; a directory of the host stands for the file system in memory.
fn filesystem(trial: &Trial) -> String {
    trial.plan.filesystem.as_ref().map_or(MEMORY.to_string(), |fs| fs.kind.clone())
}

/// Returns the maximum of each kind of error over several validations, in percent.
fn errors(all: &[&Validation]) -> Errors {
    let largest = |figure: fn(&Validation) -> f64| {
        let share = all.iter().map(|found| figure(found)).fold(0.0, f64::max);
        (share * 100.0).ceil() as u64
    };
    Errors {
        median: largest(|found| found.median),
        worst: largest(|found| found.worst),
        ratio: largest(|found| found.ratio - 1.0),
    }
}

/// Returns the caches of the first CPU, from sysfs.
fn caches() -> Result<CacheSizes, Failure> {
    caches_in(Path::new("/sys/devices/system/cpu/cpu0/cache"))
}

/// Reads sizes and ways of caches from sysfs, in the form of the model: first caches with one way per 4 KiB.
fn caches_in(folder: &Path) -> Result<CacheSizes, Failure> {
    let mut found = [None; 2];
    let mut l1i_kib = None;
    for index in 0..8 {
        let read = |name: &str| {
            fs::read_to_string(folder.join(format!("index{index}/{name}"))).unwrap_or_default()
        };
        let number = |name: &str| read(name).trim().trim_end_matches('K').parse::<u64>().ok();
        let is_code = read("type").trim() == "Instruction";
        if is_code && number("level") == Some(1) {
            l1i_kib = number("size");
        }
        let level = number("level").filter(|_| !is_code);
        let Some((level, size, ways)) = level
            .zip(number("size"))
            .zip(number("ways_of_associativity"))
            .map(|((l, s), w)| (l, s, w))
        else {
            continue;
        };
        if let Some(slot) = (level as usize).checked_sub(1).and_then(|at| found.get_mut(at)) {
            *slot = Some((size, ways));
        }
    }
    match found {
        [Some((l1_kib, _)), Some((l2_kib, l2_ways))] => {
            let round_down = |kib: u64| kib / WAY_KIB * WAY_KIB;
            Ok(CacheSizes {
                l1_kib: round_down(l1_kib),
                l1_ways: l1_kib / WAY_KIB,
                l2_kib,
                l2_ways,
                l1i_kib: round_down(l1i_kib.unwrap_or(DEFAULT_L1I_KIB)),
            })
        }
        _ => Err(Failure::invalid_use(format!(
            "this machine does not report its data caches in {}",
            folder.display()
        ))),
    }
}

/// Returns the processor's name.
fn about() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("an unnamed processor".to_string(), |(_, name)| name.trim().to_string())
}

/// Returns the validation as comments: the measured times, and each point as predicted by a fit without its group.
fn report(
    points: &[Point],
    costs: &Costs,
    by_operation: &Validation,
    by_filesystem: Option<&Validation>,
) -> String {
    let mut text = String::new();
    let fitted = points.iter().map(|p| (p.clone(), fit::predict(costs, &p.counts))).collect();
    let mut line = |what: &str, found: &Validation| {
        let _ = writeln!(
            text,
            "# {what}: median error {:.1} %, worst {:.0} %, ratios between file systems within a factor of {:.2} \
             (rms); {} of {} pairs that differ by more than 10 % are in the wrong order",
            found.median * 100.0,
            found.worst * 100.0,
            found.ratio,
            found.wrong_order,
            found.differing_pairs
        );
    };
    line("fitted to all points", &fit::judge(fitted));
    line("each operation predicted without it", by_operation);
    if let Some(found) = by_filesystem {
        line("each file system predicted without it", found);
    }
    text.push_str("#\n# operation, file system, names: CPU time on this machine, predicted without the operation\n");
    let mut predicted: Vec<&(Point, f64)> = by_operation.predicted.iter().collect();
    predicted.sort_by(|(a, _), (b, _)| {
        (&a.operation, &a.filesystem, &a.setting).cmp(&(&b.operation, &b.filesystem, &b.setting))
    });
    for (point, ns) in predicted {
        let _ = writeln!(
            text,
            "# {:<15} {:<6} {}: {:7.2} us {:7.2} us ({:+.0} %)",
            point.operation,
            point.filesystem,
            point.setting,
            point.measured_ns / 1000.0,
            ns / 1000.0,
            (ns / point.measured_ns - 1.0) * 100.0
        );
    }
    text
}

fn profile_text(
    about: &str,
    costs: &Costs,
    caches: CacheSizes,
    error_percent: Option<Errors>,
    counting: bool,
) -> Result<String, Failure> {
    let profile = Profile {
        about: about.to_string(),
        estimate: false,
        instruction_ns: round(costs[0].max(0.03)),
        counting,
        events_ns: EVENTS
            .iter()
            .zip(&costs[1..])
            .map(|(event, ns)| (event.to_string(), round(*ns)))
            .collect(),
        caches,
        error_percent,
    };
    toml::to_string(&profile).map_err(|error| {
        Failure::invalid_use(format!("failed to write the processor profile: {error}"))
    })
}

/// Rounds to a millionth of a nanosecond.
fn round(ns: f64) -> f64 {
    (ns * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_a_machine_take_the_form_of_the_model() {
        let folder = tempfile::tempdir().unwrap();
        // A Cortex-A76: first caches of 64 KiB with 4 ways each, 512 KiB with 8 ways.
        for (index, level, kind, size, ways) in [
            (0, 1, "Data", "64K", 4),
            (1, 1, "Instruction", "64K", 4),
            (2, 2, "Unified", "512K", 8),
            (3, 3, "Unified", "2048K", 16),
        ] {
            let index = folder.path().join(format!("index{index}"));
            fs::create_dir(&index).unwrap();
            for (name, text) in [
                ("level", level.to_string()),
                ("type", kind.to_string()),
                ("size", size.to_string()),
                ("ways_of_associativity", ways.to_string()),
            ] {
                fs::write(index.join(name), text + "\n").unwrap();
            }
        }
        let caches = caches_in(folder.path()).unwrap();
        let expected = CacheSizes { l1_kib: 64, l1_ways: 16, l2_kib: 512, l2_ways: 8, l1i_kib: 64 };
        assert_eq!(caches, expected);
        let text = profile_text("it", &counting_costs(), caches, None, true).unwrap();
        assert!(Profile::from_toml("it.toml", &text).is_ok(), "{text}");
        let error = caches_in(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("does not report its data caches"), "{error}");
    }
}
