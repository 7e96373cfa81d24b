//! Phases over time: read from the result folders, written as CSV and as lines of text for a terminal.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use fsdyno_record::Bytes;
use fsdyno_record::bounded::RECORDS;
use fsdyno_record::lines::{self, LinesOf, ReadError};
use fsdyno_record::series::{FILE, PhaseSeries, Series};
use fsdyno_record::trial::{Outcome, Trial};
use unicode_width::UnicodeWidthStr;

use crate::error::ReportError;
use crate::load::{LoadError, Torn};
use crate::number;
use crate::table::{Block, Column, Document, Output, Rows, Style, truncate};

/// The heights of a line of text, from zero to the largest.
const HEIGHTS: [char; 9] = ['_', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The width of the names before a line, and of its largest value after it.
const NAME_WIDTH: usize = 12;
const MAX_VALUE_WIDTH: usize = 14;

/// Reads the series of result folders, or of the folders of records. Series of other trials, such as superseded ones,
/// are skipped while reading, so they are never all in memory. A folder without series yields none. One torn last line
/// of each file is skipped and reported.
///
/// # Errors
/// A file that cannot be read, a bad line that is not a torn last one, a newer schema.
pub fn load_series<'t, P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    trials: impl IntoIterator<Item = &'t Trial>,
) -> Result<(Vec<Series>, Vec<Torn>), LoadError> {
    let mut by_id: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
    for trial in trials.into_iter().filter(|trial| trial.outcome == Outcome::Ok) {
        by_id.entry(&trial.trial_id).or_default().push(trial);
    }
    let is_requested = |series: &Series| {
        let trials = by_id.get(series.trial_id.as_str());
        trials.is_some_and(|trials| trials.iter().any(|trial| series.belongs_to(trial)))
    };
    let (mut all, mut torn) = (Vec::new(), Vec::new());
    for path in paths {
        let path = path.as_ref();
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let file = folder.join(FILE);
        let source = match crate::compressed::open(&file, &RECORDS) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(LoadError::of(&file, ReadError::Io(error))),
        };
        let keep = |series: Series| is_requested(&series).then_some(series);
        let lines: LinesOf<Series> =
            lines::read_from(source, keep).map_err(|error| LoadError::of(&file, error))?;
        all.extend(lines.records);
        torn.extend(lines.torn.map(|line| Torn { file, line }));
    }
    Ok((all, torn))
}

/// Series by trial.
pub struct Index<'s>(BTreeMap<&'s str, Vec<&'s Series>>);

impl<'s> Index<'s> {
    /// An index of all recorded series.
    pub fn of(series: &'s [Series]) -> Index<'s> {
        let mut index: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
        for item in series {
            index.entry(&item.trial_id).or_default().push(item);
        }
        Index(index)
    }

    /// The series of a trial, if it has one.
    pub fn get(&self, trial: &Trial) -> Option<&'s Series> {
        let candidates = self.0.get(trial.trial_id.as_str())?;
        let exact = candidates.iter().find(|series| series.identity() == trial.identity());
        exact.or_else(|| candidates.iter().find(|series| series.belongs_to(trial))).copied()
    }
}

/// Each trial that has series, with its series, in the order of the trials.
fn match_trials<'a>(series: &'a [Series], trials: &'a [Trial]) -> Vec<(&'a Trial, &'a Series)> {
    let index = Index::of(series);
    let successful = trials.iter().filter(|trial| trial.outcome == Outcome::Ok);
    successful.filter_map(|trial| Some((trial, index.get(trial)?))).collect()
}

/// An interval of a phase of a trial.
struct Interval<'a> {
    trial: &'a Trial,
    phase: &'a PhaseSeries,
    index: usize,
}

/// The columns. Other programs refer to them by name and position: append new ones.
fn interval_columns<'a>() -> Vec<Column<'static, Interval<'a>>> {
    let trial = |head: &str, cell: fn(&Trial) -> String| {
        Column::words(head, move |interval: &Interval<'a>| cell(interval.trial))
    };
    let value = |head: &str, values: fn(&PhaseSeries) -> &[u64]| {
        Column::number(head, move |interval: &Interval<'a>| {
            values(interval.phase).get(interval.index).map(u64::to_string).unwrap_or_default()
        })
    };
    vec![
        trial("trial_id", |trial| trial.trial_id.clone()),
        trial("lab_id", |trial| trial.lab_id.clone().unwrap_or_default()),
        trial("seed", |trial| trial.seed.to_string()),
        trial("workload", |trial| trial.plan.workload.name.clone()),
        trial("label", |trial| trial.plan.label.clone()),
        Column::words("phase", |interval: &Interval<'a>| interval.phase.name.clone()),
        Column::number("from_ns", |interval: &Interval<'a>| {
            (interval.phase.interval_ns.0 * interval.index as u64).to_string()
        }),
        Column::number("to_ns", |interval: &Interval<'a>| {
            interval.phase.end(interval.index).0.to_string()
        }),
        value("ops", |phase| &phase.ops),
        value("dirty_bytes", |phase| &phase.dirty_bytes),
        value("writeback_bytes", |phase| &phase.writeback_bytes),
        value("device_written_bytes", |phase| &phase.device_written_bytes),
    ]
}

