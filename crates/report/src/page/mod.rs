//! The page: one self-contained report.html with every number, chart and condition; and the same
//! charts as files.
//!
//! A [`figure::Figure`] is a chart with its table. Each kind of chart is a module here that creates figures of a
//! section; [`bars`] and [`chart`] draw. Parts that would make the page too large are omitted, and the page reports
//! this ([`budget`]).

mod aged;
mod bars;
mod budget;
mod chart;
mod colour;
mod conditions;
mod cpu;
mod crash;
mod cuts;
mod device;
mod factors;
mod facts;
mod figure;
mod figures;
mod files;
mod gaps;
mod growth;
mod latency;
mod over_time;
mod overview;
mod part;
mod published;
mod scale;
mod study;
mod style;
mod summary;
mod table;
mod timeline;
mod times;
mod tune;
mod why;

use fsdyno_record::Trial;
use fsdyno_record::series::Series;
use fsdyno_why::StoredExplanation;
use minijinja::{AutoEscape, Environment, Value, context};

use crate::baseline::Basis;
use crate::curve::{self, Curve, PointRow};
use crate::error::ReportError;
use crate::model::{Row, Section};
use crate::series::Index;
use crate::study::{Extras, Judged};
use crate::table::Table;
use crate::view;
use crate::{
    calls, columns, command, described, disks, instrument, labs, number, repeatability, subject,
    trials, work_units,
};
use budget::Budget;
use colour::Appearances;
use conditions::Conditions;
use figure::Figure;
use figures::figures;
use part::{Part, figure_view, grid};
use style::style;
use summary::{answers, compared_sentence, more_explained, title, unfinished};

pub use crash::html as crash_html;
pub use factors::charts as factor_charts;
pub use files::{ChartFile, charts, is_chart};
pub use over_time::drawn_trials;
pub use published::charts as published_charts;
pub use tune::html as tune_html;
pub use why::why_charts;

/// The page, with series over time, and with ratios to the baseline or to the best. It needs no network, scripts or
/// fonts; all untrusted text is escaped.
///
/// # Errors
/// Only [`ReportError::Template`], for a fault in the page's own template.
pub fn html<'b>(
    trials: &[Trial],
    series: &[Series],
    basis: impl Into<Basis<'b>>,
) -> Result<String, ReportError> {
    html_with(trials, series, &[], basis)
}

/// [`html`] with the explanations of `fsdyno why`.
///
/// # Errors
/// As [`html`].
pub fn html_with<'b>(
    trials: &[Trial],
    series: &[Series],
    explanations: &[StoredExplanation],
    basis: impl Into<Basis<'b>>,
) -> Result<String, ReportError> {
    page_of(None, trials, Extras { series, explanations, ..Extras::default() }, basis.into())
}

/// The page of a study: its claims with their verdicts and its published tables with the measured numbers
/// come first, then everything that [`html_with`] has, and the cost of power cuts.
///
/// # Errors
/// As [`html`].
pub fn study_page<'b>(
    judged: &Judged,
    trials: &[Trial],
    extras: Extras<'_>,
    basis: impl Into<Basis<'b>>,
) -> Result<String, ReportError> {
    page_of(Some(&judged.merged()), trials, extras, basis.into())
}

