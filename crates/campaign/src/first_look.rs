//! Proposes a first look before a long run: the same command with one trial of each configuration and less work.

use std::time::Duration;

use fsdyno_record::shell::quote;
use fsdyno_record::units::rough;
use fsdyno_workload::params::Domain;
use fsdyno_workload::workloads::{self, Kind};

use crate::speed::Estimate;
use crate::{Cell, RunSpec};

/// The time of a run from which a first look is proposed. [OWN]
const LONG: Duration = Duration::from_secs(15 * 60);

/// The part of the work that a first look does. [OWN]
const PART: u64 = 10;

/// The minimum of a parameter whose value fsdyno reduces, below which phases are too short to be compared. [OWN]
pub(crate) const MIN_REDUCED: u64 = 100;

/// Options with a value that the proposed command does not keep: it has its own number of trials and its own folder.
const DROPPED: [&str; 6] = ["--repeat", "--width", "--at-most", "--out", "--name", "--note"];

/// Options without a value that the proposed command does not keep.
const DROPPED_FLAGS: [&str; 2] = ["--dry-run", "--mix"];

/// Returns a line that proposes a shorter command, if a run with this estimate is long: `first look, about 4 min:
/// fsdyno run ...`. `None` for other commands than `fsdyno run`, for a shard and for ranks, and if the time of a
/// shorter run is not known or not less than half of the time. `trials` estimates the time of the trials of a request.
pub fn of(
    spec: &RunSpec,
    cells: &[Cell],
    whole: &Estimate,
    command: &str,
    trials: fn(&RunSpec) -> Option<Duration>,
) -> Option<String> {
    line(spec, cells, whole.time, command, &|spec| Some(trials(spec)? + whole.boots))
}

fn line(
    spec: &RunSpec,
    cells: &[Cell],
    whole: Duration,
    command: &str,
    estimate: &dyn Fn(&RunSpec) -> Option<Duration>,
) -> Option<String> {
    let words = words(command);
    if whole < LONG || spec.shard.is_some() || spec.ranks.is_some() || !is_run(&words) {
        return None;
    }
    // The request of a recorded command names another workload than the command line.
    let is_named = spec.workloads.iter().all(|workload| words.contains(workload));
    let sets = if is_named { reduced(spec, cells) } else { Vec::new() };
    // A smaller value may be invalid, for example together with other parameters.
    let proposals = [sets.as_slice(), &[]];
    let (sets, time) = proposals.into_iter().find_map(|sets| {
        let time = estimate(&shorter(spec, sets))?;
        (time <= whole / 2).then_some((sets, time))
    })?;
    Some(format!("first look, about {}: {}", rough(time), proposed(&words, sets)))
}

/// Returns true for the words of `fsdyno run`.
fn is_run(words: &[String]) -> bool {
    let command = words.iter().skip(1).find(|word| !word.starts_with('-'));
    command.is_some_and(|word| word == "run") && !words.iter().any(|word| word == "--")
}

/// A smaller value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reduced {
    /// The workload, if the request has several.
    workload: Option<String>,
    parameter: &'static str,
    value: u64,
}

impl Reduced {
    /// Returns `[WORKLOAD.]KEY=VALUE`.
    fn setting(&self) -> String {
        let prefix = self.workload.as_ref().map(|it| format!("{it}.")).unwrap_or_default();
        format!("{prefix}{}={}", self.parameter, self.value)
    }

    /// Returns true if it replaces this setting of the request.
    fn replaces(&self, setting: &str) -> bool {
        let key = setting.split('=').next().unwrap_or_default();
        match (key.split_once('.'), &self.workload) {
            (Some((workload, key)), Some(own)) => workload == own && key == self.parameter,
            (Some((_, key)), None) => key == self.parameter,
            // With several workloads, a setting of one overrides the setting of all.
            (None, Some(_)) => false,
            (None, None) => key == self.parameter,
        }
    }
}

/// Returns smaller values of the parameters that set the amount of work and are numbers; a smaller file may fit in the
/// cache, so sizes are kept.
fn reduced(spec: &RunSpec, cells: &[Cell]) -> Vec<Reduced> {
    let is_several = spec.workloads.len() > 1;
    let kinds = spec.workloads.iter().filter_map(|name| workloads::find(name).ok());
    let of_kind = |kind: &'static Kind| {
        kind.more_work.iter().filter_map(move |&parameter| {
            let value = smaller(kind, parameter, cells)?;
            let workload = is_several.then(|| kind.name.to_string());
            Some(Reduced { workload, parameter, value })
        })
    };
    kinds.flat_map(of_kind).collect()
}

/// Returns a tenth of a parameter's value, if all cells of the workload have the same value and it is large enough.
fn smaller(kind: &Kind, parameter: &str, cells: &[Cell]) -> Option<u64> {
    let param = kind.params.iter().find(|param| param.name == parameter)?;
    if !matches!(param.domain, Domain::Whole { .. }) {
        return None;
    }
    let of_kind = cells.iter().filter(|cell| cell.plan.workload.name == kind.name);
    let mut values = of_kind.map(|cell| cell.plan.workload.params.get(parameter));
    let first = values.next()??;
    if values.any(|value| value != Some(first)) {
        return None;
    }
    let full: u64 = first.parse().ok()?;
    let value = (full / PART).max(MIN_REDUCED);
    (value < full).then_some(value)
}

