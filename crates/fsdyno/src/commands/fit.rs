//! `fsdyno fit`: measures a real disk read-only, or this machine's processor, and writes a profile.

use std::path::Path;

use fsdyno_fit::{ProfileKind, check_out, cpu, disk, write};

use crate::cli::Fit;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// The argument that selects the processor instead of a device; a file with this name is given as ./cpu.
const CPU: &str = "cpu";

/// The default duration of the measurement of a disk, in seconds.
const DEFAULT_SECONDS: u64 = 60;

/// Measures, fits and writes.
pub fn run(fit: &Fit) -> Result<Exit, Failure> {
    if let Some(out) = &fit.out {
        check_out(out)?;
    }
    let is_cpu = fit.device == Path::new(CPU);
    check_options(fit, is_cpu)?;
    let text = match (is_cpu, &fit.check) {
        (true, Some(profile)) => cpu::check(fit.kernel.clone(), profile)?,
        (true, None) => cpu::processor(fit.kernel.clone())?,
        (false, _) => disk(&fit.device, fit.seconds.unwrap_or(DEFAULT_SECONDS), fit.rpm)?,
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

/// Refuses options of the other kind of fit.
fn check_options(fit: &Fit, is_cpu: bool) -> Result<(), Failure> {
    let of_cpu = [("--kernel", fit.kernel.is_some()), ("--check", fit.check.is_some())];
    let of_disk = [("--seconds", fit.seconds.is_some()), ("--rpm", fit.rpm.is_some())];
    let refused = if is_cpu { of_disk } else { of_cpu };
    let Some((option, _)) = refused.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(Failure::invalid_use(match is_cpu {
        true => format!(
            "{option} is for the fit of a disk, and 'fsdyno fit cpu' measures the processor; remove it"
        ),
        false => format!(
            "{option} is for 'fsdyno fit cpu', and '{}' is fitted as a disk; remove it",
            fit.device.display()
        ),
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn options_of_the_other_kind_of_fit_are_refused() {
        let check = |line: &str| {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            let Command::Fit(fit) = cli.command else { panic!("{line}") };
            check_options(&fit, fit.device == Path::new(CPU)).map_err(|failure| failure.message)
        };
        for line in ["fsdyno fit cpu --seconds 60", "fsdyno fit cpu --rpm 7200"] {
            let message = check(line).unwrap_err();
            assert!(message.contains(" is for the fit of a disk, and "), "{message}");
        }
        let message = check("fsdyno fit /dev/sdx --kernel 6.1").unwrap_err();
        assert!(
            message.starts_with("--kernel is for 'fsdyno fit cpu', and '/dev/sdx'"),
            "{message}"
        );
        for line in ["fsdyno fit cpu --kernel 6.1", "fsdyno fit ./cpu --seconds 60 --rpm 7200"] {
            assert_eq!(check(line), Ok(()));
        }
    }
}
