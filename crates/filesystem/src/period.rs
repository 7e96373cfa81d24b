//! Periods: what makes today's kernel and tools behave as those of a year, one TOML file each.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fsdyno_record::{Bytes, suggest};
use serde::{Deserialize, Deserializer, Serialize};

use crate::options::Item;

/// Every period in the order of `fsdyno list periods`. Adding one is adding its file and its row here.
const FILES: &[(&str, &str)] = &[
    ("2001", include_str!("../../../catalog/periods/2001.toml")),
    ("2004", include_str!("../../../catalog/periods/2004.toml")),
    ("2006", include_str!("../../../catalog/periods/2006.toml")),
    ("2008", include_str!("../../../catalog/periods/2008.toml")),
    ("2009", include_str!("../../../catalog/periods/2009.toml")),
];

/// What holds of a year, under what the user types.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// Its name: the year.
    pub name: String,
    /// One line for `fsdyno list`.
    pub about: String,
    /// The kernel of then that is meant.
    pub kernel: String,
    /// The tools of then that are meant.
    pub tools: String,
    /// The modelled disk of then; it is the user's to name (`--disk`).
    pub disk: String,
    /// Options of mkfs that are left out where the user gives one of these others.
    #[serde(default)]
    pub gives_way: BTreeMap<String, Vec<String>>,
    /// Sysctls set before the first phase.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// File system → what was usual for it then; one that is missing did not exist.
    pub filesystem: BTreeMap<String, Settings>,
    /// What no setting brings back, in sentences.
    pub lost: Vec<String>,
    /// Where each setting comes from.
    pub source: Vec<Source>,
}

/// What was usual for a file system.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Options of mkfs.
    pub mkfs: Vec<String>,
    /// More of them for larger file systems, the smallest size first; a later one wins.
    pub from: Vec<Larger>,
    /// Mount options.
    pub mount: Vec<String>,
    /// Environment of mkfs and check.
    pub env: BTreeMap<String, String>,
    /// How the disk's write cache is set, where the kernel of then sent no flush and today's driver
    /// cannot be told to leave them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// What no setting brings back of it, in sentences.
    pub lost: Vec<String>,
}

/// Options of mkfs for file systems of a size or larger.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Larger {
    /// The size from which on they hold.
    #[serde(deserialize_with = "size")]
    pub size: Bytes,
    /// The options.
    pub mkfs: Vec<String>,
}

/// Where settings come from.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The settings, with commas between.
    pub what: String,
    /// The source; `[MEM]` is from memory, unconfirmed.
    pub from: String,
}

/// A period's settings for one file system of a size.
#[derive(Clone, Copy, Debug)]
pub struct Then<'a> {
    /// The period.
    pub period: &'a Period,
    /// Its settings for the file system.
    pub settings: &'a Settings,
    /// How large the file system will be.
    pub size: Bytes,
}

impl<'a> Then<'a> {
    /// The options of mkfs that hold, those for larger file systems last.
    pub(crate) fn mkfs(&self) -> impl Iterator<Item = &'a Vec<String>> {
        let size = self.size;
        let larger = self.settings.from.iter().filter(move |from| from.size <= size);
        std::iter::once(&self.settings.mkfs).chain(larger.map(|from| &from.mkfs))
    }

    /// Whether an option of the period is left out because of what the user typed.
    pub(crate) fn gives_way(&self, item: &Item, user: &[Item]) -> bool {
        let to = self.period.gives_way.get(&item.option);
        to.is_some_and(|to| user.iter().any(|typed| to.contains(&typed.option)))
    }
}

/// The names, in the order of the table.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// Every period, in the order of the table.
pub fn all() -> &'static [Period] {
    static ALL: OnceLock<Vec<Period>> = OnceLock::new();
    // The files are part of the program and a test reads each: none is ever left out here.
    ALL.get_or_init(|| FILES.iter().filter_map(|(_, text)| toml::from_str(text).ok()).collect())
}

/// The period of this name.
///
/// # Errors
/// [`Unknown`], with the nearest right name.
pub fn get(name: &str) -> Result<&'static Period, Unknown> {
    let found = all().iter().find(|period| period.name == name);
    // A year that there is no period of is no slip of the finger.
    let is_year = name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    let hint = || match is_year {
        true => format!("there are: {}", names().join(", ")),
        false => suggest::hint(name, names()),
    };
    found.ok_or_else(|| Unknown { name: name.into(), hint: hint() })
}

/// A name that is no period's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no period '{name}'; {hint}")]
pub struct Unknown {
    /// What was asked for.
    pub name: String,
    /// The nearest right name, or all names.
    pub hint: String,
}

