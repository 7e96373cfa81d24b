//! The outcomes of a crash test while its guests recover file systems: judged, stored and reported batch by batch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsdyno_crash::{CutOutcome, Row};
use fsdyno_venue::Watch;
use fsdyno_venue::recover::{Found, RecoveryObserver};

use super::clock::Clock;
use crate::failure::Failure;
use crate::notes::say;

/// A function that stores the row so far.
pub type StoreRow<'a> = dyn Fn(Row) -> Result<(), Failure> + Sync + 'a;

/// The outcomes so far.
#[derive(Default)]
pub(super) struct Done {
    /// All outcomes, in no order.
    pub outcomes: Vec<CutOutcome>,
    /// Number of outcomes that are stored.
    pub written: usize,
    /// The first failure to store them.
    pub failure: Option<Failure>,
}

/// A crash test whose guests are running.
pub(super) struct Observed<'a> {
    /// The flag that ends the test when set.
    pub stop: &'a AtomicBool,
    pub clock: Option<&'a Clock>,
    /// The row, without outcomes.
    pub row: &'a Row,
    pub store: &'a StoreRow<'a>,
    /// Judges a batch of crash points, which is in the order of the cuts.
    pub judge: &'a (dyn Fn(Found) -> Vec<CutOutcome> + Sync),
    pub done: Mutex<Done>,
    /// Number of outcomes stored by an earlier run.
    pub kept: usize,
    /// Number of crash points, including those.
    pub all: usize,
    /// The tenths of the crash points that have been reported.
    pub reported: AtomicU64,
}

impl Observed<'_> {
    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores all outcomes.
    fn write(&self, done: &mut Done) {
        done.written = done.outcomes.len();
        let row = Row { outcomes: ordered(done.outcomes.clone()), ..self.row.clone() };
        if let Err(failure) = (self.store)(row) {
            done.failure.get_or_insert(failure);
        }
    }

    /// Returns all outcomes in the order of the cuts; stores them if the test ended early.
    ///
    /// # Errors
    /// Outcomes that could not be stored.
    pub fn end(self, is_early: bool) -> Result<Vec<CutOutcome>, Failure> {
        let mut done = self.done();
        if is_early && done.outcomes.len() > done.written {
            self.write(&mut done);
        }
        match done.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(ordered(std::mem::take(&mut done.outcomes))),
        }
    }
}

impl RecoveryObserver for Observed<'_> {
    fn progress(&self, done: u64) -> Watch {
        let (label, all) = (&self.row.label, self.all as u64);
        let total = self.kept as u64 + done;
        self.clock.iter().for_each(|clock| clock.progress(done));
        // Reports progress once for each tenth of the crash points.
        let part = total * 10 / all.max(1);
        let first = self.kept as u64 * 10 / all.max(1);
        if part > self.reported.fetch_max(part, Ordering::Relaxed).max(first) && total < all {
            let left = self.clock.map(Clock::text).unwrap_or_default();
            say(&format!("fsdyno: {label}: {total} of {all} crash points{left}"));
        }
        match self.stop.load(Ordering::Relaxed) || self.done().failure.is_some() {
            true => Watch::Stop,
            false => Watch::GoOn,
        }
    }

    fn recovered(&self, found: Found) {
        let judged = (self.judge)(found);
        let mut done = self.done();
        done.outcomes.extend(judged);
        // Each time the whole file is written, so not after each of thousands of guests.
        let is_due = done.outcomes.len() * 10 >= done.written * 11;
        if is_due && done.outcomes.len() < self.all {
            self.write(&mut done);
        }
    }
}

fn ordered(mut outcomes: Vec<CutOutcome>) -> Vec<CutOutcome> {
    outcomes.sort_by_key(|outcome| outcome.cut.sort_key());
    outcomes
}
