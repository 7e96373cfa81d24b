//! One colour for each kind of file system, the same in every chart and every report.

/// The palette of Okabe and Ito ("Color Universal Design", 2008), which people with any of the
/// common colour vision deficiencies can tell apart; black gives way to grey, which shows on a
/// dark page too.
const PALETTE: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#8a8a8a"];

/// Kinds with a colour of their own, as indices into the palette.
const KINDS: &[(&str, usize)] = &[
    ("ext4", 0),
    ("xfs", 1),
    ("btrfs", 2),
    ("reiserfs", 3),
    ("jfs", 4),
    ("ext3", 5),
    ("f2fs", 6),
    ("ext2", 7),
];

/// The colour of a kind of file system; an unknown kind gets one by its name, always the same.
pub fn of(kind: &str) -> &'static str {
    let known = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, index)| *index);
    let by_name = || kind.bytes().fold(7usize, |hash, byte| hash * 31 % 8191 + byte as usize);
    PALETTE[known.unwrap_or_else(by_name) % PALETTE.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_the_catalog_differ_and_a_stranger_keeps_its_colour() {
        let colours: std::collections::BTreeSet<_> = KINDS.iter().map(|(k, _)| of(k)).collect();
        assert_eq!(colours.len(), KINDS.len());
        assert_eq!(of("nilfs2"), of("nilfs2"));
    }
}
