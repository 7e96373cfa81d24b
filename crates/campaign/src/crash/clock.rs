//! The time left in the crash tests of a command.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::time_left::{Planned, Remaining, TimeLeft};

/// Tests run one after the other: they have one worker.
const WORKER: usize = 0;

/// The time left in crash tests, whose operations are power cuts.
pub struct Clock {
    begin: Instant,
    left: Mutex<TimeLeft>,
    /// The time at which the running test began, since the beginning.
    test_began: Mutex<Duration>,
}

impl Clock {
    /// Creates the clock of these tests.
    pub fn new(tests: &[Planned]) -> Clock {
        let left = Mutex::new(TimeLeft::new(tests, 1).ending_with_ops());
        Clock { begin: Instant::now(), left, test_began: Mutex::default() }
    }

    /// Records that a test begins.
    pub fn started(&self, test: usize) {
        let now = self.begin.elapsed();
        *self.test_began.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.left().started(WORKER, test, now);
    }

    /// Records the number of power cuts that the running test has done.
    pub fn progress(&self, done: u64) {
        // The boot of the first guests is no indication of the time of a cut.
        self.left().progress(WORKER, done, done > 0, self.begin.elapsed());
    }

    /// Records that a test cannot run here.
    pub fn skipped(&self, test: usize) {
        self.left().skipped(test);
    }

    /// Records that the running test has ended.
    pub fn ended(&self) {
        let began = *self.test_began.lock().unwrap_or_else(PoisonError::into_inner);
        self.left().ended(WORKER, Some(self.begin.elapsed().saturating_sub(began)));
    }

    /// Returns the end of a message: `, about 3 min left`, or `, over 3 min left` for a lower bound; empty if the time is not known yet.
    pub fn text(&self) -> String {
        let left = self.left().of_all(self.begin.elapsed());
        let about = |left: &Remaining| if left.is_lower_bound { "" } else { "about " };
        left.map(|left| format!(", {}{left} left", about(&left))).unwrap_or_default()
    }

    fn left(&self) -> MutexGuard<'_, TimeLeft> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_unknown_before_the_first_cut_unless_earlier_tests_tell_it() {
        let tests = |expected| [Planned { cell: 0, ops: 100, expected, work: None }];
        let clock = Clock::new(&tests(None));
        clock.started(0);
        clock.progress(0);
        assert_eq!(clock.text(), "");
        let clock = Clock::new(&tests(Some(Duration::from_secs(90))));
        assert_eq!(clock.text(), ", about 90 s left");
        clock.started(0);
        clock.ended();
        assert_eq!(clock.text(), "");
    }
}
