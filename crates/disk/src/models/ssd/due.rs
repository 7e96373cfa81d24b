//! The time at which a drive must be called next: that of the next completion, or a lower bound of it.

use super::SolidStateDisk;
use super::command::{Command, Stage, page_reads};
use crate::disk::Action;

impl SolidStateDisk {
    /// Returns the time of the next call that the drive needs.
    pub(super) fn due(&self) -> Option<u64> {
        if let Some((due, _)) = self.completions.front() {
            return Some(*due);
        }
        let known = self.completing.front().map(|(due, _)| *due);
        let die = self.dies.next_end().unwrap_or(self.clock);
        let events = [self.link.next_end(), self.dies.next_end(), self.destage_at()];
        let event = events.into_iter().flatten().min().unwrap_or(self.clock);
        // Commands without a known completion time wait for at least one of these events and the drive's latency.
        // The time of a TRIM is known once its last transfer begins.
        let earliest = event + self.times.read_latency.min(self.times.write_latency);
        let earliest =
            if self.times.full_duplex { earliest.min(event + self.times.trim) } else { earliest };
        if known.is_some_and(|known| known <= earliest) {
            return known;
        }
        // With SATA a TRIM runs alone, so only the dies free space in the buffer.
        let frees = if self.times.full_duplex { event } else { die };
        let waiting = self.commands[..self.used].iter().flatten();
        let others = waiting.filter_map(|command| {
            let link = self.link.free_at(command, &self.times).unwrap_or(self.clock);
            self.earliest(command, link, frees, die)
        });
        known.into_iter().chain(others).min()
    }

    /// Returns the earliest possible completion of a command, if its time is not yet known. The transfer on the
    /// command's path ends at `link`; the first event that can free space in the buffer is at `event`, and the
    /// first work of the dies ends at `die`.
    fn earliest(&self, command: &Command, link: u64, event: u64, die: u64) -> Option<u64> {
        let times = &self.times;
        let leave = || command.bytes() * 1_000_000 / times.read_rate + times.read_latency;
        let recorded = times.least_program + times.write_latency + times.after_record(command);
        Some(match (command.stage, command.request.action) {
            (Stage::Completing, _) => return None,
            (Stage::NeedsSpace, Action::Trim) => event,
            (Stage::NeedsSpace, _) => event + times.on_link(command) + times.write_latency,
            (Stage::Arriving, Action::Read) => {
                let (first, end) = command.range();
                let read = page_reads(0, first, end, self.flash_page).next();
                let sensing =
                    read.filter(|_| !command.hit).map_or(0, |read| self.dies.min_read_time(&read));
                link + sensing + leave()
            }
            (Stage::Arriving | Stage::Incoming, Action::Trim) => link + times.trim,
            (Stage::Arriving | Stage::Incoming, Action::Write)
                if !self.completes_from_buffer(command) =>
            {
                link + times.least_program + recorded
            }
            (Stage::Arriving, Action::Write) if times.full_duplex => {
                link + command.bytes() * 1_000_000 / times.write_rate + times.write_latency
            }
            // A flush that is alone in the drive records the mapping itself.
            (Stage::Arriving | Stage::Incoming, Action::Flush)
                if self.admitted == 1 && !self.protected && !self.is_clean() =>
            {
                link + recorded
            }
            (Stage::Arriving | Stage::Incoming, _) => link + times.write_latency,
            (Stage::Reading { ready, .. }, _) => ready.max(die) + leave(),
            (Stage::Leaving, _) => link + leave(),
            (Stage::Settling { .. }, _) => event + recorded,
            (Stage::Recording { ready }, _) => {
                ready.max(die) + times.write_latency + times.after_record(command)
            }
        })
    }
}
