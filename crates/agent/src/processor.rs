//! Controls the processor model that the guest runs under: a QEMU plugin that counts events, charges time for them and
//! answers commands.
//!
//! The commands are those of crates/lab/processor/processor.c.

use std::io;

use fsdyno_record::processor::{EVENTS, ProcessorCounts};

/// A command to the model.
#[derive(Clone, Copy)]
enum Command {
    /// `START`: starts charging, with empty caches and zeroed counts.
    Start = 1,
    /// `THREAD_BEGIN`: starts identifying the kernel stack of the calling thread, by watching its system calls.
    ThreadBegin = 2,
    /// `THREAD_END`: ends the identification: from now on, a counting model counts only this thread.
    ThreadEnd = 3,
    /// `FREE`: stops charging the calling thread, from its next system call on.
    StopCharging = 4,
    /// `NOT_FREE`: resumes charging it, from its next system call on.
    ResumeCharging = 5,
    /// `PAID`: returns the ticks charged so far.
    Charged = 8,
    /// `COUNT`: returns the count of the first event; the following numbers are the commands for the other events.
    Count = 16,
}

/// Not a command: a model answers 1; without one, the register keeps this value, which is then the answer.
const PROBE: u64 = 0;

#[cfg(target_arch = "x86_64")]
fn execute(command: u64) -> u64 {
    let mut word = command;
    // The jump ends a block of translated code, so that the NOP starts a new one; the plugin recognizes the NOP by its
    // displacement.
    // SAFETY: a long NOP has no effect. The plugin replaces the register's value, which is declared as output.
    unsafe {
        std::arch::asm!(
            "jmp 2f",
            "2: .byte 0x0f, 0x1f, 0x84, 0x00, 0x66, 0x73, 0x64, 0x79",
            inout("rax") word,
            options(nostack)
        );
    }
    word
}

/// Unused: the lab's guests are x86-64.
#[cfg(not(target_arch = "x86_64"))]
fn execute(command: u64) -> u64 {
    command
}

/// Makes the model start charging, with empty caches; with `counting`, it counts only the calling thread.
///
/// # Errors
/// A QEMU without the model.
pub fn start(counting: bool) -> io::Result<()> {
    if execute(PROBE) != 1 {
        return Err(io::Error::other(
            "the processor model is not loaded in this QEMU; use --cpu 1",
        ));
    }
    execute(Command::Start as u64);
    if counting {
        execute(Command::ThreadBegin as u64);
        for _ in 0..200 {
            let _ = rustix::process::getppid();
        }
        execute(Command::ThreadEnd as u64);
    }
    Ok(())
}

/// Makes the model charge nothing to the calling thread while `work` runs: that work is part of the instrument, and no
/// real machine executes it. Its instructions still advance virtual time. Without a model, this only runs `work`.
pub fn free_of_charge<T>(work: impl FnOnce() -> T) -> T {
    let send = |command: Command| {
        execute(command as u64);
        // The model identifies a thread by the kernel stack of its next system call.
        let _ = rustix::process::getppid();
    };
    send(Command::StopCharging);
    let result = work();
    send(Command::ResumeCharging);
    result
}

/// Returns the counts since the start.
pub fn counts(counting: bool) -> ProcessorCounts {
    let names = EVENTS.iter().copied().chain(counting.then_some("instructions"));
    let events = names
        .enumerate()
        .map(|(index, name)| (name.to_string(), execute(Command::Count as u64 + index as u64)));
    ProcessorCounts { charged: execute(Command::Charged as u64), events: events.collect() }
}

/// Returns the counts between two readings; `None` without a model.
pub fn counts_between(
    before: Option<ProcessorCounts>,
    after: Option<ProcessorCounts>,
) -> Option<ProcessorCounts> {
    let (before, after) = before.zip(after)?;
    Some(join(&after, &before, |count, earlier| count - earlier.min(count)))
}

/// Returns the sum of the counts of two spans.
pub fn sum(a: &ProcessorCounts, b: &ProcessorCounts) -> ProcessorCounts {
    join(a, b, |a, b| a + b)
}

fn join(
    a: &ProcessorCounts,
    b: &ProcessorCounts,
    combine: impl Fn(u64, u64) -> u64,
) -> ProcessorCounts {
    let event = |(name, count): (&String, &u64)| {
        (name.clone(), combine(*count, b.events.get(name).copied().unwrap_or_default()))
    };
    ProcessorCounts {
        charged: combine(a.charged, b.charged),
        events: a.events.iter().map(event).collect(),
    }
}
