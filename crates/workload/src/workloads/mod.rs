//! The workloads, one file each, in the order in which they are listed.

use std::collections::BTreeMap;

use fsdyno_record::suggest;

use crate::input::Setting;
use crate::params::{Param, ParamError, Values};
use crate::postmark::config::ReadFile;
use crate::workload::Workload;

pub mod bigfile;
pub mod bonnie;
pub mod calls;
pub mod capacity;
pub mod churn;
pub mod command;
pub mod dirops;
pub mod everyday;
pub mod fdtree;
pub mod maildir;
pub mod maildir_read;
pub mod many_files;
pub mod postmark;
pub mod replay;
pub mod source_tree;
pub mod tarball;
pub mod tenant;

/// Every workload.
pub const ALL: &[Kind] = &[
    dirops::KIND,
    tarball::KIND,
    source_tree::KIND,
    maildir::KIND,
    maildir_read::KIND,
    fdtree::KIND,
    bonnie::KIND,
    many_files::KIND,
    postmark::KIND,
    churn::KIND,
    everyday::KIND,
    bigfile::KIND,
    tenant::KIND,
    capacity::KIND,
    calls::KIND,
    replay::KIND,
    command::KIND,
];

/// A row of the table: a workload before its parameters are bound.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name on the command line and of its file.
    pub name: &'static str,
    /// A sentence on its work.
    pub about: &'static str,
    /// The publication or program it comes from.
    pub source: &'static str,
    /// Its parameters, in the order in which they are shown.
    pub params: &'static [Param],
    /// An exact description of its model, and how far that is known: paragraphs for `fsdyno show
    /// workload`, with the marks of the sources.
    pub doc: &'static str,
    /// Reads a file in the format of the original program's own configuration, if it has one: the
    /// file of `--set config=FILE` becomes parameters.
    pub config: Option<ReadConfig>,
    build: fn(&Values, &Setting) -> Built,
}

/// Reads a configuration file of this name through a function that returns the bytes of it and of
/// files that it names; returns parameters, or the first mistake in one line that names file and
/// line.
pub type ReadConfig = fn(&str, ReadFile<'_>) -> Result<BTreeMap<String, String>, String>;

type Built = Result<Box<dyn Workload>, ParamError>;

/// No workload has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no workload '{name}'; {hint}")]
pub struct UnknownWorkload {
    /// The name that was given.
    pub name: String,
    /// The nearest right name, or all of them.
    pub hint: String,
}

/// The workload called `name`.
///
/// # Errors
/// [`UnknownWorkload`], with the nearest right name.
pub fn find(name: &str) -> Result<&'static Kind, UnknownWorkload> {
    ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        UnknownWorkload { name: name.to_string(), hint: suggest::hint(name, names) }
    })
}

/// The workloads with a phase that threads can share (`--threads N`), with their default
/// parameters.
pub fn shared() -> impl Iterator<Item = &'static Kind> {
    ALL.iter().filter(|kind| kind.takes_threads())
}

impl Kind {
    /// Returns true if threads can share a phase of it, with its default parameters.
    pub fn takes_threads(&self) -> bool {
        let built = self.build(&BTreeMap::new(), &Setting::seed(1));
        built.is_ok_and(|workload| {
            workload.phases().iter().any(|it| it.threads == crate::Threads::Any)
        })
    }

    /// Every parameter with its value: given values, checked and in their canonical spelling, and
    /// the defaults of the rest. Equal maps are equal work, hence an equal plan hash; a parameter
    /// that only concerns how results are printed (postmark's `report`) is in the map and the hash,
    /// too.
    ///
    /// # Errors
    pub fn resolve(&self, set: &[(&str, &str)]) -> Result<BTreeMap<String, String>, ParamError> {
        Ok(Values::resolve(self.name, self.params, set.iter().copied())?.into_map())
    }

    /// The workload with these parameters; missing ones have their defaults.
    ///
    /// # Errors
    /// The mistake in the parameters, in one line.
    pub fn build(
        &self,
        params: &BTreeMap<String, String>,
        setting: &Setting,
    ) -> Result<Box<dyn Workload>, ParamError> {
        let set = params.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        (self.build)(&Values::resolve(self.name, self.params, set)?, setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_here_is_in_the_table_and_the_table_has_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/workloads");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .map(|name| name.trim_end_matches(".rs").replace('_', "-"))
            .collect();
        let mut names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        files.sort();
        // A folder of the same name has parts of it.
        files.dedup();
        names.sort_unstable();
        assert_eq!(files, names, "a workload is one file and one row of ALL");
    }

    #[test]
    fn every_default_is_canonical_and_every_row_is_documented() {
        for kind in ALL {
            let map = kind.resolve(&[]).unwrap();
            assert!(!kind.about.is_empty() && !kind.source.is_empty());
            for param in kind.params {
                assert_eq!(param.domain.canonical(param.default).as_deref(), Some(param.default));
                assert_eq!(map[param.name], param.default);
                assert!(!param.about.is_empty() && param.source.starts_with('['), "{}", param.name);
            }
        }
    }

    #[test]
    fn a_wrong_name_suggests_the_nearest_right_one() {
        assert_eq!(
            find("dirop").unwrap_err().to_string(),
            "there is no workload 'dirop'; did you mean 'dirops'?"
        );
        assert!(find("postgresql").unwrap_err().to_string().contains("dirops, tarball"));
    }
}
