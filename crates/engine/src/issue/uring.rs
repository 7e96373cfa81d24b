//! Calls through io_uring(7): a thread has many ranks in hand, each with one op in flight.
//!
//! The phase is split as if each of the thread's ranks were a thread of its own. Whatever ranks are
//! ready go in with one io_uring_enter(2), and the latency of an op is the time from that call until
//! the thread finds its completion. stat and fstat are the opcode of statx(2).
//!
//! For getdents, chmod, chown, utimens and syncfs there is no opcode, nor in older kernels for some
//! others (ftruncate before 6.9, fsetxattr before 5.19, mkdir, link and symlink before 5.15, rename
//! and unlink before 5.11): those are made by the thread itself as `sync` makes them, one after the
//! other, while the ring goes on. So is what is expanded (Scan, RemoveTree, CopyTree and their like).
//!
//! A rank that waits for one of another thread looks again whenever an op of its own thread has
//! completed; only where none is in flight does the thread sleep for it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fsdyno_record::Nanos;
use fsdyno_workload::{After, Contents, OpSource};
use io_uring::{IoUring, opcode, squeue};

use crate::board::{Board, Halt};
use crate::errno::Errno;
use crate::issue::Issuer;
use crate::issue::lane::{Able, Lane, Step};
use crate::recorder::Recorder;
use crate::run::{Cause, Failure, Meter, Outcome};

/// IORING_ENTER_GETEVENTS of io_uring_enter(2): wait for completions.
const GETEVENTS: u32 = 1;

/// A ring and the ranks that issue through it.
pub struct Uring {
    ring: IoUring,
    able: Able,
    contents: Arc<Contents>,
    /// One for each rank; they stay where they are, for the kernel is given their addresses.
    lanes: Vec<Lane>,
    /// Entries in the queue that the kernel has not taken yet.
    queued: usize,
    /// Entries that the kernel has and has not answered; it may still write to their lanes.
    flying: usize,
}

/// What lives for one phase.
struct Round<'a> {
    meter: Meter<'a>,
    board: &'a Board,
    /// The rank of lane 0.
    first: u32,
    /// Lanes that have something to do.
    ready: VecDeque<usize>,
    /// Lanes that wait for another rank.
    waiting: Vec<usize>,
    /// Lanes whose op goes in with the next call.
    new: Vec<usize>,
    /// What has completed, by lane.
    answers: Vec<(usize, i32)>,
}

/// The sources of a thread's ranks, in the order of its lanes.
pub type Sources<'a> = [Box<dyn OpSource + Send + 'a>];

impl Uring {
    /// A ring for as many ranks as there are roots, each the trial's own directory.
    ///
    /// # Errors
    /// Why there is no io_uring here, and what to do.
    pub fn new(roots: Vec<OwnedFd>, contents: &Arc<Contents>) -> io::Result<Uring> {
        let entries = (roots.len() as u32).next_power_of_two();
        let ring = IoUring::new(entries).map_err(why_not)?;
        let able = Able::of(&ring)?;
        let lanes = roots.into_iter().map(|root| Lane::new(root, contents)).collect();
        Ok(Uring { ring, able, contents: Arc::clone(contents), lanes, queued: 0, flying: 0 })
    }

