//! The explanation of one trial: requests by phase, structure and cause; instructions by phase and function.

use std::collections::BTreeMap;

use fsdyno_record::mailbox::Stage;
use fsdyno_record::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::account::{Account, Cause, Place, Sum};
use crate::grid::Grid;
use crate::kernel::{Frame, Function, Task};
use crate::map::Structure;

/// A phase of the trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name.
    pub name: String,
    /// Number of ops.
    pub ops: u64,
    /// Time until the device's cache was empty or, if that time is unknown, until the last call returned.
    pub took_ns: Nanos,
    /// CPU time of the threads that issue ops, as measured by the trial.
    pub cpu_ns: Nanos,
    /// The time during which at least one disk had one of the phase's requests, if the phase used several disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_busy_ns: Option<Nanos>,
    /// Timed requests, as drawn in a picture.
    pub requests: Option<Grid>,
    /// Time of an instruction according to the trial's processor profile, or `None` if there is no profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction_ns: Option<f64>,
    /// Exact counts of each function.
    pub functions: Vec<FunctionCounts>,
    /// Call trees of the instructions executed, by kind of task, without the smallest branches.
    pub executed: BTreeMap<Task, Frame>,
}

/// The instructions of a function over all its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCounts {
    /// Kind of task.
    pub task: Task,
    /// Name of the function.
    pub function: String,
    /// Its module, or the kernel layer derived from its name.
    pub layer: String,
    /// Instructions in it, without its callees.
    pub instructions: u64,
    /// Number of calls.
    pub calls: u64,
    /// Time of the processor model's events in it alone, in units of one instruction's time, or zero without a model.
    #[serde(default)]
    pub charged: u64,
}

/// Frames with less than 1 / `MIN_FRACTION` of their tree's instructions are merged.
const MIN_FRACTION: u64 = 5000;

impl Phase {
    /// Returns the estimated time of a function in nanoseconds per op: the time of its instructions and of the events
    /// in it, according to the processor profile. `None` without a profile.
    pub fn ns_per_op(&self, counts: &FunctionCounts) -> Option<f64> {
        let ns = self.instruction_ns? * (counts.instructions + counts.charged) as f64;
        Some(ns / self.ops.max(1) as f64)
    }

    /// Returns the instructions per op of the threads that issue ops, or `None` if they were not counted.
    pub fn instructions_per_op(&self) -> Option<f64> {
        let tree = self.executed.get(&Task::Ops)?;
        Some(tree.total() as f64 / self.ops.max(1) as f64)
    }

    /// Stores the counts of every function, and the call trees without branches too small to be shown in a graph.
    pub fn set_executed(&mut self, executed: &BTreeMap<Task, Frame>) {
        self.functions.clear();
        for (task, tree) in executed {
            let first = self.functions.len();
            for (Function { name, layer }, [instructions, calls, charged]) in sums_by_function(tree)
            {
                let row = FunctionCounts {
                    task: *task,
                    function: name,
                    layer,
                    instructions,
                    calls,
                    charged,
                };
                self.functions.push(row);
            }
            self.functions[first..].sort_by_key(|row| std::cmp::Reverse(row.instructions));
        }
        let prune = |(task, tree): (&Task, &Frame)| {
            let total = tree.total();
            // Of tasks of other kinds, only the total is shown.
            let minimum = if *task == Task::Ops { total / MIN_FRACTION } else { total + 1 };
            (*task, tree.pruned(minimum))
        };
        self.executed = executed.iter().map(prune).collect();
    }
}

/// Totals of the log; the rows must sum to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Number of requests.
    pub requests: u64,
    /// Bytes read, written or discarded.
    pub bytes: Bytes,
    /// Time during which a disk had a request to answer, summed over the disks.
    pub busy_ns: Nanos,
    /// Requests lost because the guest's memory for the log was full.
    pub lost: u64,
}

/// The way in which a disk reaches a position that does not continue the previous request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The disk's arm moves. This is also the default for explanations stored by older versions.
    #[default]
    Seek,
    /// Nothing moves.
    Direct,
    /// The volume is reached over a network.
    Network,
}

impl Access {
    /// Returns the kind of access, given whether one of the disks is rotational or a network volume.
    pub fn new(rotational: bool, network: bool) -> Access {
        match (rotational, network) {
            (true, _) => Access::Seek,
            (_, true) => Access::Network,
            _ => Access::Direct,
        }
    }

    fn is_seek(&self) -> bool {
        *self == Access::Seek
    }
}

/// The explanation of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Label of the row in tables.
    pub label: String,
    /// Label of the plan, which is not part of the trial's identity.
    pub plan_label: String,
    /// Workload.
    pub workload: String,
    /// Identity of the trial.
    pub trial_id: String,
    /// Identity of the lab.
    pub lab_id: Option<String>,
    /// Seed.
    pub seed: u64,
    /// The way in which the disk reaches another position.
    #[serde(default, skip_serializing_if = "Access::is_seek")]
    pub access: Access,
    /// Phases.
    pub phases: Vec<Phase>,
    /// The attributed requests; `None` if no disk was served.
    pub account: Option<Account>,
    /// Totals of the log.
    pub log: Log,
    /// Notes for the reader, as sentences.
    pub notes: Vec<String>,
    /// Host time that the first and the second pass took.
    pub host_ns: (Nanos, Nanos),
}

