//! The workloads as pure generators of ops: no I/O, no clock.
//!
//! A workload is a function of (parameters, seed, rank, ranks) to phases of ops. The same
//! generator feeds the engine, the dry run, the op-count table and the verifier.

pub mod arguments;
mod bigfile;
pub mod bonnie;
pub mod call;
pub mod contents;
pub mod curve;
pub mod differences;
pub mod facts;
pub mod forest;
pub mod input;
mod item_limit;
mod items;
mod mail;
pub mod memory_fs;
pub mod numbered;
pub mod one_file;
pub mod op;
pub mod op_source;
pub mod params;
pub mod permutation;
pub mod postmark;
pub mod rare;
pub mod replay;
pub mod scrambled;
pub mod sizes;
pub mod steady;
pub mod tar;
mod tenant;
mod unlink;
pub mod weights;
mod whole_trees;
pub mod widths;
pub mod workload;
pub mod workloads;

pub use arguments::{DirSlot, FileSlot, OpenFlags, Payload};
pub use call::{Call, Compound, RemoveOrder};
pub use contents::Contents;
pub use curve::Curve;
pub use differences::{Difference, Differences};
pub use facts::{Effect, Facts, Synced};
pub use input::{Input, Setting};
pub use item_limit::{Allowance, ItemLimit};
pub use items::Items;
pub use memory_fs::MemoryFs;
pub use op::{COPY_BUFFER, Expect, Name, Op, ProgressPoint, RECORD};
pub use op_source::{NoOps, OpSource, WorkUnits};
pub use params::{Domain, Param, ParamError};
pub use rare::{Advice, AllocateMode, RareCall, RenameFlag};
pub use tar::archive::{Archive, ArchiveError, Headers};
pub use widths::Widths;
pub use workload::{
    Expected, ExpectedKind, GapKind, Links, Needs, OpCounts, PhaseSpec, Prefill, Recording, Share,
    ShellCommand, Threads, Tree, Workload,
};
