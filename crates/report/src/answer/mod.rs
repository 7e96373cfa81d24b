//! The answer to a comparison in a few sentences, computed from the numbers and limited to significant results.

mod differences;

use crate::validity::Flag;
use fsdyno_stats::compare::Verdict;

use crate::baseline::best;
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;
use crate::repeats;

/// The fastest file systems, or the relation of each to the baseline, and the differences; or the reason why there is
/// no verdict. The unsafe rows, which are not ranked, and the result of a requested interval width follow.
pub fn sentences(sections: &[Section<'_>], baseline: Option<&str>) -> Vec<String> {
    let mut sentences = verdicts(sections, baseline);
    sentences.extend(unsafe_rows(sections));
    sentences.extend(repeats::sentences(sections));
    sentences
}

fn verdicts(sections: &[Section<'_>], baseline: Option<&str>) -> Vec<String> {
    let contested: Vec<&Section<'_>> =
        sections.iter().filter(|section| ranked(section).count() > 1).collect();
    let (contested, minor) = main_phases(contested);
    if contested.is_empty() {
        return vec!["There is only one row, so there is no comparison.".into()];
    }
    if contested.iter().all(|section| section.rows.iter().all(|row| row.returned.n < 2)) {
        return vec![
            format!(
                "There is only one trial of each, so the spread is unknown and no file system is called {}.",
                if superlative(&contested) == "fastest" {
                    "faster"
                } else {
                    "more space-efficient"
                }
            ),
            "Repeat with at least 3 seeds (--repeat 3) to learn which differences are real.".into(),
        ];
    }
    let mut sentences = match baseline {
        Some(label) => against_baseline(&contested, label),
        None => vec![winners(&contested)],
    };
    sentences.extend(differences::sentences(&contested));
    if !minor.is_empty() {
        let titles: Vec<String> = minor.iter().map(|section| section.title()).collect();
        let share = number::difference(MIN_MAIN_SHARE);
        sentences.push(format!("Not ranked, under {share} of the time: {}.", join_list(&titles)));
    }
    sentences
}

/// The minimum share of its workload's time that makes a phase a main phase.
const MIN_MAIN_SHARE: f64 = 0.1;

/// The phases that took at least [`MIN_MAIN_SHARE`] of the time of their workload in some row, and the other phases,
/// such as the creation of directories beforehand.
pub fn main_phases<'s, 'a>(
    all: Vec<&'s Section<'a>>,
) -> (Vec<&'s Section<'a>>, Vec<&'s Section<'a>>) {
    let time = |section: &Section<'_>, name: &str| -> f64 {
        let rows = section.rows.iter().filter(|row| row.name == name);
        rows.map(|row| {
            row.returned.mean.max(row.durable.as_ref().map_or(0.0, |durable| durable.mean))
        })
        .sum()
    };
    let total = |workload: &str, name: &str| -> f64 {
        let phases = all.iter().filter(|section| section.workload == workload);
        phases.map(|section| time(section, name)).sum()
    };
    let is_main = |section: &&Section<'_>| {
        section.rows.iter().any(|row| {
            time(section, &row.name) >= MIN_MAIN_SHARE * total(&section.workload, &row.name)
        })
    };
    let (main, minor): (Vec<_>, Vec<_>) = all.iter().copied().partition(is_main);
    // A workload with many phases may have none that takes such a large share.
    if main.is_empty() { (all, Vec::new()) } else { (main, minor) }
}

