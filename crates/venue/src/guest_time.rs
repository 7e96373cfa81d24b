//! The host time that a guest of the lab took.

use std::time::Duration;

use fsdyno_lab::Finished;

/// The host time of a guest that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestTime {
    /// The time from the start of QEMU to the report.
    pub elapsed: Duration,
    /// The part of it before the first phase, or before the first power cut is recovered.
    pub before_work: Duration,
    /// The processor time of QEMU, if it is known.
    pub cpu: Option<Duration>,
}

impl From<&Finished> for GuestTime {
    fn from(finished: &Finished) -> GuestTime {
        let before_work = finished.first_op.unwrap_or_default();
        GuestTime { elapsed: finished.elapsed, before_work, cpu: finished.cpu }
    }
}
