//! The process that issues the calls of a rank: it connects to rank 0 and carries out its orders.

mod input;
mod link;
mod phase;
mod replay;
mod stonewall;
mod trial;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fsdyno_engine::{Cause, PhaseError};
use fsdyno_workload::GapKind;
use serde::{Deserialize, Serialize};

use crate::meet::{self, Meeting};
use crate::messages::{FromRank, Seen, ToRank};
use crate::wire::{self, Hello, Rejection};
use input::HeldInputs;
use link::Link;
pub(crate) use link::{ENDED_BY_ORDER, ORPHANED};
use trial::Trial;

/// The parameters of a worker, which its parent passes through its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Join {
    /// The address of rank 0 and the secret (see [`Meeting::to_text`]).
    pub meeting: String,
    /// Its rank.
    pub rank: u32,
    /// The number of ranks.
    pub ranks: u32,
    /// The shared directory, by its path on this host.
    pub on: PathBuf,
    /// Maximum time in seconds for reaching rank 0.
    pub patience: u64,
    /// True if the worker must end when its standard input ends.
    #[serde(default)]
    pub tied: bool,
}

/// Ends this process when its standard input ends.
fn end_with_input() {
    std::thread::spawn(|| {
        // An error counts as an end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(ENDED_BY_ORDER);
    });
}

/// Maximum time for connecting to one address.
const CONNECT: Duration = Duration::from_secs(3);

/// Works as a rank until rank 0 ends the run. If the connection is lost, this process ends.
///
/// # Errors
/// Rank 0 cannot be reached or rejects this rank.
pub fn work(join: &Join, version: &str) -> Result<(), String> {
    if join.tied {
        end_with_input();
    }
    let meeting = Meeting::parse(&join.meeting)?;
    let hello = Hello {
        rank: join.rank,
        ranks: join.ranks,
        version: version.to_string(),
        host: meet::host_name(),
        pid: std::process::id(),
        clock: crate::clocks::identity(),
        processors: crate::processors::allowed(),
        ..Hello::default()
    };
    let (wire, reader) = connect(&meeting, &hello, Duration::from_secs(join.patience))?;
    // The workload alone determines modes, not the umask of the caller's shell.
    rustix::process::umask(rustix::fs::Mode::empty());
    serve(join, wire, reader)
}

/// Carries out the orders of rank 0 until it ends the run.
pub(crate) fn serve(join: &Join, wire: wire::Wire, reader: wire::WireReader) -> Result<(), String> {
    let (sender, orders) = mpsc::channel();
    let link = Link::start(wire, reader, sender);
    let (mut trial, mut inputs): (Option<Trial>, HeldInputs) = Default::default();
    while let Ok(order) = orders.recv() {
        let answer = match order {
            ToRank::Input(offer) => inputs.take(&offer, &link),
            ToRank::Prepare(preparation) => {
                Trial::prepare(*preparation, join, &inputs, &link).map(|(ready, answer)| {
                    trial = Some(ready);
                    answer
                })
            }
            ToRank::Close => {
                trial = None;
                Ok(FromRank::Closed)
            }
            ToRank::End => return Ok(()),
            order => match &mut trial {
                Some(trial) => execute(trial, order, &link),
                None => Err(WorkerError::plain("rank 0 gave an order before a trial")),
            },
        };
        let answer =
            answer.unwrap_or_else(|WorkerError { why, stopped }| FromRank::Failed { why, stopped });
        if link.wire().send(&answer).is_err() {
            return Err("the connection with rank 0 is broken".into());
        }
    }
    Ok(())
}

/// Carries out an order within a trial.
fn execute(trial: &mut Trial, order: ToRank, link: &Link) -> Result<FromRank, WorkerError> {
    match order {
        ToRank::Gap { kind } => {
            let done = trial.gap(GapKind::named(&kind))?.to_string();
            Ok(FromRank::GapDone { done })
        }
        ToRank::Prefill => trial.prefill(link),
        ToRank::Arm { phase } => trial.run(phase, link).map(|done| FromRank::Done(Box::new(done))),
        ToRank::Sync => trial.sync(),
        ToRank::Verify { phase, trees, settle } => {
            let seen: Result<Vec<Seen>, WorkerError> =
                trees.iter().map(|tree| trial.verify(phase, tree, settle, link)).collect();
            let seen = seen?;
            if phase.is_none() {
                trial.read_tree_once(link)?;
            }
            Ok(FromRank::Verified { seen })
        }
        _ => Err(WorkerError::plain("rank 0 gave an order that a trial does not have")),
    }
}

