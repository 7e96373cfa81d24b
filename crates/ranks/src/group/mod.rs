//! Rank 0's side: it waits for all ranks, and coordinates their trials.

mod acceptor;
mod collect;
mod course;
mod input;
mod merge;
mod replay;
mod stonewall;
mod trial;
mod views;

use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::AgentReport;
use fsdyno_record::units::counted;
use fsdyno_workload::Input;

use crate::clocks::{self, Clock};
use crate::launcher::Kind;
use crate::messages::{FromRank, ToRank};
use crate::processors;
use crate::secret::Secret;
use crate::wire::{Hello, Wire};
use acceptor::Acceptor;

pub use course::Trial;

/// The timeouts of rank 0.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Timeout for all ranks to connect.
    pub gather: Duration,
    /// Timeout for a sign of life from a rank.
    pub silence: Duration,
    /// Timeout for a rank in a phase to complete an operation.
    pub stuck: Duration,
    /// Timeout for a client to be synced, or its caches to be dropped; neither shows progress.
    pub sync: Duration,
    /// Timeout for ranks to stop; after that, they are aborted.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            gather: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            stuck: Duration::from_secs(120),
            sync: Duration::from_secs(1800),
            stop: Duration::from_secs(3),
        }
    }
}

/// The reason why a trial of several ranks has no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A rank is lost; no further trial is possible.
    #[error("{0}")]
    Lost(String),
    /// The trial failed; the ranks are ready for the next one.
    #[error("{0}")]
    Failed(String),
    /// The user stopped the trial.
    #[error("the trial was stopped")]
    Stopped,
}

/// An event that rank 0 handles.
enum Event {
    /// A worker has connected.
    Arrived(Box<(Hello, Wire)>),
    /// The parent of a worker reports how the worker ended.
    WorkerEnded(Hello),
    /// A caller was rejected.
    Rejected(String),
    /// A message of a worker, with the time at which it was read.
    Received(u32, FromRank, Nanos),
    /// A worker's connection ended.
    Gone(u32),
}

/// A rank, as rank 0 knows it.
struct Peer {
    hello: Hello,
    wire: Wire,
    /// Time of its last message.
    received: Instant,
    /// The count of work that it last reported.
    work: u64,
    /// Time of the last change of `work`.
    last_progress: Instant,
    /// Number of its ops in the phase so far.
    ops: u64,
    gone: bool,
    clock: Clock,
    /// True if it has the same clock as rank 0.
    one_clock: bool,
    /// Number of the client: ranks with the same number share a host and a mount.
    client: u32,
}

impl Peer {
    fn new(hello: Hello, wire: Wire) -> Peer {
        let now = Instant::now();
        let (clock, client) = (Clock::default(), 0);
        let one_clock = hello.clock.is_some() && hello.clock == clocks::identity();
        Peer {
            hello,
            wire,
            received: now,
            work: 0,
            last_progress: now,
            ops: 0,
            gone: false,
            clock,
            one_clock,
            client,
        }
    }

    fn name(&self) -> String {
        format!("rank {} on {} (process {})", self.hello.rank, self.hello.host, self.hello.pid)
    }
}

/// The ranks of a run.
pub struct Group {
    state: Mutex<State>,
    kind: Kind,
    ranks: u32,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({} ranks of {})", self.ranks, self.kind)
    }
}

/// The state of a run.
struct State {
    peers: Vec<Peer>,
    events: Receiver<Event>,
    /// Stops accepting processes when dropped.
    acceptor: Acceptor,
    patience: Timeouts,
    /// The reason why no further trial is possible.
    broken: Option<String>,
    /// True if the mount of rank 0 may hang: its worker did not end by order, or a call on the same client hangs.
    own_client_hangs: bool,
    progress: Progress,
    /// True while the ranks' work shows progress.
    shows_progress: bool,
    /// The waits of ranks for ops of other ranks.
    waits: collect::Waits,
    /// The stonewall of the phase, if the phase ends with one.
    stonewall: Option<stonewall::StonewallShares>,
    /// The input file that the ranks receive, and the SHA-256 of those that all of them have.
    input: Option<Input>,
    sent_inputs: Vec<String>,
    notes: Vec<String>,
}

impl State {
    fn crowded_hosts(&self) -> Vec<String> {
        let hellos = self.peers.iter().map(|peer| &peer.hello);
        // Two hosts may have the same name, but not the same boot.
        let boot = |clock: &str| clock.split(' ').next().unwrap_or_default().to_string();
        processors::crowded_hosts(hellos.map(|hello| {
            let boot = hello.clock.as_deref().map(boot).unwrap_or_default();
            ((hello.host.as_str(), boot), hello.processors.as_deref())
        }))
    }
}

