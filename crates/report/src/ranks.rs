//! Trials that several processes shared: tables of their scaling, phases, clients and ranks.

use fsdyno_axes::naming::RowNames;
use fsdyno_record::plan::{RanksPlan, VenuePlan};
use fsdyno_record::ranks::{Member, RankPhase, RanksMeasured, RanksPhase, Stonewall, View};
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Nanos, Trial};
use fsdyno_stats::Summary;

use crate::error::ReportError;
use crate::number::{format_scaled, percent, sanitize};
use crate::scaling::{self, Scaling, scaling};
use crate::table::{Block, Column, Document, Kind, Legend, Output, Rows, Table};

/// The ranks of a result.
pub struct Ranks<'a> {
    /// The trials.
    pub trials: &'a [Trial],
}

/// A phase of a trial over its ranks.
struct PhaseRow<'a> {
    trial: &'a Trial,
    phase: &'a RanksPhase,
}

/// A rank in a phase.
struct RankRow<'a> {
    trial: &'a Trial,
    phase: &'a RanksPhase,
    rank: &'a RankPhase,
    member: Option<&'a Member>,
}

/// A phase at one number of ranks: one point of a scaling curve.
struct ScalingRow {
    /// The workload and the file system, without the number of ranks.
    subject: String,
    phase: String,
    ranks: u32,
    /// The items per second of each trial.
    rates: Vec<f64>,
    scaling: Scaling,
}

/// All ranks of one client in a phase.
struct ClientRow {
    /// The trial and the phase.
    phase: String,
    host: String,
    client: u32,
    ranks: u32,
    items: u64,
    last_done: Nanos,
    slowest_rate: f64,
}

fn trials_with_ranks(trials: &[Trial]) -> impl Iterator<Item = (&Trial, &RanksMeasured)> {
    trials.iter().filter_map(|trial| Some((trial, trial.measured.ranks.as_ref()?)))
}

fn phases(trials: &[Trial]) -> Vec<PhaseRow<'_>> {
    let each = |(trial, ranks)| {
        let ranks: &RanksMeasured = ranks;
        ranks.phases.iter().map(move |phase| PhaseRow { trial, phase })
    };
    trials_with_ranks(trials).flat_map(each).collect()
}

fn ranks(trials: &[Trial]) -> Vec<RankRow<'_>> {
    let mut rows = Vec::new();
    for (trial, measured) in trials_with_ranks(trials) {
        for phase in &measured.phases {
            for rank in &phase.ranks {
                let member = measured.members.iter().find(|member| member.rank == rank.rank);
                rows.push(RankRow { trial, phase, rank, member });
            }
        }
    }
    rows
}

/// Returns the points of all curves: the curves in order of first appearance, and the points of each by number of
/// ranks.
fn points(trials: &[Trial]) -> Vec<ScalingRow> {
    let mut points: Vec<ScalingRow> = Vec::new();
    let names = RowNames::of(trials);
    for row in phases(trials).into_iter().filter(|row| row.trial.outcome == Outcome::Ok) {
        let VenuePlan::Ranks(plan) = &row.trial.plan.venue else { continue };
        let subject = subject(&names, row.trial, plan);
        let (phase, ranks) = (sanitize(&row.phase.name), plan.ranks);
        let rate = rate(row.items(), row.phase.last_done_ns);
        let key = (&subject, &phase, ranks);
        match points.iter_mut().find(|row| (&row.subject, &row.phase, row.ranks) == key) {
            Some(row) => row.rates.push(rate),
            None => points.push(ScalingRow {
                subject,
                phase,
                ranks,
                rates: vec![rate],
                scaling: Scaling::default(),
            }),
        }
    }
    let curve_of = |row: &ScalingRow| (row.subject.clone(), row.phase.clone());
    let curves: Vec<(String, String)> = points.iter().map(curve_of).collect();
    let position = |row: &ScalingRow| curves.iter().position(|curve| *curve == curve_of(row));
    points.sort_by_key(|row| (position(row), row.ranks));
    let rates: Vec<_> = points
        .iter()
        .map(|row| (curve_of(row), row.ranks, (row.rate(), row.half_width())))
        .collect();
    for (row, scaling) in points.iter_mut().zip(scaling(&rates)) {
        row.scaling = scaling;
    }
    points
}

