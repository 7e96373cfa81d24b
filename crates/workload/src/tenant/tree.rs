//! The tree that the tenants and their neighbour leave.

use crate::op::Payload;
use crate::tenant::files::{STREAM, TenantSpec};
use crate::workload::{Expected, Tree};

/// The tree after a number of rounds of each tenant.
pub struct TenantTree<'a> {
    /// The work of the tenants and their neighbour.
    pub spec: &'a TenantSpec,
    /// Number of rounds of each tenant so far.
    pub rounds: Vec<u64>,
    /// True if the neighbour has written its file.
    pub streamed: bool,
}

impl Tree for TenantTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let spec = self.spec;
        if path == STREAM {
            return Some(Expected::pieces(if self.streamed { spec.stream } else { 0 }));
        }
        let mut parts = path.split(|byte| *byte == b'/');
        let tenant = spec.directories.parse(parts.next()?)?;
        let rounds = *self.rounds.get(usize::try_from(tenant).ok()?)?;
        let Some(name) = parts.next() else { return Some(Expected::DIRECTORY) };
        let file = spec.names.parse(name)?;
        let exists =
            (rounds..rounds + spec.files_per_tenant).contains(&file) && parts.next().is_none();
        exists.then(|| Expected::file(spec.payload(tenant as u32, file)))
    }

    fn files(&self) -> u64 {
        u64::from(self.spec.tenants) * self.spec.files_per_tenant + 1
    }

    fn directories(&self) -> u64 {
        u64::from(self.spec.tenants)
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        self.spec.stream_payload(offset).filter(|_| path == STREAM && self.streamed)
    }
}
