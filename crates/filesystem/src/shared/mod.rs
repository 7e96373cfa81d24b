//! Protocols by which clients share a file system of a server over a network, and the options of a spec that belong to
//! them rather than to the server's file system.

pub mod nfs;
mod protocol;
pub mod smb;

pub use protocol::Protocol;

const PROTOCOLS: &[Protocol] = &[nfs::PROTOCOL, smb::PROTOCOL];

/// Returns the protocol with this name in the catalog; `None` if the file system is not shared.
pub fn protocol(kind: &str) -> Option<&'static Protocol> {
    PROTOCOLS.iter().find(|protocol| protocol.name == kind)
}
