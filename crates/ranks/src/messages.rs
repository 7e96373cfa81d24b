//! The messages between rank 0 and the workers.

use std::collections::BTreeMap;

use fsdyno_record::trial::{OpStats, VerifyReport};
use fsdyno_record::{Job, Nanos, OpKind};
use serde::{Deserialize, Serialize};

use crate::input::{Offer, Place};

/// A message from rank 0 to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToRank {
    /// Answer with your time.
    Ping,
    /// Obtain an input file.
    Input(Box<Offer>),
    /// A part of the input file, whose bytes follow this message.
    Chunk {
        /// Its first byte.
        from: u64,
        /// Number of bytes.
        length: u32,
    },
    /// A trial begins.
    Prepare(Box<Preparation>),
    /// Make the tree that the first phase finds.
    Prefill,
    /// Execute the step before a phase on your client.
    Gap {
        /// The name of the step.
        kind: String,
    },
    /// Prepare a phase and wait.
    Arm {
        /// Its index.
        phase: usize,
    },
    /// Begin the phase at this time by your clock.
    Go {
        /// The start.
        at: Nanos,
    },
    /// Another rank waits for one of your ops.
    Await(Point),
    /// An op of another rank that you wait for has returned.
    Reached(Point),
    /// Continue to the goal: all shares have reached the stonewall.
    GoOn(Goal),
    /// End the phase: another rank failed, or the user stopped the run.
    Stop,
    /// Sync the file system.
    Sync,
    /// Read trees and compare them.
    Verify {
        /// The phase that left them; None for those that the first phase finds.
        phase: Option<usize>,
        /// The trees.
        trees: Vec<TreeOf>,
        /// Maximum time for which a client's caches may explain differences.
        settle: Nanos,
    },
    /// The trial is over: close its files.
    Close,
    /// The run is over: end.
    End,
    /// End immediately.
    Abort {
        /// The reason.
        why: String,
    },
}

/// A tree to compare.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeOf {
    /// The rank that owns the directory; None for the common directory.
    pub of: Option<u32>,
    /// The work that the ranks of the phase report as done.
    pub done: Vec<u64>,
}

/// A position in the ops of a thread in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Index of the thread among those of all ranks.
    pub thread: u32,
    /// Number of its ops that have returned.
    pub ops: u64,
}

/// A share at the stonewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The thread among those of all ranks.
    pub thread: u32,
    /// Number of items that it has done.
    pub done: u64,
    /// Time since its first op.
    pub at: Nanos,
}

/// The end of a phase after the stonewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Number of items that each share must complete.
    pub most: u64,
    /// Number of shares of the common directory, or of each rank's own directory.
    pub shares: u32,
}

/// A trial, as a worker receives it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Preparation {
    /// The job.
    pub job: Job,
    /// The path of the trial's directory below the shared directory.
    pub folder: String,
}

/// A message from a worker to rank 0.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FromRank {
    /// Its time.
    Pong {
        /// The time.
        now: Nanos,
    },
    /// A heartbeat.
    Beat {
        /// A number that increases as the worker makes progress.
        work: u64,
        /// Number of ops in the phase so far.
        ops: u64,
    },
    /// The worker has the input file.
    HasInput {
        /// Where other processes of its host can open it.
        place: Option<Place>,
    },
    /// The worker does not have the input file.
    LacksInput {
        /// The host on which it could open the file of another process; None if it can open none.
        home: Option<String>,
    },
    /// The worker waits for a part of the input file.
    WantInput {
        /// Number of bytes that it has.
        from: u64,
    },
    /// The worker has found the trial's directory.
    Prepared {
        /// Time until it found the directory.
        found: Nanos,
        /// Device number of the file system there, which identifies ranks with the same mount on a host.
        device: u64,
    },
    /// The tree that the first phase finds has been made.
    Prefilled {
        /// Number of calls by kind.
        calls: BTreeMap<OpKind, u64>,
    },
    /// The step before a phase was executed.
    GapDone {
        /// The step that was executed.
        done: String,
    },
    /// The phase is ready to begin.
    Armed,
    /// The phase has ended.
    Done(Box<PhaseDone>),
    /// One of its threads waits for an op of another rank.
    Await(Point),
    /// An op that another rank waits for has returned.
    Reached(Point),
    /// A share has reached the stonewall.
    Stonewall(Stopped),
    /// The file system is synced.
    Synced {
        /// Time at which syncfs returned, on the worker's clock.
        at: Nanos,
        /// The reason why the data may not be durable at that time; None if they are.
        doubt: Option<String>,
    },
    /// The trees were read, in the given order.
    Verified {
        /// The worker's observations, by tree.
        seen: Vec<Seen>,
    },
    /// The trial's files are closed.
    Closed,
    /// The worker failed.
    Failed {
        /// The reason.
        why: String,
        /// True if the worker stopped by order.
        stopped: bool,
    },
}

/// The work of a rank in a phase; times are on its own clock.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PhaseDone {
    /// Start of its first op.
    pub started: Nanos,
    /// Return of its last call.
    pub returned: Nanos,
    /// Number of its ops.
    pub calls: u64,
    /// Counts and latencies by kind of op.
    pub ops: BTreeMap<OpKind, OpStats>,
    /// The work that each of its threads reports as done.
    pub done: Vec<u64>,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Think time.
    pub think: Nanos,
    /// Number of trees removed by an expanded op.
    pub removals: u64,
    /// User and system CPU time of the process.
    pub cpu: (Nanos, Nanos),
    /// Estimated time of the engine itself in the phase.
    pub engine: Nanos,
    /// Length of an interval, and the number of ops that returned in each, from its start.
    pub timeline: (Nanos, Vec<u64>),
    /// Comparison of its results with those of the recording that it replayed, if it replayed one.
    #[serde(default)]
    pub replayed: Option<Replayed>,
}

/// The results of a rank's replayed calls, compared with the recorded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// Number of calls with a different result.
    pub differing: u64,
    /// Descriptions of the differences.
    pub notes: Vec<String>,
    /// The reason why they fail the trial, if they do.
    pub failure: Option<String>,
}

/// The observations of a rank about a tree.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The report of the last reading.
    pub report: VerifyReport,
    /// Number of differences found by the first reading but not by the last one.
    pub stale: u64,
    /// Time from the first reading to the one that found none of them.
    pub settled: Nanos,
}
