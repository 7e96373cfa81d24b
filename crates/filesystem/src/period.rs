//! Periods: settings that make current kernels and tools behave as those of a past year, one TOML file each.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fsdyno_record::{Bytes, suggest};
use serde::{Deserialize, Deserializer, Serialize};

use crate::options::Item;

/// All periods in the order of `fsdyno list periods`. To add one, add its file and a row here.
const FILES: &[(&str, &str)] = &[
    ("2001", include_str!("../../../catalog/periods/2001.toml")),
    ("2004", include_str!("../../../catalog/periods/2004.toml")),
    ("2006", include_str!("../../../catalog/periods/2006.toml")),
    ("2008", include_str!("../../../catalog/periods/2008.toml")),
    ("2009", include_str!("../../../catalog/periods/2009.toml")),
];

/// The settings of a past year; the user's own options take precedence.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// The name: the year.
    pub name: String,
    /// One line for `fsdyno list`.
    pub about: String,
    /// The kernel of that year.
    pub kernel: String,
    /// The tools of that year.
    pub tools: String,
    /// A modelled disk of that year; the user chooses the disk (`--disk`).
    pub disk: String,
    /// mkfs option → user options that replace it.
    #[serde(default)]
    pub gives_way: BTreeMap<String, Vec<String>>,
    /// Sysctls set before the first phase.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// File system → its default settings; a missing one did not exist.
    pub filesystem: BTreeMap<String, Settings>,
    /// Differences that no setting removes, in sentences.
    pub lost: Vec<String>,
    /// The sources of the settings.
    pub source: Vec<Source>,
}

/// The default settings of a file system.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Options of mkfs.
    pub mkfs: Vec<String>,
    /// Additional mkfs options for larger file systems, smallest size first; a later one takes precedence.
    pub from: Vec<Larger>,
    /// Mount options.
    pub mount: Vec<String>,
    /// Environment of mkfs and check.
    pub env: BTreeMap<String, String>,
    /// The setting of the disk's write cache, if the old kernel sent no flushes and the current driver cannot suppress
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// Differences of this file system that no setting removes, in sentences.
    pub lost: Vec<String>,
}

/// Options of mkfs for file systems of a given size or larger.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Larger {
    /// The minimum size to which they apply.
    #[serde(deserialize_with = "size")]
    pub size: Bytes,
    /// The options.
    pub mkfs: Vec<String>,
}

/// The source of settings.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The settings, comma-separated.
    pub what: String,
    /// The source; `[MEM]` means from memory, unconfirmed.
    pub from: String,
}

/// A period's settings for one file system of a given size.
#[derive(Clone, Copy, Debug)]
pub struct PeriodSettings<'a> {
    /// The period.
    pub period: &'a Period,
    /// Its settings for the file system.
    pub settings: &'a Settings,
    /// The size of the file system.
    pub size: Bytes,
}

impl<'a> PeriodSettings<'a> {
    /// Returns the mkfs options that apply, those for larger file systems last.
    pub(crate) fn mkfs(&self) -> impl Iterator<Item = &'a Vec<String>> {
        let size = self.size;
        let larger = self.settings.from.iter().filter(move |from| from.size <= size);
        std::iter::once(&self.settings.mkfs).chain(larger.map(|from| &from.mkfs))
    }

    /// Reports whether one of the user's options replaces an option of the period.
    pub(crate) fn is_overridden(&self, item: &Item, user: &[Item]) -> bool {
        let replacements = self.period.gives_way.get(&item.option);
        replacements.is_some_and(|options| user.iter().any(|own| options.contains(&own.option)))
    }
}

/// Returns the names, in the order of the table.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// Returns all periods, in the order of the table.
pub fn all() -> &'static [Period] {
    static ALL: OnceLock<Vec<Period>> = OnceLock::new();
    // The files are part of the program, and a test parses each of them.
    ALL.get_or_init(|| FILES.iter().filter_map(|(_, text)| toml::from_str(text).ok()).collect())
}

/// Returns the period with this name.
///
/// # Errors
/// [`Unknown`], with the nearest valid name.
pub fn get(name: &str) -> Result<&'static Period, Unknown> {
    let found = all().iter().find(|period| period.name == name);
    // A different year is not a typing error: list the periods.
    let is_year = name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    let hint = || match is_year {
        true => format!("there are: {}", names().join(", ")),
        false => suggest::hint(name, names()),
    };
    found.ok_or_else(|| Unknown { name: name.into(), hint: hint() })
}

/// An unknown period name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no period '{name}'; {hint}")]
pub struct Unknown {
    /// The requested name.
    pub name: String,
    /// The nearest valid name, or all names.
    pub hint: String,
}

impl Period {
    /// Returns its settings for a file system of this size; `None` if the file system did not exist yet.
    pub fn settings_for(&self, kind: &str, size: Bytes) -> Option<PeriodSettings<'_>> {
        let settings = self.filesystem.get(kind)?;
        Some(PeriodSettings { period: self, settings, size })
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
        let settings = get(period).unwrap().settings_for(&spec.kind, size).unwrap();
        let kind = catalog::get(&spec.kind).unwrap();
        kind.plan_for_period(&spec, Context::Lab, Some("mke2fs 1.47.0"), Some(&settings)).unwrap()
    }

    #[test]
    fn every_file_is_valid_and_named_as_its_period() {
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
    fn every_setting_of_every_period_exists_and_has_a_source() {
        for period in all() {
            let sourced = |what: &str| {
                let named = period.source.iter().any(|source| source.what.contains(what));
                assert!(named, "{}: no source mentions '{what}'", period.name);
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
    fn the_users_options_win_over_the_period() {
        let plain = planned("2004", "ext3", LARGE);
        assert_eq!(plain.period.as_deref(), Some("2004"));
        let words = plain.mkfs.join(" ");
        for part in ["-O none,has_journal,", "-I 128", "-J size=32", "-i 8192"] {
            assert!(words.contains(part), "{part} in {words}");
        }
        assert_eq!(plain.mount_options, "barrier=0,strictatime");

        let own = planned("2004", "ext3 -J size=256 -T news -O dir_index @ noatime", LARGE);
        let words = own.mkfs.join(" ");
        assert!(words.contains("-J size=256") && !words.contains("size=32"), "{words}");
        assert!(words.contains("-O none,has_journal,") && words.contains(",dir_index"), "{words}");
        assert!(words.contains("-T news") && !words.contains("-i 8192"), "{words}");
        assert_eq!(own.mount_options, "barrier=0,noatime");

        let outer = planned("2004", "ext3 -J device={journal}", LARGE);
        let words = outer.mkfs.join(" ");
        assert!(words.contains("-J device={journal}") && !words.contains("size=32"), "{words}");
    }

    #[test]
    fn a_historical_journal_size_applies_only_to_a_large_enough_file_system() {
        let small = planned("2008", "ext4", Bytes(1 << 30)).mkfs.join(" ");
        assert!(!small.contains("-J"), "{small}");
        assert!(planned("2008", "ext4", LARGE).mkfs.join(" ").contains("-J size=128"));
        assert!(planned("2001", "ext3", Bytes(1 << 30)).mkfs.join(" ").contains("-O none,"));
    }

    #[test]
    fn a_file_system_that_did_not_exist_and_an_unknown_period_are_refused() {
        assert!(get("2001").unwrap().settings_for("btrfs", LARGE).is_none());
        let error = get("208").unwrap_err().to_string();
        assert!(error.starts_with("there is no period '208'; did you mean '2008'"), "{error}");
    }
}
