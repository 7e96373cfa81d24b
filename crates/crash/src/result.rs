//! What came of a file system's power cuts, as it is stored, and the file of a finding.

use fsdyno_record::trial::{AgentReport, Phase};
use fsdyno_record::{Build, Nanos, Plan};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cut::{Cut, Disk};
use crate::found::{Found, Recovery};
use crate::judge::Findings;
use crate::tear::Tear;

/// The name of the rows' file in a folder of results.
pub const FILE: &str = "crash.json";

/// The version of both files.
const VERSION: u32 = 1;

/// The oracle that judges cuts now. The first took a synced file by any name that it ever had for kept; the second
/// takes no name that a later durable one has replaced.
const ORACLE: u32 = 2;

/// One cut and all that it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// When, and what survived.
    pub cut: Cut,
    /// How the file system came back.
    pub recovery: Recovery,
    /// What was found.
    pub findings: Findings,
}

impl Tried {
    /// A cut with what was found after it.
    pub fn new(cut: Cut, found: &Found, findings: Findings) -> Tried {
        let recovery = Recovery { index: cut.number, ..found.recovery.clone() };
        Tried { cut, recovery, findings }
    }

    /// Whether the same was found; the time of a mount depends on what its guest did before.
    pub fn is_as(&self, other: &Tried) -> bool {
        let recovery = Recovery { mount_ns: other.recovery.mount_ns, ..self.recovery.clone() };
        (self.cut, &recovery, &self.findings) == (other.cut, &other.recovery, &other.findings)
    }

    /// Whether it is worth a file.
    pub fn is_finding(&self) -> bool {
        let Findings { names_lost, names_doubled, .. } = self.findings;
        let damaged = self.recovery.unclean.is_some() || self.recovery.refused.is_some();
        self.findings.violations() + names_lost + names_doubled > 0
            || damaged
            || self.recovery.lost.is_some()
    }
}

/// Everything about one file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// 1.
    #[serde(default = "version")]
    pub crash: u32,
    /// Its name in the table.
    pub label: String,
    /// What was run.
    pub plan: Plan,
    /// The seed of the trial and of its cuts.
    #[serde(default)]
    pub seed: u64,
    /// What kind of disk lost its power.
    #[serde(default)]
    pub disk: Disk,
    /// Between what its writes were torn, in bytes.
    #[serde(default)]
    pub tear: Tear,
    /// Which oracle judged its cuts; older rows do not say, and were judged by the first.
    #[serde(default = "first_oracle")]
    pub oracle: u32,
    /// The lab that ran it.
    pub lab_id: Option<String>,
    /// The build of fsdyno, where its commit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Its speed, in which phase and unit; measured in the pass that was logged.
    pub rate: Rate,
    /// What was tried.
    pub tried: Vec<Tried>,
    /// Why it could not run at all, where it could not: then nothing was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// How fast a phase was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The phase: that which took longest until it was durable.
    pub phase: String,
    /// Of what.
    pub unit: String,
    /// How many a second.
    pub per_second: f64,
}

impl Rate {
    /// The rate of the phase that took longest.
    pub fn of(report: &AgentReport) -> Rate {
        let time =
            |phase: &Phase| phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns);
        let Some(phase) = report.measured.phases.iter().max_by_key(|phase| time(phase)) else {
            return Rate::default();
        };
        let of_books =
            phase.unit.as_ref().and_then(|unit| Some((unit.clone(), *phase.books.get(unit)?)));
        let (unit, count) =
            of_books.unwrap_or_else(|| ("ops".into(), phase.ops.values().map(|op| op.count).sum()));
        let seconds = time(phase).0 as f64 / 1e9;
        Rate { phase: phase.name.clone(), unit, per_second: count as f64 / seconds.max(1e-9) }
    }
}

impl Row {
    /// A file system with all its cuts, torn at the physical sectors of its disk.
    pub fn new(plan: &Plan, seed: u64, disk: Disk, rate: Rate, tried: Vec<Tried>) -> Row {
        let (label, tear, plan) = (plan.label.clone(), Tear::of(plan), plan.clone());
        let (crash, oracle, lab_id, build, skipped) = (VERSION, ORACLE, None, None, None);
        Row { crash, label, plan, seed, disk, tear, oracle, lab_id, build, rate, tried, skipped }
    }

    /// A file system that cannot run here, with the reason.
    pub fn skipped(plan: &Plan, seed: u64, disk: Disk, reason: String) -> Row {
        let row = Row::new(plan, seed, disk, Rate::default(), Vec::new());
        Row { skipped: Some(reason), ..row }
    }

