//! Writes data to stdout and everything else to stderr. A closed pipe is not an error.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicI8, Ordering};

use fsdyno_report::table::{Format, Output, Prose, Style};

use crate::exit::Failure;

/// Writes data to stdout. A broken pipe is not an error: the reader has closed it.
pub fn write_data(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(out, "{text}{end}").and_then(|()| out.flush());
    written.or_else(unless_closed)
}

/// Writes lines to stdout one by one, so that a long list does not have to fit in memory.
pub fn write_lines(lines: impl Iterator<Item = Result<String, Failure>>) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in lines {
        let line = line?;
        if let Err(error) = writeln!(out, "{line}") {
            return unless_closed(error);
        }
    }
    out.flush().or_else(unless_closed)
}

/// Returns the failure of an error on stdout, unless its reader has closed it.
fn unless_closed(error: std::io::Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::invalid_use(format!("failed to write to standard output: {error}"))),
    }
}

/// Returns true if a plan (--dry-run) is printed as JSON, and false for text.
///
/// # Errors
/// Any other format.
pub fn plan_as_json(format: Format) -> Result<bool, Failure> {
    match format {
        Format::Text => Ok(false),
        Format::Json => Ok(true),
        _ => Err(Failure::invalid_use("--dry-run supports only --format text or json")),
    }
}

/// Writes a value as indented JSON to stdout.
pub fn write_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    write_data(&fsdyno_campaign::files::pretty(value)?)
}

/// Prints a command's output in a format.
pub fn print(output: &dyn Output, format: Format) -> Result<(), Failure> {
    write_data(&format.write(output, style())?)
}

/// Returns the width and the colours for the terminal, and whether tables are complete (--verbose).
pub fn style() -> Style {
    Style { color: uses_colour(), width: width(), full: is_shown(Verbosity::Verbose) }
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
    // This fails if a logger is already set.
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
            write_stderr(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Returns true if messages of this verbosity are to be written.
pub fn is_shown(verbosity: Verbosity) -> bool {
    VERBOSITY.load(Ordering::Relaxed) >= verbosity as i8
}

/// Writes a note to stderr, unless --quiet is given.
pub fn say(text: &str) {
    if is_shown(Verbosity::Usual) {
        write_stderr(text);
    }
}

/// Writes a detail to stderr if --verbose is given.
pub fn detail(text: &str) {
    if is_shown(Verbosity::Verbose) {
        write_stderr(text);
    }
}

/// Writes a message to stderr; a failed write is ignored. Control characters in names are replaced, so that they cannot
/// control the terminal.
pub fn write_stderr(text: &str) {
    let replace_control =
        |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
    let text: String = text.chars().map(replace_control).collect();
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Returns true if stdout is to be coloured: it is a terminal, and NO_COLOR (no-color.org) is unset or empty.
pub fn uses_colour() -> bool {
    let is_disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !is_disabled
}

/// Returns the output width in columns: COLUMNS (POSIX.1-2017, 8.3), or else the width of the terminal on stdout, or
/// else 100.
pub fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    columns
        .or_else(|| terminal().map(|size| usize::from(size.ws_col)))
        .filter(|width| *width > 0)
        .unwrap_or(100)
}

/// Returns the width beyond which table rows are stacked; `None` if stdout is not a terminal.
pub fn limit() -> Option<usize> {
    std::io::stdout().is_terminal().then(width)
}

/// Returns the widths for plain text.
pub fn prose() -> Prose {
    Prose { width: width(), limit: limit() }
}