/// The heads of the columns.
#[cfg(test)]
pub fn heads() -> Vec<String> {
    interval_columns().into_iter().map(|column| column.head.text).collect()
}

/// Phases over time.
pub struct OverTime<'a> {
    /// The series.
    pub series: &'a [Series],
    /// Their trials.
    pub trials: &'a [Trial],
    /// The width for text.
    pub style: Style,
}

impl Output for OverTime<'_> {
    /// A line for each quantity of each phase.
    fn document(&self) -> Document {
        document(self.series, self.trials, self.style)
    }

    /// One row for each trial, phase and interval. Unknown values are empty.
    fn rows(&self, out: &mut dyn Rows) {
        let all = match_trials(self.series, self.trials).into_iter();
        let phases =
            all.flat_map(|(trial, series)| series.phases.iter().map(move |phase| (trial, phase)));
        let rows = phases.flat_map(|(trial, phase)| {
            (0..phase.ops.len()).map(move |index| Interval { trial, phase, index })
        });
        out.table(&interval_columns(), rows);
    }

    fn json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string_pretty(self.series)? + "\n")
    }
}

const NO_SERIES: &str =
    "No series over time: none was recorded, or every phase was too short for two intervals.";

/// The series: a line for each quantity of each phase, from zero up, as wide as the terminal allows.
fn document(series: &[Series], trials: &[Trial], style: Style) -> Document {
    let mut out = Document::default();
    for (trial, series) in match_trials(series, trials) {
        let (workload, label) = (&trial.plan.workload.name, number::sanitize(&trial.plan.label));
        let head = format!("{workload}, {label}, seed {}", trial.seed);
        let mut lines = vec![truncate(&head, style.width.max(NAME_WIDTH), "…")];
        for phase in &series.phases {
            lines.extend(phase_text(phase, style.width).lines().map(String::from));
        }
        out.0.push(Block::Verbatim(lines));
    }
    if out.0.is_empty() {
        out.0.push(Block::Paragraph(NO_SERIES.into()));
    }
    out
}

fn phase_text(phase: &PhaseSeries, width: usize) -> String {
    let count = phase.ops.len();
    let (name, length) = (number::sanitize(&phase.name), phase.length_ns);
    let head = format!("  {name}: {length}, {count} x {}", phase.interval_ns);
    let mut out = truncate(&head, width.max(NAME_WIDTH), "…") + "\n";
    let space = width.saturating_sub(NAME_WIDTH + MAX_VALUE_WIDTH).clamp(8, count.max(8));
    let ops = |value: f64| number::format_scaled(value);
    let bytes = |value: f64| Bytes(value as u64).to_string();
    let rate = |value: f64| format!("{}/s", Bytes(value as u64));
    let mut line = |name: &str, values: &[f64], shown: &dyn Fn(f64) -> String| {
        if !values.is_empty() {
            let max = values.iter().copied().fold(0.0, f64::max);
            let pad = " ".repeat(NAME_WIDTH.saturating_sub(name.width() + 4));
            out.push_str(&format!("    {name}{pad}{}  {}\n", heights(values, max), shown(max)));
        }
    };
    line("ops/s", &rates(phase, &phase.ops, space), &ops);
    line("dirty", &levels(&phase.dirty_bytes, space), &bytes);
    line("w-back", &levels(&phase.writeback_bytes, space), &bytes);
    line("written", &rates(phase, &phase.device_written_bytes, space), &rate);
    out
}

fn heights(values: &[f64], max: f64) -> String {
    let height = |value: &f64| {
        let part = if max > 0.0 { (value / max * 8.0).ceil() } else { 0.0 };
        HEIGHTS[(part as usize).min(8)]
    };
    values.iter().map(height).collect()
}

/// The intervals that share each of `space` columns, in order.
fn columns(count: usize, space: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let space = space.min(count);
    (0..space).map(move |column| column * count / space..(column + 1) * count / space)
}

/// The rate in each column.
fn rates(phase: &PhaseSeries, counts: &[u64], space: usize) -> Vec<f64> {
    let rate = |range: std::ops::Range<usize>| {
        let time: f64 = range.clone().map(|index| phase.length(index).seconds()).sum();
        let sum: u64 = counts[range].iter().sum();
        if time > 0.0 { sum as f64 / time } else { 0.0 }
    };
    columns(counts.len(), space).map(rate).collect()
}

