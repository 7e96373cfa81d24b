//! The agent as a child process of a host: mailbox and directory come as descriptors.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;

use fsdyno_record::Job;
use fsdyno_record::mailbox::{self, Mailbox};

use crate::memory::{mapped_input, shared_words};
use crate::target::Directory;
use crate::trial;

/// Runs the job in the mailbox below a directory and puts the report into the mailbox.
///
/// Exit code 0 means that there is a report, whatever it says.
pub fn host(mailbox_fd: RawFd, root_fd: RawFd, input_fd: Option<RawFd>) -> ExitCode {
    match serve(mailbox_fd, root_fd, input_fd) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fsdyno agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mailbox_fd: RawFd, root_fd: RawFd, input_fd: Option<RawFd>) -> io::Result<()> {
    let memory = take(mailbox_fd)?;
    let root = take(root_fd)?;
    let words = shared_words(memory.as_fd(), mailbox::SIZE)?;
    let mailbox = Mailbox::new(words).map_err(io::Error::other)?;
    let job: Job = serde_json::from_slice(&mailbox.job().map_err(io::Error::other)?)?;
    let input = match (&job.plan.workload.input, input_fd) {
        (Some(plan), Some(fd)) => Some(mapped_input(take(fd)?.as_fd(), plan.bytes)?),
        _ => None,
    };
    let report = trial::run(&job, &mut Directory::new(root)?, mailbox, input);
    mailbox.put_report(&serde_json::to_vec(&report)?).map_err(io::Error::other)
}

/// A descriptor that the parent said it handed over.
fn take(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no descriptor {fd}")));
    }
    // SAFETY: F_GETFD only asks whether the number is an open descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, was handed over by the parent by number, and nothing else in this
    // process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
