//! `fsdyno doctor`: checks what works here, and names the command that installs what is missing.

use fsdyno_campaign::leftovers;
use fsdyno_describe::doctor::check_all;
use fsdyno_lab::Cache;

use crate::cli::Doctor;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Runs the checks, or cleans up.
pub fn run(doctor: &Doctor) -> Result<Exit, Failure> {
    if let Some(directory) = &doctor.clean {
        return leftovers::run(directory);
    }
    if doctor.clear_caches {
        let files = fsdyno_lab::clear_caches(&Cache::of_user()?).map_err(|error| {
            Failure::invalid_use(format!("failed to clear the caches: {error}"))
        })?;
        let files = fsdyno_report::counted(files, "file");
        say(&format!("{files} removed; the caches are rebuilt when needed"));
        return Ok(Exit::Success);
    }
    let findings = check_all(output::limit());
    output::print(&findings, doctor.format)?;
    let lab = findings.lab_can_run();
    say(if lab { "the lab can run here" } else { "the lab cannot run here yet" });
    Ok(if lab { Exit::Success } else { Exit::Missing })
}
