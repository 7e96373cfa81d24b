//! Displays progress: bars with the remaining time on a terminal, one plain line per trial elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_axes::naming::RowNames;
use fsdyno_campaign::first_round::FirstRound;
use fsdyno_campaign::speed;
use fsdyno_campaign::time_left::{Planned, Remaining, TimeLeft};
use fsdyno_campaign::{Observer, Slot};
use fsdyno_record::Plan;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::trial::{Outcome, Trial};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::{Verbosity, detail, is_shown, say, write_stderr};

/// Displays the progress of a run.
pub struct Display {
    trials: usize,
    trials_ended: AtomicUsize,
    stopping: Once,
    time_left: Mutex<TimeLeft>,
    /// Names of the cells, by index.
    names: Vec<String>,
    start: Instant,
    first_round: Mutex<FirstRound>,
    bars: Option<Bars>,
    workers: Vec<Mutex<Worker>>,
}

struct Bars {
    multi: MultiProgress,
    total: ProgressBar,
}

/// The state of one worker.
#[derive(Default)]
struct Worker {
    name: String,
    cell: usize,
    ops_done: u64,
    bar: Option<ProgressBar>,
}

impl Display {
    /// Creates the display of a run of these trials, whose cells are indices into `plans`; `jobs` trials run at the
    /// same time.
    pub fn new(plans: &[&Plan], planned: &[Planned], jobs: usize) -> Display {
        let trials = planned.len();
        let ops: u64 = planned.iter().map(|trial| trial.ops).sum();
        let on_terminal = std::io::stderr().is_terminal() && is_shown(Verbosity::Usual);
        let bars = on_terminal.then(|| {
            let multi = MultiProgress::new();
            let total = multi.add(ProgressBar::new(ops.max(1)));
            total.set_style(style(TOTAL));
            total.set_message(format!("trials 0/{trials}"));
            total.enable_steady_tick(Duration::from_millis(500));
            Bars { multi, total }
        });
        Display {
            trials,
            trials_ended: AtomicUsize::new(0),
            stopping: Once::new(),
            time_left: Mutex::new(TimeLeft::new(planned, jobs)),
            names: cell_names(plans),
            start: Instant::now(),
            first_round: Mutex::new(FirstRound::new(planned)),
            bars,
            workers: (0..jobs).map(|_| Mutex::default()).collect(),
        }
    }

    fn worker(&self, worker: usize) -> Option<std::sync::MutexGuard<'_, Worker>> {
        let worker = self.workers.get(worker)?;
        Some(worker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn time_left(&self) -> std::sync::MutexGuard<'_, TimeLeft> {
        self.time_left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first_round(&self) -> std::sync::MutexGuard<'_, FirstRound> {
        self.first_round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the preliminary result, if there is one now.
    fn print_preliminary(&self, result: Option<String>) {
        match (&self.bars, result) {
            (Some(bars), Some(line)) => drop(bars.multi.println(line)),
            (None, Some(line)) => say(&line),
            (_, None) => {}
        }
    }

    /// Returns the message of the total: `trials 3/12, over 5 min left`.
    fn total_message(&self) -> String {
        let remaining = self.time_left().of_all(self.start.elapsed());
        let remaining = remaining.map(|time| format!(", {time} left")).unwrap_or_default();
        format!("trials {}/{}{remaining}", self.trials_ended.load(Ordering::Relaxed), self.trials)
    }
}

impl Observer for Display {
    fn started(&self, worker: usize, plan: &Plan, slot: &Slot) {
        self.time_left().started(worker, slot.cell, self.start.elapsed());
        let Some(mut worker) = self.worker(worker) else { return };
        let name = self.names.get(slot.cell).unwrap_or(&plan.label);
        worker.name = format!("{name} seed {}", slot.seed);
        (worker.cell, worker.ops_done) = (slot.cell, 0);
        worker.bar = self.bars.as_ref().map(|bars| {
            let bar = bars.multi.insert_before(&bars.total, ProgressBar::new(1));
            bar.set_style(style("{prefix:24!} {wide_bar} {pos:>8}/{len:8} {msg:22!}"));
            bar.set_prefix(worker.name.clone());
            bar
        });
    }

    fn progress(&self, index: usize, progress: &Progress) {
        let is_running = progress.stage == Stage::Running;
        self.time_left().progress(index, progress.ops_done, is_running, self.start.elapsed());
        let Some(bars) = &self.bars else { return };
        let Some(mut worker) = self.worker(index) else { return };
        bars.total.set_message(self.total_message());
        bars.total.inc(progress.ops_done.saturating_sub(worker.ops_done));
        worker.ops_done = worker.ops_done.max(progress.ops_done);
        if let Some(bar) = &worker.bar {
            bar.set_length(progress.ops_total.max(1));
            bar.set_position(progress.ops_done);
            let remaining = self.time_left().of_trial(index, progress.ops_total);
            bar.set_message(describe_stage(progress, remaining));
        }
    }

