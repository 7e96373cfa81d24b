//! Converts the findings of a search to the result of the command.

use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_report::percent;
use fsdyno_report::tune::{
    ExcludedValue, OptionEffect, Pair, PhaseChange, PointTime, Reason, Settings, TunedFilesystem,
};
use fsdyno_tune::{Effect, Point, SearchResult, Space, space};

use super::bench::account;
use super::confirmation::ratio;
use super::objective::{Objective, times};

/// The significance level of the comparison with fresh seeds.
const LEVEL: f64 = 0.001;

fn value_name(space: &Space, (option, value): (usize, u8)) -> String {
    let option = &space.options[option];
    format!("{}={}", option.name, option.values[usize::from(value)].name)
}

/// Returns the options of a point in the form in which a user sets them.
pub fn settings(space: &Space, point: &Point) -> Settings {
    let it = space.configuration(point);
    let (name, mount) = (&space.filesystem, it.mount.as_str());
    let mount = if mount.is_empty() { "defaults" } else { mount };
    let pass = if ["xfs", "btrfs"].contains(&name.as_str()) { 0 } else { 2 };
    let mkfs = [format!("mkfs.{name}"), it.mkfs.clone(), "DEVICE".into()];
    let losses = space.chosen(point).flat_map(|value| &value.gives_up);
    Settings {
        words: space.describe(point),
        spec: it.spec,
        mkfs: mkfs.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "),
        fstab: format!("DEVICE  MOUNTPOINT  {name}  {mount}  0  {pass}"),
        sysctls: it.sysctls,
        scheduler: it.scheduler,
        gives_up: losses.map(|it| format!("{}: {}", it.loss.name(), it.why)).collect(),
    }
}

/// Formats the settings of a value for the user.
fn describe_settings(value: &space::Value) -> String {
    let mkfs = (!value.mkfs.is_empty()).then(|| format!("mkfs {}", value.mkfs));
    let mount = (!value.mount.is_empty()).then(|| format!("mount {}", value.mount));
    let scheduler = value.scheduler.as_ref().map(|it| format!("scheduler {it}"));
    let sysctls = value.sysctls.iter().map(|it| format!("sysctl {it}"));
    mkfs.into_iter().chain(mount).chain(scheduler).chain(sysctls).collect::<Vec<_>>().join("; ")
}

/// Returns the result of a search, without confirmations under other conditions and without power cuts.
pub fn tuned(
    space: &Space,
    found: &SearchResult,
    least: f64,
    dropped: &[space::Dropped],
) -> TunedFilesystem {
    let time = |point: &Point| {
        found.measured.iter().find(|it| it.point == *point).map_or(0.0, |it| it.time)
    };
    let pairs = found.interactions.iter().map(|it| Pair {
        one: value_name(space, it.one),
        other: value_name(space, it.other),
        change: it.log.exp_m1(),
        deviation: it.deviation,
    });
    let reason = |what: String, why: &str| Reason { what, why: why.to_string() };
    TunedFilesystem {
        filesystem: space.filesystem.clone(),
        recommended: settings(space, &found.winner),
        is_default: found.winner.is_default(),
        default_seconds: time(&space.default_point()),
        seconds: time(&found.winner),
        confirmed: found.confirmed.as_ref().map(|it| ratio(it, least, LEVEL)),
        unconfirmed: found.unconfirmed.as_ref().map(|point| space.describe(point)),
        effects: effects(space, found, least),
        interactions: pairs.collect(),
        dropped: dropped.iter().map(|it| reason(it.what.clone(), &it.why)).collect(),
        refused: found
            .refused
            .iter()
            .map(|(point, why)| reason(space.describe(point), why))
            .collect(),
        certificate: found.certificate.map(|it| ExcludedValue {
            what: value_name(space, (it.option, it.value)),
            least: it.least,
        }),
        points: points(space, found),
        trials: found.trials as u64,
        noise: found.noise,
        cut_short: found.cut_short,
        ..TunedFilesystem::default()
    }
}

/// Returns the worth of each option's values.
fn effects(space: &Space, found: &SearchResult, least: f64) -> Vec<OptionEffect> {
    let worth = |it: &Effect| {
        let option = &space.options[it.option];
        let value = &option.values[usize::from(it.value)];
        OptionEffect {
            what: value_name(space, (it.option, it.value)),
            about: option.about.clone(),
            sets: describe_settings(value),
            alone: it.alone.map(|worth| worth.change()),
            alone_deviation: it.alone.map_or(0.0, |worth| worth.deviation),
            with_winner: it.with_winner.map(|worth| worth.change()),
            average: it.average.map(f64::exp_m1),
            is_nothing: it.is_negligible(least),
            is_recommended: found.winner.0[it.option] == it.value,
            gives_up: value
                .gives_up
                .iter()
                .map(|it| format!("{}: {}", it.loss.name(), it.why))
                .collect(),
        }
    };
    found.effects.iter().map(worth).collect()
}

/// Returns the measured configurations, fastest first.
fn points(space: &Space, found: &SearchResult) -> Vec<PointTime> {
    let mut points: Vec<PointTime> = found
        .measured
        .iter()
        .map(|it| PointTime {
            words: space.describe(&it.point),
            spec: space.configuration(&it.point).spec,
            seconds: it.time,
            change: it.value.exp_m1(),
            trials: it.trials,
        })
        .collect();
    points.sort_by(|a, b| a.change.total_cmp(&b.change));
    points
}

/// Returns the phases that a trial of the default and a trial of the recommended options share, with both times.
pub fn phases(objective: &Objective, default: &Trial, winner: &Trial) -> Vec<PhaseChange> {
    let of_winner = times(winner);
    let phase = |(name, seconds): (String, f64)| {
        let other = of_winner.iter().find(|(other, _)| *other == name)?;
        let weight = objective.weight(&name);
        Some(PhaseChange { name, weight, default_seconds: seconds, seconds: other.1 })
    };
    times(default).into_iter().filter_map(phase).collect()
}

/// Returns two sentences on the changes in CPU time and device requests. There are none if a trial failed.
pub fn why(default: &Trial, winner: &Trial) -> Vec<String> {
    if default.outcome != Outcome::Ok || winner.outcome != Outcome::Ok {
        return Vec::new();
    }
    let (base, new) = (account(default), account(winner));
    let change = |base: f64, new: f64| match base > 0.0 {
        true if new == base => "unchanged".to_string(),
        true => {
            let part = new / base - 1.0;
            format!("{}{}", if part < 0.0 { "-" } else { "+" }, percent(part.abs()))
        }
        false => "none before".to_string(),
    };
    vec![
        format!(
            "CPU time of calls and kernel threads: {} to {} ({}).",
            fsdyno_record::Nanos((base.0 * 1e9) as u64),
            fsdyno_record::Nanos((new.0 * 1e9) as u64),
            change(base.0, new.0)
        ),
        format!(
            "Requests of the device: writes {} to {} ({}), flushes {} to {}, bytes written {} to {} ({}).",
            base.1,
            new.1,
            change(base.1 as f64, new.1 as f64),
            base.2,
            new.2,
            fsdyno_record::Bytes(base.3),
            fsdyno_record::Bytes(new.3),
            change(base.3 as f64, new.3 as f64)
        ),
    ]
}
