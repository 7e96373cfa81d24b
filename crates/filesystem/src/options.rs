//! Parses options of mkfs programs, checks them against the known ones, and merges them with the lab's.

use std::collections::BTreeMap;

use fsdyno_record::suggest;

use crate::known::Known;
use crate::{SpecError, catalog, mount};

/// One option as mkfs parses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The option with its dashes, in its short form if it has one.
    pub option: String,
    /// Its value, if it takes one.
    pub value: Option<String>,
}

impl Known {
    /// Parses options as getopt does: `-I 128`, `-I128`, `-jv`, `--hash r5`, `--hash=r5`.
    ///
    /// # Errors
    /// An option that `program` does not have, an option without its value, a word that is not an option.
    pub fn read(&self, program: &str, words: &[String]) -> Result<Vec<Item>, SpecError> {
        let mut items = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            // The -o of mkfs, if it has one, differs from that of mount(8).
            let o_value = word.strip_prefix("-o").map(|remaining| match remaining {
                "" => words.clone().next().map_or("", String::as_str),
                attached => attached,
            });
            if let Some(options) = o_value.filter(|options| self.are_mount_options(options)) {
                return Err(misplaced_mount_options(program, options));
            }
            if word.starts_with("--") && word.len() > 2 {
                let (name, value) = match word.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_string())),
                    None => (word.as_str(), None),
                };
                items.push(self.item(program, name, value, &mut words)?);
            } else if let Some(letters) =
                word.strip_prefix('-').filter(|remaining| is_cluster(remaining))
            {
                self.cluster(program, letters, &mut words, &mut items)?;
            } else {
                return Err(not_an_option(program, word));
            }
        }
        Ok(items)
    }

    /// Parses one-letter options in one word; the first one that takes a value takes the remaining letters as its
    /// value.
    fn cluster<'a>(
        &self,
        program: &str,
        letters: &str,
        words: &mut impl Iterator<Item = &'a String>,
        items: &mut Vec<Item>,
    ) -> Result<(), SpecError> {
        for (offset, letter) in letters.char_indices() {
            let option = format!("-{letter}");
            let remaining = &letters[offset + letter.len_utf8()..];
            if self.takes_value(&option) && !remaining.is_empty() {
                items.push(self.item(program, &option, Some(remaining.to_string()), words)?);
                return Ok(());
            }
            items.push(self.item(program, &option, None, words)?);
        }
        Ok(())
    }

    fn item<'a>(
        &self,
        program: &str,
        name: &str,
        attached: Option<String>,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<Item, SpecError> {
        let option = self.aliases.get(name).map_or(name, String::as_str).to_string();
        if !self.takes_value(&option) && !self.plain.contains(&option) {
            return Err(self.unknown_option(program, name));
        }
        let value = match (self.takes_value(&option), attached) {
            (true, Some(value)) => Some(value),
            (true, None) => Some(words.next().cloned().ok_or_else(|| {
                let problem = format!("{program} {name} needs a value");
                SpecError::new(problem, format!("write {name} VALUE"))
            })?),
            (false, Some(value)) => {
                let problem = format!("{program} {name} takes no value, but got '{value}'");
                return Err(SpecError::new(problem, format!("write {name} alone")));
            }
            (false, None) => None,
        };
        Ok(Item { option, value })
    }

    /// Returns true if a value is a list of mount options.
    fn are_mount_options(&self, value: &str) -> bool {
        value.split(',').all(|option| {
            let name = option.split('=').next().unwrap_or(option);
            mount::find_flag(name).is_some() || self.mount.iter().any(|known| known == name)
        })
    }

    fn takes_value(&self, option: &str) -> bool {
        self.lists.contains_key(option) || self.valued.iter().any(|known| known == option)
    }

    fn unknown_option(&self, program: &str, name: &str) -> SpecError {
        let known =
            self.lists.keys().chain(&self.valued).chain(&self.plain).chain(self.aliases.keys());
        let mut names: Vec<&str> = known.map(String::as_str).collect();
        names.sort_unstable_by_key(|name| (name.len() > 2, name.to_lowercase()));
        let problem = format!("{program} has no option {name}");
        // One-letter options are all similar, so only long ones can have a nearest name.
        let hint = if name.starts_with("--") {
            suggest::hint(name, names)
        } else {
            format!("there are: {}", names.join(" "))
        };
        SpecError::new(problem, hint)
    }

    /// Refuses options that cannot be used here, devices other than the trial's, and unknown list entries.
    pub fn check(&self, program: &str, items: &[Item]) -> Result<(), SpecError> {
        for Item { option, value } in items {
            if let Some(reason) = self.refused.get(option) {
                return Err(SpecError::new(
                    format!("{program} {option} cannot be used here"),
                    reason,
                ));
            }
            let value = value.as_deref().unwrap_or_default();
            let Some(names) = self.lists.get(option) else {
                self.check_device(option, value)?;
                continue;
            };
            for entry in value.split(',') {
                self.check_entry(program, option, entry, names)?;
            }
        }
        Ok(())
    }

    fn check_entry(
        &self,
        program: &str,
        option: &str,
        entry: &str,
        names: &[String],
    ) -> Result<(), SpecError> {
        let (name, value) = key_and_value(entry);
        let full = format!("{option} {name}");
        if let Some(reason) = self.refused.get(&full) {
            return Err(SpecError::new(format!("{program} {full} cannot be used here"), reason));
        }
        if !names.iter().any(|known| known == name) {
            let hint = suggest::hint(name, names.iter().map(String::as_str));
            return Err(SpecError::new(format!("{program} {option} has no '{name}'"), hint));
        }
        self.check_device(&full, value)
    }

    /// Refuses a second device other than `{journal}`.
    pub fn check_device(&self, name: &str, value: &str) -> Result<(), SpecError> {
        if self.devices.iter().any(|device| device == name) && value != "{journal}" {
            let problem = format!("'{value}' cannot be the device of '{name}'");
            let hint = "only {journal}, the trial's second disk, is allowed";
            return Err(SpecError::new(problem, hint));
        }
        Ok(())
    }

    /// Removes the options and list entries whose names are in `excluded` (`-J size`,
    /// `-O ^has_journal`).
    pub fn drop_entries(&self, items: &mut Vec<Item>, excluded: &BTreeMap<String, String>) {
        items.retain_mut(|Item { option, value }| {
            let Some(list) = value.as_mut().filter(|_| self.lists.contains_key(option)) else {
                return !excluded.contains_key(option);
            };
            let name = |entry: &str| entry.split('=').next().unwrap_or_default().to_string();
            let entries = list
                .split(',')
                .filter(|entry| !excluded.contains_key(&format!("{option} {}", name(entry))));
            *list = entries.collect::<Vec<_>>().join(",");
            !list.is_empty()
        });
    }

    /// Splits lists into one item per entry for options that are repeated.
    pub fn split_repeated(&self, items: Vec<Item>) -> Vec<Item> {
        let split = |item: Item| match &item.value {
            Some(list) if self.repeated.contains(&item.option) => list
                .split(',')
                .map(|entry| Item { option: item.option.clone(), value: Some(entry.to_string()) })
                .collect(),
            _ => vec![item],
        };
        items.into_iter().flat_map(split).collect()
    }

    /// Merges the user's options into the lab's: a user's value replaces the lab's, lists are merged
    /// entry by entry, and an option without a value appears once.
    pub fn merge(&self, lab: Vec<Item>, user: Vec<Item>) -> Vec<Item> {
        let mut merged = lab;
        for item in user {
            match merged.iter_mut().find(|existing| existing.option == item.option) {
                None => merged.push(item),
                Some(existing) => {
                    existing.value = match (existing.value.take(), item.value) {
                        (Some(old), Some(new)) if self.lists.contains_key(&item.option) => {
                            Some(merge_lists(&old, &new))
                        }
                        (_, new) => new,
                    }
                }
            }
        }
        merged
    }
}