/// The reason why an order was not carried out.
pub(crate) struct WorkerError {
    why: String,
    stopped: bool,
}

impl WorkerError {
    fn plain(why: impl Into<String>) -> WorkerError {
        WorkerError { why: why.into(), stopped: false }
    }

    fn stopped() -> WorkerError {
        WorkerError { why: "rank 0 stopped it".into(), stopped: true }
    }

    /// The failure of a phase.
    fn in_phase(phase: &str, error: &PhaseError) -> WorkerError {
        let stopped = matches!(error, PhaseError::Op(failure) if failure.cause == Cause::Stopped);
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        WorkerError { why: format!("phase {phase}: {error}{hint}"), stopped }
    }
}

/// Time after which rank 0 has ended if its port is closed: it listens before it publishes its address. [OWN]
const CLOSED: Duration = Duration::from_secs(5);

/// Connects to rank 0, which may not listen yet if its address is prescribed.
pub(crate) fn connect(
    meeting: &Meeting,
    hello: &Hello,
    patience: Duration,
) -> Result<(wire::Wire, wire::WireReader), String> {
    let begin = Instant::now();
    let closed = if meet::is_prescribed() { patience } else { patience.min(CLOSED) };
    let mut reachable = begin;
    loop {
        let mut last = format!("no address of {} is known here", meeting.hosts.join(", "));
        let addresses = meet::addresses(meeting);
        let mut is_closed = !addresses.is_empty();
        for address in addresses {
            match std::net::TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => match wire::call(stream, &meeting.secret, hello) {
                    Ok(ends) => return Ok(ends),
                    Err(Rejection::Refused(why)) => {
                        return Err(format!("rank 0 on {} refused: {why}", meeting.hosts[0]));
                    }
                    Err(Rejection::Stranger(why)) => last = format!("{address}: {why}"),
                },
                Err(error) => {
                    is_closed &= error.kind() == std::io::ErrorKind::ConnectionRefused;
                    last = format!("{address}: {error}");
                }
            }
        }
        if !is_closed {
            reachable = Instant::now();
        }
        let patience = if reachable.elapsed() > closed { closed } else { patience };
        if begin.elapsed() > patience {
            return Err(format!(
                "rank {} on {} cannot reach rank 0 on {}, TCP port {}, within {} s ({last})",
                hello.rank,
                hello.host,
                meeting.hosts.first().map_or("", String::as_str),
                meeting.port,
                patience.as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    /// Returns an address at which no process listens.
    fn closed() -> Meeting {
        let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = bound.local_addr().unwrap().port();
        let secret = Secret::draw().unwrap();
        Meeting { hosts: vec!["127.0.0.1".into()], port, secret, boot: "b".into() }
    }

    #[test]
    fn an_unreachable_rank_0_is_named_with_its_port_and_the_error() {
        let meeting = closed();
        let port = meeting.port;
        let hello = Hello { rank: 3, host: "node7".into(), ..Hello::default() };
        let error = connect(&meeting, &hello, Duration::ZERO).unwrap_err();
        let start = format!("rank 3 on node7 cannot reach rank 0 on 127.0.0.1, TCP port {port}, ");
        assert!(error.starts_with(&start) && error.contains("refused"), "{error}");
        let nowhere = Meeting { hosts: vec!["no-such-host.invalid".into()], ..meeting };
        let error = connect(&nowhere, &hello, Duration::ZERO).unwrap_err();
        assert!(error.contains("no address of no-such-host.invalid is known here"), "{error}");
    }

    #[test]
    fn a_rank_does_not_wait_for_a_rank_0_that_has_ended() {
        let begin = Instant::now();
        let error = connect(&closed(), &Hello::default(), Duration::from_secs(600)).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(300), "{:?}", begin.elapsed());
        assert!(error.contains(", within 5 s ("), "{error}");
    }
}
