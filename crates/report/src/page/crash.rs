//! The page of power cuts: the speed of each file system and what it loses at a power cut.

use fsdyno_crash::{CutOutcome, Row};
use minijinja::{Value, context};

use super::bars::{self, Bar, Bars, Tone};
use super::budget::{self, Budget};
use super::chart::Key;
use super::colour::{self, Appearance, Appearances};
use super::conditions::Conditions;
use super::cuts;
use super::figure::{Figure, drawn_note};
use super::part::{FigureView, Part, figure_view, join_names};
use super::scale::Unit;
use super::style::style;
use crate::crash::{
    PAIRS, executed, lost, mount, name_with_disk, sentences, table_of, with_unique_names,
};
use crate::error::ReportError;
use crate::number;
use crate::table::{self, Table};

/// An outcome of a cut: its label in the key and its test. Outcomes are listed with the worst first.
type Outcome = (&'static str, fn(&CutOutcome) -> bool);

const OUTCOMES: [Outcome; 4] = [
    ("acknowledged work lost, or the whole file system", |outcome| {
        outcome.findings.violations() > 0 || outcome.recovery.lost.is_some()
    }),
    ("repair needed", |outcome| {
        outcome.recovery.unclean.is_some() || outcome.recovery.refused.is_some()
    }),
    ("unacknowledged work lost", |outcome| {
        let found = &outcome.findings;
        found.lost_ns.0 + found.files_lost + found.files_empty + found.files_stale > 0
            || found.names_lost + found.names_doubled > 0
    }),
    ("nothing lost", |_| true),
];

/// The page. It needs no network, scripts or fonts; all untrusted text is escaped.
///
/// # Errors
/// Only [`ReportError::Template`], for a fault in the page's own template.
pub fn html(rows: &[Row]) -> Result<String, ReportError> {
    let environment = super::environment()?;
    let mut budget = Budget::of(1);
    let all = with_unique_names(rows);
    let part = page_part(&all, &mut budget);
    let rows: Vec<Row> = executed(&all).cloned().collect();
    let rows = rows.as_slice();
    let title = title(rows);
    let table = table_of(rows);
    let meanings = table::legend(table.heads.iter().enumerate());
    let conditions = Conditions::of_facts(cuts::blocks(rows), budget::CONDITIONS);
    let page = environment.get_template("page")?.render(context! {
        title,
        style => Value::from_safe_string(style()),
        patterns => Value::from_safe_string(colour::patterns()),
        compared => compared_sentence(rows),
        answer => budget::lines(sentences(&all)),
        parts => part.into_iter().collect::<Vec<_>>(),
        left_out => budget.omission_note(),
        legend => meanings,
        instrument => context! {},
        subject => budget::lines(cuts::subject(rows)),
        command => budget::text(cuts::commands(rows)),
        conditions_are => "The options of the command, including defaults. The settings in effect in the guest are not recorded for power cuts. A disk or kernel from a file is given by name, not by path.",
        conditions_file => cuts::FILE,
        conditions => Some(conditions).filter(|all| !all.is_empty()),
    })?;
    Ok(page)
}

/// The section of a page that shows power cuts, or `None` if the page has no space for it.
pub fn page_part(all: &[Row], budget: &mut Budget) -> Option<Part> {
    if !budget.next_part() {
        return None;
    }
    let rows: Vec<Row> = executed(all).cloned().collect();
    let rows = rows.as_slice();
    let appearances = appearances(rows);
    let mut drawn = figures(rows, &appearances).into_iter();
    let mut view = |figure| figure_view(figure, "crash", budget);
    let first: Option<FigureView> = drawn.next().and_then(&mut view);
    let figures: Vec<FigureView> = drawn.filter_map(&mut view).collect();
    Some(Part {
        main: true,
        id: "crash".into(),
        title: "What a power cut costs".into(),
        first,
        figures,
        lines: budget::lines(examples(rows)),
        calls: None,
    })
}

fn kind(row: &Row) -> &str {
    row.plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str())
}

fn appearances(rows: &[Row]) -> Vec<Appearance> {
    Appearances::of_kinds(rows.iter().map(kind))
}

/// The title: `maildir on ext4, xfs: power cuts`.
fn title(rows: &[Row]) -> String {
    let (mut workloads, mut names): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for row in rows {
        if !workloads.contains(&row.plan.workload.name.as_str()) {
            workloads.push(&row.plan.workload.name);
        }
        if !names.contains(&row.label.as_str()) {
            names.push(&row.label);
        }
    }
    if workloads.is_empty() {
        workloads.push("nothing");
    }
    let (workloads, names) = (join_names(&workloads, 3), join_names(&names, 6));
    number::sanitize(&format!("Power cuts: {workloads} on {names}"))
}

