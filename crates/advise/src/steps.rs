//! Turns answers into fsdyno commands, each with the time that it takes.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fsdyno_axes::{Axis, Request};
use fsdyno_campaign::notes::say;
use fsdyno_campaign::speed::{Estimate, Speeds};
use fsdyno_campaign::tune::{self, Budget, TuneRequest};
use fsdyno_campaign::{Exit, Experiment, Failure, RunSpec, stop};
use fsdyno_record::units::rough;
use fsdyno_report::counted;
use fsdyno_report::table::Prose;

use crate::answers::{Answers, Safety, TrialTarget};
use crate::power_cuts;
use crate::step::{NO_TIME, Step, args, option_args};

/// The candidate numbers of trials per configuration, in order of preference.
const REPEATS: [u32; 4] = [5, 3, 2, 1];

/// The number of trials per configuration if this machine's speed is unknown.
const DEFAULT_REPEATS: u32 = 3;

/// The commands, and the steps that were omitted.
#[derive(Debug, Default)]
pub struct Steps {
    /// The commands, in order.
    pub steps: Vec<Step>,
    /// The omitted steps, with reasons.
    pub omitted: Vec<String>,
}

impl Steps {
    /// Returns the commands as text.
    pub fn text(&self, answers: &Answers, prose: Prose) -> String {
        let mut text = format!("For {} on {}:\n", answers.purpose.name, answers.on);
        for (index, step) in self.steps.iter().enumerate() {
            let (number, about, line) = (index + 1, &step.about, step.line());
            text += &format!("\n{number}. {about}\n   {line}\n   time: {}\n", step.time);
        }
        for line in &self.omitted {
            text += &format!("\n{}", prose.wrapped(line));
        }
        text
    }

    /// Runs the commands one by one, each as its own process, so that its output, its stored command and its exit code
    /// are the same as if it were run alone. If a command fails, returns its exit code and does not run the rest.
    ///
    /// # Errors
    /// A command that cannot be started.
    pub fn execute(&self) -> Result<Option<i32>, Failure> {
        // A signal also reaches the command; this process only waits for the command to end.
        let stop = stop::flag()?;
        let program = std::env::current_exe().map_err(|error| {
            Failure::invalid_use(format!("failed to find this program: {error}"))
        })?;
        for step in &self.steps {
            say(&format!("\n$ {}", step.line()));
            let status = Command::new(&program).args(&step.args).status().map_err(|error| {
                Failure::invalid_use(format!("failed to start {}: {error}", step.line()))
            })?;
            if stop.load(Ordering::Relaxed) {
                return Ok(Some(Exit::Stopped as i32));
            }
            if !status.success() {
                say(&format!("fsdyno: the commands after '{}' were not run", step.line()));
                return Ok(Some(status.code().unwrap_or(Exit::TrialFailed as i32)));
            }
        }
        Ok(None)
    }
}

/// Returns the commands for these answers.
///
/// # Errors
/// Answers that no run accepts; a time that is too short for one trial of each file system.
pub fn steps(answers: &Answers) -> Result<Steps, Failure> {
    match answers.purpose.workload {
        None => program_steps(answers),
        Some(_) => workload_steps(answers),
    }
}

/// Returns the commands for the user's own program: record it, and replay the recording.
fn program_steps(answers: &Answers) -> Result<Steps, Failure> {
    let program = answers.command.first().map(String::as_str).unwrap_or_default();
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let trace = format!("{name}.trace");
    let mut record: Vec<String> = ["record", "-o", &trace, "--"].map(String::from).to_vec();
    record.extend(answers.command.iter().cloned());
    let mut args = args("run", &["replay", "--set", &format!("trace={trace}")]);
    args.extend(target_args(answers));
    args.extend(["--repeat".into(), DEFAULT_REPEATS.to_string()]);
    let about = match answers.on {
        TrialTarget::Directory(_) => "Replay the calls here and compare each result",
        _ => "Replay the calls on each file system and compare each result",
    };
    let unknown_time = || "known after the recording".to_string();
    let mut steps = Steps {
        steps: vec![
            Step::new("Record the calls of the program", "the program's own".into(), record),
            Step::new(about, unknown_time(), args),
        ],
        omitted: Vec::new(),
    };
    if answers.safety == Safety::Safe {
        let work = ["replay".to_string(), "--set".into(), format!("trace={trace}")];
        match power_cuts::step(answers, &work, power_cuts::DEFAULT_CUTS, unknown_time()) {
            Ok(step) => steps.steps.push(step),
            Err(reason) => steps.omitted.push(reason),
        }
    }
    Ok(steps)
}