    fn ended(&self, index: usize, trial: &Trial) {
        let ended = self.trials_ended.fetch_add(1, Ordering::Relaxed) + 1;
        let took = (trial.outcome == Outcome::Ok).then(|| speed::took(trial));
        self.time_left().ended(index, took);
        let Some(mut worker) = self.worker(index) else { return };
        let line = self.trial_line(ended, &worker.name, trial);
        match (&self.bars, worker.bar.take()) {
            (Some(bars), bar) => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                bars.total.set_message(self.total_message());
                let _ = bars.multi.println(line);
                if is_shown(Verbosity::Verbose) {
                    setup_commands(trial).iter().for_each(|line| drop(bars.multi.println(line)));
                }
            }
            (None, _) => {
                // A failed trial is an error, which --quiet does not suppress.
                if trial.outcome == Outcome::Failed {
                    write_stderr(&line)
                } else {
                    say(&line)
                }
                setup_commands(trial).iter().for_each(|line| detail(line));
            }
        }
        let left = self.trials.saturating_sub(ended);
        let result = self.first_round().ended(worker.cell, trial, self.start.elapsed(), left);
        self.print_preliminary(result);
    }

    fn skipped(&self, slot: &Slot) {
        let ended = self.trials_ended.fetch_add(1, Ordering::Relaxed) + 1;
        self.time_left().skipped(slot.cell);
        let left = self.trials.saturating_sub(ended);
        let result = self.first_round().skipped(slot.cell, self.start.elapsed(), left);
        self.print_preliminary(result);
    }

    /// Reports once that the run is stopping, because the removal of a large tree can take minutes.
    fn stopping(&self) {
        self.stopping.call_once(|| match &self.bars {
            Some(bars) => drop(bars.multi.println(STOPPING)),
            None => say(STOPPING),
        });
    }

    /// Clears the bars.
    fn finished(&self) {
        if let Some(bars) = &self.bars {
            bars.total.finish_and_clear();
        }
    }
}

impl Display {
    fn trial_line(&self, ended: usize, name: &str, trial: &Trial) -> String {
        let elapsed = trial.host.elapsed_ns;
        let result = match (trial.outcome, &trial.reason) {
            (Outcome::Ok, _) => format!("ok in {elapsed}"),
            (_, Some(reason)) => format!("FAILED: {reason}"),
            (_, None) => "FAILED".to_string(),
        };
        let remaining =
            self.time_left().of_all(self.start.elapsed()).filter(|_| self.bars.is_none());
        let remaining = remaining.map(|time| format!(", about {time} left")).unwrap_or_default();
        format!("[{ended}/{}] {name}: {result}{remaining}", self.trials)
    }
}

/// Returns the mkfs and mount commands of a trial, one per line.
fn setup_commands(trial: &Trial) -> Vec<String> {
    let conditions = &trial.conditions;
    let commands = conditions.before_mkfs.iter().chain([&conditions.mkfs]);
    let commands = commands.filter(|argv| !argv.is_empty()).map(|argv| argv.join(" "));
    let mount = Some(&conditions.mount).filter(|mount| !mount.is_empty());
    commands
        .chain(mount.map(|mount| format!("mount: {mount}")))
        .map(|command| format!("  {command}"))
        .collect()
}

/// Returns names that distinguish the plans: `dirops ext4, ssd-sata`.
fn cell_names(plans: &[&Plan]) -> Vec<String> {
    let names = RowNames::of(plans.iter().copied());
    plans.iter().map(|plan| format!("{} {}", names.workload(*plan), names.row(*plan))).collect()
}

/// The message about the effect of a signal.
const STOPPING: &str = "fsdyno: stopping, and removing what the running trials made; a second signal ends fsdyno immediately \
    and leaves the removal to fsdyno doctor --clean";

/// The bar of the run. The message contains the remaining time, because the number of operations done says little about
/// boots and checks.
const TOTAL: &str = "{msg:36!} {wide_bar} {percent:>3} %";

fn describe_stage(progress: &Progress, remaining: Option<Remaining>) -> String {
    match progress.stage {
        Stage::Starting => "starting".to_string(),
        Stage::Ready | Stage::Preparing => "preparing".to_string(),
        Stage::Running => {
            let remaining = remaining.map(|time| format!(", {time} left")).unwrap_or_default();
            format!("phase {}/{}{remaining}", progress.phase + 1, progress.phases)
        }
        Stage::Gap => "sync, remount".to_string(),
        Stage::Verifying => "verifying".to_string(),
        Stage::Checking => "checking the file system".to_string(),
        Stage::Done => "done".to_string(),
    }
}

fn style(template: &str) -> ProgressStyle {
    // An invalid template is replaced by the default bar; a test parses all templates.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_of_the_bars_are_valid() {
        for template in [TOTAL, "{prefix:24!} {wide_bar} {pos:>8}/{len:8} {msg:22!}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
