//! Merges the shares of one command into the folder that a run without shares would have left.
//!
//! The shares are only read. The merged folder is written after all checks, each file completely or not at all. It is
//! itself a share that holds all trials, so that a merge can be repeated, or continued with more shares.

mod error;
mod logs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsdyno_record::bounded;
use fsdyno_record::lines::{self, FILE as RECORDS};
use fsdyno_record::series::Series;
use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_record::units::counted;
use fsdyno_venue::fingerprint;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::compatibility::{changed_components, guest, same_machine, short};
use crate::schedule::Shard;
use crate::share::{Planned, ShareError, ShareFile};
use crate::store::{Store, StoreError, series_file};

pub use error::MergeError;

/// The result of a merge.
#[derive(Debug)]
pub struct Merged {
    /// The trials in the order of the schedule, as stored in the folder.
    pub trials: Vec<Trial>,
    /// The requested baseline.
    pub baseline: Option<String>,
    /// The missing trials by share, or empty if there are none.
    pub missing: String,
    /// Number of duplicate trials found in other shares; their results are bit-identical.
    pub twice: usize,
    /// Folders whose records end with a line that a crash left incomplete.
    pub torn: Vec<PathBuf>,
}

/// Merges shares into the folder `out`, which is new or a merge of the same shares.
///
/// # Errors
/// The reason that nothing was merged; the trials in `out` are then unchanged.
pub fn merge(out: &Path, folders: &[PathBuf], partial: bool) -> Result<Merged, MergeError> {
    let mut sources = Vec::new();
    for folder in folders {
        sources.push(Source::read(folder)?);
    }
    let mut store = open(out)?;
    let merged = combine(&mut store, sources, partial);
    if merged.is_err() {
        store.discard_if_empty();
    }
    merged
}

/// The folder of a share, with its contents.
struct Source {
    folder: PathBuf,
    share: ShareFile,
    trials: Vec<Trial>,
    series: Vec<Series>,
    torn: bool,
}

impl Source {
    fn read(folder: &Path) -> Result<Source, MergeError> {
        let path = folder.join(RECORDS);
        let io = |source| StoreError::Io { what: "read", path: path.clone(), source };
        let file = bounded::open(&path).map_err(io)?;
        // Without support for locks, a running share goes undetected; its remaining trials are reported as missing.
        if flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::AGAIN) {
            return Err(MergeError::InUse(folder.into()));
        }
        let hint = "name folders of fsdyno run --shard";
        let share = ShareFile::read(folder)?
            .ok_or_else(|| ShareError::NotAShare { folder: folder.into(), hint })?;
        let lines: lines::Lines =
            lines::read_file(file, Some).map_err(|error| crate::store::unread(&path, error))?;
        let torn = lines.torn.is_some();
        let (trials, series) = (lines.records, series_file::read(folder)?);
        Ok(Source { folder: folder.into(), share, trials, series, torn })
    }
}

/// Opens the merged folder, new or as an earlier merge left it.
fn open(out: &Path) -> Result<Store, MergeError> {
    let taken = |found: String| MergeError::OutTaken { folder: out.into(), found };
    match ShareFile::read(out)? {
        Some(share) if share.shard.is_some() => return Err(taken(share.describe())),
        None if out.join(RECORDS).exists() => return Err(taken("trials".into())),
        _ => {}
    }
    Ok(Store::open(out)?)
}