impl Group {
    /// Waits until all ranks have connected; `stop` is called often, and ends the wait if it returns true.
    ///
    /// # Errors
    /// A rank does not connect, connects twice, or has a different version; the message contains the rank numbers.
    pub fn gather(
        listener: TcpListener,
        secret: &Secret,
        (kind, ranks): (Kind, u32),
        version: &str,
        patience: Timeouts,
        stop: &dyn Fn() -> bool,
    ) -> Result<Group, GroupError> {
        let (sender, events) = mpsc::channel();
        let acceptor =
            Acceptor::open(listener, secret.clone(), (ranks, version.to_string()), sender)
                .map_err(|error| {
                    GroupError::Lost(format!("failed to listen for the ranks: {error}"))
                })?;
        let mut arrivals =
            Arrivals { connected: (0..ranks).map(|_| None).collect(), notes: Vec::new() };
        let begin = Instant::now();
        while arrivals.connected.iter().any(Option::is_none) {
            if stop() {
                arrivals.abort("the run was stopped");
                return Err(GroupError::Stopped);
            }
            let taken = match events.recv_timeout(Duration::from_millis(20)) {
                Ok(event) => arrivals.take(event),
                Err(_) => Ok(()),
            };
            let late = begin.elapsed() > patience.gather;
            let missing =
                || Err(describe_missing(&arrivals.connected, patience.gather, &arrivals.notes));
            if let Err(why) = taken.and_then(|()| if late { missing() } else { Ok(()) }) {
                arrivals.abort(&why);
                return Err(GroupError::Lost(why));
            }
        }
        let state = State {
            peers: arrivals.connected.into_iter().flatten().collect(),
            events,
            acceptor,
            patience,
            broken: None,
            own_client_hangs: false,
            progress: collect::no_progress(),
            shows_progress: true,
            waits: collect::Waits::default(),
            stonewall: None,
            input: None,
            sent_inputs: Vec::new(),
            notes: arrivals.notes,
        };
        Ok(Group { state: Mutex::new(state), kind, ranks })
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns true if the mount of rank 0 may hang.
    pub fn own_mount_hangs(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).own_client_hangs
    }

    /// Returns the name of each host, with its number of ranks.
    pub fn hosts(&self) -> Vec<(String, usize)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hosts: Vec<(String, usize)> = Vec::new();
        for peer in &state.peers {
            match hosts.iter_mut().find(|(host, _)| *host == peer.hello.host) {
                Some((_, ranks)) => *ranks += 1,
                None => hosts.push((peer.hello.host.clone(), 1)),
            }
        }
        hosts
    }

    /// Returns a sentence for each host with more ranks than processors; the notes of each trial contain it too.
    pub fn crowded_hosts(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).crowded_hosts()
    }

    /// Runs a trial on all ranks; `watch` is called about every 20 ms and returns false to stop the trial.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn run(
        &self,
        trial: &Trial<'_>,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<AgentReport, GroupError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &state.broken {
            return Err(GroupError::Lost(format!("the ranks have ended: {why}")));
        }
        state.trial(trial, self.kind, watch)
    }
}

impl Drop for Group {
    /// Ends all ranks.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for peer in &state.peers {
            // A rank that is gone need not be ended.
            let _ = peer.wire.send(&ToRank::End);
        }
        state.acceptor.shut();
    }
}

/// The ranks that have connected so far.
struct Arrivals {
    connected: Vec<Option<Peer>>,
    notes: Vec<String>,
}

impl Arrivals {
    /// Handles an event; fails with the reason why the run cannot begin.
    fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrived(arrived) => {
                let (hello, wire) = *arrived;
                let peer = Peer::new(hello, wire);
                let Some(place) = self.connected.get_mut(peer.hello.rank as usize) else {
                    return Ok(());
                };
                if let Some(first) = place {
                    let why = describe_duplicate(first, &peer);
                    // The second rank may already be gone.
                    let _ = peer.wire.send(&ToRank::Abort { why: why.clone() });
                    return Err(why);
                }
                *place = Some(peer);
                Ok(())
            }
            Event::Gone(rank) => {
                let peer = self.connected.get(rank as usize).and_then(Option::as_ref);
                let name = peer.map_or_else(|| format!("rank {rank}"), Peer::name);
                Err(format!("{name} ended before all ranks had connected"))
            }
            Event::WorkerEnded(hello) => {
                Err(format!("rank {} on {}: {}", hello.rank, hello.host, hello.text))
            }
            Event::Rejected(why) => match why.strip_prefix(acceptor::MISFIT) {
                Some(misfit) => Err(misfit.to_string()),
                None => {
                    self.notes.push(why);
                    Ok(())
                }
            },
            Event::Received(..) => Ok(()),
        }
    }

    /// Aborts the ranks that have connected.
    fn abort(&self, why: &str) {
        for peer in self.connected.iter().flatten() {
            // A rank that is gone need not be aborted.
            let _ = peer.wire.send(&ToRank::Abort { why: why.to_string() });
            peer.wire.shut();
        }
    }
}

