//! Records the file system calls of a command into a trace, without privileges (docs/record.md).
//!
//! A seccomp filter stops the command's threads at the calls of one table (`table`); the recorder reads their
//! arguments and results with ptrace(2). Children and threads are followed, and all other calls run untouched.
//!
//! Two stops cost some tens of microseconds. So the recorder puts its own code into dynamic programs, and redirects the
//! calls of their C library to it (`inject`, `sites`). That code makes the call at the only address that the filter
//! lets pass, and puts the call with its result into memory shared with the recorder (`shared`, `drain`). Calls that
//! are not redirected, and those that the code cannot handle with certainty, still stop.
//!
//! As root, programs in the kernel can record the calls instead (`bpf`).

mod anonymize;
mod bpf;
mod calibrate;
mod clock;
mod decode;
mod decode_attributes;
mod decode_names;
mod drain;
mod error;
mod filter;
mod finish;
mod hash;
pub mod import;
mod inject;
mod inode;
mod launch;
mod process;
mod recorder;
mod resolve;
mod run;
mod seen;
mod shared;
mod sites;
mod sys;
mod table;
mod tree;
mod vdso;

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use fsdyno_trace::{End, Header, Writer};

pub use bpf::Bounds;
pub use error::RecordError;
pub use resolve::MARK;

/// A mechanism by which calls are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordMethod {
    /// The cheapest mechanism that misses no call: inside, where the host allows it.
    #[default]
    Auto,
    /// Code injected into the programs records the calls of their C library; all other calls stop for ptrace(2).
    Inside,
    /// All calls stop.
    Ptrace,
    /// Programs in the kernel record the calls; needs root.
    Bpf,
}

/// The options of a recording.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directories whose whole trees are recorded before the start. If empty, the working directory is the tree,
    /// and only what the command touches is recorded.
    pub trees: Vec<PathBuf>,
    /// True to replace the components of names by hashes.
    pub anonymize: bool,
    /// The mechanism by which calls are observed.
    pub how: RecordMethod,
    /// An older trace that this one will replace; it is not part of the trees.
    pub older: Option<PathBuf>,
}

/// A completed recording.
#[derive(Debug)]
pub struct Recorded {
    /// The exit status of the command or process; success for a process that continues ([`End::status`] is then None).
    pub status: ExitStatus,
    /// The end item of the trace.
    pub end: End,
    /// The mechanism that was used, never [`RecordMethod::Auto`].
    pub how: RecordMethod,
    /// The number of events.
    pub events: u64,
    /// The number of events recorded without a stop: inside the programs, or by the kernel.
    pub inside: u64,
    /// The reason why [`RecordMethod::Auto`] did not use [`RecordMethod::Inside`].
    pub refused: Option<std::io::Error>,
    /// The error that ended the trace before the command; the trace is valid up to there.
    pub failed: Option<RecordError>,
}

/// Runs a command and writes its trace to a file. The command keeps its terminal, standard streams, and signals.
///
/// # Errors
/// The command cannot be run, the host rejects ptrace, seccomp or BPF, a tree is not a directory, or the file cannot be
/// written at all. A later error ends the trace, not the command ([`Recorded::failed`]).
pub fn record(options: &Options, command: &[String], out: File) -> Result<Recorded, RecordError> {
    let Some(name) = command.first() else {
        return Err(std::io::Error::other("no command").into());
    };
    let trees = match &options.trees[..] {
        [] => vec![std::env::current_dir()?],
        trees => trees.to_vec(),
    };
    launch::handle_signals();
    let named = |error| match error {
        RecordError::Command { error, .. } => RecordError::Command { command: name.clone(), error },
        other => other,
    };
    if options.how == RecordMethod::Bpf {
        let session = bpf::Session::new()?;
        let recorder = recorder_with_names(options, &trees, out)?;
        let started = launch::prepare(command, None)?;
        let (status, tree, end, inside) =
            bpf::record_command(recorder, session, started).map_err(named)?;
        return Ok(summary(ExitStatus::from_raw(status), tree, end, RecordMethod::Bpf, inside));
    }
    let (shared, refused) = match (options.how, shared::Shared::new) {
        (RecordMethod::Ptrace | RecordMethod::Bpf, _) => (None, None),
        (RecordMethod::Auto, new) => match new() {
            Ok(shared) => (Some(shared), None),
            Err(error) => (None, Some(error)),
        },
        (RecordMethod::Inside, new) => (Some(new().map_err(RecordError::Inside)?), None),
    };
    let how = if shared.is_some() { RecordMethod::Inside } else { RecordMethod::Ptrace };
    let (mut tree, _) = new_tree(options, &trees, how, out, shared.clone())?;
    options.trees.iter().for_each(|path| tree.list_all(path));
    let stop_cost = calibrate::stop_cost();
    let started = launch::start(command, shared.is_some())?;
    let recorder = recorder::Recorder::new(tree, stop_cost, shared);
    let (status, tree, end, inside) = recorder.follow(started).map_err(named)?;
    let status = ExitStatus::from_raw(status);
    Ok(Recorded { refused, ..summary(status, tree, end, how, inside) })
}

