//! The inputs of a workload in addition to its parameters: the seed, and a file that it works on.

use std::sync::Arc;

/// The bytes of a workload's input file, shared and never copied; usually mapped memory.
#[derive(Clone)]
pub struct Input(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Input {
    /// Creates an input that refers to `bytes`.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Input {
        Input(Arc::new(bytes))
    }

    /// Returns all bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_ref().as_ref()
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Input of {} bytes", self.bytes().len())
    }
}

/// The inputs of a workload in addition to its parameters.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Seed of all random choices.
    pub seed: u64,
    /// The file named by a parameter of domain [`crate::Domain::File`], if any: always an uncompressed tar archive.
    pub input: Option<Input>,
}

impl Setting {
    /// Creates a setting with a seed and without an input.
    pub fn seed(seed: u64) -> Setting {
        Setting { seed, input: None }
    }
}
