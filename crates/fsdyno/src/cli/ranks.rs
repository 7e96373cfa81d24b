//! The options of trials that several processes share.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use fsdyno_axes::whole_number;
use fsdyno_campaign::ranks::RanksOptions;
use fsdyno_ranks::launcher::MAX_RANKS;
use fsdyno_ranks::ssh::{self, Host};
use fsdyno_record::Nanos;

/// The options of `fsdyno run` for several ranks.
#[derive(Args, Clone, Debug, Default)]
#[command(group = ArgGroup::new("shared").multiple(true))]
pub struct RanksArgs {
    /// Share each trial among the processes of this command that mpiexec (MPICH, Open MPI), srun, an indexed Kubernetes
    /// job or a script started on one or several hosts; see docs/ranks.md. N is needed only in a Kubernetes job
    #[arg(long, group = "shared", value_name = "N", num_args = 0..=1, require_equals = true, value_parser = whole_number::<u32>(1..=u64::from(MAX_RANKS)))]
    pub ranks: Option<Option<u32>>,
    /// Share each trial among processes that fsdyno starts over ssh on these hosts. All of them, and this host, must
    /// have the shared directory at the same path. Each host runs one process; with --ranks=N, there are N in all
    #[arg(long, group = "shared", value_name = "HOST,HOST", value_parser = parse_hosts)]
    pub hosts: Option<Hosts>,
    /// With --hosts: the path of fsdyno on those hosts, if it differs from the path on this host
    #[arg(long, value_name = "PATH", requires = "hosts", value_parser = parse_remote_program)]
    pub hosts_program: Option<PathBuf>,
    /// With --ranks or --hosts: each rank does the whole workload in its own directory, instead of a share of it in a
    /// common directory
    #[arg(long, requires = "shared")]
    pub own: bool,
    /// With --ranks or --hosts: in each phase, rank R works on the items that rank R-N worked on in the previous phase,
    /// so that no client answers from its own cache
    #[arg(long, value_name = "N", requires = "shared", default_value_t = 0, value_parser = whole_number::<u32>(0..=u64::from(MAX_RANKS)))]
    pub shift: u32,
    /// With --ranks or --hosts: after SECONDS of creating files (postmark: of transactions; churn, maildir: of
    /// operations), all ranks continue only until each has done as many items as the fastest rank had done by then;
    /// later phases work on these items (like mdtest -W)
    #[arg(long, value_name = "SECONDS", requires = "shared", value_parser = parse_seconds)]
    pub stonewall: Option<Nanos>,
}

impl RanksArgs {
    /// Returns the options that the user gave for several ranks.
    pub fn options(&self) -> RanksOptions {
        RanksOptions {
            ranks: self.ranks,
            hosts: self.hosts.clone().map(|Hosts(hosts)| hosts),
            hosts_program: self.hosts_program.clone(),
            own: self.own,
            shift: self.shift,
            stonewall: self.stonewall,
        }
    }
}

/// Parses a number of seconds from a thousandth of a second to a day.
fn parse_seconds(value: &str) -> Result<Nanos, String> {
    let seconds = value.parse::<f64>().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.map(|seconds| Nanos((seconds * 1e9).round() as u64)).ok_or_else(|| {
        format!("'{value}' is not a number of seconds from 0.001 to 86400, such as 30")
    })
}

/// The list of hosts in [`RanksArgs::hosts`].
#[derive(Clone, Debug)]
pub struct Hosts(pub Vec<Host>);

fn parse_hosts(value: &str) -> Result<Hosts, String> {
    ssh::hosts(value).map(Hosts)
}

fn parse_remote_program(value: &str) -> Result<PathBuf, String> {
    match value.starts_with('/') && !value.contains(char::is_control) {
        true => Ok(PathBuf::from(value)),
        false => Err(format!("'{}' is not an absolute path", value.escape_debug())),
    }
}
