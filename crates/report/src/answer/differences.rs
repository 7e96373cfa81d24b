//! Sentences on the differences between rows and their bases.

use fsdyno_stats::compare::{Comparison, Verdict};

use super::{Relation, join_list, ranked, relation};
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;

/// The maximum number of differences in a single section that are all named.
const MAX_NAMED: usize = 3;

/// A difference between a row and its base; either of them may be the slower side.
struct Difference<'s, 'a> {
    section: &'s Section<'a>,
    /// Index of the base in the section.
    base: usize,
    /// True if the base is the slower side.
    is_base_slow: bool,
    slow: &'s Row<'a>,
    fast: &'s Row<'a>,
    /// The comparison of the slower side with the faster one.
    comparison: Comparison,
}

/// The sentences: if there is one section with at most [`MAX_NAMED`] differences, all of them, one sentence for those
/// from the same base in the same direction; otherwise the largest difference. Without a difference, the sentence is
/// that none is significant, or there is none if no comparison is undecided.
pub fn sentences(sections: &[&Section<'_>]) -> Vec<String> {
    let all: Vec<Difference<'_, '_>> =
        sections.iter().flat_map(|section| differences(section)).collect();
    if sections.len() == 1 && !all.is_empty() && all.len() <= MAX_NAMED {
        return groups(&all).iter().map(|group| sentence(group)).collect();
    }
    let width = |difference: &&Difference<'_, '_>| difference.comparison.ratio.ln().abs();
    let largest = all.iter().max_by(|a, b| width(a).total_cmp(&width(b)));
    let sentence = match largest {
        Some(largest) => Some(format!("Largest difference: in {}.", largest.clause())),
        None => none_is_significant(sections),
    };
    sentence.into_iter().collect()
}

/// The differences of a section in the order of its rows.
fn differences<'s, 'a>(section: &'s Section<'a>) -> Vec<Difference<'s, 'a>> {
    let difference = |row: &'s Row<'a>| {
        let (index, comparison) = (row.base?, row.comparison?);
        let base = section.rows.get(index)?;
        let relation = relation(row, section.least_difference);
        if !matches!(relation, Relation::Better | Relation::Worse) {
            return None;
        }
        let is_base_slow = comparison.ratio < 1.0;
        let (comparison, slow, fast) = match is_base_slow {
            true => (inverse(comparison), base, row),
            false => (comparison, row, base),
        };
        Some(Difference { section, base: index, is_base_slow, slow, fast, comparison })
    };
    ranked(section).filter_map(difference).collect()
}

/// The differences of one section from the same base in the same direction, in the order of their first use.
fn groups<'d, 's, 'a>(all: &'d [Difference<'s, 'a>]) -> Vec<Vec<&'d Difference<'s, 'a>>> {
    let key = |difference: &Difference<'_, '_>| (difference.base, difference.is_base_slow);
    let mut keys: Vec<(usize, bool)> = Vec::new();
    for found in all.iter().map(key) {
        if !keys.contains(&found) {
            keys.push(found);
        }
    }
    let group =
        |wanted: (usize, bool)| all.iter().filter(|difference| key(difference) == wanted).collect();
    keys.into_iter().map(group).collect()
}

