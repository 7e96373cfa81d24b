//! Imports recordings made by other tools: converts their calls to a trace, with a tree inferred from the calls.
//!
//! Such a text does not show a tree. An entry is in the initial tree if a call found it and no earlier call in the text
//! created it; its size follows from a stat or from the reads.

mod attributes;
mod calls;
mod data;
mod fio;
mod lttng;
mod names;
mod parsed_call;
mod state;
mod strace;
mod symbols;

use std::io::BufRead;
use std::path::PathBuf;

use fsdyno_trace::{End, Header, TraceError, Writer};

use crate::error::RecordError;
use state::ImportState;

/// The formats that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text output of strace(1), with or without `-f`, `-y`, `-yy`, `-t`, `-tt`, `-ttt`, `-r` and `-T`.
    Strace,
    /// A log of `fio --write_iolog`, version 2.
    FioV2,
    /// A log of `fio --write_iolog`, version 3.
    FioV3,
    /// The text output of babeltrace(1) for system calls that LTTng traced.
    Lttng,
}

/// The options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The directory whose entries are the tree of the trace. If None, the working directory of the program.
    pub tree: Option<PathBuf>,
    /// True to replace the components of names by hashes.
    pub anonymize: bool,
}

/// A completed import.
#[derive(Debug, Default)]
pub struct Imported {
    /// The number of events of the trace.
    pub events: u64,
    /// The number of lines.
    pub lines: u64,
    /// The number of lines that were not understood.
    pub unknown: u64,
    /// The first lines that were not understood: line number and problem.
    pub first: Vec<(u64, String)>,
    /// Things that the trace lacks, with counts.
    pub notes: std::collections::BTreeMap<String, u64>,
}

/// Maximum number of lines that are shown.
const SHOWN: usize = 5;

/// Maximum length of a line in bytes.
const LINE: u64 = 1 << 20;

/// Maximum number of events: they are kept in memory until the tree is known.
const EVENTS: usize = 50_000_000;

/// Calls `each` for each line of a text, and counts the lines for which it returns an error.
pub(crate) fn lines(
    mut from: impl BufRead,
    imported: &mut Imported,
    mut each: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), RecordError> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = std::io::Read::take(&mut from, LINE).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        imported.lines += 1;
        let outcome = match std::str::from_utf8(&bytes) {
            _ if read as u64 == LINE => Err(format!("it is longer than {LINE} bytes")),
            Ok(text) => each(text.trim_end_matches(['\n', '\r'])),
            Err(_) => Err("it is not UTF-8".into()),
        };
        if let Err(problem) = outcome {
            imported.unknown += 1;
            if imported.first.len() < SHOWN {
                imported.first.push((imported.lines, problem));
            }
        }
    }
}

/// Imports a text and writes its trace.
///
/// # Errors
/// No line of a text, or not every line of a fio log, was understood; or the trace cannot be written.
pub fn import<W: std::io::Write>(
    format: Format,
    mut from: impl BufRead,
    options: &ImportOptions,
    out: impl FnOnce() -> std::io::Result<W>,
) -> Result<Imported, RecordError> {
    let mut imported = Imported::default();
    let tree = match &options.tree {
        Some(path) => Some(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()),
        None if format == Format::Strace => strace::working_directory(from.fill_buf()?),
        None => None,
    };
    let mut state = ImportState::new(tree, options.anonymize);
    match format {
        Format::Strace => strace::read(from, &mut state, &mut imported)?,
        Format::FioV2 => fio::read(from, 2, &mut state, &mut imported)?,
        Format::FioV3 => fio::read(from, 3, &mut state, &mut imported)?,
        Format::Lttng => lttng::read(from, &mut state, &mut imported)?,
    }
    let is_fio = matches!(format, Format::FioV2 | Format::FioV3);
    if let Some((line, problem)) = imported.first.first() {
        if is_fio || state.events.is_empty() {
            return Err(RecordError::Line { line: *line, problem: problem.clone() });
        }
    }
    if state.events.is_empty() {
        let problem = "the file contains no call that a trace can represent".to_string();
        return Err(RecordError::Line { line: imported.lines.max(1), problem });
    }
    let header = Header {
        recorded_by: match format {
            Format::Strace => "strace text",
            Format::FioV2 => "fio log v2",
            Format::FioV3 => "fio log v3",
            Format::Lttng => "lttng text",
        }
        .into(),
        anonymized: options.anonymize,
        has_times: state.timed,
        ..Header::default()
    };
    if imported.unknown > 0 {
        state.note("lines that were not understood", imported.unknown);
    }
    let out = out().map_err(|error| TraceError::Io { offset: 0, error })?;
    imported.events = state.events.len() as u64;
    imported.notes = state.notes.clone();
    state.write(Writer::new(out, &header)?)?;
    Ok(imported)
}

impl ImportState {
    /// Returns the end item of the trace.
    pub(crate) fn end(&self) -> End {
        let wall = self.events.iter().map(|it| it.returned()).max().unwrap_or(0);
        End { wall, status: None, notes: self.notes.clone(), ..End::default() }
    }
}
