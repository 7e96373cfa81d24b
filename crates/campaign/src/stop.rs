//! Ctrl-C, SIGTERM and SIGHUP: the first one stops cleanly, the second one at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Exit, Failure};

/// The flag that the first signal sets. A second signal ends the process at once; the kernel
/// then kills its trials, and the next start finds what they left.
///
/// # Errors
/// Signals that cannot be handled.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The order matters: the exit is conditional on the flag that the line after it sets.
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
