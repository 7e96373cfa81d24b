//! The memory that a venue and its agent share: the venue writes the job; the agent writes progress and report.
//!
//! On a host, it is a memfd inherited by the child; in the lab, a PCI memory region of the guest. It needs no system
//! call and no interrupt while the trial runs, so watching costs the trial nothing. All accesses are atomic, to 64-bit
//! little-endian words.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Size of the mailbox in bytes. 16 MiB: a power of two, as a PCI region must be.
pub const SIZE: usize = 16 << 20;

const MAGIC: u64 = 0x0001_6f6e_7964_7366; // "fsdyno", version 1
const JOB_OFFSET: usize = 4096 / 8;
const REPORT_OFFSET: usize = (1 << 20) / 8;

/// The fixed words at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// Set by the venue after it has written the whole job.
    Magic = 0,
    /// Length of the job in bytes.
    JobLength = 1,
    /// Length of the report in bytes; set last, so a non-zero value means "complete".
    ReportLength = 2,
    /// A [`Stage`].
    Stage = 3,
    /// Index of the current phase.
    Phase = 4,
    /// Number of phases.
    Phases = 5,
    /// Ops done in this trial.
    OpsDone = 6,
    /// Total ops of this trial.
    OpsTotal = 7,
    /// The agent's clock at the last update, in nanoseconds.
    Now = 8,
    /// Number of requests that the disks' servers have answered: a second sign of progress.
    Requests = 9,
    /// Number of bytes of the modelled disks that are stored.
    Stored = 10,
    /// The guest processor's own clock (rdtsc; in the lab, nanoseconds since power-on) at the time when the guest was
    /// stopped to be saved.
    StoppedAt = 11,
    /// Number of bytes that the disks' servers have completed writing, including those outside the trial's phases.
    Written = 12,
}

/// The stage of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u64)]
pub enum Stage {
    /// The agent has not written anything yet.
    Starting = 0,
    /// The agent runs and is about to read its job.
    Ready = 1,
    /// mkfs and mount.
    Preparing = 2,
    /// Running a phase.
    Running = 3,
    /// Between phases: sync, remount.
    Gap = 4,
    /// Reading back and comparing.
    Verifying = 5,
    /// The file system's own check.
    Checking = 6,
    /// The report is complete.
    Done = 7,
}

impl Stage {
    /// Returns the key of this stage in a record's host times.
    pub fn host_time_key(self) -> &'static str {
        match self {
            Stage::Starting | Stage::Ready => "boot",
            Stage::Preparing => "prepare",
            Stage::Running => "phase",
            Stage::Gap => "gap",
            Stage::Verifying => "verify",
            Stage::Checking => "check",
            Stage::Done => "end",
        }
    }

    /// Returns the stage with this number; an unknown number yields [`Stage::Starting`].
    pub fn from_word(word: u64) -> Stage {
        use Stage::*;
        [Starting, Ready, Preparing, Running, Gap, Verifying, Checking, Done]
            .into_iter()
            .find(|stage| *stage as u64 == word)
            .unwrap_or(Starting)
    }

    /// Returns the name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Starting => "starting",
            Stage::Ready => "ready",
            Stage::Preparing => "preparing",
            Stage::Running => "running",
            Stage::Gap => "gap",
            Stage::Verifying => "verifying",
            Stage::Checking => "checking",
            Stage::Done => "done",
        }
    }
}

/// The progress of a running trial, as the venue sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// Index of the current phase.
    pub phase: u64,
    /// Number of phases.
    pub phases: u64,
    /// Ops done.
    pub ops_done: u64,
    /// Total ops.
    pub ops_total: u64,
    /// The agent's clock.
    pub now: crate::Nanos,
    /// Requests answered by the disk's server.
    pub requests: u64,
}

/// An error of a mailbox.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MailboxError {
    /// The memory is smaller than [`SIZE`].
    #[error("the mailbox has {0} bytes; it must have {SIZE}")]
    TooSmall(usize),
    /// The venue has written no job.
    #[error("the mailbox does not contain a job")]
    NoJob,
    /// The job or report does not fit.
    #[error("{content} has {length} bytes; the mailbox has space for {limit}")]
    TooLong {
        /// `the job` or `the report`.
        content: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The maximum length.
        limit: usize,
    },
}

/// A view of the mailbox; each side has one, of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox<'a>(&'a [AtomicU64]);

