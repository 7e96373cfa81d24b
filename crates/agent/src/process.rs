//! Child processes of the agent: forks, and processes that share its memory.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::exit_status::ExitStatus;

/// linux/prctl.h: the process serves a block device, so its allocations must not wait for that device.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Forks a child that runs `work` and exits: with 0 if `work` returned Ok, else with 1 after printing the error to the
/// console.
///
/// # Errors
/// Errors from fork(2).
pub fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<Pid> {
    // SAFETY: when the agent forks, only one of its threads runs (PID 1, or the trial before its workers start), and a
    // process started by [`spawn_sharing_memory`] no longer allocates, so the child may use everything it inherited,
    // including the allocator.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = exit_code(work());
            // SAFETY: ends this process immediately; exit handlers belong to the parent.
            unsafe { libc::_exit(code) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned no pid")),
    }
}

/// Real-time priority of the disks' servers, which write-back waits for.
const SERVER_PRIORITY: i32 = 50;

/// Stack size of a process started by [`spawn_sharing_memory`]. A disk's server uses 20 KiB of it.
const STACK: usize = 256 << 10;

/// Starts a process that runs `work` in this process's own memory, and exits like one started by [`fork`]. Its
/// descriptor table is its own and contains the standard streams and the descriptors in `fds`, under the same numbers.
/// `work` must own the descriptors in `fds`; this process closes them once the new process has started. The new process
/// has its own pid and CPU time, but a context switch between the two processes does not switch the address space; on
/// an emulated processor, switching the address space would discard all translated code.
///
/// # Errors
/// Errors from starting a thread, unshare(2), close_range(2) or clone(2).
pub fn spawn_sharing_memory(
    fds: &[RawFd],
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<Pid> {
    let (started, pid) = mpsc::channel();
    let failure_sender = started.clone();
    let work = move || {
        // The caller waits for this message.
        let _ = started.send(Ok(rustix::process::getpid()));
        work()
    };
    // clone(2) gives the child the thread-local storage of the calling thread. Therefore a dedicated thread calls it,
    // and because of CLONE_VFORK that thread sleeps in the kernel as long as the child lives.
    let kept_fds = fds.to_vec();
    let sleep_in_clone = move || {
        // `work` is never dropped here: the child closes the descriptors that it owns, or we do so below.
        let work = Box::into_raw(Box::new(Box::new(work) as Work));
        // If this thread shared our table, the kernel would count references in each call that takes a descriptor, as
        // long as the thread sleeps, and thus in the measured trial.
        if let Err(error) = own_table(&kept_fds) {
            let _ = failure_sender.send(Err(error));
            return;
        }
        let mut stack = vec![0u128; STACK / size_of::<u128>()];
        // SAFETY: one past the end of the stack, which grows down and is kept by this thread.
        let top = unsafe { stack.as_mut_ptr().add(stack.len()) };
        // SAFETY: `enter` takes what `work` points to; nothing else uses this stack and thread-local storage during
        // this call, which lasts until the child has ended.
        let pid = unsafe {
            libc::clone(
                enter,
                top.cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                work.cast(),
            )
        };
        if pid < 0 {
            let _ = failure_sender.send(Err(io::Error::last_os_error()));
        }
    };
    thread::Builder::new().name(SLEEPER.into()).stack_size(STACK).spawn(sleep_in_clone)?;
    let started = pid
        .recv()
        .map_err(|_| io::Error::other("a process that shares our memory was not started"));
    for fd in fds {
        // SAFETY: `work` owned it and was passed to the child, whose table has its own copy; nothing else here owns it.
        unsafe { libc::close(*fd) };
    }
    started?
}

/// The name of the thread that sleeps for the lifetime of the process that [`spawn_sharing_memory`] started from it.
const SLEEPER: &str = "vm-parent";

/// Gives the calling thread its own descriptor table, with only the standard streams and `kept`.
fn own_table(kept: &[RawFd]) -> io::Result<()> {
    // SAFETY: takes a number; this thread's open descriptors are copied.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    close_all_others(kept)
}

/// A child that shares our memory but has its own stack; dropping this kills it and then frees its stack.
#[derive(Debug)]
pub struct VmChild {
    /// The child's pid.
    pub pid: Pid,
    // Used only by the child until it has ended.
    _stack: Vec<u128>,
}

impl Drop for VmChild {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.pid, rustix::process::Signal::KILL);
        // If another call has already waited for it, nothing is left to wait for.
        while matches!(waitpid(Some(self.pid), WaitOptions::empty()), Err(rustix::io::Errno::INTR))
        {
        }
    }
}

/// The work of a [`VmChild`] and the descriptor that it keeps.
struct VmWork<F> {
    work: F,
    kept: RawFd,
}

