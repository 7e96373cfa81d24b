//! Checks that a phase made the calls that its workload predicts, kind by kind.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::OpKind;

type Counts = BTreeMap<OpKind, u64>;

/// Compares the calls made with those that the workload predicts, by kind.
///
/// Three numbers depend on the file system and may differ. One is the number of getdents64(2) calls per directory. The
/// other two differ only if the phase `removes` trees whose names it does not know (see [`crate::scan`]): how often a
/// directory had to be emptied again because names were skipped while others were removed, with one more open, close
/// and rmdir each time; and how many removed entries took a call for their status, because getdents64(2) did not return
/// their type.
///
/// # Errors
/// The first kind with an unexpected number of calls, with both numbers.
pub fn compare(counted: &Counts, expected: &Counts, removes: bool) -> Result<(), String> {
    let count_of = |counts: &Counts, kind| counts.get(&kind).copied().unwrap_or(0);
    let removed = count_of(counted, OpKind::Unlink) + count_of(counted, OpKind::Rmdir);
    let extra_passes = match removes {
        true => count_of(counted, OpKind::Rmdir).saturating_sub(count_of(expected, OpKind::Rmdir)),
        false => 0,
    };
    let kinds: BTreeSet<OpKind> = counted.keys().chain(expected.keys()).copied().collect();
    for kind in kinds.into_iter().filter(|kind| *kind != OpKind::Readdir) {
        let (actual, expected_count) = (count_of(counted, kind), count_of(expected, kind));
        let is_expected = match kind {
            OpKind::Open | OpKind::Close | OpKind::Rmdir => actual == expected_count + extra_passes,
            OpKind::Stat if removes => {
                (expected_count..=expected_count + removed).contains(&actual)
            }
            _ => actual == expected_count,
        };
        if !is_expected {
            return Err(format!(
                "{actual} {kind} calls were made, but {expected_count} were expected"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<const N: usize>(counts: [(OpKind, u64); N]) -> Counts {
        counts.into()
    }

    #[test]
    fn one_call_more_or_less_is_an_error_and_calls_that_read_directories_are_ignored() {
        let expected = counts([(OpKind::Create, 3), (OpKind::Close, 4)]);
        let counts_with = |create, close| {
            counts([(OpKind::Create, create), (OpKind::Close, close), (OpKind::Readdir, 9)])
        };
        assert_eq!(compare(&counts_with(3, 4), &expected, false), Ok(()));
        let message = compare(&counts_with(2, 4), &expected, false).unwrap_err();
        assert_eq!(message, "2 create calls were made, but 3 were expected");
        assert!(compare(&counts_with(3, 5), &expected, false).is_err());
        assert!(compare(&counts([(OpKind::Unlink, 1)]), &counts([]), false).is_err());
        assert!(compare(&counts([]), &counts([(OpKind::Unlink, 1)]), false).is_err());
    }

    #[test]
    fn a_directory_that_was_emptied_again_is_tolerated_with_all_its_calls() {
        let expected = counts([(OpKind::Open, 2), (OpKind::Close, 2), (OpKind::Rmdir, 2)]);
        let counts_with = |open, close, rmdir| {
            counts([(OpKind::Open, open), (OpKind::Close, close), (OpKind::Rmdir, rmdir)])
        };
        assert_eq!(compare(&counts_with(5, 5, 5), &expected, true), Ok(()));
        assert!(compare(&counts_with(5, 5, 4), &expected, true).is_err());
        assert!(compare(&counts_with(2, 2, 1), &expected, true).is_err());
        assert!(compare(&counts_with(5, 5, 5), &expected, false).is_err(), "where names are known");
    }

    #[test]
    fn a_status_call_for_each_removed_entry_is_tolerated_and_no_more() {
        let expected = counts([(OpKind::Unlink, 7), (OpKind::Rmdir, 1)]);
        let counts_with =
            |stats| counts([(OpKind::Unlink, 7), (OpKind::Rmdir, 1), (OpKind::Stat, stats)]);
        assert_eq!(compare(&counts_with(7), &expected, true), Ok(()));
        assert!(compare(&counts_with(9), &expected, true).is_err());
        let message = compare(&counts_with(7), &expected, false).unwrap_err();
        assert_eq!(message, "7 stat calls were made, but 0 were expected", "names are known");
    }
}
