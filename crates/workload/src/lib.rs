//! The workloads as pure generators of ops: no I/O, no clock.
//!
//! A workload is a function of (parameters, seed, rank, ranks) to phases of ops. The same
//! generator feeds the engine, the dry run, the op-count table and the verifier.

pub mod op;
pub mod workload;

pub use op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload, RemoveOrder};
pub use workload::{Expected, GapKind, Needs, OpCounts, OpSource, PhaseSpec, Share, Tree, Workload};
