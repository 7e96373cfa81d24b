//! Sentences on the result of a search.

use super::{Evidence, Ratio, Tuned, TunedFilesystem};
use crate::number::{self, count, counted, sanitize};

/// A relative change with its sign: `-12 %`.
pub fn change(part: f64) -> String {
    let sign = if part < 0.0 { "-" } else { "+" };
    if part.abs() < 1e-9 {
        return "0 %".into();
    }
    match number::percent(part.abs()).as_str() {
        "0 %" => "0 %".into(),
        text => format!("{sign}{text}"),
    }
}

/// A ratio as a change with its interval.
pub fn ratio(ratio: &Ratio) -> String {
    let shown = change(ratio.ratio - 1.0);
    match ratio.interval {
        Some((low, high)) if low < high => {
            format!(
                "{shown} (95 % interval {} to {}, n = {})",
                change(low - 1.0),
                change(high - 1.0),
                ratio.n
            )
        }
        Some(_) => format!("{shown} (exact, n = {})", ratio.n),
        None => format!("{shown} (n = {})", ratio.n),
    }
}

/// The recommendation for a file system in a sentence.
pub fn recommendation(tuned: &Tuned, result: &TunedFilesystem) -> String {
    let (name, least) = (&result.filesystem, number::difference(tuned.least));
    if let Some(words) = &result.unconfirmed {
        let by = result
            .confirmed
            .as_ref()
            .map(|confirmed| format!(": {}", ratio(confirmed)))
            .unwrap_or_default();
        return format!(
            "{name}: keep the defaults. {} won the search, but not on fresh seeds{by}.",
            sanitize(words)
        );
    }
    if result.is_default {
        let uncertainty =
            result.effects.iter().map(|option| 3.0 * option.alone_deviation).fold(0.0, f64::max);
        if uncertainty > tuned.least {
            return format!(
                "{name}: keep the defaults. No gain is certain: differences below about {} cannot be decided with these trials.",
                number::percent(uncertainty)
            );
        }
        return format!("{name}: keep the defaults. No tried option is worth {least} or more.");
    }
    let by = match &result.confirmed {
        Some(confirmed) => format!("{} on fresh seeds", ratio(confirmed)),
        None => format!(
            "{} in the search, not confirmed",
            change(result.seconds / result.default_seconds - 1.0)
        ),
    };
    format!(
        "{name}: {} changes the time of the default by {by}.",
        sanitize(&result.recommended.words)
    )
}

/// The sentences of a file system's certificate.
pub fn certificate(evidence: &Evidence) -> Vec<String> {
    let part = match evidence.is_whole {
        true => format!("of {} possible points", count(evidence.points)),
        false => format!(
            "of a random sample of {} points (the space has {} combinations)",
            count(evidence.points),
            count(evidence.combinations)
        ),
    };
    let widened = match evidence.calibration > 1.005 {
        true => format!(
            ", widened {} times to cover the model's errors at points that were not used to fit it",
            number::format_significant(evidence.calibration, 2)
        ),
        false => String::new(),
    };
    let mut sentences = vec![format!(
        "{part}: {} measured, {} excluded because the model's bound ({} standard deviations{widened}) is slower than the \
         recommended one, {} neither",
        count(evidence.measured),
        count(evidence.excluded),
        fsdyno_tune::DEVIATIONS,
        count(evidence.rest)
    )];
    if evidence.rest > 0 {
        sentences.push(format!(
            "by that bound, the unexplored points could be faster by at most {}; the model expects {}",
            number::percent(evidence.largest_gain),
            number::percent(evidence.expected_gain.max(0.0))
        ));
    }
    for value in &evidence.values {
        let least = number::percent(value.least);
        sentences.push(format!(
            "excluded in every combination: {} (slower by at least {least})",
            value.what
        ));
    }
    sentences
}

/// Phases that the recommended options slow down by more than the smallest difference that matters, with advice.
pub fn disagreement(tuned: &Tuned, result: &TunedFilesystem) -> Option<String> {
    let slower = result
        .phases
        .iter()
        .filter(|phase| phase.seconds > phase.default_seconds * (1.0 + tuned.least));
    let slower: Vec<String> = slower
        .map(|phase| {
            format!(
                "{} {}",
                sanitize(&phase.name),
                change(phase.seconds / phase.default_seconds - 1.0)
            )
        })
        .collect();
    if slower.is_empty() || result.is_default {
        return None;
    }
    let example: Vec<String> =
        result.phases.iter().map(|phase| format!("{}=1", phase.name)).collect();
    Some(format!(
        "The phases disagree: {} slower with these options. State what counts: --objective {}",
        slower.join(", "),
        example.join(",")
    ))
}

/// A confirmation in a sentence.
pub fn confirmation_sentence(confirmation: &super::Confirmation, least: f64) -> String {
    let what = sanitize(&confirmation.what);
    match (&confirmation.ratio, &confirmation.failed) {
        (_, Some(reason)) => format!("{what}: not measured: {}", sanitize(reason)),
        (Some(found), None) if found.holds => format!("{what}: {}; it holds", ratio(found)),
        (Some(found), None) if found.ratio > 1.0 + least => {
            format!(
                "{what}: {}; it is SLOWER here, so the recommendation holds only for the work of the search",
                ratio(found)
            )
        }
        (Some(found), None) => format!("{what}: {}; no certain gain here", ratio(found)),
        (None, None) => format!("{what}: not measured"),
    }
}

/// The number of trials and the noise.
pub fn effort(result: &TunedFilesystem) -> String {
    let noise = match result.noise > 0.0 {
        true => {
            format!("; one trial varies by {} (standard deviation)", number::percent(result.noise))
        }
        false => String::new(),
    };
    let cut = match result.cut_short {
        true => "; the budget ended before every neighbour of the recommended options was measured",
        false => "",
    };
    format!(
        "{} of {}{noise}{cut}",
        counted(result.trials as usize, "trial"),
        counted(result.points.len(), "configuration")
    )
}
