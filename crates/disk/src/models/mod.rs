//! The disk models: one folder each, with its parameters, and one row in the table here.

pub mod card;
pub mod hdd;
pub mod instant;
pub mod network;
pub mod smr;
pub mod ssd;

use serde::{Deserialize, Serialize};

pub use self::card::params::Card;
pub use self::hdd::params::{Hdd, Seek};
pub use self::instant::Instant;
pub use self::network::params::{Latency, Network};
pub use self::smr::params::Smr;
pub use self::ssd::params::{Interface, Ssd};
use crate::disk::Disk;
use crate::limits::Limits;
use crate::spec::{Check, DiskSpec, SpecError};

/// The parameters of a model, as in a disk profile.
pub(crate) trait Parameters {
    /// Checks that they are in range.
    ///
    /// # Errors
    /// [`SpecError::Parameter`] for the first that is not.
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError>;

    /// The maximum rates; none if requests take no time.
    fn limits(&self) -> Option<Limits>;

    /// Builds an idle disk.
    fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk>;

    /// The same disk after random overwriting of all of it, if the model can start in that state.
    fn full(&self) -> Option<Model> {
        None
    }
}

macro_rules! models {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The model of service times, selected by the key "law" of the disk profile.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "law", rename_all = "lowercase")]
        pub enum Model { $($(#[$doc])* $name($name)),+ }

        impl Model {
            fn parameters(&self) -> &dyn Parameters {
                match self { $(Model::$name(parameters) => parameters),+ }
            }
        }
    };
}

models! {
    /// Every request completes at once.
    Instant,
    /// A hard disk: arm, platter, command queue, caches.
    Hdd,
    /// A solid-state disk: link, write buffer, translation layer, dies.
    Ssd,
    /// A network block volume: limits of requests and bytes with burst credit, a distribution of latencies.
    Network,
    /// A shingled hard disk that hides its bands: media cache, cleaning.
    Smr,
    /// A flash card or stick: one command at a time, few open allocation units.
    Card,
}

impl Model {
    /// Returns the maximum rates; none if requests take no time.
    pub fn limits(&self) -> Option<Limits> {
        self.parameters().limits()
    }

    /// Returns whether requests take time.
    pub fn takes_time(&self) -> bool {
        self.limits().is_some()
    }

    pub(crate) fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        self.parameters().check(spec, check)
    }

    pub(crate) fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
        self.parameters().build(spec, seed)
    }

    pub(crate) fn full(&self) -> Option<Model> {
        self.parameters().full()
    }
}