/// Starts a process that runs `work` in this process's own memory, with copies of the standard streams and `kept` as
/// its descriptors, and without the thread that [`spawn_sharing_memory`] needs. Therefore `work` must not touch the
/// calling thread's thread-local storage, which that thread continues to use: no allocation, no panic, no libc call
/// that may fail. Calls that rustix makes without libc are allowed.
///
/// # Errors
/// Errors from clone(2).
pub fn spawn_vm_child<F>(kept: BorrowedFd<'_>, work: F) -> io::Result<VmChild>
where
    F: FnOnce(BorrowedFd<'_>) + Copy + Send + 'static,
{
    extern "C" fn enter<F: FnOnce(BorrowedFd<'_>) + Copy>(
        leaked_work: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: a `VmWork<F>` that [`spawn_vm_child`] has leaked for this call.
        let leaked_work = unsafe { &*leaked_work.cast::<VmWork<F>>() };
        // SAFETY: a descriptor in this process's own table, a copy of one that was open.
        let kept = unsafe { BorrowedFd::borrow_raw(leaked_work.kept) };
        if close_all_but(kept).is_ok() {
            (leaked_work.work)(kept);
        }
        // SAFETY: ends this process immediately; exit handlers belong to the owner of the memory.
        unsafe { libc::_exit(0) }
    }
    // Tried here, where it may fail, on a range without descriptors: the child itself must not touch our errno.
    // SAFETY: takes only numbers; no descriptor has this number.
    if unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut stack = vec![0u128; VM_CHILD_STACK / size_of::<u128>()];
    // SAFETY: one past the end of the stack, which grows down.
    let top = unsafe { stack.as_mut_ptr().add(stack.len()) };
    // A few bytes per child that are never freed: the child may start after this function has returned.
    let leaked_work = Box::into_raw(Box::new(VmWork { work, kept: kept.as_raw_fd() }));
    // SAFETY: `enter` gets the argument that it takes, and a stack that is kept until the process has ended. It shares
    // the caller's thread-local storage but does not touch it: only close_range(2) could set errno, and it has just
    // been found to work.
    let pid = unsafe {
        libc::clone(enter::<F>, top.cast(), libc::CLONE_VM | libc::SIGCHLD, leaked_work.cast())
    };
    match Pid::from_raw(pid.max(0)) {
        Some(pid) => Ok(VmChild { pid, _stack: stack }),
        None => Err(io::Error::last_os_error()),
    }
}

/// Stack of a [`VmChild`], in bytes.
const VM_CHILD_STACK: usize = 64 << 10;

type Work = Box<dyn FnOnce() -> io::Result<()> + Send>;

extern "C" fn enter(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: [`spawn_sharing_memory`] created it from a box for this call alone.
    let work: Box<Work> = unsafe { Box::from_raw(work.cast()) };
    let code = exit_code(work());
    // SAFETY: ends this process immediately; exit handlers belong to the parent.
    unsafe { libc::_exit(code) }
}

/// Returns 0 on success, else prints the error to the console and returns 1.
fn exit_code(result: io::Result<()>) -> libc::c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fsdyno-agent: {error}");
            1
        }
    }
}

/// Closes all descriptors that this process, just forked, has inherited, except the standard streams and `kept`.
///
/// # Errors
/// Errors from close_range(2).
pub fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    close_all_others(&[kept.as_raw_fd()])
}

/// Closes all descriptors of an unshared table except the standard streams and `kept`. Allocates nothing.
fn close_all_others(kept: &[RawFd]) -> io::Result<()> {
    let mut first: libc::c_uint = 3;
    loop {
        let next = kept.iter().map(|fd| *fd as libc::c_uint).filter(|fd| *fd >= first).min();
        let last = next.map_or(libc::c_uint::MAX, |next| next.saturating_sub(1));
        // SAFETY: takes only numbers; an owner of one of these descriptors has it in another table.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        match next {
            Some(next) => first = next + 1,
            None => return Ok(()),
        }
    }
}

/// Returns how a child ended, or `None` while it runs.
///
/// # Errors
/// Errors from waitpid(2).
pub fn try_wait(pid: Pid) -> io::Result<Option<ExitStatus>> {
    Ok(waitpid(Some(pid), WaitOptions::NOHANG)?.map(|(_, status)| status.into()))
}

/// Excludes this process from those that the kernel kills when it runs out of memory.
///
/// # Errors
/// Errors from the kernel.
pub fn exempt_from_oom_killer() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000")
}

/// Makes it safe for the guest's write-back to wait for this process: all its memory is resident and locked, its
/// allocations start no write-back, it runs before everything else, it is never killed when memory runs out, and its
/// sleeps are exact. Memory mapped later is not locked: it may belong to another process that shares this memory, such
/// as the stacks of a trial's threads.
///
/// # Errors
/// Errors from the kernel.
pub fn never_wait_for_memory() -> io::Result<()> {
    exempt_from_oom_killer()?;
    // SAFETY: plain system calls on this process, which take only numbers.
    unsafe {
        check(libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))?;
        check(libc::mlockall(libc::MCL_CURRENT))?;
    }
    set_realtime_priority(SERVER_PRIORITY)
}

