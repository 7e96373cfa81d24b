//! Issues ops, times them and records latencies: the only code that loops over system calls.
//!
//! The hot path is [`run_phase`]: a generator rewrites one op in place, an issuer makes the call, a
//! meter reads the clock once and records the latency. Nothing in it allocates. [`run_threads`] runs
//! a phase in many threads.

pub mod calibrate;
pub mod calls;
pub mod clock;
pub mod device_caches;
pub mod errno;
pub mod failure;
pub mod injected_delay;
pub mod issue;
mod kernel;
pub mod limit;
pub mod meter;
pub mod op_clock;
pub mod progress;
pub mod read_once;
pub mod recorder;
pub mod replayed;
pub mod run;
pub mod scan;
pub mod threads;
pub mod timeline;
pub mod tree;
pub mod verify;
pub mod verify_device;

pub use calibrate::{EngineCost, calibrate};
pub use errno::Errno;
pub use failure::{Cause, Failure};
pub use issue::Issuer;
pub use meter::{Meter, Outcome};
pub use read_once::read_once;
pub use recorder::Recorder;
pub use run::{run_phase, run_rank};
pub use threads::{PhaseError, PhaseResult, PhaseRun, ProcessShare, run_threads, run_with_acks};
pub use timeline::{Gauge, Timeline};
pub use verify::verify;
pub use verify_device::verify_device;
