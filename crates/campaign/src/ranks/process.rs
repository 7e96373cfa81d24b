//! This process as one of several that share the trials of a command: rank 0 is that command and leads the others.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_ranks::launcher::Kind;
use fsdyno_ranks::parent::WorkerEnd;
use fsdyno_ranks::ssh::{self, RemoteWorkers};
use fsdyno_ranks::{
    Group, GroupError, Join, Meeting, Position, Timeouts, cleanup, launcher, meet, parent,
};
use fsdyno_record::plan::RanksPlan;
use fsdyno_record::units::counted;

use super::refusal;
use super::request::{RanksOptions, RanksRequest};
use crate::failure::{Exit, Failure};
use crate::notes::{detail, say};
use crate::stop;

/// A process of a command that several processes share.
pub struct RankProcess<'a> {
    position: Position,
    options: &'a RanksOptions,
    /// The values of `--on`.
    on: &'a [String],
    /// The program's version, which all ranks must have.
    version: &'a str,
}

impl<'a> RankProcess<'a> {
    /// Finds the position of this process; `None` if the command is not one of several processes. Shards are runs of
    /// their own.
    ///
    /// # Errors
    /// There is no launcher, or its environment variables are invalid.
    pub fn of(
        options: &'a RanksOptions,
        is_shard: bool,
        on: &'a [String],
        version: &'a str,
    ) -> Result<Option<RankProcess<'a>>, Failure> {
        let position = position(options, is_shard)
            .inspect_err(|failure| refusal::report(options, on, version, &failure.message))?;
        Ok(position.map(|position| RankProcess { position, options, on, version }))
    }

    /// Returns true if this process is the command itself, and not one that takes part in its run.
    pub fn leads(&self) -> bool {
        self.position.rank == 0
    }

    /// Returns the request for the ranks.
    pub fn request(&self) -> RanksRequest {
        let RanksOptions { own, shift, stonewall, .. } = *self.options;
        RanksRequest::new(RanksPlan { ranks: self.position.ranks, own, shift, stonewall })
    }

    /// Tells the other ranks that the run is refused.
    pub fn refuse(&self) {
        meet::refuse(&self.position, self.directory().ok().as_deref());
    }

    /// Takes part in the run as a rank other than 0: starts the worker that does this rank's part.
    ///
    /// # Errors
    /// Rank 0 cannot be found, or the worker cannot run.
    pub fn join(&self) -> Result<Exit, Failure> {
        let position = &self.position;
        let stop = stop::flag()?;
        let timeout = Timeouts::default().gather;
        let on = self.directory().inspect_err(|_| meet::refuse(position, None))?;
        // Rank 0 has reported why it refuses the run.
        let Some(meeting) = meet::find(position, &on, timeout).map_err(missing)? else {
            return Ok(Exit::InvalidUse);
        };
        let hello = parent::hello(position.rank, position.ranks, self.version);
        let join = join(&meeting, position, on.clone(), timeout);
        let worker = parent::start(&program()?, &join).map_err(missing)?;
        match parent::attend(worker, &meeting, &hello, &stop).map_err(missing)? {
            WorkerEnd::Done => Ok(Exit::Success),
            WorkerEnd::Hanging(message) => Err(Failure { exit: Exit::TrialFailed, message }),
            WorkerEnd::Orphaned(folder) => {
                match cleanup::clean_up(position, &meeting, &on, folder.as_deref()) {
                    Some(message) => Err(Failure { exit: Exit::TrialFailed, message }),
                    None => Ok(Exit::TrialFailed),
                }
            }
        }
    }

    /// Waits, as rank 0, until all ranks have arrived. Workers on other hosts end when they are dropped.
    ///
    /// # Errors
    /// Ranks that do not arrive in time or do not fit together.
    pub fn gather(
        &self,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Arc<Group>, Option<RemoteWorkers>), Failure> {
        let position = &self.position;
        let timeouts = Timeouts::default();
        let on = self.directory()?;
        let (listener, meeting, note) = meet::open(position, &on).map_err(missing)?;
        let workers = self.start_workers(&meeting, on, timeouts.gather)?;
        let is_stopped = || stop.load(Ordering::Relaxed);
        let (kind, secret) = ((position.kind, position.ranks), &meeting.secret);
        let group = Group::gather(listener, secret, kind, self.version, timeouts, &is_stopped);
        drop(note);
        let group = match group {
            Ok(group) => group,
            Err(error) => {
                if let Some(workers) = workers {
                    workers.end();
                }
                // For ranks that have not found the address yet.
                if let Ok(on) = self.directory() {
                    meet::show_refusal(position, &on);
                }
                let exit = match error {
                    GroupError::Stopped => Exit::Stopped,
                    _ => Exit::TrialFailed,
                };
                return Err(Failure { exit, message: error.to_string() });
            }
        };
        let hosts: Vec<String> =
            group.hosts().iter().map(|(host, ranks)| format!("{host} ({ranks})")).collect();
        let ranks = counted(position.ranks as usize, "rank");
        detail(&format!("fsdyno: {ranks} of {}: {}", position.kind, hosts.join(", ")));
        group.crowded_hosts().iter().for_each(|note| say(&format!("fsdyno: {note}")));
        Ok((Arc::new(group), workers))
    }

    /// Starts the workers of all hosts, or that of rank 0 if a launcher starts the others.
    fn start_workers(
        &self,
        meeting: &Meeting,
        on: PathBuf,
        timeout: Duration,
    ) -> Result<Option<RemoteWorkers>, Failure> {
        let (position, program) = (&self.position, program()?);
        let Some(hosts) = &self.options.hosts else {
            let join = join(meeting, position, on, timeout);
            start_worker(program, join, meeting.clone(), self.version);
            return Ok(None);
        };
        let program = self.options.hosts_program.clone().unwrap_or(program);
        let join_of = |rank| {
            let position = Position { rank, ..position.clone() };
            join(meeting, &position, on.clone(), timeout)
        };
        let ranks = (position.ranks, self.version);
        Ok(Some(RemoteWorkers::start(hosts, &program, ranks, meeting, &join_of)))
    }

    /// Returns the shared directory, by its path on this host.
    fn directory(&self) -> Result<PathBuf, Failure> {
        let [on] = self.on else {
            return Err(Failure::invalid_use(
                "--ranks needs one --on DIR: the directory that all hosts share",
            ));
        };
        let on = Path::new(on);
        std::path::absolute(on).map_err(|error| Failure::io("find", on, &error))
    }
}