fn combine(
    store: &mut Store,
    mut sources: Vec<Source>,
    partial: bool,
) -> Result<Merged, MergeError> {
    if let Some(share) = ShareFile::read(store.folder())? {
        let (folder, trials) = (store.folder().to_path_buf(), store.trials().to_vec());
        // Inserted first, so that its trials take precedence over equal ones.
        let (series, torn) = (store.series()?, store.torn().is_some());
        sources.insert(0, Source { folder, share, trials, series, torn });
    }
    for pair in sources.windows(2) {
        check_same_command(&pair[0], &pair[1])?;
    }
    sources.iter().try_for_each(check_planned)?;
    check_same_place(&sources)?;
    let Some(first) = sources.first() else { return Err(MergeError::Missing("no share".into())) };
    let mut merged_share = ShareFile { shard: None, ..first.share.clone() };
    // Shares of one command may have different command lines; the lexicographically first one is kept.
    let commands = sources.iter().map(|source| &source.share.command);
    merged_share.command = commands.min().cloned().unwrap_or_default();

    let (by_trial, over_time) = (by_trial(&sources), over_time(&sources));
    let (mut trials, mut missing_indices, mut twice) = (Vec::new(), Vec::new(), 0);
    let (mut copies, mut series) = (Vec::new(), Vec::new());
    for (index, planned) in merged_share.trials.iter().enumerate() {
        let candidates = by_trial.get(planned).map(Vec::as_slice).unwrap_or_default();
        match choose(candidates)? {
            Some(trial) => {
                let successful = |(folder, trial): &&(&Path, &Trial)| {
                    trial.outcome == Outcome::Ok && *folder != store.folder()
                };
                twice += candidates.iter().filter(successful).count().saturating_sub(1);
                let mut merged = trial.clone();
                // The row in the table of the whole command.
                merged.row = u32::try_from(planned.cell).ok();
                let chosen = candidates.iter().find(|(_, one)| std::ptr::eq(*one, trial));
                if let Some((folder, _)) = chosen.filter(|(folder, _)| *folder != store.folder()) {
                    copies.extend(logs::plan(&mut merged, folder, store.folder())?);
                }
                series.extend(series_of(trial, &over_time)?.cloned());
                trials.push(merged);
            }
            None => missing_indices.push(index),
        }
    }
    let missing = format_missing(&missing_indices, &sources, merged_share.trials.len());
    if !missing_indices.is_empty() && !partial {
        return Err(MergeError::Missing(missing));
    }
    // The logs are copied before the records that refer to them are written.
    copies.iter().try_for_each(logs::LogCopy::make)?;
    merged_share.write(store.folder())?;
    store.replace(trials.clone(), &series)?;
    let torn = sources.iter().filter(|source| source.torn).map(|source| source.folder.clone());
    let torn = torn.collect();
    Ok(Merged { trials, baseline: merged_share.baseline, missing, twice, torn })
}

fn check_same_command(a: &Source, b: &Source) -> Result<(), MergeError> {
    let (first, second) = (&a.share, &b.share);
    let what = if first.trials.len() != second.trials.len() {
        format!(
            "one has {}, the other {}",
            counted(first.trials.len(), "trial"),
            second.trials.len()
        )
    } else if let Some(index) =
        (0..first.trials.len()).find(|index| first.trials[*index] != second.trials[*index])
    {
        let name = |planned: &Planned| format!("{} of '{}'", planned.trial_id, planned.label);
        let [one, other] = [name(&first.trials[index]), name(&second.trials[index])];
        format!("trial {} is {one} in one and {other} in the other", index + 1)
    } else if first.baseline != second.baseline {
        "they differ in --baseline".to_string()
    } else {
        return Ok(());
    };
    Err(MergeError::OtherCommand {
        first: a.folder.clone(),
        second: b.folder.clone(),
        what,
        commands: format!("the first is of: {}; the second: {}", first.command, second.command),
    })
}

fn check_planned(source: &Source) -> Result<(), MergeError> {
    let mut planned: Vec<(&str, &str)> =
        source.share.trials.iter().map(|one| (one.trial_id.as_str(), one.label.as_str())).collect();
    planned.sort_unstable();
    let is_planned = |trial: &&Trial| {
        planned.binary_search(&(trial.trial_id.as_str(), trial.plan.label.as_str())).is_ok()
    };
    match source.trials.iter().find(|trial| !is_planned(trial)) {
        None => Ok(()),
        Some(trial) => Err(MergeError::Unplanned {
            folder: source.folder.clone(),
            trial_id: trial.trial_id.clone(),
            label: trial.plan.label.clone(),
        }),
    }
}

