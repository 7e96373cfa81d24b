//! The calls of jobs, one job after the other, and their totals.

use fsdyno_record::{Nanos, OpKind};

use crate::mail::job::{Job, Progress, READ};
use crate::mail::layout::MailLayout;
use crate::mail::step::Step;
use crate::op::{Call, Expect, Op, ProgressPoint};
use crate::op_source::{OpSource, WorkUnits};
use crate::workload::OpCounts;

/// Totals of the calls of jobs and of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls by kind. For [`Step::Scan`] these are only open and close.
    pub counts: OpCounts,
    /// Number of bytes written.
    pub written: u64,
    /// Number of bytes read.
    pub read: u64,
}

impl Sums {
    /// Adds up all jobs. Jobs with the same steps make the same calls except for those that move bytes, so only
    /// the latter are added up job by job.
    pub fn of_jobs(layout: &MailLayout, jobs: impl Iterator<Item = Job>) -> Sums {
        let mut sums = Sums::default();
        let mut groups: Vec<JobGroup> = Vec::new();
        for job in jobs {
            let existing =
                groups.iter().position(|group| std::ptr::eq(group.first.steps, job.steps));
            let index = existing.unwrap_or_else(|| {
                groups.push(JobGroup { first: job, jobs: 0, writes: 0, reads: 0 });
                groups.len() - 1
            });
            let group = &mut groups[index];
            group.jobs += 1;
            for step in job.steps {
                match step {
                    Step::Write => {
                        group.writes += call_count(layout, &job, *step);
                        sums.written += layout.length(&job);
                    }
                    Step::Read => {
                        group.reads += call_count(layout, &job, *step);
                        sums.read += layout.length(&job);
                    }
                    _ => {}
                }
            }
        }
        for group in groups {
            group.add_to(layout, &mut sums.counts);
        }
        sums.counts.retain(|_, count| *count > 0);
        sums
    }

    /// Returns the given units and the bytes; units of zero are omitted.
    pub fn work_units<const N: usize>(&self, units: [(&'static str, u64); N]) -> WorkUnits {
        let bytes = [("written bytes", self.written), ("read bytes", self.read)];
        units.into_iter().chain(bytes).filter(|(_, count)| *count > 0).collect()
    }
}

/// Jobs with the same steps.
struct JobGroup {
    first: Job,
    jobs: u64,
    /// Number of calls of all their [`Step::Write`] steps, and of all their [`Step::Read`] steps.
    writes: u64,
    reads: u64,
}

impl JobGroup {
    fn add_to(&self, layout: &MailLayout, counts: &mut OpCounts) {
        let start = Progress::start(layout.length(&self.first));
        for step in self.first.steps {
            let calls = match step {
                Step::Write => self.writes,
                Step::Read => self.reads,
                _ => self.jobs,
            };
            match layout.call(&self.first, *step, start, false).kind() {
                Some(kind) => *counts.entry(kind).or_default() += calls,
                None => {
                    for kind in [OpKind::Open, OpKind::Close] {
                        *counts.entry(kind).or_default() += calls;
                    }
                }
            }
        }
    }
}

/// Returns the number of calls of a step; a job without [`Step::Scan`] has as many ops as the sum over its steps.
pub fn call_count(layout: &MailLayout, job: &Job, step: Step) -> u64 {
    match step {
        Step::Read => layout.length(job).div_ceil(u64::from(READ)) + 1,
        Step::Write => layout.part_count(job),
        _ => 1,
    }
}

/// The ops of jobs, one after the other.
pub struct Runner<'a, J> {
    layout: &'a MailLayout,
    jobs: J,
    job: Job,
    /// The length of the job's file.
    length: u64,
    /// The index of the job's next step, and the progress of that step.
    next_step: usize,
    progress: Progress,
    /// True between [`Step::Enter`] and [`Step::Leave`].
    is_inside: bool,
}

impl<'a, J: Iterator<Item = Job>> Runner<'a, J> {
    /// Creates the stream of the ops of `jobs`.
    pub fn new(layout: &'a MailLayout, jobs: J) -> Runner<'a, J> {
        let (job, progress) = (Job::new(&[]), Progress::default());
        Runner { layout, jobs, job, length: 0, next_step: 0, progress, is_inside: false }
    }

    /// Reports whether the next op is the first of a job or there is no next op.
    pub fn is_between_jobs(&mut self) -> bool {
        // The message is complete, or empty.
        while self.job.steps.get(self.next_step) == Some(&Step::Write)
            && self.progress.remaining == 0
        {
            self.go_to(self.next_step + 1);
        }
        self.next_step == self.job.steps.len()
    }

    /// Returns the jobs that have not begun.
    pub fn jobs(&mut self) -> &mut J {
        &mut self.jobs
    }

    /// Returns the next step with a call to make, or `None` at the end of all jobs.
    fn step(&mut self) -> Option<Step> {
        loop {
            match self.job.steps.get(self.next_step) {
                // The message is complete, or empty.
                Some(Step::Write) if self.progress.remaining == 0 => self.go_to(self.next_step + 1),
                Some(step) => return Some(*step),
                None => {
                    self.job = self.jobs.next()?;
                    self.length = self.layout.length(&self.job);
                    self.go_to(0);
                }
            }
        }
    }

    fn go_to(&mut self, step: usize) {
        self.next_step = step;
        self.progress = Progress::start(self.length);
    }

    /// Records that a call was made. A repeating step stays current until its last call, which for a read is the one
    /// that returns nothing.
    fn advance(&mut self, call: Call) {
        if let Call::Write { payload, .. } = call {
            self.progress.advance(payload.length.into());
        } else if let Call::Read { length, .. } = call
            && self.progress.remaining > 0
        {
            self.progress.advance(length.into());
        } else {
            self.go_to(self.next_step + 1);
        }
    }
}

impl<J: Iterator<Item = Job>> Runner<'_, J> {
    #[inline(never)]
    fn next_on_slow_path(&mut self, op: &mut Op) -> bool {
        let Some(step) = self.step() else { return false };
        let is_first = self.next_step == 0 && self.progress.part == 0;
        op.after = if is_first { self.job.after } else { ProgressPoint::default() };
        op.compute = if is_first { self.job.compute } else { Nanos(0) };
        op.expect =
            if matches!(step, Step::CheckAbsent(_)) { Expect::Missing } else { Expect::Success };
        op.call = self.layout.call(&self.job, step, self.progress, self.is_inside);
        self.layout.write_names(&self.job, step, self.is_inside, op);
        match step {
            Step::Enter => self.is_inside = true,
            Step::Leave => self.is_inside = false,
            _ => {}
        }
        self.advance(op.call);
        true
    }
}

impl<J: Iterator<Item = Job>> OpSource for Runner<'_, J> {
    /// Handles the most frequent op, the next line of the same message, on a fast path; the result equals that of
    /// [`Runner::next_on_slow_path`], because neither the names nor the dependency change.
    fn next(&mut self, op: &mut Op) -> bool {
        if let (Call::Write { file, .. }, 1.., 1..) =
            (op.call, self.progress.part, self.progress.remaining)
        {
            let length = self.layout.part_length(&self.job, self.progress);
            let payload = self.layout.payload(&self.job, self.progress.offset, length);
            op.call = Call::Write { file, payload };
            self.progress.advance(length.into());
            return true;
        }
        self.next_on_slow_path(op)
    }
}
