//! Mount options: their names, and their split into the flags of mount(2) and data for the file system.

/// A mount option that mount(2) takes as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name after `mount -o`.
    pub name: &'static str,
    /// Its MS_* bits (include/uapi/linux/mount.h).
    pub bits: u64,
    /// True if the option sets these bits, false if it clears them.
    pub sets: bool,
}

/// Bits of an option that changes no flag because it is the default.
const NO_BITS: u64 = 0;

/// All flags, as mount(8) of util-linux 2.38 names them; each option is followed by its opposite, if any.
pub const FLAGS: &[Flag] = &[
    flag("defaults", NO_BITS, true),
    flag("ro", 1, true),
    flag("rw", 1, false),
    flag("nosuid", 1 << 1, true),
    flag("suid", 1 << 1, false),
    flag("nodev", 1 << 2, true),
    flag("dev", 1 << 2, false),
    flag("noexec", 1 << 3, true),
    flag("exec", 1 << 3, false),
    flag("sync", 1 << 4, true),
    flag("async", 1 << 4, false),
    flag("mand", 1 << 6, true),
    flag("nomand", 1 << 6, false),
    flag("dirsync", 1 << 7, true),
    flag("nosymfollow", 1 << 8, true),
    flag("symfollow", 1 << 8, false),
    flag("noatime", 1 << 10, true),
    flag("atime", 1 << 10, false),
    flag("nodiratime", 1 << 11, true),
    flag("diratime", 1 << 11, false),
    flag("silent", 1 << 15, true),
    flag("loud", 1 << 15, false),
    flag("relatime", 1 << 21, true),
    flag("norelatime", 1 << 21, false),
    flag("iversion", 1 << 23, true),
    flag("noiversion", 1 << 23, false),
    flag("strictatime", 1 << 24, true),
    flag("nostrictatime", 1 << 24, false),
    flag("lazytime", 1 << 25, true),
    flag("nolazytime", 1 << 25, false),
];

const fn flag(name: &'static str, bits: u64, sets: bool) -> Flag {
    Flag { name, bits, sets }
}

/// An error in mount options; the message completes "failed to read the spec '...': ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountOptionError {
    /// Two commas in a row, or one at an end.
    #[error("an empty mount option")]
    Empty,
    /// An unmatched double quote.
    #[error("a double quote in the mount options is never closed")]
    OpenQuote,
}

/// Returns the flag with this name.
pub fn find_flag(name: &str) -> Option<Flag> {
    FLAGS.iter().find(|flag| flag.name == name).copied()
}

/// Mutually exclusive options that determine when access times are written.
const ACCESS_TIMES: &[&str] =
    &["atime", "noatime", "relatime", "norelatime", "strictatime", "nostrictatime"];

/// Returns true if two mount options control the same setting, so that they exclude each other: `barrier=0` and
/// `nobarrier`, `data=ordered` and `data=journal`, `strictatime` and `noatime`.
pub fn same_setting(a: &str, b: &str) -> bool {
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_string();
    let (a, b) = (name(a), name(b));
    let both_access_times =
        ACCESS_TIMES.contains(&a.as_str()) && ACCESS_TIMES.contains(&b.as_str());
    let opposite = |a: &str, b: &str| a.strip_prefix("no") == Some(b);
    both_access_times || a == b || opposite(&a, &b) || opposite(&b, &a)
}

/// Splits comma-separated mount options; a comma inside double quotes does not separate.
///
/// # Errors
/// [`MountOptionError`].
pub fn items(options: &str) -> Result<Vec<String>, MountOptionError> {
    let mut items = vec![String::new()];
    let mut quoted = false;
    for c in options.chars() {
        quoted ^= c == '"';
        match (c, items.last_mut()) {
            (',', _) if !quoted => items.push(String::new()),
            (_, Some(item)) => item.push(c),
            (_, None) => {}
        }
    }
    if quoted {
        return Err(MountOptionError::OpenQuote);
    }
    if items.iter().any(String::is_empty) {
        return Err(MountOptionError::Empty);
    }
    Ok(items)
}

/// Splits mount options into the flags of mount(2), in the given order, and its data string.
///
/// # Errors
/// [`MountOptionError`]; an empty string is not an error.
pub fn split(options: &str) -> Result<(Vec<Flag>, String), MountOptionError> {
    let items = if options.is_empty() { Vec::new() } else { items(options)? };
    let mut flags = Vec::new();
    let mut data = Vec::new();
    for item in items {
        match find_flag(&item) {
            Some(flag) => flags.push(flag),
            None => data.push(item),
        }
    }
    Ok((flags, data.join(",")))
}

/// Returns the MS_* bits of these flags; the later of two opposites wins, as in mount(8).
pub fn bits(flags: &[Flag]) -> u64 {
    flags.iter().fold(0, |bits, flag| if flag.sets { bits | flag.bits } else { bits & !flag.bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_separated_from_data() {
        let (flags, data) = split("data=writeback,noatime,commit=30,nodev").unwrap();
        assert_eq!(bits(&flags), 1 << 10 | 1 << 2);
        assert_eq!(data, "data=writeback,commit=30");
        assert_eq!(split("").unwrap(), (vec![], String::new()));
    }

    #[test]
    fn the_later_of_two_opposites_wins() {
        assert_eq!(bits(&split("noatime,atime").unwrap().0), 0);
        assert_eq!(bits(&split("rw,ro").unwrap().0), 1);
        assert_eq!(bits(&split("defaults").unwrap().0), 0);
    }

    #[test]
    fn options_control_one_setting_by_equal_names_the_prefix_no_or_access_times() {
        for (a, b) in [
            ("barrier=0", "nobarrier"),
            ("data=ordered", "data=journal"),
            ("strictatime", "noatime"),
            ("nodelalloc", "delalloc"),
        ] {
            assert!(same_setting(a, b) && same_setting(b, a), "{a} {b}");
        }
        for (a, b) in [("barrier=0", "data=journal"), ("noatime", "nodiratime"), ("notail", "t")] {
            assert!(!same_setting(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_quoted_comma_does_not_separate_and_an_open_quote_is_an_error() {
        assert_eq!(split(r#"context="a,b",ro"#).unwrap().1, r#"context="a,b""#);
        assert_eq!(split(r#"context="a"#), Err(MountOptionError::OpenQuote));
        for empty in [",", "a,", ",a", "a,,b"] {
            assert_eq!(split(empty), Err(MountOptionError::Empty), "{empty}");
        }
    }

    #[test]
    fn an_option_that_only_starts_like_a_flag_is_data() {
        assert_eq!(split("sync=1,ro=x").unwrap(), (vec![], "sync=1,ro=x".to_string()));
    }
}
