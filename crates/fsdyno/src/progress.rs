//! How it goes: bars with time left on a terminal, one plain line for each trial elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_record::Plan;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::naming::Names;
use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_study::{Observer, Slot};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::{Verbosity, complain, detail, say, wants};

/// Watches a run for the user.
pub struct Show {
    trials: usize,
    ended: AtomicUsize,
    /// Ops of all trials, and those of trials that have ended: the measure of time left.
    ops: u64,
    ops_ended: AtomicU64,
    /// What is known of each cell, by its number.
    cells: Mutex<BTreeMap<usize, Pace>>,
    /// What each cell is called, by its number.
    names: Vec<String>,
    /// Trials side by side.
    jobs: usize,
    begin: Instant,
    bars: Option<Bars>,
    workers: Vec<Mutex<Worker>>,
}

/// How long the trials of a cell take.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Trials to come, those that run included.
    rest: usize,
    ended: usize,
    /// Of those that have ended.
    took: Duration,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
}

/// What one worker is at.
#[derive(Default)]
struct Worker {
    name: String,
    cell: usize,
    ops_done: u64,
    bar: Option<ProgressBar>,
}

impl Show {
    /// For a run of a trial for each of `cells`, which say by number of which of `plans` it is, with `ops`
    /// ops in all, `jobs` of them side by side.
    pub fn new(plans: &[&Plan], cells: &[usize], ops: u64, jobs: usize) -> Show {
        let trials = cells.len();
        let mut paces: BTreeMap<usize, Pace> = BTreeMap::new();
        cells.iter().for_each(|cell| paces.entry(*cell).or_default().rest += 1);
        let on_terminal = std::io::stderr().is_terminal() && wants(Verbosity::Usual);
        let bars = on_terminal.then(|| {
            let all = MultiProgress::new();
            let total = all.add(ProgressBar::new(ops.max(1)));
            total.set_style(style("{msg:24!} {wide_bar} {percent:>3} %  {eta} left"));
            total.set_message(format!("trials 0/{trials}"));
            total.enable_steady_tick(Duration::from_millis(500));
            Bars { all, total }
        });
        Show {
            trials,
            ended: AtomicUsize::new(0),
            ops,
            ops_ended: AtomicU64::new(0),
            cells: Mutex::new(paces),
            names: names(plans),
            jobs,
            begin: Instant::now(),
            bars,
            workers: (0..jobs).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the bars off the screen.
    pub fn finish(&self) {
        if let Some(bars) = &self.bars {
            bars.total.finish_and_clear();
        }
    }

    fn worker(&self, worker: usize) -> Option<std::sync::MutexGuard<'_, Worker>> {
        let worker = self.workers.get(worker)?;
        Some(worker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn left(&self) -> Option<Duration> {
        let paces = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = by_cells(paces.values(), self.jobs) {
            return Some(left);
        }
        let done = self.ops_ended.load(Ordering::Relaxed);
        let rest = self.ops.saturating_sub(done);
        (done > 0 && rest > 0).then(|| self.begin.elapsed().mul_f64(rest as f64 / done as f64))
    }

    /// Counts a trial of a cell as ended.
    fn count(&self, cell: usize, took: Duration) {
        let mut paces = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let pace = paces.entry(cell).or_default();
        pace.rest = pace.rest.saturating_sub(1);
        pace.ended += 1;
        pace.took += took;
    }
}

impl Observer for Show {
    fn started(&self, worker: usize, plan: &Plan, slot: &Slot) {
        let Some(mut worker) = self.worker(worker) else { return };
        let name = self.names.get(slot.cell).unwrap_or(&plan.label);
        worker.name = format!("{name} seed {}", slot.seed);
        worker.cell = slot.cell;
        worker.ops_done = 0;
        worker.bar = self.bars.as_ref().map(|bars| {
            let bar = bars.all.insert_before(&bars.total, ProgressBar::new(1));
            bar.set_style(style("{prefix:24!} {wide_bar} {pos:>8}/{len:8} {msg:22!}"));
            bar.set_prefix(worker.name.clone());
            bar
        });
    }

    fn progress(&self, worker: usize, progress: &Progress) {
        let Some(bars) = &self.bars else { return };
        let Some(mut worker) = self.worker(worker) else { return };
        bars.total.inc(progress.ops_done.saturating_sub(worker.ops_done));
        worker.ops_done = worker.ops_done.max(progress.ops_done);
        if let Some(bar) = &worker.bar {
            bar.set_length(progress.ops_total.max(1));
            bar.set_position(progress.ops_done);
            bar.set_message(stage(progress, bar.eta()));
        }
    }

    fn ended(&self, worker: usize, trial: &Trial) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        let ops: u64 = trial
            .measured
            .phases
            .iter()
            .flat_map(|phase| phase.ops.values())
            .map(|stats| stats.count)
            .sum();
        // A failed trial is done as well, however few of its ops it came to.
        let share = self.ops / self.trials.max(1) as u64;
        self.ops_ended.fetch_add(ops.max(share), Ordering::Relaxed);
        let Some(mut worker) = self.worker(worker) else { return };
        self.count(worker.cell, Duration::from_nanos(trial.host.elapsed_ns.0));
        let line = self.line(ended, &worker.name, trial);
        match (&self.bars, worker.bar.take()) {
            (Some(bars), bar) => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                let left = self.left().map(|left| format!(", {} left", short(left)));
                let left = left.unwrap_or_default();
                bars.total.set_style(style(TOTAL));
                bars.total.set_message(format!("trials {ended}/{}{left}", self.trials));
                let _ = bars.all.println(line);
                if wants(Verbosity::Verbose) {
                    made(trial).iter().for_each(|line| drop(bars.all.println(line)));
                }
            }
            (None, _) => {
                // A failed trial is an error, whatever else goes on.
                if trial.outcome == Outcome::Failed {
                    complain(&line)
                } else {
                    say(&line)
                }
                made(trial).iter().for_each(|line| detail(line));
            }
        }
    }
}

impl Show {
    fn line(&self, ended: usize, name: &str, trial: &Trial) -> String {
        let elapsed = trial.host.elapsed_ns;
        let how = match (trial.outcome, &trial.reason) {
            (Outcome::Ok, _) => format!("ok in {elapsed}"),
            (_, Some(reason)) => format!("FAILED: {reason}"),
            (_, None) => "FAILED".to_string(),
        };
        let left = match (&self.bars, self.left()) {
            (None, Some(left)) => format!(", about {} left", short(left)),
            _ => String::new(),
        };
        format!("[{ended}/{}] {name}: {how}{left}", self.trials)
    }
}

/// How the file system of a trial was made and mounted, a line each.
fn made(trial: &Trial) -> Vec<String> {
    let found = &trial.conditions;
    let commands = found.before_mkfs.iter().chain([&found.mkfs]);
    let commands = commands.filter(|words| !words.is_empty()).map(|words| words.join(" "));
    let mount = Some(&found.mount).filter(|mount| !mount.is_empty());
    commands
        .chain(mount.map(|mount| format!("mount: {mount}")))
        .map(|it| format!("  {it}"))
        .collect()
}

/// What each plan is called among them all: `dirops ext4, ssd-sata`.
fn names(plans: &[&Plan]) -> Vec<String> {
    let names = Names::of(plans.iter().copied());
    plans.iter().map(|plan| format!("{} {}", names.workload(*plan), names.row(*plan))).collect()
}

/// Time left where each cell that has trials to come has one that ended, which tells more than ops do: the
/// same op takes another time in another cell.
fn by_cells<'a>(paces: impl Iterator<Item = &'a Pace>, jobs: usize) -> Option<Duration> {
    let mut left = Duration::ZERO;
    for pace in paces.filter(|pace| pace.rest > 0) {
        let ended = u32::try_from(pace.ended).ok().filter(|ended| *ended > 0)?;
        left += (pace.took / ended).mul_f64(pace.rest as f64);
    }
    (left > Duration::ZERO).then(|| left.div_f64(jobs.max(1) as f64))
}