/// Gives this process a real-time priority, with exact sleeps.
///
/// # Errors
/// Errors from the kernel.
pub fn set_realtime_priority(priority: i32) -> io::Result<()> {
    let fifo = libc::sched_param { sched_priority: priority };
    // SAFETY: plain system calls on this process; the only pointer is to a live struct.
    unsafe {
        check(libc::prctl(libc::PR_SET_TIMERSLACK, 1))?;
        check(libc::sched_setscheduler(0, libc::SCHED_FIFO, &fifo))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Returns the descriptors of a process or thread above the standard streams, by its folder in /proc.
    fn open_descriptors(folder: &Path) -> Vec<RawFd> {
        let fds = fs::read_dir(folder.join("fd")).unwrap().flatten();
        let numbers = fds.filter_map(|fd| fd.file_name().to_str()?.parse().ok());
        let mut descriptors: Vec<RawFd> = numbers.filter(|fd| *fd > 2).collect();
        descriptors.sort_unstable();
        descriptors
    }

    /// The variable that marks the process that a test below starts for itself alone: in this process, threads of other
    /// tests share the descriptor table.
    const SINGLE_TEST: &str = "FSDYNO_TEST_SHARING_MEMORY";

    #[test]
    fn a_process_that_shares_our_memory_has_the_given_descriptors_and_shares_none_of_ours() {
        if std::env::var_os(SINGLE_TEST).is_none() {
            let name = concat!(
                "process::tests::a_process_that_shares_our_memory_has_the_given",
                "_descriptors_and_shares_none_of_ours"
            );
            let program = std::env::current_exe().unwrap();
            let argv = [name, "--exact", "--test-threads=1", "--nocapture"];
            let output = Command::new(program).args(argv).env(SINGLE_TEST, "yes").output().unwrap();
            let text =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let not_passed = File::open("/dev/null").unwrap();
        let (mut socket, child_socket) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        let (second, number) = (File::open("/dev/zero").unwrap(), child_socket.as_raw_fd());
        let fds = [second.as_raw_fd(), number];
        let child = spawn_sharing_memory(&fds, move || {
            let mut byte = [0];
            (&child_socket).read_exact(&mut byte)?;
            drop(second);
            Ok(())
        })
        .unwrap();
        let mut sorted = fds;
        sorted.sort_unstable();
        let child_folder = Path::new("/proc").join(child.as_raw_nonzero().to_string());
        assert_eq!(open_descriptors(&child_folder), sorted);
        let own_folder = Path::new("/proc/thread-self");
        let own_descriptors = open_descriptors(own_folder);
        assert!(
            own_descriptors.contains(&not_passed.as_raw_fd())
                && own_descriptors.contains(&socket.as_raw_fd())
        );
        // What we open next may get the same number.
        let target_of =
            |folder: &Path, fd: RawFd| fs::read_link(folder.join("fd").join(fd.to_string())).ok();
        assert!(fds.iter().all(|fd| target_of(&child_folder, *fd).is_some()
            && target_of(own_folder, *fd) != target_of(&child_folder, *fd)));
        // The sleeping thread has its own table, with nothing of ours.
        let tasks: Vec<_> = fs::read_dir("/proc/self/task").unwrap().flatten().collect();
        let is_sleeper =
            |path: &Path| fs::read_to_string(path.join("comm")).unwrap().trim() == SLEEPER;
        let sleeper = tasks.iter().map(fs::DirEntry::path).find(|path| is_sleeper(path)).unwrap();
        assert_eq!(open_descriptors(&sleeper), sorted);
        io::Write::write_all(&mut socket, b"x").unwrap();
        assert_eq!(
            ExitStatus::from(waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap().1),
            ExitStatus::SUCCESS
        );
        // No process has the other end any more.
        assert_eq!(socket.read(&mut [0]).unwrap(), 0);
        let failing = spawn_sharing_memory(&[], || Err(io::Error::other("no"))).unwrap();
        let status = waitpid(Some(failing), WaitOptions::empty()).unwrap().unwrap().1;
        assert_eq!(ExitStatus::from(status).to_string(), "exit code 1");
    }

    #[test]
    fn a_fork_keeps_the_given_descriptor_and_no_other() {
        let (kept, other) = (File::open("/dev/null").unwrap(), File::open("/dev/zero").unwrap());
        let child = fork(|| {
            close_all_but(kept.as_fd())?;
            let is_open = |fd: RawFd| Path::new("/proc/self/fd").join(fd.to_string()).exists();
            let is_expected = is_open(kept.as_raw_fd()) && !is_open(other.as_raw_fd());
            if is_expected { Ok(()) } else { Err(io::Error::other("unexpected descriptors")) }
        })
        .unwrap();
        let status = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap().1;
        assert_eq!(ExitStatus::from(status).to_string(), "exit code 0");
    }
}
