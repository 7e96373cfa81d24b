//! Starts the command under the filter, and handles signals to the recorder.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;

use libc::{c_char, c_int, pid_t};

use crate::error::RecordError;
use crate::{filter, sys};

/// The last signal that the recorder received and has not handled; 0 for none.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_signal(signal: c_int) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Installs signal handlers: the recorder survives Ctrl-C, which the terminal also sends to the command, and SIGXFSZ (a
/// limit on the size of files), and notes SIGTERM and SIGHUP.
pub fn handle_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ] {
        // SAFETY: the handler stores a number, and the structures are plain data.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = note_signal as extern "C" fn(c_int) as usize;
                libc::sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    }
}

/// Takes the signal to pass on to the command. Ctrl-C is not passed on: the terminal sends it to the command.
pub fn signal_to_pass() -> Option<c_int> {
    let signal = RECEIVED.swap(0, Ordering::Relaxed);
    [libc::SIGTERM, libc::SIGHUP].contains(&signal).then_some(signal)
}

/// Takes the last signal that was received, if any.
pub fn take_signal() -> Option<c_int> {
    let signal = RECEIVED.swap(0, Ordering::Relaxed);
    (signal != 0).then_some(signal)
}

/// A prepared command, whose process waits until [`Prepared::open`] lets it run.
pub struct Prepared {
    /// The process ID.
    pub pid: pid_t,
    spawner: JoinHandle<io::Result<()>>,
    reports: io::PipeReader,
    gate: Option<io::PipeWriter>,
}

impl Prepared {
    /// Lets the command run.
    pub fn open(&mut self) -> io::Result<()> {
        self.gate.take().map_or(Ok(()), |mut gate| gate.write_all(&[1]))
    }

    /// Returns an error if the command did not run. Call this when the process has ended.
    pub fn outcome(mut self) -> io::Result<()> {
        match self.spawner.join() {
            Ok(outcome) => outcome?,
            Err(_) => return Err(io::Error::other("the thread that starts the command failed")),
        }
        let mut errno = [0; 4];
        match self.reports.read_exact(&mut errno) {
            Ok(()) => Err(io::Error::from_raw_os_error(c_int::from_ne_bytes(errno))),
            // The pipe was closed by exec.
            Err(_) => Ok(()),
        }
    }
}

/// Starts a command under the filter; this thread traces its process, which stops at its first traced call until the
/// caller resumes it. `inside` is passed to `filter::program`.
pub fn start(args: &[String], inside: bool) -> Result<Prepared, RecordError> {
    let mut started = prepare(args, Some(filter::program(inside)))?;
    if let Err(error) = sys::seize(started.pid) {
        // SAFETY: a signal to a child that has not run anything.
        unsafe { libc::kill(started.pid, libc::SIGKILL) };
        return Err(RecordError::Trace(error));
    }
    let opened = started.open();
    opened.map_err(|error| RecordError::Command { command: args[0].clone(), error })?;
    Ok(started)
}

/// Prepares a command: its process waits for [`Prepared::open`], and then installs the filter, if there is one.
pub fn prepare(
    args: &[String],
    program: Option<Vec<libc::sock_filter>>,
) -> Result<Prepared, RecordError> {
    let name = args.first().cloned().unwrap_or_default();
    let command_error = |error| RecordError::Command { command: name.clone(), error };
    let (mut reports, mut reporter) = io::pipe().map_err(command_error)?;
    let (mut gate_reader, gate_writer) = io::pipe().map_err(command_error)?;
    let texts: Vec<CString> = args
        .iter()
        .cloned()
        .map(CString::new)
        .collect::<Result<_, _>>()
        .map_err(|error| command_error(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let run_under_filter = move || {
        reporter.write_all(&std::process::id().to_ne_bytes())?;
        gate_reader.read_exact(&mut [0])?;
        let installed = program.as_ref().map_or(Ok(()), |program| filter::install(program));
        let mut argv: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        argv.push(std::ptr::null());
        if installed.is_ok() {
            // SAFETY: the array ends in a null pointer and its texts outlive the call.
            unsafe { libc::execvp(argv[0], argv.as_ptr()) };
        }
        let error = installed.err().unwrap_or_else(io::Error::last_os_error);
        let _ = reporter.write_all(&error.raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes());
        // SAFETY: this process has no more work. (Returning an error would make the library reap the process.)
        unsafe { libc::_exit(127) }
    };
    let mut command = Command::new(&name);
    // SAFETY: the closure makes system calls and allocates; the C library allows that after fork.
    unsafe { command.pre_exec(run_under_filter) };
    let spawner = std::thread::spawn(move || command.spawn().map(drop));
    let mut pid = [0; 4];
    if let Err(error) = reports.read_exact(&mut pid) {
        let outcome = spawner.join().unwrap_or(Ok(()));
        return Err(command_error(outcome.err().unwrap_or(error)));
    }
    let pid = pid_t::from_ne_bytes(pid);
    Ok(Prepared { pid, spawner, reports, gate: Some(gate_writer) })
}
