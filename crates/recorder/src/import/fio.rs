//! Logs of `fio --write_iolog`.

use std::collections::HashMap;
use std::io::BufRead;

use super::said::Said;
use super::world::World;
use super::{Imported, lines};
use crate::error::RecordError;

/// Reads a log of a version.
pub fn read(
    from: impl BufRead,
    version: u32,
    world: &mut World,
    imported: &mut Imported,
) -> Result<(), RecordError> {
    let mut first = true;
    // Descriptors by name.
    let mut open: HashMap<String, i64> = HashMap::new();
    let mut ends: HashMap<String, u64> = HashMap::new();
    let (mut next, mut now) = (3, 0u64);
    world.timed = true;
    lines(from, imported, |text| {
        if std::mem::take(&mut first) {
            let wanted = format!("fio version {version} iolog");
            if text.trim() != wanted {
                return Err(format!("it is '{text}', not '{wanted}'"));
            }
            return Ok(());
        }
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Ok(());
        }
        if version == 3 {
            // Microseconds since the start.
            let time: u64 = words[0].parse().map_err(|_| format!("'{}' is no time", words[0]))?;
            now = time.saturating_mul(1000);
            words.remove(0);
        } else {
            now += 1;
        }
        let number = |at: usize| -> Result<&str, String> {
            let word = words.get(at).ok_or_else(|| "offset and length are missing".to_string())?;
            word.parse::<i64>().map_err(|_| format!("'{word}' is no number"))?;
            Ok(word)
        };
        let [name, action, ..] = words[..] else {
            return Err("it has no file and action".into());
        };
        if name.contains(['"', '\\']) {
            return Err(format!("the name {name} has characters that are not supported"));
        }
        let path = format!("\"{name}\"");
        let mut said = |name, args: Vec<&str>, result| {
            world.call(&Said { name, args, result, thread: 0, start: now, duration: 0 }).map(|_| ())
        };
        if action == "wait" {
            now = now.saturating_add(number(2)?.parse::<u64>().unwrap_or(0).saturating_mul(1000));
            return Ok(());
        }
        if action == "add" {
            return Ok(());
        }
        if action == "open" {
            next += 1;
            open.insert(name.to_string(), next);
            said("open", vec![&path, "O_RDWR"], next)?;
            return Ok(());
        }
        let descriptor = match open.get(name) {
            Some(known) => known.to_string(),
            None => return Err(format!("'{name}' is not open")),
        };
        match action {
            "close" => {
                open.remove(name);
                said("close", vec![&descriptor], 0)
            }
            "sync" => said("fsync", vec![&descriptor], 0),
            "datasync" => said("fdatasync", vec![&descriptor], 0),
            "sync_file_range" => {
                said("sync_file_range", vec![&descriptor, number(2)?, number(3)?, "0"], 0)
            }
            "read" | "write" | "trim" => {
                let (offset, length) = (number(2)?, number(3)?);
                let moved = length.parse::<i64>().unwrap_or(0);
                let Some(begin) = offset.parse::<u64>().ok().filter(|_| moved >= 0) else {
                    return Err("offset and length must not be negative".into());
                };
                let end = ends.entry(name.to_string()).or_default();
                *end = (*end).max(begin.saturating_add(moved as u64));
                match action {
                    "read" => said("pread64", vec![&descriptor, "0", length, offset], moved),
                    "write" => said("pwrite64", vec![&descriptor, "0", length, offset], moved),
                    // FALLOC_FL_PUNCH_HOLE needs FALLOC_FL_KEEP_SIZE.
                    _ => said("fallocate", vec![&descriptor, "3", offset, length], 0),
                }
            }
            other => Err(format!(
                "the action '{other}' is none of add, open, close, read, write, sync, datasync, sync_file_range, trim, wait"
            )),
        }
    })?;
    // fio lays its files out before.
    ends.into_iter().for_each(|(name, end)| world.at_least(name.as_bytes(), end));
    Ok(())
}
