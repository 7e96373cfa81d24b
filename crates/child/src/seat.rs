//! A processor for one child, which no other child of any fsdyno in this network namespace gets meanwhile.
//! (Two containers know nothing of each other's; there, as beside other work, the scheduler decides.)
//!
//! QEMU's processor thread and its main loop hand one lock to and fro at every wait of the guest. On two
//! processors each turn wakes an idle one; on one the other thread simply goes on.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A processor, held as long as this lives.
#[derive(Debug)]
pub struct Seat {
    processor: usize,
    /// A name that only one socket can have, and that goes with the process.
    _name: UnixListener,
}

impl Seat {
    /// The first processor that this process may use and nobody holds; none if there is none.
    pub fn take() -> Option<Seat> {
        let allowed = sched_getaffinity(None).ok()?;
        (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)).find_map(Seat::hold)
    }

    /// Its number.
    pub fn processor(&self) -> usize {
        self.processor
    }

    fn hold(processor: usize) -> Option<Seat> {
        let name = SocketAddr::from_abstract_name(format!("fsdyno-processor-{processor}")).ok()?;
        Some(Seat { processor, _name: UnixListener::bind_addr(&name).ok()? })
    }
}

/// Has the calling thread, and what it starts from now on, run on this processor alone.
///
/// # Errors
/// What sched_setaffinity(2) refused.
pub(crate) fn sit(processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_free_again_when_it_is_given_up() {
        // Other tests and other runs on this machine take seats too: a number of its own.
        let processor = CpuSet::MAX_CPU + std::process::id() as usize;
        let first = Seat::hold(processor).unwrap();
        assert!(Seat::hold(processor).is_none(), "held by {first:?}");
        drop(first);
        assert!(Seat::hold(processor).is_some());
    }
}
