//! The number of trials that a two-stage rule requires, recomputed from the pilot's trials.

use crate::seconds;
use fsdyno_record::Repeats;
use fsdyno_stats::plan::{Rule, Total};

use crate::model::{Row, Section};

/// The rule of a row's trials, or `None` if the user gave their number.
pub fn rule(row: &Row<'_>) -> Option<Repeats> {
    row.trials.first().and_then(|(trial, _)| trial.repeats)
}

/// The number of trials that the pilot of one row requires.
pub fn required_total(row: &Row<'_>) -> Option<Total> {
    let rule = rule(row)?;
    let pilot = row.trials.iter().filter(|(trial, _)| rule.is_pilot(trial.seed));
    let durable = row.durable.is_some();
    let values: Vec<f64> = pilot.map(|(_, phase)| seconds::seconds(phase, durable)).collect();
    Rule::TwoStage { half_width: rule.half_width(), cap: rule.at_most }.total(&[values])
}

/// A sentence for each rule that determined a number of trials: the requested width and the result.
pub fn sentences(sections: &[Section<'_>]) -> Vec<String> {
    let mut largest: Vec<(Repeats, Total, String)> = Vec::new();
    for section in sections {
        for row in &section.rows {
            let (Some(rule), Some(total)) = (rule(row), required_total(row)) else { continue };
            let place = format!("{} on {}", section.title(), row.name);
            match largest.iter_mut().find(|(other, ..)| other.is_same_rule(&rule)) {
                Some((_, known, _)) if known.wanted >= total.wanted => {}
                Some(entry) => (entry.1, entry.2) = (total, place),
                None => largest.push((rule, total, place)),
            }
        }
    }
    largest.iter().map(|(rule, total, place)| sentence(rule, *total, place)).collect()
}

fn sentence(rule: &Repeats, total: Total, place: &str) -> String {
    let (width, pilot, required) = (rule.half_width() * 100.0, rule.pilot, total.wanted);
    if !total.reached {
        return format!(
            "NOT REACHED: ±{width} % of each time was requested, which requires {required} trials of each configuration \
             ({place} has the largest spread), but --at-most {} stopped them earlier; see each interval.",
            rule.at_most
        );
    }
    match required == pilot {
        true => format!(
            "±{width} % of each time was requested, and the pilot of {pilot} trials was enough."
        ),
        false => format!(
            "±{width} % of each time was requested; the pilot of {pilot} trials required {required} trials of each \
             configuration ({place} has the largest spread)."
        ),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Nanos, Trial};

    use super::*;
    use crate::{Format, SpecialFormat, Style, fixture, html, table, view};

    /// The fixture's ext4 and xfs trials_with_rule a rule, with seven trials each that vary by a few percent.
    fn trials_with_rule(at_most: u32) -> Vec<Trial> {
        let rule = Repeats { width_ppm: 20_000, pilot: 5, at_most, first_seed: 1, wanted: None };
        let mut trials = Vec::new();
        for first in fixture::single().into_iter().filter(|t| t.plan.label != "far") {
            for seed in 1..=7u64 {
                let mut trial = first.clone();
                trial.seed = seed;
                trial.trial_id = fsdyno_record::trial::trial_id(&trial.plan, seed);
                trial.repeats = Some(Repeats { wanted: (seed > 5).then_some(18), ..rule });
                for phase in &mut trial.measured.phases {
                    phase.durable_ns = Some(Nanos(1_000_000_000 + seed * 20_000_000));
                }
                trials.push(trial);
            }
        }
        trials
    }

    #[test]
    fn a_width_that_was_not_reached_is_named_in_every_format() {
        let trials = trials_with_rule(7);
        for format in [
            Format::Text,
            Format::Mail,
            Format::Markdown,
            Format::Special(SpecialFormat::Statistics),
        ] {
            let text = table(&trials, None, format, Style::default()).unwrap();
            let text = text.replace('\n', " ");
            assert!(text.contains("NOT REACHED"), "{format:?}: {text}");
        }
        assert!(html(&trials, &[], None).unwrap().contains("NOT REACHED"));
        let csv = table(&trials, None, Format::Csv, Style::default()).unwrap();
        assert!(csv.lines().any(|line| line.contains(",18,7,,")), "{csv}");
        let csv =
            table(&trials, None, Format::Special(SpecialFormat::StatisticsCsv), Style::default())
                .unwrap();
        assert!(csv.lines().nth(1).unwrap().contains(",18,7,no,"), "{csv}");
        let json = table(&trials, None, Format::Json, Style::default()).unwrap();
        assert!(json.contains(r#""at_most":7,"first_seed":1,"wanted":18"#));
    }

    #[test]
    fn a_reached_width_names_its_number_and_the_interval_is_steins() {
        let trials = trials_with_rule(100);
        let sections = view::sections(&trials, None);
        let text = sentences(&sections);
        assert_eq!(text.len(), 1);
        assert!(text[0].contains("required 18 trials of each"), "{text:?}");
        let durable = sections[0].rows[0].durable.unwrap();
        // t(4) s / sqrt(7) of the pilot's logarithms, s = 0.029840.
        let half = (2.776_445 * 0.029_840f64 / 7f64.sqrt()).exp_m1();
        assert!((durable.relative_half_width().unwrap() - half).abs() < 1e-5, "{durable:?}");
        assert!(sentences(&view::sections(&fixture::trials(), None)).is_empty());
    }
}
