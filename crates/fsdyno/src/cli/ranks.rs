//! The options of trials that several processes share.

use clap::Args;
use fsdyno_axes::whole;
use fsdyno_ranks::launcher::MOST_RANKS;
use fsdyno_record::Nanos;

/// The options.
#[derive(Args, Clone, Debug, Default)]
pub struct RanksArgs {
    /// Share each trial among the processes that mpiexec (MPICH, Open MPI), srun, an indexed Kubernetes job or a script
    /// started with this command on one or several hosts; see docs/ranks.md. N is needed only in a Kubernetes job
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, value_parser = whole::<u32>(1..=u64::from(MOST_RANKS)))]
    pub ranks: Option<Option<u32>>,
    /// With --ranks: each rank does the whole workload in a directory of its own, instead of a share of it in one
    #[arg(long, requires = "ranks")]
    pub own: bool,
    /// With --ranks: in each phase a rank works on what the rank N before it worked on in the phase before, so that no
    /// client answers from its own cache
    #[arg(long, value_name = "N", requires = "ranks", default_value_t = 0, value_parser = whole::<u32>(0..=u64::from(MOST_RANKS)))]
    pub shift: u32,
    /// With --ranks, for dirops: after SECONDS of creating, all ranks go on to the largest number of files that one of
    /// them has made, and the phases that follow work on these files (as mdtest -W)
    #[arg(long, value_name = "SECONDS", requires = "ranks", value_parser = seconds)]
    pub stonewall: Option<Nanos>,
}

/// Seconds from a thousandth to a day.
fn seconds(text: &str) -> Result<Nanos, String> {
    let number = text.parse::<f64>().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    number.map(|seconds| Nanos((seconds * 1e9).round() as u64)).ok_or_else(|| {
        format!("'{text}' is not a number of seconds from 0.001 to 86400, such as 30")
    })
}