/// A row of the table of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Phase, or the gap between phases.
    pub place: String,
    /// Structure touched; `None` if unattributed.
    pub structure: Option<Structure>,
    /// Cause.
    pub cause: Cause,
    /// Sums.
    #[serde(flatten)]
    pub sum: Sum,
}

/// A row of the table of functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionRow {
    /// Phase.
    pub phase: String,
    /// Kind of task.
    pub task: Task,
    /// Name of the function.
    pub function: String,
    /// Its module, or the kernel layer derived from its name.
    pub layer: String,
    /// Instructions in it, without its callees.
    pub instructions: u64,
    /// Instructions per op of the phase.
    pub per_op: f64,
    /// Estimated nanoseconds per op of the phase, or `None` without a processor profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_op: Option<f64>,
    /// Number of calls.
    pub calls: u64,
}

impl Explained {
    /// Returns the name of a position in the trial.
    pub fn place_name(&self, (stage, phase): Place) -> String {
        let name = self.phases.get(usize::from(phase)).map_or("?", |phase| phase.name.as_str());
        match stage {
            Stage::Running => name.to_string(),
            Stage::Gap => format!("after {name}"),
            Stage::Verifying => "verification".into(),
            Stage::Checking | Stage::Done => "end".into(),
            _ => "before the first phase".into(),
        }
    }

    /// Returns the rows of the table of requests, in the trial's order; within a position, they are sorted by time.
    pub fn rows(&self) -> Vec<Row> {
        let order = |(stage, phase): Place| match stage {
            Stage::Running => (u32::from(phase) * 2 + 1, 0),
            Stage::Gap => (u32::from(phase) * 2 + 2, 0),
            Stage::Starting | Stage::Ready | Stage::Preparing => (0, 0),
            _ => (u32::MAX, stage as u64),
        };
        // Several verifications share one row.
        let mut sums: BTreeMap<_, (String, Sum)> = BTreeMap::new();
        for (key, sum) in self.account.iter().flat_map(|account| &account.rows) {
            let position = (order(key.place), key.structure, key.cause);
            let row = sums.entry(position).or_default();
            row.0 = self.place_name(key.place);
            row.1.add(sum);
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by_key(|((order, ..), (_, sum))| {
            (*order, std::cmp::Reverse((sum.time_ns, sum.requests, sum.bytes)))
        });
        let row = |((_, structure, cause), (place, sum))| Row { place, structure, cause, sum };
        rows.into_iter().map(row).collect()
    }

    /// Returns the rows of the table of functions by phase, those with the most instructions first.
    pub fn functions(&self) -> Vec<FunctionRow> {
        let rows_of = |phase: &Phase| -> Vec<FunctionRow> {
            let row = |counts: &FunctionCounts| FunctionRow {
                phase: phase.name.clone(),
                task: counts.task,
                function: counts.function.clone(),
                layer: counts.layer.clone(),
                instructions: counts.instructions,
                per_op: counts.instructions as f64 / phase.ops.max(1) as f64,
                ns_per_op: phase.ns_per_op(counts),
                calls: counts.calls,
            };
            phase.functions.iter().map(row).collect()
        };
        self.phases.iter().flat_map(rows_of).collect()
    }

    /// Reduces the explanation to one phase. The totals of the log are then the sums of that phase's rows.
    pub fn only_phase(mut self, name: &str) -> Explained {
        let selected: Vec<u16> = (0u16..)
            .zip(&self.phases)
            .filter(|(_, phase)| phase.name == name)
            .map(|(index, _)| index)
            .collect();
        let is_in_phase = |(stage, phase): Place| {
            matches!(stage, Stage::Running | Stage::Gap) && selected.contains(&phase)
        };
        if let Some(account) = &mut self.account {
            account.rows.retain(|key, _| is_in_phase(key.place));
            account.dots.retain(|dot| is_in_phase(dot.place));
            let Sum { requests, bytes, time_ns, .. } = account.sum(|_| true);
            self.log = Log { requests, bytes, busy_ns: time_ns, ..self.log };
        }
        for phase in self.phases.iter_mut().filter(|phase| phase.name != name) {
            // The other phases stay in the list, so that the index of this phase does not change.
            let (name, ops) = (std::mem::take(&mut phase.name), phase.ops);
            *phase = Phase { name, ops, ..Phase::default() };
        }
        self
    }
}

/// Returns the sums of a tree by function.
pub fn sums_by_function(tree: &Frame) -> BTreeMap<Function, [u64; 3]> {
    let mut sums = BTreeMap::new();
    tree.below.iter().for_each(|(name, frame)| frame.add_to_sums(name, &mut sums));
    sums
}