/// Returns the commands for the workload of the purpose.
fn workload_steps(answers: &Answers) -> Result<Steps, Failure> {
    let one_trial = estimate_time(answers, 1)?;
    // Guests boot once, however many trials resume from them.
    let boots = match one_trial {
        Some(_) => Speeds::load().boots(experiment(answers, 1)?.missing_snapshots().len()),
        None => Duration::ZERO,
    };
    let time_of = |repeat: u32| one_trial.map(|estimate| estimate.time * repeat + boots);
    let is_over = |time: Option<Duration>, limit: Duration| time.is_some_and(|time| time > limit);
    if is_over(time_of(1), answers.limit) {
        let least = one_trial.map(|estimate| estimate.with_boots(boots).to_string());
        let least = least.unwrap_or_default();
        return Err(Failure::invalid_use(format!(
            "one trial of each file system takes {least}, longer than --time allows; give more time, or fewer file \
             systems"
        )));
    }
    // The comparison leaves at least two thirds of the time to the search of options.
    let share = if is_tunable(answers) { answers.limit / 3 } else { answers.limit };
    let repeat = match one_trial {
        None => DEFAULT_REPEATS,
        Some(_) => REPEATS.into_iter().find(|n| !is_over(time_of(*n), share)).unwrap_or(1),
    };
    let about = match answers.on {
        TrialTarget::Directory(_) => "Measure the file system of the directory",
        _ => "Compare the file systems",
    };
    let time = estimate_time(answers, repeat)?.map(|estimate| estimate.with_boots(boots));
    let time_text = time.map_or(NO_TIME.to_string(), |estimate| estimate.to_string());
    let mut steps = Steps {
        steps: vec![Step::new(about, time_text, run_args(answers, repeat))],
        omitted: Vec::new(),
    };
    let mut remaining = answers.limit.saturating_sub(time.map_or(share, |estimate| estimate.time));
    if answers.purpose.acknowledges && answers.safety == Safety::Safe {
        match power_cuts::step_within(answers, remaining, one_trial) {
            Ok((step, time)) => {
                steps.steps.push(step);
                remaining = remaining.saturating_sub(time);
            }
            Err(reason) => steps.omitted.push(reason),
        }
    }
    if answers.on.takes_filesystems() {
        match search_step(answers, remaining, one_trial) {
            Ok(step) => steps.steps.push(step?),
            Err(reason) => steps.omitted.push(reason),
        }
    }
    Ok(steps)
}

/// Returns true if the options of at least one of the file systems can be searched.
fn is_tunable(answers: &Answers) -> bool {
    answers.on.takes_filesystems() && !tunable_filesystems(answers).is_empty()
}

/// Returns the file systems whose options can be searched.
fn tunable_filesystems(answers: &Answers) -> Vec<&String> {
    let has = |name: &&String| fsdyno_tune::space::names().any(|known| known == name.as_str());
    answers.filesystems.iter().filter(has).collect()
}

