//! Curves: the growth of a phase's time with the number of files, on each file system.

use crate::validity::Flag;
use fsdyno_axes::naming::RowNames;
use fsdyno_record::Trial;
use fsdyno_stats::Summary;
use fsdyno_stats::growth::{self, Growth};

use crate::baseline::Basis;
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;
use crate::table::{Fit, Table};
use crate::view::{self, CURVE, is_point};

/// The workload parameter that holds the point of a trial: its number of files.
const FILES: &str = "files";

/// One phase of one workload over every point.
#[derive(Debug)]
pub struct Curve<'a> {
    /// The workload and the phase.
    pub title: String,
    /// Numbers of files, ascending.
    pub points: Vec<u64>,
    /// A line for each file system.
    pub lines: Vec<Line<'a>>,
}

/// One file system over every point.
#[derive(Debug)]
pub struct Line<'a> {
    /// The row's name.
    pub name: String,
    /// The file system's row at each point, or `None` if no trial of that point succeeded.
    pub rows: Vec<Option<PointRow<'a>>>,
    /// The growth of the time to returned, or `None` for fewer than two points.
    pub growth: Option<Growth>,
}

/// A row of the section for one point.
#[derive(Debug)]
pub struct PointRow<'a> {
    /// Seconds until the last call returned.
    pub returned: Summary,
    /// The flags of the trials of this point.
    pub flags: Vec<Flag>,
    /// The workload without its point.
    pub curve_workload: String,
    /// The workload with its point, such as `dirops files=1000`.
    pub workload: String,
    /// The row in the point's section.
    pub row: Row<'a>,
}

/// The kind of growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The whole interval of the exponent is nearer to 1 than to any other whole number.
    Line,
    /// The whole interval of the exponent is nearer to 2 than to any other whole number.
    Parabola,
    /// Neither, or undecided.
    Neither,
}

/// The shape of an exponent; with two points there is no interval and no shape.
pub fn shape(growth: &Growth) -> Shape {
    let Some((low, high)) = growth.interval else { return Shape::Neither };
    let is_near = |whole: f64| low > whole - 0.5 && high < whole + 0.5;
    if is_near(1.0) {
        Shape::Line
    } else if is_near(2.0) {
        Shape::Parabola
    } else {
        Shape::Neither
    }
}

impl Shape {
    /// The exponent and the name of the shape.
    fn exponent_and_name(self) -> Option<(f64, &'static str)> {
        match self {
            Shape::Line => Some((1.0, "linear")),
            Shape::Parabola => Some((2.0, "quadratic")),
            Shape::Neither => None,
        }
    }
}

/// Returns true if the displayed interval of the exponent contains the exponent of its shape: an exponent nearest to
/// 1 may still be significantly above 1.
fn includes_shape(growth: &Growth) -> bool {
    let shown = |end: f64| (end * 100.0).round() / 100.0;
    let Some((low, high)) = growth.interval else { return false };
    let contains = |(whole, _)| shown(low) <= whole && whole <= shown(high);
    shape(growth).exponent_and_name().is_some_and(contains)
}

/// The growth as text: `0.99 [0.98, 1.01], linear`; `1.22 [1.04, 1.41], nearest to linear, but steeper`.
pub fn words(growth: &Growth) -> String {
    let name = match shape(growth).exponent_and_name() {
        Some((_, name)) if includes_shape(growth) => format!(", {name}"),
        Some((whole, name)) => {
            let direction = if growth.exponent > whole { "steeper" } else { "flatter" };
            format!(", nearest to {name}, but {direction}")
        }
        None if growth.interval.is_none() => ", from two points, which every power fits".into(),
        None => ", neither clearly linear nor quadratic".into(),
    };
    let interval =
        growth.interval.map_or(String::new(), |(low, high)| format!(" [{low:.2}, {high:.2}]"));
    format!("{:.2}{interval}{name}", growth.exponent)
}

