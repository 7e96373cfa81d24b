//! Diagnoses a guest that makes no progress: distinguishes it from a guest that computes or sleeps, and lists what its
//! threads wait for.
//!
//! When nothing runs, the guest's clock jumps from timer to timer, so hours of waiting pass in seconds of host time.
//! PID 1 checks once per minute of the guest's time, and reads only the mailbox while there is progress.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::{Mailbox, Word};

/// The interval between checks, in the guest's time.
pub const CHECK_INTERVAL: Nanos = Nanos(60_000_000_000);

/// The time without progress after which an idle guest counts as stuck. A guest that is not stuck is silent for half
/// a minute at most, while a drive destages its cache.
const STUCK_LIMIT: Nanos = Nanos(5 * CHECK_INTERVAL.0);

/// The minimum share of idle time, in percent, of an idle machine.
const MIN_IDLE_PERCENT: u64 = 90;

/// Maximum length of the report with the list of waiting threads, in bytes.
const MAX_TEXT: usize = 6000;

/// Maximum number of functions of a stack in a report: enough for the frames from the scheduler to the file system.
const MAX_FRAMES: usize = 12;

/// The functions in which the parent of a vfork(2) waits as long as its child lives: the agent's own threads do so, for
/// children that share their memory.
const VFORK_FUNCTIONS: [&str; 2] = ["kernel_clone", "_do_fork"];

/// The words of the mailbox that change while there is progress.
const PROGRESS_WORDS: [Word; 5] =
    [Word::Stage, Word::Phase, Word::OpsDone, Word::Requests, Word::Written];

/// The findings since the last progress.
#[derive(Debug, Default)]
pub struct Stuck {
    counters: [u64; PROGRESS_WORDS.len()],
    first: Option<FirstCheck>,
}

/// The first check without progress.
#[derive(Debug)]
struct FirstCheck {
    time: Nanos,
    /// The idle time of the processor up to that check.
    idle: Nanos,
    /// The tasks in uninterruptible sleep that were waiting at each check since.
    waiting: Vec<u32>,
}

/// A thread, as /proc shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    id: u32,
    name: String,
    /// The state; `D` is uninterruptible sleep.
    state: char,
    /// True for a kernel thread.
    is_kernel_thread: bool,
    /// The functions in which it waits, innermost first; not read for a kernel thread in interruptible sleep.
    stack: Vec<String>,
}

impl Task {
    /// Returns true if it waits for an event that only the kernel can cause.
    fn is_waiting(&self) -> bool {
        let is_vfork_parent =
            self.stack.first().is_some_and(|function| VFORK_FUNCTIONS.contains(&function.as_str()));
        self.state == 'D' && !is_vfork_parent
    }
}

impl Stuck {
    /// Checks for progress; if the guest is stuck, returns the reason with what each thread waits for.
    pub fn check(&mut self, now: Nanos, mailbox: Mailbox<'_>) -> Option<String> {
        let counters = PROGRESS_WORDS.map(|word| mailbox.get(word));
        self.step(now, counters, || (tasks(), idle_time())).map(|tasks| describe_waiting(&tasks))
    }

    /// Compares the counters with those of the previous check; without progress, examines all threads and the
    /// processor's idle time. Returns the threads if the guest is stuck.
    fn step(
        &mut self,
        now: Nanos,
        counters: [u64; PROGRESS_WORDS.len()],
        machine: impl FnOnce() -> (Vec<Task>, Nanos),
    ) -> Option<Vec<Task>> {
        if counters != self.counters {
            *self = Stuck { counters, first: None };
            return None;
        }
        let (tasks, idle) = machine();
        let waiting: Vec<u32> =
            tasks.iter().filter(|task| task.is_waiting()).map(|task| task.id).collect();
        let Some(first) = &mut self.first else {
            self.first = Some(FirstCheck { time: now, idle, waiting });
            return None;
        };
        first.waiting.retain(|id| waiting.contains(id));
        let elapsed = now.since(first.time);
        let is_idle = idle.since(first.idle).0 * 100 >= elapsed.0 * MIN_IDLE_PERCENT;
        (elapsed >= STUCK_LIMIT && is_idle && !first.waiting.is_empty()).then_some(tasks)
    }
}

