//! Measures how often a report calls one of several equal file systems slower than the best of them.
//!
//! `cargo bench -p fsdyno-report --bench false_differences -- [REPORTS]` makes records of k file systems with
//! lognormal times, computes the statistics that fsdyno reports on them, and counts the reports with a verdict
//! "faster" or "slower" between file systems that do not differ. The limit is 5 % (docs/statistics.md). k is 2 to 11
//! and n 3 to 10, in the lab (pairs by seed) and on a host (Welch), with one phase and with three, and in three shapes:
//!
//! - alike: all file systems have one mean and one deviation, 3 %;
//! - uneven: their deviations are from 1 to 8 %;
//! - halves: every second file system takes half as long again, and only pairs within a half are counted.
//!
//! A share is itself an estimate, so a line is NOT KEPT only if its share exceeds 5 % by more than chance causes once
//! in a thousand.

#![allow(clippy::unwrap_used, reason = "a bench reports its errors by panicking")]

use std::fs::OpenOptions;
use std::io::Write as _;

use fsdyno_record::plan::{IssuerPlan, MediumPlan, Plan, VenuePlan, VerifyMode, WorkloadPlan};
use fsdyno_record::seed::{SplitMix64, stream};
use fsdyno_record::trial::{Conditions, Host, Measured, Outcome, Phase, trial_id};
use fsdyno_record::{Nanos, Trial};
use fsdyno_report::{Basis, Format, SpecialFormat, Style, table};

/// Number of reports on a host for each k, n, number of phases and shape.
const REPORTS: usize = 10;

/// The number of reports of the lab for each report on a host. They are fast because no permutation test runs.
const LAB_FACTOR: usize = 8;

/// The limit for the probability of a false difference.
const LIMIT: f64 = 0.05;

/// The number of standard deviations that chance exceeds once in a thousand.
const ONCE_IN_A_THOUSAND: f64 = 3.09;

/// The maximum number of file systems.
const MAX_K: usize = 11;
const SEEDS: std::ops::RangeInclusive<usize> = 3..=10;
const PHASES: [usize; 2] = [1, 3];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Alike,
    Uneven,
    Halves,
}

const SHAPES: [Shape; 3] = [Shape::Alike, Shape::Uneven, Shape::Halves];

impl Shape {
    /// Returns the mean and the deviation of the logarithms of a file system's times.
    fn distribution(self, index: usize) -> (f64, f64) {
        match self {
            Shape::Alike => (0.0, 0.03),
            Shape::Uneven => (0.0, 0.01 * f64::from(1 << (index % 4))),
            Shape::Halves => (self.half(index) as f64 * 1.5f64.ln(), 0.03),
        }
    }

    /// Returns the group of equal file systems to which a file system belongs.
    fn half(self, index: usize) -> usize {
        if self == Shape::Halves { index % 2 } else { 0 }
    }
}

struct ReportCounts {
    wrong: usize,
    all: usize,
}

impl ReportCounts {
    fn share(&self) -> f64 {
        self.wrong as f64 / self.all as f64
    }

    fn is_within_limit(&self) -> bool {
        let all = self.all as f64;
        let chance = ONCE_IN_A_THOUSAND * (LIMIT * (1.0 - LIMIT) * all).sqrt();
        self.wrong as f64 <= LIMIT * all + chance
    }
}

fn main() {
    let reports = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(REPORTS);
    let mut draws = stream(20, "false differences");
    println!("share of reports with a false difference; columns: k file systems");
    let headers: Vec<String> = (2..=MAX_K).map(|k| format!("{k:>6}")).collect();
    println!("{:<24}{}", "", headers.concat());
    for lab in [true, false] {
        let mut worst = ReportCounts { wrong: 0, all: 1 };
        for shape in SHAPES {
            for phases in PHASES {
                let what = format!("{shape:?}, {phases} phases").to_lowercase();
                print!("{} {what:<19}", if lab { "lab " } else { "host" });
                for k in 2..=MAX_K {
                    let mut counted = ReportCounts { wrong: 0, all: 0 };
                    for n in SEEDS {
                        for _ in 0..reports * if lab { LAB_FACTOR } else { 1 } {
                            let trials = trials((k, n, phases), shape, lab, &mut draws);
                            counted.wrong += usize::from(has_false_difference(&trials, shape));
                            counted.all += 1;
                        }
                    }
                    print!(
                        "{:5.1}{}",
                        100.0 * counted.share(),
                        if counted.is_within_limit() { ' ' } else { '!' }
                    );
                    std::io::stdout().flush().unwrap();
                    if counted.share() > worst.share() {
                        worst = counted;
                    }
                }
                println!();
            }
        }
        print_summary(lab, &worst);
    }
}

