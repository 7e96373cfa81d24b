//! A slowdown that a bench plants after each unlink(2), to see whether it is found (bench/honesty.sh). It is
//! part of the lab's identity; elsewhere there is none.

use std::sync::atomic::{AtomicU32, Ordering};

static LOOPS: AtomicU32 = AtomicU32::new(0);

/// From now on so many empty loops follow each unlink(2), before its time is taken.
pub fn plant(loops: u32) {
    LOOPS.store(loops, Ordering::Relaxed);
}

/// What was planted.
#[inline]
pub(crate) fn after_unlink() {
    for _ in 0..LOOPS.load(Ordering::Relaxed) {
        std::hint::black_box(());
    }
}
