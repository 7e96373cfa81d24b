//! Timelines: the course of each phase over the versions of an axis (kernels), with the verdict on each step.

use fsdyno_axes::AXES;
use fsdyno_record::Trial;

use crate::compare::{self, CompareOptions, FailOn, Metric, Row, effect, interval};
use crate::model;
use crate::number::sanitize;

/// The minimum relative change of a step that is marked.
pub const MIN_STEP: f64 = 0.03;

/// A phase over the versions, by one metric.
pub struct Timeline {
    /// The title: `dirops create`.
    pub title: String,
    /// The metric.
    pub metric: Metric,
    /// The versions, in their order.
    pub versions: Vec<String>,
    /// A line for each configuration.
    pub lines: Vec<Line>,
}

/// A configuration over the versions.
pub struct Line {
    /// The name: `ext4`, with the conditions that distinguish it from others.
    pub name: String,
    /// The kind of its file system.
    pub kind: String,
    /// Its values, by the index of the version; versions without trials are omitted.
    pub points: Vec<Point>,
    /// The steps to all points but the first.
    pub steps: Vec<Row>,
}

/// The value of a line at a version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The index of the version.
    pub version_index: usize,
    /// The value divided by that of the first point: the product of the ratios (of geometric means) of the steps up to
    /// this point.
    pub relative: f64,
}

impl Line {
    /// The marked steps, each with its point.
    pub fn marked(&self) -> impl Iterator<Item = (&Row, Point)> {
        let points = self.points.iter().skip(1).copied();
        self.steps.iter().zip(points).filter(|(row, _)| row.is_step())
    }
}

/// The timelines of these trials: one by time and one by CPU time for each phase. There are none if all trials have the
/// same version.
pub fn timelines(trials: &[Trial]) -> Vec<Timeline> {
    let Some(axis) = AXES.iter().find(|axis| axis.versions) else { return Vec::new() };
    let value = |trial: &Trial| axis.words(&trial.into());
    let first = trials.first().and_then(value);
    if trials.iter().all(|trial| value(trial) == first) {
        return Vec::new();
    }
    let [times, cpu] = [Metric::Durable, Metric::Cpu].map(|metric| {
        let options = CompareOptions { metric, threshold: MIN_STEP, fail_on: FailOn::Slower };
        let compared = compare::compare_by(trials, axis, options).ok();
        compared.map_or_else(Vec::new, |compared| of_rows(compared.rows, metric))
    });
    // The timeline of a phase's CPU time comes right after that of its time: both metrics have the same phases.
    let mut timelines: Vec<Timeline> =
        times.into_iter().zip(cpu).flat_map(<[_; 2]>::from).collect();
    for timeline in &mut timelines {
        timeline.versions.sort_by(|a, b| axis.compare(a, b));
        add_points(timeline);
    }
    timelines
}

/// The timelines of the rows of one metric, whose versions are not in order yet.
fn of_rows(rows: Vec<Row>, metric: Metric) -> Vec<Timeline> {
    let mut timelines: Vec<Timeline> = Vec::new();
    for row in rows {
        let title = sanitize(&model::title(&row.place.workload, &row.phase));
        let index = timelines.iter().position(|timeline| timeline.title == title);
        let index = index.unwrap_or_else(|| {
            timelines.push(Timeline { title, metric, versions: Vec::new(), lines: Vec::new() });
            timelines.len() - 1
        });
        let timeline = &mut timelines[index];
        for version in row.step.iter().flat_map(|step| [&step.from, &step.to]) {
            if !timeline.versions.contains(version) {
                timeline.versions.push(version.clone());
            }
        }
        match timeline.lines.iter_mut().find(|line| line.name == row.place.row) {
            Some(line) => line.steps.push(row),
            None => timeline.lines.push(Line {
                name: row.place.row.clone(),
                kind: row.place.kind.clone(),
                points: Vec::new(),
                steps: vec![row],
            }),
        }
    }
    timelines
}

