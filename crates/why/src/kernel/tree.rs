//! Call trees of executed instructions, one per phase and kind of task.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::names::{Function, Names};

/// A counted node of a call tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Address of the node's function; [`USER`] for user code, 2 for interrupts, and the number of the stack for a
    /// root.
    pub function: u64,
    /// Instructions in it, without its callees.
    pub instructions: u64,
    /// Number of calls.
    pub calls: u64,
    /// Time that the processor model charged in it, in 1/1024 of an instruction's time.
    pub charged: u64,
    /// Index of its caller.
    pub parent: Option<u32>,
}

/// The number of units into which an instruction's time is divided to count charges.
const CHARGE_UNITS: u64 = 1024;

/// The function of all user code.
pub const USER: u64 = 1;
/// The function of all interrupts, whose handlers are below it.
const INTERRUPT: u64 = 2;

/// A kind of task.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// The threads that issue ops. If there is only one, it is the agent's own thread, which also syncs after the
    /// phase.
    #[default]
    Ops,
    /// The rest of the agent: its reads of /proc and, with several threads, all of its other work.
    Agent,
    /// Kernel threads that work for the file system: journal, write-back, and others.
    Kernel,
    /// Interrupts and their deferred work, in any task.
    Interrupts,
    /// The modelled disk's server and the driver thread that feeds it.
    Instrument,
    /// The idle processor.
    Idle,
}

impl Task {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Task::Ops => "ops",
            Task::Agent => "agent",
            Task::Kernel => "kernel threads",
            Task::Interrupts => "interrupts",
            Task::Instrument => "instrument",
            Task::Idle => "idle",
        }
    }
}

/// A function with its callees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Instructions in the function alone.
    pub own: u64,
    /// Number of calls.
    pub calls: u64,
    /// Time of the processor model's events in it alone, in units of one instruction's time, or zero without a model.
    #[serde(default)]
    pub charged: u64,
    /// Its layer.
    pub layer: String,
    /// Callees by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub below: BTreeMap<String, Frame>,
}

/// Name of the frame into which all small frames are merged.
pub const SMALLER: &str = "(smaller)";

impl Frame {
    /// Returns the instructions in the function and in all its callees.
    pub fn total(&self) -> u64 {
        self.own + self.below.values().map(Frame::total).sum::<u64>()
    }

    /// Returns the time that the processor model charged in the function and in all its callees.
    fn total_charged(&self) -> u64 {
        self.charged + self.below.values().map(Frame::total_charged).sum::<u64>()
    }

    /// Returns the tree with estimated nanoseconds instead of instructions.
    pub fn with_times(&self, instruction_ns: f64) -> Frame {
        let callees = self.below.iter();
        Frame {
            own: ((self.own + self.charged) as f64 * instruction_ns).round() as u64,
            calls: self.calls,
            charged: 0,
            layer: self.layer.clone(),
            below: callees
                .map(|(name, callee)| (name.clone(), callee.with_times(instruction_ns)))
                .collect(),
        }
    }

    /// Returns the tree in which the callees of a frame that have fewer than `minimum` instructions, including their
    /// own callees, are merged into one frame.
    pub fn pruned(&self, minimum: u64) -> Frame {
        let (mut large, mut smaller) = (BTreeMap::new(), Frame::default());
        for (name, callee) in &self.below {
            match callee.total() {
                total if total < minimum => {
                    smaller.own += total;
                    smaller.charged += callee.total_charged();
                    smaller.calls += callee.calls;
                }
                _ => drop(large.insert(name.clone(), callee.pruned(minimum))),
            }
        }
        if smaller.own > 0 {
            smaller.layer = SMALLER.into();
            large.insert(SMALLER.into(), smaller);
        }
        Frame { layer: self.layer.clone(), below: large, ..*self }
    }

    /// Adds the instructions, calls and charges of the tree to the sums by function.
    pub fn add_to_sums(&self, name: &str, sums: &mut BTreeMap<Function, [u64; 3]>) {
        if self.own > 0 || self.calls > 0 {
            let function = Function { name: name.to_string(), layer: self.layer.clone() };
            let sum = sums.entry(function).or_default();
            sum[0] += self.own;
            sum[1] += self.calls;
            sum[2] += self.charged;
        }
        self.below.iter().for_each(|(name, frame)| frame.add_to_sums(name, sums));
    }
}

