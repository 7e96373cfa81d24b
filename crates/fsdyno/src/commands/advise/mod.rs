//! `fsdyno advise`: at most five questions, and from the answers the commands to run, with their times.

mod answers;
mod ask;
mod purpose;
mod steps;

use std::io::{BufRead, IsTerminal, Write};
use std::process;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;

use answers::{Answers, On, SAFETY, Safety};
use ask::Asker;
use purpose::{OWN, Purpose};
use steps::Steps;

use crate::cli::named;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};
use crate::stop;

/// `fsdyno advise`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno advise
  fsdyno advise --for mail --on server-2026 --time 1h
  fsdyno advise --for directory --on /srv/scratch --time 5m --yes
  fsdyno advise --for unpack --on laptop-2026 --fs ext4,xfs --safety unsafe
  fsdyno advise --for own --on laptop-2026 -- make -j4

On a terminal it asks for what no option says, at most five questions. It prints the commands of fsdyno
that answer, with the time of each from earlier trials on this machine, and runs them only after a yes or
with --yes. If a command fails, those after it are not run, and its exit code is returned.")]
pub struct Advise {
    /// What the file system is for; the workload of each purpose is in the command that is printed
    #[arg(long = "for", value_name = "PURPOSE", value_parser = purpose::parse,
          help = format!("What the file system is for: {}", purposes(", ")))]
    purpose: Option<&'static Purpose>,
    /// On what: a machine of `fsdyno list machines`, a directory of this host, or loop:SIZE
    #[arg(long, value_name = "WHAT", value_parser = answers::on)]
    on: Option<On>,
    /// Which options may be tried [default: safe]
    #[arg(long, value_name = "safe|unsafe", value_parser = named(SAFETY))]
    safety: Option<Safety>,
    /// How long all of it may take, such as 30m or 2h [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = answers::limit)]
    time: Option<Duration>,
    /// The file systems, separated by commas [default: those whose options can be searched]
    #[arg(long, value_name = "NAMES")]
    fs: Option<String>,
    /// Run the commands without a question
    #[arg(long)]
    yes: bool,
    /// For --for own: the program to record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const TIME: &str = "30m";

/// The names of all purposes.
fn purposes(between: &str) -> String {
    purpose::ALL.iter().map(|purpose| purpose.name).collect::<Vec<_>>().join(between)
}

/// Runs the command.
pub fn run(advise: &Advise) -> Result<Exit, Failure> {
    let mut terminal = std::io::stdin().is_terminal().then(|| Asker {
        answers: std::io::stdin().lock(),
        questions: std::io::stderr(),
        number: 0,
    });
    check(advise)?;
    let answers = match &mut terminal {
        Some(asker) => from_questions(advise, asker)?,
        None => from_options(advise)?,
    };
    let steps = steps::of(&answers)?;
    output::data(&text(&answers, &steps))?;
    if matches!(answers.on, On::Machine(_)) && fsdyno_lab::probe_qemu(None).is_err() {
        return Err(Failure {
            exit: Exit::Missing,
            message: "the lab cannot run here: fsdyno doctor; a directory can be measured".into(),
        });
    }
    let is_agreed = advise.yes
        || terminal.as_mut().is_some_and(|asker| asker.confirm("Run these commands now?"));
    if is_agreed { execute(&steps) } else { Ok(Exit::Good) }
}

/// Refuses options that contradict each other.
fn check(advise: &Advise) -> Result<(), Failure> {
    if let Some(text) = &advise.fs {
        answers::filesystems(text).map_err(|error| Failure::wrong(format!("--fs: {error}")))?;
    }
    let is_own = advise.purpose.is_none_or(|purpose| purpose.name == OWN);
    if !advise.command.is_empty() && !is_own {
        return Err(Failure::wrong(format!("a command is recorded with --for {OWN} alone")));
    }
    if let (Some(On::Directory(path)), Some(_)) = (&advise.on, &advise.fs) {
        return Err(Failure::wrong(format!(
            "--fs: '{path}' is on one file system already; give a machine or loop:8G to compare others"
        )));
    }
    Ok(())
}

