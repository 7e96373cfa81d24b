//! `fsdyno kernel build`: builds kernels that no distribution has, and stores them in the cache.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fsdyno_axes::whole_number;
use fsdyno_lab::Cache;
use fsdyno_lab::build::{self, Manner, Sources};

use crate::exit::{Exit, Failure};
use crate::output::say;

/// `fsdyno kernel`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno kernel build reiser4 --reiser4 ~/reiser4
  fsdyno list kernels")]
pub struct Kernel {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build a kernel that no distribution has, and keep it in the cache
    #[command(subcommand)]
    Build(What),
}

#[derive(Debug, Subcommand)]
enum What {
    /// Build a small Linux 5.10 with Reiser4
    Reiser4(Reiser4),
}

/// `fsdyno kernel build reiser4`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno kernel build reiser4 --reiser4 ~/reiser4
  fsdyno kernel build reiser4 --linux linux-source-5.10.tar.xz --reiser4 ~/reiser4 --jobs 8
  fsdyno run dirops --kernel reiser4 --fs reiser4 --fs ext4

You provide Reiser4's source: what Linux would have as fs/reiser4, such as commit
0dd4af06465b of https://github.com/edward6/reiser4, the port to Linux 5.10. The changes to
Linux that it needs are made in a copy. gcc, make, flex, bison, bc and the headers of libelf
must be installed. The kernel has ext2, ext3, ext4, xfs and reiserfs, too, so that all of them
run on one kernel; its release ends in -reiser4.")]
struct Reiser4 {
    /// Linux 5.10: a folder with its source, or a tar file of it [default: Debian's linux-source-5.10]
    #[arg(long, value_name = "SOURCE")]
    linux: Option<PathBuf>,
    /// Reiser4: a folder with its source, or a tar file of it
    #[arg(long, value_name = "SOURCE")]
    reiser4: PathBuf,
    /// Number of compilers that run at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole_number::<usize>(1..=256))]
    jobs: usize,
    /// Keep the folder of the build, even if it fails: 1.3 GB in the cache
    #[arg(long)]
    keep: bool,
}

/// Builds, and prints the command that uses the result.
pub fn run(kernel: &Kernel) -> Result<Exit, Failure> {
    let Kernel { action: Action::Build(What::Reiser4(it)) } = kernel;
    let cache = Cache::of_user()?;
    let report = |line: &str| say(&format!("fsdyno: {line}"));
    let sources = Sources { linux: it.linux.clone(), reiser4: it.reiser4.clone() };
    let manner = Manner { jobs: it.jobs, keep: it.keep };
    let built = build::reiser4(&sources, manner, &cache, &report)?;
    if let Some(folder) = &built.folder {
        report(&format!("the folder of the build is {}", folder.display()));
    }
    let minutes = built.elapsed.as_secs_f64() / 60.0;
    say(&format!("{} is built ({minutes:.1} min); use it with: --kernel reiser4", built.release));
    Ok(Exit::Success)
}
