//! Writes ops, each with the points of other ranks that it waits for.

use fsdyno_record::OpKind;
use fsdyno_trace::Event;
use fsdyno_workload::Call as OpCall;
use fsdyno_workload::replay::code::encode;
use fsdyno_workload::replay::format::{OpRecord, encode_time};

use crate::ReplayError;
use crate::compile::Compiler;
use crate::order::{Point, add};
use crate::plan::Plan;

impl Compiler {
    /// Writes the op of a recorded call.
    pub(crate) fn emit(
        &mut self,
        event: &Event,
        mut plan: Plan,
        mut record: OpRecord,
    ) -> Result<(), ReplayError> {
        if !encode(plan.call, &mut record) {
            return Ok(());
        }
        self.shorten(event, &mut plan, &mut record)?;
        if let Some(kind) = plan.call.kind() {
            self.add_recorded(event, kind, &plan.name);
        }
        self.write_op(event, plan, record)
    }

    /// Writes an op with the points for which it waits.
    pub(crate) fn write_op(
        &mut self,
        event: &Event,
        plan: Plan,
        mut record: OpRecord,
    ) -> Result<(), ReplayError> {
        let rank = self.rank(event.thread);
        let index = usize::from(rank);
        let point = (rank, self.counts[index] + 1);
        record.name = self.out.optional(&plan.name)?;
        record.second_name = self.out.optional(&plan.other)?;
        (record.before_rank, record.before_ops) = self.last;
        let mut needs = Vec::new();
        if self.counts.len() > 1 {
            for (resource, access) in plan.touches {
                self.touches.touch(resource, access, (point, &[]), &mut needs);
            }
            if matches!(plan.call, OpCall::Sync) {
                needs.extend((0u16..).zip(self.counts.iter().copied()));
            }
        }
        let thread = self.threads.entry(event.thread).or_default();
        needs.append(&mut thread.carry);
        record.compute = encode_time(std::mem::take(&mut thread.think));
        if self.has_times {
            record.wall =
                encode_time(thread.returned.map_or(0, |at| event.start.saturating_sub(at)));
            thread.returned = Some(event.returned());
        }
        let waits = self.reduce(rank, &needs);
        if !waits.is_empty() {
            record.waits = 1;
            record.first_wait = self.out.waits(&waits)?;
            self.waiting += 1;
        }
        self.counts[index] = point.1;
        self.last = point;
        if let Some(kind) = plan.call.kind() {
            *self.kinds.entry(kind).or_default() += 1;
        }
        self.ops += 1;
        self.out.op(rank, &record)
    }

    /// Adds a replayed call to the summary. If an event has several ops, its time counts for the first.
    fn add_recorded(&mut self, event: &Event, kind: OpKind, path: &[u8]) {
        let is_first = !std::mem::replace(&mut self.counted, true);
        let recorded = &mut self.recorded;
        let (calls, time) = recorded.times.entry(kind).or_default();
        *calls += 1;
        if !is_first {
            return;
        }
        *time = time.saturating_add(event.duration);
        if let (Some(at), false) = (event.call.identities().names[0], path.is_empty()) {
            let (program, replay) = recorded.components;
            let components = path.split(|byte| *byte == b'/').count() as u64;
            recorded.components = (program + u64::from(at.walked), replay + components);
            recorded.paths += 1;
        }
    }

    /// Returns the points of other ranks for which a rank has not waited yet: the latest of each rank.
    fn reduce(&mut self, rank: u16, needs: &[Point]) -> Vec<Point> {
        let known = &mut self.known[usize::from(rank)];
        let mut waits = Vec::new();
        for (other, ops) in needs.iter().filter(|(other, ops)| *other != rank && *ops > 0) {
            if known.get(other).is_none_or(|known| known < ops) {
                add(&mut waits, (*other, *ops));
            }
        }
        waits.sort_unstable();
        for (other, ops) in &waits {
            known.insert(*other, *ops);
        }
        waits
    }
}
