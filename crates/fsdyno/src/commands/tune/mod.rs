//! `fsdyno tune`: searches the options of file systems for a workload, and recommends the best options.

mod args;

use fsdyno_campaign::experiment::open;
use fsdyno_campaign::tune::{Tuning, keep};
use fsdyno_campaign::{Session, crash, leftovers, stop, store, target};

pub use args::Tune;

use crate::exit::{Exit, Failure};
use crate::output::{self, say};
use crate::session;

/// Runs the command.
pub fn run(tune: &Tune) -> Result<Exit, Failure> {
    let tuning = Tuning::resolve(tune.request())?;
    let name = format!("tune-{}", tune.workload);
    let folder = tune.out.clone().unwrap_or_else(|| target::default_folder(&name));
    crash::folder::refuse(&folder)?;
    if tune.dry_run {
        let tuning = tuning.fit_to_budget(&[])?;
        output::write_data(&tuning.plan(output::prose())?)?;
        return Ok(Exit::Success);
    }
    let stop = stop::flag()?;
    let command = session::command();
    let session = Session { progress: &(), ..session::create(&stop, &command) };
    leftovers::report();
    let mut store = open(&folder)?;
    let result =
        tuning.fit_to_budget(store.trials()).and_then(|tuning| tuning.search(&mut store, &session));
    store.discard_if_empty();
    let tuned = match result {
        Err(failure) if failure.exit == Exit::Stopped => {
            say(&format!("fsdyno: stopped; resume with:\n  {}", session::resume_command(&folder)));
            return Ok(Exit::Stopped);
        }
        result => result?,
    };
    keep(&folder, &tuned)?;
    output::print(&tuned, tune.format)?;
    say(&format!("report: {}", folder.join(store::PAGE).display()));
    Ok(Exit::Success)
}
