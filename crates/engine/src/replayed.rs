//! Judges the results of replayed calls against the recorded ones.

use fsdyno_record::OpKind;
use fsdyno_workload::differences::Example;
use fsdyno_workload::{Differences, Recording};

use crate::errno::Errno;

/// Maximum number of notes on differences, one for each kind.
const MAX_NOTES: usize = 20;

/// Errors that report that a file system does not support a call or its arguments.
const NOT_SUPPORTED: &[u16] = &[
    libc::EOPNOTSUPP as u16,
    libc::ENOTTY as u16,
    libc::EINVAL as u16,
    libc::ENOSYS as u16,
    libc::EXDEV as u16,
];

/// Calls that a file system need not support.
const OPTIONAL: &[OpKind] = &[
    OpKind::Fallocate,
    OpKind::CopyRange,
    OpKind::Setxattr,
    OpKind::Getxattr,
    OpKind::Listxattr,
    OpKind::Removexattr,
    OpKind::Fadvise,
    OpKind::SyncRange,
];

/// Returns true if a file system other than the recording's may return this result.
fn is_tolerated(kind: OpKind, expected: u16, found: u16) -> bool {
    let attribute = matches!(kind, OpKind::Getxattr | OpKind::Listxattr | OpKind::Removexattr);
    let no_attribute = |code| code == libc::ENODATA as u16 || NOT_SUPPORTED.contains(&code);
    OPTIONAL.contains(&kind)
        && (NOT_SUPPORTED.contains(&found)
            || attribute && no_attribute(expected) && (found == 0 || no_attribute(found)))
}

/// Describes the differences of a phase on a file system of the type `mount_type`, and the reason why they fail the
/// trial, if any. On the recording's file system, every difference fails the trial; on a different one, only those
/// that are not tolerated.
pub fn judge(
    differences: &Differences,
    recording: &Recording,
    mount_type: &str,
) -> (Vec<String>, Option<String>) {
    let is_same_type = recording.file_system == mount_type;
    let (mut notes, mut fatal, mut first) = (Vec::new(), 0, None);
    for (kind, expected, found, difference) in differences.rows() {
        let examples: Vec<String> = difference.examples.iter().map(show_example).collect();
        let tolerated = !is_same_type && is_tolerated(kind, expected, found);
        let text = format!(
            "{} {kind} calls returned {} where the recording has {}: {}{}",
            difference.count,
            show(found),
            show(expected),
            examples.join(", "),
            if tolerated {
                "; tolerated, because the recording is from another file system"
            } else {
                ""
            }
        );
        if !tolerated {
            fatal += difference.count;
            first.get_or_insert_with(|| text.clone());
        }
        notes.push(text);
    }
    let omitted = notes.len().saturating_sub(MAX_NOTES);
    notes.truncate(MAX_NOTES);
    if omitted > 0 {
        notes.push(format!("and {omitted} further kinds of difference"));
    }
    if differences.count() == 0 {
        notes.push("every replayed call had the recorded result".to_string());
    }
    let reason = first.filter(|_| recording.strict).map(|first| {
        format!("{fatal} replayed calls returned a result other than the recorded one; {first}")
    });
    (notes, reason)
}

fn show(code: u16) -> String {
    match code {
        0 => "success".to_string(),
        code => Errno(i32::from(code)).to_string(),
    }
}

fn show_example(example: &Example) -> String {
    let numbers = match (example.expected, example.found) {
        (Some(expected), Some(found)) => format!(" ({found}, not {expected})"),
        _ => String::new(),
    };
    format!("'{}'{numbers}", example.name.escape_debug())
}

#[cfg(test)]
mod tests {
    use fsdyno_workload::{Call, DirSlot, Expect, FileSlot, Op, RareCall};

    use super::*;

    fn recording() -> Recording {
        Recording { file_system: "ext4".into(), strict: true, ..Recording::default() }
    }

    fn count_differences(call: Call, result: i64) -> Differences {
        let mut differences = Differences::default();
        let op = Op { call, expect: Expect::Success, ..Op::default() };
        differences.add(&op, result, 1);
        differences
    }

    #[test]
    fn a_call_that_another_file_system_lacks_is_listed_and_fails_on_the_recordings_own() {
        let call = RareCall::Fadvise {
            file: FileSlot(1),
            offset: 0,
            length: 0,
            advice: fsdyno_workload::Advice::Normal,
        };
        let differences = count_differences(Call::Rare(call), -i64::from(libc::EOPNOTSUPP));
        let (notes, failed) = judge(&differences, &recording(), "xfs");
        assert!(
            failed.is_none() && notes[0].ends_with("the recording is from another file system"),
            "{notes:?}"
        );
        let (_, failed) = judge(&differences, &recording(), "ext4");
        assert!(
            failed
                .unwrap()
                .starts_with("1 replayed calls returned a result other than the recorded one")
        );
    }

    #[test]
    fn a_missing_name_fails_on_every_file_system_unless_the_order_is_free() {
        let differences = count_differences(Call::Unlink { dir: DirSlot::ROOT }, -2);
        let (_, failed) = judge(&differences, &recording(), "xfs");
        assert!(failed.unwrap().contains("returned No such file or directory (ENOENT)"));
        let free = Recording { strict: false, ..recording() };
        let (notes, failed) = judge(&differences, &free, "ext4");
        assert!(failed.is_none() && notes.len() == 1);
    }
}