/// The number of cuts and file systems: cuts of different file systems are not added up.
fn compared_sentence(rows: &[Row]) -> String {
    let counts = || rows.iter().map(|row| row.outcomes.len());
    let (least, max) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let (s, each) = (if max == 1 { "" } else { "s" }, if rows.len() == 1 { "" } else { " each" });
    let least =
        if least < max { format!("{} to ", number::count(least as u64)) } else { String::new() };
    let (max, rows) = (number::count(max as u64), number::counted(rows.len(), "file system"));
    format!("{least}{max} cut{s}{each} of {rows}, all of them mounted, walked and checked.")
}

/// The first violations of each row, as sentences.
fn examples(rows: &[Row]) -> Vec<String> {
    const MAX_EXAMPLES: usize = 3;
    let mut lines = Vec::new();
    for row in rows {
        let violations = row
            .outcomes
            .iter()
            .filter(|outcome| outcome.findings.violations() > 0 || outcome.recovery.lost.is_some());
        for outcome in violations.take(MAX_EXAMPLES) {
            let what = outcome.findings.examples.first().or(outcome.recovery.lost.as_ref());
            let what = what.map_or("bytes or names are gone", String::as_str);
            lines.push(number::sanitize(&format!(
                "{}, cut {}: {what}",
                name_with_disk(row),
                outcome.cut.number
            )));
        }
    }
    lines
}

/// The figures: speed with the whole table, outcomes of cuts, work lost, recovery time.
fn figures(rows: &[Row], appearances: &[Appearance]) -> Vec<Figure> {
    vec![
        speed(rows, appearances),
        outcomes(rows, appearances),
        median_and_worst(
            rows,
            appearances,
            ("lost", "Work lost"),
            lost,
            "age of the oldest unacknowledged work that was lost",
        ),
        median_and_worst(
            rows,
            appearances,
            ("recovery", "Recovery"),
            mount,
            "virtual time of the mount",
        ),
    ]
}

fn speed(rows: &[Row], appearances: &[Appearance]) -> Figure {
    let mut unit = rows.first().map_or("", |row| row.rate.unit.as_str()).to_string();
    if rows.iter().any(|row| row.rate.unit != unit) {
        unit = "units of work".into();
    }
    let bar = |(row, appearance): (&Row, &Appearance)| Bar {
        name: name_with_disk(row),
        appearance: *appearance,
        value: format!("{:.1} {}/s", row.rate.per_second, number::sanitize(&row.rate.unit)),
        parts: vec![part(row.rate.per_second, Tone::Full)],
        interval: None,
        thin_bar: None,
    };
    let bars = rows.iter().zip(appearances).map(bar).collect();
    let chart =
        bars::draw(&Bars { title: "Speed".into(), unit: Unit::Rate, bars, key: Vec::new() });
    let mut table = Table { caption: PAIRS.into(), ..table_of(rows) };
    table.rows.iter_mut().zip(appearances).for_each(|(row, appearance)| row.dot = appearance.dot());
    let note = format!(
        "{} per second until durable; one seed, so no interval. The table shows what a power cut costs{}.",
        number::sanitize(&unit),
        drawn_note(bars::MAX_BARS, rows.len())
    );
    Figure { slug: "speed", title: "Speed, and what a power cut costs".into(), note, chart, table }
}

fn part(length: f64, tone: Tone) -> bars::Part {
    bars::Part { length, tone }
}

/// The number of cuts by their worst outcome.
fn count_outcomes(row: &Row) -> [usize; OUTCOMES.len()] {
    let mut counts = [0; OUTCOMES.len()];
    for outcome in &row.outcomes {
        if let Some(index) = OUTCOMES.iter().position(|(_, test)| test(outcome)) {
            counts[index] += 1;
        }
    }
    counts
}

fn outcomes(rows: &[Row], appearances: &[Appearance]) -> Figure {
    let bar = |(row, appearance): (&Row, &Appearance)| {
        let counts = count_outcomes(row);
        Bar {
            name: name_with_disk(row),
            appearance: *appearance,
            value: format!("{} of {} lost nothing", counts[OUTCOMES.len() - 1], row.outcomes.len()),
            parts: (0..)
                .zip(counts)
                .map(|(index, n)| part(n as f64, Tone::Neutral(index)))
                .collect(),
            interval: None,
            thin_bar: None,
        }
    };
    let bars = rows.iter().zip(appearances).map(bar).collect();
    let key = (0..)
        .zip(OUTCOMES)
        .map(|(index, (what, _))| (Key::Box(format!("n{index}")), what.to_string()));
    let chart = bars::draw(&Bars {
        title: "Outcomes of power cuts".into(),
        unit: Unit::Count,
        bars,
        key: key.collect(),
    });
    let heads: Vec<&str> =
        ["<file system"].into_iter().chain(OUTCOMES.map(|(what, _)| what)).collect();
    let mut table = Table::new("Cuts by their worst outcome", &heads);
    for (row, appearance) in rows.iter().zip(appearances) {
        let counts = count_outcomes(row).map(|n| n.to_string());
        table.row(*appearance, std::iter::once(name_with_disk(row)).chain(counts).collect());
    }
    let note = format!("Cuts by their worst outcome{}.", drawn_note(bars::MAX_BARS, rows.len()));
    Figure { slug: "outcomes", title: "Outcomes of power cuts".into(), note, chart, table }
}

