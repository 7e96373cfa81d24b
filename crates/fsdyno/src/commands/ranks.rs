//! Lets several processes share the trials of one `fsdyno run`: rank 0 is that command and leads the others.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_campaign::{RanksRequest, stop};
use fsdyno_ranks::launcher::Kind;
use fsdyno_ranks::parent::WorkerEnd;
use fsdyno_ranks::ssh::{self, RemoteWorkers};
use fsdyno_ranks::{
    Group, GroupError, Join, Meeting, Position, Timeouts, cleanup, launcher, meet, parent,
};
use fsdyno_record::plan::RanksPlan;
use fsdyno_record::units::counted;

use crate::cli::Run;
use crate::cli::ranks::{Hosts, RanksArgs};
use crate::exit::{Exit, Failure};
use crate::output::detail;
use crate::version;

/// Returns the position of this process; `None` if the command is not one of several processes.
///
/// # Errors
/// There is no launcher, or its environment variables are invalid.
pub fn position_of(run: &Run) -> Result<Option<Position>, Failure> {
    if let Some(Hosts(hosts)) = &run.ranks.hosts {
        let ranks = ssh::ranks(hosts, run.ranks.ranks.flatten()).map_err(Failure::invalid_use)?;
        return Ok(Some(Position { kind: Kind::Ssh, rank: 0, ranks, run: None, pmi: None }));
    }
    let env = |name: &str| std::env::var(name).ok();
    let Some(count) = run.ranks.ranks else {
        // Shards are runs of their own.
        let started = launcher::started_by_mpi(&env).filter(|_| run.shard.is_none());
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
             ... --ranks' or srun (docs/ranks.md has the others), or name hosts with --hosts",
        )
    })
}

/// Returns the request for the ranks.
pub fn request(run: &Run, position: &Position) -> RanksRequest {
    let RanksArgs { own, shift, stonewall, .. } = run.ranks;
    RanksRequest::new(RanksPlan { ranks: position.ranks, own, shift, stonewall })
}

/// Takes part in the run as a rank other than 0: starts the worker that does this rank's part.
pub fn join_run(run: &Run, position: &Position) -> Result<Exit, Failure> {
    if run.dry_run {
        return Ok(Exit::Success);
    }
    let failed = |message: String| Failure { exit: Exit::Missing, message };
    let stop = stop::flag()?;
    let timeout = Timeouts::default().gather;
    let on = directory(run).inspect_err(|_| meet::refuse(position))?;
    // Rank 0 has reported why it refuses the run.
    let Some(meeting) = meet::find(position, &on, timeout).map_err(failed)? else {
        return Ok(Exit::InvalidUse);
    };
    let hello = parent::hello(position.rank, position.ranks, version::description());
    let join = join(&meeting, position, on.clone(), timeout);
    let worker = parent::start(&program()?, &join).map_err(failed)?;
    match parent::attend(worker, &meeting, &hello, &stop).map_err(failed)? {
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

/// Waits, as rank 0, until all ranks have arrived.
pub fn gather(
    run: &Run,
    position: &Position,
    stop: &Arc<AtomicBool>,
) -> Result<(Arc<Group>, Option<RemoteWorkers>), Failure> {
    let failed = |message: String| Failure { exit: Exit::Missing, message };
    let timeouts = Timeouts::default();
    let on = directory(run)?;
    let (listener, meeting, note) = meet::open(position, &on).map_err(failed)?;
    let (program, version) = (program()?, version::description());
    let workers = match &run.ranks.hosts {
        Some(Hosts(hosts)) => {
            let program = run.ranks.hosts_program.clone().unwrap_or(program);
            let join = |rank| {
                let position = Position { rank, ..position.clone() };
                join(&meeting, &position, on.clone(), timeouts.gather)
            };
            Some(RemoteWorkers::start(hosts, &program, (position.ranks, version), &meeting, &join))
        }
        None => {
            start_worker(program, join(&meeting, position, on, timeouts.gather), meeting.clone());
            None
        }
    };
    let is_stopped = || stop.load(Ordering::Relaxed);
    let kind = (position.kind, position.ranks);
    let group = Group::gather(listener, &meeting.secret, kind, version, timeouts, &is_stopped);
    drop(note);
    let group = match group {
        Ok(group) => group,
        Err(error) => {
            if let Some(workers) = workers {
                workers.end();
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
    Ok((Arc::new(group), workers))
}

/// Starts the worker of rank 0.
fn start_worker(program: PathBuf, join: Join, meeting: Meeting) {
    let hello = parent::hello(join.rank, join.ranks, version::description());
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
pub fn work() -> Result<Exit, Failure> {
    let mut line = String::new();
    // Reads one line only: over ssh the input stays open.
    let result = std::io::stdin().lock().take(1 << 16).read_line(&mut line);
    let join: Join = match result
        .map_err(serde_json::Error::io)
        .and_then(|_| serde_json::from_str(&line))
    {
        Ok(join) => join,
        Err(error) => {
            return Err(Failure::invalid_use(format!(
                "rank-worker is started by fsdyno itself ({error}); to start ranks see docs/ranks.md"
            )));
        }
    };
    match fsdyno_ranks::work(&join, version::description()) {
        Ok(()) => Ok(Exit::Success),
        Err(message) => Err(Failure { exit: Exit::NegativeVerdict, message }),
    }
}

fn join(meeting: &Meeting, position: &Position, on: PathBuf, timeout: Duration) -> Join {
    let (rank, ranks) = (position.rank, position.ranks);
    let patience = timeout.as_secs();
    Join { meeting: meeting.to_text(), rank, ranks, on, patience, tied: false }
}

/// Returns the shared directory, by its path on this host.
fn directory(run: &Run) -> Result<PathBuf, Failure> {
    let [on] = run.axes.0.on.as_slice() else {
        return Err(Failure::invalid_use(
            "--ranks needs one --on DIR: the directory that all hosts share",
        ));
    };
    std::path::absolute(Path::new(on)).map_err(|error| Failure::io("find", Path::new(on), &error))
}

fn program() -> Result<PathBuf, Failure> {
    let failed = |error| Failure::io("find", Path::new("/proc/self/exe"), &error);
    std::env::current_exe().map_err(failed)
}
