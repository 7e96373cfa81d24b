//! mdtest's SUMMARY, for dirops shared by ranks or by the lab's clients: rates over the repeats of one plan (hpc/ior
//! 4.1, src/mdtest.c, as of November 2026).
//!
//! A rate is the number of files divided by the time of the slowest rank; the standard deviation is that of a sample
//! (n - 1), as in mdtest, and zero for one iteration.

use fsdyno_record::trial::{Outcome, Phase};
use fsdyno_record::{OpKind, Trial};

/// The phases of dirops with mdtest's names, in its order.
const OPERATIONS: [(&str, &str); 3] =
    [("create", "File creation"), ("stat", "File stat"), ("delete", "File removal")];

/// The SUMMARY of each plan whose trials were shared by ranks or clients, in the order of the trials, or empty if
/// there is none.
pub(super) fn summaries(trials: &[Trial]) -> Vec<String> {
    let has_form = |trial: &&Trial| {
        let is_shared = trial.measured.ranks.is_some() || clients(trial).is_some();
        let shared = is_shared && trial.plan.workload.name == "dirops";
        shared && trial.outcome == Outcome::Ok
    };
    let mut plans: Vec<(&str, Vec<&Trial>)> = Vec::new();
    for trial in trials.iter().filter(has_form) {
        let hash = trial.plan.hash.as_str();
        match plans.iter_mut().find(|(known, _)| *known == hash) {
            Some((_, repeats)) => repeats.push(trial),
            None => plans.push((hash, vec![trial])),
        }
    }
    plans.into_iter().map(|(_, repeats)| summary(&repeats)).collect()
}

fn summary(repeats: &[&Trial]) -> String {
    let (tasks, files) = repeats.first().map_or((0, 0), |trial| tasks_and_files(trial));
    let mut out = format!("{tasks} tasks, {files} files\n\n");
    out.push_str(&format!("SUMMARY rate (in ops/sec): (of {} iterations)\n", repeats.len()));
    out.push_str(&line("Operation", ["Max", "Min", "Mean", "Std Dev"].map(String::from)));
    out.push_str(&line("---------", ["---", "---", "----", "-------"].map(String::from)));
    for (phase, name) in OPERATIONS {
        let rates: Vec<f64> = repeats.iter().filter_map(|trial| rate(trial, phase)).collect();
        let values = [
            rates.iter().copied().reduce(f64::max).unwrap_or(0.0),
            rates.iter().copied().reduce(f64::min).unwrap_or(0.0),
            mean(&rates),
            deviation(&rates),
        ];
        out.push_str(&line(name, values.map(|value| format!("{value:.3}"))));
    }
    out
}

/// A line of mdtest's table.
fn line(name: &str, cells: [String; 4]) -> String {
    let [max, min, mean, deviation] = cells;
    format!("   {name:<18} {max:>14} {min:>14} {mean:>14} {deviation:>14}\n")
}

/// Returns the number of the lab's clients that shared a trial.
fn clients(trial: &Trial) -> Option<u32> {
    trial.plan.lab()?.clients
}

/// Returns the number of tasks, which are the ranks or the threads of all clients, and of the files of the first phase.
fn tasks_and_files(trial: &Trial) -> (u64, u64) {
    match (&trial.measured.ranks, clients(trial)) {
        (Some(ranks), _) => {
            let ranks = ranks.phases.first().map_or(&[][..], |phase| &phase.ranks);
            (ranks.len() as u64, ranks.iter().map(|rank| rank.items).sum())
        }
        (None, clients) => {
            let tasks = u64::from(clients.unwrap_or(1)) * u64::from(trial.plan.threads);
            (tasks, trial.measured.phases.first().map_or(0, items))
        }
    }
}

/// Returns the number of files of a phase, in which each file takes one call of the most frequent kind, not counting
/// its close.
fn items(phase: &Phase) -> u64 {
    let calls = phase.ops.iter().filter(|(kind, _)| **kind != OpKind::Close);
    calls.map(|(_, stats)| stats.count).max().unwrap_or(0)
}

fn rate(trial: &Trial, name: &str) -> Option<f64> {
    let (items, last_done) = match &trial.measured.ranks {
        Some(ranks) => {
            let phase = ranks.phases.iter().find(|phase| phase.name == name)?;
            (phase.ranks.iter().map(|rank| rank.items).sum::<u64>(), phase.last_done_ns)
        }
        None => {
            let phase = trial.measured.phases.iter().find(|phase| phase.name == name)?;
            (items(phase), phase.returned_ns)
        }
    };
    (!last_done.is_zero()).then(|| items as f64 * 1e9 / last_done.0 as f64)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean_value = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean_value).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_record::Nanos;
    use fsdyno_record::ranks::{RankPhase, RanksMeasured, RanksPhase};

    fn trial(name: &str, last_done: u64) -> Trial {
        let rank = RankPhase { items: 500, ..RankPhase::default() };
        let phase = RanksPhase {
            name: name.into(),
            last_done_ns: Nanos(last_done),
            ranks: vec![rank.clone(), rank],
            ..RanksPhase::default()
        };
        let mut trial = fixture::trials().remove(0);
        trial.plan.workload.name = "dirops".into();
        trial.measured.ranks =
            Some(RanksMeasured { phases: vec![phase], ..RanksMeasured::default() });
        trial
    }

    /// The layout is that of a run of mdtest 4.1.0+dev: -F -C -T -r -n 500 -i 2. mdtest prints the line about its tasks
    /// earlier; here it precedes each table, because the numbers of tasks can differ.
    #[test]
    fn the_table_has_the_layout_of_mdtests_table() {
        let trials = [trial("create", 100_000_000), trial("create", 50_000_000)];
        let all = summaries(&trials);
        let lines: Vec<&str> = all[0].lines().collect();
        assert_eq!(lines[..2], ["2 tasks, 1000 files", ""]);
        assert_eq!(lines[2], "SUMMARY rate (in ops/sec): (of 2 iterations)");
        let head =
            "   Operation                     Max            Min           Mean        Std Dev";
        assert_eq!(lines[3], head);
        let create =
            "   File creation           20000.000      10000.000      15000.000       7071.068";
        assert_eq!(lines[5], create);
        assert_eq!(lines.len(), 8);
        assert!(summaries(&fixture::trials()).is_empty(), "without ranks there is no table");
    }

    #[test]
    fn clients_of_the_lab_are_tasks_too() {
        let mut trial = fixture::trials().remove(0);
        trial.plan.workload.name = "dirops".into();
        let lab = trial.plan.lab_mut().unwrap();
        lab.clients = Some(4);
        let files = items(&trial.measured.phases[0]);
        let name = trial.measured.phases[0].name.clone();
        assert!(files > 0 && name == "create", "{name}");
        let text = summaries(&[trial.clone()]).concat();
        assert!(text.starts_with(&format!("4 tasks, {files} files\n")), "{text}");
        let rate = files as f64 * 1e9 / trial.measured.phases[0].returned_ns.0 as f64;
        assert!(text.contains(&format!("{rate:.3}")), "{text}");
    }
}
