//! Reads and replaces the journal size in the options of a spec.

use fsdyno_record::Bytes;

use crate::catalog::{self, Filesystem, Journal};
use crate::options::{self, Item};
use crate::sizing::Sizing;
use crate::{Spec, SpecError};

/// The position of the size among the parsed options.
struct SizeEntry {
    options: Vec<Item>,
    option: usize,
    /// The entry in the option's list, if it has one.
    entry: Option<usize>,
}

impl Spec {
    /// Returns the sizing rules of the base file system's journal; `None` if it has no journal.
    pub fn journal_sizing(&self) -> Option<&'static Sizing> {
        let kind = catalog::get(&self.base().kind).ok()?;
        let shared = || catalog::get(kind.known_as.as_deref()?).ok()?.journal.as_ref();
        let journal: &Journal = kind.journal.as_ref().or_else(shared)?;
        journal.size.as_ref()
    }

    /// Returns the journal size that the options specify, if any.
    ///
    /// # Errors
    /// A value that is not a size.
    pub fn journal_size(&self) -> Result<Option<Bytes>, SpecError> {
        let Some((sizing, entry)) = self.size_entry()? else { return Ok(None) };
        let value = entry.value();
        sizing.read(value).map(Some).ok_or_else(|| {
            let problem = format!("'{} {value}' is not a journal size", sizing.option);
            let hint = match sizing.unit {
                Bytes(1) => "give it in bytes, or with k, m or g".to_string(),
                unit => format!("give a plain number, which counts units of {unit}"),
            };
            SpecError::new(problem, hint)
        })
    }

    /// Returns this spec with a journal of this size, rounded down to mkfs's unit; a spec without a size
    /// is returned unchanged.
    ///
    /// # Errors
    /// Options that mkfs does not have.
    pub fn with_journal_size(&self, size: Bytes) -> Result<Spec, SpecError> {
        let mut spec = self.clone();
        if let Some((sizing, entry)) = self.size_entry()? {
            base_mut(&mut spec).mkfs = entry.with(&sizing.write(size));
        }
        Ok(spec)
    }

    fn size_entry(&self) -> Result<Option<(&'static Sizing, SizeEntry)>, SpecError> {
        let Some(sizing) = self.journal_sizing() else { return Ok(None) };
        let Ok(kind) = catalog::get(&self.base().kind) else { return Ok(None) };
        let options = kind.known().read(program(kind), &self.base().mkfs)?;
        let (name, key) = match sizing.option.split_once(' ') {
            Some((name, key)) => (name, Some(key)),
            None => (sizing.option.as_str(), None),
        };
        let found = options.iter().enumerate().find_map(|(at, item)| {
            let value = item.value.as_deref().filter(|_| item.option == name)?;
            match key {
                None => Some((at, None)),
                Some(key) => Some((at, Some(value.split(',').position(|it| key_of(it) == key)?))),
            }
        });
        Ok(found.map(|(option, entry)| (sizing, SizeEntry { options, option, entry })))
    }
}

impl SizeEntry {
    fn value(&self) -> &str {
        let value = self.options[self.option].value.as_deref().unwrap_or_default();
        match self.entry {
            None => value,
            Some(at) => {
                let entry = value.split(',').nth(at).unwrap_or_default();
                entry.split_once('=').map_or("", |(_, size)| size)
            }
        }
    }

    /// Returns the options with this size in the entry.
    fn with(mut self, size: &str) -> Vec<String> {
        let value = &mut self.options[self.option].value;
        let old = value.take().unwrap_or_default();
        *value = Some(match self.entry {
            None => size.to_string(),
            Some(at) => {
                let new = old.split(',').enumerate().map(|(index, entry)| match index == at {
                    true => format!("{}={size}", key_of(entry)),
                    false => entry.to_string(),
                });
                new.collect::<Vec<_>>().join(",")
            }
        });
        options::write(self.options)
    }
}

/// Returns [`Spec::base`] mutably.
fn base_mut(spec: &mut Spec) -> &mut Spec {
    match spec.below {
        Some(ref mut below) => base_mut(below),
        None => spec,
    }
}

fn key_of(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

fn program(kind: &Filesystem) -> &str {
    kind.mkfs.argv.first().map_or("mkfs", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn spec(text: &str) -> Spec {
        Spec::parse(text).unwrap()
    }

    #[test]
    fn the_size_option_of_every_tool_is_read_and_written() {
        for (text, size, half) in [
            ("ext4 -J size=64", 64 * MIB, "ext4 -J size=32"),
            ("ext3 -Jsize=7,location=0", 7 * MIB, "ext3 -J size=3,location=0"),
            ("ext2 -J size=16", 16 * MIB, "ext2 -J size=8"),
            ("xfs -l size=256m", 256 * MIB, "xfs -l size=128m"),
            ("xfs -l logdev={journal},size=1g", 1024 * MIB, "xfs -l logdev={journal},size=512m"),
            ("xfs -l size=134217728", 128 * MIB, "xfs -l size=64m"),
            ("reiserfs --journal-size=8193", 8193 * 4096, "reiserfs -s 4096"),
            ("reiserfs -j {journal} -s 1026", 1026 * 4096, "reiserfs -j {journal} -s 513"),
            ("far=jfs -s 8 @ noatime", 8 * MIB, "far=jfs -s 4 @ noatime"),
            ("overlayfs:ext4 -J size=64", 64 * MIB, "overlayfs:ext4 -J size=32"),
        ] {
            let read = spec(text).journal_size().unwrap().unwrap();
            assert_eq!(read.0, size, "{text}");
            assert_eq!(spec(text).with_journal_size(Bytes(size / 2)).unwrap(), spec(half));
        }
    }

    #[test]
    fn a_spec_without_a_size_is_unchanged_and_an_invalid_size_is_an_error() {
        for text in ["ext4", "ext4 -J device={journal}", "xfs -l version=2", "btrfs", "raw"] {
            assert_eq!(spec(text).journal_size(), Ok(None), "{text}");
            assert_eq!(spec(text).with_journal_size(Bytes(MIB)).unwrap(), spec(text));
        }
        let error = |text: &str| spec(text).journal_size().unwrap_err().to_string();
        let blocks = error("xfs -l size=16384b");
        assert_eq!(
            blocks,
            "'-l size 16384b' is not a journal size; give it in bytes, or with k, m or g"
        );
        assert!(
            error("ext4 -J size=64M").ends_with("give a plain number, which counts units of 1 MiB")
        );
    }
}