/// Returns the request with one trial of each configuration and these values.
fn shorter(spec: &RunSpec, sets: &[Reduced]) -> RunSpec {
    let mut spec = RunSpec { repeat: 1, half_width: None, ..spec.clone() };
    spec.parameters.retain(|setting| !sets.iter().any(|set| set.replaces(setting)));
    spec.parameters.extend(sets.iter().map(Reduced::setting));
    spec
}

/// Returns the command for these values.
fn proposed(words: &[String], sets: &[Reduced]) -> String {
    let is_replaced = |setting: &str| sets.iter().any(|set| set.replaces(setting));
    let mut kept: Vec<String> = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_string())),
            None => (word.as_str(), None),
        };
        if DROPPED_FLAGS.contains(&option) {
            continue;
        }
        if option != "--set" && !DROPPED.contains(&option) {
            kept.push(quote(word));
            continue;
        }
        let value = value.or_else(|| rest.next().cloned()).unwrap_or_default();
        if option == "--set" && !is_replaced(&value) {
            kept.extend(["--set".to_string(), quote(&value)]);
        }
    }
    for set in sets {
        kept.extend(["--set".to_string(), quote(&set.setting())]);
    }
    kept.extend(["--repeat".to_string(), "1".to_string()]);
    kept.join(" ")
}

/// Splits a command line as a shell does; the command line has been quoted by [`fsdyno_record::shell`].
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(letters.next()),
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    const MINUTE: Duration = Duration::from_secs(60);

    fn spec(workloads: &[&str], parameters: &[&str], repeat: u32) -> RunSpec {
        let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        RunSpec {
            workloads: strings(workloads),
            parameters: strings(parameters),
            repeat,
            ..RunSpec::default()
        }
    }

    /// Returns the line for a run of `minutes`, if each op takes 1 ms.
    fn propose(spec: &RunSpec, minutes: u32, command: &str) -> Option<String> {
        let cells = Experiment::resolve(spec.clone()).unwrap().cells;
        let time = |spec: &RunSpec| {
            let cells = Experiment::resolve(spec.clone()).ok()?.cells;
            let ops: u64 = cells.iter().map(Cell::ops).sum();
            Some(Duration::from_millis(ops) * spec.repeat)
        };
        line(spec, &cells, MINUTE * minutes, command, &time)
    }

    #[test]
    fn a_long_run_has_a_first_look_with_one_trial_of_a_tenth_of_the_work() {
        let command = "fsdyno run dirops --set files=20000 --set=stat=yes --repeat 5 --out 'a b' \
                       --fs 'ext4 -I 128' --mix";
        let spec = spec(&["dirops"], &["files=20000"], 5);
        let line = propose(&spec, 20, command).unwrap();
        let (time, proposed) = line.split_once(": ").unwrap();
        assert!(time.starts_with("first look, about ") && time.ends_with(" s"), "{line}");
        assert_eq!(
            proposed,
            "fsdyno run dirops --set stat=yes --fs 'ext4 -I 128' --set files=2000 --repeat 1"
        );
        assert_eq!(propose(&spec, 14, command), None, "a short run");
        assert_eq!(propose(&spec, 20, "fsdyno study dirops-2001"), None, "another command");
    }

    #[test]
    fn several_workloads_have_a_value_each_and_a_dry_run_is_not_proposed() {
        let spec = spec(&["dirops", "maildir"], &["dirops.files=5000"], 2);
        let command = "fsdyno -v run dirops maildir --dry-run --set dirops.files=5000 --width 2%";
        let line = propose(&spec, 600, command).unwrap();
        assert!(line.contains(": fsdyno -v run dirops maildir --set dirops.files=500 "), "{line}");
        assert!(line.contains("--set maildir.ops=") && line.ends_with(" --repeat 1"), "{line}");
    }

    #[test]
    fn a_run_that_cannot_be_shortened_has_no_first_look() {
        let small = spec(&["dirops"], &["files=100"], 1);
        let time = |_: &RunSpec| Some(MINUTE * 20);
        let cells = Experiment::resolve(small.clone()).unwrap().cells;
        let command = "fsdyno run dirops --set files=100";
        assert_eq!(reduced(&small, &cells), Vec::new());
        assert_eq!(line(&small, &cells, MINUTE * 20, command, &time), None);
        assert_eq!(line(&small, &cells, MINUTE * 20, command, &|_| None), None, "not known");
    }

    #[test]
    fn if_the_work_cannot_be_reduced_only_the_trials_are() {
        // The points of the curve have different numbers of files.
        let curve = spec(&["dirops"], &["curve=100..10000x10"], 4);
        let line = propose(&curve, 60, "fsdyno run dirops --set curve=100..10000x10 --repeat=4");
        let end = ": fsdyno run dirops --set curve=100..10000x10 --repeat 1";
        assert!(line.as_ref().is_some_and(|line| line.ends_with(end)), "{line:?}");
        // A recorded command is replayed: its parameters are not those of the replay.
        let replayed = spec(&["dirops"], &[], 4);
        let command = "fsdyno run command --set 'command=make -j2' --repeat 4";
        let line = propose(&replayed, 60, command).unwrap();
        assert!(line.ends_with(": fsdyno run command --set 'command=make -j2' --repeat 1"));
    }

    #[test]
    fn words_are_those_that_were_quoted() {
        let given = ["fsdyno", "it's", "a b", "", "plain"];
        let command = given.map(quote).join(" ");
        assert_eq!(words(&command), given);
    }
}