/// The curves of these trials, in the order of the trials.
pub fn curves<'a>(trials: &'a [Trial]) -> Vec<Curve<'a>> {
    let sections_of =
        |trials: &[&'a Trial], names: &RowNames| view::sections_named(trials, names, None.into());
    let points = each_point(trials, sections_of);
    points.into_iter().flat_map(|(sizes, sections)| assemble(&sizes, sections)).collect()
}

/// Each point of each curve as a separate section. The measure is the time to returned, to which the exponent is
/// fitted; p-values are not adjusted yet.
pub fn points<'a>(trials: &'a [Trial], basis: Basis<'_>) -> Vec<Section<'a>> {
    let measure = Some(Measure::Returned);
    let sections_of = |trials: &[&'a Trial], names: &RowNames| {
        view::unadjusted_sections(trials, names, basis, measure)
    };
    let mut points = Vec::new();
    for (sizes, sections) in each_point(trials, sections_of) {
        for (size, sections) in sizes.iter().zip(sections) {
            points.extend(sections.into_iter().map(|section| {
                let workload = format!("{} {FILES}={size}", section.workload);
                Section { workload, ..section }
            }));
        }
    }
    points
}

/// The sizes of each curve, and the sections of its trials at each size.
type Points<'a> = (Vec<u64>, Vec<Vec<Section<'a>>>);

fn each_point<'a>(
    trials: &'a [Trial],
    sections_of: impl Fn(&[&'a Trial], &RowNames) -> Vec<Section<'a>>,
) -> Vec<Points<'a>> {
    let param =
        |trial: &'a Trial, key: &str| trial.plan.workload.params.get(key).map(String::as_str);
    let files = |trial: &'a Trial| param(trial, FILES).and_then(|n| n.parse::<u64>().ok());
    let points = || trials.iter().filter(|trial| is_point(trial));
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for trial in points() {
        let group = (trial.plan.workload.name.as_str(), param(trial, CURVE).unwrap_or_default());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let mut curves = Vec::new();
    for (workload, curve) in groups {
        let curve_trials: Vec<&Trial> = points()
            .filter(|t| t.plan.workload.name == workload && param(t, CURVE) == Some(curve))
            .collect();
        let mut sizes: Vec<u64> = curve_trials.iter().filter_map(|trial| files(trial)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // A row has the same name at every point, even where other rows failed.
        let names = RowNames::of(curve_trials.iter().copied());
        let at_size = |size: &u64| {
            let trials = curve_trials.iter().copied();
            let trials = trials.filter(|trial| files(trial) == Some(*size));
            sections_of(&view::distinct(trials), &names)
        };
        let sections = sizes.iter().map(at_size).collect();
        curves.push((sizes, sections));
    }
    curves
}

/// Combines the sections of all points into one curve for each title.
fn assemble<'a>(points: &[u64], sections: Vec<Vec<Section<'a>>>) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for (index, sections) in sections.into_iter().enumerate() {
        for section in sections {
            let title = section.title();
            let known = curves.iter().position(|curve| curve.title == title);
            let curve = known.unwrap_or_else(|| {
                curves.push(Curve { title, points: points.to_vec(), lines: Vec::new() });
                curves.len() - 1
            });
            for row in section.rows {
                let lines = &mut curves[curve].lines;
                let known = lines.iter().position(|line| line.name == row.name);
                let line = known.unwrap_or_else(|| {
                    let rows = points.iter().map(|_| None).collect();
                    lines.push(Line { name: row.name.clone(), rows, growth: None });
                    lines.len() - 1
                });
                let workload = format!("{} {FILES}={}", section.workload, points[index]);
                let place = PointRow {
                    returned: row.returned,
                    flags: row.flags.clone(),
                    curve_workload: section.workload.clone(),
                    workload,
                    row,
                };
                lines[line].rows[index] = Some(place);
            }
        }
    }
    for line in curves.iter_mut().flat_map(|curve| &mut curve.lines) {
        line.growth = growth_of(points, &line.rows);
    }
    curves
}

