//! The rows of a matrix, each a target and a file system: the parts that rows of labs, devices and models share.

pub(crate) mod ages;
pub(crate) mod device;
pub mod disk;
pub mod lab;
pub(crate) mod model;
pub(crate) mod network;

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_filesystem::{Filesystem, Spec, catalog};
use fsdyno_record::Bytes;
use fsdyno_record::plan::{FilesystemPlan, MediumPlan, VenuePlan};

use crate::matrix_request::MatrixError;

/// A row of the table: a target for all workloads.
#[derive(Clone)]
pub struct Row {
    /// Label.
    pub label: String,
    /// File system to create and mount; `None` for an existing directory.
    pub filesystem: Option<FilesystemPlan>,
    /// Medium of the file system.
    pub medium: MediumPlan,
    /// Venue that executes its calls.
    pub venue: VenuePlan,
    /// Maximum length of a file name in bytes, if known.
    pub max_name_length: Option<usize>,
    /// Capacity, if known.
    pub capacity: Option<Bytes>,
    /// Operations that the file system lacks, with the reason from the catalog.
    pub missing_operations: BTreeMap<String, String>,
    /// Reason that the row cannot run here, if any.
    pub skip: Option<String>,
}

impl Row {
    /// Returns the number of clients that share the row's file system.
    pub(crate) fn clients(&self) -> u32 {
        match &self.venue {
            VenuePlan::Lab(lab) => lab.clients.unwrap_or(1),
            _ => 1,
        }
    }

    /// Returns the period of the row's file system.
    pub(crate) fn period(&self) -> Option<&str> {
        self.filesystem.as_ref()?.period.as_deref()
    }
}

/// Parses the requested file systems, in the order given.
pub fn specs(requested: &[String]) -> Result<Vec<(String, Spec)>, MatrixError> {
    let mut labels = BTreeSet::new();
    let mut specs = Vec::new();
    for text in requested {
        let spec = Spec::parse(text).map_err(MatrixError::spec(text))?;
        if !labels.insert(spec.name()) {
            return Err(MatrixError::SameLabel(spec.name()));
        }
        specs.push((text.clone(), spec));
    }
    Ok(specs)
}

/// Returns the file system that a spec creates.
pub fn created_filesystem(spec: &Spec) -> Result<&'static Filesystem, catalog::Unknown> {
    catalog::get(&spec.base().kind)
}

/// Returns the operations that either of two stacked file systems lacks.
pub fn missing_operations(top: &Filesystem, below: &Filesystem) -> BTreeMap<String, String> {
    top.lacks.iter().chain(&below.lacks).map(|(what, why)| (what.clone(), why.clone())).collect()
}

pub(crate) fn find_duplicate<T: PartialEq>(names: &[T]) -> Option<&T> {
    names
        .iter()
        .enumerate()
        .find(|(index, name)| names[..*index].contains(name))
        .map(|(_, name)| name)
}