fn describe_duplicate(first: &Peer, second: &Peer) -> String {
    format!(
        "rank {} connected twice: process {} on {} and process {} on {}; does every process get its own rank, and \
         does another run use the same FSDYNO_RUN?",
        first.hello.rank, first.hello.pid, first.hello.host, second.hello.pid, second.hello.host
    )
}

fn describe_missing(connected: &[Option<Peer>], waited: Duration, notes: &[String]) -> String {
    const SHOWN: usize = 8;
    let absent: Vec<String> = (0..)
        .zip(connected)
        .filter(|(_, peer)| peer.is_none())
        .map(|(rank, _): (u32, _)| rank.to_string())
        .collect();
    let more = absent.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let notes = notes.last().map(|note| format!("; {note}")).unwrap_or_default();
    format!(
        "{} of {} did not connect within {} s: {}{more}; were they started, and can they reach this host by \
         TCP?{notes}",
        absent.len(),
        counted(connected.len(), "rank"),
        waited.as_secs(),
        absent[..absent.len().min(SHOWN)].join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Rejection, WireReader, call};
    use std::net::{SocketAddr, TcpStream};

    fn patience(gather: u64) -> Timeouts {
        Timeouts { gather: Duration::from_millis(gather), ..Timeouts::default() }
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn join(
        at: SocketAddr,
        secret: &Secret,
        rank: u32,
        version: &str,
    ) -> Result<(Wire, WireReader), Rejection> {
        let version = version.to_string();
        let hello = Hello { rank, ranks: 2, version, host: "a".into(), ..Hello::default() };
        call(TcpStream::connect(at).unwrap(), secret, &hello)
    }

    fn gather(listener: TcpListener, secret: &Secret, wait: u64) -> Result<Group, GroupError> {
        let kind = (Kind::Environment, 2);
        Group::gather(listener, secret, kind, "1", patience(wait), &|| false)
    }

    #[test]
    fn missing_ranks_are_named_with_the_strangers_that_connected_instead() {
        let (secret, (listener, at)) = (Secret::draw().unwrap(), listener());
        let other = Secret::draw().unwrap();
        let worker_secret = secret.clone();
        let caller = std::thread::spawn(move || {
            let stranger = join(at, &other, 1, "1").is_err();
            (stranger, join(at, &worker_secret, 0, "1"))
        });
        let error = gather(listener, &secret, 1500).unwrap_err().to_string();
        assert!(error.contains("1 of 2 ranks") && error.contains(": 1;"), "{error}");
        assert!(error.contains("does not know the secret"), "{error}");
        let (stranger, rank) = caller.join().unwrap();
        assert!(stranger && rank.is_ok());
    }

    #[test]
    fn a_different_version_prevents_the_run() {
        let (secret, (listener, at)) = (Secret::draw().unwrap(), listener());
        let worker_secret = secret.clone();
        let caller = std::thread::spawn(move || join(at, &worker_secret, 1, "2").is_err());
        let error = gather(listener, &secret, 60_000).unwrap_err().to_string();
        assert!(error.contains("rank 1 on a has fsdyno 2 and rank 0 has 1"), "{error}");
        assert!(caller.join().unwrap());
    }

    #[test]
    fn a_different_number_of_ranks_prevents_the_run() {
        let (secret, (listener, at)) = (Secret::draw().unwrap(), listener());
        let worker_secret = secret.clone();
        let caller = std::thread::spawn(move || {
            let version = "1".to_string();
            let hello = Hello { rank: 2, ranks: 3, version, host: "a".into(), ..Hello::default() };
            call(TcpStream::connect(at).unwrap(), &worker_secret, &hello).is_err()
        });
        let error = gather(listener, &secret, 60_000).unwrap_err().to_string();
        assert!(error.contains("rank 2 on a was started as one of 3 ranks"), "{error}");
        assert!(
            error.contains("rank 0 as one of 2: the launcher started separate runs"),
            "{error}"
        );
        assert!(caller.join().unwrap());
    }

    #[test]
    fn a_rank_that_ends_early_is_named() {
        let (secret, (listener, at)) = (Secret::draw().unwrap(), listener());
        let worker_secret = secret.clone();
        let caller = std::thread::spawn(move || drop(join(at, &worker_secret, 1, "1")));
        let error = gather(listener, &secret, 60_000).unwrap_err().to_string();
        assert!(error.contains("rank 1 on a") && error.contains("ended before"), "{error}");
        caller.join().unwrap();
    }
}
