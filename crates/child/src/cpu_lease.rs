//! Exclusive leases of processors among the fsdyno processes of one network namespace.
//! (Other containers and other programs ignore the leases; the scheduler arbitrates between them and fsdyno.)
//!
//! QEMU's vCPU thread and its main loop pass one lock back and forth whenever the guest waits. On two processors, each
//! handover wakes an idle processor; on one, the other thread simply continues.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A lease of one processor, released on drop.
#[derive(Debug)]
pub struct CpuLease {
    processor: usize,
    /// An abstract socket name: exclusive, and released when the process ends.
    _socket: UnixListener,
}

impl CpuLease {
    /// Leases the first free processor that this process may use, or `None` if all are leased.
    pub fn take() -> Option<CpuLease> {
        let allowed = sched_getaffinity(None).ok()?;
        (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)).find_map(CpuLease::hold)
    }

    /// Returns the number of the processor.
    pub fn processor(&self) -> usize {
        self.processor
    }

    fn hold(processor: usize) -> Option<CpuLease> {
        let name = SocketAddr::from_abstract_name(format!("fsdyno-processor-{processor}")).ok()?;
        Some(CpuLease { processor, _socket: UnixListener::bind_addr(&name).ok()? })
    }
}

/// Pins the calling thread, and everything that it starts from now on, to this processor.
///
/// # Errors
/// The error of sched_setaffinity(2).
pub(crate) fn pin(processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_can_be_leased_again_once_its_lease_is_dropped() {
        // Other tests and runs on this machine also lease processors, so the test uses a number that none of them can
        // have.
        let processor = CpuSet::MAX_CPU + std::process::id() as usize;
        let first = CpuLease::hold(processor).unwrap();
        assert!(CpuLease::hold(processor).is_none(), "held by {first:?}");
        drop(first);
        assert!(CpuLease::hold(processor).is_some());
    }
}
