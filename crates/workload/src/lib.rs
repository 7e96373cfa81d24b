//! The workloads as pure generators of ops: no I/O, no clock.
//!
//! A workload is a function of (parameters, seed, rank, ranks) to phases of ops. The same
//! generator feeds the engine, the dry run, the op-count table and the verifier.

pub mod contents;
pub mod numbered;
pub mod op;
pub mod params;
pub mod permutation;
pub mod workload;
pub mod workloads;

pub use contents::Contents;
pub use op::{Call, DirSlot, Expect, FileSlot, Name, Op, OpenFlags, Payload, RemoveOrder};
pub use params::{Domain, Param, ParamError};
pub use workload::{
    Expected, GapKind, Needs, NoOps, OpCounts, OpSource, PhaseSpec, Share, Tree, Workload,
};
