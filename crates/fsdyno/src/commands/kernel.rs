//! `fsdyno kernel build`: builds kernels and modules that Debian does not ship, and stores them in the cache.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fsdyno_axes::whole_number;
use fsdyno_lab::Cache;
use fsdyno_lab::build::{self, BuildOptions, Sources};

use crate::exit::{Exit, Failure};
use crate::output::say;

/// `fsdyno kernel`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno kernel build zfs
  fsdyno kernel build reiser4 --reiser4 ~/reiser4
  fsdyno list kernels")]
pub struct Kernel {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build a kernel or modules that Debian does not ship, and keep them in the cache
    #[command(subcommand)]
    Build(Buildable),
}

#[derive(Debug, Subcommand)]
enum Buildable {
    /// Build a small Linux 5.10 with Reiser4
    Reiser4(Reiser4),
    /// Build OpenZFS modules for a Debian kernel
    Zfs(Zfs),
}

/// `fsdyno kernel build zfs`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno kernel build zfs
  fsdyno run dirops --fs zfs --fs ext4
  fsdyno kernel build zfs --kernel 6.12
  fsdyno run dirops --kernel 6.12 --fs zfs

The source is that of Debian's package zfs-dkms. It is downloaded with the kernel's headers and
a compiler of the version that compiled the kernel (100 to 230 MB), and all of them are unpacked
into a folder in the cache and run there; nothing is installed. The lab then finds ZFS on that
kernel; its other modules, and the results of other file systems, stay the same.")]
struct Zfs {
    /// The kernel: a release or the beginning of one, as for fsdyno run [default: that of fsdyno run]
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,
    #[command(flatten)]
    build: BuildArgs,
}

/// The options of all builds.
#[derive(Args, Clone, Copy, Debug)]
struct BuildArgs {
    /// Maximum number of compilers to run at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole_number::<usize>(1..=256))]
    jobs: usize,
    /// Keep the folder of the build, even if it fails: about 1.3 GB in the cache
    #[arg(long)]
    keep: bool,
}

/// `fsdyno kernel build reiser4`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  fsdyno kernel build reiser4 --reiser4 ~/reiser4
  fsdyno kernel build reiser4 --linux linux-source-5.10.tar.xz --reiser4 ~/reiser4 --jobs 8
  fsdyno run dirops --kernel reiser4 --fs reiser4 --fs ext4

You provide Reiser4's source: the directory that would be fs/reiser4 in Linux, such as commit
0dd4af06465b of https://github.com/edward6/reiser4, the port to Linux 5.10. A copy of Linux
gets the changes that Reiser4 needs. gcc, make, flex, bison, bc and the headers of libelf
must be installed. The kernel has ext2, ext3, ext4, xfs and reiserfs, too, so that all of them
run on one kernel; its release ends in -reiser4.")]
struct Reiser4 {
    /// Linux 5.10: a folder with its source, or a tar file of it [default: Debian's linux-source-5.10]
    #[arg(long, value_name = "SOURCE")]
    linux: Option<PathBuf>,
    /// Reiser4: a folder with its source, or a tar file of it
    #[arg(long, value_name = "SOURCE")]
    reiser4: PathBuf,
    #[command(flatten)]
    build: BuildArgs,
}

/// Builds, and prints the option that uses the result.
pub fn run(kernel: &Kernel) -> Result<Exit, Failure> {
    let Kernel { action: Action::Build(buildable) } = kernel;
    let cache = Cache::of_user()?;
    let report = |line: &str| say(&format!("fsdyno: {line}"));
    let options = |args: BuildArgs| BuildOptions { jobs: args.jobs, keep: args.keep };
    let (built, kind, usage) = match buildable {
        Buildable::Reiser4(args) => {
            let sources = Sources { linux: args.linux.clone(), reiser4: args.reiser4.clone() };
            let built = build::reiser4(&sources, options(args.build), &cache, &report)?;
            (built, String::new(), "--kernel reiser4".to_string())
        }
        Buildable::Zfs(args) => {
            let built = build::zfs(args.kernel.as_deref(), options(args.build), &cache, &report)?;
            let usage = format!("--kernel {} --fs zfs", built.release);
            (built, "zfs for ".to_string(), usage)
        }
    };
    if let Some(folder) = &built.folder {
        report(&format!("the folder of the build is {}", folder.display()));
    }
    let minutes = built.elapsed.as_secs_f64() / 60.0;
    say(&format!("{kind}{} is built ({minutes:.1} min); use it with: {usage}", built.release));
    Ok(Exit::Success)
}
