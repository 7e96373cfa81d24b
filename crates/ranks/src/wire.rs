//! The messages between rank 0 and the workers: frames (length, JSON) over TCP, after both ends have proven that
//! they know the run's secret.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fsdyno_record::trial::{OpStats, VerifyReport};
use fsdyno_record::{Job, Nanos, OpKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame::{MAX_MESSAGE, MAX_UNAUTHENTICATED, read_frame, write_frame};
use crate::secret::{Secret, word};

/// The version of the messages.
pub const PROTOCOL: u32 = 1;

/// Maximum time without an acknowledgement from the other host; the default is some 15 minutes (tcp(7)).
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Maximum time for the exchange of proofs.
const PROOF_TIME: Duration = Duration::from_secs(5);

/// The first message of rank 0.
#[derive(Debug, Serialize, Deserialize)]
struct Challenge {
    fsdyno: u32,
    nonce: String,
}

/// The answer of a caller.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hello {
    /// Its rank.
    pub rank: u32,
    /// The number of ranks according to its launcher.
    pub ranks: u32,
    /// Its role.
    pub role: Role,
    /// The version and build of its fsdyno.
    pub version: String,
    /// The name of its host.
    pub host: String,
    /// Its process ID on that host.
    pub pid: u32,
    /// The identity of its clock; None if unknown.
    #[serde(default)]
    pub clock: Option<String>,
    /// The report of a parent process.
    pub text: String,
    pub(crate) nonce: String,
    pub(crate) proof: String,
}

impl Hello {
    /// Returns the same message for a process on another host.
    pub(crate) fn at(self, host: &str) -> Hello {
        Hello { host: host.to_string(), ..self }
    }
}

/// The role of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The process that issues the calls of a rank.
    #[default]
    Worker,
    /// The worker's parent, which reports how the worker ended.
    Parent,
    /// The worker's parent, which checks whether rank 0 still runs.
    Asking,
}

/// The last message of the handshake.
#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    proof: String,
    refused: Option<String>,
}

/// A message from rank 0 to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToRank {
    /// Answer with your time.
    Ping,
    /// A trial begins.
    Prepare(Box<Preparation>),
    /// Execute the step before a phase on your client.
    Gap {
        /// The name of the step.
        kind: String,
    },
    /// Prepare a phase and wait.
    Arm {
        /// Its index.
        phase: usize,
    },
    /// Begin the phase at this time by your clock.
    Go {
        /// The start.
        at: Nanos,
    },
    /// Another rank waits for one of your ops.
    Await(Point),
    /// An op of another rank that you wait for has returned.
    Reached(Point),
    /// Continue to the goal: all shares have reached the stonewall.
    GoOn(Goal),
    /// End the phase: another rank failed, or the user stopped the run.
    Stop,
    /// Sync the file system.
    Sync,
    /// Read trees and compare them.
    Verify {
        /// The phase that left them.
        phase: usize,
        /// The trees.
        trees: Vec<TreeOf>,
        /// Maximum time for which a client's caches may explain differences.
        settle: Nanos,
    },
    /// The trial is over: close its files.
    Close,
    /// The run is over: end.
    End,
    /// End immediately.
    Abort {
        /// The reason.
        why: String,
    },
}

/// A tree to compare.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeOf {
    /// The rank that owns the directory; None for the common directory.
    pub of: Option<u32>,
    /// The work that the ranks of the phase report as done.
    pub done: Vec<u64>,
}

/// A position in the ops of a thread in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Index of the thread among those of all ranks.
    pub thread: u32,
    /// Number of its ops that have returned.
    pub ops: u64,
}

/// A share at the stonewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The thread among those of all ranks.
    pub thread: u32,
    /// Number of items that it has done.
    pub done: u64,
    /// Time since its first op.
    pub at: Nanos,
}

/// The end of a phase after the stonewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Number of items that each share must complete.
    pub most: u64,
    /// Number of shares of the common directory, or of each rank's own directory.
    pub shares: u32,
}

/// A trial, as a worker receives it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Preparation {
    /// The job.
    pub job: Job,
    /// The path of the trial's directory below the shared directory.
    pub folder: String,
}