fn position(options: &RanksOptions, is_shard: bool) -> Result<Option<Position>, Failure> {
    if let Some(hosts) = &options.hosts {
        let ranks = ssh::ranks(hosts, options.ranks.flatten()).map_err(Failure::invalid_use)?;
        return Ok(Some(Position { kind: Kind::Ssh, rank: 0, ranks, run: None, pmi: None }));
    }
    let env = |name: &str| std::env::var(name).ok();
    let Some(count) = options.ranks else {
        let started = launcher::started_by_mpi(&env).filter(|_| !is_shard);
        return started.map_or(Ok(None), |(kind, ranks)| {
            Err(Failure::invalid_use(format!(
                "the launcher ({kind}) started {ranks} processes of this command, each of which would be a run of its own; \
                 add --ranks to make them one run"
            )))
        });
    };
    let position = launcher::detect(&env, count).map_err(Failure::invalid_use)?;
    position.map(Some).ok_or_else(|| {
        Failure::invalid_use(
            "--ranks: no launcher started this process; put one before the command, such as 'mpiexec -n 4 fsdyno run \
             ... --ranks' or srun, name hosts with --hosts, or start each process with the environment variables \
             FSDYNO_RANK, FSDYNO_RANKS and FSDYNO_RUN (docs/ranks.md)",
        )
    })
}

/// Starts the worker of rank 0.
fn start_worker(program: PathBuf, join: Join, meeting: Meeting, version: &str) {
    let hello = parent::hello(join.rank, join.ranks, version);
    // The kernel kills the worker when the thread that started it ends.
    std::thread::spawn(move || {
        let never_stop = AtomicBool::new(false);
        let result = parent::start(&program, &join)
            .and_then(|worker| parent::attend(worker, &meeting, &hello, &never_stop));
        if let Err(message) | Ok(WorkerEnd::Hanging(message)) = result {
            detail(&format!("fsdyno: the worker of rank 0: {message}"));
        }
    });
}

/// Runs as a worker: the parent sends it its rank on standard input.
///
/// # Errors
/// Another input; rank 0 cannot be reached or rejects this rank.
pub fn work(version: &str) -> Result<Exit, Failure> {
    let mut line = String::new();
    // Reads one line only: over ssh the input stays open.
    let read = std::io::stdin().lock().take(1 << 16).read_line(&mut line);
    let parsed = read.map_err(serde_json::Error::io).and_then(|_| serde_json::from_str(&line));
    let join: Join = parsed.map_err(|error| {
        Failure::invalid_use(format!(
            "rank-worker is started by fsdyno itself ({error}); to start ranks see docs/ranks.md"
        ))
    })?;
    match fsdyno_ranks::work(&join, version) {
        Ok(()) => Ok(Exit::Success),
        Err(message) => Err(Failure { exit: Exit::NegativeVerdict, message }),
    }
}

fn join(meeting: &Meeting, position: &Position, on: PathBuf, timeout: Duration) -> Join {
    let (rank, ranks) = (position.rank, position.ranks);
    let patience = timeout.as_secs();
    Join { meeting: meeting.to_text(), rank, ranks, on, patience, tied: false }
}

fn missing(message: String) -> Failure {
    Failure { exit: Exit::Missing, message }
}

fn program() -> Result<PathBuf, Failure> {
    let failed = |error| Failure::io("find", Path::new("/proc/self/exe"), &error);
    std::env::current_exe().map_err(failed)
}