/// The largest value in each column.
fn levels(values: &[u64], space: usize) -> Vec<f64> {
    let max =
        |range: std::ops::Range<usize>| values[range].iter().copied().max().unwrap_or(0) as f64;
    columns(values.len(), space).map(max).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fsdyno_record::Nanos;

    use super::*;
    use crate::fixture;
    use crate::table::Format;

    fn series_csv(series: &[Series], trials: &[Trial]) -> String {
        Format::Csv
            .write(&OverTime { series, trials, style: Style::default() }, Style::default())
            .unwrap()
    }

    fn series_text(series: &[Series], trials: &[Trial], style: Style) -> String {
        Format::Text.write(&OverTime { series, trials, style }, style).unwrap()
    }

    /// A phase of 75 ms in intervals of 10 ms, for each successful trial.
    fn series(trials: &[Trial]) -> Vec<Series> {
        let phase = PhaseSeries {
            name: "create".into(),
            interval_ns: Nanos(10_000_000),
            length_ns: Nanos(75_000_000),
            ops: vec![100, 200, 400, 800, 0, 0, 0, 0],
            dirty_bytes: vec![4096, 8192, 16384, 32768, 16384, 8192, 0, 0],
            writeback_bytes: vec![0, 0, 0, 0, 4096, 4096, 4096, 0],
            device_written_bytes: Vec::new(),
        };
        trials.iter().filter_map(|trial| Series::new(trial, vec![phase.clone()])).collect()
    }

    fn folder(trials: &[Trial], cut_by: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> =
            series(trials).iter().map(|s| serde_json::to_string(s).unwrap() + "\n").collect();
        let text = lines.concat();
        fs::write(folder.path().join(FILE), &text[..text.len() - cut_by]).unwrap();
        folder
    }

    #[test]
    fn series_are_read_with_trials_and_a_torn_last_line_is_reported() {
        let trials = fixture::trials();
        let whole = folder(&trials, 0);
        let (read, torn) = load_series([whole.path()], &trials).unwrap();
        assert_eq!((read, torn), (series(&trials), vec![]));
        let from_file = load_series([whole.path().join("trials.ndjson")], &trials).unwrap();
        assert_eq!(from_file.0.len(), trials.len());
        let cut = folder(&trials, 20);
        let (read, torn) = load_series([cut.path()], &trials).unwrap();
        assert_eq!((read.len(), torn[0].line), (trials.len() - 1, trials.len()));
        let (no_trials, _) = load_series([whole.path()], &trials[..0]).unwrap();
        assert!(no_trials.is_empty(), "no trial was requested");
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(load_series([empty.path()], &trials).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn two_runs_of_one_plan_and_seed_on_hosts_keep_their_own_series() {
        let mut trials = vec![fixture::on_a_host().remove(0), fixture::on_a_host().remove(0)];
        trials[1].host.started = "2026-11-21T00:00:00Z".into();
        let mut series = series(&trials);
        series[1].phases[0].ops[0] = 7;
        let pairs = match_trials(&series, &trials);
        assert_eq!((pairs[0].1.phases[0].ops[0], pairs[1].1.phases[0].ops[0]), (100, 7));
        let folder = folder(&trials, 0);
        let (read, _) = load_series([folder.path()], &trials[1..]).unwrap();
        assert_eq!((read.len(), read[0].started.as_str()), (1, "2026-11-21T00:00:00Z"));
    }

    #[test]
    fn every_trial_phase_and_interval_has_a_line() {
        let trials = fixture::trials();
        let text = series_csv(&series(&trials), &trials);
        let mut lines = text.lines();
        let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
        assert_eq!(text.lines().count(), 1 + 8 * trials.len());
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == heads.len()));
        assert_eq!(rows[7][5..], ["create", "70000000", "75000000", "0", "0", "0", ""]);
    }

    #[test]
    fn a_line_of_text_begins_at_zero_and_fits_the_terminal() {
        let trials = &fixture::trials()[..1];
        let series = series(trials);
        for width in [40, 80] {
            let text = series_text(&series, trials, Style { width, ..Style::default() });
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
            assert!(text.contains("ops/s   ▁▂▄█____  80.0k"), "{text}");
            assert!(text.contains("w-back  ____███_  4 KiB"), "{text}");
            assert!(!text.contains("written"), "unknown: {text}");
        }
        assert!(series_text(&[], trials, Style::default()).starts_with("No series over time"));
        let narrow = series_text(&[], trials, Style { width: 40, ..Style::default() });
        assert!(narrow.lines().count() > 1 && narrow.lines().all(|line| line.len() <= 40));
    }

    #[test]
    fn many_intervals_share_columns_and_none_is_lost() {
        let columns: Vec<_> = columns(250, 60).collect();
        assert_eq!((columns.len(), columns[0].start, columns[59].end), (60, 0, 250));
        assert!(columns.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