/// Records a running process with BPF: until it ends, for a maximum duration, or until a signal (Ctrl-C). Calls
/// `begins` once the recording has begun.
///
/// # Errors
/// The process does not exist, the host rejects BPF, a tree is not a directory, or the file cannot be written at all.
pub fn attach(
    options: &Options,
    bounds: Bounds,
    out: File,
    begins: impl FnOnce(),
) -> Result<Recorded, RecordError> {
    launch::handle_signals();
    let session = bpf::Session::new()?;
    let trees = match &options.trees[..] {
        [] => vec![bpf::directory_of(bounds.pid)?],
        trees => trees.to_vec(),
    };
    let recorder = recorder_with_names(options, &trees, out)?;
    let (status, tree, end, inside) = bpf::attach(recorder, session, bounds, begins)?;
    let status = ExitStatus::from_raw(status.unwrap_or(0) as i32);
    Ok(summary(status, tree, end, RecordMethod::Bpf, inside))
}

/// Checks that this host can record with BPF, without recording.
///
/// # Errors
/// The host cannot.
pub fn check_bpf() -> Result<(), RecordError> {
    bpf::Session::new().map(drop)
}

/// Creates a recorder that knows the names of the trees.
fn recorder_with_names(
    options: &Options,
    trees: &[PathBuf],
    out: File,
) -> Result<recorder::Recorder, RecordError> {
    let (tree, own) = new_tree(options, trees, RecordMethod::Bpf, out, None)?;
    let names = bpf::read_names(trees, own)?;
    let mut recorder = recorder::Recorder::new(tree, calibrate::StopCost::default(), None);
    recorder.names = Some(names);
    options.trees.iter().for_each(|path| recorder.introduce_all(path));
    Ok(recorder)
}

/// Begins a trace; also returns the keys of its file and of the older one.
fn new_tree(
    options: &Options,
    trees: &[PathBuf],
    how: RecordMethod,
    out: File,
    shared: Option<std::rc::Rc<shared::Shared>>,
) -> Result<(tree::Tree, inode::OwnFiles), RecordError> {
    let recorded_by = match how {
        RecordMethod::Inside => "inside and ptrace",
        RecordMethod::Bpf => "bpf",
        RecordMethod::Ptrace | RecordMethod::Auto => "ptrace",
    };
    let header = Header {
        recorded_by: recorded_by.into(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        processors: std::thread::available_parallelism().map_or(0, |it| it.get() as u32),
        anonymized: options.anonymize,
        has_think: true,
        has_times: true,
    };
    let own = rustix::fs::fstat(&out).map_err(std::io::Error::from)?;
    let own = inode::key(&own);
    let older = options.older.as_ref().and_then(|path| rustix::fs::stat(path).ok());
    let own = [own, older.map_or(own, |older| inode::key(&older))];
    let writer = Writer::new(out, &header)?;
    Ok((tree::Tree::new(trees, writer, own, options.anonymize, shared)?, own))
}

/// Ends the trace and summarizes the recording.
fn summary(
    status: ExitStatus,
    tree: tree::Tree,
    end: End,
    how: RecordMethod,
    inside: u64,
) -> Recorded {
    let mut recorded =
        Recorded { status, end, how, events: 0, inside, refused: None, failed: None };
    match tree.into_writer() {
        Ok(writer) => {
            recorded.events = writer.events();
            if let Err(error) = writer.end(recorded.end.clone()) {
                recorded.failed = Some(error.into());
            }
        }
        Err(error) => recorded.failed = Some(error),
    }
    recorded
}
