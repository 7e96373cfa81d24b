//! Stored results of crash tests: the rows of `crash.json`, and one file per finding.

use fsdyno_record::trial::{AgentReport, Phase};
use fsdyno_record::{Build, Nanos, Plan};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::atomic_unit::AtomicUnit;
use crate::cut::{Cut, DiskFault};
use crate::judge::Findings;
use crate::recovered::{RecoveredTree, Recovery};

/// Name of the rows' file in a result folder.
pub const ROWS_FILE: &str = "crash.json";

/// Name of the file with the done part of an unfinished row.
pub const PART_FILE: &str = "crash.part.json";

/// Format version of both files.
const VERSION: u32 = 1;

/// The current oracle. Version 1 accepted a synced file under any name that it ever had; version 2 accepts no
/// name that a later durable one has replaced.
const ORACLE: u32 = 2;

/// One cut and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutOutcome {
    /// The crash point and the surviving writes.
    pub cut: Cut,
    /// Course of the recovery.
    pub recovery: Recovery,
    /// The oracle's findings.
    pub findings: Findings,
}

impl CutOutcome {
    /// Creates the outcome of a cut from the findings after it.
    pub fn new(cut: Cut, found: &RecoveredTree, findings: Findings) -> CutOutcome {
        let recovery = Recovery { index: cut.number, ..found.recovery.clone() };
        CutOutcome { cut, recovery, findings }
    }

    /// Returns whether two outcomes agree, except for the duration of the mount, which depends on what the guest
    /// did before.
    pub fn agrees_with(&self, other: &CutOutcome) -> bool {
        let recovery = Recovery { mount_ns: other.recovery.mount_ns, ..self.recovery.clone() };
        (self.cut, &recovery, &self.findings) == (other.cut, &other.recovery, &other.findings)
    }

    /// Returns whether it is stored as a finding.
    pub fn is_finding(&self) -> bool {
        let Findings { names_lost, names_doubled, .. } = self.findings;
        let damaged = self.recovery.unclean.is_some() || self.recovery.refused.is_some();
        self.findings.violations() + names_lost + names_doubled > 0
            || damaged
            || self.recovery.lost.is_some()
    }
}

/// The crash tests of one file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Format version: 1.
    #[serde(default = "version")]
    pub crash: u32,
    /// Label of the file system in the table.
    pub label: String,
    /// The plan.
    pub plan: Plan,
    /// Seed of the trial and of its cuts.
    #[serde(default)]
    pub seed: u64,
    /// Fault of the disk.
    #[serde(default)]
    pub disk: DiskFault,
    /// Atomic write unit of the disk, in bytes.
    #[serde(default, rename = "tear")]
    pub atomic_unit: AtomicUnit,
    /// Version of the oracle; older rows omit it, and were judged by version 1.
    #[serde(default = "first_oracle")]
    pub oracle: u32,
    /// Identity of the lab.
    pub lab_id: Option<String>,
    /// Build of fsdyno, if its commit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Speed of the logged trial.
    pub rate: Rate,
    /// The outcomes of all cuts.
    #[serde(rename = "tried")]
    pub outcomes: Vec<CutOutcome>,
    /// Reason why the file system could not be tested, in which case there are no outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// The speed of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The phase that took longest until it was durable.
    pub phase: String,
    /// Unit of the rate.
    pub unit: String,
    /// Units per second.
    pub per_second: f64,
}

impl Rate {
    /// Returns the rate of the phase that took longest.
    pub fn of(report: &AgentReport) -> Rate {
        let time =
            |phase: &Phase| phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns);
        let Some(phase) = report.measured.phases.iter().max_by_key(|phase| time(phase)) else {
            return Rate::default();
        };
        let counted =
            phase.unit.as_ref().and_then(|unit| Some((unit.clone(), *phase.books.get(unit)?)));
        let (unit, count) =
            counted.unwrap_or_else(|| ("ops".into(), phase.ops.values().map(|op| op.count).sum()));
        let seconds = time(phase).0 as f64 / 1e9;
        Rate { phase: phase.name.clone(), unit, per_second: count as f64 / seconds.max(1e-9) }
    }
}

impl Row {
    /// Creates the row of a file system, with the physical sector of its disk as the atomic write unit.
    pub fn new(
        plan: &Plan,
        seed: u64,
        disk: DiskFault,
        rate: Rate,
        outcomes: Vec<CutOutcome>,
    ) -> Row {
        let (label, atomic_unit, plan) = (plan.label.clone(), AtomicUnit::of(plan), plan.clone());
        let (crash, oracle, lab_id, build, skipped) = (VERSION, ORACLE, None, None, None);
        Row {
            crash,
            label,
            plan,
            seed,
            disk,
            atomic_unit,
            oracle,
            lab_id,
            build,
            rate,
            outcomes,
            skipped,
        }
    }

    /// Creates the row of a file system that cannot run here.
    pub fn skipped(plan: &Plan, seed: u64, disk: DiskFault, reason: String) -> Row {
        let row = Row::new(plan, seed, disk, Rate::default(), Vec::new());
        Row { skipped: Some(reason), ..row }
    }

