//! Initializes the guest's random number generator at the start.
//!
//! The lab's CPU has no random number instruction, and for minutes nothing else provides entropy. Until the kernel
//! considers its generator ready, every number drawn costs a hash: ext4, which draws one per inode, then takes some 5 %
//! more instructions to create a file, and the moment at which that ends depends on timing (shown by `fsdyno why` with
//! two CPU speeds). On a machine that has been up for a while, the generator is ready, so it is made ready in the guest
//! too: with the same bytes in every guest, because its output must be repeatable.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// linux/random.h `RNDADDENTROPY`: `_IOW('R', 0x03, int[2])`.
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;

/// linux/random.h `rand_pool_info`, with the 256 bits that the kernel requires (`POOL_READY_BITS`).
#[repr(C)]
struct PoolInfo {
    entropy_bits: libc::c_int,
    bytes: libc::c_int,
    seed: [u8; 32],
}

/// Credits the generator with entropy, so that it is ready.
///
/// # Errors
/// Errors from the kernel; only root may do this.
pub fn credit() -> io::Result<()> {
    let info =
        PoolInfo { entropy_bits: 256, bytes: 32, seed: *b"the same seed in each lab guest!" };
    let device = File::options().write(true).open("/dev/random")?;
    // SAFETY: the kernel reads `info` only during the call, and no more than its size.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY as _, &info) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
