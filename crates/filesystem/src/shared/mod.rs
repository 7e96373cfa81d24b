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

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::FilesystemPlan;

    use crate::{Context, Spec, catalog};

    /// Returns the plan of a spec in the lab, or the error's text.
    pub(super) fn plan(text: &str) -> Result<FilesystemPlan, String> {
        let spec = Spec::parse(text).map_err(|error| error.to_string())?;
        let kind = catalog::get(&spec.kind).unwrap();
        kind.plan(&spec, Context::Lab, None).map_err(|error| error.to_string())
    }
}