    /// Returns the physical sector of its disk if the atomic write unit is smaller, and thus harsher than the disk.
    pub fn sector_if_unit_is_finer(&self) -> Option<AtomicUnit> {
        let sector = AtomicUnit::of(&self.plan);
        (self.atomic_unit < sector).then_some(sector)
    }

    /// Returns the physical sector of its disk if the atomic write unit is larger, and thus milder than the disk.
    pub fn sector_if_unit_is_coarser(&self) -> Option<AtomicUnit> {
        let sector = AtomicUnit::of(&self.plan);
        (self.atomic_unit > sector).then_some(sector)
    }

    /// Returns whether its cuts were judged by an older oracle, which accepted a synced file under an old name.
    pub fn has_old_oracle(&self) -> bool {
        self.oracle < ORACLE
    }

    /// Returns the number of cuts after which the file system could not be examined, so that nothing was judged.
    pub fn unmountable(&self) -> usize {
        self.count(|outcome| outcome.recovery.lost.is_some())
    }

    /// Returns whether anything acknowledged is lost, or may be lost because the file system could not be examined.
    pub fn may_lose_data(&self) -> bool {
        self.violations() > 0 || self.unmountable() > 0
    }

    fn each<T>(&self, figure: impl Fn(&CutOutcome) -> T) -> impl Iterator<Item = T> {
        self.outcomes.iter().map(figure)
    }

    /// Returns the number of violations of all cuts.
    pub fn violations(&self) -> u64 {
        self.sum(|outcome| outcome.findings.violations())
    }

    /// Returns the sum of a figure over all cuts.
    pub fn sum(&self, figure: impl Fn(&CutOutcome) -> u64) -> u64 {
        self.each(figure).sum()
    }

    /// Returns the median and the maximum of a figure over all cuts.
    pub fn median_and_max(&self, figure: impl Fn(&CutOutcome) -> u64) -> (u64, u64) {
        let mut all: Vec<u64> = self.each(figure).collect();
        all.sort_unstable();
        (all.get(all.len() / 2).copied().unwrap_or(0), all.last().copied().unwrap_or(0))
    }

    /// Returns the number of cuts that satisfy a condition.
    pub fn count(&self, condition: impl Fn(&CutOutcome) -> bool) -> usize {
        self.each(condition).filter(|met| *met).count()
    }
}

/// A finding, stored in a file with everything needed to repeat it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Format version: 1.
    pub crash_finding: u32,
    /// The plan, with its label.
    pub plan: Plan,
    /// The seed.
    pub seed: u64,
    /// Deadline in virtual time.
    pub deadline: Nanos,
    /// Fault of the disk.
    pub disk: DiskFault,
    /// Atomic write unit of the disk, in bytes; older files omit it, and were made with 512.
    #[serde(default, rename = "tear")]
    pub atomic_unit: AtomicUnit,
    /// Identity of the lab in which the crash point is reproducible.
    pub lab_id: Option<String>,
    /// Build of fsdyno that made this finding, if its commit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The outcome of the cut.
    #[serde(rename = "tried")]
    pub outcome: CutOutcome,
}

/// Returns the first `max` findings of a row as files, and the number of the others.
pub fn findings(row: &Row, deadline: Nanos, max: usize) -> (Vec<Finding>, usize) {
    let all = row.outcomes.iter().filter(|outcome| outcome.is_finding());
    let more = all.clone().count().saturating_sub(max);
    let file = |outcome: &CutOutcome| Finding {
        crash_finding: VERSION,
        plan: row.plan.clone(),
        seed: row.seed,
        deadline,
        disk: row.disk,
        atomic_unit: row.atomic_unit,
        build: row.build.clone(),
        lab_id: row.lab_id.clone(),
        outcome: outcome.clone(),
    };
    (all.take(max).map(file).collect(), more)
}

fn version() -> u32 {
    VERSION
}

fn first_oracle() -> u32 {
    1
}

/// The message for a text that is not a result of `fsdyno crash`, with the line of the error if known.
pub type Unreadable = String;

impl Finding {
    /// Parses a finding's file.
    ///
    /// # Errors
    /// The text is not a finding, or has a different format version.
    pub fn read(text: &str) -> Result<Finding, Unreadable> {
        let finding: Finding = parse(text)?;
        check_version(finding.crash_finding).map(|()| finding)
    }
}

/// Parses the text of [`ROWS_FILE`].
///
/// # Errors
/// The text is not a list of rows, or a row has a different format version.
pub fn rows(text: &str) -> Result<Vec<Row>, Unreadable> {
    let rows: Vec<Row> = parse(text)?;
    rows.iter().try_for_each(|row| check_version(row.crash)).map(|()| rows)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| match error.is_eof() {
        true => format!("it is truncated: {error}"),
        false => error.to_string(),
    })
}

fn check_version(version: u32) -> Result<(), Unreadable> {
    match version {
        VERSION => Ok(()),
        other => Err(format!("it has version {other}, but this fsdyno reads version {VERSION}")),
    }
}