/// The answers of options alone, without a terminal.
fn from_options(advise: &Advise) -> Result<Answers, Failure> {
    let is_own = advise.purpose.is_some_and(|purpose| purpose.name == OWN);
    let lacking: Vec<&str> = [
        ("--for", advise.purpose.is_none()),
        ("--on", advise.on.is_none()),
        ("-- COMMAND", is_own && advise.command.is_empty()),
    ]
    .into_iter()
    .filter_map(|(name, lacks)| lacks.then_some(name))
    .collect();
    let (Some(purpose), Some(on), true) = (advise.purpose, &advise.on, lacking.is_empty()) else {
        return Err(Failure::wrong(format!(
            "no terminal to ask on; missing: {} (--safety, --time and --fs have defaults)",
            lacking.join(", ")
        )));
    };
    let filesystems = match (&advise.fs, on.takes_filesystems()) {
        (_, false) => Ok(Vec::new()),
        (Some(text), _) => answers::filesystems(text),
        (None, _) => answers::filesystems(&answers::usual_filesystems()),
    };
    Ok(Answers {
        purpose,
        command: advise.command.clone(),
        on: on.clone(),
        safety: advise.safety.unwrap_or(Safety::Safe),
        limit: advise.time.map_or_else(|| answers::limit(TIME), Ok).map_err(Failure::wrong)?,
        filesystems: filesystems.map_err(Failure::wrong)?,
    })
}

/// The answers of options, and of questions for options that are not given.
fn from_questions<R: BufRead, W: Write>(
    advise: &Advise,
    asker: &mut Asker<R, W>,
) -> Result<Answers, Failure> {
    let purpose = match advise.purpose {
        Some(purpose) => purpose,
        None if !advise.command.is_empty() => purpose::parse(OWN).map_err(Failure::wrong)?,
        None => {
            let lines = purpose::ALL.iter().map(|it| vec![it.name.to_string(), it.about().into()]);
            let list = output::columns(&lines.collect::<Vec<_>>());
            asker.ask(&format!("What is it for?\n{}", list.trim_end()), None, purpose::parse)?
        }
    };
    let is_own = purpose.name == OWN;
    let command = match advise.command.is_empty() && is_own {
        true => asker.ask("Which program, with its arguments?", None, words)?,
        false => advise.command.clone(),
    };
    let on = match &advise.on {
        Some(on) => on.clone(),
        None => {
            let machines = fsdyno_machine::names().collect::<Vec<_>>().join(", ");
            let question =
                format!("On what? A machine ({machines}), a directory of this host, or loop:SIZE");
            asker.ask(&question, None, answers::on)?
        }
    };
    let safety = match advise.safety {
        Some(safety) => safety,
        None if is_own || !on.takes_filesystems() => Safety::Safe,
        None => {
            let all = SAFETY.iter().map(|(name, about, _)| format!("{name}: {about}"));
            let question =
                format!("Which options may be tried?\n{}", all.collect::<Vec<_>>().join("\n"));
            asker.ask(&question, Some("safe"), answers::safety)?
        }
    };
    let limit = match advise.time {
        Some(limit) => limit,
        None => asker.ask("How long may it take?", Some(TIME), answers::limit)?,
    };
    let filesystems = match &advise.fs {
        _ if !on.takes_filesystems() => Vec::new(),
        Some(text) => answers::filesystems(text).map_err(Failure::wrong)?,
        None => {
            let usual = answers::usual_filesystems();
            asker.ask("Which file systems?", Some(&usual), answers::filesystems)?
        }
    };
    Ok(Answers { purpose, command, on, safety, limit, filesystems })
}

/// The words of a command line without quoting.
fn words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = text.split_whitespace().map(String::from).collect();
    match words.is_empty() {
        true => Err("no program: give one with its arguments, such as make -j4".into()),
        false => Ok(words),
    }
}

/// The commands as text.
fn text(answers: &Answers, steps: &Steps) -> String {
    let mut text = format!("For {} on {}:\n", answers.purpose.name, answers.on);
    for (at, step) in steps.steps.iter().enumerate() {
        let (number, about, line) = (at + 1, &step.about, step.line());
        text += &format!("\n{number}. {about}\n   {line}\n   time: {}\n", step.time);
    }
    for line in &steps.omitted {
        text += &format!("\n{}", output::wrapped(line));
    }
    text
}

/// Runs the commands one after the other, each as a process of its own, so that its output, its stored command and
/// its exit code are those of the command by itself.
fn execute(steps: &Steps) -> Result<Exit, Failure> {
    // A signal goes to the command, too; this process only waits for its end.
    let stop = stop::flag()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::wrong(format!("failed to find this program: {error}")))?;
    for step in &steps.steps {
        say(&format!("\n$ {}", step.line()));
        let status = process::Command::new(&program).args(&step.words).status();
        let status = status
            .map_err(|error| Failure::wrong(format!("failed to start {}: {error}", step.line())))?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Stopped);
        }
        if !status.success() {
            say(&format!("fsdyno: the commands after '{}' were not run", step.line()));
            process::exit(status.code().unwrap_or(Exit::TrialFailed as i32));
        }
    }
    Ok(Exit::Good)
}