/// The index of the first main phase; 0 if there is none.
pub fn first_main(sections: &[Section<'_>]) -> usize {
    let (main, _) = main_phases(sections.iter().collect());
    let is_first =
        |section: &Section<'_>| main.first().is_some_and(|first| std::ptr::eq(*first, section));
    sections.iter().position(is_first).unwrap_or(0)
}

/// The rows that sentences compare: an unsafe row only if all rows are unsafe, or if other rows are compared with it.
fn ranked<'s, 'a>(section: &'s Section<'a>) -> impl Iterator<Item = &'s Row<'a>> + Clone {
    let all_unsafe = section.rows.iter().all(|row| !row.is_safe());
    section.rows.iter().filter(move |row| all_unsafe || row.is_safe() || is_base(row, section))
}

/// Returns true if another row is compared with this one.
fn is_base(row: &Row<'_>, section: &Section<'_>) -> bool {
    let base = |other: &Row<'_>| other.base.and_then(|index| section.rows.get(index));
    section.rows.iter().filter_map(base).any(|base| std::ptr::eq(base, row))
}

/// A sentence on the unsafe rows and their reasons, if other rows are safe.
fn unsafe_rows(sections: &[Section<'_>]) -> Option<String> {
    // Rows with the same reasons are one group.
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for row in sections.iter().flat_map(|section| &section.rows).filter(|row| !row.is_safe()) {
        let (name, risks) = (row.in_sentence(), row.risks.join("; "));
        match groups.iter_mut().find(|(reasons, _)| *reasons == risks) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => groups.push((risks, vec![name])),
        }
    }
    let named: Vec<String> = groups
        .into_iter()
        .map(|(risks, names)| {
            let each = if names.len() > 1 { "each: " } else { "" };
            format!("{} ({each}{risks})", names.join("; "))
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "{}, not safe at a power cut and not ranked with safe file systems: {}.",
            Flag::Unsafe,
            named.join("; ")
        )
    })
}

fn winners(sections: &[&Section<'_>]) -> String {
    let (mut wins, mut fullest): (Wins, Wins) = Default::default();
    let (mut equal, mut undecided) = (Vec::new(), Vec::new());
    for section in sections {
        let Some(best) = best(&section.rows, section.measure) else {
            undecided.push(format!("{} is undecided, because a time is zero", section.title()));
            continue;
        };
        let rivals = |wanted_relation| -> Vec<&Row<'_>> {
            let others = ranked(section).filter(|row| !std::ptr::eq(*row, best));
            others
                .filter(|row| relation(row, section.least_difference) == wanted_relation)
                .collect()
        };
        let (unclear, same) = (rivals(Relation::Undecided), rivals(Relation::Same));
        let within_error = rivals(Relation::WithinError);
        let names = |others: &[&Row<'_>]| -> Vec<String> {
            [best].iter().chain(others).map(|row| row.in_sentence()).collect()
        };
        if !unclear.is_empty() || !within_error.is_empty() {
            let reason = match within_error.is_empty() {
                true => "",
                false => " (within the processor model's error)",
            };
            let names = join_list(&names(&[same, unclear, within_error].concat()));
            undecided.push(format!("{} is undecided between {names}{reason}", section.title()));
        } else if !same.is_empty() && same.len() + 1 == ranked(section).count() {
            equal.push(place(section, &[best]));
        } else {
            let filled = section.measure == Measure::Space;
            let wins = if filled { &mut fullest } else { &mut wins };
            push_item(wins, names(&same), place(section, &[best]));
        }
    }
    let mut parts = win_sentences(wins, "is fastest in", "are fastest in");
    parts.extend(win_sentences(fullest, "holds the most files in", "hold the most files in"));
    let least = sections.first().map_or(0.0, |section| section.least_difference);
    if !equal.is_empty() {
        let no = if parts.is_empty() { "No" } else { "no" };
        parts.push(format!(
            "{no} difference above {} in {}",
            number::difference(least),
            join_list(&equal)
        ));
    }
    if parts.is_empty() {
        return format!(
            "No file system is clearly {}: {}.",
            superlative(sections),
            undecided.join("; ")
        );
    }
    parts.extend(undecided);
    format!("{}.", parts.join("; "))
}

/// Returns a sentence for each winner, or for each group of file systems that win together; `one` and `several` are the
/// predicates for one and for several file systems.
fn win_sentences(wins: Wins, one: &str, several: &str) -> Vec<String> {
    let sentence = |(names, places): (Vec<String>, Vec<String>)| {
        let predicate = if names.len() > 1 { several } else { one };
        format!("{} {predicate} {}", join_list(&names), join_list(&places))
    };
    wins.into_iter().map(sentence).collect()
}

