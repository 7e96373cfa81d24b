//! The log of the time at which each op of a logged trial returned: the region after those of its disks.

use std::io;
use std::os::fd::AsFd;

use fsdyno_record::acks::{self, AckLog};
use fsdyno_record::agent::Job;
use fsdyno_record::guest as layout;
use fsdyno_record::job::Task;
use fsdyno_workload::Workload;

use crate::memory::{open_pci_memory, shared_words_at};

/// Returns the log of a trial's ops, if it has one.
///
/// # Errors
/// A machine without the region.
pub fn open_log(job: &Job, workload: &dyn Workload) -> io::Result<Option<AckLog>> {
    let Some(lab) = job.plan.lab().filter(|_| job.task == Task::Logged) else { return Ok(None) };
    let phases = workload.phases();
    let ranks =
        phases.iter().map(|phase| phase.threads.count_of(job.plan.ranks())).max().unwrap_or(1);
    // No generator has more ops than it makes calls.
    let counts = phases.iter().enumerate().map(|(index, phase)| {
        let counts = workload.counts(index, phase.threads.count_of(job.plan.ranks()));
        counts.into_values().sum::<u64>() + 1
    });
    let (ranks, ops_per_rank) = (ranks as usize, counts.sum::<u64>() as usize);
    let length = acks::words_needed(ranks, ops_per_rank) * 8;
    if length as u64 > acks::REGION - acks::OFFSET {
        return Err(io::Error::other("there are more ops than the log of ops has space for"));
    }
    let memory = open_pci_memory(&layout::disk_pci(lab.disks() as u8))?;
    let words = shared_words_at(memory.as_fd(), acks::OFFSET, length.next_multiple_of(4096))?;
    Ok(AckLog::new(words, ranks, ops_per_rank))
}
