//! Compares versions of tools and kernels number by number.

/// Reports whether the version in a line such as `mke2fs 1.47.0 (5-Feb-2023)` or `btrfs-progs v6.2`
/// is `wanted` or later. A line without a version counts as too old.
pub(crate) fn at_least(line: &str, wanted: &str) -> bool {
    match (find(line), find(wanted)) {
        (Some(have), Some(want)) => have >= want,
        _ => false,
    }
}

/// Reports whether a kernel release belongs to a later series than `last`; 6.12.38 is in series 6.12.
pub(crate) fn later_series(release: &str, last: &str) -> bool {
    match (find(release), find(last)) {
        (Some(have), Some(last)) => have.iter().take(last.len()).gt(last.iter()),
        _ => false,
    }
}

/// Finds the first word that begins with a digit, after an optional `v`, and contains a dot.
fn find(line: &str) -> Option<Vec<u64>> {
    line.split(|c: char| c.is_whitespace() || "(),;".contains(c))
        .map(|word| word.strip_prefix('v').unwrap_or(word))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(numbers)
}

/// Parses the numbers up to the first character that is neither digit nor dot: `6.1.0-56-amd64` gives
/// 6, 1. Trailing zeros are dropped, so that 6.13 and 6.13.0 are equal.
fn numbers(word: &str) -> Vec<u64> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let mut numbers: Vec<u64> = word[..end].split('.').map_while(|n| n.parse().ok()).collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_the_output_of_the_tools() {
        for line in [
            "mke2fs 1.47.0 (5-Feb-2023)",
            "mkfs.btrfs, part of btrfs-progs v1.47",
            "1.47.2",
            "mkfs.xfs version 6.1.0",
        ] {
            assert!(at_least(line, "1.47.0"), "{line}");
        }
        for line in ["mke2fs 1.46.5 (30-Dec-2021)", "mke2fs", "", "1.9"] {
            assert!(!at_least(line, "1.47.0"), "{line}");
        }
    }

    #[test]
    fn kernels_are_compared_by_number_and_not_by_letter() {
        assert!(at_least("6.13-rc1", "6.13.0"));
        assert!(!at_least("6.1.0-56-amd64", "6.13"));
        assert!(at_least("10.0.1", "6.13"));
        assert!(later_series("6.13.0-rc1", "6.12") && later_series("7.0", "6.12"));
        assert!(!later_series("6.12.38+deb12", "6.12") && !later_series("5.10.0-9", "6.12"));
    }
}
