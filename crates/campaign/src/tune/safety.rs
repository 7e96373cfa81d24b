//! Tests candidates with power cuts: the losses of each, compared with its time and the space that it uses.

use fsdyno_crash::{DiskFault, Row};
use fsdyno_record::plan::BootPlan;
use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_report::tune::{Candidate, Reason, mark_front};
use fsdyno_stats::proportion;
use fsdyno_tune::{Point, SearchResult, Space};

use super::bench;
use super::objective::Objective;
use crate::crash::{CrashTest, check, job};
use crate::notes::say;
use crate::{Failure, Points, RunSpec, Session, labs};

/// Maximum number of candidates of a front.
const MAX_CANDIDATES: usize = 5;

/// Maximum number of successive winners that are refused because of their losses.
const MAX_REFUSED: usize = 3;

/// The seed of the trials whose power is cut.
const SEED: u64 = 1;

/// The inputs of the power-cut tests of a file system's candidates.
pub struct Cuts<'a> {
    /// The request of the trials.
    pub spec: &'a RunSpec,
    /// The session.
    pub session: &'a Session<'a>,
    /// Number of power cuts for each candidate.
    pub cuts: u32,
    /// True if a candidate that loses acknowledged work is not recommended.
    pub safe: bool,
}

/// The candidates with their losses, and the winners that were refused because of their losses.
pub struct Safety {
    /// The candidates.
    pub front: Vec<Candidate>,
    /// The point to recommend.
    pub winner: Point,
    /// Points that lost acknowledged work.
    pub refused: Vec<Reason>,
}

impl Cuts<'_> {
    /// Tests the default, the winner, and the next best configurations with power cuts.
    ///
    /// # Errors
    /// The reason that a run ended early.
    pub fn safety(
        &self,
        space: &Space,
        found: &SearchResult,
        objective: &Objective,
        points: &mut Points<'_>,
    ) -> Result<Safety, Failure> {
        let mut safety =
            Safety { front: Vec::new(), winner: found.winner.clone(), refused: Vec::new() };
        let default = space.default_point();
        let (base, base_row) = self.candidate(space, &default, objective, points)?;
        safety.front.push(base);
        let is_bad = |row: &Option<Row>| row.as_ref().is_some_and(Row::may_lose_data);
        let default_is_bad = is_bad(&base_row);
        let mut tested = vec![default.clone()];
        for winner in ranked(found).take(MAX_REFUSED + 1) {
            if winner == default {
                break;
            }
            let (candidate, row) = self.candidate(space, &winner, objective, points)?;
            safety.front.push(candidate.clone());
            tested.push(winner.clone());
            if !self.safe || default_is_bad || !is_bad(&row) {
                safety.winner = winner;
                break;
            }
            let (losses, cuts) = (candidate.losses.unwrap_or(0), candidate.cuts);
            let why = format!(
                "acknowledged work was lost at {losses} of {cuts} power cuts; --unsafe allows it"
            );
            safety.refused.push(Reason { what: candidate.words, why });
            safety.winner = default.clone();
        }
        if !self.safe {
            let others = ranked(found).filter(|point| !tested.contains(point));
            for point in others.take(MAX_CANDIDATES.saturating_sub(tested.len())) {
                safety.front.push(self.candidate(space, &point, objective, points)?.0);
            }
        }
        mark_front(&mut safety.front);
        Ok(safety)
    }

    /// Runs the trial and the power cuts of one candidate, and returns it with its losses.
    fn candidate(
        &self,
        space: &Space,
        point: &Point,
        objective: &Objective,
        points: &mut Points<'_>,
    ) -> Result<(Candidate, Option<Row>), Failure> {
        let settings = bench::settings(space, point);
        let cell = points.cell(&settings)?;
        let mut plan = cell.plan.clone();
        // The guest boots cold, because each guest of a power-cut test has its own log in memory.
        if let Some(lab) = plan.lab_mut() {
            lab.boot = BootPlan::Cold;
        }
        let plan = plan.with_hash();
        let trial = points.run(&[(settings.clone(), SEED)])?.into_iter().next();
        let losses = space.chosen(point).flat_map(|value| &value.gives_up);
        let mut candidate = Candidate {
            words: space.describe(point),
            seconds: trial.as_ref().map_or(0.0, |trial| objective.value(trial)),
            space: trial.as_ref().map_or(0, space_used),
            gives_up: losses
                .map(|given_up| format!("{}: {}", given_up.loss.name(), given_up.why))
                .collect(),
            ..Candidate::default()
        };
        if !points.is_lab() {
            candidate.uncut = Some("power is cut in the lab only".into());
            return Ok((candidate, None));
        }
        if let Err(failure) = check(&plan, points.inputs()) {
            candidate.uncut = Some(failure.message);
            return Ok((candidate, None));
        }
        let mut spec = self.spec.clone();
        spec.axes.filesystems = vec![settings.spec];
        say(&format!("fsdyno: {} power cuts of {}", self.cuts, candidate.words));
        let (venue, _) = labs::lab_venue(&spec, std::path::Path::new("."), self.session.stop)?;
        let venue = venue.with_inputs(points.inputs().clone());
        let test = CrashTest {
            venue: &venue,
            stop: self.session.stop,
            build: self.session.build,
            cuts: self.cuts,
            disk: DiskFault::Honest,
            tear: None,
            jobs: Some(spec.jobs),
            clock: None,
        };
        let row = test.row(&job(&plan, SEED, cell.deadline))?;
        let lost =
            row.count(|cut| cut.findings.violations() > 0 || cut.recovery.lost.is_some()) as u64;
        let cuts = row.outcomes.len() as u64;
        candidate.losses = Some(lost);
        candidate.cuts = cuts;
        candidate.bound =
            Some(proportion::interval(lost, cuts, 0.95).1).filter(|bound| bound.is_finite());
        candidate.repairs = row.count(|cut| cut.recovery.repair.is_some()) as u64;
        Ok((candidate, Some(row)))
    }
}

/// Returns the winner, then the other measured points that are faster than the default, fastest first.
fn ranked(found: &SearchResult) -> impl Iterator<Item = Point> {
    let mut others: Vec<_> =
        found.measured.iter().filter(|measured| measured.value < 0.0).collect();
    others.sort_by(|a, b| a.value.total_cmp(&b.value));
    let winner = found.winner.clone();
    let others: Vec<Point> = others
        .into_iter()
        .map(|measured| measured.point.clone())
        .filter(|point| *point != winner)
        .collect();
    std::iter::once(winner).chain(others)
}

/// Maximum space in use at the end of a phase; 0 if the trial failed.
fn space_used(trial: &Trial) -> u64 {
    if trial.outcome != Outcome::Ok {
        return 0;
    }
    trial.measured.phases.iter().map(|phase| phase.space_used.0).max().unwrap_or(0)
}
