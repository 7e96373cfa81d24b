//! The cache of flash with one bit per cell, which is programmed faster than with three. Its fill level
//! determines the time of a program. An idle drive moves its content to flash with three bits per cell.

use super::params::Ssd;

/// The cache.
#[derive(Debug)]
pub struct SlcCache {
    /// Its size in bytes; 0 for a drive without one.
    size: u64,
    /// Bytes in it.
    used: u64,
    /// Time of a program, in ns.
    program: u64,
    /// Rate at which an idle drive empties it, in kB/s.
    fold_rate: u64,
}

impl SlcCache {
    /// Creates the empty cache of a drive.
    pub fn new(ssd: &Ssd) -> SlcCache {
        SlcCache {
            size: ssd.slc_cache.0,
            used: 0,
            program: ssd.slc_program_us * 1000,
            fold_rate: ssd.slc_fold_rate_kb,
        }
    }

    /// Takes a program of `bytes` bytes and returns its time, or `None` if the cache is full or absent.
    pub fn program(&mut self, bytes: u64) -> Option<u64> {
        (self.used < self.size).then(|| {
            self.used += bytes;
            self.program
        })
    }

    /// Empties the cache as far as the drive could while it was idle for `time`, in ns.
    pub fn fold(&mut self, time: u64) {
        let moved = u128::from(time) * u128::from(self.fold_rate) / 1_000_000;
        self.used = self.used.saturating_sub(u64::try_from(moved).unwrap_or(u64::MAX));
    }
}
