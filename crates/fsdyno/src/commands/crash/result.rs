//! What came of a file system's power cuts, and the file of a finding.

use std::path::Path;

use fsdyno_crash::found::Recovery;
use fsdyno_crash::{Cut, Disk, Findings, Found};
use fsdyno_record::trial::{AgentReport, Phase};
use fsdyno_record::{Nanos, Plan};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

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
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name in the table.
    pub label: String,
    /// What was run.
    pub plan: Plan,
    /// The lab that ran it.
    pub lab_id: Option<String>,
    /// Its speed, in which phase and unit; measured in the pass that was logged.
    pub rate: Rate,
    /// What was tried.
    pub tried: Vec<Tried>,
}

/// How fast a phase was.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rate {
    /// The phase: that which took longest until it was durable.
    pub phase: String,
    /// Of what.
    pub unit: String,
    /// How many a second.
    pub per_second: f64,
}

impl Rate {
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
    fn each<T>(&self, of: impl Fn(&Tried) -> T) -> impl Iterator<Item = T> {
        self.tried.iter().map(of)
    }

    /// How often what must never be was found, all cuts together.
    pub fn violations(&self) -> u64 {
        self.each(|tried| tried.findings.violations()).sum()
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
    /// The lab in which the moment is that moment.
    pub lab_id: Option<String>,
    /// The cut and what came of it.
    pub tried: Tried,
}

impl Finding {
    /// Reads a finding's file.
    pub fn read(path: &Path) -> Result<Finding, Failure> {
        let wrong = |error: String| {
            let path = path.display();
            Failure::wrong(format!(
                "failed to read '{path}' as a finding (a file that fsdyno crash wrote into findings/): {error}"
            ))
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let finding: Finding =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match finding.crash_finding {
            1 => Ok(finding),
            other => {
                Err(wrong(format!("it is of version {other}, and this fsdyno reads version 1")))
            }
        }
    }
}
