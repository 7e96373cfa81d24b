//! The demo: `fsdyno run` with sizes for a first look, in the lab, or in the current directory if there is no lab.

use std::path::PathBuf;

use fsdyno_campaign::notes::say;
use fsdyno_campaign::target::RESULTS;
use fsdyno_campaign::{Failure, store};
use fsdyno_record::series;
use fsdyno_venue::capabilities::Capabilities;

/// The size of a demo.
struct Size {
    /// The candidate file systems; those that cannot run here are omitted.
    filesystems: &'static [&'static str],
    /// The arguments of `fsdyno run` on every venue.
    run_args: &'static str,
    /// The additional arguments in the lab.
    lab_args: &'static str,
}

/// The default size, chosen so that the demo takes three minutes on two cores and no row has a flag about size: 20,000
/// files keep each phase above 0.1 s, and the instrument overhead below 3 % of the phase. With a mount before the
/// removal, f2fs would read each inode in a separate request, which increases the overhead of the disk's server.
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

/// The request for a demo.
#[derive(Clone, Debug)]
pub struct Demo {
    /// True for fewer files, file systems and trials.
    pub quick: bool,
    /// The number of trials that run at the same time, or `None` for one trial per processor.
    pub jobs: Option<u16>,
    /// The result folder, or `None` for the default folder, in which an earlier demo is replaced.
    pub out: Option<PathBuf>,
}

impl Demo {
    /// Returns the arguments of `fsdyno` that run the demo; `missing` lists what the lab needs and this host lacks.
    /// Reports to the user what cannot run here, and removes an earlier demo from the default folder.
    ///
    /// # Errors
    /// Files of an earlier demo that cannot be removed.
    pub fn args(&self, missing: &[String]) -> Result<Vec<String>, Failure> {
        let size = if self.quick { QUICK } else { DEFAULT };
        let mut args = vec!["run".to_string()];
        let mut add = |text: &str| args.extend(text.split_whitespace().map(String::from));
        add(size.run_args);
        let filesystems = if missing.is_empty() { runnable(&size) } else { Vec::new() };
        match filesystems.is_empty() {
            false => {
                add(size.lab_args);
                filesystems.iter().for_each(|name| add(&format!("--fs {name}")));
                add(&format!("--jobs {}", self.jobs.unwrap_or_else(processor_count)));
            }
            true => {
                say(
                    "demo: the lab cannot run here, so the demo uses the current directory, without a modelled disk, \
                     bit-identical repeats or a comparison of file systems. Missing for the lab:",
                );
                missing.iter().for_each(|line| say(&format!("  {line}")));
                add("--on .");
            }
        }
        let out = match &self.out {
            Some(out) => out.clone(),
            None => default_folder()?,
        };
        args.extend(["--out".into(), out.display().to_string()]);
        Ok(args)
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
            "demo: omitting {}, which cannot run in the lab here (fsdyno list filesystems says why)",
            names.join(", ")
        ));
    }
    runnable.into_iter().copied().collect()
}

fn processor_count() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| u16::try_from(count.get()).unwrap_or(1))
}

/// Returns the default folder, without the files of an earlier demo; other files in it are kept.
fn default_folder() -> Result<PathBuf, Failure> {
    let folder = PathBuf::from(RESULTS).join("demo");
    for name in [fsdyno_record::lines::FILE, series::FILE, store::PAGE] {
        let file = folder.join(name);
        if let Err(error) = std::fs::remove_file(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::io("remove", &file, &error));
        }
    }
    Ok(folder)
}
