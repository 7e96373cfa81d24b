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
pub fn ratio(it: &Ratio) -> String {
    let shown = change(it.ratio - 1.0);
    match it.interval {
        Some((low, high)) if low < high => {
            format!(
                "{shown} (95 % interval {} to {}, n = {})",
                change(low - 1.0),
                change(high - 1.0),
                it.n
            )
        }
        Some(_) => format!("{shown} (exact, n = {})", it.n),
        None => format!("{shown} (n = {})", it.n),
    }
}

/// The recommendation for a file system in a sentence.
pub fn recommendation(tuned: &Tuned, of: &TunedFilesystem) -> String {
    let (name, least) = (&of.filesystem, number::difference(tuned.least));
    if let Some(words) = &of.unconfirmed {
        let by = of.confirmed.as_ref().map(|it| format!(": {}", ratio(it))).unwrap_or_default();
        return format!(
            "{name}: keep the defaults. {} won the search, but not on fresh seeds{by}.",
            sanitize(words)
        );
    }
    if of.is_default {
        let open = of.effects.iter().map(|it| 3.0 * it.alone_deviation).fold(0.0, f64::max);
        if open > tuned.least {
            return format!(
                "{name}: keep the defaults. No gain is certain: differences below about {} cannot be decided with these trials.",
                number::percent(open)
            );
        }
        return format!("{name}: keep the defaults. No tried option is worth {least} or more.");
    }
    let by = match &of.confirmed {
        Some(it) => format!("{} on fresh seeds", ratio(it)),
        None => format!(
            "{} in the search, not confirmed",
            change(of.seconds / of.default_seconds - 1.0)
        ),
    };
    format!("{name}: {} changes the time of the default by {by}.", sanitize(&of.recommended.words))
}

/// The sentences of a file system's certificate.
pub fn certificate(it: &Evidence) -> Vec<String> {
    let of = match it.is_whole {
        true => format!("of {} possible points", count(it.points)),
        false => format!(
            "of a random sample of {} points (the space has {} combinations)",
            count(it.points),
            count(it.combinations)
        ),
    };
    let widened = match it.calibration > 1.005 {
        true => format!(
            ", widened {} times after its errors at left-out points",
            number::format_significant(it.calibration, 2)
        ),
        false => String::new(),
    };
    let mut all = vec![format!(
        "{of}: {} measured, {} excluded because the model's bound ({} standard deviations{widened}) is slower than the \
         recommended one, {} neither",
        count(it.measured),
        count(it.excluded),
        fsdyno_tune::DEVIATIONS,
        count(it.rest)
    )];
    if it.rest > 0 {
        all.push(format!(
            "what remains unexplored could be faster by {} at most by that bound; the model expects {}",
            number::percent(it.largest_gain),
            number::percent(it.expected_gain.max(0.0))
        ));
    }
    for value in &it.values {
        let least = number::percent(value.least);
        all.push(format!("excluded with all else: {} (slower by at least {least})", value.what));
    }
    all
}

/// Phases that the recommended options slow down by more than the smallest difference that matters, with advice.
pub fn disagreement(tuned: &Tuned, of: &TunedFilesystem) -> Option<String> {
    let slower =
        of.phases.iter().filter(|it| it.seconds > it.default_seconds * (1.0 + tuned.least));
    let slower: Vec<String> = slower
        .map(|it| {
            format!("{} {}", sanitize(&it.name), change(it.seconds / it.default_seconds - 1.0))
        })
        .collect();
    if slower.is_empty() || of.is_default {
        return None;
    }
    let example: Vec<String> = of.phases.iter().map(|it| format!("{}=1", it.name)).collect();
    Some(format!(
        "The phases disagree: {} slower with these options. Say what counts: --objective {}",
        slower.join(", "),
        example.join(",")
    ))
}

/// A confirmation in a sentence.
pub fn confirmation_sentence(it: &super::Confirmation, least: f64) -> String {
    let what = sanitize(&it.what);
    match (&it.ratio, &it.failed) {
        (_, Some(why)) => format!("{what}: not measured: {}", sanitize(why)),
        (Some(of_it), None) if of_it.holds => format!("{what}: {}; it holds", ratio(of_it)),
        (Some(of_it), None) if of_it.ratio > 1.0 + least => {
            format!(
                "{what}: {}; it is SLOWER here, so the recommendation holds only for the work of the search",
                ratio(of_it)
            )
        }
        (Some(of_it), None) => format!("{what}: {}; no certain gain here", ratio(of_it)),
        (None, None) => format!("{what}: not measured"),
    }
}

/// The number of trials and the noise.
pub fn effort(of: &TunedFilesystem) -> String {
    let noise = match of.noise > 0.0 {
        true => format!("; one trial varies by {} (standard deviation)", number::percent(of.noise)),
        false => String::new(),
    };
    let cut = match of.cut_short {
        true => "; the budget ended before every neighbour of the recommended options was measured",
        false => "",
    };
    format!(
        "{} of {}{noise}{cut}",
        counted(of.trials as usize, "trial"),
        counted(of.points.len(), "configuration")
    )
}
