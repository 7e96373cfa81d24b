//! Programs pages of the buffer into the dies, and charges the cost of garbage collection.

use super::buffer::{PAGE, Slot};
use super::command::Stage;
use super::dies::{MAX_PAGES_PER_PROGRAM, Purpose};
use super::{PAGE_BYTES, SolidStateDisk};

impl SolidStateDisk {
    /// Returns the time at which waiting pages are old enough to destage.
    pub(super) fn destage_at(&self) -> Option<u64> {
        let due = self.waiting_since + self.times.destage;
        (self.buffer.waiting_pages() > 0 && due > self.clock).then_some(due)
    }

    /// Returns true if a program must start even if it is not full.
    pub(super) fn must_destage(&self) -> bool {
        !self.space_queue.is_empty()
            || self.clock >= self.waiting_since + self.times.destage
            || self.settling > 0
    }

    pub(super) fn start_programs(&mut self) {
        while let Some(die) = self.dies.next_free() {
            if let Some(at) = self.record_queue.pop_front() {
                let record = Purpose::Record { command: at };
                let time = self.slc.program(0).unwrap_or(self.times.program);
                let ready = self.dies.program(self.clock, die, record, &[], time);
                self.set_stage(at, Stage::Recording { ready });
            } else if self.gc_debt_pages >= self.program_pages as u64 {
                self.gc_debt_pages -= self.program_pages as u64;
                let time = self.times.program;
                self.dies.program(self.clock, die, Purpose::Collection, &[], time);
            } else {
                let waiting = self.buffer.waiting_pages();
                if waiting == 0 || (waiting < self.program_pages && !self.must_destage()) {
                    return;
                }
                self.program_host_pages(die);
            }
        }
    }

    pub(super) fn program_host_pages(&mut self, die: usize) {
        let mut slots: [Slot; MAX_PAGES_PER_PROGRAM] = [0; MAX_PAGES_PER_PROGRAM];
        let mut count = 0;
        while count < self.program_pages {
            let Some((slot, page)) = self.buffer.take() else { break };
            self.ftl.write(page);
            slots[count] = slot;
            count += 1;
        }
        self.waiting_since = self.clock;
        while self.superblocks_erased < self.ftl.opened_superblocks() {
            self.dies.erase_before_next_programs();
            self.superblocks_erased += 1;
        }
        self.charge_collection(count as u64);
        let time = self.slc.program(count as u64 * PAGE_BYTES).unwrap_or(self.times.program);
        self.dies.program(self.clock, die, Purpose::Host, &slots[..count], time);
    }

    /// Spreads the cost of moved pages evenly over the pages written before the next
    /// collection.
    pub(super) fn charge_collection(&mut self, pages: u64) {
        let uncharged = self.ftl.moved_pages() - self.moved_pages_charged;
        let before_next = u64::from(self.ftl.writable_pages()) + pages;
        let now = (uncharged * pages).div_ceil(before_next);
        self.moved_pages_charged += now;
        self.gc_debt_pages += now;
    }

    pub(super) fn finish_program(&mut self, die: usize) {
        let (purpose, slots) = self.dies.finished_program(die);
        if let Purpose::Record { command: at } = purpose {
            let time_after_record =
                self.commands[at].map_or(0, |command| self.times.after_record(&command));
            self.complete_at(at, self.clock + self.times.write_latency + time_after_record);
            return;
        }
        self.unrecorded |= purpose == Purpose::Host;
        let mut run = (0, 0);
        for slot in slots {
            let (page, sectors) = self.buffer.finish(*slot);
            // With power-loss protection they were already persisted in the buffer.
            let sectors = if self.protected { 0 } else { sectors };
            for bit in (0..PAGE).filter(|bit| sectors & (1 << bit) != 0) {
                let sector = page * PAGE + bit;
                if run.0 + run.1 == sector {
                    run.1 += 1;
                } else {
                    if run.1 > 0 {
                        self.persisted.push_back(run);
                    }
                    run = (sector, 1);
                }
            }
        }
        if run.1 > 0 {
            self.persisted.push_back(run);
        }
    }

    /// Advances commands to the record once all of their pages are on flash.
    pub(super) fn settle(&mut self) {
        if self.settling == 0 {
            return;
        }
        let leaving = self.dies.slots().map(|slot| self.buffer.order(slot));
        let oldest = leaving.chain(self.buffer.oldest_waiting()).min();
        for at in 0..self.used {
            let Some(Stage::Settling { arrival }) = self.commands[at].map(|command| command.stage)
            else {
                continue;
            };
            if oldest.is_some_and(|oldest| oldest <= arrival) {
                continue;
            }
            self.settling -= 1;
            if self.unrecorded {
                self.set_stage(at, Stage::Recording { ready: 0 });
                self.record_queue.push_back(at);
            } else {
                self.complete_at(at, self.clock + self.times.write_latency);
            }
        }
        if !self.record_queue.is_empty() {
            self.unrecorded = false;
        }
    }

    /// Returns true if a flush has nothing to do.
    pub(super) fn is_clean(&self) -> bool {
        !self.unrecorded && self.buffer.is_empty()
    }
}
