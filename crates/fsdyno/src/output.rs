//! Data goes to stdout, everything else to stderr; a reader that went away is no error.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicI8, Ordering};

use unicode_width::UnicodeWidthStr;

use crate::exit::{Exit, Failure};

/// Writes data to stdout. A broken pipe ends it in peace: the reader has what it wanted.
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

/// Writes lines to stdout as they come, so that a long list takes no memory.
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
        exit: Exit::WrongUse,
        message: format!("failed to write to standard output: {error}"),
    }
}

/// Pretty JSON on stdout.
pub fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::wrong(format!("failed to write JSON: {error}")))?;
    data(&text)
}

/// How much is written to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors alone.
    Quiet = -1,
    /// Progress and remarks too.
    Usual = 0,
    /// What is done for each trial too.
    Verbose = 1,
}

static VERBOSITY: AtomicI8 = AtomicI8::new(Verbosity::Usual as i8);

/// Sets how much is written to stderr from now on.
pub fn set_verbosity(verbosity: Verbosity) {
    VERBOSITY.store(verbosity as i8, Ordering::Relaxed);
}

/// Whether what is written at this verbosity is wanted.
pub fn wants(verbosity: Verbosity) -> bool {
    VERBOSITY.load(Ordering::Relaxed) >= verbosity as i8
}

/// Writes a remark to stderr, unless --quiet is given.
pub fn say(text: &str) {
    if wants(Verbosity::Usual) {
        complain(text);
    }
}

/// Writes a detail to stderr, where --verbose is given.
pub fn detail(text: &str) {
    if wants(Verbosity::Verbose) {
        complain(text);
    }
}

/// Writes an error to stderr; one that cannot be written is lost. A name in it, which may be anything, must
/// not move a terminal's cursor.
pub fn complain(text: &str) {
    let plain = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
    let text: String = text.chars().map(plain).collect();
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether stdout takes colour: a terminal, and no NO_COLOR (no-color.org).
pub fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !refused
}

/// Columns that a table may take: what COLUMNS says (POSIX.1-2017, 8.3), else what the terminal on stdout
/// says of itself, else 100.
pub fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    told.or_else(|| own().map(|size| usize::from(size.ws_col)))
        .filter(|width| *width > 0)
        .unwrap_or(100)
}

/// Columns of a text table, two spaces between them, the last one as long as it is. On a terminal that is
/// too narrow for a row, its cells stand below each other; in a pipe each row stays one line.
pub fn columns(rows: &[Vec<String>]) -> String {
    rows_of(rows).concat()
}

/// The rows of such a table, each with its newlines.
pub fn rows_of(rows: &[Vec<String>]) -> Vec<String> {
    rows_within(rows, std::io::stdout().is_terminal().then(width))
}

fn rows_within(rows: &[Vec<String>], room: Option<usize>) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let text = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let pad = " ".repeat(width.saturating_sub(cell.width()) + 2);
            line.push_str(&format!("{cell}{pad}"));
        }
        let line = line.trim_end();
        match (room, row.split_first()) {
            (Some(room), Some((first, rest))) if line.width() > room => {
                let cells = rest.iter().filter(|cell| !cell.is_empty());
                let below = cells.map(|cell| paragraph(cell, STACKED, room)).collect::<String>();
                paragraph(first.trim_start(), first.width() - first.trim_start().width(), room)
                    + &below
            }
            _ => format!("{line}\n"),
        }
    };
    rows.iter().map(text).collect()
}

/// How far cells that stand below the first are from the left.
const STACKED: usize = 4;

/// Prose as wide as the terminal, but not wider than is read with ease.
pub fn wrapped(text: &str) -> String {
    text.lines().map(|line| indented(line, 0)).collect()
}

/// One paragraph, so far from the left; its further lines a little farther.
pub fn indented(text: &str, by: usize) -> String {
    const EASE: usize = 100;
    paragraph(text, by, width().min(EASE))
}

fn paragraph(text: &str, by: usize, room: usize) -> String {
    let mut out = String::new();
    let mut line = " ".repeat(by);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.trim().is_empty() && line.width() + 1 + word.width() > room {
            out.push_str(&line);
            out.push('\n');
            line = " ".repeat(by + if by > 0 { 2 } else { 0 });
        } else if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let rows = [vec!["a".into(), "x".into()], vec!["long".into(), "y".into()]];
        assert_eq!(rows_within(&rows, None).concat(), "a     x\nlong  y\n");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let rows = [vec!["日本".into(), "x".into()], vec!["ab".into(), "y".into()]];
        assert_eq!(rows_within(&rows, None).concat(), "日本  x\nab    y\n");
    }

    #[test]
    fn a_row_that_is_too_wide_is_stacked_and_the_others_are_not() {
        let rows = [
            vec!["hdd-7200".into(), "a disk of 7200 revolutions a minute".into()],
            vec!["instant".into(), "no time".into()],
        ];
        let stacked =
            "hdd-7200\n    a disk of 7200\n      revolutions a\n      minute\ninstant   no time\n";
        assert_eq!(rows_within(&rows, Some(20)).concat(), stacked);
        assert_eq!(rows_within(&rows, Some(80)).concat().lines().count(), 2);
    }
}
