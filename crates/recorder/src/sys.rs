//! ptrace(2), wait4(2) and the memory of a traced thread.

use std::io;

use libc::{c_int, c_long, c_void, pid_t};

/// The options for tracing a thread: it reports events, and ends with the recorder.
const OPTIONS: c_int = libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_EXITKILL;

/// Results after which the kernel restarts a call (ERESTARTSYS to ERESTART_RESTARTBLOCK): it has not returned.
pub const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// A change of state of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A call that the filter stops begins.
    Call,
    /// A call ends.
    Return,
    /// It created a thread or process.
    Spawn,
    /// It executed another program.
    Exec,
    /// It stopped with its process (SIGSTOP, SIGTSTP, ...).
    GroupStop,
    /// It was attached to, or its process continues.
    Attached,
    /// A signal is to be delivered.
    Signal(c_int),
    /// It ended with this status of wait(2).
    Ended(c_int),
}

/// The way to resume a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Run until the next call that the filter stops, with a signal or 0.
    Continue(c_int),
    /// Run until the call returns, with a signal or 0.
    ToReturn(c_int),
    /// Stay stopped with the process.
    Listen,
}

/// Calls ptrace(2).
pub fn request(kind: libc::c_uint, tid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: every request of this file passes either numbers, or the address of a value that outlives the call.
    match unsafe { libc::ptrace(kind, tid, address as *mut c_void, data as *mut c_void) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// Begins to trace a thread without stopping it.
pub fn seize(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize).map(|_| ())
}

/// Resumes a stopped thread. A thread that was killed meanwhile is not an error.
pub fn resume(tid: pid_t, how: Resume) {
    let _ = match how {
        Resume::Continue(signal) => request(libc::PTRACE_CONT, tid, 0, signal as usize),
        Resume::ToReturn(signal) => request(libc::PTRACE_SYSCALL, tid, 0, signal as usize),
        Resume::Listen => request(libc::PTRACE_LISTEN, tid, 0, 0),
    };
}

/// Returns the message of an event: the new thread, or the former ID of a thread that executed another program.
pub fn message(tid: pid_t) -> io::Result<pid_t> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message as pid_t)
}

/// The result of PTRACE_GET_SYSCALL_INFO (see ptrace(2)).
#[repr(C)]
#[derive(Default)]
struct Info {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    ip: u64,
    sp: u64,
    /// Number and arguments of a call, or its result.
    words: [u64; 8],
}

/// The entry of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallEntry {
    /// False for a call by a 32-bit program.
    pub native: bool,
    /// Its number.
    pub number: c_long,
    /// Its arguments.
    pub args: [u64; 6],
}

fn info(tid: pid_t) -> io::Result<Info> {
    let mut info = Info::default();
    let size = std::mem::size_of::<Info>();
    request(libc::PTRACE_GET_SYSCALL_INFO, tid, size, &raw mut info as usize)?;
    Ok(info)
}

/// Returns the call at whose entry a thread stopped.
pub fn call_entry(tid: pid_t) -> io::Result<CallEntry> {
    /// AUDIT_ARCH_X86_64.
    const X86_64: u32 = 0xc000_003e;
    /// The bit of the x32 ABI in a call number.
    const X32: u64 = 0x4000_0000;
    let info = info(tid)?;
    let [number, args @ .., _] = info.words;
    let native = info.arch == X86_64 && number & X32 == 0;
    Ok(CallEntry { native, number: number as c_long, args })
}

/// Returns the result of the call that returned: at least 0, or a negative errno.
pub fn call_result(tid: pid_t) -> io::Result<i64> {
    Ok(info(tid)?.words[0] as i64)
}

/// Returns the registers of a stopped thread.
pub fn registers(tid: pid_t) -> io::Result<libc::user_regs_struct> {
    // SAFETY: it consists of integers.
    let mut all: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, tid, 0, &raw mut all as usize)?;
    Ok(all)
}

/// Sets the base of the register gs of a stopped thread.
pub fn set_base(tid: pid_t, value: u64) {
    let at = std::mem::offset_of!(libc::user_regs_struct, gs_base);
    let _ = request(libc::PTRACE_POKEUSER, tid, at, value as usize);
}

/// Makes the call that begins return an errno instead of being executed.
pub fn refuse(tid: pid_t, errno: c_int) -> io::Result<()> {
    let mut all = registers(tid)?;
    all.orig_rax = u64::MAX;
    all.rax = i64::from(-errno) as u64;
    request(libc::PTRACE_SETREGS, tid, 0, &raw mut all as usize).map(|_| ())
}

/// Waits for the next change of any traced thread; None if a signal arrived, an error if there is no thread.
pub fn wait() -> io::Result<Option<(pid_t, Change)>> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let tid = unsafe { libc::wait4(-1, &raw mut status, libc::__WALL, std::ptr::null_mut()) };
    if tid < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(None) } else { Err(error) };
    }
    Ok(Some((tid, change(status))))
}