impl Period {
    /// Its settings for a file system of this size; none where that did not exist then.
    pub fn then(&self, kind: &str, size: Bytes) -> Option<Then<'_>> {
        let settings = self.filesystem.get(kind)?;
        Some(Then { period: self, settings, size })
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Context, Spec, catalog};

    const LARGE: Bytes = Bytes(32 << 30);

    fn planned(period: &str, spec: &str, size: Bytes) -> fsdyno_record::plan::FilesystemPlan {
        let spec = Spec::parse(spec).unwrap();
        let then = get(period).unwrap().then(&spec.kind, size).unwrap();
        let kind = catalog::get(&spec.kind).unwrap();
        kind.plan_as_then(&spec, Context::Lab, Some("mke2fs 1.47.0"), Some(&then)).unwrap()
    }

    #[test]
    fn every_file_is_read_and_bears_its_own_name() {
        for (name, text) in FILES {
            let period: Period =
                toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"));
            assert_eq!(period.name, *name);
            assert!(!period.lost.is_empty() && !period.filesystem.is_empty(), "{name}");
        }
        assert_eq!(all().len(), FILES.len());
    }

    #[test]
    fn no_file_in_the_catalog_folder_is_forgotten() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/periods");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed = names().into_iter().map(|name| format!("{name}.toml")).collect();
        assert_eq!(files, listed, "left: catalog/periods, right: FILES in period.rs");
    }

    #[test]
    fn every_setting_of_every_period_has_a_source_and_is_one_that_there_is() {
        for period in all() {
            let sourced = |what: &str| {
                let named = period.source.iter().any(|source| source.what.contains(what));
                assert!(named, "{}: no source speaks of '{what}'", period.name);
            };
            period.sysctls.keys().for_each(|key| sourced(key));
            for (kind, settings) in &period.filesystem {
                let options = settings.from.iter().flat_map(|from| &from.mkfs);
                let options = settings.mkfs.iter().chain(options);
                options.filter(|word| word.starts_with('-')).for_each(|word| sourced(word));
                settings.mount.iter().for_each(|option| sourced(option));
                settings.write_cache.iter().for_each(|_| sourced("write_cache"));
                settings.env.keys().for_each(|_| sourced("env"));
                // Options that do not exist are refused here.
                planned(&period.name, kind, LARGE);
                let sizes: Vec<Bytes> = settings.from.iter().map(|from| from.size).collect();
                assert!(sizes.is_sorted(), "{}: {kind}", period.name);
            }
        }
    }

    #[test]
    fn what_the_user_types_wins_over_the_period() {
        let plain = planned("2004", "ext3", LARGE);
        assert_eq!(plain.period.as_deref(), Some("2004"));
        let words = plain.mkfs.join(" ");
        for part in ["-O none,has_journal,", "-I 128", "-J size=32", "-i 8192"] {
            assert!(words.contains(part), "{part} in {words}");
        }
        assert_eq!(plain.mount_options, "barrier=0,strictatime");

        let typed = planned("2004", "ext3 -J size=256 -T news -O dir_index @ noatime", LARGE);
        let words = typed.mkfs.join(" ");
        assert!(words.contains("-J size=256") && !words.contains("size=32"), "{words}");
        assert!(words.contains("-O none,has_journal,") && words.contains(",dir_index"), "{words}");
        assert!(words.contains("-T news") && !words.contains("-i 8192"), "{words}");
        assert_eq!(typed.mount_options, "barrier=0,noatime");

        let outer = planned("2004", "ext3 -J device={journal}", LARGE);
        let words = outer.mkfs.join(" ");
        assert!(words.contains("-J device={journal}") && !words.contains("size=32"), "{words}");
    }

    #[test]
    fn a_journal_of_then_is_given_only_where_the_file_system_is_large_enough() {
        let small = planned("2008", "ext4", Bytes(1 << 30)).mkfs.join(" ");
        assert!(!small.contains("-J"), "{small}");
        assert!(planned("2008", "ext4", LARGE).mkfs.join(" ").contains("-J size=128"));
        assert!(planned("2001", "ext3", Bytes(1 << 30)).mkfs.join(" ").contains("-O none,"));
    }

    #[test]
    fn what_was_not_there_and_what_is_no_period_is_told() {
        assert!(get("2001").unwrap().then("btrfs", LARGE).is_none());
        let error = get("208").unwrap_err().to_string();
        assert!(error.starts_with("there is no period '208'; did you mean '2008'"), "{error}");
    }
}
