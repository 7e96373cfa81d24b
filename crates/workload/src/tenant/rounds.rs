//! The rounds of a tenant, and the stream of its neighbour.

use fsdyno_record::Nanos;
use fsdyno_record::seed::{SplitMix64, mix};

use crate::op::{Call, Op, OpenFlags, ProgressPoint};
use crate::op_source::OpSource;
use crate::tenant::files::{FILE, ROOT, STREAM, TenantSpec, WRITE};

const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const APPEND: OpenFlags = OpenFlags { exclusive: true, append: true, ..WRITE };

/// The next op of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Stat,
    Open,
    Read,
    CloseRead,
    Create,
    Append,
    Fsync,
    Close,
    Unlink,
}

/// The rounds of one tenant in one phase.
///
/// Before the tenant's round `k`, counted over all phases, its `n` files have the numbers `k` to `k + n - 1`; the round
/// creates number `k + n` and removes number `k`.
pub struct Rounds<'a> {
    spec: &'a TenantSpec,
    tenant: u32,
    /// Number of rounds in earlier phases.
    rounds_before: u64,
    /// Number of rounds done in this phase.
    done: u64,
    /// The progress that the first op waits for.
    first: ProgressPoint,
    is_finishing: bool,
    draws: SplitMix64,
    step: Step,
}

impl<'a> Rounds<'a> {
    /// Creates the rounds of a tenant, alone or concurrent with its neighbour, whose rank follows the tenants' ranks.
    pub fn new(spec: &'a TenantSpec, tenant: u32, with_neighbour: bool) -> Rounds<'a> {
        // The neighbour's open precedes its first write.
        let lead = 1 + spec.lead.div_ceil(spec.block);
        let (before, first) = match with_neighbour {
            true => (spec.rounds, ProgressPoint { thread: spec.tenants, ops: lead }),
            false => (0, ProgressPoint::default()),
        };
        let draws = SplitMix64::new(mix(spec.seed ^ mix(before << 20 | u64::from(tenant))));
        Rounds {
            spec,
            tenant,
            rounds_before: before,
            done: 0,
            first,
            is_finishing: false,
            draws,
            step: Step::Stat,
        }
    }

    /// Returns the number of rounds of this tenant so far, in all phases.
    fn round(&self) -> u64 {
        self.rounds_before + self.done
    }

    fn set_name(&self, op: &mut Op, file: u64) {
        self.spec.write_path(&mut op.name, self.tenant, Some(file));
    }

    /// Sets the op's name to that of an existing file, drawn uniformly.
    fn set_random_name(&mut self, op: &mut Op) {
        let file = self.round() + self.draws.below(self.spec.files_per_tenant);
        self.set_name(op, file);
    }
}

impl OpSource for Rounds<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (spec, dir, file) = (self.spec, ROOT, FILE);
        (op.think, op.after) = (Nanos(0), ProgressPoint::default());
        let newest = self.round() + spec.files_per_tenant;
        (op.call, self.step) = match self.step {
            Step::Stat if self.is_finishing || self.done == spec.rounds => return false,
            Step::Stat => {
                op.think = Nanos(self.draws.below(2 * spec.think.0 + 1));
                op.after = std::mem::take(&mut self.first);
                self.set_random_name(op);
                (Call::Stat { dir }, Step::Open)
            }
            Step::Open => {
                self.set_random_name(op);
                (Call::Open { dir, file, flags: READ }, Step::Read)
            }
            Step::Read => (Call::Read { file, length: spec.size }, Step::CloseRead),
            Step::CloseRead => (Call::Close { file }, Step::Create),
            Step::Create => {
                self.set_name(op, newest);
                (Call::Create { dir, file, flags: APPEND, mode: 0o644 }, Step::Append)
            }
            Step::Append => {
                let payload = spec.payload(self.tenant, newest);
                let next_step = if spec.fsync { Step::Fsync } else { Step::Close };
                (Call::Append { file, payload }, next_step)
            }
            Step::Fsync => (Call::Fsync { file }, Step::Close),
            Step::Close => (Call::Close { file }, Step::Unlink),
            Step::Unlink => {
                self.set_name(op, self.round());
                self.done += 1;
                (Call::Unlink { dir }, Step::Stat)
            }
        };
        true
    }

    fn finish(&mut self) {
        self.is_finishing = true;
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// The next op of the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamStep {
    Open,
    Write,
    Close,
    End,
}

/// The ops of the neighbour.
pub struct Stream<'a> {
    spec: &'a TenantSpec,
    offset: u64,
    step: StreamStep,
}

impl<'a> Stream<'a> {
    /// Creates the stream, beginning at the start of the neighbour's file.
    pub fn new(spec: &'a TenantSpec) -> Stream<'a> {
        Stream { spec, offset: 0, step: StreamStep::Open }
    }
}

impl OpSource for Stream<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if self.step == StreamStep::Write {
            if let Some(payload) = self.spec.stream_payload(self.offset) {
                self.offset += u64::from(payload.length);
                op.call = Call::Write { file: FILE, payload };
                return true;
            }
            self.step = StreamStep::Close;
        }
        (op.call, self.step) = match self.step {
            StreamStep::Open => {
                op.name.clear();
                op.name.push(STREAM);
                (Call::Open { dir: ROOT, file: FILE, flags: WRITE }, StreamStep::Write)
            }
            StreamStep::Close => (Call::Close { file: FILE }, StreamStep::End),
            StreamStep::Write | StreamStep::End => return false,
        };
        true
    }

    /// Returns the number of writes.
    fn done(&self) -> u64 {
        self.offset.div_ceil(self.spec.block)
    }
}