/// The sentence on a group: `In maildir deliver-4, ext4 took 1.67 times (95 % interval 1.60 to 1.70) and btrfs 3.64
/// times (3.55 to 3.72) as long as xfs to be durable (n = 3).`
fn sentence(group: &[&Difference<'_, '_>]) -> String {
    let Some((first, rest)) = group.split_first() else { return String::new() };
    if rest.is_empty() {
        return format!("In {}.", first.clause());
    }
    let (before, after) = first.amount();
    let (slow, fast) = (first.slow.in_sentence(), first.fast.in_sentence());
    let have_same_n = rest.iter().all(|other| other.comparison.n == first.comparison.n);
    let part = |(index, difference): (usize, &&Difference<'_, '_>)| {
        let start = if index == 0 { "95 % interval " } else { "" };
        let interval = difference.bounds().map(|bounds| format!("{start}{bounds}"));
        let n = (!have_same_n).then(|| difference.n());
        let details: Vec<String> = interval.into_iter().chain(n).collect();
        let times = match details.is_empty() {
            true => difference.times(),
            false => format!("{} ({})", difference.times(), details.join(", ")),
        };
        match (difference.is_base_slow, index) {
            (true, _) => format!("{times} {before} {}", difference.fast.in_sentence()),
            (false, 0) => format!("{} took {times}", difference.slow.in_sentence()),
            (false, _) => format!("{} {times}", difference.slow.in_sentence()),
        }
    };
    let parts = join_list(&group.iter().enumerate().map(part).collect::<Vec<_>>());
    let all = match first.is_base_slow {
        true => format!("{slow} took {parts}{after}"),
        false => format!("{parts} {before} {fast}{after}"),
    };
    let n = if have_same_n { format!(" ({})", first.n()) } else { String::new() };
    format!("In {}, {all}{n}.", first.section.title())
}