/// Returns the trees of an interval of a trial: the counts at its end minus those at its start.
pub fn trees(names: &Names, start: &[Counted], end: &[Counted]) -> BTreeMap<Task, Frame> {
    let functions: Vec<Function> = end.iter().map(|node| function_of(names, node)).collect();
    let difference = |(index, node): (usize, &Counted)| {
        let earlier = start.get(index).copied().unwrap_or_default();
        Counted {
            instructions: node.instructions.saturating_sub(earlier.instructions),
            calls: node.calls.saturating_sub(earlier.calls),
            charged: node.charged.saturating_sub(earlier.charged),
            ..*node
        }
    };
    let counted: Vec<Counted> = end.iter().enumerate().map(difference).collect();
    let tasks = tasks(&functions, &counted, start.len());
    let mut trees: BTreeMap<Task, Frame> = BTreeMap::new();
    for (index, node) in counted.iter().enumerate().skip(1) {
        let (own, calls) = (node.instructions, node.calls);
        if own == 0 && calls == 0 {
            continue;
        }
        // The chain of callers, from the node up to its root, which has no name.
        let mut chain = Vec::new();
        let mut position = index;
        while let Some(parent) = end[position].parent {
            chain.push(&functions[position]);
            if chain.len() > 1000 {
                break;
            }
            position = parent as usize;
        }
        let mut frame = trees.entry(tasks[index]).or_default();
        for function in chain.iter().rev() {
            frame = frame.below.entry(function.name.clone()).or_default();
            frame.layer.clone_from(&function.layer);
        }
        frame.own += own;
        frame.calls += calls;
        frame.charged += node.charged / CHARGE_UNITS;
    }
    trees
}

fn function_of(names: &Names, node: &Counted) -> Function {
    match (node.parent, node.function) {
        (None, _) => Function { name: "task".into(), layer: "task".into() },
        (_, USER) => Function { name: "user".into(), layer: "user".into() },
        (_, INTERRUPT) => Function { name: "interrupt".into(), layer: "interrupt".into() },
        (_, address) => names.function_at(address),
    }
}

/// Functions that identify a kernel thread as part of the instrument: nbd's threads.
const DRIVER: &[&str] = &["recv_work", "nbd_xmit_timeout", "nbd_dev_remove_work"];
/// Functions in which the disk's server spends its time: it reads requests from its end of a socket as from a file.
/// (For any request, the kernel uses the driver's end through other functions.) The sampler of dirty pages also waits
/// at a socket, a few times per phase.
const SERVER: &[&str] = &["sock_read_iter", "sock_write_iter", "__sys_recvfrom", "__sys_sendto"];
/// Entry point of all system calls.
const SYSTEM_CALL: &str = "do_syscall_64";
/// At least 1 / `MIN_SOCKET_FRACTION` of a server's system calls use its socket: it reads, answers, and reads the time.
const MIN_SOCKET_FRACTION: u64 = 10;
/// Prefixes of functions that only readers of /proc or /sys call. No workload reads these directories.
const PROC_READERS: &[&str] =
    &["proc_", "seq_read", "kernfs_", "sysfs_", "pid_", "tgid_", "meminfo_"];
/// Entry points of the idle loop.
const IDLE: &[&str] = &["do_idle", "cpu_startup_entry"];

/// The evidence about the kind of a task.
#[derive(Default)]
struct Evidence {
    user: bool,
    socket_calls: u64,
    system_calls: u64,
}

impl Evidence {
    fn is_server(&self) -> bool {
        self.socket_calls > 0
            && self.socket_calls.saturating_mul(MIN_SOCKET_FRACTION) >= self.system_calls
    }
}

