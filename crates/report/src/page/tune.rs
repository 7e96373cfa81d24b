//! The page of `fsdyno tune`: the effect of each option, and time against losses.

use minijinja::{Value, context};

use super::bars::{self, Bar, Bars, Tone};
use super::budget::{self, Budget};
use super::chart::{Anchor, Chart, percent};
use super::colour::{self, Appearance, Appearances};
use super::figure::{Figure, drawn_note};
use super::part::{FigureView, Part, figure_view};
use super::scale::{Scale, Unit};
use super::style::style;
use crate::error::ReportError;
use crate::number::{self, sanitize};
use crate::table::Table;
use crate::tune::{Reduction, Tuned, TunedFilesystem, certificate_sentences, recommendation};
use crate::tune::{confirmation_sentences, effect_columns, front_columns, lines};

/// The page. It needs no network, scripts or fonts; all untrusted text is escaped.
///
/// # Errors
/// Only [`ReportError::Template`], for a fault in the page's own template.
pub fn html(tuned: &Tuned) -> Result<String, ReportError> {
    let environment = super::environment()?;
    let mut budget = Budget::of(tuned.filesystems.len());
    let appearances =
        Appearances::of_kinds(tuned.filesystems.iter().map(|result| result.filesystem.as_str()));
    let mut parts: Vec<Part> = Vec::new();
    for (result, appearance) in tuned.filesystems.iter().zip(appearances) {
        if budget.next_part() {
            parts.push(part(tuned, result, appearance, &mut budget));
        }
    }
    let answer = tuned.filesystems.iter().map(|result| recommendation(tuned, result));
    let reductions = tuned.reductions.iter().map(Reduction::sentence);
    let answer = answer.chain(tuned.between.iter().cloned()).chain(reductions).collect();
    let page = environment.get_template("page")?.render(context! {
        title => sanitize(&format!("Options for {}", tuned.workload)),
        style => Value::from_safe_string(style()),
        patterns => Value::from_safe_string(colour::patterns()),
        compared => sanitize(&format!("{}; {}", tuned.target, tuned.objective)),
        answer => budget::lines(answer),
        parts,
        left_out => budget.omission_note(),
        instrument => context! {},
    })?;
    Ok(page)
}

fn part(
    tuned: &Tuned,
    result: &TunedFilesystem,
    appearance: Appearance,
    budget: &mut Budget,
) -> Part {
    let id = format!("tune-{}", result.filesystem);
    let mut drawn = Vec::new();
    if !result.effects.is_empty() {
        drawn.push(effects_figure(result, appearance));
    }
    if result.front.len() > 1 {
        drawn.push(front_figure(result, appearance));
    }
    let mut views: Vec<FigureView> =
        drawn.into_iter().filter_map(|figure| figure_view(figure, &id, budget)).collect();
    let first = (!views.is_empty()).then(|| views.remove(0));
    let mut sentences: Vec<String> =
        lines(result).iter().map(|line| line.trim().to_string()).collect();
    sentences.extend(result.recommended.gives_up.iter().map(|loss| format!("It gives up {loss}")));
    sentences.extend(result.why.iter().cloned());
    sentences.extend(confirmation_sentences(tuned, result));
    sentences.extend(
        certificate_sentences(&result.certificate)
            .into_iter()
            .map(|sentence| format!("Certificate: {sentence}")),
    );
    sentences.extend(
        result.refused.iter().map(|refused| format!("Refused: {}: {}", refused.what, refused.why)),
    );
    sentences.extend(
        result
            .dropped
            .iter()
            .map(|dropped| format!("Not tried: {}: {}", dropped.what, dropped.why)),
    );
    Part {
        main: true,
        id,
        title: result.filesystem.clone(),
        first,
        figures: views,
        lines: budget::lines(sentences),
        calls: None,
    }
}

/// The figure of the absolute change by each option alone, the largest first; slower options have a neutral tone.
fn effects_figure(result: &TunedFilesystem, appearance: Appearance) -> Figure {
    let bar = |option: &crate::tune::OptionEffect| {
        let change = option.alone.or(option.average).unwrap_or(0.0);
        let tone = if change < 0.0 { Tone::Full } else { Tone::Neutral(1) };
        let sign = if change < 0.0 { "faster" } else { "slower" };
        let mark = if option.is_recommended { "* " } else { "" };
        Bar {
            name: sanitize(&format!("{mark}{}", option.what)),
            appearance,
            value: format!("{} {sign}", number::percent(change.abs())),
            parts: vec![bars::Part { length: 100.0 * change.abs(), tone }],
            interval: None,
            thin_bar: option.with_winner.map(|change| 100.0 * change.abs()),
        }
    };
    let all = result.effects.iter().map(bar).collect();
    let title = "Effect of each option".to_string();
    let chart =
        bars::draw(&Bars { title: title.clone(), unit: Unit::Count, bars: all, key: Vec::new() });
    let note = format!(
        "Change of the time in percent by each option alone: coloured is faster, grey is slower; the thin bar is its \
         change together with the recommended options; * is recommended{}.",
        drawn_note(bars::MAX_BARS, result.effects.len())
    );
    Figure {
        slug: "worth",
        title,
        note,
        chart,
        table: Table::of(effect_columns(), &result.effects),
    }
}

/// The figure of the candidates by their time and the share of power cuts with a loss.
fn front_figure(result: &TunedFilesystem, appearance: Appearance) -> Figure {
    const HEIGHT: f64 = 220.0;
    let longest = result.front.iter().map(|candidate| candidate.seconds).fold(0.0, f64::max);
    let scale = Scale::with_max(longest, Unit::Seconds);
    let described = result.front.iter().map(|candidate| {
        let lost = candidate.losses.map_or("power cuts not tried".into(), |lost| {
            format!("{lost} of {} cuts lost", candidate.cuts)
        });
        format!("{}: {}, {lost}", sanitize(&candidate.words), number::seconds(candidate.seconds))
    });
    let title = "Time against losses".to_string();
    let mut chart = Chart::new(&title, described.collect::<Vec<_>>().join("; ") + ".");
    chart.grow(24.0);
    let top = chart.height();
    for (position, label) in scale.ticks() {
        chart.vertical_line(position, top, top + HEIGHT, &label);
    }
    for part in [0.0, 0.5, 1.0] {
        chart.horizontal_line(top + HEIGHT * (1.0 - part), &format!("{}", 100.0 * part));
    }
    for (number, candidate) in (1..).zip(&result.front) {
        let share = candidate.losses.map_or(1.0, |lost| lost as f64 / candidate.cuts.max(1) as f64);
        let (x, y) = (scale.at(candidate.seconds), top + HEIGHT * (1.0 - share));
        let fill =
            if candidate.is_on_front { format!("f{}", appearance.colour) } else { "n1".into() };
        let x_percent = percent(x);
        chart.push(format_args!(r#"<circle class="{fill}" cx="{x_percent}" cy="{y:.1}" r="6"/>"#));
        let anchor = if x > 0.8 { Anchor::End } else { Anchor::Start };
        chart.text("tick", x, y - 10.0, anchor, &number.to_string());
    }
    chart.grow(HEIGHT + super::chart::AXIS);
    let note = "Candidates by their time and the percentage of power cuts after which acknowledged work was lost; coloured ones \
                are on the front of time, losses and space. The numbers are the rows of the table."
        .to_string();
    Figure { slug: "front", title, note, chart, table: Table::of(front_columns(), &result.front) }
}
