//! The request for one experiment, as the user or a study file specifies it.

use std::ops::RangeInclusive;

use fsdyno_axes::Request;
use fsdyno_filesystem::Author;
use fsdyno_lab::Change;

use crate::ranks::RanksRequest;
use crate::schedule::Shard;

/// The allowed numbers of trials per configuration.
pub const REPEATS: RangeInclusive<u64> = 1..=10_000;

/// The allowed first seeds. The seed of the last repeat also fits in 64 bits.
pub const SEEDS: RangeInclusive<u64> = 0..=u64::MAX >> 1;

/// The allowed numbers of trials that run at the same time.
pub const JOBS: RangeInclusive<u64> = 1..=512;

/// The allowed time limits of a trial in seconds: at most a year.
pub const DEADLINES: RangeInclusive<u64> = 1..=31_536_000;

/// The request for one experiment. Each value is valid by itself; whether the values are compatible with each other and
/// with the targets is checked when the request is resolved.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The author: the user, or a file, possibly written by someone else.
    pub author: Author,
    /// The workloads, by name.
    pub workloads: Vec<String>,
    /// The values of the axes.
    pub axes: Request,
    /// The serial number that confirms that all data on a drive may be destroyed.
    pub erase: Option<String>,
    /// Parameters of workloads: `[WORKLOAD.]KEY=VALUE`.
    pub parameters: Vec<String>,
    /// Sysctls of the lab: `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// Changes to the lab's guests, for benchmarks.
    pub changes: Vec<Change>,
    /// Number of trials of each configuration.
    pub repeat: u32,
    /// Instead of `repeat`: the half-width of confidence intervals that decides the number of trials, as a
    /// fraction of the time.
    pub half_width: Option<f64>,
    /// Maximum number of trials that `half_width` may choose.
    pub at_most: u32,
    /// The first seed.
    pub seed: u64,
    /// The baseline for ratios.
    pub baseline: Option<String>,
    /// Number of trials that run at the same time.
    pub jobs: u16,
    /// Time limit of a trial in seconds.
    pub deadline: Option<u64>,
    /// True if the request logs of the lab's disks are stored.
    pub keep_log: bool,
    /// The share of the trials that this machine runs, if not all.
    pub shard: Option<Shard>,
    /// True if the result folder may hold other trials.
    pub mix: bool,
    /// The processes that share each trial, if there are several.
    pub ranks: Option<RanksRequest>,
}

impl Default for RunSpec {
    fn default() -> RunSpec {
        RunSpec {
            author: Author::User,
            workloads: Vec::new(),
            axes: Request::default(),
            erase: None,
            parameters: Vec::new(),
            sysctls: Vec::new(),
            changes: Vec::new(),
            repeat: 1,
            half_width: None,
            at_most: 100,
            seed: 1,
            baseline: None,
            jobs: 1,
            deadline: None,
            keep_log: false,
            shard: None,
            mix: false,
            ranks: None,
        }
    }
}
