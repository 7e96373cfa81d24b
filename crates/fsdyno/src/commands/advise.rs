//! `fsdyno advise`: asks at most five questions, and derives the commands to run from the answers, with their times.

use std::io::IsTerminal;
use std::process;
use std::time::Duration;

use clap::Args;
use fsdyno_advise::answers::{self, SAFETY, Safety, TrialTarget};
use fsdyno_advise::purpose::{self, Purpose};
use fsdyno_advise::{Asker, Given, check, from_options, from_questions};

use crate::cli::name_parser;
use crate::exit::{Exit, Failure};
use crate::output::{self, prose};

/// `fsdyno advise`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno advise
  fsdyno advise --for mail --on server-2026 --time 1h
  fsdyno advise --for directory --on /srv/scratch --time 5m --yes
  fsdyno advise --for unpack --on laptop-2026 --fs ext4,xfs --safety unsafe
  fsdyno advise --for own --on laptop-2026 -- make -j4

On a terminal, `fsdyno advise` asks for whatever the options do not provide, in at most five questions. It prints the
fsdyno commands for the purpose, each with its time in earlier trials on this machine, and runs them only after
confirmation or with --yes. If a command fails, those after it are not run, and its exit code is returned.")]
pub struct Advise {
    /// The purpose of the file system; the workload of each purpose is in the command that is printed
    #[arg(long = "for", value_name = "PURPOSE", value_parser = purpose::parse,
          help = format!("What the file system is for: {}", purpose::names(", ")))]
    purpose: Option<&'static Purpose>,
    /// Where to test: a machine of `fsdyno list machines`, a directory of this host, or loop:SIZE
    #[arg(long, value_name = "WHAT", value_parser = answers::parse_trial_target)]
    on: Option<TrialTarget>,
    /// Which options may be tried [default: safe]
    #[arg(long, value_name = "safe|unsafe", value_parser = name_parser(SAFETY))]
    safety: Option<Safety>,
    /// How long all commands together may take, such as 30m or 2h [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = answers::limit)]
    time: Option<Duration>,
    /// The file systems, separated by commas [default: those whose options can be searched]
    #[arg(long, value_name = "NAMES")]
    fs: Option<String>,
    /// Run the commands without asking
    #[arg(long)]
    yes: bool,
    /// For --for own: the program to record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command.
pub fn run(advise: &Advise) -> Result<Exit, Failure> {
    let mut asker = std::io::stdin().is_terminal().then(|| Asker {
        answers: std::io::stdin().lock(),
        questions: std::io::stderr(),
        number: 0,
    });
    let options = advise.options();
    check(&options)?;
    let answers = match &mut asker {
        Some(asker) => from_questions(&options, asker, prose())?,
        None => from_options(&options)?,
    };
    let steps = fsdyno_advise::steps(&answers)?;
    output::write_data(&steps.text(&answers, prose()))?;
    if matches!(answers.on, TrialTarget::Machine(_)) && fsdyno_lab::probe_qemu(None).is_err() {
        return Err(Failure {
            exit: Exit::Missing,
            message:
                "the lab cannot run here; see fsdyno doctor. A directory can be measured: --on DIR"
                    .into(),
        });
    }
    let is_confirmed =
        advise.yes || asker.as_mut().is_some_and(|asker| asker.confirm("Run these commands now?"));
    match is_confirmed.then(|| steps.execute()).transpose()?.flatten() {
        Some(code) => process::exit(code),
        None => Ok(Exit::Success),
    }
}

impl Advise {
    /// Returns the answers that the options contain.
    fn options(&self) -> Given {
        Given {
            purpose: self.purpose,
            on: self.on.clone(),
            safety: self.safety,
            time: self.time,
            fs: self.fs.clone(),
            command: self.command.clone(),
        }
    }
}