/// A message from a worker to rank 0.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FromRank {
    /// Its time.
    Pong {
        /// The time.
        now: Nanos,
    },
    /// A heartbeat.
    Beat {
        /// A number that increases as the worker makes progress.
        work: u64,
        /// Number of ops in the phase so far.
        ops: u64,
    },
    /// The worker has found the trial's directory.
    Prepared {
        /// Time until it found the directory.
        found: Nanos,
        /// Device number of the file system there, which identifies ranks with the same mount on a host.
        device: u64,
    },
    /// The step before a phase was executed.
    GapDone {
        /// The step that was executed.
        done: String,
    },
    /// The phase is ready to begin.
    Armed,
    /// The phase has ended.
    Done(Box<PhaseDone>),
    /// One of its threads waits for an op of another rank.
    Await(Point),
    /// An op that another rank waits for has returned.
    Reached(Point),
    /// A share has reached the stonewall.
    Stonewall(Stopped),
    /// The file system is synced.
    Synced {
        /// Time at which syncfs returned, on the worker's clock.
        at: Nanos,
        /// The reason why the data may not be durable at that time; None if they are.
        doubt: Option<String>,
    },
    /// The trees were read, in the given order.
    Verified {
        /// The worker's observations, by tree.
        seen: Vec<Seen>,
    },
    /// The trial's files are closed.
    Closed,
    /// The worker failed.
    Failed {
        /// The reason.
        why: String,
        /// True if the worker stopped by order.
        stopped: bool,
    },
}

/// The work of a rank in a phase; times are on its own clock.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PhaseDone {
    /// Start of its first op.
    pub started: Nanos,
    /// Return of its last call.
    pub returned: Nanos,
    /// Number of its ops.
    pub calls: u64,
    /// Counts and latencies by kind of op.
    pub ops: BTreeMap<OpKind, OpStats>,
    /// The work that each of its threads reports as done.
    pub done: Vec<u64>,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Think time.
    pub think: Nanos,
    /// Number of trees removed by an expanded op.
    pub removals: u64,
    /// User and system CPU time of the process.
    pub cpu: (Nanos, Nanos),
    /// Estimated time of the engine itself in the phase.
    pub engine: Nanos,
    /// Length of an interval, and the number of ops that returned in each, from its start.
    pub timeline: (Nanos, Vec<u64>),
}

/// The observations of a rank about a tree.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The report of the last reading.
    pub report: VerifyReport,
    /// Number of differences found by the first reading but not by the last one.
    pub stale: u64,
    /// Time from the first reading to the one that found none of them.
    pub settled: Nanos,
}

/// The writing end of an authenticated connection. Any thread may write.
#[derive(Clone, Debug)]
pub struct Wire {
    writer: Arc<Mutex<TcpStream>>,
}

impl Wire {
    /// Sends a message.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write_frame(&mut writer, message)
    }

    /// Ends the connection; a reader at either end sees its end.
    pub fn shut(&self) {
        // The connection may already be broken.
        let _ = self.writer.lock().map(|writer| writer.shutdown(Shutdown::Both));
    }
}

/// The reading end of a connection.
#[derive(Debug)]
pub struct WireReader(TcpStream);

impl WireReader {
    /// Waits for a message.
    ///
    /// # Errors
    /// The connection ended, or the data are not a message.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        read_frame(&mut self.0, MAX_MESSAGE)
    }
}

fn ends(stream: TcpStream) -> io::Result<(Wire, WireReader)> {
    stream.set_read_timeout(None)?;
    let writer = stream.try_clone()?;
    Ok((Wire { writer: Arc::new(Mutex::new(writer)) }, WireReader(stream)))
}

/// Sets the socket options to send messages immediately and to detect a peer whose host is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PROOF_TIME))?;
    // Both ends send often: without an acknowledgement for this time, the peer is gone.
    rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED.as_millis() as u32)?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))
}

/// The authenticated caller with its connection, or the reason why it was rejected.
pub type Greeted = Result<(Hello, Wire, WireReader), String>;

/// Rank 0's side of the handshake; `refuse` returns the reason to reject an authenticated caller.
pub fn greet(
    mut stream: TcpStream,
    secret: &Secret,
    refuse: &dyn Fn(&Hello) -> Option<String>,
) -> Greeted {
    let failed = |error: io::Error| error.to_string();
    prepare(&stream).map_err(failed)?;
    let nonce = word().map_err(failed)?;
    let challenge = Challenge { fsdyno: PROTOCOL, nonce: nonce.clone() };
    write_frame(&mut stream, &challenge).map_err(failed)?;
    let hello: Hello = read_frame(&mut stream, MAX_UNAUTHENTICATED).map_err(failed)?;
    if !secret.is_proof(&[&words(&hello, &nonce)], &hello.proof) {
        return Err("it does not know the secret of this run".into());
    }
    let proof = secret.proof(&["group", &hello.nonce, &nonce]);
    let refused = refuse(&hello);
    let welcome = Welcome { proof, refused: refused.clone() };
    write_frame(&mut stream, &welcome).map_err(failed)?;
    match refused {
        Some(why) => Err(why),
        None => ends(stream).map(|(wire, ear)| (hello, wire, ear)).map_err(failed),
    }
}