fn page_of(
    judged: Option<&Judged>,
    trials: &[Trial],
    extras: Extras<'_>,
    basis: Basis<'_>,
) -> Result<String, ReportError> {
    let Extras { series, explanations, crashed, .. } = extras;
    let sections = view::sections(trials, basis);
    let curves = curve::curves(trials);
    let curve_points = || points_of(&curves);
    let rows = || rows_of(&sections);
    let points = || curve_points().map(|point| (point.workload.as_str(), &point.row));
    let appearances = Appearances::of(rows().chain(points()).map(|(_, row)| row));
    let mut environment = environment()?;
    let timelines = crate::timeline::timelines(trials);
    let extra_parts = usize::from(!crashed.is_empty()) + usize::from(!timelines.is_empty());
    let extra_parts = extra_parts + explanations.len().min(why::MAX_EXPLAINED);
    let mut budget = Budget::of(sections.len() + curves.len() + extra_parts);
    let overview = overview::figure(&sections, &appearances);
    let overview = overview.and_then(|figure| figure_view(figure, "all", &mut budget));
    let matrix = crate::matrix::table(&sections).map(|matrix| grid(&budget.fit(matrix)));
    let timeline = timeline::part(&timelines, &mut budget);
    let mut parts = parts(&sections, &curves, &appearances, &Index::of(series), &mut budget);
    parts.splice(0..0, timeline);
    let cuts = power_cuts(crashed, &mut budget);
    let cuts_at = cuts.as_ref().map(|part| part.id.clone());
    parts.extend(cuts);
    let explained = why::views(explanations, extras.places, &mut budget);
    let leads = study::Leads::of(&explained, crashed, cuts_at);
    let counts = |judged: &Judged| [crate::study::counts(judged), extras.not_run()].concat();
    let study = judged.map(|judged| study::section(judged, leads, &mut environment)).transpose()?;
    Ok(environment.get_template("page")?.render(context! {
        title => judged.map_or_else(|| plain_title(&sections, &curves), |judged| number::sanitize(&judged.title)),
        style => Value::from_safe_string(style() + judged.map_or("", |_| study::STYLE)),
        study => study.map(Value::from_safe_string),
        patterns => Value::from_safe_string(colour::patterns()),
        version => trials.first().map(|t| t.program()),
        compared => compared_sentence(trials, &sections, &curves),
        broken => budget::lines(repeatability::differences(trials)),
        answer => budget::lines(judged.map_or_else(|| answers(&sections, &curves, basis), counts)),
        subject => budget::lines(subject::lines(trials)),
        overview,
        matrix,
        parts,
        explained,
        more_explained => more_explained(explanations.len().saturating_sub(why::MAX_EXPLAINED)),
        left_out => budget.omission_note(),
        legend => [columns::meanings(&sections), trials::marks(&sections)].concat(),
        flags => trials::flags(&sections, &curves).iter().map(|f| [f.name(), f.meaning()]).collect::<Vec<_>>(),
        instrument => instrument::view(&sections, budget::LINES),
        gaps => gaps::table(&sections).map(|table| grid(&table.within(budget::GAPS))),
        unfinished => unfinished(trials),
        conditions => Some(Conditions::of(rows().chain(points()), budget::CONDITIONS)).filter(|all| !all.is_empty()),
        conditions_are => "As found in effect, not as requested. A value that depends on the seed is that of the first seed.",
        conditions_file => "trials.ndjson",
        labs => conditions::labs(trials),
        more_labs => labs::labs(trials).len().saturating_sub(conditions::LABS),
        command => budget::text(command::repeat_command(trials, basis)),
    })?)
}

/// The template of the page.
fn environment() -> Result<Environment<'static>, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_template("page", include_str!("page.html"))?;
    Ok(environment)
}

/// Every row, with the name of its workload.
fn rows_of<'s, 'a>(sections: &'s [Section<'a>]) -> impl Iterator<Item = (&'s str, &'s Row<'a>)> {
    let with_workload =
        |section: &'s Section<'a>| section.rows.iter().map(|row| (section.workload.as_str(), row));
    sections.iter().flat_map(with_workload)
}

/// The title of a page without a study.
fn plain_title(sections: &[Section<'_>], curves: &[Curve<'_>]) -> String {
    title(
        rows_of(sections)
            .chain(points_of(curves).map(|point| (point.curve_workload.as_str(), &point.row))),
    )
}

/// Every point of the curves.
fn points_of<'s, 'a>(curves: &'s [Curve<'a>]) -> impl Iterator<Item = &'s PointRow<'a>> {
    curves.iter().flat_map(|curve| &curve.lines).flat_map(|line| line.rows.iter().flatten())
}

/// The section on power cuts, if there were any.
fn power_cuts(crashed: &[fsdyno_crash::Row], budget: &mut Budget) -> Option<Part> {
    let rows = crate::crash::with_unique_names(crashed);
    (!rows.is_empty()).then(|| crash::page_part(&rows, budget)).flatten()
}

