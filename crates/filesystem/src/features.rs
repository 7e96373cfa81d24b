//! Parses the features in effect from the output of a tool about a file system.

use std::collections::BTreeMap;

/// Returns the values of `keys` in the output of dumpe2fs, mkfs.btrfs, debugreiserfs, jfs_tune or mkfs.xfs.
///
/// A key is the beginning of a line, up to a colon, an equals sign or a blank: `Inode size` finds
/// `Inode size:  256`. In the geometry that the XFS tools print, where a line has a section and many
/// `name=value`, a key is section and name: `log blocks` finds 16384 in
/// `log =internal log bsize=4096 blocks=16384, version=2` and in the lines that continue it.
/// The first line that matches a key counts; keys without a match are omitted.
pub fn features(output: &str, keys: &[String]) -> BTreeMap<String, String> {
    let geometry = geometry(output);
    let mut found = BTreeMap::new();
    for key in keys {
        let value = output.lines().find_map(|line| after_key(line, key));
        if let Some(value) = geometry.get(key.as_str()).cloned().or(value) {
            found.insert(key.clone(), value);
        }
    }
    found
}

/// Returns the size in bytes of the journal in use: the product of the leading numbers of these features (`8193 blocks`
/// is 8193). `journal: KEY`, a feature of a journal on a second disk, takes precedence over the file system's own
/// `KEY`. `None` if one of them is missing, not a number, or 0.
pub fn journal_bytes(found: &BTreeMap<String, String>, keys: &[String]) -> Option<u64> {
    let number = |key: &String| -> Option<u64> {
        let text = found.get(&format!("journal: {key}")).or_else(|| found.get(key))?;
        text.split(' ').next()?.parse().ok()
    };
    let product = keys
        .iter()
        .map(number)
        .try_fold(1u64, |product, number| number.and_then(|number| product.checked_mul(number)));
    product.filter(|product| !keys.is_empty() && *product > 0)
}

/// Returns the rest of a line that begins with the key, with single blanks.
fn after_key(line: &str, key: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix(key)?;
    let value = rest.trim_start_matches([':', '=', ' ', '\t']);
    let ends = rest.is_empty() || value.len() < rest.len();
    ends.then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns `section name` → value for each `name=value` in lines of the form `section =word name=value ...`, where an
/// empty section continues the previous one.
fn geometry(output: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut section = "";
    for line in output.lines() {
        let Some((name, pairs)) = line.split_once('=') else { continue };
        if !name.trim().is_empty() {
            section = name.trim();
        }
        for pair in pairs.split_whitespace() {
            if let Some((name, value)) = pair.trim_end_matches(',').split_once('=') {
                found.entry(format!("{section} {name}")).or_insert_with(|| value.to_string());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(output: &str, keys: &[&str]) -> Vec<(String, String)> {
        let keys: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        features(output, &keys).into_iter().collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_string(), value.to_string())
    }

    #[test]
    fn inode_size_and_journal_size_are_read_from_dumpe2fs() {
        let output = "Filesystem features:      has_journal dir_index\n\
                      Inode size:\t          256\nTotal journal size:       32M\n\
                      Total journal blocks:     8192\n";
        assert_eq!(
            picked(output, &["Inode size", "Total journal size", "Filesystem features", "Inode"]),
            [
                pair("Filesystem features", "has_journal dir_index"),
                pair("Inode", "size: 256"),
                pair("Inode size", "256"),
                pair("Total journal size", "32M"),
            ]
        );
    }

    #[test]
    fn xfs_geometry_is_read_by_section_and_name() {
        let output = "\
meta-data=x.img                  isize=512    agcount=4, agsize=32768 blks
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
data     =                       bsize=4096   blocks=131072, imaxpct=25
log      =internal log           bsize=4096   blocks=16384, version=2
         =                       sectsz=512   sunit=0 blks, lazy-count=1
";
        assert_eq!(
            picked(output, &["meta-data crc", "data blocks", "log blocks", "log lazy-count"]),
            [
                pair("data blocks", "131072"),
                pair("log blocks", "16384"),
                pair("log lazy-count", "1"),
                pair("meta-data crc", "1"),
            ]
        );
    }

    #[test]
    fn the_journals_size_is_computed_from_the_features() {
        let found = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| pair(key, value)).collect()
        };
        let keys = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
        let reiserfs =
            found(&[("Size", "8193 blocks (including 1 for the header)"), ("B", "4096")]);
        assert_eq!(journal_bytes(&reiserfs, &keys("Size,B")), Some(8193 * 4096));
        let outer = found(&[("B", "1024"), ("journal: N", "16384"), ("journal: B", "4096")]);
        assert_eq!(journal_bytes(&outer, &keys("N,B")), Some(64 << 20));
        for none in ["Size,nothing", ""] {
            assert_eq!(journal_bytes(&reiserfs, &keys(none)), None, "{none}");
        }
        assert_eq!(journal_bytes(&found(&[("N", "0"), ("B", "4096")]), &keys("N,B")), None);
        assert_eq!(journal_bytes(&outer, &[]), None);
    }

    #[test]
    fn a_key_matches_whole_words_and_missing_keys_are_omitted() {
        assert_eq!(picked("Inode sizes: 1\n", &["Inode size", "Block size"]), []);
        assert_eq!(
            picked("\tSize 8193 blocks (x)\n", &["Size"]),
            [pair("Size", "8193 blocks (x)")]
        );
    }
}
