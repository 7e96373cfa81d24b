//! Collects the answers from options, and from questions for those that no option provides.

use std::io::{BufRead, Write};
use std::time::Duration;

use fsdyno_campaign::Failure;
use fsdyno_report::table::Prose;

use crate::answers::{self, Answers, SAFETY, Safety, TrialTarget};
use crate::ask::Asker;
use crate::purpose::{self, OWN, Purpose};

/// The default time limit of all commands together.
const TIME: &str = "30m";

/// The answers that options provide.
#[derive(Debug, Default)]
pub struct Given {
    /// The purpose of the file system.
    pub purpose: Option<&'static Purpose>,
    /// The target of the trials.
    pub on: Option<TrialTarget>,
    /// The options that may be tried.
    pub safety: Option<Safety>,
    /// The total time that the commands may take.
    pub time: Option<Duration>,
    /// The file systems, as text.
    pub fs: Option<String>,
    /// The program to record, with its arguments.
    pub command: Vec<String>,
}

/// Rejects options that contradict each other.
///
/// # Errors
/// The contradiction.
pub fn check(given: &Given) -> Result<(), Failure> {
    if let Some(text) = &given.fs {
        answers::filesystems(text)
            .map_err(|error| Failure::invalid_use(format!("--fs: {error}")))?;
    }
    let is_own = given.purpose.is_none_or(|purpose| purpose.name == OWN);
    if !given.command.is_empty() && !is_own {
        return Err(Failure::invalid_use(format!("a command is recorded only with --for {OWN}")));
    }
    if let (Some(TrialTarget::Directory(path)), Some(_)) = (&given.on, &given.fs) {
        return Err(Failure::invalid_use(format!(
            "--fs: '{path}' is already on a file system; to compare others, give a machine or loop:8G as --on"
        )));
    }
    Ok(())
}

/// Returns the answers from options alone, without a terminal.
///
/// # Errors
/// An option that is missing or invalid.
pub fn from_options(given: &Given) -> Result<Answers, Failure> {
    let is_own = given.purpose.is_some_and(|purpose| purpose.name == OWN);
    let missing: Vec<&str> = [
        ("--for", given.purpose.is_none()),
        ("--on", given.on.is_none()),
        ("-- COMMAND", is_own && given.command.is_empty()),
    ]
    .into_iter()
    .filter_map(|(name, is_missing)| is_missing.then_some(name))
    .collect();
    let (Some(purpose), Some(on), true) = (given.purpose, &given.on, missing.is_empty()) else {
        return Err(Failure::invalid_use(format!(
            "there is no terminal for questions; missing: {} (--safety, --time and --fs have defaults)",
            missing.join(", ")
        )));
    };
    let filesystems = match (&given.fs, on.takes_filesystems()) {
        (_, false) => Ok(Vec::new()),
        (Some(text), _) => answers::filesystems(text),
        (None, _) => answers::filesystems(&answers::usual_filesystems()),
    };
    Ok(Answers {
        purpose,
        command: given.command.clone(),
        on: on.clone(),
        safety: given.safety.unwrap_or(Safety::Safe),
        limit: given.time.map_or_else(|| answers::limit(TIME), Ok).map_err(Failure::invalid_use)?,
        filesystems: filesystems.map_err(Failure::invalid_use)?,
    })
}

/// Returns the answers from options, and from questions for options that are not given.
///
/// # Errors
/// The input ended before all questions were answered.
pub fn from_questions<R: BufRead, W: Write>(
    given: &Given,
    asker: &mut Asker<R, W>,
    prose: Prose,
) -> Result<Answers, Failure> {
    let purpose = match given.purpose {
        Some(purpose) => purpose,
        None if !given.command.is_empty() => purpose::parse(OWN).map_err(Failure::invalid_use)?,
        None => {
            let lines = purpose::ALL
                .iter()
                .map(|purpose| vec![purpose.name.to_string(), purpose.about().into()]);
            let list = prose.columns(&lines.collect::<Vec<_>>());
            asker.ask(
                &format!("What is the file system for?\n{}", list.trim_end()),
                None,
                purpose::parse,
            )?
        }
    };
    let is_own = purpose.name == OWN;
    let command = match given.command.is_empty() && is_own {
        true => asker.ask("Which program, with its arguments?", None, args)?,
        false => given.command.clone(),
    };
    let on = match &given.on {
        Some(on) => on.clone(),
        None => {
            let machines = fsdyno_machine::names().collect::<Vec<_>>().join(", ");
            let question = format!(
                "Where should the trials run? A machine ({machines}), a directory of this host, or loop:SIZE"
            );
            asker.ask(&question, None, answers::parse_trial_target)?
        }
    };
    let safety = match given.safety {
        Some(safety) => safety,
        None if is_own || !on.takes_filesystems() => Safety::Safe,
        None => {
            let all = SAFETY.iter().map(|(name, about, _)| format!("{name}: {about}"));
            let question =
                format!("Which options may be tried?\n{}", all.collect::<Vec<_>>().join("\n"));
            asker.ask(&question, Some("safe"), answers::safety)?
        }
    };
    let limit = match given.time {
        Some(limit) => limit,
        None => asker.ask("How long may it take?", Some(TIME), answers::limit)?,
    };
    let filesystems = match &given.fs {
        _ if !on.takes_filesystems() => Vec::new(),
        Some(text) => answers::filesystems(text).map_err(Failure::invalid_use)?,
        None => {
            let usual = answers::usual_filesystems();
            asker.ask("Which file systems?", Some(&usual), answers::filesystems)?
        }
    };
    Ok(Answers { purpose, command, on, safety, limit, filesystems })
}

/// Splits a command line at white space into its arguments; quotes have no special meaning.
fn args(text: &str) -> Result<Vec<String>, String> {
    let args: Vec<String> = text.split_whitespace().map(String::from).collect();
    match args.is_empty() {
        true => Err("no program: give one with its arguments, such as make -j4".into()),
        false => Ok(args),
    }
}
