//! Data goes to stdout, everything else to stderr; a reader that went away is no error.

use std::io::{ErrorKind, IsTerminal, Write};

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

/// Writes a line to stderr; where nobody listens there is nobody to tell.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether stdout takes colour: a terminal, and no NO_COLOR (no-color.org).
pub fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !refused
}

/// Columns of the terminal on stdout; 100 where there is none.
pub fn width() -> usize {
    let known = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    known.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(100)
}

/// Columns of a text table, two spaces between them, the last one as long as it is.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Prose as wide as the terminal, but not wider than is read with ease.
pub fn wrapped(text: &str) -> String {
    text.lines().map(|line| indented(line, 0)).collect()
}

/// One paragraph, so far from the left; its further lines a little farther.
pub fn indented(text: &str, by: usize) -> String {
    const EASE: usize = 100;
    let room = width().min(EASE);
    let mut out = String::new();
    let mut line = " ".repeat(by);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > room {
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
        assert_eq!(columns(&rows), "a     x\nlong  y\n");
    }
}