/// Returns the kind of task of each node, judged by the functions executed in the interval.
fn tasks(functions: &[Function], nodes: &[Counted], start_count: usize) -> Vec<Task> {
    let contains = |names: &[&str], name: &str| names.contains(&name);
    // Parents precede their children, so one pass suffices; a root is judged by the nodes below it.
    let mut root = vec![0usize; nodes.len()];
    let mut roots: BTreeMap<usize, Evidence> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        root[index] = node.parent.map_or(index, |parent| root[parent as usize]);
        let evidence = roots.entry(root[index]).or_default();
        let name = functions[index].name.as_str();
        evidence.user |= node.parent.is_some() && node.function == USER && node.instructions > 0;
        evidence.socket_calls += if contains(SERVER, name) { node.calls } else { 0 };
        evidence.system_calls += if name == SYSTEM_CALL { node.calls } else { 0 };
    }
    // If several threads issue ops, they are started with the phase; a single thread exists before the phase.
    let has_several_threads = roots.iter().any(|(position, evidence)| {
        *position >= start_count && evidence.user && !evidence.is_server()
    });
    let mut tasks = vec![Task::Kernel; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let name = functions[index].name.as_str();
        tasks[index] = match node.parent {
            None => match roots.get(&index).filter(|evidence| evidence.user) {
                Some(evidence) if evidence.is_server() => Task::Instrument,
                Some(_) if has_several_threads && index < start_count => Task::Agent,
                Some(_) => Task::Ops,
                None => Task::Kernel,
            },
            Some(_) if node.function == INTERRUPT => Task::Interrupts,
            Some(_) if contains(DRIVER, name) => Task::Instrument,
            Some(_) if contains(IDLE, name) => Task::Idle,
            Some(parent)
                if tasks[parent as usize] == Task::Ops
                    && PROC_READERS.iter().any(|prefix| name.starts_with(prefix)) =>
            {
                Task::Agent
            }
            Some(parent) => tasks[parent as usize],
        };
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::super::kallsyms::Symbol;
    use super::*;

    fn names() -> Names {
        let rows = [
            (0x10, "_stext"),
            (0x10, "vfs_unlink"),
            (0x20, "__switch_to_asm"),
            (0x30, "ret_from_fork"),
            (0x40, "entry_SYSCALL_64"),
            (0x50, "sock_read_iter"),
            (0x60, "asm_sysvec_timer"),
            (0x70, "recv_work"),
            (0x80, "proc_reg_read"),
            (0x90, "do_syscall_64"),
            (0xa0, "error_return"),
            (0x100, "_etext"),
        ];
        let symbol = |row: &(u64, &str)| Symbol { address: row.0, name: row.1.into(), kind: 't' };
        let symbols: Vec<Symbol> = rows.iter().map(symbol).collect();
        Names::new(&symbols, &[], Default::default())
    }

    fn node(function: u64, parent: Option<u32>, instructions: u64) -> Counted {
        Counted { function, instructions, calls: 1, charged: 0, parent }
    }

    #[test]
    fn kinds_of_tasks_are_distinguished_and_earlier_counts_subtracted() {
        let end = [
            node(0, None, 0),
            node(77, None, 0),
            node(USER, Some(1), 50),
            node(0x40, Some(1), 5),
            node(0x10, Some(3), 100),
            // A return from an interrupt is not an entry point, but it has a node.
            node(INTERRUPT, Some(1), 0),
            node(0x60, Some(5), 7),
            node(0xa0, Some(5), 2),
            // The task of the disk's server.
            node(78, None, 0),
            node(USER, Some(8), 1),
            node(0x50, Some(8), 2),
            // A kernel thread in which the driver also runs.
            node(79, None, 0),
            node(0x30, Some(11), 3),
            node(0x70, Some(12), 4),
        ];
        let mut start = end[..5].to_vec();
        start.iter_mut().for_each(|node| *node = Counted { instructions: 0, calls: 0, ..*node });
        start[4].instructions = 40;
        let trees = trees(&names(), &start, &end);
        let totals: Vec<_> = trees.iter().map(|(task, frame)| (*task, frame.total())).collect();
        assert_eq!(
            totals,
            [(Task::Ops, 115), (Task::Kernel, 3), (Task::Interrupts, 9), (Task::Instrument, 7)]
        );
        let mut flat = BTreeMap::new();
        trees[&Task::Ops].add_to_sums("", &mut flat);
        let unlink = Function { name: "vfs_unlink".into(), layer: "files".into() };
        assert_eq!(flat[&unlink], [60, 1, 0]);
    }

    #[test]
    fn a_task_that_rarely_calls_the_sampler_is_not_a_server() {
        let tasks_with = |system_calls: u64| {
            let end = [
                node(0, None, 0),
                node(77, None, 0),
                node(USER, Some(1), 50),
                Counted { calls: system_calls, ..node(0x90, Some(1), 5) },
                Counted { calls: 6, ..node(0x50, Some(3), 3) },
            ];
            let start: Vec<_> =
                end.iter().map(|node| Counted { instructions: 0, calls: 0, ..*node }).collect();
            trees(&names(), &start, &end).keys().copied().collect::<Vec<Task>>()
        };
        assert_eq!(tasks_with(60), [Task::Instrument]);
        assert_eq!(tasks_with(61), [Task::Ops]);
    }

    #[test]
    fn threads_that_start_with_the_phase_issue_its_ops_and_readers_of_proc_are_the_agent() {
        let end = [
            node(0, None, 0),
            node(77, None, 0),
            node(USER, Some(1), 50),
            node(78, None, 0),
            node(USER, Some(3), 7),
            node(0x80, Some(3), 5),
            node(0x10, Some(5), 4),
        ];
        let start: Vec<_> =
            end[..3].iter().map(|node| Counted { instructions: 1, calls: 1, ..*node }).collect();
        let trees = trees(&names(), &start, &end);
        let totals: Vec<_> = trees.iter().map(|(task, frame)| (*task, frame.total())).collect();
        assert_eq!(totals, [(Task::Ops, 7), (Task::Agent, 49 + 5 + 4)]);
    }
}