/// Returns the name of a curve: the workload and the row, with the conditions that distinguish them from others, but
/// without the number of ranks and the shift.
fn subject(names: &RowNames, trial: &Trial, plan: &RanksPlan) -> String {
    let rest = RanksPlan { ranks: 0, shift: 0, ..plan.clone() }.label_suffix();
    let rest = rest.trim_start_matches(", 0 ranks");
    let row = names.row(trial).replacen(&plan.label_suffix(), rest, 1);
    sanitize(&format!("{} {row}", names.workload(trial)))
}

/// Returns the points of all curves that have more than one point.
fn curves(trials: &[Trial]) -> Vec<ScalingRow> {
    let mut rows = points(trials);
    rows.retain(|row| row.scaling.ratio.is_some());
    rows
}

/// The curves over the number of ranks, if there are any.
fn scaling_table(trials: &[Trial]) -> Option<Table> {
    let rows = curves(trials);
    if rows.is_empty() {
        return None;
    }
    let columns: Vec<Column<'_, ScalingRow>> = vec![
        Column::words("configuration", |row: &ScalingRow| row.subject.clone()),
        Column::words("phase", |row: &ScalingRow| row.phase.clone()),
        Column::number("ranks", |row: &ScalingRow| row.ranks.to_string()),
        Column::number("n", |row: &ScalingRow| row.rates.len().to_string()).means("trials"),
        Column::number("items/s", |row: &ScalingRow| format_scaled(row.rate()))
            .means("calls of the phase's most frequent kind, by all ranks, divided by the time until the last rank was done; mean of the trials"),
        Column::new(Kind::Spread, "±", ScalingRow::spread)
            .means("half-width of the 95 % interval of that mean, if there are two or more trials"),
        Column::number("scaling", |row: &ScalingRow| row.scaling.ratio.map(format_scaled).unwrap_or_default())
            .means("the rate divided by the rate with the fewest ranks"),
        Column::words("knee", |row: &ScalingRow| row.scaling.mark().to_string()).means(scaling::KNEE),
    ];
    let mut table = Table::of(columns, &rows);
    table.title = "Scaling".into();
    table.column_group = COLUMN_GROUP - 1;
    table.details.extend(without_knee(&rows));
    Some(table)
}

/// A sentence with the phases in which no knee is marked.
fn without_knee(rows: &[ScalingRow]) -> Option<String> {
    let of_curve = |row: &ScalingRow| (row.subject.clone(), row.phase.clone());
    let has_knee = |row: &ScalingRow| {
        let mut curve = rows.iter().filter(|other| of_curve(other) == of_curve(row));
        curve.any(|other| !other.scaling.mark().is_empty())
    };
    let mut phases: Vec<String> =
        rows.iter().filter(|row| !has_knee(row)).map(|row| row.phase.clone()).collect();
    phases.dedup();
    (!phases.is_empty()).then(|| {
        format!(
            "no knee in {}: further ranks still add enough, or the intervals are too wide to tell (more trials narrow them)",
            phases.join(", ")
        )
    })
}

/// Returns the tables of a report: the curves over the number of ranks, and the phases of each trial.
pub(crate) fn tables(trials: &[Trial]) -> impl Iterator<Item = Table> {
    scaling_table(trials).into_iter().chain(phase_table(trials))
}

/// Items per second.
fn rate(items: u64, time: Nanos) -> f64 {
    if time.is_zero() { 0.0 } else { items as f64 * 1e9 / time.0 as f64 }
}

/// A rate with its unit, if that is known.
fn per_second(rate: f64, unit: &str) -> String {
    let rate = format_scaled(rate);
    if unit.is_empty() { rate } else { format!("{rate} {}/s", sanitize(unit)) }
}

fn trial_name(trial: &Trial) -> String {
    sanitize(&format!("{} {}, seed {}", trial.plan.workload.name, trial.plan.label, trial.seed))
}

impl ScalingRow {
    fn rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len().max(1) as f64
    }

    /// The half-width of the 95 % interval of the mean rate; 0 for one trial.
    fn half_width(&self) -> f64 {
        Summary::of(&self.rates).and_then(|summary| summary.half_width).unwrap_or_default()
    }

    /// That half-width as a percentage; empty for one trial.
    fn spread(&self) -> String {
        let half_width = Summary::of(&self.rates).and_then(|summary| summary.relative_half_width());
        half_width.map(percent).unwrap_or_default()
    }

    fn json(&self) -> serde_json::Value {
        let half_width = Summary::of(&self.rates).and_then(|summary| summary.half_width);
        serde_json::json!({
            "subject": self.subject, "phase": self.phase, "ranks": self.ranks,
            "trials": self.rates.len(), "items_per_s": self.rate(), "items_per_s_half_width": half_width,
            "scaling": self.scaling.ratio, "knee": self.scaling.knee,
        })
    }
}

