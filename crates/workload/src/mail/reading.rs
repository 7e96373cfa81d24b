//! The script that only reads: it lists the directory once, then reads random messages.

use fsdyno_record::Nanos;
use fsdyno_record::seed::stream;

use crate::mail::job::Job;
use crate::mail::protocol::READ_MESSAGE;
use crate::mail::step::Step;

/// Returns the jobs: one listing by `list`, then `reads` reads of messages drawn uniformly from the first `store`
/// messages, with compute time `compute` before each read.
pub fn read_jobs(
    seed: u64,
    list: &'static [Step],
    (reads, store): (u64, u64),
    compute: Nanos,
) -> impl Iterator<Item = Job> + Send {
    let mut draws = stream(seed, "maildir-read");
    let reads = (0..reads).map(move |_| Job {
        message: draws.below(store),
        compute,
        ..Job::new(READ_MESSAGE)
    });
    std::iter::once(Job::new(list)).chain(reads)
}
