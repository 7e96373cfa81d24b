//! The parameters that give a workload more work, for phases that are too short, with sufficient values.

use fsdyno_record::Trial;
use fsdyno_workload::params::{Domain, Param};
use fsdyno_workload::workloads::replay::CONCURRENT;
use fsdyno_workload::workloads::{self, Kind};

use super::{Run, minimum};

/// The time that more work should take, relative to the minimum: times differ from trial to trial. [OWN]
const MARGIN: f64 = 1.5;

/// The exponent of the growth of the work: a part of the time of a short phase does not grow with it. [OWN]
const GROWTH: f64 = 1.15;

/// Returns the options that give the workloads of these rows enough work, if time grows almost with the work:
/// `--set files=12k`, with the workload's name if there are several; empty if no workload has such a parameter. The
/// value is `N` if the present one is not a number, or not the same in all rows of the workload; the factor of the work
/// follows.
pub fn options(rows: &[&[Run<'_>]]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (trial, _) in rows.iter().filter_map(|runs| runs.first()) {
        if !names.contains(&trial.plan.workload.name.as_str()) {
            names.push(&trial.plan.workload.name);
        }
    }
    let of_workload = |name: &&str| {
        // A record may name a workload of another version.
        let kind = workloads::find(name).ok().filter(|kind| !kind.more_work.is_empty())?;
        let is_of_kind = |runs: &&&[Run<'_>]| {
            runs.first().is_some_and(|(trial, _)| trial.plan.workload.name == **name)
        };
        let rows: Vec<&[Run<'_>]> = rows.iter().filter(is_of_kind).copied().collect();
        let prefix = if names.len() > 1 { format!("{name} ") } else { String::new() };
        Some(prefix + &of_rows(kind, &rows))
    };
    names.iter().filter_map(of_workload).collect::<Vec<_>>().join(", ")
}

/// Returns the options for the rows of one workload.
fn of_rows(kind: &Kind, rows: &[&[Run<'_>]]) -> String {
    let wanted = rows.iter().map(|runs| factor(runs)).fold(0.0, f64::max);
    let trials = || rows.iter().flat_map(|runs| runs.iter()).map(|(trial, _)| *trial);
    let mut is_exact = true;
    let options = kind.more_work.iter().filter_map(|&name| {
        let Some((param, value)) = value(kind, name, trials()) else {
            is_exact = false;
            return Some(format!("--set {name}=N"));
        };
        // A parameter of zero is work that was not requested.
        let value = (value > 0).then_some(value)?;
        let concurrent = if name == CONCURRENT { processors(trials()) } else { 1 };
        let base = value.max(concurrent);
        Some(format!("--set {name}={}", enough(param, base as f64 * wanted)?))
    });
    let options = options.collect::<Vec<_>>().join(" ");
    let is_known = wanted.is_finite() && wanted > 1.0;
    match is_exact || !is_known {
        true => options,
        false => format!("{options} (about {} times as much is enough)", friendly(wanted)),
    }
}

/// Returns the number of processors on which trials of a host could do work at the same time: the smallest that a record
/// states; 1 in the lab, or if no record states it.
fn processors<'t>(trials: impl Iterator<Item = &'t Trial>) -> u64 {
    let of = |trial: &Trial| match trial.conditions.venue == "host" {
        true => u64::from(trial.host.processors.unwrap_or(1)),
        false => 1,
    };
    trials.map(of).min().unwrap_or(1)
}

/// Returns the factor by which the work of a row must grow: infinite for a phase that took no time. The shortest trial
/// determines it.
fn factor(runs: &[Run<'_>]) -> f64 {
    let shortfall =
        runs.iter().map(|(trial, phase)| minimum(trial).0 as f64 / phase.returned_ns.0 as f64);
    (shortfall.fold(0.0, f64::max) * MARGIN).powf(GROWTH)
}

/// Returns a parameter with the value that all trials have, if that is a number.
fn value<'k, 't>(
    kind: &'k Kind,
    name: &str,
    mut trials: impl Iterator<Item = &'t Trial>,
) -> Option<(&'k Param, u64)> {
    let param = kind.params.iter().find(|param| param.name == name)?;
    let value = |trial: &'t Trial| trial.plan.workload.params.get(name);
    let first = value(trials.next()?)?;
    let number = first.parse().ok()?;
    trials.all(|trial| value(trial) == Some(first)).then_some((param, number))
}

/// Returns a value of a parameter that is at least `wanted`, as a user would give it: `12k`, `1536M`, and at most its
/// maximum; `None` for a value that is not finite.
fn enough(param: &Param, wanted: f64) -> Option<String> {
    let domain = match param.domain {
        Domain::Or(_, other) => *other,
        domain => domain,
    };
    let wanted = Some(wanted).filter(|wanted| wanted.is_finite());
    let text = match (domain, wanted) {
        (_, None) => return Some("N".into()),
        (Domain::Size { max, .. }, Some(wanted)) => {
            let value = friendly_size(wanted).min(max);
            let units = [(30, "G"), (20, "M"), (10, "K")];
            let unit = units.into_iter().find(|(shift, _)| value % (1 << shift) == 0);
            unit.map_or(value.to_string(), |(shift, unit)| format!("{}{unit}", value >> shift))
        }
        (Domain::Whole { max, .. }, Some(wanted)) => {
            let value = (friendly(wanted) as u64).min(max);
            match value {
                1_000_000.. if value % 1_000_000 == 0 => format!("{}M", value / 1_000_000),
                10_000.. if value % 1_000 == 0 => format!("{}k", value / 1_000),
                _ => value.to_string(),
            }
        }
        _ => return None,
    };
    Some(text)
}

/// Rounds a number of at least 1 up to one or two digits: 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten,
/// and to an integer.
fn friendly(number: f64) -> f64 {
    let unit = 10_f64.powf(number.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * unit >= number * (1.0 - 1e-9));
    (step.unwrap_or(10.0) * unit).ceil()
}

/// Rounds a size up to a power of two or one and a half times one.
fn friendly_size(bytes: f64) -> u64 {
    let bytes = bytes as u64;
    let power = bytes.checked_next_power_of_two().unwrap_or(1 << 63);
    let between = power / 4 * 3;
    if bytes <= between { between } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_record::Nanos;
    use fsdyno_record::trial::Phase;
    use fsdyno_record::units::{Bytes, Count};

    /// A trial of a workload with these parameters, whose phase returned after this many milliseconds.
    fn trial(workload: &str, params: &[(&str, &str)], ms: u64) -> (Trial, Phase) {
        let mut trial = fixture::on_a_host().remove(0);
        trial.conditions.venue = "host".into();
        trial.plan.workload.name = workload.into();
        let pairs = params.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        trial.plan.workload.params = pairs.collect();
        (trial, Phase { returned_ns: Nanos(ms * 1_000_000), ..Phase::default() })
    }

    /// The options for rows of one trial each.
    fn options_of(trials: &[(Trial, Phase)]) -> String {
        let runs: Vec<[Run<'_>; 1]> = trials.iter().map(|(it, phase)| [(it, phase)]).collect();
        let rows: Vec<&[Run<'_>]> = runs.iter().map(|runs| runs.as_slice()).collect();
        options(&rows)
    }

    #[test]
    fn the_parameter_depends_on_the_workload() {
        assert_eq!(options_of(&[trial("replay", &[], 0)]), "--set copies=N");
        assert_eq!(options_of(&[trial("command", &[], 100)]), "");
        assert_eq!(options_of(&[trial("from-a-later-version", &[], 100)]), "");
        let both = [
            trial("dirops", &[("files", "1000")], 100),
            trial("postmark", &[("number", "500"), ("transactions", "20000")], 250),
        ];
        let expected = "dirops --set files=12k, postmark --set number=2000 --set transactions=80k";
        assert_eq!(options_of(&both), expected);
    }

    #[test]
    fn the_shortest_trial_of_all_rows_determines_the_value() {
        let rows: Vec<(Trial, Phase)> =
            [400, 250, 100].map(|ms| trial("dirops", &[("files", "1000")], ms)).into();
        assert_eq!(options_of(&rows), "--set files=12k");
        let runs: Vec<Run<'_>> = rows.iter().map(|(it, phase)| (it, phase)).collect();
        assert_eq!(options(&[&runs]), "--set files=12k", "in one row");
        // Work that was not requested remains so, and a value has a maximum.
        let params = [("size", "67108864"), ("reads", "0"), ("writes", "999999999")];
        let expected = "--set size=768M --set writes=1000M";
        assert_eq!(options_of(&[trial("bigfile", &params, 100)]), expected);
    }

    #[test]
    fn without_one_known_value_the_factor_is_stated() {
        let rows = [
            trial("dirops", &[("files", "1000")], 100),
            trial("dirops", &[("files", "4000")], 300),
        ];
        let expected = "--set files=N (about 12 times as much is enough)";
        assert_eq!(options_of(&rows), expected);
        let auto = trial("many-files", &[("files", "auto")], 100);
        assert_eq!(options_of(&[auto]), expected);
        assert_eq!(options_of(&[trial("dirops", &[("files", "1000")], 0)]), "--set files=N");
    }

    #[test]
    fn copies_are_enough_on_several_processors() {
        let replay = |copies: &str, ms, processors| {
            let mut replay = trial("replay", &[("copies", copies)], ms);
            replay.0.host.processors = Some(processors);
            [replay]
        };
        for (copies, ms, processors, expected) in [
            ("1", 250, 1, "--set copies=4"),
            ("1", 250, 4, "--set copies=15"),
            ("8", 250, 4, "--set copies=30"),
            ("100", 100, 4, "--set copies=256"),
        ] {
            assert_eq!(options_of(&replay(copies, ms, processors)), expected);
        }
        let mut lab = trial("replay", &[("copies", "1")], 50);
        lab.0.conditions.venue = "lab".into();
        lab.0.host.processors = Some(4);
        assert_eq!(options_of(&[lab]), "--set copies=4", "the lab has one processor");
    }

    #[test]
    fn following_the_hint_once_is_enough_even_if_a_part_of_the_time_is_constant() {
        // A fifth of the time does not grow, and the next run is up to a tenth faster.
        for ms in [5, 20, 60, 100, 180, 250, 350, 450, 499] {
            let hint = options_of(&[trial("dirops", &[("files", "1000")], ms)]);
            let value: Count = hint.strip_prefix("--set files=").unwrap().parse().unwrap();
            let factor = value.0 as f64 / 1000.0;
            let next = 0.9 * ms as f64 * (0.2 + 0.8 * factor);
            assert!((500.0..3000.0).contains(&next), "{ms} ms: {hint}, {next}");
        }
    }

    #[test]
    fn values_are_rounded_up_to_friendly_numbers() {
        let rounded = [1.0, 1.1, 7.0, 9.0, 11.0, 1234.0, 2600.0, 80_001.0].map(friendly);
        assert_eq!(rounded, [1.0, 2.0, 8.0, 10.0, 12.0, 1500.0, 3000.0, 100_000.0]);
        let sizes = [4096.0, 4097.0, 6145.0].map(friendly_size);
        assert_eq!(sizes, [4096, 6144, 8192]);
        assert_eq!("768M".parse(), Ok(Bytes(768 << 20)));
    }
}