impl PhaseRow<'_> {
    fn items(&self) -> u64 {
        self.phase.ranks.iter().map(|rank| rank.items).sum()
    }

    fn at_stonewall(&self) -> String {
        let stonewall = self.phase.stonewall.as_ref();
        let rate = |wall: &Stonewall| per_second(rate(wall.items, wall.reached_ns), &wall.unit);
        stonewall.map(rate).unwrap_or_default()
    }

    /// The rate of the whole phase in the unit of the stonewall's items.
    fn rate_of_whole_phase(&self) -> String {
        let stonewall = self.phase.stonewall.as_ref().filter(|wall| wall.all > 0);
        let rate =
            |wall: &Stonewall| per_second(rate(wall.all, self.phase.last_done_ns), &wall.unit);
        stonewall.map(rate).unwrap_or_default()
    }

    fn skew(&self) -> String {
        let RanksPhase { skew_ns, skew_uncertainty_ns, .. } = self.phase;
        match skew_uncertainty_ns.is_zero() {
            true => skew_ns.to_string(),
            false => format!("{skew_ns} ± {skew_uncertainty_ns}"),
        }
    }

    fn stragglers(&self) -> String {
        const MAX_SHOWN: usize = 3;
        let stragglers: Vec<String> = self
            .phase
            .ranks
            .iter()
            .filter(|rank| rank.straggler)
            .map(|rank| rank.rank.to_string())
            .collect();
        match stragglers.as_slice() {
            [] => String::new(),
            [one] => format!("rank {one}"),
            some if some.len() <= MAX_SHOWN => format!("ranks {}", some.join(", ")),
            some => {
                let more = some.len() - MAX_SHOWN;
                format!("ranks {} and {more} more", some[..MAX_SHOWN].join(", "))
            }
        }
    }

    fn view_count(&self, part: fn(&View) -> u64) -> String {
        match self.phase.views.as_slice() {
            [] => String::new(),
            views => views.iter().map(part).sum::<u64>().to_string(),
        }
    }
}

/// The column group of the table of phases; -1 is that of the scaling table, +1 of clients, +2 of ranks. No other table
/// of a report is in these groups.
const COLUMN_GROUP: usize = usize::MAX - 2;

