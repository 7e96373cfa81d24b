//! The user's input files of workloads, read once and passed to every agent.

use std::fs::File;
use std::io;
use std::sync::Arc;

use fsdyno_child::Mapped;
use fsdyno_record::plan::{InputPlan, WorkloadPlan};
use fsdyno_record::{Bytes, Plan};
use fsdyno_workload::{Input, Setting};

use crate::error::VenueError;

/// An input file as agents receive it: a nameless, private, uncompressed tar archive, padded with zeros to a power of
/// two, the size of a guest's PCI region.
#[derive(Clone, Debug)]
pub struct InputFile {
    path: String,
    sha256: String,
    file: Arc<File>,
    input: Input,
}

/// The smallest size of a PCI region.
const MIN_REGION: u64 = 4096;

impl InputFile {
    /// Wraps the first `length` bytes of a private file, with their SHA-256 in hex; `path` is the path given by the
    /// user.
    ///
    /// # Errors
    /// The error of ftruncate(2) or mmap(2).
    pub fn new(path: &str, file: File, length: u64, sha256: String) -> io::Result<InputFile> {
        let region = length.max(MIN_REGION).checked_next_power_of_two().unwrap_or(1 << 63);
        // The zeros are a hole and take no space.
        file.set_len(region)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let input = Input::new(Mapped::new(&file, length)?);
        Ok(InputFile { path: path.to_string(), sha256, file: Arc::new(file), input })
    }

    /// Returns the path given by the user.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the SHA-256 of the bytes, in hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns the bytes, for a workload.
    pub fn input(&self) -> Input {
        self.input.clone()
    }

    /// Returns the file's entry for a plan whose parameter `parameter` names the file.
    pub fn plan(&self, parameter: &str) -> InputPlan {
        let bytes = Bytes(self.input.bytes().len() as u64);
        InputPlan { parameter: parameter.to_string(), sha256: self.sha256.clone(), bytes }
    }

    /// Returns the file, for a child or a guest.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

/// All input files of a run.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Vec<InputFile>);

impl Inputs {
    /// Adds a file.
    pub fn add(&mut self, file: InputFile) {
        self.0.push(file);
    }

    /// Returns the file for this path, as given by the user.
    pub fn by_path(&self, path: &str) -> Option<&InputFile> {
        self.0.iter().find(|file| file.path == path)
    }

    /// Returns the file that a plan needs, if any.
    ///
    /// # Errors
    /// The plan has an input that has not been read.
    pub fn for_workload(&self, plan: &WorkloadPlan) -> Result<Option<&InputFile>, VenueError> {
        let Some(input) = &plan.input else { return Ok(None) };
        let file = self.0.iter().find(|file| file.sha256 == input.sha256);
        file.map(Some).ok_or_else(|| {
            let name = plan.params.get(&input.parameter).map_or("", String::as_str);
            VenueError::Failed(format!("the input {}={name} has not been read", input.parameter))
        })
    }

    /// Returns the inputs of a plan's workload other than its parameters.
    ///
    /// # Errors
    /// As [`Inputs::for_workload`].
    pub fn setting(&self, plan: &Plan, seed: u64) -> Result<Setting, VenueError> {
        Ok(Setting { seed, input: self.for_workload(&plan.workload)?.map(InputFile::input) })
    }
}