/// Fits the exponent to all trials, not to means, so that the interval includes the spread of the trials.
fn growth_of(points: &[u64], rows: &[Option<PointRow<'_>>]) -> Option<Growth> {
    let times: Vec<(f64, f64)> = points
        .iter()
        .zip(rows)
        .filter_map(|(files, place)| Some((*files as f64, place.as_ref()?)))
        .flat_map(|(files, place)| {
            place.row.trials.iter().map(move |(_, phase)| (files, phase.returned_ns.seconds()))
        })
        .collect();
    growth::exponent(&times)
}

/// The table of a curve: number of files, then the time on each file system; the last row is the exponent.
pub fn table(curve: &Curve<'_>) -> Table {
    let mut heads = vec!["files".to_string()];
    heads.extend(curve.lines.iter().map(|line| line.name.clone()));
    let mut rows = Vec::new();
    for (index, files) in curve.points.iter().enumerate() {
        let mut cells = vec![number::count(*files)];
        cells.extend(curve.lines.iter().map(|line| match &line.rows[index] {
            None => "-".to_string(),
            Some(place) => {
                let spread = place.returned.relative_half_width();
                let spread = spread.map_or(String::new(), |h| format!(" ±{}", number::percent(h)));
                let flags = if place.flags.is_empty() { "" } else { " !" };
                format!("{}{spread}{flags}", number::seconds(place.returned.mean))
            }
        }));
        rows.push(cells);
    }
    let mut last = vec!["exponent".to_string()];
    last.extend(curve.lines.iter().map(|line| match line.growth {
        None => "-".to_string(),
        Some(growth) => format!("{:.2}", growth.exponent),
    }));
    rows.push(last);
    Table {
        title: format!("{} (time until the last call returned)", curve.title),
        fit: Fit::Blocks { labels: 1, indent: 0 },
        ..Table::grid(heads, 0, rows)
    }
}

/// The rows of all points of all curves.
pub fn rows<'c, 'a>(curves: &'c [Curve<'a>]) -> impl Iterator<Item = &'c Row<'a>> {
    let lines = curves.iter().flat_map(|curve| &curve.lines);
    lines.flat_map(|line| line.rows.iter().flatten()).map(|place| &place.row)
}

