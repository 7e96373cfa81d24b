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
    /// Rate of a link in either direction, in bits per second.
    pub bits_per_second: u64,
    /// Delay of a packet on a link, in either direction; a round trip takes four of them.
    pub delay_ns: Nanos,
    /// Maximum number of packets that wait for a link or are on it; further ones are dropped.
    pub limit: u32,
}

impl NetworkPlan {
    /// Returns the round-trip time between a client and the server, excluding transmission time.
    pub fn round_trip(&self) -> Nanos {
        Nanos(self.delay_ns.0.saturating_mul(4))
    }
}
