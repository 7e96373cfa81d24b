//! Compiles a trace of file system calls to the form that the workload `replay` reads
//! (`fsdyno_workload::replay::format`).
//!
//! A trace is read three times: once to find the files that are opened, then in two passes. The first pass
//! builds the initial tree and finds which threads ran at the same time; threads that did not can share a rank of the
//! replay. The second pass creates an op for each call, with the points of other ranks that it has to wait for
//! ([`order`]), and applies it to a file system in memory (`fsdyno_workload::MemoryFs`), whose final state is the tree
//! against which the trial is verified. A call whose recorded result differs from that of the file system in memory is
//! omitted and counted.
//!
//! A compilation holds in memory: the data of that file system for each name, one entry for each resource that calls
//! share, and each distinct path once. Ops are written as they are created.

mod calls;
mod compile;
mod emit;
mod flags;
mod initial;
mod mapped;
pub mod order;
mod out;
mod paths;
mod phases;
mod plan;
mod starts;
mod threads;

pub use compile::Recorded;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Seek};

use fsdyno_trace::{Checker, Item, Reader, TraceError};

/// A trace that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// The trace exceeds a limit of replays.
    #[error("{0}")]
    Limit(String),
    /// The compiled form cannot be stored.
    #[error("cannot be stored: {0}")]
    Io(#[from] std::io::Error),
}

/// Compiles a trace into `out`, an empty file, and returns the length of the compiled form in bytes.
///
/// # Errors
/// A trace that is damaged, or needs more threads, open files or bytes than a replay supports.
pub fn compile(trace: &mut File, out: &mut File) -> Result<u64, ReplayError> {
    Ok(compile_timed(trace, out)?.0)
}

/// Compiles a trace as [`compile`] does; also returns a summary of the replayed calls.
///
/// # Errors
/// The errors of [`compile`].
pub fn compile_timed(trace: &mut File, out: &mut File) -> Result<(u64, Recorded), ReplayError> {
    let mut opened = HashSet::new();
    read_items(trace, |item, _| {
        if let Item::Event(event) = &item {
            opened.extend(initial::used_node(&event.call));
        }
        Ok(())
    })?;
    let mut first = initial::Initial::new(out, opened)?;
    read_items(trace, |item, header| first.item(item, header))?;
    let (start, out) = first.finish()?;
    let mut second = compile::Compiler::new(start, out)?;
    read_items(trace, |item, _| match item {
        Item::Event(event) => second.event(&event),
        _ => Ok(()),
    })?;
    second.finish()
}

/// Reads a trace from its beginning, with every identity checked.
fn read_items(
    trace: &mut File,
    mut take: impl FnMut(Item, &fsdyno_trace::Header) -> Result<(), ReplayError>,
) -> Result<(), ReplayError> {
    trace.rewind()?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 16, &*trace))?;
    let header = reader.header().clone();
    let mut checker = Checker::new();
    while let Some(item) = reader.item()? {
        checker.check(&item).map_err(|problem| reader.problem(problem))?;
        take(item, &header)?;
    }
    Ok(())
}
