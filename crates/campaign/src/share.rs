//! `schedule.json`: the complete schedule in the folder of a share, so that shares can be merged. The folder of
//! a run without --shard has no such file.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use fsdyno_record::bounded::{self, RESULTS};
use fsdyno_record::trial::trial_id;
use fsdyno_record::{SCHEMA, Trial};
use serde::{Deserialize, Serialize};

use crate::matrix_request::Cell;
use crate::schedule::{Shard, Slot};
use crate::store::{self, Store, StoreError};

/// Name of the file in a result folder.
pub const FILE: &str = store::SCHEDULE;

/// The complete schedule of a command, and the share of it that a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareFile {
    /// Version of the schema of records.
    pub schema: u32,
    /// The share; `None` in a merged folder, which holds all of them.
    pub shard: Option<Shard>,
    /// The command line, for messages only.
    pub command: String,
    /// The requested baseline.
    pub baseline: Option<String>,
    /// All trials of the command, of all shares, in order.
    pub trials: Vec<Planned>,
}

/// One trial of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Planned {
    /// Index of its cell, in the order of the table.
    pub cell: usize,
    /// Identity of the trial.
    pub trial_id: String,
    /// Label of its row, which the identity does not include.
    pub label: String,
}

/// The reason why a folder is not the expected share.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The folder belongs to a run without --shard, or to something else.
    #[error("'{}' holds trials but no {FILE}, so it is not a share; {hint}", .folder.display())]
    NotAShare {
        /// The folder.
        folder: PathBuf,
        /// The remedy.
        hint: &'static str,
    },
    /// The folder holds a different share, or a share of other trials.
    #[error("'{}' holds {found}, and {requested} cannot be stored there; give --out a new folder", .folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// Its contents.
        found: String,
        /// The requested share.
        requested: String,
    },
    /// The file cannot be parsed, or a newer fsdyno wrote it.
    #[error("'{}' cannot be read: {error}", .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        error: String,
    },
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] StoreError),
}

impl ShareFile {
    /// Creates the share `shard` of a schedule.
    pub fn new(
        shard: Shard,
        schedule: &[Slot],
        cells: &[Cell],
        command: String,
        baseline: Option<String>,
    ) -> ShareFile {
        let planned = |slot: &Slot| {
            let plan = &cells.get(slot.cell)?.plan;
            let (trial_id, label) = (trial_id(plan, slot.seed), plan.label.clone());
            Some(Planned { cell: slot.cell, trial_id, label })
        };
        let trials = schedule.iter().filter_map(planned).collect();
        ShareFile { schema: SCHEMA, shard: Some(shard), command, baseline, trials }
    }

    /// Reads a folder's file; `None` if there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or that a newer fsdyno wrote.
    pub fn read(folder: &Path) -> Result<Option<ShareFile>, ShareError> {
        let path = folder.join(FILE);
        let text = match bounded::read(&path, &RESULTS) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Io { what: "read", path, source }.into()),
        };
        let broken = |error: String| ShareError::Broken { path: path.clone(), error };
        let share: ShareFile =
            serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        if share.schema > SCHEMA {
            let error = format!(
                "its schema is {}, but this fsdyno knows schemas up to {SCHEMA}",
                share.schema
            );
            return Err(broken(error));
        }
        Ok(Some(share))
    }

    /// Writes the file completely or not at all.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write(&self, folder: &Path) -> Result<(), ShareError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| ShareError::Broken {
            path: folder.join(FILE),
            error: error.to_string(),
        })?;
        text.push(b'\n');
        let path = folder.join(FILE);
        let written = fsdyno_media::file::write(&path, |file| file.write_all(&text));
        written.map_err(|source| StoreError::Io { what: "write", path, source }.into())
    }

    /// Marks the store's folder as this share, unless it is already marked as such.
    ///
    /// # Errors
    /// The folder holds something else.
    pub fn claim(&self, store: &Store) -> Result<(), ShareError> {
        match self.check_folder(store.folder(), store.trials())? {
            true => Ok(()),
            false => self.write(store.folder()),
        }
    }

    /// Returns true if a folder with these trials is already marked as this share, and false if the folder is empty.
    ///
    /// # Errors
    /// The folder holds something else.
    pub fn check_folder(&self, folder: &Path, stored: &[Trial]) -> Result<bool, ShareError> {
        match ShareFile::read(folder)? {
            None if stored.is_empty() => Ok(false),
            None => Err(ShareError::NotAShare {
                folder: folder.into(),
                hint: "give --out a new folder",
            }),
            Some(known) if known.shard == self.shard && known.trials == self.trials => Ok(true),
            Some(known) => {
                let suffix = if known.trials == self.trials { "" } else { " of other trials" };
                Err(ShareError::Taken {
                    folder: folder.into(),
                    found: format!("{}{suffix}", known.describe()),
                    requested: self.describe(),
                })
            }
        }
    }

    /// Refuses the folder of a share for a run without --shard, which would add trials outside the share.
    ///
    /// # Errors
    /// The folder holds a share.
    pub fn refuse_share(folder: &Path) -> Result<(), ShareError> {
        match ShareFile::read(folder)? {
            Some(known) if known.shard.is_some() => Err(ShareError::Taken {
                folder: folder.into(),
                found: known.describe(),
                requested: "a run without --shard".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns `share 2/8`, or `merged shares`.
    pub fn describe(&self) -> String {
        self.shard.map_or("merged shares".into(), |shard| format!("share {shard}"))
    }
}
