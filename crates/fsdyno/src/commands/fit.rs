//! `fsdyno fit`: measures a real disk read-only, or this machine's processor, and writes a profile.

use std::path::Path;

use fsdyno_fit::{ProfileKind, check_out, cpu, disk, write};

use crate::cli::Fit;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// The argument that selects the processor instead of a device; a file with this name is given as ./cpu.
const CPU: &str = "cpu";

/// Measures, fits and writes.
pub fn run(fit: &Fit) -> Result<Exit, Failure> {
    if let Some(out) = &fit.out {
        check_out(out)?;
    }
    let is_cpu = fit.device == Path::new(CPU);
    let cpu_options = [("--kernel", fit.kernel.is_some()), ("--check", fit.check.is_some())];
    let option = cpu_options.iter().find(|(_, is_given)| *is_given);
    let text = match (is_cpu, &fit.check, option) {
        (true, Some(profile), _) => cpu::check(fit.kernel.clone(), profile)?,
        (true, None, _) => cpu::processor(fit.kernel.clone())?,
        (false, _, Some((option, _))) => {
            return Err(Failure::invalid_use(format!(
                "{option} is for 'fsdyno fit cpu', and '{}' is fitted as a disk; remove it",
                fit.device.display()
            )));
        }
        (false, _, None) => disk(&fit.device, fit.seconds, fit.rpm)?,
    };
    let Some(text) = text else {
        say("fsdyno: stopped; nothing is written");
        return Ok(Exit::Stopped);
    };
    let Some(out) = &fit.out else {
        output::write_data(&text)?;
        return Ok(Exit::Success);
    };
    write(out, &text)?;
    let kind = if is_cpu { ProfileKind::Processor } else { ProfileKind::Disk };
    say(&kind.usage(out));
    Ok(Exit::Success)
}
