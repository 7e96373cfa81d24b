//! Imports the text output of strace(1).

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use super::parsed_call::{ParsedCall, unquoted};
use super::state::ImportState;
use super::symbols::{errno, number};
use super::{Imported, lines};
use crate::error::RecordError;

/// Returns the working directory that `-y` shows at the beginning of a text: `AT_FDCWD</srv/work>`.
pub fn working_directory(begin: &[u8]) -> Option<Vec<u8>> {
    const MARK: &[u8] = b"AT_FDCWD<";
    let at = begin.windows(MARK.len()).position(|it| it == MARK)? + MARK.len();
    let end = begin[at..].iter().position(|it| *it == b'>')? + at;
    unquoted(&format!("\"{}\"", std::str::from_utf8(&begin[at..end]).ok()?))
        .filter(|it| it.len() > 1)
}

/// A line, split into thread, time and rest.
#[derive(Debug, PartialEq, Eq)]
struct Line<'t> {
    thread: i64,
    /// The time in nanoseconds, and true if it is relative to the previous line.
    time: Option<(u64, bool)>,
    rest: &'t str,
}

/// Converts decimal seconds to nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |it: &str| it.len() <= 12 && it.bytes().all(|it| it.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let part = format!("{part:0<9}");
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part.parse().ok()?)
}

/// Parses `12:34:56`, `12:34:56.789012`, `1700000000.123456`, or `0.000123` since the previous line.
fn time(text: &str) -> Option<(u64, bool)> {
    let mut parts = text.split(':');
    if let (Some(hours), Some(minutes), Some(seconds), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    {
        let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
        let whole = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
        return Some((
            whole.checked_mul(1_000_000_000)?.checked_add(nanoseconds(seconds)?)?,
            false,
        ));
    }
    let absolute = text.split('.').next().is_some_and(|it| it.len() > 6);
    text.contains('.').then(|| nanoseconds(text)).flatten().map(|it| (it, !absolute))
}

fn split_line(text: &str) -> Line<'_> {
    let mut it = Line { thread: 0, time: None, rest: text.trim_start() };
    if let Some((pid, rest)) = it.rest.strip_prefix("[pid").and_then(|it| it.split_once(']')) {
        if let Ok(pid) = pid.trim().parse() {
            (it.thread, it.rest) = (pid, rest.trim_start());
        }
    }
    for _ in 0..2 {
        let (first, rest) = it.rest.split_once(' ').unwrap_or((it.rest, ""));
        if it.time.is_none() && time(first).is_some() {
            it.time = time(first);
        } else if let (Ok(pid), 0, None) = (first.parse(), it.thread, it.time) {
            it.thread = pid;
        } else {
            break;
        }
        it.rest = rest.trim_start();
    }
    it
}

