//! Imports logs of `fio --write_iolog`.

use std::collections::HashMap;
use std::io::BufRead;

use super::parsed_call::{ParseError, ParsedCall};
use super::state::ImportState;
use super::{Imported, lines};
use crate::error::RecordError;

/// Reads a log of format version `version`.
pub fn read(
    from: impl BufRead,
    version: u32,
    state: &mut ImportState,
    imported: &mut Imported,
) -> Result<(), RecordError> {
    let mut first = true;
    state.timed = true;
    let mut log =
        Log { state, version, open: HashMap::new(), ends: HashMap::new(), next: 3, now: 0 };
    lines(from, imported, |text| {
        if std::mem::take(&mut first) {
            let expected = format!("fio version {version} iolog");
            return match text.trim() == expected {
                true => Ok(()),
                false => Err(format!("it is '{text}', not '{expected}'")),
            };
        }
        log.line(text)
    })?;
    // fio lays out its files before it starts.
    let Log { state, ends, .. } = log;
    ends.into_iter().for_each(|(name, end)| state.set_minimum_size(name.as_bytes(), end));
    Ok(())
}

/// The state while a log is read.
struct Log<'w> {
    state: &'w mut ImportState,
    version: u32,
    /// Descriptors by name.
    open: HashMap<String, i64>,
    /// The end of the last byte read or written, by name.
    ends: HashMap<String, u64>,
    /// The last descriptor that was assigned.
    next: i64,
    /// Nanoseconds since the start.
    now: u64,
}

/// Returns a word of a line after checking that it is a number.
fn number<'t>(words: &[&'t str], at: usize) -> Result<&'t str, ParseError> {
    let word = words.get(at).ok_or_else(|| "offset and length are missing".to_string())?;
    word.parse::<i64>().map_err(|_| format!("'{word}' is not a number"))?;
    Ok(word)
}

impl Log<'_> {
    fn line(&mut self, text: &str) -> Result<(), ParseError> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Ok(());
        }
        if self.version == 3 {
            // Microseconds since the start.
            let time: u64 =
                words[0].parse().map_err(|_| format!("'{}' is not a time", words[0]))?;
            self.now = time.saturating_mul(1000);
            words.remove(0);
        } else {
            self.now += 1;
        }
        let [name, action, ..] = words[..] else {
            return Err("it lacks a file name or an action".into());
        };
        if name.contains(['"', '\\']) {
            return Err(format!("the name {name} has characters that are not supported"));
        }
        match action {
            "wait" => {
                let microseconds = number(&words, 2)?.parse::<u64>().unwrap_or(0);
                self.now = self.now.saturating_add(microseconds.saturating_mul(1000));
                Ok(())
            }
            "add" => Ok(()),
            "open" => {
                self.next += 1;
                self.open.insert(name.to_string(), self.next);
                self.call("open", vec![&format!("\"{name}\""), "O_RDWR"], self.next)
            }
            _ => self.on_open(name, action, &words),
        }
    }

    /// Imports an action on an open file.
    fn on_open(&mut self, name: &str, action: &str, words: &[&str]) -> Result<(), ParseError> {
        let known = self.open.get(name).ok_or_else(|| format!("'{name}' is not open"))?;
        let descriptor = &known.to_string()[..];
        match action {
            "close" => {
                self.open.remove(name);
                self.call("close", vec![descriptor], 0)
            }
            "sync" => self.call("fsync", vec![descriptor], 0),
            "datasync" => self.call("fdatasync", vec![descriptor], 0),
            "sync_file_range" => {
                let (offset, length) = (number(words, 2)?, number(words, 3)?);
                self.call("sync_file_range", vec![descriptor, offset, length, "0"], 0)
            }
            "read" | "write" | "trim" => {
                let (offset, length) = (number(words, 2)?, number(words, 3)?);
                let moved = length.parse::<i64>().unwrap_or(0);
                let Some(begin) = offset.parse::<u64>().ok().filter(|_| moved >= 0) else {
                    return Err("offset and length must not be negative".into());
                };
                let end = self.ends.entry(name.to_string()).or_default();
                *end = (*end).max(begin.saturating_add(moved as u64));
                match action {
                    "read" => self.call("pread64", vec![descriptor, "0", length, offset], moved),
                    "write" => self.call("pwrite64", vec![descriptor, "0", length, offset], moved),
                    // FALLOC_FL_PUNCH_HOLE needs FALLOC_FL_KEEP_SIZE.
                    _ => self.call("fallocate", vec![descriptor, "3", offset, length], 0),
                }
            }
            other => Err(format!(
                "the action '{other}' is none of add, open, close, read, write, sync, datasync, sync_file_range, trim, wait"
            )),
        }
    }

    fn call(&mut self, name: &str, args: Vec<&str>, result: i64) -> Result<(), ParseError> {
        let parsed = ParsedCall { name, args, result, thread: 0, start: self.now, duration: 0 };
        self.state.call(&parsed).map(|_| ())
    }
}
