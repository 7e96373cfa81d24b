//! From answers to commands of fsdyno, each with the time that it takes.

use std::path::Path;
use std::time::Duration;

use fsdyno_axes::{Axis, Request};
use fsdyno_campaign::speed::{Estimate, Speeds};
use fsdyno_campaign::tune::{self, Budget, TuneRequest};
use fsdyno_campaign::{Experiment, Failure, RunSpec};
use fsdyno_report::counted;
use fsdyno_report::table::Prose;

use crate::answers::{Answers, On, Safety};
use crate::power_cuts;
use crate::step::{NO_TIME, Step, in_minutes, option_words, words};

/// The numbers of trials of a configuration that are tried, the best first.
const REPEATS: [u32; 4] = [5, 3, 2, 1];

/// The number of trials if this machine's speed is not known.
const UNKNOWN: u32 = 3;

/// The commands, and what was left out of them, in words.
#[derive(Debug, Default)]
pub struct Steps {
    /// The commands, in their order.
    pub steps: Vec<Step>,
    /// The steps that were left out, with reasons.
    pub omitted: Vec<String>,
}

impl Steps {
    /// The commands as text.
    pub fn text(&self, answers: &Answers, prose: Prose) -> String {
        let mut text = format!("For {} on {}:\n", answers.purpose.name, answers.on);
        for (at, step) in self.steps.iter().enumerate() {
            let (number, about, line) = (at + 1, &step.about, step.line());
            text += &format!("\n{number}. {about}\n   {line}\n   time: {}\n", step.time);
        }
        for line in &self.omitted {
            text += &format!("\n{}", prose.wrapped(line));
        }
        text
    }
}

/// The commands that answer.
///
/// # Errors
/// Answers that no run takes; a time that is too short for one trial of each file system.
pub fn of(answers: &Answers) -> Result<Steps, Failure> {
    match answers.purpose.workload {
        None => own(answers),
        Some(_) => of_workload(answers),
    }
}

/// The commands for a program of the user's: record it, and replay the recording.
fn own(answers: &Answers) -> Result<Steps, Failure> {
    let program = answers.command.first().map(String::as_str).unwrap_or_default();
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let trace = format!("{name}.trace");
    let mut record: Vec<String> = ["record", "-o", &trace, "--"].map(String::from).to_vec();
    record.extend(answers.command.iter().cloned());
    let mut words = words("run", &["replay", "--set", &format!("trace={trace}")]);
    words.extend(target_words(answers));
    words.extend(["--repeat".into(), UNKNOWN.to_string()]);
    let about = match answers.on {
        On::Directory(_) => "Replay them here, each result compared",
        _ => "Replay them on each file system, each result compared",
    };
    let later = || "known after the recording".to_string();
    let mut steps = Steps {
        steps: vec![
            Step::new("Record the calls of the program", "that of the program".into(), record),
            Step::new(about, later(), words),
        ],
        omitted: Vec::new(),
    };
    if answers.safety == Safety::Safe {
        let work = ["replay".to_string(), "--set".into(), format!("trace={trace}")];
        match power_cuts::step(answers, &work, power_cuts::USUAL, later()) {
            Ok(step) => steps.steps.push(step),
            Err(why) => steps.omitted.push(why),
        }
    }
    Ok(steps)
}

fn of_workload(answers: &Answers) -> Result<Steps, Failure> {
    let one = estimated(answers, 1)?;
    let of_repeat = |repeat: u32| one.map(|it| it.time * repeat);
    let is_over = |time: Option<Duration>, limit: Duration| time.is_some_and(|it| it > limit);
    if is_over(of_repeat(1), answers.limit) {
        let least = one.map(|it| it.to_string()).unwrap_or_default();
        return Err(Failure::wrong(format!(
            "one trial of each takes {least}, longer than --time allows; give more time, or fewer file systems"
        )));
    }
    // The search of options gets what the comparison leaves, two thirds or more.
    let part = if is_tunable(answers) { answers.limit / 3 } else { answers.limit };
    let repeat = match one {
        None => UNKNOWN,
        Some(_) => REPEATS.into_iter().find(|n| !is_over(of_repeat(*n), part)).unwrap_or(1),
    };
    let about = match answers.on {
        On::Directory(_) => "Measure the file system of the directory",
        _ => "Compare the file systems",
    };
    let time = estimated(answers, repeat)?;
    let in_words = time.map_or(NO_TIME.to_string(), |it| it.to_string());
    let mut steps = Steps {
        steps: vec![Step::new(about, in_words, run_words(answers, repeat))],
        omitted: Vec::new(),
    };
    let mut rest = answers.limit.saturating_sub(time.map_or(part, |it| it.time));
    if answers.purpose.acknowledges && answers.safety == Safety::Safe {
        match power_cuts::within(answers, rest, one) {
            Ok((step, time)) => {
                steps.steps.push(step);
                rest = rest.saturating_sub(time);
            }
            Err(why) => steps.omitted.push(why),
        }
    }
    if answers.on.takes_filesystems() {
        match search(answers, rest, one) {
            Ok(step) => steps.steps.push(step?),
            Err(why) => steps.omitted.push(why),
        }
    }
    Ok(steps)
}

