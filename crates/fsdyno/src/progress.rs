//! How it goes: bars with time left on a terminal, one plain line for each trial elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_record::Plan;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_study::{Observer, Slot};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::say;

/// Watches a run for the user.
pub struct Show {
    trials: usize,
    ended: AtomicUsize,
    /// Ops of all trials, and those of trials that have ended: the measure of time left.
    ops: u64,
    ops_ended: AtomicU64,
    begin: Instant,
    bars: Option<Bars>,
    workers: Vec<Mutex<Worker>>,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
}

/// What one worker is at.
#[derive(Default)]
struct Worker {
    name: String,
    ops_done: u64,
    bar: Option<ProgressBar>,
}

impl Show {
    /// For a run of `trials` trials with `ops` ops in all, `jobs` of them side by side.
    pub fn new(trials: usize, ops: u64, jobs: usize) -> Show {
        let bars = std::io::stderr().is_terminal().then(|| {
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
        let done = self.ops_ended.load(Ordering::Relaxed);
        let rest = self.ops.saturating_sub(done);
        (done > 0 && rest > 0).then(|| self.begin.elapsed().mul_f64(rest as f64 / done as f64))
    }
}

impl Observer for Show {
    fn started(&self, worker: usize, plan: &Plan, slot: &Slot) {
        let Some(mut worker) = self.worker(worker) else { return };
        let workload = &plan.workload;
        // The points of a curve differ in their number of files.
        let curve = workload.params.get("curve").is_some_and(|curve| curve != "none");
        let point = workload.params.get("files").filter(|_| curve);
        let point = point.map(|files| format!(" files={files}")).unwrap_or_default();
        worker.name = format!("{}{point} {} seed {}", workload.name, plan.label, slot.seed);
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
        let line = self.line(ended, &worker.name, trial);
        match (&self.bars, worker.bar.take()) {
            (Some(bars), bar) => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                bars.total.set_message(format!("trials {ended}/{}", self.trials));
                let _ = bars.all.println(line);
            }
            (None, _) => say(&line),
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
    fn the_templates_of_the_bars_can_be_read() {
        for template in [
            "{msg:24!} {wide_bar} {percent:>3} %  {eta} left",
            "{prefix:24!} {wide_bar} {pos:>8}/{len:8} {msg:22!}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
