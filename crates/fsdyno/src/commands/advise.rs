//! `fsdyno advise`: asks at most five questions, and derives the commands to run from the answers, with their times.

use std::io::IsTerminal;
use std::process;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use fsdyno_advise::answers::{self, SAFETY, Safety, TrialTarget};
use fsdyno_advise::purpose::{self, Purpose};
use fsdyno_advise::{Asker, Given, Steps, check, from_options, from_questions};
use fsdyno_campaign::stop;

use crate::cli::named;
use crate::exit::{Exit, Failure};
use crate::output::{self, prose, say};

/// `fsdyno advise`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno advise
  fsdyno advise --for mail --on server-2026 --time 1h
  fsdyno advise --for directory --on /srv/scratch --time 5m --yes
  fsdyno advise --for unpack --on laptop-2026 --fs ext4,xfs --safety unsafe
  fsdyno advise --for own --on laptop-2026 -- make -j4

On a terminal it asks for what the options do not state, with at most five questions. It prints the fsdyno commands
for the purpose, each with its time in earlier trials on this machine, and runs them only after confirmation or
with --yes. If a command fails, those after it are not run, and its exit code is returned.")]
pub struct Advise {
    /// What the file system is for; the workload of each purpose is in the command that is printed
    #[arg(long = "for", value_name = "PURPOSE", value_parser = purpose::parse,
          help = format!("What the file system is for: {}", purpose::names(", ")))]
    purpose: Option<&'static Purpose>,
    /// Where to test: a machine of `fsdyno list machines`, a directory of this host, or loop:SIZE
    #[arg(long, value_name = "WHAT", value_parser = answers::parse_trial_target)]
    on: Option<TrialTarget>,
    /// Which options may be tried [default: safe]
    #[arg(long, value_name = "safe|unsafe", value_parser = named(SAFETY))]
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
    let mut terminal = std::io::stdin().is_terminal().then(|| Asker {
        answers: std::io::stdin().lock(),
        questions: std::io::stderr(),
        number: 0,
    });
    let options = advise.options();
    check(&options)?;
    let answers = match &mut terminal {
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
    let is_confirmed = advise.yes
        || terminal.as_mut().is_some_and(|asker| asker.confirm("Run these commands now?"));
    if is_confirmed { execute(&steps) } else { Ok(Exit::Success) }
}

/// Runs the commands one by one, each as its own process, so that its output, its stored command and its exit code are
/// those of the command run alone.
fn execute(steps: &Steps) -> Result<Exit, Failure> {
    // A signal also reaches the command; this process only waits for the command to end.
    let stop = stop::flag()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::invalid_use(format!("failed to find this program: {error}")))?;
    for step in &steps.steps {
        say(&format!("\n$ {}", step.line()));
        let status = process::Command::new(&program).args(&step.args).status();
        let status = status.map_err(|error| {
            Failure::invalid_use(format!("failed to start {}: {error}", step.line()))
        })?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Stopped);
        }
        if !status.success() {
            say(&format!("fsdyno: the commands after '{}' were not run", step.line()));
            process::exit(status.code().unwrap_or(Exit::TrialFailed as i32));
        }
    }
    Ok(Exit::Success)
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
