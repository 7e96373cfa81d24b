//! Starts ranks over ssh(1) without a launcher, on hosts that the user names.
//!
//! ssh's command line contains the host and the path of the program; the secret is passed through standard input, which
//! stays open: a worker ends when its ssh ends and thus closes it.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fsdyno_child::Process;

use crate::launcher::MAX_RANKS;
use crate::meet::Meeting;
use crate::parent::{self, WORKER, WorkerEnd};
use crate::worker::Join;

/// The options of ssh: no prompts, no forwarding, and detection of a host that is gone.
const OPTIONS: &[&str] = &[
    "-T",
    "-x",
    "-a",
    "-oBatchMode=yes",
    "-oClearAllForwardings=yes",
    "-oConnectTimeout=15",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
];

/// Maximum time for workers to end by themselves at the end of the run.
const GRACE: Duration = Duration::from_secs(5);

/// A host in ssh's notation: `HOST` or `USER@HOST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(String);

impl Host {
    /// Parses a host's name.
    ///
    /// # Errors
    /// The text is not the name of a host or user, or ssh would interpret it as an option.
    pub fn parse(text: &str) -> Result<Host, String> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-:%".contains(letter);
        let is_valid =
            |part: &str| !part.is_empty() && !part.starts_with('-') && part.chars().all(plain);
        let (user, host) = text.split_once('@').unwrap_or(("user", text));
        match text.len() < 256 && is_valid(user) && is_valid(host) {
            true => Ok(Host(text.to_string())),
            false => Err(format!(
                "'{}' is not the name of a host, such as node7 or user@node7.example.org",
                text.escape_debug()
            )),
        }
    }

    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Parses a comma-separated list of hosts.
///
/// # Errors
/// An item is not a host; the message names the first such item.
pub fn hosts(text: &str) -> Result<Vec<Host>, String> {
    text.split(',').map(Host::parse).collect()
}

/// Returns the number of ranks: one per host unless the user gives a number.
///
/// # Errors
/// The number leaves a host without a rank, or is above [`MAX_RANKS`].
pub fn ranks(hosts: &[Host], given: Option<u32>) -> Result<u32, String> {
    let ranks = given.map_or(hosts.len(), |given| given as usize);
    match ranks >= hosts.len() && ranks <= MAX_RANKS as usize {
        true => Ok(ranks as u32),
        false => Err(format!(
            "--ranks={ranks} on {} hosts is invalid: each host needs at least one rank, and {MAX_RANKS} is the maximum",
            hosts.len()
        )),
    }
}

/// Returns the host of a rank; consecutive ranks share a host.
fn host_of(hosts: &[Host], ranks: u32, rank: u32) -> Option<&Host> {
    let index = u64::from(rank) * hosts.len() as u64 / u64::from(ranks.max(1));
    hosts.get(index as usize)
}

/// Returns the command that starts a worker on a host; the program's path is quoted for the remote shell.
fn command(host: &Host, program: &Path) -> Command {
    let mut command = Command::new("ssh");
    let program = program.to_string_lossy().replace('\'', "'\\''");
    command.args(OPTIONS).arg("--").arg(host.name()).arg(format!("exec '{program}' {WORKER}"));
    command
}

/// The workers on all hosts, ended when dropped.
#[derive(Debug)]
pub struct RemoteWorkers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RemoteWorkers {
    /// Starts a worker for each rank; `parameters_of` returns the parameters of a rank's worker, and `program` is the
    /// path of fsdyno on all hosts. Failures are reported to rank 0.
    pub fn start(
        hosts: &[Host],
        program: &Path,
        (ranks, version): (u32, &str),
        meeting: &Meeting,
        parameters_of: &dyn Fn(u32) -> Join,
    ) -> RemoteWorkers {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for rank in 0..ranks {
            let Some(host) = host_of(hosts, ranks, rank) else { continue };
            let hello = parent::hello(rank, ranks, version).at(host.name());
            let (command, join) =
                (command(host, program), Join { tied: true, ..parameters_of(rank) });
            let (meeting, stop) = (meeting.clone(), Arc::clone(&stop));
            threads.push(std::thread::spawn(move || {
                // The kernel kills ssh when this thread ends.
                let ended = start_ssh(command, &join)
                    .and_then(|(ssh, _stdin)| parent::attend_until(ssh, &meeting, &hello, &stop));
                if let Err(why) | Ok(WorkerEnd::Hanging(why)) = ended {
                    parent::report(&meeting, &hello, &why);
                }
            }));
        }
        RemoteWorkers { stop, threads }
    }
}

impl RemoteWorkers {
    /// Ends all workers immediately, including those that rank 0 does not know yet.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for RemoteWorkers {
    fn drop(&mut self) {
        let begin = Instant::now();
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        let is_any_running = || self.threads.iter().any(|thread| !thread.is_finished());
        while begin.elapsed() < GRACE && !is_stopped() && is_any_running() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has also ended its ssh.
            let _ = thread.join();
        }
    }
}

fn start_ssh(command: Command, join: &Join) -> Result<(Process, std::io::PipeWriter), String> {
    let failed = |error: std::io::Error| format!("failed to start ssh: {error}; is it installed?");
    let line = serde_json::to_string(join).map_err(|error| failed(error.into()))?;
    let (ssh, mut input) = Process::start_with_pipe(command).map_err(failed)?;
    // If ssh has already ended, its exit code shows the reason.
    let _ = writeln!(input, "{line}");
    Ok((ssh, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_ssh_or_a_shell_would_misread_is_not_a_host() {
        for good in ["a", "node-7.example.org", "root@10.0.0.7", "fe80::1%eth0", "_x"] {
            assert!(Host::parse(good).is_ok(), "{good}");
        }
        let bad = [
            "",
            "-oProxyCommand=x",
            "a@-oX",
            "-l@a",
            "a b",
            "a;b",
            "$(a)",
            "a@b@c",
            "@a",
            "a@",
            "a\nb",
            "a/b",
            "a'b",
            "\u{e4}",
        ];
        for bad in bad {
            let error = Host::parse(bad).unwrap_err();
            assert!(error.contains("not the name of a host"), "{error}");
        }
        assert!(Host::parse(&"a".repeat(256)).is_err());
        assert!(hosts("a,b,").is_err() && hosts("a,b").is_ok());
    }

    #[test]
    fn the_host_is_an_argument_after_the_options_and_the_program_is_one_word() {
        let host = Host::parse("me@a").unwrap();
        let command = command(&host, Path::new("/opt/it's here/fsdyno"));
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        let end = ["--", "me@a", "exec '/opt/it'\\''s here/fsdyno' rank-worker"];
        assert_eq!(args[args.len() - 3..], end);
    }

    #[test]
    fn ranks_are_divided_among_hosts_in_blocks() {
        let hosts = hosts("a,b,c").unwrap();
        let hosts_of = |ranks| -> String {
            (0..ranks).map(|rank| host_of(&hosts, ranks, rank).unwrap().name()).collect()
        };
        assert_eq!(
            (hosts_of(3), hosts_of(7), hosts_of(6)),
            ("abc".into(), "aaabbcc".into(), "aabbcc".into())
        );
        assert_eq!((ranks(&hosts, None), ranks(&hosts, Some(7))), (Ok(3), Ok(7)));
        assert!(ranks(&hosts, Some(2)).is_err());
    }
}
