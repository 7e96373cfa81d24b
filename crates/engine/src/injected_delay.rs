//! A delay that a benchmark injects after each unlink(2), to test that a comparison finds it (bench/honesty.sh). It is
//! part of the lab's identity, and zero otherwise.

use std::sync::atomic::{AtomicU32, Ordering};

static LOOPS: AtomicU32 = AtomicU32::new(0);

/// Sets the number of empty loops after each unlink(2), before its return is timed.
pub fn set_loops(loops: u32) {
    LOOPS.store(loops, Ordering::Relaxed);
}

/// Runs the loops.
#[inline]
pub(crate) fn after_unlink() {
    for _ in 0..LOOPS.load(Ordering::Relaxed) {
        std::hint::black_box(());
    }
}
