//! The files of the user's that workloads work on, read once and handed to every agent.

use std::fs::File;
use std::io;
use std::sync::Arc;

use fsdyno_child::Mapped;
use fsdyno_record::plan::{InputPlan, WorkloadPlan};
use fsdyno_record::{Bytes, Plan};
use fsdyno_workload::{Input, Setting};

use crate::error::VenueError;

/// A file as agents get it: nameless, ours alone, an uncompressed tar archive with zeros behind it up
/// to a power of two, as a PCI region of a guest has to be.
#[derive(Clone, Debug)]
pub struct InputFile {
    path: String,
    sha256: String,
    file: Arc<File>,
    input: Input,
}

/// The least size of a PCI region.
const PAGE: u64 = 4096;

impl InputFile {
    /// The first `length` bytes of a file that nobody else knows, with their SHA-256 in hex; `path` is what the user
    /// typed.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new(path: &str, file: File, length: u64, sha256: String) -> io::Result<InputFile> {
        let region = length.max(PAGE).checked_next_power_of_two().unwrap_or(1 << 63);
        // The zeros are a hole and take no room.
        file.set_len(region)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let input = Input::new(Mapped::new(&file, length)?);
        Ok(InputFile { path: path.to_string(), sha256, file: Arc::new(file), input })
    }

    /// What the user typed.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its bytes, for a workload.
    pub fn input(&self) -> Input {
        self.input.clone()
    }

    /// What a plan says of it where `parameter` names it.
    pub fn plan(&self, parameter: &str) -> InputPlan {
        let bytes = Bytes(self.input.bytes().len() as u64);
        InputPlan { parameter: parameter.to_string(), sha256: self.sha256.clone(), bytes }
    }

    /// The file, for a child or a guest.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

/// All input files of a run.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Vec<InputFile>);

impl Inputs {
    /// Adds one.
    pub fn add(&mut self, file: InputFile) {
        self.0.push(file);
    }

    /// The one that was typed like this.
    pub fn typed(&self, path: &str) -> Option<&InputFile> {
        self.0.iter().find(|file| file.path == path)
    }

    /// The one that a plan needs; none where it needs none.
    ///
    /// # Errors
    /// A plan with an input that has not been read.
    pub fn of(&self, plan: &WorkloadPlan) -> Result<Option<&InputFile>, VenueError> {
        let Some(input) = &plan.input else { return Ok(None) };
        let found = self.0.iter().find(|file| file.sha256 == input.sha256);
        found.map(Some).ok_or_else(|| {
            let name = plan.params.get(&input.parameter).map_or("", String::as_str);
            VenueError::Died(format!("the input {}={name} has not been read", input.parameter))
        })
    }

    /// What decides the workload of a plan beside its parameters.
    ///
    /// # Errors
    /// As [`Inputs::of`].
    pub fn setting(&self, plan: &Plan, seed: u64) -> Result<Setting, VenueError> {
        Ok(Setting { seed, input: self.of(&plan.workload)?.map(InputFile::input) })
    }
}