/// Tests whether the options of at least one of the file systems can be searched.
fn is_tunable(answers: &Answers) -> bool {
    answers.on.takes_filesystems() && !spaces(answers).is_empty()
}

fn spaces(answers: &Answers) -> Vec<&String> {
    let has = |name: &&String| fsdyno_tune::space::names().any(|known| known == name.as_str());
    answers.filesystems.iter().filter(has).collect()
}

/// The search of options within a time, or the reason to leave it out.
fn search(
    answers: &Answers,
    rest: Duration,
    one: Option<Estimate>,
) -> Result<Result<Step, Failure>, String> {
    let with_space = spaces(answers);
    if with_space.is_empty() {
        let all = fsdyno_tune::space::names().collect::<Vec<_>>().join(", ");
        return Err(format!("no search of options: only {all} have a space of options"));
    }
    let mut words = words("tune", &[]);
    words.extend(answers.purpose.words());
    // The search chooses how its guests boot.
    let axes: Vec<_> = answers.on.axes().into_iter().filter(|(axis, _)| *axis != "boot").collect();
    words.extend(option_words(&axes));
    words.extend(with_space.iter().flat_map(|name| ["--fs".to_string(), name.to_string()]));
    words.extend((answers.safety == Safety::Unsafe).then(|| "--unsafe".to_string()));
    words.extend(["--budget".to_string(), budget(rest)]);
    let least = spec(answers, &axes).and_then(|spec| {
        let names = with_space.into_iter().cloned().collect();
        let request = TuneRequest::new(spec, names, Budget::Time(rest));
        tune::least(&TuneRequest { safe: answers.safety == Safety::Safe, ..request })
    });
    let least = match least {
        Ok(least) => least,
        Err(failure) => return Ok(Err(failure)),
    };
    let each = one.map(|it| it.time / u32::try_from(answers.filesystems.len().max(1)).unwrap_or(1));
    let needed = each.map(|each| each * u32::try_from(least).unwrap_or(u32::MAX));
    if let Some(needed) = needed.filter(|needed| *needed > rest) {
        let trials = counted(least, "trial");
        return Err(format!(
            "no search of options: the least one takes {trials}, about {}, and {} are left",
            in_minutes(needed),
            in_minutes(rest)
        ));
    }
    let about = "Search the options of each, compared with its defaults";
    Ok(Ok(Step::new(about, format!("at most {}", in_minutes(rest)), words)))
}

/// The value of `--budget`.
fn budget(time: Duration) -> String {
    match time.as_secs().max(1) {
        seconds if seconds < 120 => format!("{seconds}s"),
        seconds => format!("{}m", seconds / 60),
    }
}

fn run_words(answers: &Answers, repeat: u32) -> Vec<String> {
    let mut words = words("run", &[]);
    words.extend(answers.purpose.words());
    words.extend(target_words(answers));
    words.extend(["--repeat".to_string(), repeat.to_string()]);
    words
}

fn target_words(answers: &Answers) -> Vec<String> {
    let filesystems = answers.filesystems.iter().flat_map(|name| ["--fs".into(), name.clone()]);
    option_words(&answers.on.axes()).chain(filesystems).collect()
}

/// The request of the purpose's workload on these values of axes.
fn spec(answers: &Answers, axes: &[(&str, &str)]) -> Result<RunSpec, Failure> {
    let mut request = Request::default();
    for (key, value) in axes {
        let axis = Axis::of(key).ok_or_else(|| Failure::wrong(format!("no axis {key}")))?;
        axis.put(&mut request, value).map_err(Failure::wrong)?;
    }
    Ok(RunSpec {
        workloads: answers.purpose.workload.map(String::from).into_iter().collect(),
        sets: answers.purpose.sets.iter().map(ToString::to_string).collect(),
        axes: request,
        ..RunSpec::default()
    })
}

/// The time of a run on this machine, if trials of its kind ran here.
///
/// # Errors
/// A request that a run refuses.
fn estimated(answers: &Answers, repeat: u32) -> Result<Option<Estimate>, Failure> {
    let mut axes = answers.on.axes();
    axes.extend(answers.filesystems.iter().map(|name| ("fs", name.as_str())));
    let experiment = Experiment::resolve(RunSpec { repeat, ..spec(answers, &axes)? })?;
    let schedule = experiment.schedule();
    let cells = schedule.iter().filter_map(|slot| experiment.cells.get(slot.cell));
    Ok(Speeds::load().estimate(cells, usize::from(experiment.spec.jobs)))
}