/// Splits the arguments of a call up to its closing parenthesis, and the rest of the line; None without the
/// parenthesis.
fn split_arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let (mut depth, mut quoted, mut shown) = (0u32, false, false);
    let (mut args, mut begin) = (Vec::new(), 0);
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' if !shown => quoted = !quoted,
            _ if quoted => {}
            b'>' if shown => shown = false,
            _ if shown => {}
            // The output of -y for a descriptor.
            b'<' if at > 0
                && (bytes[at - 1].is_ascii_digit() || text[..at].ends_with("AT_FDCWD")) =>
            {
                shown = true
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[begin..at].trim();
                if !(last.is_empty() && args.is_empty()) {
                    args.push(last);
                }
                return Some((args, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                args.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Parses the result and the duration of a call; None for a call without a result (`= ?`).
fn parse_result(text: &str) -> Result<Option<(i64, u64)>, String> {
    let text = text.trim();
    let parse_error = || format!("'{text}' is not a result");
    let value_text = text.strip_prefix('=').ok_or_else(parse_error)?.trim();
    let duration =
        value_text.rsplit_once('<').and_then(|(_, it)| it.strip_suffix('>')).and_then(nanoseconds);
    let mut words = value_text.split(' ');
    let first = words.next().unwrap_or_default();
    if first == "?" {
        return Ok(None);
    }
    let digits = first.split('<').next().unwrap_or_default();
    let value = number(digits).ok_or_else(parse_error)?;
    if value != -1 || digits.starts_with("0x") {
        return Ok(Some((value, duration.unwrap_or(0))));
    }
    let name = words.next().unwrap_or_default();
    let error = errno(name).ok_or_else(|| format!("'{name}' is not a known error"))?;
    Ok(Some((-error, duration.unwrap_or(0))))
}

/// Reads the output of strace(1).
pub fn read(
    from: impl BufRead,
    state: &mut ImportState,
    imported: &mut Imported,
) -> Result<(), RecordError> {
    let mut unfinished: HashMap<i64, (String, u64)> = HashMap::new();
    let (mut first, mut now) = (None, 0u64);
    let mut threads = Threads::default();
    lines(from, imported, |text| {
        if let Some(rest) = text.trim().strip_prefix("strace: Process ") {
            threads
                .attached
                .extend(rest.strip_suffix(" attached").and_then(|it| it.parse::<i64>().ok()));
        }
        if text.trim().is_empty() || text.starts_with("strace: ") {
            return Ok(());
        }
        let mut it = split_line(text);
        it.thread = threads.thread_of_line(it.thread, &mut unfinished, state);
        match it.time {
            Some((time, true)) => now = now.saturating_add(time),
            Some((time, false)) => now = time.saturating_sub(*first.get_or_insert(time)),
            None => now += 1,
        }
        state.timed |= it.time.is_some();
        if let Some(rest) = it.rest.strip_prefix("+++ ") {
            let code =
                rest.strip_prefix("exited with ").and_then(|it| it.split(' ').next()?.parse().ok());
            state.end_thread(it.thread, now, code.unwrap_or(-9));
            return Ok(());
        }
        if it.rest.starts_with("--- ") {
            return Ok(());
        }
        if let Some(begin) = it.rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(it.thread, (begin.trim_end().to_string(), now));
            return Ok(());
        }
        if let Some(rest) = it.rest.strip_prefix("<... ") {
            let (_, end) = rest
                .split_once(" resumed>")
                .ok_or_else(|| "'<... ' without ' resumed>'".to_string())?;
            let (begin, start) = unfinished
                .remove(&it.thread)
                .ok_or_else(|| "it resumes a call whose beginning is missing".to_string())?;
            return call(&format!("{begin}{end}"), it.thread, start, state);
        }
        call(it.rest, it.thread, now, state)
    })?;
    if !unfinished.is_empty() {
        state.note("calls that did not return", unfinished.len() as u64);
    }
    Ok(())
}

/// The threads of a text. Without `-o`, the first lines have no thread ID; later lines of the same thread may have one.
#[derive(Default)]
struct Threads {
    /// The thread ID of lines without one.
    main: i64,
    /// Threads that strace announced.
    attached: HashSet<i64>,
}

impl Threads {
    /// Returns the thread of a line. A new thread was created by a call that has not returned yet.
    fn thread_of_line(
        &mut self,
        number: i64,
        unfinished: &mut HashMap<i64, (String, u64)>,
        state: &mut ImportState,
    ) -> i64 {
        if number == 0 {
            return self.main;
        }
        if state.has_thread(number) {
            return number;
        }
        if self.main == 0 && state.has_thread(0) && !self.attached.contains(&number) {
            state.rename(0, number);
            self.main = number;
            if let Some(it) = unfinished.remove(&0) {
                unfinished.insert(number, it);
            }
            return number;
        }
        let makes = |it: &(&i64, &(String, u64))| {
            ["clone(", "clone3(", "fork(", "vfork("].iter().any(|name| it.1.0.starts_with(name))
        };
        // If several calls are possible, the one that began last.
        let parent = unfinished.iter().filter(makes).max_by_key(|it| it.1.1);
        if let Some((parent, (begin, start))) = parent {
            state.starts_early(&ParsedCall {
                name: "clone",
                args: vec![begin.as_str()],
                result: number,
                thread: *parent,
                start: *start,
                duration: 0,
            });
        }
        number
    }
}

fn call(text: &str, thread: i64, start: u64, state: &mut ImportState) -> Result<(), String> {
    let (name, rest) = text.split_once('(').ok_or_else(|| "it is not a call".to_string())?;
    let is_name =
        |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    if !is_name(name) {
        return Err(format!("'{name}' is not the name of a call"));
    }
    let (args, rest) = split_arguments(rest)
        .ok_or_else(|| "the arguments have no closing parenthesis".to_string())?;
    let Some((result, duration)) = parse_result(rest)? else { return Ok(()) };
    // strace prints '?' for results after which the kernel restarts a call.
    state.call(&ParsedCall { name, args, result, thread, start, duration }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_threads_and_times_in_all_forms() {
        let split = |text| {
            let it = split_line(text);
            (it.thread, it.time, it.rest)
        };
        assert_eq!(split("close(3) = 0"), (0, None, "close(3) = 0"));
        assert_eq!(split("[pid  12] close(3) = 0"), (12, None, "close(3) = 0"));
        assert_eq!(split("12  close(3) = 0"), (12, None, "close(3) = 0"));
        let time = Some((3_723_500_000_000, false));
        assert_eq!(split("12  01:02:03.5 close(3) = 0"), (12, time, "close(3) = 0"));
        let time = Some((1_700_000_000_000_001_000, false));
        assert_eq!(split("1700000000.000001 close(3) = 0"), (0, time, "close(3) = 0"));
        assert_eq!(split("     0.000012 close(3) = 0"), (0, Some((12_000, true)), "close(3) = 0"));
    }

    #[test]
    fn an_impossible_time_is_no_time() {
        let (max, half) = (u64::MAX, u64::MAX / 2);
        for clock in [format!("{half}:00:00"), format!("0:{max}:1"), format!("{}:0:0", max / 3600)]
        {
            assert_eq!(time(&clock), None, "{clock}");
        }
    }

    #[test]
    fn arguments_are_split_at_commas_outside_strings_and_structures() {
        let (args, rest) =
            split_arguments(r#"3</a,b(>, "x\",)", {a=1, b=[2, 3]}, 0) = 0"#).unwrap();
        assert_eq!(args, ["3</a,b(>", r#""x\",)""#, "{a=1, b=[2, 3]}", "0"]);
        assert_eq!(rest, " = 0");
        assert!(split_arguments("3, \"x").is_none());
    }

    #[test]
    fn results_are_numbers_descriptors_and_errors() {
        assert_eq!(parse_result(" = 3</etc/passwd> <0.000012>"), Ok(Some((3, 12_000))));
        assert_eq!(parse_result(" = -1 ENOENT (No such file or directory)"), Ok(Some((-2, 0))));
        assert_eq!(parse_result(" = ?"), Ok(None));
        assert_eq!(parse_result(" = 0x7f0000000000"), Ok(Some((0x7f00_0000_0000, 0))));
        assert!(parse_result(" = -1 EWHAT").is_err());
    }
}
