//! What is known of one trial, in rows: requests by phase, structure and cause; instructions by phase and
//! function.

use std::collections::BTreeMap;

use fsdyno_record::mailbox::Stage;
use fsdyno_record::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::account::{Account, Cause, Place, Sum};
use crate::grid::Grid;
use crate::kernel::{Frame, Function, Task};
use crate::map::Structure;

/// A phase of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Ops done in it.
    pub ops: u64,
    /// Until the device's cache was empty, or until the last call returned where nobody can say that.
    pub took_ns: Nanos,
    /// CPU time of the threads that issue ops, as the trial measured it.
    pub cpu_ns: Nanos,
    /// Where it asked several disks: time in which any of them had a request of it to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_busy_ns: Option<Nanos>,
    /// Its timed requests as a picture shows them.
    pub requests: Option<Grid>,
    /// Each function, exactly.
    pub functions: Vec<Flat>,
    /// What was executed in it, by whose work it was, as trees of calls without their smallest twigs.
    pub executed: BTreeMap<Task, Frame>,
}

/// What was executed in a function, wherever it was called from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flat {
    /// Whose work it was.
    pub task: Task,
    /// The function.
    pub function: String,
    /// Its module, or the layer of the kernel that its name tells.
    pub layer: String,
    /// Instructions in it, without those of what it calls.
    pub instructions: u64,
    /// How often it was called.
    pub calls: u64,
}

/// A frame that has less than one in so many of the instructions of its tree is kept with others like it.
const SMALLEST: u64 = 5000;

impl Phase {
    /// Takes over what was executed: every function, and the trees as far as a graph can show them.
    pub fn take(&mut self, executed: &BTreeMap<Task, Frame>) {
        self.functions.clear();
        for (task, tree) in executed {
            let from = self.functions.len();
            for (Function { name, layer }, (instructions, calls)) in flat(tree) {
                let function = Flat { task: *task, function: name, layer, instructions, calls };
                self.functions.push(function);
            }
            self.functions[from..].sort_by_key(|it| std::cmp::Reverse(it.instructions));
        }
        let kept = |(task, tree): (&Task, &Frame)| {
            let whole = tree.whole();
            // Of other tasks nothing but the whole is shown.
            let least = if *task == Task::Ops { whole / SMALLEST } else { whole + 1 };
            (*task, tree.pruned(least))
        };
        self.executed = executed.iter().map(kept).collect();
    }
}

/// What the log holds, by itself: what the rows have to sum up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Requests.
    pub requests: u64,
    /// Bytes read, written or discarded.
    pub bytes: Bytes,
    /// Time in which a disk had a request to answer, summed over the disks.
    pub busy_ns: Nanos,
    /// Requests that found no room in the guest's memory.
    pub lost: u64,
}

/// One trial, explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The row's name in tables.
    pub label: String,
    /// The label of its plan, which the identity leaves out.
    pub plan_label: String,
    /// What was run.
    pub workload: String,
    /// Which trial.
    pub trial_id: String,
    /// The lab that it ran in.
    pub lab_id: Option<String>,
    /// Its seed.
    pub seed: u64,
    /// The phases.
    pub phases: Vec<Phase>,
    /// The account of its requests; none where no disk was served.
    pub account: Option<Account>,
    /// What the log holds.
    pub log: Log,
    /// What a reader must know, in sentences.
    pub notes: Vec<String>,
    /// Host time of the first pass and of the second.
    pub host_ns: (Nanos, Nanos),
}

/// A row of the table of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Phase, or what lies between phases.
    pub place: String,
    /// What was touched; none where it cannot be told.
    pub structure: Option<Structure>,
    /// Why.
    pub cause: Cause,
    /// Sums.
    #[serde(flatten)]
    pub sum: Sum,
}

