//! The answer in two sentences, computed from the numbers and claiming no more than they show.

use fsdyno_stats::compare::{Comparison, Verdict, paired, welch};

use crate::number;
use crate::view::{Row, Run, Section};

/// Two sentences: who is fastest where that can be told, and the widest gap; or why nothing is
/// claimed.
pub fn sentences(sections: &[Section<'_>]) -> Vec<String> {
    let contested: Vec<&Section<'_>> = sections.iter().filter(|s| s.rows.len() > 1).collect();
    if contested.is_empty() {
        return vec![
            "Only one file system was measured.".into(),
            "There is nothing to compare it with.".into(),
        ];
    }
    if contested.iter().all(|section| section.rows.iter().all(|row| row.returned.n < 2)) {
        return vec![
            "There is one trial of each, so their spread is unknown and no file system is called \
             faster."
                .into(),
            "Repeat with at least 3 seeds (--repeat 3) to learn which differences are real.".into(),
        ];
    }
    vec![winners(&contested), widest(&contested)]
}

fn winners(sections: &[&Section<'_>]) -> String {
    let mut wins: Vec<(&str, Vec<String>)> = Vec::new();
    let mut open = Vec::new();
    for section in sections {
        match winner(section) {
            Some(row) => match wins.iter_mut().find(|(name, _)| *name == row.name) {
                Some((_, titles)) => titles.push(section.title()),
                None => wins.push((&row.name, vec![section.title()])),
            },
            None => open.push(section.title()),
        }
    }
    let mut parts: Vec<String> = wins
        .into_iter()
        .map(|(name, titles)| format!("{name} is fastest in {}", listed(&titles)))
        .collect();
    if parts.is_empty() {
        return format!(
            "No file system is fastest beyond doubt: in {} the 95 % interval of the leader's ratio \
             to another includes 1.",
            listed(&open)
        );
    }
    if !open.is_empty() {
        parts.push(format!("{} cannot be told", listed(&open)));
    }
    format!("{}.", parts.join("; "))
}

/// The row that is faster than every other, each by its own interval.
fn winner<'a>(section: &'a Section<'_>) -> Option<&'a Row<'a>> {
    let best = section.rows.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let beats = |other: &Row<'_>| {
        compare(other, best, section.by_durable).is_some_and(|c| c.verdict == Verdict::Faster)
    };
    let others = || section.rows.iter().filter(|row| !std::ptr::eq(*row, best));
    others().all(beats).then_some(best)
}

fn widest(sections: &[&Section<'_>]) -> String {
    let mut gaps: Vec<(Comparison, String, String)> = Vec::new();
    for section in sections {
        let rows = || section.rows.iter();
        let best = rows().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let worst = rows().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let (Some(best), Some(worst)) = (best, worst) else { continue };
        let Some(gap) = compare(best, worst, section.by_durable) else { continue };
        if gap.verdict == Verdict::Slower {
            let until = if section.by_durable { "to be durable" } else { "to return" };
            let start = format!("in {}, {} took", section.title(), worst.name);
            gaps.push((gap, start, format!("times as long as {} {until}", best.name)));
        }
    }
    let widest = gaps.into_iter().max_by(|a, b| a.0.ratio.total_cmp(&b.0.ratio));
    let Some((gap, start, end)) = widest else {
        return "No difference is larger than chance explains.".into();
    };
    let two = |value: f64| number::relative(value).trim_end_matches('x').to_string();
    let interval = gap.interval.map_or(String::new(), |(low, high)| {
        format!(" (95 % interval {} to {}, n = {})", two(low), two(high), gap.n)
    });
    format!("The widest gap: {start} {} {end}{interval}.", two(gap.ratio))
}

/// The times of `new` over those of `base`: paired by seed where every trial is of one lab and
/// has its pair, by Welch's test elsewhere.
pub fn compare(base: &Row<'_>, new: &Row<'_>, by_durable: bool) -> Option<Comparison> {
    let times = |row: &Row<'_>| -> Vec<(u64, f64)> {
        let time = |(trial, phase): &Run<'_>| {
            let ns = phase.durable_ns.filter(|_| by_durable).unwrap_or(phase.returned_ns);
            (trial.seed, ns.seconds())
        };
        row.trials.iter().map(time).collect()
    };
    let (a, b) = (times(base), times(new));
    let in_lab = base.trials.iter().chain(&new.trials).all(|(trial, _)| trial.lab_id.is_some());
    let same_seeds = a.iter().map(|x| x.0).eq(b.iter().map(|x| x.0));
    if in_lab && same_seeds {
        let pairs: Vec<(f64, f64)> = a.iter().zip(&b).map(|(a, b)| (a.1, b.1)).collect();
        return paired(&pairs, 0.0);
    }
    let values = |times: Vec<(u64, f64)>| times.into_iter().map(|t| t.1).collect::<Vec<f64>>();
    welch(&values(a), &values(b), 0.0)
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
        sentences(&view::sections(trials)).join(" ")
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
}