/// A sentence that no difference is significant, or `None` if no comparison is undecided.
fn none_is_significant(sections: &[&Section<'_>]) -> Option<String> {
    let least = sections.first().map_or(0.0, |section| section.least_difference);
    let above = match least > 0.0 {
        true => format!(" above {}", number::difference(least)),
        false => String::new(),
    };
    let compared = sections.iter().flat_map(|section| ranked(section));
    let verdicts: Vec<Verdict> =
        compared.filter_map(|row| row.comparison).map(|comparison| comparison.verdict).collect();
    // More seeds cannot decide what is within the processor model's error.
    let rest = match verdicts.contains(&Verdict::Undecided) {
        true => " with these trials; more seeds may decide (--repeat N)",
        false if verdicts.contains(&Verdict::WithinError) => "",
        false => return None,
    };
    Some(format!("No difference{above} is significant{rest}."))
}

impl Difference<'_, '_> {
    /// The ratio: `3.64 times`.
    fn times(&self) -> String {
        format!("{} times", ratio(self.comparison.ratio))
    }

    /// The interval: `3.55 to 3.72`.
    fn bounds(&self) -> Option<String> {
        let (low, high) = self.comparison.interval?;
        Some(format!("{} to {}", ratio(low), ratio(high)))
    }

    /// The number of trials: `n = 3`.
    fn n(&self) -> String {
        format!("n = {}", self.comparison.n)
    }

    /// The words before and after the name of the faster side: `as long as xfs to be durable`.
    fn amount(&self) -> (&'static str, &'static str) {
        match self.section.measure {
            Measure::Space => ("as much device space per file as", ""),
            Measure::Operation => ("as long as", " per operation"),
            Measure::Durable => ("as long as", " to be durable"),
            _ => ("as long as", " to return"),
        }
    }

    /// The difference without others: `maildir deliver-4, btrfs took 3.64 times as long as xfs to be durable (95 %
    /// interval 3.55 to 3.72, n = 3)`.
    fn clause(&self) -> String {
        let (before, after) = self.amount();
        let (title, times) = (self.section.title(), self.times());
        let (slow, fast) = (self.slow.in_sentence(), self.fast.in_sentence());
        let interval = self
            .bounds()
            .map_or(String::new(), |bounds| format!(" (95 % interval {bounds}, {})", self.n()));
        format!("{title}, {slow} took {times} {before} {fast}{after}{interval}")
    }
}

/// A ratio as a number: `3.64`.
fn ratio(value: f64) -> String {
    number::format_ratio(value).trim_end_matches('x').to_string()
}

/// The comparison with its sides swapped.
fn inverse(gap: Comparison) -> Comparison {
    let interval = gap.interval.map(|(low, high)| (1.0 / high, 1.0 / low));
    Comparison { ratio: 1.0 / gap.ratio, interval, ..gap }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Nanos, Trial};

    use super::sentences;
    use crate::{fixture, view};

    /// Three trials of one phase for each row, with its time in milliseconds.
    fn trials(rows: &[(&str, u64)]) -> Vec<Trial> {
        let mut template = fixture::trials();
        template.retain(|trial| trial.plan.workload.name == "dirops" && trial.plan.label == "ext4");
        let row = |(label, ms): &(&str, u64)| {
            let mut trials = template.clone();
            for trial in &mut trials {
                trial.plan.label = label.to_string();
                trial.plan = trial.plan.clone().with_hash();
                trial.trial_id = fsdyno_record::trial::trial_id(&trial.plan, trial.seed);
                trial.measured.phases.truncate(1);
                // The values vary a little, so that each ratio has an interval.
                let ns = ms * 1_000_000 + trial.seed * trial.seed * 1000;
                trial.measured.phases[0].durable_ns = Some(Nanos(ns));
            }
            trials
        };
        rows.iter().flat_map(row).collect()
    }

    fn sentences_of(trials: &[Trial], baseline: Option<&str>) -> Vec<String> {
        let sections = view::sections(trials, baseline);
        sentences(&sections.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_difference_of_a_single_section_has_its_interval() {
        let trials = trials(&[("ext4", 1670), ("xfs", 1000), ("btrfs", 3640)]);
        assert_eq!(
            sentences_of(&trials, None),
            [
                "In dirops create, ext4 took 1.67 times (95 % interval 1.67 to 1.67) and btrfs 3.64 times \
                 (3.64 to 3.64) as long as xfs to be durable (n = 3)."
            ]
        );
        assert_eq!(
            sentences_of(&trials[..6], None),
            [
                "In dirops create, ext4 took 1.67 times as long as xfs to be durable (95 % interval 1.67 to \
                 1.67, n = 3)."
            ]
        );
        // The last trial of btrfs is missing.
        assert_eq!(
            sentences_of(&trials[..8], None),
            [
                "In dirops create, ext4 took 1.67 times (95 % interval 1.67 to 1.67, n = 3) and btrfs 3.64 times \
                 (3.64 to 3.64, n = 2) as long as xfs to be durable."
            ]
        );
    }

    #[test]
    fn rows_that_are_faster_than_the_baseline_and_slower_ones_have_a_sentence_each() {
        let rows = [("ext4", 1000), ("xfs", 500), ("f2fs", 2000), ("btrfs", 800)];
        assert_eq!(
            sentences_of(&trials(&rows), Some("ext4")),
            [
                "In dirops create, ext4 took 2.00 times (95 % interval 2.00 to 2.00) as long as xfs and 1.25 \
                 times (1.25 to 1.25) as long as btrfs to be durable (n = 3).",
                "In dirops create, f2fs took 2.00 times as long as ext4 to be durable (95 % interval 2.00 to \
                 2.00, n = 3)."
            ]
        );
    }

    #[test]
    fn of_more_than_three_differences_or_sections_only_the_largest_is_named() {
        let mut rows = vec![("a", 1000), ("b", 1100), ("c", 1400), ("d", 1200)];
        assert!(sentences_of(&trials(&rows), None)[0].contains("b took 1.10 times"));
        rows.push(("e", 1300));
        assert_eq!(
            sentences_of(&trials(&rows), None),
            [
                "Largest difference: in dirops create, c took 1.40 times as long as a to be durable (95 % \
                 interval 1.40 to 1.40, n = 3)."
            ]
        );
        let several = sentences_of(&fixture::trials(), None);
        assert_eq!(several.len(), 1, "{several:?}");
        assert!(several[0].starts_with("Largest difference: in tarball remove, xfs took "));
    }

    #[test]
    fn equal_rows_have_no_difference() {
        let equal = trials(&[("ext4", 1000), ("xfs", 1000)]);
        assert_eq!(sentences_of(&equal, None), [""; 0]);
    }
}