/// Returns the items as words of a command.
pub(crate) fn write(items: Vec<Item>) -> Vec<String> {
    items.into_iter().flat_map(|item| [Some(item.option), item.value]).flatten().collect()
}

/// Returns true if this can follow the dash of `-jv`: at least one letter, and no second dash.
fn is_cluster(remaining: &str) -> bool {
    !remaining.is_empty() && !remaining.starts_with('-')
}

/// Splits `^name=value` into name and value; the caret of `-O ^dir_index` turns a feature off.
fn key_and_value(entry: &str) -> (&str, &str) {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    (name.strip_prefix('^').unwrap_or(name), value)
}

/// Merges two comma-separated lists; of entries with the same name, or of a name and its `no` form, the later one wins.
fn merge_lists(old: &str, new: &str) -> String {
    let mut entries: Vec<&str> = old.split(',').collect();
    for entry in new.split(',') {
        let (name, _) = key_and_value(entry);
        entries.retain(|existing| !same_setting(key_and_value(existing).0, name));
        entries.push(entry);
    }
    entries.join(",")
}

fn same_setting(a: &str, b: &str) -> bool {
    a == b || a.strip_prefix("no") == Some(b) || b.strip_prefix("no") == Some(a)
}

/// Returns the error for a word that is not an option, usually another file system or part of a value.
fn not_an_option(program: &str, word: &str) -> SpecError {
    let hint = match catalog::names().contains(&word) {
        true => "it is a file system: give --fs once for each",
        false => "the device and its size come from the medium; quote a value with blanks",
    };
    SpecError::new(format!("'{word}' is not an option of {program}"), hint)
}

