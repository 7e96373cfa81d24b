//! Ctrl-C, SIGTERM and SIGHUP: the first one stops the run cleanly, the second one immediately.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Exit, Failure};

/// Returns the flag that the first signal sets. A second signal ends the process immediately; the kernel
/// then kills its trials, and the next start finds their leftovers.
///
/// # Errors
/// Signals that cannot be handled.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The order matters: the exit must be registered before the action that sets its flag.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Stopped as i32,
            Arc::clone(&flag),
        )
        .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
        .map_err(|error| Failure {
            exit: Exit::InvalidUse,
            message: format!("failed to listen for signals: {error}"),
        })?;
    }
    Ok(flag)
}