    /// The physical sector of its disk, where writes were torn within it: harsher than that disk.
    pub fn split(&self) -> Option<Tear> {
        let whole = Tear::of(&self.plan);
        (self.tear < whole).then_some(whole)
    }

    /// The physical sector of its disk, where more than that was held to be written whole: milder than that disk.
    pub fn spared(&self) -> Option<Tear> {
        let whole = Tear::of(&self.plan);
        (self.tear > whole).then_some(whole)
    }

    /// Whether its cuts were judged by an oracle that took a synced file by an old name for kept.
    pub fn is_judged_mildly(&self) -> bool {
        self.oracle < ORACLE
    }

    /// After how many cuts what was left could not be examined, so that nothing could be judged.
    pub fn unmountable(&self) -> usize {
        self.count(|tried| tried.recovery.lost.is_some())
    }

    /// Whether something that was acknowledged is gone, or may be: it could not be examined.
    pub fn is_bad(&self) -> bool {
        self.violations() > 0 || self.unmountable() > 0
    }

    fn each<T>(&self, of: impl Fn(&Tried) -> T) -> impl Iterator<Item = T> {
        self.tried.iter().map(of)
    }

    /// How often what must never be was found, all cuts together.
    pub fn violations(&self) -> u64 {
        self.sum(|tried| tried.findings.violations())
    }

    /// A figure, all cuts together.
    pub fn sum(&self, of: impl Fn(&Tried) -> u64) -> u64 {
        self.each(of).sum()
    }

    /// The middle one of a figure of all cuts, and the largest.
    pub fn middle_and_most(&self, of: impl Fn(&Tried) -> u64) -> (u64, u64) {
        let mut all: Vec<u64> = self.each(of).collect();
        all.sort_unstable();
        (all.get(all.len() / 2).copied().unwrap_or(0), all.last().copied().unwrap_or(0))
    }

    /// Of how many cuts something is so.
    pub fn count(&self, so: impl Fn(&Tried) -> bool) -> usize {
        self.each(so).filter(|so| *so).count()
    }
}

/// A finding as a file: all that is needed to do it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// 1.
    pub crash_finding: u32,
    /// What was run, with its name in the table.
    pub plan: Plan,
    /// Its seed.
    pub seed: u64,
    /// The longest that it may take, in virtual time.
    pub deadline: Nanos,
    /// What kind of disk lost its power.
    pub disk: Disk,
    /// Between what its writes were torn, in bytes; older files have none, and were torn between sectors of 512.
    #[serde(default)]
    pub tear: Tear,
    /// The lab in which the moment is that moment.
    pub lab_id: Option<String>,
    /// The build of fsdyno that found it, where its commit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// The cut and what came of it.
    pub tried: Tried,
}

/// The findings of a row, as files, and how many there are more than `most`.
pub fn findings(row: &Row, deadline: Nanos, most: usize) -> (Vec<Finding>, usize) {
    let all = row.tried.iter().filter(|tried| tried.is_finding());
    let more = all.clone().count().saturating_sub(most);
    let file = |tried: &Tried| Finding {
        crash_finding: VERSION,
        plan: row.plan.clone(),
        seed: row.seed,
        deadline,
        disk: row.disk,
        tear: row.tear,
        build: row.build.clone(),
        lab_id: row.lab_id.clone(),
        tried: tried.clone(),
    };
    (all.take(most).map(file).collect(), more)
}

fn version() -> u32 {
    VERSION
}

fn first_oracle() -> u32 {
    1
}

/// Why a text is no result of `fsdyno crash`: what is wrong, with the line where it is known.
pub type Unreadable = String;

impl Finding {
    /// Reads the text of a finding's file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Finding, Unreadable> {
        let finding: Finding = parsed(text)?;
        known(finding.crash_finding).map(|()| finding)
    }
}

/// Reads the text of [`FILE`].
///
/// # Errors
/// What is wrong with it.
pub fn rows(text: &str) -> Result<Vec<Row>, Unreadable> {
    let rows: Vec<Row> = parsed(text)?;
    rows.iter().try_for_each(|row| known(row.crash)).map(|()| rows)
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| match error.is_eof() {
        true => format!("it is cut short: {error}"),
        false => error.to_string(),
    })
}

fn known(version: u32) -> Result<(), Unreadable> {
    match version {
        VERSION => Ok(()),
        other => Err(format!("it is of version {other}, and this fsdyno reads version {VERSION}")),
    }
}
