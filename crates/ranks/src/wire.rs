//! The connection between rank 0 and a worker: frames (length, JSON) over TCP, after both ends have proven that they
//! know the run's secret.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame::{MAX_MESSAGE, MAX_UNAUTHENTICATED, read_frame, write_frame};
use crate::secret::{Secret, draw_nonce};

/// The version of the messages.
pub const PROTOCOL: u32 = 3;

/// Maximum time without an acknowledgement from the other host; the kernel's default is about 15 minutes (tcp(7)).
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Maximum number of bytes that follow a message. They fit into the buffers of an idle connection, so that rank 0 is
/// not blocked by a worker that is stopped meanwhile.
pub const MAX_BYTES: u32 = 128 << 10;

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
    /// The processors on which it may run, as the kernel lists them; None if unknown.
    #[serde(default)]
    pub processors: Option<String>,
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

    /// Sends a message and the bytes that it announces.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send_with_bytes(&self, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        write_frame(&mut writer, message)?;
        writer.write_all(bytes)
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
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        read_frame(&mut self.0, MAX_MESSAGE)
    }

    /// Waits for the `length` bytes that the previous message announced.
    ///
    /// # Errors
    /// The connection ended, or more bytes were announced than a message has.
    pub fn receive_bytes(&mut self, length: u32) -> io::Result<Vec<u8>> {
        if length > MAX_BYTES {
            return Err(io::Error::other("more bytes are announced than a message has"));
        }
        let mut bytes = vec![0; length as usize];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

fn split(stream: TcpStream) -> io::Result<(Wire, WireReader)> {
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
pub type GreetResult = Result<(Hello, Wire, WireReader), String>;

/// Rank 0's side of the handshake; `refuse` returns the reason to reject an authenticated caller.
pub fn greet(
    mut stream: TcpStream,
    secret: &Secret,
    refuse: &dyn Fn(&Hello) -> Option<String>,
) -> GreetResult {
    let failed = |error: io::Error| error.to_string();
    prepare(&stream).map_err(failed)?;
    let nonce = draw_nonce().map_err(failed)?;
    let challenge = Challenge { fsdyno: PROTOCOL, nonce: nonce.clone() };
    write_frame(&mut stream, &challenge).map_err(failed)?;
    let hello: Hello = read_frame(&mut stream, MAX_UNAUTHENTICATED).map_err(failed)?;
    if !secret.is_proof(&[&proof_text(&hello, &nonce)], &hello.proof) {
        return Err("it does not know the secret of this run".into());
    }
    let proof = secret.proof(&["group", &hello.nonce, &nonce]);
    let refused = refuse(&hello);
    let welcome = Welcome { proof, refused: refused.clone() };
    write_frame(&mut stream, &welcome).map_err(failed)?;
    match refused {
        Some(why) => Err(why),
        None => split(stream).map(|(wire, reader)| (hello, wire, reader)).map_err(failed),
    }
}

/// Returns the text that a caller's proof covers.
fn proof_text(hello: &Hello, nonce: &str) -> String {
    let Hello { rank, ranks, role, version, host, pid, clock, processors, text, .. } = hello;
    let own = &hello.nonce;
    format!(
        "{nonce} {own} {rank} {ranks} {role:?} {pid} {version:?} {host:?} {clock:?} {processors:?} {text:?}"
    )
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
    let stranger = |error: io::Error| Rejection::Stranger(error.to_string());
    prepare(&stream).map_err(stranger)?;
    let challenge: Challenge = read_frame(&mut stream, MAX_UNAUTHENTICATED).map_err(stranger)?;
    if challenge.fsdyno != PROTOCOL {
        let text =
            format!("rank 0 speaks version {} of the protocol, not {PROTOCOL}", challenge.fsdyno);
        return Err(Rejection::Refused(format!("{text}; use one fsdyno on all hosts")));
    }
    let mut hello = hello.clone();
    hello.nonce = draw_nonce().map_err(stranger)?;
    hello.proof = secret.proof(&[&proof_text(&hello, &challenge.nonce)]);
    write_frame(&mut stream, &hello).map_err(stranger)?;
    let welcome: Welcome = read_frame(&mut stream, MAX_UNAUTHENTICATED).map_err(stranger)?;
    if !secret.is_proof(&["group", &hello.nonce, &challenge.nonce], &welcome.proof) {
        return Err(Rejection::Stranger(
            "the process that listens there does not know the secret".into(),
        ));
    }
    match welcome.refused {
        Some(why) => Err(Rejection::Refused(why)),
        None => split(stream).map_err(stranger),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use fsdyno_record::Nanos;

    use super::*;
    use crate::messages::{FromRank, ToRank};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, caller)
    }

    #[test]
    fn both_ends_prove_themselves_and_then_exchange_messages() {
        let secret = Secret::draw().unwrap();
        let (ours, theirs) = pair();
        let worker_secret = secret.clone();
        let worker = std::thread::spawn(move || {
            let hello = Hello { rank: 3, ..Hello::default() };
            let (wire, mut reader) = call(theirs, &worker_secret, &hello).unwrap();
            let received: ToRank = reader.receive().unwrap();
            assert!(matches!(received, ToRank::Go { at: Nanos(7) }));
            let received: ToRank = reader.receive().unwrap();
            let ToRank::Chunk { length, .. } = received else { panic!("{received:?}") };
            assert_eq!(reader.receive_bytes(length).unwrap(), b"some bytes");
            assert!(reader.receive_bytes(MAX_BYTES + 1).is_err());
            wire.send(&FromRank::Armed).unwrap();
        });
        let (hello, wire, mut reader) = greet(ours, &secret, &|_| None).unwrap();
        assert_eq!(hello.rank, 3);
        wire.send(&ToRank::Go { at: Nanos(7) }).unwrap();
        wire.send_with_bytes(&ToRank::Chunk { from: 0, length: 10 }, b"some bytes").unwrap();
        assert!(matches!(reader.receive().unwrap(), FromRank::Armed));
        worker.join().unwrap();
        assert!(reader.receive::<FromRank>().is_err(), "the end of the connection");
    }

    #[test]
    fn a_stranger_and_an_impostor_are_refused() {
        let (ours, theirs) = pair();
        let other_secret = Secret::draw().unwrap();
        let caller = std::thread::spawn(move || call(theirs, &other_secret, &Hello::default()));
        let error = greet(ours, &Secret::draw().unwrap(), &|_| None).unwrap_err();
        assert!(error.contains("does not know the secret"), "{error}");
        assert!(matches!(caller.join().unwrap(), Err(Rejection::Stranger(_))));
        // A caller that is not fsdyno.
        let (ours, mut theirs) = pair();
        theirs.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(greet(ours, &Secret::draw().unwrap(), &|_| None).is_err());
    }

    #[test]
    fn a_proof_is_valid_for_its_own_message_only() {
        let (ours, mut theirs) = pair();
        let secret = Secret::draw().unwrap();
        let worker_secret = secret.clone();
        let caller = std::thread::spawn(move || {
            let challenge: Challenge = read_frame(&mut theirs, MAX_UNAUTHENTICATED).unwrap();
            let mut hello = Hello { version: "1".into(), ..Hello::default() };
            hello.proof = worker_secret.proof(&[&proof_text(&hello, &challenge.nonce)]);
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
        let worker_secret = secret.clone();
        let caller = std::thread::spawn(move || call(theirs, &worker_secret, &Hello::default()));
        assert!(greet(ours, &secret, &|_| Some("twice".into())).is_err());
        assert!(matches!(caller.join().unwrap(), Err(Rejection::Refused(why)) if why == "twice"));
    }
}