fn parts(
    sections: &[Section<'_>],
    curves: &[Curve<'_>],
    appearances: &Appearances,
    series: &Index<'_>,
    budget: &mut Budget,
) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let main = crate::answer::first_main(sections);
    for (index, section) in sections.iter().enumerate() {
        if !budget.next_part() {
            continue;
        }
        let id = format!("s{index}");
        // Details are computed only if there is space for them.
        let mut figures = figures(section, appearances, series).into_iter();
        let first = figures.next().and_then(|figure| figure_view(figure, &id, budget));
        let figures = figures.filter_map(|figure| figure_view(figure, &id, budget)).collect();
        let (results, units) = work_units::lines(section);
        let counts = results.into_iter().chain(units).chain(disks::lines(section));
        let lines = counts.chain(described::lines(section)).collect();
        let calls = calls_of(section, appearances, budget);
        let lines = budget::lines(lines);
        let (title, main) = (section.title(), index == main);
        parts.push(Part { id, title, main, first, figures, lines, calls });
    }
    for (index, curve) in curves.iter().enumerate() {
        if !budget.next_part() {
            continue;
        }
        let id = format!("c{index}");
        let figure = growth::figure(curve, appearances);
        let title = figure.title.clone();
        let first = figure_view(Figure { title: "Growth".into(), ..figure }, &id, budget);
        let lines = budget::lines(curve::sentences(curve));
        let main = parts.is_empty();
        parts.push(Part { id, title, main, first, figures: Vec::new(), lines, calls: None });
    }
    parts
}

/// Every kind of call, with its count, its share of the time, and latencies.
fn calls_of(
    section: &Section<'_>,
    appearances: &Appearances,
    budget: &mut Budget,
) -> Option<Value> {
    let heads = ["<file system", "<call", "count", "share", "p50", "p99", "max"];
    let mut table = Table::new("All seeds; share of the time of all calls", &heads);
    for row in &section.rows {
        for calls in calls::calls(row) {
            let cells = vec![
                row.name.clone(),
                calls.kind.to_string(),
                number::count(calls.count),
                number::percent(calls.share),
                calls.p50.to_string(),
                calls.p99.to_string(),
                calls.max.to_string(),
            ];
            table.row(appearances.get(row), cells);
        }
        if table.size() > budget.remaining() {
            break;
        }
    }
    let table = budget.fit(table);
    (!table.rows.is_empty()).then(|| grid(&table))
}

#[cfg(test)]
mod tests {
    use fsdyno_record::trial::Outcome;

    use super::*;
    use crate::fixture;

    fn page(trials: &[Trial]) -> String {
        html(trials, &fixture::series(trials), None).unwrap()
    }

    #[test]
    fn the_page_is_as_reviewed() {
        // A separate file, so that a reader can open the sample in a browser.
        insta::assert_binary_snapshot!("report.html", page(&fixture::with_failures()).into_bytes());
    }

    #[test]
    fn the_page_needs_nothing_from_the_network() {
        let page = page(&fixture::trials());
        for outside in ["http:", "https:", "<script", "<link", "<img", "@import"] {
            assert!(!page.contains(outside), "{outside} is in the page");
        }
        assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
    }

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "</title><script>alert('x')</script>\"><b>";
        let mut trials = fixture::with_failures();
        for trial in &mut trials {
            trial.plan.label = format!("{hostile}{}", trial.plan.label);
            trial.plan.workload.name.push_str(hostile);
            trial.plan.hash.push_str(hostile);
            trial.trial_id.push_str(hostile);
            trial.lab_id = Some(hostile.into());
            trial.lab = [(hostile.to_string(), hostile.to_string())].into();
            trial.conditions.notes.push(hostile.into());
            trial.conditions.mount.push_str(hostile);
            trial.conditions.mkfs.push(hostile.into());
            trial.conditions.features = [(hostile.to_string(), hostile.to_string())].into();
            trial.reason = Some(hostile.into());
            trial.host.started.push_str(hostile);
            trial.measured.phases.iter_mut().for_each(|phase| phase.name.push_str(hostile));
            trial.measured.gaps.iter_mut().for_each(|gap| gap.done.push_str(hostile));
        }
        let page = html(&trials, &fixture::series(&trials), Some(hostile)).unwrap();
        assert!(!page.contains("<script") && !page.contains("<b>"));
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn tables_and_charts_are_accessible() {
        let page = page(&fixture::trials());
        assert!(page.contains("<html lang=\"en\">") && page.contains("class=\"skip\""));
        assert_eq!(
            page.matches("<svg class=\"chart").count(),
            page.matches("role=\"img\"").count()
        );
        assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
        assert_eq!(
            page.matches("<th").count() - page.matches("<thead").count(),
            page.matches("scope=").count()
        );
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    }

    /// The fixture's trials on a number of disks.
    fn on_disks(disks: usize) -> Vec<Trial> {
        let trials = fixture::trials();
        let on = |disk: usize| {
            let on = move |mut trial: Trial| {
                fixture::set_disk(&mut trial, &format!("disk-{disk}"));
                trial
            };
            trials.iter().cloned().map(on)
        };
        (0..disks).flat_map(on).collect()
    }

    #[test]
    fn two_hundred_trials_stay_under_one_and_a_half_megabytes() {
        let trials = on_disks(12);
        assert!(trials.len() >= 200);
        let page = page(&trials);
        assert!(page.len() < 1_500_000, "{}", page.len());
        assert!(!page.contains("this page omits"), "all of its charts are there");
    }

    #[test]
    fn trials_that_all_failed_still_have_a_page() {
        let failed: Vec<Trial> = fixture::with_failures()
            .into_iter()
            .filter(|trial| trial.outcome != Outcome::Ok)
            .collect();
        let page = page(&failed);
        assert!(page.contains("No trial succeeded") && page.contains("bad block bitmap"));
    }

    #[test]
    fn pooled_kernel_workers_are_named_as_such() {
        let page = page(&fixture::trials());
        assert!(page.contains("kworker (pooled, unattributed) "), "no kworker in the conditions");
    }

    #[test]
    fn gaps_without_work_are_omitted() {
        let mut trials = fixture::single();
        assert!(page(&trials).contains("Between the phases"));
        for gap in trials.iter_mut().flat_map(|trial| &mut trial.measured.gaps) {
            (gap.wanted, gap.done) = ("none".into(), "none".into());
        }
        assert!(!page(&trials).contains("Between the phases"));
    }

    #[test]
    fn a_host_has_a_page_without_device_tables() {
        let page = page(&fixture::on_a_host());
        assert!(page.contains("NOT DURABLE") && !page.contains("flushes"));
        assert!(!page.contains("space used"), "a directory's space is the whole file system's");
    }

    #[test]
    fn the_answer_comes_first_and_the_command_and_the_conditions_last() {
        let page = page(&fixture::trials());
        let position = |text: &str| page.find(text).unwrap();
        assert!(position("class=\"answer\"") < position("id=\"overview\""));
        assert!(
            position("id=\"overview\"") < position("id=\"s0\"")
                && position("id=\"s0\"") < position("id=\"conditions\"")
        );
        assert!(position("id=\"conditions\"") < position("class=\"command\""));
        assert!(position("href=\"#repeat\"") < position("class=\"answer\""));
        assert!(
            page.contains("synced")
                && page.contains("including the space that an empty file system occupies")
        );
    }

    #[test]
    fn thousands_of_trials_have_a_page_of_a_bounded_size_that_names_what_it_omits() {
        // Ten thousand trials in the long tests: six times as many seeds as the fixture has.
        let is_full = std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full");
        let (times, minimum) = if is_full { (6, 10_000) } else { (2, 3_000) };
        let mut trials = Vec::new();
        for more in 0..times {
            trials.extend(on_disks(93).into_iter().map(|mut trial| {
                trial.seed += 3 * more;
                trial.trial_id = fsdyno_record::trial::trial_id(&trial.plan, trial.seed);
                trial
            }));
        }
        assert!(trials.len() >= minimum);
        let page = page(&trials);
        assert!(page.len() < 1_500_000, "{}", page.len());
        for part in [
            "more rows are omitted here",
            "the first 24 of 279 are drawn",
            " more rows are omitted here; trials.ndjson",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn rows_without_time_calls_or_a_second_trial_are_drawn_without_nan() {
        let mut zero = fixture::single();
        for phase in zero.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            phase.returned_ns = fsdyno_record::Nanos(0);
            phase.durable_ns = Some(fsdyno_record::Nanos(0));
            phase.ops.clear();
            phase.device = Some(Default::default());
        }
        for trials in [zero, fixture::single(), vec![fixture::trials().remove(0)], Vec::new()] {
            let page = page(&trials);
            for invalid in ["NaN", "inf%", "inf\""] {
                assert!(!page.contains(invalid), "{invalid}");
            }
        }
    }
}
