//! Imports the text output of babeltrace(1) for system calls that LTTng traced: one line each for the start and end of
//! a call.

use std::collections::HashMap;
use std::io::BufRead;

use super::parsed_call::ParsedCall;
use super::state::ImportState;
use super::{Imported, lines};
use crate::error::RecordError;

/// The fields of each call in the order of its arguments. `0` denotes an argument that the text does not have.
const FIELDS: &[(&str, &[&str])] = &[
    ("open", &["filename", "flags", "mode"]),
    ("openat", &["dfd", "filename", "flags", "mode"]),
    ("creat", &["pathname", "mode"]),
    ("close", &["fd"]),
    ("read", &["fd", "0", "count"]),
    ("write", &["fd", "0", "count"]),
    ("pread64", &["fd", "0", "count", "pos"]),
    ("pwrite64", &["fd", "0", "count", "pos"]),
    ("lseek", &["fd", "offset", "whence"]),
    ("fsync", &["fd"]),
    ("fdatasync", &["fd"]),
    ("newstat", &["filename"]),
    ("newlstat", &["filename"]),
    ("newfstat", &["fd"]),
    ("newfstatat", &["dfd", "filename", "0", "flag"]),
    ("statx", &["dfd", "filename", "flags"]),
    ("access", &["filename", "mode"]),
    ("faccessat", &["dfd", "filename", "mode"]),
    ("faccessat2", &["dfd", "filename", "mode"]),
    ("readlink", &["path", "0", "bufsiz"]),
    ("readlinkat", &["dfd", "pathname", "0", "bufsiz"]),
    ("getdents", &["fd", "0", "count"]),
    ("getdents64", &["fd", "0", "count"]),
    ("mkdir", &["pathname", "mode"]),
    ("mkdirat", &["dfd", "pathname", "mode"]),
    ("rmdir", &["pathname"]),
    ("unlink", &["pathname"]),
    ("unlinkat", &["dfd", "pathname", "flag"]),
    ("rename", &["oldname", "newname"]),
    ("renameat", &["olddfd", "oldname", "newdfd", "newname"]),
    ("renameat2", &["olddfd", "oldname", "newdfd", "newname", "flags"]),
    ("link", &["oldname", "newname"]),
    ("linkat", &["olddfd", "oldname", "newdfd", "newname", "flags"]),
    ("symlink", &["oldname", "newname"]),
    ("symlinkat", &["oldname", "newdfd", "newname"]),
    ("truncate", &["path", "length"]),
    ("ftruncate", &["fd", "length"]),
    ("fallocate", &["fd", "mode", "offset", "len"]),
    ("chmod", &["filename", "mode"]),
    ("fchmod", &["fd", "mode"]),
    ("fchmodat", &["dfd", "filename", "mode"]),
    ("chdir", &["filename"]),
    ("fchdir", &["fd"]),
    ("dup", &["fildes"]),
    ("dup2", &["oldfd"]),
    ("dup3", &["oldfd", "newfd", "flags"]),
    ("fcntl", &["fd", "cmd", "arg"]),
    ("flock", &["fd", "cmd"]),
    ("statfs", &["pathname"]),
    ("fstatfs", &["fd"]),
    ("execve", &["filename"]),
    ("clone", &["clone_flags"]),
    ("fork", &[]),
    ("vfork", &[]),
];

/// A call that has not yet returned.
struct OpenCall {
    name: String,
    args: Vec<String>,
    start: u64,
}

/// Returns the value of a field `NAME = VALUE` in the groups in braces. For flags with names, returns the number.
fn field(text: &str, name: &str) -> Option<String> {
    let prefix = format!(" {name} = ");
    let value = &text[text.find(&prefix)? + prefix.len()..];
    if let Some(inner) = value.strip_prefix('"') {
        let bytes = inner.as_bytes();
        let mut at = 0;
        while *bytes.get(at)? != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        return Some(value.get(..at + 2)?.to_string());
    }
    if value.starts_with('(') {
        let container = value.split_once("container = ")?.1;
        return Some(container[..container.find([' ', ')', '}'])?].to_string());
    }
    Some(value[..value.find([',', ' ', '}']).unwrap_or(value.len())].to_string())
}

/// Converts `[12:34:56.123456789]` to nanoseconds.
fn time(text: &str) -> Option<u64> {
    let inner = text.strip_prefix('[')?.split_once(']')?.0;
    let (clock, part) = inner.rsplit_once('.')?;
    let mut seconds = 0u64;
    // A date may precede the time.
    for digits in clock.rsplit(' ').next()?.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(digits.parse().ok()?)?;
    }
    let part: u64 = (part.len() == 9).then(|| part.parse().ok()).flatten()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(part)
}

/// Reads the output of babeltrace(1).
pub fn read(
    from: impl BufRead,
    state: &mut ImportState,
    imported: &mut Imported,
) -> Result<(), RecordError> {
    let mut open_calls: HashMap<i64, OpenCall> = HashMap::new();
    let mut first = None;
    state.timed = true;
    lines(from, imported, |text| {
        let (_, rest) = match text.split_once(" syscall_") {
            Some(parts) => parts,
            // Other events of the kernel.
            None if text.starts_with('[') || text.trim().is_empty() => return Ok(()),
            None => return Err("it does not begin with a time in brackets".into()),
        };
        let time = time(text)
            .ok_or_else(|| "its time is not of the form [12:34:56.123456789]".to_string())?;
        let now = time.saturating_sub(*first.get_or_insert(time));
        let (event, fields) =
            rest.split_once(": ").ok_or_else(|| "it has no fields".to_string())?;
        let thread = field(fields, "vtid").or_else(|| field(fields, "tid"));
        let thread = thread.and_then(|it| it.parse().ok());
        // Without the context vtid or tid, all threads of a processor are treated as one.
        let thread: i64 = thread.or_else(|| field(fields, "cpu_id")?.parse().ok()).unwrap_or(0);
        if let Some(name) = event.strip_prefix("entry_") {
            let Some((_, names)) = FIELDS.iter().find(|it| it.0 == name) else {
                open_calls.remove(&thread);
                return Ok(());
            };
            let args = names.iter().map(|name| match *name {
                "0" => Ok("0".to_string()),
                "clone_flags" => Ok(format!("flags={}", field(fields, name).unwrap_or_default())),
                name => field(fields, name).ok_or_else(|| format!("the field {name} is missing")),
            });
            let args = args.collect::<Result<Vec<String>, String>>()?;
            open_calls.insert(thread, OpenCall { name: name.into(), args, start: now });
            return Ok(());
        }
        let Some(name) = event.strip_prefix("exit_") else { return Ok(()) };
        let Some(it) = open_calls.remove(&thread).filter(|it| it.name == name) else {
            return Ok(());
        };
        let result = field(fields, "ret").and_then(|it| it.parse().ok());
        let result: i64 = result.ok_or_else(|| "it has no field ret".to_string())?;
        let args =
            it.args.iter().map(|text| if text == "-100" { "AT_FDCWD" } else { text.as_str() });
        let name =
            it.name.strip_prefix("new").filter(|it| it.ends_with("stat")).unwrap_or(&it.name);
        let (args, start, duration) = (args.collect(), it.start, now.saturating_sub(it.start));
        state.call(&ParsedCall { name, args, result, thread, start, duration }).map(|_| ())
    })?;
    if !open_calls.is_empty() {
        state.note("calls that did not return", open_calls.len() as u64);
    }
    Ok(())
}