/// The bar of the whole once trials tell the time left better than its ops.
const TOTAL: &str = "{msg:36!} {wide_bar} {percent:>3} %";

fn stage(progress: &Progress, eta: Duration) -> String {
    match progress.stage {
        Stage::Starting => "starting".to_string(),
        Stage::Ready | Stage::Preparing => "preparing".to_string(),
        Stage::Running => {
            format!("phase {}/{}, {} left", progress.phase + 1, progress.phases, short(eta))
        }
        Stage::Gap => "sync, remount".to_string(),
        Stage::Verifying => "verifying".to_string(),
        Stage::Checking => "checking the file system".to_string(),
        Stage::Done => "done".to_string(),
    }
}

/// A time left in the unit that one plans with.
fn short(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn style(template: &str) -> ProgressStyle {
    // A template that cannot be read is replaced by the default bar; the tests read them all.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_left_is_said_in_the_unit_that_fits() {
        assert_eq!(short(Duration::from_secs(42)), "42 s");
        assert_eq!(short(Duration::from_secs(120)), "2 min");
        assert_eq!(short(Duration::from_secs(7260)), "2 h 1 min");
    }

    #[test]
    fn the_time_left_is_that_of_the_trials_to_come_by_those_of_their_own_cells() {
        let pace = |rest, ended, seconds| Pace { rest, ended, took: Duration::from_secs(seconds) };
        let quick_and_slow = [pace(2, 2, 20), pace(3, 1, 100), pace(0, 4, 4000)];
        assert_eq!(by_cells(quick_and_slow.iter(), 1), Some(Duration::from_secs(320)));
        assert_eq!(by_cells(quick_and_slow.iter(), 2), Some(Duration::from_secs(160)));
        // Of one cell nothing is known yet.
        assert_eq!(by_cells([pace(2, 2, 20), pace(1, 0, 0)].iter(), 1), None);
        assert_eq!(by_cells([pace(0, 2, 20)].iter(), 1), None);
    }

    #[test]
    fn the_templates_of_the_bars_can_be_read() {
        for template in [
            TOTAL,
            "{msg:24!} {wide_bar} {percent:>3} %  {eta} left",
            "{prefix:24!} {wide_bar} {pos:>8}/{len:8} {msg:22!}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
