//! The processor model: bit-identical like the rest of the lab, and part of its identity.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::full;
use crate::common::lab::lab;
use crate::trials::good;

const WORDS: &str = "calls --set files=300 --fs ext4";

/// Returns the first phase.
fn create(trial: &Value) -> &Value {
    let first = &trial["measured"]["phases"][0];
    assert_eq!(first["name"], "create");
    first
}

/// Ends the load when dropped, also if the test fails.
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

#[test]
fn a_processor_profile_repeats_under_load_and_is_a_component_of_the_identity() {
    let Some((folder, other)) = lab().zip(lab()) else { return };
    // The identity includes the snapshot's hash, so both trials of a pair boot in the same mode. A cold pair is also in
    // why.rs, where a trial is explained by running it again.
    let boots: &[&str] = if full() { &["cold", "snapshot"] } else { &["snapshot"] };
    for boot in boots {
        let words = format!("{WORDS} --cpu epyc-2024 --boot {boot}");
        // Two guests at the same time disturb each other, and so do the other tests of `make test`.
        let both = || {
            std::thread::scope(|scope| {
                let one = scope.spawn(|| good(folder.path(), &words));
                let two = good(other.path(), &words);
                (one.join().unwrap(), two)
            })
        };
        let (one, two) = if full() { with_load(both) } else { both() };
        assert_eq!(one["lab_id"], two["lab_id"], "{boot}");
        assert_eq!(one["measured"].to_string(), two["measured"].to_string(), "{boot}");
        let phase = create(&one).clone();
        let counted = |event: &str| phase["processor"]["events"][event].as_u64().unwrap();
        assert!(counted("system_call") >= 600, "{phase}");
        assert!(counted("miss") > 0 && counted("locked") > 0, "{phase}");
        assert!(phase["processor"]["charged"].as_u64().unwrap() > 0);
        assert!(one["lab"]["processor"].as_str().unwrap().contains("second_sets=1024"));
        assert!(one["lab"]["processor model"].as_str().unwrap().starts_with("sha256:"));
        assert_eq!(one["plan"]["venue"]["cpu"]["name"], "epyc-2024");
    }
}