/// Prints the line for the summary: the largest share over all numbers of file systems.
fn print_summary(lab: bool, worst: &ReportCounts) {
    let name = format!("reports with a false difference, {}", if lab { "lab" } else { "host" });
    let line = format!(
        "{name:<48} {:>10.2} {:<12} promised: at most {} but for chance  {}\n",
        100.0 * worst.share(),
        "%",
        100.0 * LIMIT,
        if worst.is_within_limit() { "kept" } else { "NOT KEPT" }
    );
    print!("{line}");
    if let Ok(path) = std::env::var("FSDYNO_BENCH_SUMMARY") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// Returns true if the report calls a row faster or slower than a base to which it is equal.
fn has_false_difference(trials: &[Trial], shape: Shape) -> bool {
    let basis = Basis { least_difference: 0.0, ..None.into() };
    let csv = table(trials, basis, Format::Special(SpecialFormat::StatisticsCsv), Style::default())
        .unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|head| *head == name).unwrap();
    let (phase, row, ratio, verdict) =
        (column("phase"), column("row"), column("ratio"), column("verdict"));
    let half = |line: &[&str]| shape.half(line[row][2..].parse().unwrap());
    lines[1..].iter().any(|line| {
        let is_base = |other: &&Vec<&str>| other[phase] == line[phase] && other[ratio] == "1";
        let base = lines[1..].iter().find(is_base).unwrap();
        ["faster", "slower"].contains(&line[verdict]) && half(line) == half(base)
    })
}

/// Draws the records of k file systems with n seeds each and this number of phases.
fn trials(
    (k, n, phases): (usize, usize, usize),
    shape: Shape,
    lab: bool,
    draws: &mut SplitMix64,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for seed in 1..=n as u64 {
        for index in 0..k {
            let mut trial = blank_trial(&format!("fs{index}"), seed, lab);
            trial.host.started = format!("{}", trials.len());
            for phase in 0..phases {
                let (mean, deviation) = shape.distribution(index);
                let seconds = 60.0 * (mean + deviation * normal(draws)).exp();
                let time = Nanos((seconds * 1e9) as u64);
                trial.measured.phases.push(Phase {
                    name: format!("phase{phase}"),
                    returned_ns: time,
                    durable_ns: Some(time),
                    ..Phase::default()
                });
            }
            trials.push(trial);
        }
    }
    trials
}

fn blank_trial(label: &str, seed: u64, lab: bool) -> Trial {
    let workload = WorkloadPlan { name: "dirops".into(), params: Default::default(), input: None };
    let plan = Plan {
        label: label.into(),
        workload,
        filesystem: None,
        medium: MediumPlan::Directory { path: "/srv".into() },
        venue: VenuePlan::Host,
        threads: 1,
        issuer: IssuerPlan::Sync,
        verify: VerifyMode::Full,
        sysctls: Default::default(),
        hash: String::new(),
    };
    let plan = plan.with_hash();
    Trial {
        schema: fsdyno_record::SCHEMA,
        trial_id: trial_id(&plan, seed),
        lab_id: lab.then(|| "lab".into()),
        lab: Default::default(),
        seed,
        repeats: None,
        version: String::new(),
        row: None,
        deadline_ns: None,
        outcome: Outcome::Ok,
        reason: None,
        plan,
        conditions: Conditions {
            venue: if lab { "lab" } else { "host" }.into(),
            ..Conditions::default()
        },
        measured: Measured::default(),
        host: Host::default(),
    }
}

/// Draws a standard normal deviate (Box and Muller).
fn normal(draws: &mut SplitMix64) -> f64 {
    let mut unit = || (draws.draw() >> 11) as f64 / (1u64 << 53) as f64;
    let (a, b) = (1.0 - unit(), unit());
    (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
}