fn change(status: c_int) -> Change {
    if !libc::WIFSTOPPED(status) {
        return Change::Ended(status);
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Change::Call,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Change::Spawn
        }
        libc::PTRACE_EVENT_EXEC => Change::Exec,
        libc::PTRACE_EVENT_STOP => match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Change::GroupStop,
            _ => Change::Attached,
        },
        _ if signal == libc::SIGTRAP | 0x80 => Change::Return,
        _ => Change::Signal(signal),
    }
}

/// Reads memory of a thread: at most `length` bytes, up to the first page that is not mapped.
pub fn memory(tid: pid_t, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; length];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: length };
    // SAFETY: `local` describes `bytes`; the other address is one of the other process.
    let read = unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    bytes.truncate(usize::try_from(read).unwrap_or(0));
    bytes
}

/// Reads a NUL-terminated string of less than 4096 bytes; returns it without the NUL.
pub fn text(tid: pid_t, address: u64) -> Option<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut text = Vec::new();
    while text.len() <= PAGE {
        let from = address.checked_add(text.len() as u64)?;
        // First a short part, which usually suffices; never across the end of a page: the next one may not be mapped.
        let rest = PAGE - (from as usize % PAGE);
        let part = memory(tid, from, if text.is_empty() { rest.min(256) } else { rest });
        if part.is_empty() {
            return None;
        }
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..end]);
            return (text.len() < PAGE).then_some(text);
        }
        text.extend_from_slice(&part);
    }
    None
}

/// Reads 64-bit numbers.
pub fn words<const N: usize>(tid: pid_t, address: u64) -> Option<[u64; N]> {
    numbers(&memory(tid, address, 8 * N))
}

/// Converts bytes to 64-bit numbers; None if there are too few.
pub fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    if bytes.len() < 8 * N {
        return None;
    }
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// Sets the registers of a stopped thread.
pub fn set_registers(tid: pid_t, all: &libc::user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(all) as usize).map(|_| ())
}

/// True if a stopped thread is at the return of a 64-bit system call.
pub fn is_native_return(tid: pid_t) -> bool {
    /// PTRACE_SYSCALL_INFO_EXIT and AUDIT_ARCH_X86_64.
    const EXIT: u8 = 2;
    info(tid).is_ok_and(|it| it.op == EXIT && it.arch == 0xc000_003e)
}

/// Waits for the next status of a running thread; signals to the recorder do not end the wait.
fn status_of(tid: pid_t) -> io::Result<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) } == tid {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Makes a stopped thread execute a call with the `syscall` instruction at an address, in any state, and returns the
/// result. Restores the registers.
///
/// # Errors
/// The thread ended.
pub fn call(tid: pid_t, at: u64, number: c_long, args: [u64; 6]) -> io::Result<i64> {
    let before = registers(tid)?;
    let mut all = before;
    (all.rip, all.rax, all.orig_rax) = (at, number as u64, u64::MAX);
    (all.rdi, all.rsi, all.rdx) = (args[0], args[1], args[2]);
    (all.r10, all.r8, all.r9) = (args[3], args[4], args[5]);
    set_registers(tid, &all)?;
    let mut signals = Vec::new();
    loop {
        request(libc::PTRACE_SYSCALL, tid, 0, 0)?;
        match change(status_of(tid)?) {
            Change::Return if info(tid)?.op == 2 => break,
            Change::Signal(signal) => signals.push(signal),
            // Its end is not reported again; the recording ends when no thread is left.
            Change::Ended(_) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => {}
        }
    }
    let result = call_result(tid)?;
    set_registers(tid, &before)?;
    for signal in signals {
        // SAFETY: sends a pending signal of this thread again.
        unsafe { libc::syscall(libc::SYS_tkill, tid, signal) };
    }
    Ok(result)
}

/// Makes a thread that stopped at the end of a call run code of the recorder up to a call of unshare(2); returns the
/// registers there and restores the former ones. The thread is then stopped at the entry to that call, which will be
/// skipped.
///
/// # Errors
/// The thread ended.
pub fn run(tid: pid_t, at: u64) -> io::Result<libc::user_regs_struct> {
    let mut before = registers(tid)?;
    before.orig_rax = u64::MAX;
    set_registers(tid, &libc::user_regs_struct { rip: at, ..before })?;
    let mut signals = Vec::new();
    loop {
        request(libc::PTRACE_CONT, tid, 0, 0)?;
        match change(status_of(tid)?) {
            Change::Call if call_entry(tid)?.number == libc::SYS_unshare => break,
            Change::Signal(signal) => signals.push(signal),
            Change::Ended(_) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => {}
        }
    }
    let after = registers(tid)?;
    set_registers(tid, &before)?;
    for signal in signals {
        // SAFETY: sends a pending signal of this thread again.
        unsafe { libc::syscall(libc::SYS_tkill, tid, signal) };
    }
    Ok(after)
}
