//! The disk models: one folder each, with its parameters, and one row in the table here.

pub mod card;
pub mod hdd;
pub mod instant;
pub mod network;
pub(crate) mod parameters;
pub mod smr;
pub mod ssd;

use serde::{Deserialize, Serialize};

pub use self::card::params::Card;
pub use self::hdd::params::{Hdd, Seek};
pub use self::instant::Instant;
pub use self::network::params::{Latency, Network};
use self::parameters::Parameters;
pub use self::smr::params::Smr;
pub use self::ssd::params::{Interface, Ssd};

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
    /// Every request completes immediately.
    Instant,
    /// A hard disk: arm, platter, command queue, caches.
    Hdd,
    /// A solid-state disk: link, write buffer, translation layer, dies.
    Ssd,
    /// A network block volume: limits on requests and bytes with burst credit, and a distribution of latencies.
    Network,
    /// A shingled hard disk that hides its bands: media cache, cleaning.
    Smr,
    /// A flash card or stick: one command at a time, few open allocation units.
    Card,
}