/// Checks that all trials ran under comparable conditions: in guests that differ only in the components that their file
/// systems need, or on hosts with the same kernel and mount.
fn check_same_place(sources: &[Source]) -> Result<(), MergeError> {
    let mut distinct: Vec<(&Source, &Trial)> = Vec::new();
    for source in sources {
        for trial in &source.trials {
            for (first, other) in &distinct {
                if let Some(what) = place_difference(other, trial) {
                    let (first, second) = (first.folder.clone(), source.folder.clone());
                    return Err(MergeError::OtherPlace { first, second, what });
                }
            }
            // One trial of each plan represents all later ones.
            let is_same =
                |other: &Trial| other.plan.hash == trial.plan.hash && other.lab_id == trial.lab_id;
            if trial.outcome != Outcome::Skipped
                && !distinct.iter().any(|(_, other)| is_same(other))
            {
                distinct.push((source, trial));
            }
        }
    }
    Ok(())
}

fn place_difference(a: &Trial, b: &Trial) -> Option<String> {
    if let (Some(ours), Some(theirs)) = (&a.lab_id, &b.lab_id) {
        let parts = changed_components(guest(a), guest(b));
        let same_plan = a.plan.hash == b.plan.hash;
        let other =
            same_machine(&a.plan, &b.plan) && (!parts.is_empty() || (same_plan && ours != theirs));
        let parts = if parts.is_empty() { "the initramfs" } else { &parts };
        return other.then(|| {
            format!("their labs are {} and {} (different: {parts})", short(ours), short(theirs))
        });
    }
    if (&a.plan.medium, &a.plan.venue) != (&b.plan.medium, &b.plan.venue) || a.plan.in_lab() {
        return None;
    }
    let facts = |trial: &Trial| {
        let mut facts = fingerprint::of_record(&trial.conditions);
        facts.insert("version of fsdyno".into(), trial.version.clone());
        facts
    };
    let (first, second) = (facts(a), facts(b));
    let mut pairs = first.iter().filter_map(|(what, one)| Some((what, one, second.get(what)?)));
    let (what, one, other) = pairs.find(|(_, one, other)| one != other)?;
    Some(format!("the {what} is '{one}' and '{other}'"))
}

type Candidates<'a> = Vec<(&'a Path, &'a Trial)>;

/// Returns the trials of all folders, grouped by planned trial.
fn by_trial(sources: &[Source]) -> BTreeMap<Planned, Candidates<'_>> {
    let mut planned: BTreeMap<(&str, &str), Vec<&Planned>> = BTreeMap::new();
    for one in sources.first().map(|source| source.share.trials.as_slice()).unwrap_or_default() {
        planned.entry((&one.trial_id, &one.label)).or_default().push(one);
    }
    let mut by_trial: BTreeMap<Planned, Candidates<'_>> = BTreeMap::new();
    for source in sources {
        for trial in &source.trials {
            let slots = planned.get(&(trial.trial_id.as_str(), trial.plan.label.as_str()));
            for one in slots.into_iter().flatten() {
                by_trial.entry((*one).clone()).or_default().push((&source.folder, trial));
            }
        }
    }
    by_trial
}

/// Returns the trial to keep: a successful one, otherwise the last one in the first folder that has any.
fn choose<'a>(candidates: &[(&Path, &'a Trial)]) -> Result<Option<&'a Trial>, MergeError> {
    let successful: Vec<&(&Path, &Trial)> =
        candidates.iter().filter(|(_, trial)| trial.outcome == Outcome::Ok).collect();
    let Some((first, trial)) = successful.first() else {
        let Some((folder, _)) = candidates.first() else { return Ok(None) };
        let mut of_first = candidates.iter().filter(|(other, _)| other == folder);
        return Ok(of_first.next_back().map(|(_, trial)| *trial));
    };
    for (second, other) in &successful[1..] {
        let Some(what) = first_difference(trial, other) else { continue };
        let (first, second) = (first.to_path_buf(), second.to_path_buf());
        let label = &trial.plan.label;
        let (lab, trial) = (&trial.lab_id, format!("{} of '{label}'", trial.trial_id));
        return Err(match lab {
            Some(lab) => {
                let what = format!("{what}, under the identity {}", short(lab));
                MergeError::Differs { first, second, trial, what }
            }
            None => MergeError::Twice { first, second, trial },
        });
    }
    Ok(Some(trial))
}

