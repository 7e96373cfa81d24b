//! The modelled network of a plan.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A modelled network: a switch, and a link from it to the server and to each client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Name in the catalog, or the path of its file as given.
    pub name: String,
    /// Rate of a link in either direction, in bits in a second.
    pub bits_per_second: u64,
    /// Delay of a packet on a link, in either direction; a round trip has four of them.
    pub delay_ns: Nanos,
    /// The most packets that wait for a link or are on it; further ones are lost.
    pub limit: u32,
}

impl NetworkPlan {
    /// The time of a round trip between a client and the server, without that of sending.
    pub fn round_trip(&self) -> Nanos {
        Nanos(self.delay_ns.0.saturating_mul(4))
    }
}