/// A row of the table of functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionRow {
    /// The phase.
    pub phase: String,
    /// Whose work it was.
    pub task: Task,
    /// The function.
    pub function: String,
    /// Its module, or the layer of the kernel that its name tells.
    pub layer: String,
    /// Instructions in it, without those of what it calls.
    pub instructions: u64,
    /// The same for each op of the phase.
    pub per_op: f64,
    /// How often it was called.
    pub calls: u64,
}

impl Explained {
    /// What a place of the trial is called.
    pub fn place(&self, (stage, phase): Place) -> String {
        let name = self.phases.get(usize::from(phase)).map_or("?", |phase| phase.name.as_str());
        match stage {
            Stage::Running => name.to_string(),
            Stage::Gap => format!("after {name}"),
            Stage::Verifying => "verification".into(),
            Stage::Checking | Stage::Done => "end".into(),
            _ => "before the first phase".into(),
        }
    }

    /// The rows of the table of requests, in the trial's order, and within a place by their time.
    pub fn rows(&self) -> Vec<Row> {
        let order = |(stage, phase): Place| match stage {
            Stage::Running => (u32::from(phase) * 2 + 1, 0),
            Stage::Gap => (u32::from(phase) * 2 + 2, 0),
            Stage::Starting | Stage::Ready | Stage::Preparing => (0, 0),
            _ => (u32::MAX, stage as u64),
        };
        // Several verifications are one place.
        let mut sums: BTreeMap<_, (String, Sum)> = BTreeMap::new();
        for (key, sum) in self.account.iter().flat_map(|account| &account.rows) {
            let place = (order(key.place), key.structure, key.cause);
            let row = sums.entry(place).or_default();
            row.0 = self.place(key.place);
            row.1.add(sum);
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by_key(|((order, ..), (_, sum))| {
            (*order, std::cmp::Reverse((sum.time_ns, sum.requests, sum.bytes)))
        });
        let row = |((_, structure, cause), (place, sum))| Row { place, structure, cause, sum };
        rows.into_iter().map(row).collect()
    }

    /// The rows of the table of functions, phase by phase, those with the most instructions first.
    pub fn functions(&self) -> Vec<FunctionRow> {
        let of = |phase: &Phase| -> Vec<FunctionRow> {
            let row = |it: &Flat| FunctionRow {
                phase: phase.name.clone(),
                task: it.task,
                function: it.function.clone(),
                layer: it.layer.clone(),
                instructions: it.instructions,
                per_op: it.instructions as f64 / phase.ops.max(1) as f64,
                calls: it.calls,
            };
            phase.functions.iter().map(row).collect()
        };
        self.phases.iter().flat_map(of).collect()
    }

    /// The same trial with one phase alone. What the log holds is then what of it belongs to that phase: a log
    /// as a whole has no phases, so this is summed up from the rows.
    pub fn only(mut self, name: &str) -> Explained {
        let kept: Vec<u16> = (0u16..)
            .zip(&self.phases)
            .filter(|(_, phase)| phase.name == name)
            .map(|(at, _)| at)
            .collect();
        let belongs = |(stage, phase): Place| {
            matches!(stage, Stage::Running | Stage::Gap) && kept.contains(&phase)
        };
        if let Some(account) = &mut self.account {
            account.rows.retain(|key, _| belongs(key.place));
            account.dots.retain(|dot| belongs(dot.place));
            let Sum { requests, bytes, time_ns, .. } = account.sum(|_| true);
            self.log = Log { requests, bytes, busy_ns: time_ns, ..self.log };
        }
        for phase in self.phases.iter_mut().filter(|phase| phase.name != name) {
            // Its place among the phases stays.
            let (name, ops) = (std::mem::take(&mut phase.name), phase.ops);
            *phase = Phase { name, ops, ..Phase::default() };
        }
        self
    }
}

/// A tree summed up by function.
pub fn flat(tree: &Frame) -> BTreeMap<Function, (u64, u64)> {
    let mut flat = BTreeMap::new();
    tree.below.iter().for_each(|(name, frame)| frame.flat(name, &mut flat));
    flat
}