fn misplaced_mount_options(program: &str, options: &str) -> SpecError {
    let problem = format!("'-o {options}' is an option of mount, not of {program}");
    SpecError::new(problem, format!("mount options go after @: write '@ {options}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let names = |text: &str| text.split(' ').map(String::from).collect::<Vec<String>>();
        Known {
            plain: names("-j -v -q"),
            valued: names("-I -U --format"),
            lists: [("-E".into(), names("stride discard nodiscard hash_seed"))].into(),
            repeated: vec![],
            aliases: [("--uuid".to_string(), "-U".to_string())].into(),
            mount: vec![],
            devices: names("-I"),
            values: BTreeMap::new(),
            refused: [("-v".to_string(), "it talks".to_string())].into(),
        }
    }

    fn read(text: &str) -> Result<String, SpecError> {
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        Ok(write(known().read("mkfs", &words)?).join(" "))
    }

    #[test]
    fn options_are_parsed_as_by_getopt() {
        assert_eq!(read("-jqI128 -U x").unwrap(), "-j -q -I 128 -U x");
        assert_eq!(read("--uuid=x --format 3.6").unwrap(), "-U x --format 3.6");
        assert_eq!(read("-I -1").unwrap(), "-I -1");
    }

    #[test]
    fn invalid_options_are_refused_with_the_valid_ones() {
        for (text, expected) in [
            ("-Z", "mkfs has no option -Z; there are: -E -I -j -q -U -v --format --uuid"),
            ("--fromat 3.6", "mkfs has no option --fromat; did you mean '--format'?"),
            ("-j -I", "mkfs -I needs a value; write -I VALUE"),
            ("--", "'--' is not an option"),
            ("/dev/sda", "'/dev/sda' is not an option"),
            ("-", "'-' is not an option"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn names_in_lists_refusals_and_devices_are_checked() {
        for (option, value, expected) in [
            ("-E", Some("strid=4"), "did you mean 'stride'?"),
            ("-v", None, "it talks"),
            ("-I", Some("/dev/sdb"), "{journal}"),
        ] {
            let item = Item { option: option.into(), value: value.map(String::from) };
            let error = known().check("mkfs", &[item]).unwrap_err().to_string();
            assert!(error.contains(expected), "{option}: {error}");
        }
    }

    #[test]
    fn a_users_list_is_merged_into_the_labs() {
        assert_eq!(
            merge_lists("hash_seed=x,nodiscard", "stride=4"),
            "hash_seed=x,nodiscard,stride=4"
        );
        assert_eq!(merge_lists("hash_seed=x,nodiscard", "discard"), "hash_seed=x,discard");
        assert_eq!(merge_lists("a=1,b", "^b,a=2"), "^b,a=2");
    }
}