/// The figure of a time: its median and its maximum over the cuts.
fn median_and_worst(
    rows: &[Row],
    appearances: &[Appearance],
    (slug, title): (&'static str, &'static str),
    value: fn(&CutOutcome) -> u64,
    what: &str,
) -> Figure {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut table = Table::new(what, &["<file system", "median", "worst"]);
    let mut bars = Vec::new();
    for (row, appearance) in rows.iter().zip(appearances) {
        let (median, max) = row.median_and_max(value);
        bars.push(Bar {
            name: name_with_disk(row),
            appearance: *appearance,
            value: format!(
                "{} / {}",
                number::seconds(seconds(median)),
                number::seconds(seconds(max))
            ),
            parts: vec![
                part(seconds(median), Tone::Full),
                part(seconds(max - median), Tone::Light),
            ],
            interval: None,
            thin_bar: None,
        });
        let cells = [median, max].map(|ns| number::seconds(seconds(ns)));
        table.row(*appearance, std::iter::once(name_with_disk(row)).chain(cells).collect());
    }
    let colour =
        appearances.first().map_or("ink".into(), |appearance| format!("f{}", appearance.colour));
    let key = vec![
        (Key::Box(colour.clone()), "median cut".to_string()),
        (Key::Box(format!("{colour} light")), "worst cut".to_string()),
    ];
    let chart = bars::draw(&Bars { title: title.into(), unit: Unit::Seconds, bars, key });
    let note = format!("Median and worst cut: {what}{}.", drawn_note(bars::MAX_BARS, rows.len()));
    Figure { slug, title: title.into(), note, chart, table }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_fixture;

    #[test]
    fn the_page_shows_speed_with_the_cost_and_needs_nothing_from_the_network() {
        let page = html(&crash_fixture::crashed()).unwrap();
        for part in [
            "Power cuts: dirops on ext4, off",
            "48.0 deliveries/s",
            "No acknowledged byte or name was lost in 3 cuts of ext4: with 95 % confidence fewer than 64 %",
            "3 cuts each of 2 file systems",
            "off on a disk that drops flushes",
            "VIOLATIONS",
            "must be 0",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for outside in ["http:", "https:", "<script", "<link", "<img", "@import", "NaN"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<svg class=\"chart").count(), 4);
        assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
        insta::assert_binary_snapshot!("crash.html", page.into_bytes());
    }

    #[test]
    fn a_row_that_could_not_run_is_named_and_not_drawn_and_the_title_has_every_workload() {
        let mut rows = crash_fixture::crashed();
        let plan = rows[0].plan.clone();
        let skipped = Row::skipped(&plan, 1, rows[0].disk, "no such driver".into());
        rows.push(Row { label: "old".into(), ..skipped });
        rows[1].plan.workload.name = "maildir".into();
        let page = html(&rows).unwrap();
        assert!(page.contains("Power cuts: dirops, maildir on ext4, off<"), "{page}");
        assert_eq!(page.matches("old is skipped: no such driver").count(), 1);
    }

    #[test]
    fn each_cut_counts_once_by_its_worst_outcome() {
        let rows = crash_fixture::crashed();
        assert_eq!(count_outcomes(&rows[0]), [0, 0, 2, 1]);
        assert_eq!(count_outcomes(&rows[1]), [2, 1, 0, 0]);
    }

    #[test]
    fn hostile_text_is_escaped_and_a_page_without_rows_is_possible() {
        let mut rows = crash_fixture::crashed();
        rows[0].label = "</title><script>alert('x')</script>".into();
        rows[1].outcomes[0].findings.examples = vec!["<script>x</script>".into()];
        rows[1].rate.unit = "<b>".into();
        let page = html(&rows).unwrap();
        assert!(
            !page.contains("<script") && !page.contains("<b>") && page.contains("&lt;script&gt;")
        );
        assert!(html(&[]).unwrap().contains("Power cuts: nothing"));
    }
}
