//! The choice and the execution of the arm's next motion.

use fsdyno_record::Nanos;

use super::geometry::Position;
use super::queue::Command;
use super::{Candidate, HardDisk, MAX_DESTAGE_RUN, Motion, Work};
use crate::disk::Action;

impl HardDisk {
    pub(super) fn is_urgent(&self) -> bool {
        !self.arm_queue.is_empty() || self.must_destage()
    }

    pub(super) fn must_destage(&self) -> bool {
        let nearly_full = self.cache.is_nearly_full() && self.cache.has_extents();
        nearly_full || !self.flush_queue.is_empty() || !self.space_queue.is_empty()
    }

    pub(super) fn next_motion(&mut self) -> Option<Motion> {
        if self.is_urgent() {
            return self.choose().map(|choice| self.start(choice));
        }
        if self.segments.is_sequential() || !self.cache.has_extents() {
            if let Some(motion) = self.read_ahead() {
                return Some(motion);
            }
        }
        let extent = self.nearest_extent(u64::MAX)?.0;
        Some(self.start(Candidate::Extent(extent)))
    }

    pub(super) fn choose(&self) -> Option<Candidate> {
        let commands = self.arm_queue.iter().enumerate();
        let oldest = commands.clone().min_by_key(|(_, command)| command.arrived);
        let is_overdue = |command: &Command| self.clock.since(command.arrived).0 > self.age_limit;
        let flush = self.flush_queue.front();
        let oldest_blocked = flush.map(|(command, _)| command).or(self.space_queue.front());
        let blocked_is_older = match (oldest, oldest_blocked) {
            (Some((_, oldest)), Some(blocked)) => blocked.arrived < oldest.arrived,
            _ => false,
        };
        if let Some((index, command)) = oldest {
            if is_overdue(command) && !blocked_is_older {
                return Some(Candidate::Command(index));
            }
        }
        let extent = if self.must_destage() {
            self.nearest_extent(flush.map_or(u64::MAX, |(_, epoch)| *epoch))
        } else {
            None
        };
        if let Some((index, _)) = extent {
            if blocked_is_older && oldest_blocked.is_some_and(is_overdue) {
                return Some(Candidate::Extent(index));
            }
        }
        let command = commands
            .map(|(index, command)| {
                let write = command.request.action == Action::Write;
                (index, self.geometry.access(self.head, command.position, write, self.clock.0))
            })
            .min_by_key(|(_, time)| *time);
        match (command, extent) {
            (Some(command), Some(extent)) if extent.1 < command.1 => {
                Some(Candidate::Extent(extent.0))
            }
            (Some(command), _) => Some(Candidate::Command(command.0)),
            (None, extent) => extent.map(|extent| Candidate::Extent(extent.0)),
        }
    }

    pub(super) fn nearest_extent(&self, max_epoch: u64) -> Option<(usize, u64)> {
        let sector = self.geometry.first_sector(self.head.track);
        self.cache.nearest(sector, max_epoch, |extent| {
            self.geometry.access(self.head, extent.position, true, self.clock.0)
        })
    }

    pub(super) fn start(&mut self, choice: Candidate) -> Motion {
        match choice {
            Candidate::Command(index) => {
                let command = self.arm_queue.swap_remove(index);
                let write = command.request.action == Action::Write;
                let count = command.end() - command.from;
                self.start_motion(
                    command.from,
                    command.position,
                    count,
                    write,
                    Work::Command(command),
                )
            }
            Candidate::Extent(index) => {
                let run = self.cache.take(index, MAX_DESTAGE_RUN, &self.geometry);
                let position = self.geometry.locate(run.first);
                self.start_motion(run.first, position, run.sectors, true, Work::Destage(run))
            }
        }
    }

    pub(super) fn start_motion(
        &mut self,
        first: u64,
        position: Position,
        count: u64,
        write: bool,
        work: Work,
    ) -> Motion {
        if position.cylinder != self.head.cylinder {
            self.counters.seeks = self.counters.seeks.map(|seeks| seeks + 1);
        }
        let access = self.geometry.access(self.head, position, write, self.clock.0);
        let (transfer, head) = self.geometry.transfer(first, count);
        Motion { until: self.clock + Nanos(access + transfer), head, work }
    }

    pub(super) fn read_ahead(&mut self) -> Option<Motion> {
        let (first, sectors) = self.segments.read_ahead(self.geometry.sectors())?;
        let position = self.geometry.locate(first);
        let access = self.geometry.access(self.head, position, false, self.clock.0);
        let reading_since = self.clock + Nanos(access);
        let work = Work::ReadAhead { first, sectors, reading_since, stopped: false };
        Some(self.start_motion(first, position, sectors, false, work))
    }

    /// Stops read-ahead after the sector that is under the head now. Sectors already read become available
    /// immediately, so that a command can be split after the last of them.
    pub(super) fn stop_read_ahead(&mut self) {
        let Some(Motion {
            work: Work::ReadAhead { first, sectors, reading_since, stopped: false },
            ..
        }) = self.arm
        else {
            return;
        };
        if self.clock < reading_since {
            // The seek is abandoned: the head stays where it was, and neither the time nor the seek is counted.
            if self.geometry.locate(first).cylinder != self.head.cylinder {
                self.counters.seeks = self.counters.seeks.map(|seeks| seeks - 1);
            }
            self.arm = None;
            return;
        }
        let (passed, time) =
            self.geometry.passed(first, sectors, self.clock.since(reading_since).0);
        self.segments.extend(first, passed);
        let work = Work::ReadAhead { first, sectors: passed, reading_since, stopped: true };
        let until = (reading_since + Nanos(time)).max(self.clock);
        self.arm = Some(Motion { until, head: self.geometry.locate(first + passed - 1), work });
    }

    pub(super) fn finish_motion(&mut self) {
        let Some(motion) = self.arm.take() else { return };
        self.head = motion.head;
        match motion.work {
            Work::ReadAhead { first, sectors, stopped, .. } => {
                if !stopped {
                    self.segments.extend(first, sectors);
                }
            }
            Work::Destage(run) => {
                self.cache.finish(run);
                self.persisted.push_back((run.first, run.sectors));
                while let Some((command, epoch)) = self.flush_queue.front().copied() {
                    if !self.cache.is_settled(epoch) {
                        break;
                    }
                    self.flush_queue.pop_front();
                    self.complete(&command);
                }
            }
            Work::Command(command) => {
                if command.request.action == Action::Read {
                    self.segments.add(command.request.sector, command.from, command.end());
                } else if command.request.id & self.unreported_mask == 0 {
                    self.persisted
                        .push_back((command.request.sector, command.request.sectors.into()));
                }
                self.complete(&command);
            }
        }
    }
}
