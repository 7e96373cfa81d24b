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
    let configuration = space.configuration(point);
    let (name, mount) = (&space.filesystem, configuration.mount.as_str());
    let mount = if mount.is_empty() { "defaults" } else { mount };
    let pass = if ["xfs", "btrfs"].contains(&name.as_str()) { 0 } else { 2 };
    let mkfs = [format!("mkfs.{name}"), configuration.mkfs.clone(), "DEVICE".into()];
    let losses = space.chosen(point).flat_map(|value| &value.gives_up);
    Settings {
        words: space.describe(point),
        spec: configuration.spec,
        mkfs: mkfs.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "),
        fstab: format!("DEVICE  MOUNTPOINT  {name}  {mount}  0  {pass}"),
        sysctls: configuration.sysctls,
        scheduler: configuration.scheduler,
        gives_up: losses
            .map(|given_up| format!("{}: {}", given_up.loss.name(), given_up.why))
            .collect(),
    }
}

/// Formats the settings of a value for the user.
fn describe_settings(value: &space::Value) -> String {
    let mkfs = (!value.mkfs.is_empty()).then(|| format!("mkfs {}", value.mkfs));
    let mount = (!value.mount.is_empty()).then(|| format!("mount {}", value.mount));
    let scheduler = value.scheduler.as_ref().map(|name| format!("scheduler {name}"));
    let sysctls = value.sysctls.iter().map(|setting| format!("sysctl {setting}"));
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
        found
            .measured
            .iter()
            .find(|measured| measured.point == *point)
            .map_or(0.0, |measured| measured.time)
    };
    let pairs = found.interactions.iter().map(|interaction| Pair {
        one: value_name(space, interaction.one),
        other: value_name(space, interaction.other),
        change: interaction.log.exp_m1(),
        deviation: interaction.deviation,
    });
    let reason = |what: String, why: &str| Reason { what, why: why.to_string() };
    TunedFilesystem {
        filesystem: space.filesystem.clone(),
        recommended: settings(space, &found.winner),
        is_default: found.winner.is_default(),
        default_seconds: time(&space.default_point()),
        seconds: time(&found.winner),
        confirmed: found.confirmed.as_ref().map(|comparison| ratio(comparison, least, LEVEL)),
        unconfirmed: found.unconfirmed.as_ref().map(|point| space.describe(point)),
        effects: effects(space, found, least),
        interactions: pairs.collect(),
        dropped: dropped.iter().map(|dropped| reason(dropped.what.clone(), &dropped.why)).collect(),
        refused: found
            .refused
            .iter()
            .map(|(point, why)| reason(space.describe(point), why))
            .collect(),
        certificate: found.certificate.map(|excluded| ExcludedValue {
            what: value_name(space, (excluded.option, excluded.value)),
            least: excluded.least,
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
    let worth = |effect: &Effect| {
        let option = &space.options[effect.option];
        let value = &option.values[usize::from(effect.value)];
        OptionEffect {
            what: value_name(space, (effect.option, effect.value)),
            about: option.about.clone(),
            sets: describe_settings(value),
            alone: effect.alone.map(|worth| worth.change()),
            alone_deviation: effect.alone.map_or(0.0, |worth| worth.deviation),
            with_winner: effect.with_winner.map(|worth| worth.change()),
            average: effect.average.map(f64::exp_m1),
            is_nothing: effect.is_negligible(least),
            is_recommended: found.winner.0[effect.option] == effect.value,
            gives_up: value
                .gives_up
                .iter()
                .map(|given_up| format!("{}: {}", given_up.loss.name(), given_up.why))
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
        .map(|measured| PointTime {
            words: space.describe(&measured.point),
            spec: space.configuration(&measured.point).spec,
            seconds: measured.time,
            change: measured.value.exp_m1(),
            trials: measured.trials,
        })
        .collect();
    points.sort_by(|a, b| a.change.total_cmp(&b.change));
    points
}

/// Returns the phases that a trial of the default and a trial of the recommended options share, with both times.
pub fn phases(objective: &Objective, default: &Trial, winner: &Trial) -> Vec<PhaseChange> {
    let winner_times = times(winner);
    let phase = |(name, seconds): (String, f64)| {
        let other = winner_times.iter().find(|(other, _)| *other == name)?;
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
            let fraction = new / base - 1.0;
            format!("{}{}", if fraction < 0.0 { "-" } else { "+" }, percent(fraction.abs()))
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
