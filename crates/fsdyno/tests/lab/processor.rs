//! The processor model: bit-identical like the rest of the lab, part of its identity.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::full;
use crate::common::lab::{lab, skipped};
use crate::trials::good;

const WORDS: &str = "calls --set files=300 --fs ext4";

/// The first phase.
fn create(trial: &Value) -> &Value {
    let first = &trial["measured"]["phases"][0];
    assert_eq!(first["name"], "create");
    first
}

/// Ends a load, also if a test fails meanwhile.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs work with a busy thread next to it.
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

/// Asserts that the first phase of a trial has the events of a processor profile, with at least this number of calls, and
/// that the profile is in its identity.
pub(crate) fn is_profiled(trial: &Value, calls: u64) {
    let phase = create(trial);
    let counted = |event: &str| phase["processor"]["events"][event].as_u64().unwrap();
    assert!(counted("system_call") >= calls, "{phase}");
    assert!(counted("miss") > 0 && counted("locked") > 0, "{phase}");
    assert!(phase["processor"]["charged"].as_u64().unwrap() > 0);
    assert!(trial["lab"]["processor"].as_str().unwrap().contains("second_sets=1024"));
    assert!(trial["lab"]["processor model"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(trial["plan"]["venue"]["cpu"]["name"], "epyc-2024");
}

/// Two guests at once, which disturb each other, beside a busy thread, in both boot modes. `make test` repeats a cold
/// trial beside its other tests, and explains it (why.rs).
#[test]
fn a_processor_profile_repeats_under_load_and_is_a_component_of_the_identity() {
    if !full() {
        return skipped("FSDYNO_TEST=full runs it");
    }
    let Some((folder, other)) = lab().zip(lab()) else { return };
    // The identity has the snapshot's hash, so both of a pair are booted alike.
    for boot in ["cold", "snapshot"] {
        let words = format!("{WORDS} --cpu epyc-2024 --boot {boot}");
        let (one, two) = with_load(|| {
            std::thread::scope(|scope| {
                let one = scope.spawn(|| good(folder.path(), &words));
                let two = good(other.path(), &words);
                (one.join().unwrap(), two)
            })
        });
        assert_eq!(one["lab_id"], two["lab_id"], "{boot}");
        assert_eq!(one["measured"].to_string(), two["measured"].to_string(), "{boot}");
        is_profiled(&one, 600);
    }
}
