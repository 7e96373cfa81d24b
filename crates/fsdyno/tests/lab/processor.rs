//! The processor model: bit-identical like the rest of the lab, and part of its identity.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::full;
use crate::common::lab::{lab, skipped};
use crate::trials::run_ok;

const ARGS: &str = "calls --set files=300 --fs ext4";

/// Returns the first phase, `create`.
fn create_phase(trial: &Value) -> &Value {
    let first = &trial["measured"]["phases"][0];
    assert_eq!(first["name"], "create");
    first
}

/// Stops the load when dropped, even if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while another thread is busy.
fn with_load<T>(work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let _stop = Stop(&stop);
        work()
    })
}

/// Asserts that the first phase of a trial has the events of a processor profile, at least `calls` of them system calls,
/// and that the profile is in its identity.
pub(crate) fn assert_profiled(trial: &Value, calls: u64) {
    let phase = create_phase(trial);
    let counted = |event: &str| phase["processor"]["events"][event].as_u64().unwrap();
    assert!(counted("system_call") >= calls, "{phase}");
    assert!(counted("miss") > 0 && counted("locked") > 0, "{phase}");
    assert!(phase["processor"]["charged"].as_u64().unwrap() > 0);
    assert!(trial["lab"]["processor"].as_str().unwrap().contains("second_sets=1024"));
    assert!(trial["lab"]["processor model"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(trial["plan"]["venue"]["cpu"]["name"], "epyc-2024");
}

/// Two guests that run at the same time disturb each other, and a busy thread disturbs both. `make test` only repeats a
/// cold trial, while its other tests run, when it explains it (why.rs).
#[test]
fn results_with_a_processor_profile_are_bit_identical_under_load_and_the_profile_is_part_of_the_identity()
 {
    if !full() {
        return skipped("FSDYNO_TEST=full runs it");
    }
    let Some((folder, other)) = lab().zip(lab()) else { return };
    // The identity includes the snapshot's hash, so both trials use the same boot mode.
    for boot in ["cold", "snapshot"] {
        let args = format!("{ARGS} --cpu epyc-2024 --boot {boot}");
        let (one, two) = with_load(|| {
            std::thread::scope(|scope| {
                let one = scope.spawn(|| run_ok(folder.path(), &args));
                let two = run_ok(other.path(), &args);
                (one.join().unwrap(), two)
            })
        });
        assert_eq!(one["lab_id"], two["lab_id"], "{boot}");
        assert_eq!(one["measured"].to_string(), two["measured"].to_string(), "{boot}");
        assert_profiled(&one, 600);
    }
}
