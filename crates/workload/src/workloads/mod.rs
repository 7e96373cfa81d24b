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
    /// Its name on the command line, and the name of its source file.
    pub name: &'static str,
    /// A sentence that describes its work.
    pub about: &'static str,
    /// The publication or program from which it comes.
    pub source: &'static str,
    /// Its parameters, in the order in which they are shown.
    pub params: &'static [Param],
    /// The names of the parameters that give it more work, the most important first; empty if none does.
    pub more_work: &'static [&'static str],
    /// An exact description of its model and of the extent to which the original is known: paragraphs for
    /// `fsdyno show workload`, with citations of the sources.
    pub doc: &'static str,
    /// The parser of the original program's own configuration format, if it has one: it converts the
    /// file of `--set config=FILE` to parameters.
    pub config: Option<ReadConfig>,
    build: fn(&Values, &Setting) -> Built,
}

/// A function that parses the configuration file with this name, given a function that returns the bytes of that file
/// and of the files that it names. It returns the parameters, or the first mistake as one line that contains the file
/// and line number.
pub type ReadConfig = fn(&str, ReadFile<'_>) -> Result<BTreeMap<String, String>, String>;

type Built = Result<Box<dyn Workload>, ParamError>;

/// The error for an unknown workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no workload '{name}'; {hint}")]
pub struct UnknownWorkload {
    /// The name that was given.
    pub name: String,
    /// The nearest valid name, or all valid names.
    pub hint: String,
}

/// Returns the workload called `name`.
///
/// # Errors
/// [`UnknownWorkload`], with the nearest valid name.
pub fn find(name: &str) -> Result<&'static Kind, UnknownWorkload> {
    ALL.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        UnknownWorkload { name: name.to_string(), hint: suggest::hint(name, names) }
    })
}

/// Returns the workloads that, with their default parameters, have a phase that threads can share
/// (`--threads N`).
pub fn with_shared_phases() -> impl Iterator<Item = &'static Kind> {
    ALL.iter().filter(|kind| kind.has_shared_phase())
}

impl Kind {
    /// Returns true if threads can share a phase of the workload with its default parameters.
    pub fn has_shared_phase(&self) -> bool {
        let built = self.build(&BTreeMap::new(), &Setting::seed(1));
        built.is_ok_and(|workload| {
            workload.phases().iter().any(|phase| phase.threads == crate::Threads::Any)
        })
    }

    /// Returns every parameter with its value: given values, checked and in their canonical spelling,
    /// and the defaults of the other parameters. Equal maps mean equal work, hence an equal plan hash;
    /// a parameter that only concerns how results are printed (postmark's `report`) is also in the map
    /// and in the hash.
    ///
    /// # Errors
    /// [`ParamError::UnknownKey`], [`ParamError::BadValue`].
    pub fn resolve(&self, set: &[(&str, &str)]) -> Result<BTreeMap<String, String>, ParamError> {
        Ok(Values::resolve(self.name, self.params, set.iter().copied())?.into_map())
    }

    /// Creates the workload with these parameters; missing ones have their defaults.
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
    fn the_table_contains_every_workload_of_this_folder_and_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/workloads");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .map(|name| name.trim_end_matches(".rs").replace('_', "-"))
            .collect();
        let mut names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        files.sort();
        // A folder with the same name contains parts of the workload.
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
    fn more_work_is_a_parameter_of_its_workload_and_only_two_have_none() {
        for kind in ALL {
            for name in kind.more_work {
                let param = kind.params.iter().find(|param| param.name == *name);
                assert!(param.is_some(), "{} {name}", kind.name);
            }
        }
        let without = ALL.iter().filter(|kind| kind.more_work.is_empty());
        assert_eq!(without.map(|kind| kind.name).collect::<Vec<_>>(), ["capacity", "command"]);
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_known_one() {
        assert_eq!(
            find("dirop").unwrap_err().to_string(),
            "there is no workload 'dirop'; did you mean 'dirops'?"
        );
        assert!(find("postgresql").unwrap_err().to_string().contains("dirops, tarball"));
    }
}
