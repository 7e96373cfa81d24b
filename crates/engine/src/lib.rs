//! Issue ops, time them, record latencies: the only place that loops over system calls.
//!
//! The hot path is [`run_phase`]: a generator rewrites one op in place, an issuer makes the call, a
//! meter reads the clock once and counts the latency. Nothing in it allocates. A phase of many threads
//! is [`run_threads`].

pub mod board;
pub mod calibrate;
pub mod clock;
pub mod errno;
pub mod issue;
mod kernel;
pub mod limit;
pub mod op_clock;
pub mod planted;
pub mod recorder;
pub mod run;
pub mod scan;
pub mod threads;
pub mod timeline;
pub mod tree;
pub mod verify;
pub mod verify_device;

pub use calibrate::{OwnCost, calibrate};
pub use errno::Errno;
pub use issue::Issuer;
pub use recorder::Recorder;
pub use run::{Cause, Failure, Meter, Outcome, run_phase, run_rank};
pub use threads::{Crew, PhaseError, run_acked, run_threads};
pub use timeline::{Gauge, Timeline};
pub use verify::verify;
pub use verify_device::verify_device;