impl<'a> Mailbox<'a> {
    /// Creates a view of mapped memory.
    ///
    /// # Errors
    /// [`MailboxError::TooSmall`].
    pub fn new(words: &'a [AtomicU64]) -> Result<Mailbox<'a>, MailboxError> {
        if words.len() * 8 < SIZE {
            return Err(MailboxError::TooSmall(words.len() * 8));
        }
        Ok(Mailbox(words))
    }

    /// Returns one word.
    pub fn get(&self, word: Word) -> u64 {
        self.0[word as usize].load(Ordering::Acquire)
    }

    /// Sets one word.
    #[inline]
    pub fn set(&self, word: Word, value: u64) {
        self.0[word as usize].store(value, Ordering::Release);
    }

    /// Adds to one word, modulo 2^64: the servers of several disks share a word.
    #[inline]
    pub fn add(&self, word: Word, value: u64) {
        self.0[word as usize].fetch_add(value, Ordering::AcqRel);
    }

    /// Writes the job. Called by the venue.
    ///
    /// # Errors
    /// [`MailboxError::TooLong`].
    pub fn write_job(&self, job: &[u8]) -> Result<(), MailboxError> {
        self.write("the job", JOB_OFFSET, REPORT_OFFSET, job)?;
        self.set(Word::JobLength, job.len() as u64);
        self.set(Word::Magic, MAGIC);
        Ok(())
    }

    /// Reads the job. Called by the agent.
    ///
    /// # Errors
    /// [`MailboxError::NoJob`].
    pub fn job(&self) -> Result<Vec<u8>, MailboxError> {
        if self.get(Word::Magic) != MAGIC {
            return Err(MailboxError::NoJob);
        }
        Ok(self.read(JOB_OFFSET, REPORT_OFFSET, self.get(Word::JobLength)))
    }

    /// Writes the report and marks it complete. Called by the agent.
    ///
    /// # Errors
    /// [`MailboxError::TooLong`].
    pub fn write_report(&self, report: &[u8]) -> Result<(), MailboxError> {
        self.write("the report", REPORT_OFFSET, SIZE / 8, report)?;
        self.set(Word::Stage, Stage::Done as u64);
        self.set(Word::ReportLength, report.len() as u64);
        Ok(())
    }

    /// Returns the report, once it is complete. Called by the venue.
    pub fn report(&self) -> Option<Vec<u8>> {
        let length = self.get(Word::ReportLength);
        (length > 0).then(|| self.read(REPORT_OFFSET, SIZE / 8, length))
    }

    /// Returns the trial's progress. Called by the venue.
    pub fn progress(&self) -> Progress {
        Progress {
            stage: Stage::from_word(self.get(Word::Stage)),
            phase: self.get(Word::Phase),
            phases: self.get(Word::Phases),
            ops_done: self.get(Word::OpsDone),
            ops_total: self.get(Word::OpsTotal),
            now: crate::Nanos(self.get(Word::Now)),
            requests: self.get(Word::Requests),
        }
    }

    fn write(
        &self,
        content: &'static str,
        from: usize,
        to: usize,
        bytes: &[u8],
    ) -> Result<(), MailboxError> {
        let limit = (to - from) * 8;
        if bytes.len() > limit {
            return Err(MailboxError::TooLong { content, length: bytes.len(), limit });
        }
        for (word, chunk) in self.0[from..to].iter().zip(bytes.chunks(8)) {
            let mut word_bytes = [0; 8];
            word_bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(word_bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    fn read(&self, from: usize, to: usize, length: u64) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min((to - from) * 8);
        let mut bytes: Vec<u8> = self.0[from..from + length.div_ceil(8)]
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        bytes.truncate(length);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Vec<AtomicU64> {
        (0..SIZE / 8).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_job_and_a_report_are_read_as_written() {
        let memory = memory();
        let mailbox = Mailbox::new(&memory).unwrap();
        assert_eq!(mailbox.job(), Err(MailboxError::NoJob));
        mailbox.write_job(b"{\"job\":1}").unwrap();
        assert_eq!(mailbox.job().unwrap(), b"{\"job\":1}");
        assert_eq!(mailbox.report(), None);
        mailbox.write_report(b"{}").unwrap();
        assert_eq!(mailbox.report().unwrap(), b"{}");
        assert_eq!(mailbox.progress().stage, Stage::Done);
    }

    #[test]
    fn a_job_that_does_not_fit_is_refused_and_an_invalid_length_is_limited() {
        let memory = memory();
        let mailbox = Mailbox::new(&memory).unwrap();
        assert!(mailbox.write_job(&vec![1; 1 << 20]).is_err());
        mailbox.set(Word::ReportLength, u64::MAX);
        assert_eq!(mailbox.report().unwrap().len(), SIZE - (1 << 20));
    }

    #[test]
    fn too_little_memory_is_refused() {
        assert!(matches!(Mailbox::new(&[]), Err(MailboxError::TooSmall(0))));
    }
}