/// The flags of all points of all curves.
pub fn flags(curves: &[Curve<'_>]) -> Vec<Flag> {
    let places = || {
        let lines = curves.iter().flat_map(|curve| &curve.lines);
        lines.flat_map(|line| line.rows.iter().flatten())
    };
    let is_present = |flag: &Flag| places().any(|place| place.flags.contains(flag));
    Flag::ALL.iter().copied().filter(is_present).collect()
}

/// A sentence for each file system, and one for each flag of its points.
pub fn sentences(curve: &Curve<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    for line in &curve.lines {
        if let Some(growth) = &line.growth {
            sentences.push(format!("{}: time grows as files^{}.", line.name, words(growth)));
        }
        let mut flags: Vec<(Flag, Vec<String>)> = Vec::new();
        for (files, place) in curve.points.iter().zip(&line.rows) {
            for flag in place.iter().flat_map(|place| &place.flags) {
                match flags.iter_mut().find(|(known, _)| known == flag) {
                    Some((_, counts)) => counts.push(number::count(*files)),
                    None => flags.push((*flag, vec![number::count(*files)])),
                }
            }
        }
        for (flag, counts) in flags {
            let counts = counts.join(", ");
            sentences.push(format!("{}: {flag} at {counts} files.", line.name));
        }
    }
    sentences
}

/// A sentence that names the file systems whose time grows linearly or quadratically, exactly or most nearly; `None` if
/// nothing can be concluded.
pub fn answer(curve: &Curve<'_>) -> Option<String> {
    let part = |(target, exactly): (Shape, bool)| {
        let has_shape =
            |growth: &Growth| shape(growth) == target && includes_shape(growth) == exactly;
        let lines = curve.lines.iter().filter(|line| line.growth.as_ref().is_some_and(has_shape));
        let names: Vec<&str> = lines.map(|line| line.name.as_str()).collect();
        let (_, shape) = target.exponent_and_name()?;
        let verb = if exactly { "is" } else { "is nearest to" };
        (!names.is_empty()).then(|| format!("{verb} {shape} on {}", names.join(", ")))
    };
    let kinds = [Shape::Line, Shape::Parabola].into_iter().flat_map(|s| [(s, true), (s, false)]);
    let parts: Vec<String> = kinds.filter_map(part).collect();
    // A shape is only as reliable as its points.
    let flags = flags(std::slice::from_ref(curve));
    let flags: Vec<&str> = flags.iter().map(|flag| flag.name()).collect();
    let doubt = match flags.as_slice() {
        [] => String::new(),
        flags => format!(" (some points are {})", flags.join(", ")),
    };
    let shapes = parts.join(" and ");
    (!parts.is_empty()).then(|| format!("The growth of {} {shapes}{doubt}.", curve.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn linear_and_quadratic_growth_are_distinguished_and_other_trials_are_not_points() {
        let mut trials = fixture::curve();
        trials.extend(fixture::single());
        let curves = curves(&trials);
        let titles: Vec<&str> = curves.iter().map(|curve| curve.title.as_str()).collect();
        assert_eq!(titles, ["dirops create", "dirops delete"]);
        let create = &curves[0];
        assert_eq!(create.points, [1000, 2000, 4000, 8000]);
        let shapes: Vec<(&str, Shape)> = create
            .lines
            .iter()
            .map(|line| (line.name.as_str(), shape(line.growth.as_ref().unwrap())))
            .collect();
        assert_eq!(shapes, [("ext4", Shape::Line), ("linear", Shape::Parabola)]);
        let ordinary = view::sections(&trials, None);
        assert!(ordinary.iter().all(|section| section.rows.iter().all(|row| row.returned.n == 1)));
        assert_eq!(ordinary.len(), 4);
    }

    #[test]
    fn a_growth_significantly_steeper_than_linear_is_not_called_linear() {
        let growth = |exponent, low, high| Growth {
            n: 12,
            exponent,
            interval: Some((low, high)),
            error: Some(0.05),
        };
        for (growth, expected) in [
            (growth(1.22, 1.04, 1.41), "1.22 [1.04, 1.41], nearest to linear, but steeper"),
            (growth(1.02, 0.96, 1.08), "1.02 [0.96, 1.08], linear"),
            (growth(1.01, 1.002, 1.02), "1.01 [1.00, 1.02], linear"),
            (growth(1.8, 1.7, 1.9), "1.80 [1.70, 1.90], nearest to quadratic, but flatter"),
            (growth(1.5, 1.3, 1.7), "1.50 [1.30, 1.70], neither clearly linear nor quadratic"),
        ] {
            assert_eq!(words(&growth), expected);
        }
        let trials = fixture::curve();
        let mut curves = curves(&trials);
        curves[0].lines[0].growth = Some(growth(1.22, 1.04, 1.41));
        curves[0].lines[1].growth = Some(growth(2.0, 1.9, 2.1));
        let text = answer(&curves[0]).unwrap();
        assert!(text.contains("is nearest to linear on ext4 and is quadratic"), "{text}");
    }

    #[test]
    fn two_points_have_no_shape() {
        let trials: Vec<Trial> = fixture::curve()
            .into_iter()
            .filter(|trial| {
                ["1000", "8000"].contains(&trial.plan.workload.params["files"].as_str())
            })
            .collect();
        let curves = curves(&trials);
        let growth = curves[0].lines[0].growth.unwrap();
        assert_eq!(shape(&growth), Shape::Neither);
        assert!(words(&growth).ends_with("from two points, which every power fits"));
    }
}
