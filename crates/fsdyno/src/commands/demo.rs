//! `fsdyno demo`: runs `fsdyno run` with sizes for a first look, in the lab, or in the current directory if there is no
//! lab.

use std::path::Path;

use clap::Parser;
use fsdyno_campaign::store;
use fsdyno_campaign::target::RESULTS;
use fsdyno_describe::doctor;
use fsdyno_record::series;
use fsdyno_venue::capabilities::Capabilities;

use crate::cli::{Cli, Command, Demo};
use crate::exit::{Exit, Failure};
use crate::output::say;

/// The size of a demo.
struct Size {
    /// Candidates; those that cannot run here are omitted.
    filesystems: &'static [&'static str],
    /// The arguments of `fsdyno run` on every venue.
    run_args: &'static str,
    /// The additional arguments in the lab.
    lab_args: &'static str,
}

/// Chosen for a duration of three minutes on two cores, and for rows without a flag about size: 20,000 files keep each
/// phase above 0.1 s and the instrument overhead below 3 % of it. With a mount before the removal, f2fs would read each
/// inode in a separate request, which increases the overhead of the disk's server.
const DEFAULT: Size = Size {
    filesystems: &["ext4", "xfs", "btrfs", "f2fs"],
    run_args: "dirops --set files=20000 --set remount=no --repeat 3",
    lab_args: "--machine server-2026 --boot snapshot",
};

const QUICK: Size = Size {
    filesystems: &["ext4", "xfs"],
    run_args: "dirops --set dirops.files=2000 --repeat 2",
    lab_args: "--size 1G",
};

/// Runs the demo.
pub fn run(demo: &Demo) -> Result<Exit, Failure> {
    let size = if demo.quick { QUICK } else { DEFAULT };
    let out = demo.out.clone().unwrap_or_else(|| Path::new(RESULTS).join("demo"));
    let mut command: Vec<String> = ["fsdyno", "run"].map(String::from).to_vec();
    let mut add = |args: &str| command.extend(args.split_whitespace().map(String::from));
    add(size.run_args);
    let missing = doctor::missing();
    let filesystems = if missing.is_empty() { runnable(&size) } else { Vec::new() };
    match filesystems.is_empty() {
        false => {
            add(size.lab_args);
            filesystems.iter().for_each(|name| add(&format!("--fs {name}")));
            add(&format!("--jobs {}", demo.jobs.unwrap_or_else(processor_count)));
        }
        true => {
            say(
                "demo: the lab cannot run here, so the demo uses the current directory, without a modelled disk,",
            );
            say("demo: bit-identical repeats or a comparison of file systems. What is missing:");
            missing.iter().for_each(|line| say(&format!("  {line}")));
            add("--on .");
        }
    }
    command.extend(["--out".into(), out.display().to_string()]);
    if demo.out.is_none() {
        remove_earlier(&out)?;
    }
    let parsed =
        Cli::try_parse_from(&command).map_err(|error| Failure::invalid_use(error.to_string()))?;
    match parsed.command {
        Command::Run(request) => super::run::run(&request),
        _ => Err(Failure::invalid_use("internal error: the command of the demo is not fsdyno run")),
    }
}

/// Returns the candidates that can run in the lab; reports the others to the user.
fn runnable(size: &Size) -> Vec<&'static str> {
    let capabilities = Capabilities::inspect();
    let kind = |name: &str| fsdyno_filesystem::catalog::all().iter().find(|kind| kind.name == name);
    let is_runnable =
        |name: &&&str| kind(name).is_some_and(|kind| capabilities.in_lab(kind).is_possible);
    let (runnable, unavailable): (Vec<&&str>, Vec<&&str>) =
        size.filesystems.iter().partition(is_runnable);
    if !unavailable.is_empty() && !runnable.is_empty() {
        let names: Vec<&str> = unavailable.into_iter().copied().collect();
        say(&format!(
            "demo: without {}, which cannot run in the lab here (fsdyno list filesystems says why)",
            names.join(", ")
        ));
    }
    runnable.into_iter().copied().collect()
}

fn processor_count() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| u16::try_from(count.get()).unwrap_or(1))
}

/// Removes the files of an earlier demo; other files in its folder are kept.
fn remove_earlier(folder: &Path) -> Result<(), Failure> {
    for name in [fsdyno_record::lines::FILE, series::FILE, store::PAGE] {
        let file = folder.join(name);
        if let Err(error) = std::fs::remove_file(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::invalid_use(format!(
                "failed to remove {}: {error}",
                file.display()
            )));
        }
    }
    Ok(())
}