/// Returns the step that searches options within the remaining time, or the reason to omit the step.
fn search_step(
    answers: &Answers,
    remaining: Duration,
    one_trial: Option<Estimate>,
) -> Result<Result<Step, Failure>, String> {
    let tunable = tunable_filesystems(answers);
    if tunable.is_empty() {
        let all = fsdyno_tune::space::names().collect::<Vec<_>>().join(", ");
        return Err(format!("no search of options: only {all} have a space of options"));
    }
    let mut args = args("tune", &[]);
    args.extend(answers.purpose.args());
    // The search itself chooses how its guests boot.
    let axes: Vec<_> = answers.on.axes().into_iter().filter(|(axis, _)| *axis != "boot").collect();
    args.extend(option_args(&axes));
    args.extend(tunable.iter().flat_map(|name| ["--fs".to_string(), name.to_string()]));
    args.extend((answers.safety == Safety::Unsafe).then(|| "--unsafe".to_string()));
    args.extend(["--budget".to_string(), budget(remaining)]);
    let min_trials = spec(answers, &axes).and_then(|spec| {
        let names = tunable.into_iter().cloned().collect();
        let request = TuneRequest::new(spec, names, Budget::Time(remaining));
        tune::min_trials(&TuneRequest { safe: answers.safety == Safety::Safe, ..request })
    });
    let min_trials = match min_trials {
        Ok(count) => count,
        Err(failure) => return Ok(Err(failure)),
    };
    let per_filesystem = one_trial.map(|estimate| {
        estimate.time / u32::try_from(answers.filesystems.len().max(1)).unwrap_or(1)
    });
    let needed = per_filesystem.map(|time| time * u32::try_from(min_trials).unwrap_or(u32::MAX));
    if let Some(needed) = needed.filter(|needed| *needed > remaining) {
        let trials = counted(min_trials, "trial");
        return Err(format!(
            "no search of options: the shortest search needs {trials}, about {}, but only {} are left",
            rough(needed),
            rough(remaining)
        ));
    }
    let about = "Search the options of each file system, and compare with its defaults";
    Ok(Ok(Step::new(about, format!("at most {}", rough(remaining)), args)))
}

/// Formats a time as the value of `--budget`.
fn budget(time: Duration) -> String {
    match time.as_secs().max(1) {
        seconds if seconds < 120 => format!("{seconds}s"),
        seconds => format!("{}m", seconds / 60),
    }
}

fn run_args(answers: &Answers, repeat: u32) -> Vec<String> {
    let mut args = args("run", &[]);
    args.extend(answers.purpose.args());
    args.extend(target_args(answers));
    args.extend(["--repeat".to_string(), repeat.to_string()]);
    args
}

fn target_args(answers: &Answers) -> Vec<String> {
    let filesystems = answers.filesystems.iter().flat_map(|name| ["--fs".into(), name.clone()]);
    option_args(&answers.on.axes()).chain(filesystems).collect()
}

/// Returns the request for the purpose's workload with these values of axes.
fn spec(answers: &Answers, axes: &[(&str, &str)]) -> Result<RunSpec, Failure> {
    let mut request = Request::default();
    for (key, value) in axes {
        let axis = Axis::of(key).ok_or_else(|| Failure::invalid_use(format!("no axis {key}")))?;
        axis.put(&mut request, value).map_err(Failure::invalid_use)?;
    }
    Ok(RunSpec {
        workloads: answers.purpose.workload.map(String::from).into_iter().collect(),
        parameters: answers.purpose.overrides.iter().map(ToString::to_string).collect(),
        axes: request,
        ..RunSpec::default()
    })
}

/// Returns the experiment of a run.
///
/// # Errors
/// A request that a run would refuse.
fn experiment(answers: &Answers, repeat: u32) -> Result<Experiment, Failure> {
    let mut axes = answers.on.axes();
    axes.extend(answers.filesystems.iter().map(|name| ("fs", name.as_str())));
    Experiment::resolve(RunSpec { repeat, ..spec(answers, &axes)? })
}

/// Returns the time of a run on this machine without boots for snapshots, or `None` if no trial of its workload has run
/// here: a rough estimate must not refuse a request.
///
/// # Errors
/// A request that a run would refuse.
fn estimate_time(answers: &Answers, repeat: u32) -> Result<Option<Estimate>, Failure> {
    let experiment = experiment(answers, repeat)?;
    let schedule = experiment.schedule();
    let cells = schedule.iter().filter_map(|slot| experiment.cells.get(slot.cell));
    let estimate = Speeds::load().estimate(cells, usize::from(experiment.spec.jobs));
    Ok(estimate.filter(|estimate| estimate.same_work))
}