type OverTime<'a> = BTreeMap<(&'a str, &'a str), Vec<(&'a Path, &'a Series)>>;

/// Returns the time series of all folders, grouped by trial.
fn over_time(sources: &[Source]) -> OverTime<'_> {
    let mut over_time: OverTime<'_> = BTreeMap::new();
    for source in sources {
        for series in &source.series {
            let trial_series = over_time.entry((&series.trial_id, &series.label)).or_default();
            trial_series.push((&source.folder, series));
        }
    }
    over_time
}

/// Returns the series of one trial. In a lab, they are the same wherever the trial ran.
fn series_of<'a>(
    trial: &Trial,
    over_time: &OverTime<'a>,
) -> Result<Option<&'a Series>, MergeError> {
    let candidates = over_time.get(&(trial.trial_id.as_str(), trial.plan.label.as_str()));
    let mut all =
        candidates.into_iter().flatten().filter(|(_, series)| series_file::belongs(series, trial));
    let Some((first, series)) = all.next() else { return Ok(None) };
    match all.find(|(_, other)| trial.lab_id.is_some() && other != series) {
        None => Ok(Some(series)),
        Some((second, _)) => Err(MergeError::Differs {
            first: first.to_path_buf(),
            second: second.to_path_buf(),
            trial: format!("{} of '{}'", trial.trial_id, trial.plan.label),
            what: format!("their lines of {}", fsdyno_record::series::FILE),
        }),
    }
}

/// Returns the first difference between two records, with both values; facts about the host are ignored.
fn first_difference(a: &Trial, b: &Trial) -> Option<String> {
    let value = |trial: &Trial| {
        // The row depends on the other trials of the folder.
        let trial = Trial { host: Default::default(), row: None, ..trial.clone() };
        serde_json::to_value(trial).unwrap_or_default()
    };
    let (path, one, other) = value_difference(&value(a), &value(b))?;
    Some(format!("{path} ({one} and {other})"))
}

fn value_difference(a: &Value, b: &Value) -> Option<(String, String, String)> {
    if a == b {
        return None;
    }
    let difference_in = |name: String, one: Option<&Value>, other: Option<&Value>| {
        let nothing = Value::Null;
        let found = value_difference(one.unwrap_or(&nothing), other.unwrap_or(&nothing))?;
        let dot = if found.0.is_empty() { "" } else { "." };
        Some((format!("{name}{dot}{}", found.0), found.1, found.2))
    };
    match (a, b) {
        (Value::Object(first), Value::Object(second)) => first
            .keys()
            .chain(second.keys())
            .find_map(|key| difference_in(key.clone(), first.get(key), second.get(key))),
        (Value::Array(first), Value::Array(second)) => {
            (0..first.len().max(second.len())).find_map(|index| {
                difference_in(index.to_string(), first.get(index), second.get(index))
            })
        }
        _ => {
            let shown = |value: &Value| value.to_string().chars().take(80).collect();
            Some((String::new(), shown(a), shown(b)))
        }
    }
}

/// Formats missing trials: `share 2/8 (3 trials), share 5/8 (1 of its 3 trials)`.
fn format_missing(missing_indices: &[usize], sources: &[Source], trials: usize) -> String {
    let share_count =
        sources.iter().filter_map(|source| source.share.shard).map(|shard| shard.of).max();
    let share_count = share_count.unwrap_or(1);
    let mut shares: BTreeMap<Shard, usize> = BTreeMap::new();
    for index in missing_indices {
        *shares.entry(Shard::with(*index, share_count)).or_default() += 1;
    }
    let share_size = |shard: &Shard| {
        (0..trials).filter(|index| Shard::with(*index, share_count) == *shard).count()
    };
    let parts = shares.iter().map(|(shard, count)| match share_size(shard) {
        size if size == *count => format!("share {shard} ({})", counted(size, "trial")),
        size => format!("share {shard} ({count} of its {})", counted(size, "trial")),
    });
    parts.collect::<Vec<_>>().join(", ")
}