/// Lists what threads wait for: all threads of programs, and kernel threads in uninterruptible sleep.
fn describe_waiting(tasks: &[Task]) -> String {
    let mut text = format!(
        "no progress for {STUCK_LIMIT} of the guest's time while its processor was idle; {}",
        memory_lines(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
    );
    let mut counts_by_line: BTreeMap<String, u32> = BTreeMap::new();
    for task in tasks.iter().filter(|task| !task.stack.is_empty()) {
        let stack = task.stack.join(" < ");
        *counts_by_line.entry(format!("{} ({}) in {stack}", task.name, task.state)).or_default() +=
            1;
    }
    for (line, count) in counts_by_line {
        let count = if count > 1 { format!("{count} times ") } else { String::new() };
        text.push_str(&format!("; {count}{line}"));
    }
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

/// Returns all threads. /proc also has a folder for the id of each thread, although it does not list it.
fn tasks() -> Vec<Task> {
    let ids = |folder: &Path| -> Vec<u32> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let proc = Path::new("/proc");
    let threads = ids(proc).into_iter().flat_map(|id| ids(&proc.join(id.to_string()).join("task")));
    let read = |id: u32| {
        let folder = proc.join(id.to_string());
        let mut task = parse_task(&fs::read_to_string(folder.join("stat")).ok()?)?;
        if task.state == 'D' || !task.is_kernel_thread {
            let stack = fs::read_to_string(folder.join("stack")).unwrap_or_default();
            task.stack = functions(&stack);
        }
        Some(task)
    };
    threads.filter_map(read).collect()
}

/// Parses a line of /proc/PID/stat: `7 (a name) D 2 0 0 0 -1 69238848 ...`.
fn parse_task(stat: &str) -> Option<Task> {
    // include/linux/sched.h
    const PF_KTHREAD: u64 = 0x0020_0000;
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let flags: u64 = words.get(6)?.parse().ok()?;
    Some(Task {
        id: id.parse().ok()?,
        name: name.into(),
        state: words.first()?.chars().next()?,
        is_kernel_thread: flags & PF_KTHREAD != 0,
        stack: Vec::new(),
    })
}

/// Returns the functions in /proc/PID/stack, innermost first: `[<0>] io_schedule+0x46/0x80`.
fn functions(stack: &str) -> Vec<String> {
    stack
        .lines()
        .filter_map(|line| line.split_once("] "))
        .map(|(_, rest)| rest.split('+').next().unwrap_or(rest).to_string())
        .take(MAX_FRAMES)
        .collect()
}

/// Returns the lines of /proc/meminfo about memory that a thread may be waiting for.
fn memory_lines(meminfo: &str) -> String {
    const KEYS: &[&str] = &["MemFree", "MemAvailable", "Dirty", "Writeback"];
    let line_for = |key: &&str| {
        let value = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        Some(format!("{key} {}", value.trim()))
    };
    KEYS.iter().filter_map(line_for).collect::<Vec<_>>().join(", ")
}

/// Returns the idle time of the processor since boot, from /proc/uptime, with a resolution of a hundredth of a second.
fn idle_time() -> Nanos {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let hundredths = text.split_whitespace().nth(1).map(|word| word.replace('.', ""));
    Nanos(hundredths.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_parsed_whatever_the_name() {
        let stat = "77 (reis) D (0)) D 2 0 0 0 -1 69238848 0 0";
        let found = parse_task(stat).unwrap();
        assert_eq!((found.id, found.name.as_str(), found.state), (77, "reis) D (0)", 'D'));
        assert!(found.is_kernel_thread);
        assert!(!parse_task("9 (fsdyno) S 1 9 9 0 -1 4194560 0").unwrap().is_kernel_thread);
        assert_eq!(parse_task("9 (fsdyno) S 1"), None);
    }

    #[test]
    fn the_functions_of_a_stack_are_listed_without_offsets() {
        let stack = "[<0>] io_schedule+0x46/0x80\n[<0>] wait_on_bit_io\n";
        assert_eq!(functions(stack), ["io_schedule", "wait_on_bit_io"]);
    }

    #[test]
    fn this_process_is_among_the_tasks_and_its_memory_and_time_are_read() {
        let own = std::process::id();
        assert!(tasks().iter().any(|task| task.id == own && !task.is_kernel_thread));
        let text = memory_lines(&fs::read_to_string("/proc/meminfo").unwrap());
        assert!(text.starts_with("MemFree ") && text.contains(", Dirty "), "{text}");
        assert!(idle_time() > Nanos(0));
    }

    fn single_task(state: char, function: &str) -> Vec<Task> {
        let stack = vec![function.to_string(), "entry".into()];
        vec![Task { id: 7, name: "fsdyno".into(), state, is_kernel_thread: false, stack }]
    }

    /// Returns the minute, within an hour, at which a guest counts as stuck; `machine` gives its state in each minute.
    fn stuck_after(
        machine: impl Fn(u64) -> ([u64; PROGRESS_WORDS.len()], char, u64),
    ) -> Option<u64> {
        let mut stuck = Stuck::default();
        (1..60).find(|minute| {
            let (counters, state, idle) = machine(*minute);
            let machine_state =
                || (single_task(state, "io_schedule"), Nanos(idle * CHECK_INTERVAL.0 / 100));
            stuck.step(Nanos(minute * CHECK_INTERVAL.0), counters, machine_state).is_some()
        })
    }

    #[test]
    fn only_an_idle_guest_in_which_a_task_always_waits_is_stuck() {
        let constant = [1; PROGRESS_WORDS.len()];
        // The first check records the counters; the second finds them unchanged.
        assert_eq!(stuck_after(|minute| (constant, 'D', 100 * minute)), Some(7));
        assert_eq!(stuck_after(|minute| (constant, 'D', 20 * minute)), None, "it computes");
        assert_eq!(stuck_after(|minute| (constant, 'S', 100 * minute)), None, "it sleeps");
        let intermittent = |minute: u64| if minute.is_multiple_of(4) { 'R' } else { 'D' };
        assert_eq!(stuck_after(|minute| (constant, intermittent(minute), 100 * minute)), None);
        let request = |minute: u64| [1, 1, 1, minute / 4, 1];
        assert_eq!(stuck_after(|minute| (request(minute), 'D', 100 * minute)), None);
        let progress_until_20 = |minute: u64| if minute < 20 { minute } else { 20 };
        assert_eq!(
            stuck_after(|minute| ([progress_until_20(minute); 5], 'D', 100 * minute)),
            Some(26)
        );
    }

    #[test]
    fn a_waiting_process_is_reported_with_the_function_that_it_waits_in() {
        let text = describe_waiting(
            &[
                single_task('D', "io_schedule"),
                single_task('D', "io_schedule"),
                single_task('S', "pipe_read"),
            ]
            .concat(),
        );
        assert!(text.starts_with("no progress for 300 s "), "{text}");
        assert!(text.contains("; 2 times fsdyno (D) in io_schedule < entry"), "{text}");
        assert!(text.contains("; fsdyno (S) in pipe_read < entry"), "{text}");
    }

    #[test]
    fn the_parent_of_a_vfork_does_not_count_as_waiting() {
        // SAFETY: each child calls only getpid, getppid, prctl, pause and _exit.
        let waiting = unsafe {
            match libc::fork() {
                0 => {
                    let parent = libc::getpid();
                    #[expect(deprecated, reason = "the test needs a vfork")]
                    if libc::vfork() == 0 {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        // The parent may be dead by now; then no signal comes, and descriptors of tests that run at the
                        // same time would stay open.
                        if libc::getppid() == parent {
                            libc::pause();
                        }
                    }
                    libc::_exit(0)
                }
                pid => pid,
            }
        };
        assert!(waiting > 0);
        let id = waiting.unsigned_abs();
        let find = || tasks().into_iter().find(|task| task.id == id && task.state == 'D');
        let started = std::time::Instant::now();
        let mut found = find();
        while found.is_none() && started.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            found = find();
        }
        // SAFETY: ends a child of this test and reaps it; its own child ends with it.
        unsafe {
            libc::kill(waiting, libc::SIGKILL);
            libc::waitpid(waiting, std::ptr::null_mut(), 0);
        }
        let found = found.unwrap();
        // Only root may read a stack.
        assert!(found.stack.is_empty() || !found.is_waiting(), "{found:?}");
    }
}
