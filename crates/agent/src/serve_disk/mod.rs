//! Serves the modelled disk as a block device: an NBD server inside the guest, waiting on the guest's own clock.

mod device;
mod protocol;
mod server;
mod shared;

pub use device::{BlockDevice, Regions, Served, start};
pub use shared::Shared;