/// Returns the text that a caller's proof covers.
fn words(hello: &Hello, nonce: &str) -> String {
    let Hello { rank, ranks, role, version, host, pid, clock, text, nonce: own, .. } = hello;
    format!("{nonce} {own} {rank} {ranks} {role:?} {pid} {version:?} {host:?} {clock:?} {text:?}")
}

/// The reason why a handshake failed on the caller's side.
#[derive(Debug)]
pub enum Rejection {
    /// An unrelated process or no process listens there; a different address may be right.
    Stranger(String),
    /// Rank 0 proved its identity and rejected the caller.
    Refused(String),
}

/// The caller's side of the handshake.
///
/// # Errors
/// [`Rejection`].
pub fn call(
    mut stream: TcpStream,
    secret: &Secret,
    hello: &Hello,
) -> Result<(Wire, WireReader), Rejection> {
    let strange = |error: io::Error| Rejection::Stranger(error.to_string());
    prepare(&stream).map_err(strange)?;
    let challenge: Challenge = read_frame(&mut stream, MAX_UNAUTHENTICATED).map_err(strange)?;
    if challenge.fsdyno != PROTOCOL {
        let text =
            format!("rank 0 speaks version {} of the protocol, not {PROTOCOL}", challenge.fsdyno);
        return Err(Rejection::Refused(format!("{text}; use one fsdyno on all hosts")));
    }
    let mut hello = hello.clone();
    hello.nonce = word().map_err(strange)?;
    hello.proof = secret.proof(&[&words(&hello, &challenge.nonce)]);
    write_frame(&mut stream, &hello).map_err(strange)?;
    let welcome: Welcome = read_frame(&mut stream, MAX_UNAUTHENTICATED).map_err(strange)?;
    if !secret.is_proof(&["group", &hello.nonce, &challenge.nonce], &welcome.proof) {
        return Err(Rejection::Stranger("what listens there does not know the secret".into()));
    }
    match welcome.refused {
        Some(why) => Err(Rejection::Refused(why)),
        None => ends(stream).map_err(strange),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, caller)
    }

    #[test]
    fn both_ends_prove_themselves_and_then_exchange_messages() {
        let secret = Secret::draw().unwrap();
        let (ours, theirs) = pair();
        let known = secret.clone();
        let worker = std::thread::spawn(move || {
            let hello = Hello { rank: 3, ..Hello::default() };
            let (wire, mut ear) = call(theirs, &known, &hello).unwrap();
            let heard: ToRank = ear.hear().unwrap();
            assert!(matches!(heard, ToRank::Go { at: Nanos(7) }));
            wire.send(&FromRank::Armed).unwrap();
        });
        let (hello, wire, mut ear) = greet(ours, &secret, &|_| None).unwrap();
        assert_eq!(hello.rank, 3);
        wire.send(&ToRank::Go { at: Nanos(7) }).unwrap();
        assert!(matches!(ear.hear().unwrap(), FromRank::Armed));
        worker.join().unwrap();
        assert!(ear.hear::<FromRank>().is_err(), "the end of the connection");
    }

    #[test]
    fn a_stranger_is_not_welcome_and_an_impostor_is_not_believed() {
        let (ours, theirs) = pair();
        let wrong = Secret::draw().unwrap();
        let caller = std::thread::spawn(move || call(theirs, &wrong, &Hello::default()));
        let error = greet(ours, &Secret::draw().unwrap(), &|_| None).unwrap_err();
        assert!(error.contains("does not know the secret"), "{error}");
        assert!(matches!(caller.join().unwrap(), Err(Rejection::Stranger(_))));
        // A caller that is not fsdyno.
        let (ours, mut theirs) = pair();
        theirs.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(greet(ours, &Secret::draw().unwrap(), &|_| None).is_err());
    }

    #[test]
    fn a_proof_holds_for_the_words_it_was_made_for() {
        let (ours, mut theirs) = pair();
        let secret = Secret::draw().unwrap();
        let known = secret.clone();
        let caller = std::thread::spawn(move || {
            let challenge: Challenge = read_frame(&mut theirs, MAX_UNAUTHENTICATED).unwrap();
            let mut hello = Hello { version: "1".into(), ..Hello::default() };
            hello.proof = known.proof(&[&words(&hello, &challenge.nonce)]);
            hello.version = "2".into();
            write_frame(&mut theirs, &hello).unwrap();
        });
        assert!(greet(ours, &secret, &|_| None).is_err());
        caller.join().unwrap();
    }

    #[test]
    fn a_refusal_names_its_reason() {
        let secret = Secret::draw().unwrap();
        let (ours, theirs) = pair();
        let known = secret.clone();
        let caller = std::thread::spawn(move || call(theirs, &known, &Hello::default()));
        assert!(greet(ours, &secret, &|_| Some("twice".into())).is_err());
        assert!(matches!(caller.join().unwrap(), Err(Rejection::Refused(why)) if why == "twice"));
    }
}