    /// Issues the ops of all sources until there are no more; the first belongs to rank `first`.
    ///
    /// # Errors
    /// The first op that does not end as its workload says; that another thread has failed. What was
    /// queued and not handed in then never is, so that the ring is of no more use.
    pub fn run(
        &mut self,
        board: &Board,
        first: u32,
        sources: &mut Sources<'_>,
        recorder: &mut Recorder,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Outcome, Failure> {
        let lanes = self.lanes.len().min(sources.len());
        let meter = Meter::start(board, first, lanes as u32, recorder, beat);
        let ready = (0..lanes).collect();
        let (waiting, new, answers) = (Vec::new(), Vec::new(), Vec::new());
        let mut round = Round { meter, board, first, ready, waiting, new, answers };
        let ended = self.rounds(&mut round, sources);
        if ended.is_err() {
            // The others need not wait for what the kernel still has.
            board.stop();
        }
        self.drain();
        ended.map(|()| round.meter.outcome())
    }

    fn rounds(&mut self, round: &mut Round<'_>, sources: &mut Sources<'_>) -> Result<(), Failure> {
        loop {
            for _ in 0..round.ready.len() {
                if let Some(at) = round.ready.pop_front() {
                    self.advance(round, at, sources[at].as_mut())?;
                }
            }
            if self.queued + self.flying > 0 {
                self.enter(round)?;
                self.reap(round)?;
            } else if round.ready.is_empty() {
                if round.waiting.is_empty() {
                    return Ok(());
                }
                self.wait(round)?;
            }
            self.look_again(round);
        }
    }

    /// Lanes that wait for what has come meanwhile are ready. Each is asked once: what it waits for
    /// may come between two looks.
    fn look_again(&self, round: &mut Round<'_>) {
        let Round { board, waiting, ready, .. } = round;
        waiting.retain(|at| {
            let come = board.reached(self.lanes[*at].op.after);
            if come {
                ready.push_back(*at);
            }
            !come
        });
    }

    /// Nothing is in flight and all lanes wait: so does the thread.
    fn wait(&self, round: &mut Round<'_>) -> Result<(), Failure> {
        let points: Vec<After> = round.waiting.iter().map(|at| self.lanes[*at].op.after).collect();
        round.board.wait(&points).map_err(|halt| {
            let never =
                |at: &&usize| matches!(halt, Halt::Never(p) if p == self.lanes[**at].op.after);
            let at = round.waiting.iter().find(never).or(round.waiting.first());
            let lane = &self.lanes[at.copied().unwrap_or(0)];
            round.meter.failure(&lane.op, lane.own.path_of(&lane.op), halt)
        })
    }

    /// Takes one lane as far as it can go without the kernel.
    fn advance(
        &mut self,
        round: &mut Round<'_>,
        at: usize,
        source: &mut dyn OpSource,
    ) -> Result<(), Failure> {
        let lane = &mut self.lanes[at];
        if lane.step == Step::Generate {
            if !source.next(&mut lane.op) {
                round.meter.turn_to(round.first + at as u32);
                round.meter.end();
                return Ok(());
            }
            lane.taken = 0;
            lane.step = Step::Wait;
        }
        if lane.step == Step::Wait {
            if lane.op.after.ops != 0 && !round.board.reached(lane.op.after) {
                round.waiting.push(at);
                return Ok(());
            }
            lane.step = Step::Think;
        }
        if lane.step == Step::Think {
            let now = match lane.op.think.0 | lane.op.due.0 {
                0 => Nanos(0),
                _ => round.meter.now(),
            };
            let pause = lane.pause(now, round.meter.ahead(lane.op.due));
            if !pause.is_zero() {
                let sleep = opcode::Timeout::new(lane.sleep(now, pause)).build();
                return self.submit(round, at, sleep);
            }
            if lane.op.compute.0 != 0 {
                round.meter.thought(Nanos(0), lane.op.compute);
            }
            lane.step = Step::Call;
        }
        match lane.entry(self.able, &self.contents) {
            Some(entry) => self.submit(round, at, entry),
            None => self.call(round, at),
        }
    }

    /// A call that the thread makes itself.
    fn call(&mut self, round: &mut Round<'_>, at: usize) -> Result<(), Failure> {
        let Lane { own, op, step, .. } = &mut self.lanes[at];
        let meter = &mut round.meter;
        meter.turn_to(round.first + at as u32);
        meter.now();
        meter.count_from(op.due);
        *step = Step::Generate;
        round.ready.push_back(at);
        let Some(kind) = op.call.kind() else { return own.expand(op, meter) };
        let answer = own.issue(op);
        let judged = meter.judge(answer, kind, op);
        judged.map_err(|cause| meter.failure(op, own.path_of(op), cause))?;
        if meter.returned(kind) {
            return Ok(());
        }
        Err(meter.failure(op, own.path_of(op), Halt::Stopped))
    }

    /// Puts an entry into the queue; it goes in with the next [`Uring::enter`].
    fn submit(
        &mut self,
        round: &mut Round<'_>,
        at: usize,
        entry: squeue::Entry,
    ) -> Result<(), Failure> {
        // The rest of a write belongs to the latency of its beginning.
        if self.lanes[at].taken == 0 {
            round.new.push(at);
        }
        // SAFETY: names, buffers, status and time live in the lane or in the contents, which stay
        // where they are until the kernel has answered (see `drain`).
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(at as u64)) };
        // There is room for one entry of each lane.
        pushed.map_err(|_| self.failed(round, at, Errno(libc::EBUSY)))?;
        self.queued += 1;
        Ok(())
    }

    /// Hands in what is new and waits for a completion, unless there is other work.
    fn enter(&mut self, round: &mut Round<'_>) -> Result<(), Failure> {
        let since = round.meter.now();
        let first = round.new.first().copied().unwrap_or(0);
        for at in round.new.drain(..) {
            let lane = &mut self.lanes[at];
            lane.since = match lane.step {
                Step::Call => round.meter.since(lane.op.due, since),
                _ => since,
            };
        }
        let wanted = usize::from(round.ready.is_empty());
        match self.ring.submit_and_wait(wanted) {
            Ok(taken) => {
                self.queued -= taken.min(self.queued);
                self.flying += taken;
                Ok(())
            }
            // It has taken nothing, and is asked again once what has completed is out of its way.
            Err(error) if passes(&error) && round.board.stopped() => {
                Err(self.failed(round, first, Halt::Stopped))
            }
            Err(error) if passes(&error) => Ok(()),
            Err(error) => Err(self.failed(round, first, Errno::of(&error))),
        }
    }

    /// Takes what has completed. All of it is accounted for, though one fails: what was opened has to
    /// be closed, and who waits for the kernel must know what it still has.
    fn reap(&mut self, round: &mut Round<'_>) -> Result<(), Failure> {
        let mut answers = std::mem::take(&mut round.answers);
        let completions = self.ring.completion();
        answers.extend(completions.map(|entry| (entry.user_data() as usize, entry.result())));
        self.flying -= answers.len().min(self.flying);
        let now = round.meter.now();
        let mut ended = Ok(());
        for (at, answer) in answers.drain(..) {
            match ended {
                Ok(()) => ended = self.answered(round, at, answer, now),
                Err(_) => self.lanes[at].settle(answer),
            }
        }
        round.answers = answers;
        ended
    }

    /// The kernel has answered a lane: it wakes up, writes on, or has done its op.
    fn answered(
        &mut self,
        round: &mut Round<'_>,
        at: usize,
        answer: i32,
        now: Nanos,
    ) -> Result<(), Failure> {
        let lane = &mut self.lanes[at];
        round.ready.push_back(at);
        if lane.step == Step::Slept {
            let slept = now.since(lane.since);
            if lane.wakes(now) {
                round.meter.thought(slept, lane.op.compute);
            } else {
                round.meter.thought(slept, Nanos(0));
            }
            return match round.board.stopped() {
                true => Err(self.failed(round, at, Halt::Stopped)),
                false => Ok(()),
            };
        }
        if lane.goes_on(answer) {
            return Ok(());
        }
        lane.completed(answer, round.first + at as u32, now, &mut round.meter)
    }

    fn failed(&self, round: &Round<'_>, at: usize, cause: impl Into<Cause>) -> Failure {
        let lane = &self.lanes[at];
        round.meter.failure(&lane.op, lane.own.path_of(&lane.op), cause)
    }

    /// Waits until the kernel has nothing any more that could write to a lane, and hands in nothing.
    fn drain(&mut self) {
        while self.flying > 0 {
            let submitter = self.ring.submitter();
            // SAFETY: nothing is submitted, and there is no argument.
            let waited = unsafe { submitter.enter::<libc::sigset_t>(0, 1, GETEVENTS, None) };
            if waited.is_err_and(|error| !passes(&error)) {
                // Nothing can be known any more; memory that the kernel may use is never freed.
                std::mem::forget(std::mem::take(&mut self.lanes));
                return;
            }
            for entry in self.ring.completion() {
                self.flying -= 1;
                if let Some(lane) = self.lanes.get_mut(entry.user_data() as usize) {
                    lane.settle(entry.result());
                }
            }
        }
    }
}

impl Drop for Uring {
    /// What the kernel may still write to is not freed before it has answered.
    fn drop(&mut self) {
        self.drain();
    }
}

/// Whether io_uring_enter(2) is to be asked again: a signal came, or there is no room until more
/// answers are taken.
fn passes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// Why a ring cannot be had, for people.
fn why_not(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has none (Linux has it since 5.1)".to_string(),
        Some(libc::EPERM) => {
            let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            match sysctl.as_deref().map(str::trim) {
                Ok("1" | "2") => "it is switched off here (sysctl kernel.io_uring_disabled)",
                _ => "it is forbidden here, as by the seccomp filter of a container",
            }
            .to_string()
        }
        Some(libc::ENOMEM) => "it may lock no more memory (ulimit -l)".to_string(),
        // What has no cure of its own keeps its number, and so its name and hint.
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{text}; use --issuer sync"))
}

/// Whether io_uring can be used here, found before any work.
///
/// # Errors
/// Why not, and what to do.
pub fn probe() -> io::Result<()> {
    Able::of(&IoUring::new(1).map_err(why_not)?).map(drop)
}