/// The superlative for the best file system: fastest, or most space-efficient if all sections measure space.
fn superlative(sections: &[&Section<'_>]) -> &'static str {
    if sections.iter().all(|section| section.measure == Measure::Space) {
        "most space-efficient"
    } else {
        "fastest"
    }
}

/// The relation of a row to its base, by its interval, after Holm's correction for all comparisons of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Better,
    Worse,
    /// No difference, or one below the smallest difference that matters.
    Same,
    /// A difference within the error of the processor profile.
    WithinError,
    Undecided,
}

fn relation(row: &Row<'_>, least: f64) -> Relation {
    let Some(comparison) = row.comparison else { return Relation::Undecided };
    let matters = comparison.ratio.ln().abs() >= (1.0 + least).ln();
    match comparison.verdict {
        Verdict::Undecided => Relation::Undecided,
        Verdict::WithinError => Relation::WithinError,
        Verdict::Faster if matters => Relation::Better,
        Verdict::Slower if matters => Relation::Worse,
        _ => Relation::Same,
    }
}

/// The predicates for relations to the baseline, in the order in which sentences use them.
const PREDICATES: [&str; 7] = [
    "faster in",
    "more space-efficient in",
    "slower in",
    "less space-efficient in",
    "the same in",
    "within the processor model's error in",
    "undecided in",
];

/// One sentence for each file system: the phases in which it is faster than the baseline, slower, and so on.
fn against_baseline(sections: &[&Section<'_>], label: &str) -> Vec<String> {
    let mut names: Vec<(String, Lists)> = Vec::new();
    for section in sections {
        for row in ranked(section).filter(|row| row.label() != label) {
            let base = row.base.and_then(|index| section.rows.get(index));
            let space = section.measure == Measure::Space;
            let predicate = match relation(row, section.least_difference) {
                Relation::Better if space => "more space-efficient in",
                Relation::Worse if space => "less space-efficient in",
                Relation::Better => "faster in",
                Relation::Worse => "slower in",
                Relation::Same => "the same in",
                Relation::WithinError => "within the processor model's error in",
                Relation::Undecided => "undecided in",
            };
            let rows: Vec<&Row<'_>> = base.into_iter().chain([row]).collect();
            let index = match names.iter().position(|(name, _)| *name == row.in_sentence()) {
                Some(index) => index,
                None => {
                    names.push((row.in_sentence(), Vec::new()));
                    names.len() - 1
                }
            };
            push_item(&mut names[index].1, predicate.to_string(), place(section, &rows));
        }
    }
    if names.is_empty() {
        return vec![format!("Only {} was measured.", number::sanitize(label))];
    }
    let sentence = |(name, verdicts): (String, Lists)| {
        let parts: Vec<String> = PREDICATES
            .iter()
            .filter_map(|predicate| verdicts.iter().find(|(heading, _)| heading == predicate))
            .map(|(predicate, places)| format!("{predicate} {}", join_list(places)))
            .collect();
        format!("{name} is {}.", parts.join("; "))
    };
    let mut sentences: Vec<String> = names.into_iter().map(sentence).collect();
    if let Some(first) = sentences.first_mut() {
        *first = format!("Against {}, {first}", number::sanitize(label));
    }
    sentences
}

/// Items grouped under headings, both in the order of their first use.
type Lists<H = String> = Vec<(H, Vec<String>)>;

/// The places where file systems win, grouped by the names of those that win together.
type Wins = Lists<Vec<String>>;

fn push_item<H: PartialEq>(lists: &mut Lists<H>, heading: H, item: String) {
    match lists.iter_mut().find(|(known, _)| *known == heading) {
        Some((_, items)) => items.push(item),
        None => lists.push((heading, vec![item])),
    }
}

/// The title of a section, with the flags of these rows that weaken a verdict: `dirops create (NOISY)`.
pub fn place(section: &Section<'_>, rows: &[&Row<'_>]) -> String {
    let is_present = |flag: &&Flag| rows.iter().any(|row| row.flags.contains(flag));
    let weak = Flag::ALL.iter().filter(|flag| flag.weakens_verdict());
    let flags: Vec<&str> = weak.filter(is_present).map(|flag| flag.name()).collect();
    match flags.as_slice() {
        [] => section.title(),
        flags => format!("{} ({})", section.title(), flags.join(", ")),
    }
}

/// The items as text: `a`, `a and b`, `a, b and c`.
fn join_list(items: &[String]) -> String {
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
    fn with_several_seeds_the_winner_and_the_largest_difference_are_named() {
        let text = answer(&fixture::trials());
        assert!(text.contains("xfs is fastest in dirops create and tarball extract"), "{text}");
        assert!(text.contains("took ") && text.contains("95 % interval"), "{text}");
    }

    #[test]
    fn single_trials_give_no_verdict() {
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
        assert!(text.contains("No file system is clearly fastest"), "{text}");
        let sentence =
            "No difference above 1 % is significant with these trials; more seeds may decide";
        assert!(text.contains(sentence), "{text}");
    }

    #[test]
    fn a_difference_of_two_microseconds_does_not_make_a_winner() {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.label != "far");
        for trial in &mut trials {
            // As certain as possible: all pairs differ by the same amount.
            let slower = if trial.plan.label == "xfs" { 1_800 } else { 0 };
            for phase in &mut trial.measured.phases {
                phase.durable_ns = Some(Nanos(1_122_713_900 + trial.seed * 10_000 + slower));
            }
        }
        let text = answer(&trials);
        assert!(text.starts_with("No difference above 1 % in dirops create"), "{text}");
        assert!(!text.contains("fastest") && !text.contains("widest"), "{text}");
        let sections = view::sections(&trials, None);
        assert_eq!(sections[0].rows[1].ratio.unwrap().to_string(), "= 1.00x");
        let against = sentences(&view::sections(&trials, Some("ext4")), Some("ext4")).join(" ");
        assert!(against.contains("xfs is the same in dirops create"), "{against}");
        // With a threshold of zero, it is significant.
        let basis = crate::Basis { least_difference: 0.0, ..None.into() };
        let text = sentences(&view::sections(&trials, basis), None).join(" ");
        assert!(text.starts_with("ext4 is fastest in dirops create"), "{text}");
    }

    #[test]
    fn a_single_file_system_has_no_comparison() {
        let trials: Vec<Trial> =
            fixture::trials().into_iter().filter(|t| t.plan.label == "xfs").collect();
        assert!(answer(&trials).contains("There is only one row"));
    }

    #[test]
    fn every_file_system_other_than_the_baseline_has_a_sentence() {
        let trials = fixture::trials();
        let sentences = sentences(&view::sections(&trials, Some("ext4")), Some("ext4"));
        assert_eq!(sentences.len(), 3, "{sentences:?}");
        assert!(
            sentences[0].starts_with("Against ext4, xfs is faster in dirops create"),
            "{sentences:?}"
        );
        assert!(sentences[1].starts_with("far is "), "{sentences:?}");
        assert!(sentences[2].contains(" times as long as ext4 "), "{sentences:?}");
    }

    #[test]
    fn a_name_with_and_is_one_winner() {
        let sentences = |names: &[&str]| {
            let names = names.iter().map(|name| name.to_string()).collect();
            let wins = vec![(names, vec!["dirops create".into()])];
            win_sentences(wins, "is fastest in", "are fastest in")
        };
        let one = sentences(&["old and new"]);
        assert_eq!(one, ["old and new is fastest in dirops create"]);
        let two = sentences(&["ext4", "old and new"]);
        assert_eq!(two, ["ext4 and old and new are fastest in dirops create"]);
    }

    #[test]
    fn undecided_phases_are_named_and_so_are_flags_that_weaken_a_win() {
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
        assert!(text.contains("dirops create is undecided between "), "{text}");
        let listed = text.split("dirops create is undecided between ").nth(1).unwrap_or_default();
        assert!(!listed.split(['.', ';']).next().unwrap_or_default().contains("far"), "{text}");
        assert!(text.contains("dirops delete (INSTRUMENT-BOUND)"), "{text}");
    }
}
