//! The answer in a few sentences, computed from the numbers and claiming no more than they show.

use fsdyno_stats::compare::{Comparison, Verdict};
use fsdyno_stats::validity::Flag;

use crate::against::best;
use crate::measure::Measure;
use crate::number;
use crate::repeats;
use crate::view::{Row, Section};

/// Who is fastest where that can be told, or how each stands against the baseline, and the widest
/// gap; or why nothing is claimed. Then what came of a wanted width.
pub fn sentences(sections: &[Section<'_>], baseline: Option<&str>) -> Vec<String> {
    let mut sentences = verdicts(sections, baseline);
    sentences.extend(repeats::sentences(sections));
    sentences
}

fn verdicts(sections: &[Section<'_>], baseline: Option<&str>) -> Vec<String> {
    let contested: Vec<&Section<'_>> = sections.iter().filter(|s| s.rows.len() > 1).collect();
    if contested.is_empty() {
        return vec![
            "Only one file system was measured.".into(),
            "There is nothing to compare it with.".into(),
        ];
    }
    if contested.iter().all(|section| section.rows.iter().all(|row| row.returned.n < 2)) {
        return vec![
            format!(
                "There is one trial of each, so their spread is unknown and no file system is called {}.",
                if best_of(&contested) == "fastest" { "faster" } else { "roomier" }
            ),
            "Repeat with at least 3 seeds (--repeat 3) to learn which differences are real.".into(),
        ];
    }
    let mut sentences = match baseline {
        Some(label) => against(&contested, label),
        None => vec![winners(&contested)],
    };
    sentences.push(widest(&contested));
    sentences
}

fn winners(sections: &[&Section<'_>]) -> String {
    let (mut wins, mut fullest): (Lists, Lists) = Default::default();
    let mut open = Vec::new();
    for section in sections {
        let Some(best) = best(&section.rows, section.measure) else {
            open.push(format!("{} cannot be told, for a time is zero", section.title()));
            continue;
        };
        let rivals = rivals(section, best);
        if rivals.is_empty() {
            let filled = section.measure == Measure::Room;
            let wins = if filled { &mut fullest } else { &mut wins };
            put(wins, best.spoken(), place(section, &[best]));
        } else {
            let names: Vec<String> = [best].iter().chain(&rivals).map(|row| row.spoken()).collect();
            open.push(format!("{} is open between {}", section.title(), listed(&names)));
        }
    }
    let said = |wins: Lists, what: &str| -> Vec<String> {
        wins.into_iter()
            .map(|(name, places)| format!("{name} {what} {}", listed(&places)))
            .collect()
    };
    let mut parts = said(wins, "is fastest in");
    parts.extend(said(fullest, "holds the most files in"));
    if parts.is_empty() {
        return format!(
            "No file system is {} beyond doubt: {}.",
            best_of(sections),
            open.join("; ")
        );
    }
    parts.extend(open);
    format!("{}.", parts.join("; "))
}

/// What nobody is, where nobody is it: all that was measured may be how much they hold.
fn best_of(sections: &[&Section<'_>]) -> &'static str {
    if sections.iter().all(|section| section.measure == Measure::Room) {
        "roomiest"
    } else {
        "fastest"
    }
}

/// The rows that the best one does not beat beyond chance, by their intervals and with Holm's correction for
/// all that the report compares.
fn rivals<'a, 'b>(section: &'a Section<'b>, best: &Row<'b>) -> Vec<&'a Row<'b>> {
    // Without a baseline each row was compared with the best one.
    let beaten = |other: &Row<'_>| other.comparison.is_some_and(|c| c.verdict == Verdict::Slower);
    section.rows.iter().filter(|row| !std::ptr::eq(*row, best) && !beaten(row)).collect()
}

/// How a file system may stand against the baseline, in the order in which it is told.
const WORDS: [&str; 5] = ["faster in", "roomier in", "slower in", "less roomy in", "open in"];

/// One sentence for each file system: where it is faster than the baseline, where slower.
fn against(sections: &[&Section<'_>], label: &str) -> Vec<String> {
    let mut names: Vec<(String, Lists)> = Vec::new();
    for section in sections {
        for row in section.rows.iter().filter(|row| row.label() != label) {
            let base = row.base.and_then(|at| section.rows.get(at));
            let word = match row.comparison.map(|comparison| comparison.verdict) {
                Some(Verdict::Faster) if section.measure == Measure::Room => WORDS[1],
                Some(Verdict::Slower) if section.measure == Measure::Room => WORDS[3],
                Some(Verdict::Faster) => "faster in",
                Some(Verdict::Slower) => "slower in",
                _ => "open in",
            };
            let rows: Vec<&Row<'_>> = base.into_iter().chain([row]).collect();
            let at = match names.iter().position(|(name, _)| *name == row.spoken()) {
                Some(at) => at,
                None => {
                    names.push((row.spoken(), Vec::new()));
                    names.len() - 1
                }
            };
            put(&mut names[at].1, word.to_string(), place(section, &rows));
        }
    }
    if names.is_empty() {
        return vec![format!("Only {label} was measured.")];
    }
    let sentence = |(name, verdicts): (String, Lists)| {
        let parts: Vec<String> = WORDS
            .iter()
            .filter_map(|word| verdicts.iter().find(|(at, _)| at == word))
            .map(|(word, places)| format!("{word} {}", listed(places)))
            .collect();
        format!("Against {}, {name} is {}.", number::clean(label), parts.join("; "))
    };
    names.into_iter().map(sentence).collect()
}

/// Items under headings, both in the order in which they came.
type Lists = Vec<(String, Vec<String>)>;

fn put(lists: &mut Lists, name: String, item: String) {
    match lists.iter_mut().find(|(at, _)| *at == name) {
        Some((_, items)) => items.push(item),
        None => lists.push((name, vec![item])),
    }
}

/// `dirops create`, with the verdicts that no interval answers for.
fn place(section: &Section<'_>, rows: &[&Row<'_>]) -> String {
    let has = |flag: &&Flag| rows.iter().any(|row| row.flags.contains(flag));
    let weak = Flag::ALL.iter().filter(|flag| flag.weakens_verdict());
    let flags: Vec<&str> = weak.filter(has).map(|flag| flag.name()).collect();
    match flags.as_slice() {
        [] => section.title(),
        flags => format!("{} ({})", section.title(), flags.join(", ")),
    }
}

/// The widest gap between best and worst, or between the baseline and any other.
fn widest(sections: &[&Section<'_>]) -> String {
    let mut gaps: Vec<(Comparison, String, String)> = Vec::new();
    for section in sections {
        for row in &section.rows {
            let Some(base) = row.base.and_then(|at| section.rows.get(at)) else { continue };
            let Some(gap) = row.comparison else { continue };
            if matches!(gap.verdict, Verdict::Slower | Verdict::Faster) {
                let start = format!("in {}, {} took", section.title(), row.spoken());
                let base = base.spoken();
                let end = match section.measure {
                    Measure::Room => format!("times as much of the device for a file as {base}"),
                    Measure::Operation => format!("times as long as {base} for an operation"),
                    Measure::Durable => format!("times as long as {base} to be durable"),
                    _ => format!("times as long as {base} to return"),
                };
                gaps.push((gap, start, end));
            }
        }
    }
    let width = |gap: &Comparison| gap.ratio.ln().abs();
    let widest = gaps.into_iter().max_by(|a, b| width(&a.0).total_cmp(&width(&b.0)));
    let Some((gap, start, end)) = widest else {
        return "No difference is larger than chance explains.".into();
    };
    let two = |value: f64| number::relative(value).trim_end_matches('x').to_string();
    let interval = gap.interval.map_or(String::new(), |(low, high)| {
        format!(" (95 % interval {} to {}, n = {})", two(low), two(high), gap.n)
    });
    format!("The widest gap: {start} {} {end}{interval}.", two(gap.ratio))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [start @ .., last] => format!("{} and {last}", start.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};
    use fsdyno_record::{Nanos, Trial};

    fn answer(trials: &[Trial]) -> String {
        sentences(&view::sections(trials, None), None).join(" ")
    }

    #[test]
    fn with_several_seeds_the_winner_and_the_widest_gap_are_named() {
        let text = answer(&fixture::trials());
        assert!(text.contains("xfs is fastest in dirops create and tarball extract"), "{text}");
        assert!(text.contains("took ") && text.contains("95 % interval"), "{text}");
    }

    #[test]
    fn one_trial_of_each_claims_nothing() {
        let text = answer(&fixture::single());
        assert!(text.contains("no file system is called faster"), "{text}");
    }

    #[test]
    fn file_systems_that_overlap_have_no_winner() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            for (index, phase) in trial.measured.phases.iter_mut().enumerate() {
                let turn = (trial.seed + trial.plan.label.len() as u64) % 3;
                phase.durable_ns = Some(Nanos(1_000_000_000 + turn * 90_000_000 + index as u64));
            }
        }
        let text = answer(&trials);
        assert!(text.contains("No file system is fastest"), "{text}");
        assert!(text.contains("No difference is larger"), "{text}");
    }

    #[test]
    fn one_file_system_alone_is_compared_with_nothing() {
        let trials: Vec<Trial> =
            fixture::trials().into_iter().filter(|t| t.plan.label == "xfs").collect();
        assert!(answer(&trials).contains("Only one file system"));
    }

    #[test]
    fn against_a_baseline_every_other_has_a_sentence() {
        let trials = fixture::trials();
        let sentences = sentences(&view::sections(&trials, Some("ext4")), Some("ext4"));
        assert_eq!(sentences.len(), 3, "{sentences:?}");
        assert!(
            sentences[0].starts_with("Against ext4, xfs is faster in dirops create"),
            "{sentences:?}"
        );
        assert!(sentences[1].starts_with("Against ext4, far is "), "{sentences:?}");
        assert!(sentences[2].contains(" times as long as ext4 "), "{sentences:?}");
    }

    #[test]
    fn those_that_cannot_be_told_apart_are_named_and_so_is_what_weakens_a_win() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            let phase = &mut trial.measured.phases[0];
            if trial.plan.label == "far" {
                phase.durable_ns = Some(Nanos(90_000_000_000));
            } else {
                let turn = (trial.seed + trial.plan.label.len() as u64) % 3;
                phase.durable_ns = Some(Nanos(1_000_000_000 + turn * 90_000_000));
            }
            let phase = &mut trial.measured.phases[1];
            phase.instrument.server_cpu_ns = phase.returned_ns;
        }
        let text = answer(&trials);
        assert!(text.contains("dirops create is open between "), "{text}");
        let open = text.split("dirops create is open between ").nth(1).unwrap_or_default();
        assert!(!open.split(['.', ';']).next().unwrap_or_default().contains("far"), "{text}");
        assert!(text.contains("dirops delete (INSTRUMENT-BOUND)"), "{text}");
    }
}