/// Adds the points of the lines, after the versions have been sorted.
fn add_points(timeline: &mut Timeline) {
    let position = |version: &str| timeline.versions.iter().position(|known| known == version);
    for line in &mut timeline.lines {
        let first = line.steps.first();
        let begin = first.and_then(|row| position(&row.step.as_ref()?.from));
        let Some(begin) = begin else { continue };
        let mut relative = 1.0;
        let mut points = vec![Point { version_index: begin, relative }];
        for row in &line.steps {
            let (Some(to), Some(ratio)) = (
                row.step.as_ref().and_then(|step| position(&step.to)),
                row.comparison.map(|comparison| comparison.ratio),
            ) else {
                break;
            };
            relative *= ratio;
            points.push(Point { version_index: to, relative });
        }
        line.points = points;
    }
}

impl Timeline {
    /// The measure as text: `CPU time`, `Time to durable`.
    pub fn measure(&self) -> &'static str {
        let first = self.lines.iter().flat_map(|line| &line.steps).next();
        first.map_or("", |row| row.measure.words())
    }

    /// A sentence for each marked step, the largest first.
    pub fn sentences(&self) -> Vec<(f64, String)> {
        let marked =
            self.lines.iter().flat_map(|line| line.marked().map(move |point| (line, point.0)));
        let sentence = |(line, row): (&Line, &Row)| {
            let (comparison, step) = (row.comparison?, row.step.as_ref()?);
            let text = format!(
                "{} on {}: {} {} from {} to {} (95 % interval {}, n = {})",
                self.title,
                line.name,
                self.measure(),
                effect(row),
                step.from,
                step.to,
                interval(row),
                comparison.n
            );
            Some((comparison.ratio.ln().abs(), text))
        };
        marked.filter_map(sentence).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fsdyno_record::Nanos;

    use super::*;
    use crate::fixture;

    /// The fixture's trials on three kernels, of which the last doubles the CPU time of ext4.
    pub fn on_kernels() -> Vec<Trial> {
        let mut all = Vec::new();
        for (kernel, factor) in [("6.12.3", 1001), ("5.10.0", 1000), ("7.3.4", 2010)] {
            for mut trial in fixture::trials() {
                trial.plan.lab_mut().unwrap().kernel = kernel.into();
                trial.plan = trial.plan.clone().with_hash();
                trial.lab_id = Some(format!("lab of {kernel}"));
                let ext4 = trial.plan.label == "ext4";
                for phase in &mut trial.measured.phases {
                    let permille = if ext4 { factor + trial.seed } else { 1000 };
                    phase.cpu_ns = Nanos(phase.cpu_ns.0 / 1000 * permille);
                }
                all.push(trial);
            }
        }
        all
    }

    #[test]
    fn versions_are_in_their_order_and_only_a_step_beyond_its_interval_is_marked() {
        let all = timelines(&on_kernels());
        let titles: Vec<&str> = all.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles[..2], ["dirops create", "dirops create"]);
        assert_eq!(
            (all.len(), all[0].measure(), all[1].measure()),
            (8, "Time to durable", "CPU time")
        );
        assert_eq!(all[1].versions, ["5.10.0", "6.12.3", "7.3.4"]);
        let line = &all[1].lines[0];
        assert_eq!((line.name.as_str(), line.points.len()), ("ext4", 3));
        let marked: Vec<Point> = line.marked().map(|(_, point)| point).collect();
        assert_eq!((marked.len(), marked[0].version_index), (1, 2));
        assert!((marked[0].relative - 2.0).abs() < 0.02, "{marked:?}");
        assert!(all[0].lines.iter().all(|line| line.marked().next().is_none()));
        let (_, text) = &all[1].sentences()[0];
        assert!(
            text.starts_with("dirops create on ext4: CPU time x2.01 from 6.12.3 to 7.3.4"),
            "{text}"
        );
    }

    #[test]
    fn one_kernel_has_no_timeline() {
        assert!(timelines(&fixture::trials()).is_empty());
        assert!(timelines(&[]).is_empty());
    }

    #[test]
    fn a_single_seed_has_points_and_no_mark() {
        let one: Vec<Trial> = on_kernels().into_iter().filter(|trial| trial.seed == 1).collect();
        let all = timelines(&one);
        assert_eq!(all[1].lines[0].points.len(), 3);
        assert!(
            all.iter().flat_map(|chart| &chart.lines).all(|line| line.marked().next().is_none())
        );
    }
}