/// The table of phases, if any of the trials has ranks.
fn phase_table(trials: &[Trial]) -> Option<Table> {
    let rows = phases(trials);
    if rows.is_empty() {
        return None;
    }
    let mut columns: Vec<Column<'_, PhaseRow<'_>>> = vec![
        Column::words("trial", |row: &PhaseRow<'_>| trial_name(row.trial)),
        Column::words("phase", |row: &PhaseRow<'_>| sanitize(&row.phase.name)),
        Column::number("items/s", |row: &PhaseRow<'_>| {
            format_scaled(rate(row.items(), row.phase.last_done_ns))
        })
        .means("calls of the phase's most frequent kind, by all ranks, divided by the time until the last rank was done"),
        Column::number("first done", |row: &PhaseRow<'_>| row.phase.first_done_ns.to_string())
            .means("time from the first op of any rank until the first rank was done"),
        Column::number("last done", |row: &PhaseRow<'_>| row.phase.last_done_ns.to_string())
            .means("the same until all ranks were done"),
        Column::number("skew", PhaseRow::skew)
            .means("time between the first and the last rank's first op, with the uncertainty of the clocks if the ranks are on different hosts"),
        Column::number("missing", |row: &PhaseRow<'_>| row.view_count(|view| view.missing)).priority(2),
        Column::number("extra", |row: &PhaseRow<'_>| row.view_count(|view| view.extra)).priority(2),
        Column::number("wrong", |row: &PhaseRow<'_>| row.view_count(|view| view.wrong))
            .priority(2)
            .means("entries that another client found with contents, size or attributes different from those written"),
        Column::number("stale", |row: &PhaseRow<'_>| row.view_count(|view| view.stale))
            .priority(1)
            .means("differences that another client saw at first and not later: it showed an earlier state of the tree"),
        Column::words("stragglers", PhaseRow::stragglers)
            .priority(1)
            .means("ranks that took more than 1.5 times as long as the median rank, and exceeded it by more than three median absolute deviations"),
    ];
    if rows.iter().any(|row| row.phase.stonewall.is_some()) {
        let column = Column::number("at stonewall", PhaseRow::at_stonewall);
        let meaning = "rate until all ranks had reached the stonewall, before they continued to a common number of items";
        columns.insert(3, column.means(meaning));
        let column = Column::number("whole phase", PhaseRow::rate_of_whole_phase);
        columns.insert(4, column.means("the same until every rank had completed that number"));
    }
    let mut table = Table::of(columns, &rows);
    table.title = "Ranks".into();
    table.column_group = COLUMN_GROUP;
    Some(table)
}

/// The columns of a rank in a phase. Other programs refer to them by name and position: append new ones.
fn columns<'a>() -> Vec<Column<'static, RankRow<'a>>> {
    let time = |head: &str, value: fn(&RankPhase) -> Nanos| {
        Column::number(head, move |row: &RankRow<'a>| value(row.rank).0.to_string())
    };
    vec![
        Column::words("trial_id", |row: &RankRow<'a>| row.trial.trial_id.clone()),
        Column::words("started", |row: &RankRow<'a>| row.trial.host.started.clone()),
        Column::words("workload", |row: &RankRow<'a>| row.trial.plan.workload.name.clone()),
        Column::words("label", |row: &RankRow<'a>| row.trial.plan.label.clone()),
        Column::words("phase", |row: &RankRow<'a>| row.phase.name.clone()),
        Column::number("rank", |row: &RankRow<'a>| row.rank.rank.to_string()),
        Column::words("host", |row: &RankRow<'a>| {
            row.member.map(|member| member.host.clone()).unwrap_or_default()
        }),
        Column::number("client", |row: &RankRow<'a>| {
            row.member.map(|member| member.client.to_string()).unwrap_or_default()
        }),
        Column::number("ops", |row: &RankRow<'a>| row.rank.ops.to_string()),
        Column::number("items", |row: &RankRow<'a>| row.rank.items.to_string()),
        time("started_ns", |rank| rank.started_ns),
        time("returned_ns", |rank| rank.returned_ns),
        Column::number("synced_ns", |row: &RankRow<'a>| {
            row.rank.synced_ns.map(|time| time.0.to_string()).unwrap_or_default()
        }),
        time("p50_ns", |rank| rank.p50_ns),
        time("p99_ns", |rank| rank.p99_ns),
        time("p999_ns", |rank| rank.p999_ns),
        time("max_ns", |rank| rank.max_ns),
        time("cpu_ns", |rank| rank.cpu_ns),
        Column::number("clock_offset_ns", |row: &RankRow<'a>| row.rank.clock_offset_ns.to_string()),
        time("clock_uncertainty_ns", |rank| rank.clock_uncertainty_ns),
        Column::words("straggler", |row: &RankRow<'a>| row.rank.straggler.to_string()),
        Column::number("stonewall_items", |row: &RankRow<'a>| {
            row.rank.stonewall_items.map(|items| items.to_string()).unwrap_or_default()
        }),
    ]
}

fn rank_table(trials: &[Trial]) -> Table {
    let rows = ranks(trials);
    let columns: Vec<Column<'_, RankRow<'_>>> =
        vec![
            Column::words("trial", |row: &RankRow<'_>| trial_name(row.trial)).priority(3),
            Column::words("phase", |row: &RankRow<'_>| sanitize(&row.phase.name)),
            Column::number("rank", |row: &RankRow<'_>| row.rank.rank.to_string()),
            Column::words("host", |row: &RankRow<'_>| {
                row.member.map(|member| sanitize(&member.host)).unwrap_or_default()
            }),
            Column::number("items/s", |row: &RankRow<'_>| {
                format_scaled(rate(row.rank.items, row.rank.returned_ns.since(row.rank.started_ns)))
            }),
            Column::number("started", |row: &RankRow<'_>| row.rank.started_ns.to_string())
                .means("time of the rank's first op, measured from the first op of any rank"),
            Column::number("done", |row: &RankRow<'_>| row.rank.returned_ns.to_string()),
            Column::number("p50", |row: &RankRow<'_>| row.rank.p50_ns.to_string()),
            Column::number("p99", |row: &RankRow<'_>| row.rank.p99_ns.to_string()),
            Column::number("max", |row: &RankRow<'_>| row.rank.max_ns.to_string()).priority(1),
            Column::words("", |row: &RankRow<'_>| {
                if row.rank.straggler { "straggler".to_string() } else { String::new() }
            }),
        ];
    let mut table = Table::of(columns, &rows);
    table.title = "Each rank".into();
    table.column_group = COLUMN_GROUP + 2;
    table
}

/// The clients: the ranks of each host and mount, combined.
fn clients(trials: &[Trial]) -> Vec<ClientRow> {
    let mut clients: Vec<ClientRow> = Vec::new();
    for row in ranks(trials) {
        let Some(member) = row.member else { continue };
        let phase = format!("{}: {}", trial_name(row.trial), sanitize(&row.phase.name));
        let rate = rate(row.rank.items, row.rank.returned_ns.since(row.rank.started_ns));
        match clients.iter_mut().find(|known| known.phase == phase && known.client == member.client)
        {
            Some(client) => {
                client.ranks += 1;
                client.items += row.rank.items;
                client.last_done = client.last_done.max(row.rank.returned_ns);
                client.slowest_rate = client.slowest_rate.min(rate);
            }
            None => clients.push(ClientRow {
                phase,
                host: sanitize(&member.host),
                client: member.client,
                ranks: 1,
                items: row.rank.items,
                last_done: row.rank.returned_ns,
                slowest_rate: rate,
            }),
        }
    }
    clients
}

fn client_table(trials: &[Trial]) -> Table {
    let columns: Vec<Column<'_, ClientRow>> = vec![
        Column::words("phase", |row: &ClientRow| row.phase.clone()),
        Column::words("host", |row: &ClientRow| row.host.clone()),
        Column::number("client", |row: &ClientRow| row.client.to_string())
            .means("ranks with the same client number share a host and a mount"),
        Column::number("ranks", |row: &ClientRow| row.ranks.to_string()),
        Column::number("items/s", |row: &ClientRow| format_scaled(rate(row.items, row.last_done))),
        Column::number("last done", |row: &ClientRow| row.last_done.to_string()),
        Column::number("slowest rank, items/s", |row: &ClientRow| format_scaled(row.slowest_rate)),
    ];
    let mut table = Table::of(columns, &clients(trials));
    table.title = "Each client".into();
    table.column_group = COLUMN_GROUP + 1;
    table
}

/// The notes of the trials, such as that a host has more ranks than processors, each once.
fn trial_notes(trials: &[Trial]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in trials_with_ranks(trials).flat_map(|(trial, _)| &trial.conditions.notes) {
        let note = sanitize(&format!("Note: {note}."));
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

impl Output for Ranks<'_> {
    fn document(&self) -> Document {
        let Some(phases) = phase_table(self.trials) else {
            let message = "No trial of this result ran with several ranks (fsdyno run --ranks).";
            return Document(vec![Block::Paragraph(message.into())]);
        };
        let (mut tables, mut notes) = (vec![phases], trial_notes(self.trials));
        match scaling_table(self.trials) {
            Some(scaling) => {
                tables.insert(0, scaling);
                notes.push(
                    "A single result, or --format csv, has each client and each rank.".into(),
                );
            }
            None => tables.extend([client_table(self.trials), rank_table(self.trials)]),
        }
        let legend = Legend { notes, ..Legend::default() };
        let tables = tables.into_iter().map(Block::Table);
        Document(tables.chain([Block::Legend(legend)]).collect())
    }

    /// One row for each trial, phase and rank. Unknown values are empty.
    fn rows(&self, out: &mut dyn Rows) {
        out.table(&columns(), ranks(self.trials));
    }

    fn json(&self) -> Result<String, ReportError> {
        let scaling: Vec<serde_json::Value> =
            curves(self.trials).iter().map(ScalingRow::json).collect();
        let trials: Vec<serde_json::Value> = trials_with_ranks(self.trials)
            .map(|(trial, ranks)| {
                serde_json::json!({
                    "trial_id": trial.trial_id, "started": trial.host.started,
                    "label": trial.plan.label, "ranks": ranks,
                })
            })
            .collect();
        let all = serde_json::json!({ "scaling": scaling, "trials": trials });
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}

#[cfg(test)]
mod tests;
