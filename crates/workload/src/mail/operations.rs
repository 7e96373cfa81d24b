//! Operations of several jobs each; a stonewall can end the work between two operations.

use std::ops::Range;

use crate::items::Items;
use crate::mail::job::Job;
use crate::mail::runner::Runner;

/// The jobs of an operation, at most three.
pub type Jobs = [Option<Job>; 3];

/// The jobs of numbered operations, preceded by jobs that belong to no operation.
pub struct Operations<F> {
    /// The jobs of the current operation.
    jobs: Jobs,
    next: usize,
    first: u64,
    numbers: Range<u64>,
    jobs_of: F,
}

impl<F: FnMut(u64) -> Jobs> Operations<F> {
    /// Creates the sequence of the jobs `before`, then of those that `jobs_of` returns for each number.
    pub fn new(before: Jobs, numbers: Range<u64>, jobs_of: F) -> Operations<F> {
        Operations { jobs: before, next: 0, first: numbers.start, numbers, jobs_of }
    }

    /// Takes the next job of the current operation.
    fn next_in_operation(&mut self) -> Option<Job> {
        while let Some(job) = self.jobs.get(self.next) {
            self.next += 1;
            if job.is_some() {
                return *job;
            }
        }
        None
    }
}

impl<F: FnMut(u64) -> Jobs> Iterator for Operations<F> {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        loop {
            if let Some(job) = self.next_in_operation() {
                return Some(job);
            }
            self.jobs = (self.jobs_of)(self.numbers.next()?);
            self.next = 0;
        }
    }
}

/// An item is an operation.
impl<F: FnMut(u64) -> Jobs> Items for Runner<'_, Operations<F>> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        if !self.is_between_jobs() {
            return None;
        }
        let operations = self.jobs();
        let mut remaining = operations.jobs.iter().skip(operations.next);
        let numbers = &operations.numbers;
        remaining
            .all(Option::is_none)
            .then(|| (numbers.start - operations.first, !numbers.is_empty()))
    }

    fn set_max_items(&mut self, max_items: u64) {
        let operations = self.jobs();
        let end = operations.first.saturating_add(max_items);
        operations.numbers.end = operations.numbers.end.min(end);
    }
}
