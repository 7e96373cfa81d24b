//! Writes data to stdout and everything else to stderr. A closed pipe is not an error.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicI8, Ordering};

use fsdyno_report::table::{Format, Output, Prose, Style};

use crate::exit::{Exit, Failure};

/// Writes data to stdout. A broken pipe is not an error: the reader wants no more data.
pub fn data(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(()),
    }
}

/// Writes lines to stdout one by one, so that a long list does not have to fit in memory.
pub fn lines(lines: impl Iterator<Item = Result<String, Failure>>) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in lines {
        let line = line?;
        match writeln!(out, "{line}") {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(unwritten(&error)),
        }
    }
    match out.flush() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(()),
    }
}

fn unwritten(error: &std::io::Error) -> Failure {
    Failure {
        exit: Exit::InvalidUse,
        message: format!("failed to write to standard output: {error}"),
    }
}

/// Writes a value as indented JSON to stdout.
pub fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    data(&fsdyno_campaign::files::pretty(value)?)
}

/// Prints a command's output in a format.
pub fn print(it: &dyn Output, format: Format) -> Result<(), Failure> {
    data(&format.write(it, style())?)
}

/// Returns the width and the colours for the terminal, and whether tables are complete (--verbose).
pub fn style() -> Style {
    Style { color: colour(), width: width(), full: wants(Verbosity::Verbose) }
}

/// The amount of output on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet = -1,
    /// Also progress and notes.
    Usual = 0,
    /// Also details of each trial.
    Verbose = 1,
}

static VERBOSITY: AtomicI8 = AtomicI8::new(Verbosity::Usual as i8);

/// Sets the amount of output on stderr, and routes the notes of the libraries there.
pub fn set_verbosity(verbosity: Verbosity) {
    VERBOSITY.store(verbosity as i8, Ordering::Relaxed);
    // Fails if a logger is already set.
    let _ = log::set_logger(&Notes);
    log::set_max_level(match verbosity {
        Verbosity::Quiet => log::LevelFilter::Error,
        Verbosity::Usual => log::LevelFilter::Info,
        Verbosity::Verbose => log::LevelFilter::Debug,
    });
}

/// Writes the notes of the libraries: each log level corresponds to a verbosity.
struct Notes;

impl log::Log for Notes {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == fsdyno_campaign::notes::TARGET
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            complain(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Returns true if messages of this verbosity are to be written.
pub fn wants(verbosity: Verbosity) -> bool {
    VERBOSITY.load(Ordering::Relaxed) >= verbosity as i8
}

/// Writes a note to stderr, unless --quiet is given.
pub fn say(text: &str) {
    if wants(Verbosity::Usual) {
        complain(text);
    }
}

/// Writes a detail to stderr if --verbose is given.
pub fn detail(text: &str) {
    if wants(Verbosity::Verbose) {
        complain(text);
    }
}

/// Writes an error to stderr; a failed write is ignored. Control characters in names are replaced, so that they cannot
/// control the terminal.
pub fn complain(text: &str) {
    let plain = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
    let text: String = text.chars().map(plain).collect();
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Returns true if stdout is to be coloured: it is a terminal, and NO_COLOR (no-color.org) is unset or empty.
pub fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !refused
}

/// Returns the output width in columns: COLUMNS (POSIX.1-2017, 8.3), or else the width of the terminal on stdout, or
/// else 100.
pub fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    columns
        .or_else(|| own().map(|size| usize::from(size.ws_col)))
        .filter(|width| *width > 0)
        .unwrap_or(100)
}

/// Returns the width beyond which table rows are stacked; none if stdout is not a terminal.
pub fn limit() -> Option<usize> {
    std::io::stdout().is_terminal().then(width)
}

/// Returns the widths for plain text.
pub fn prose() -> Prose {
    Prose { width: width(), limit: limit() }
}
