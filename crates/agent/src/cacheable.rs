//! Holds memory throughout a trial, so that a given amount remains available for caching files.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::ptr;

use fsdyno_record::Bytes;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous};

use crate::account::cacheable_memory;
use crate::process;

/// Number of rounds of holding memory: holding memory itself takes memory, for page tables and for pages in transit
/// between the kernel's lists. For 100 of 256 MiB, two rounds miss by under 0.1 %; the third is for other kernels.
const ROUNDS: usize = 3;

/// The tolerance: a smaller difference is not corrected.
const TOLERANCE: Bytes = Bytes(256 << 10);

/// Leaves `wanted` bytes of the guest's memory, which is `ram` bytes, for caches. A child process holds the rest until
/// the guest is shut down. The OOM killer must not select that child, because the trial would then continue with more
/// memory than it states.
///
/// # Errors
/// If the guest has less, a message with the RAM that would suffice; errors from fork(2), mmap(2) and mlock(2).
pub fn limit_to(wanted: Bytes, ram: Bytes) -> io::Result<()> {
    let available = cacheable_memory();
    if available < wanted {
        return Err(io::Error::other(too_little(wanted, available, ram)));
    }
    let (mut own_end, mut child_end) = UnixStream::pair()?;
    process::fork(|| {
        // An open folder of the file system would keep it from being unmounted.
        process::close_all_but(child_end.as_fd())?;
        process::exempt_from_oom_killer()?;
        for _ in 0..ROUNDS {
            hold(subtract(cacheable_memory(), wanted))?;
        }
        child_end.write_all(&[1])?;
        loop {
            // SAFETY: takes no arguments and touches no memory.
            unsafe { libc::pause() };
        }
    })?;
    drop(child_end);
    own_end.read_exact(&mut [0]).map_err(|_| {
        io::Error::other(format!(
            "{} of the guest's memory could not be held{}",
            subtract(available, wanted),
            crate::kernel_log::hint()
        ))
    })
}

fn subtract(from: Bytes, amount: Bytes) -> Bytes {
    Bytes(from.0.saturating_sub(amount.0))
}

/// Maps, touches and locks `amount` of memory, which is never released.
fn hold(amount: Bytes) -> io::Result<()> {
    if amount < TOLERANCE {
        return Ok(());
    }
    let length = usize::try_from(amount.0).map_err(io::Error::other)?;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; no code reads or writes it, and mlock
    // touches every page of it.
    unsafe {
        let start = mmap_anonymous(ptr::null_mut(), length, prot, MapFlags::PRIVATE)?;
        Ok(mlock(start, length)?)
    }
}

/// Returns the message for a guest with too little memory, with the sufficient RAM in whole mebibytes.
fn too_little(wanted: Bytes, available: Bytes, ram: Bytes) -> String {
    // The kernel's page descriptors (struct page) take 1/64 of any additional memory.
    let missing = subtract(wanted, available).0 * 65 / 64;
    let sufficient = Bytes((ram.0 + missing).next_multiple_of(1 << 20));
    format!(
        "--cacheable {wanted} is not possible with --ram {ram}: only {available} of it can cache files before \
         the first phase; --ram {}M would do",
        sufficient.0 >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_reported_with_a_sufficient_size() {
        let message = too_little(Bytes(900 << 20), Bytes(836 << 20), Bytes(1 << 30));
        assert!(message.contains("--ram 1089M would do"), "{message}");
    }
}
