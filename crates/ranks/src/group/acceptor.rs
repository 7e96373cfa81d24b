//! The thread that accepts ranks and rejects other callers during the run.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use fsdyno_engine::clock;
use fsdyno_record::units::counted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Event;
use crate::messages::FromRank;
use crate::secret::Secret;
use crate::wire::{self, Role, WireReader};

/// Marks, as a prefix of the reason, the rejection of a process that belongs to this run but does not match it, so that
/// the run cannot begin.
pub(super) const MISFIT: &str = "misfit: ";

/// Maximum number of callers that are being authenticated at the same time.
const MAX_CALLERS: usize = 4096;

/// Handle of the thread, which ends when the handle is shut or dropped.
pub(super) struct Acceptor {
    closed: Arc<AtomicBool>,
}

impl Acceptor {
    /// Starts to accept ranks that know the secret and have the expected version.
    pub(super) fn open(
        listener: TcpListener,
        secret: Secret,
        expected: (u32, String),
        events: Sender<Event>,
    ) -> std::io::Result<Acceptor> {
        listener.set_nonblocking(true)?;
        let closed = Arc::new(AtomicBool::new(false));
        let (is_closed, callers) = (Arc::clone(&closed), Arc::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            while !is_closed.load(Ordering::Relaxed) {
                let wait = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
                // An interrupted wait only ends early.
                let _ = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&wait));
                while let Ok((stream, address)) = listener.accept() {
                    if callers.fetch_add(1, Ordering::Relaxed) >= MAX_CALLERS {
                        callers.fetch_sub(1, Ordering::Relaxed);
                        continue;
                    }
                    let (secret, expected) = (secret.clone(), expected.clone());
                    let (events, callers) = (events.clone(), Arc::clone(&callers));
                    std::thread::spawn(move || {
                        let from = address.to_string();
                        greet(stream, &from, &secret, &expected, &events);
                        callers.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            }
        });
        Ok(Acceptor { closed })
    }

    /// Stops accepting processes.
    pub(super) fn shut(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shut();
    }
}

fn greet(
    stream: TcpStream,
    from: &str,
    secret: &Secret,
    (ranks, version): &(u32, String),
    events: &Sender<Event>,
) {
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let greeted = wire::greet(stream, secret, &|hello| {
        let name = format!("rank {} on {}", hello.rank, hello.host);
        if hello.version != *version {
            return Some(format!(
                "{MISFIT}{name} has fsdyno {} and rank 0 has {version}; use one version on all hosts",
                hello.version
            ));
        }
        (hello.ranks != *ranks || hello.rank >= *ranks).then(|| {
            format!(
                "{MISFIT}{name} was started as one of {}, and rank 0 as one of {ranks}: the launcher started \
                 separate runs",
                counted(hello.ranks as usize, "rank")
            )
        })
    });
    // When the run is over, nothing receives the event.
    let _ = match greeted {
        Ok((hello, wire, reader)) if hello.role == Role::Worker => {
            let rank = hello.rank;
            let arrived = events.send(Event::Arrived(Box::new((hello, wire))));
            arrived.map(|()| listen(rank, reader, events))
        }
        // A parent that only checks whether rank 0 still runs.
        Ok((hello, ..)) if hello.role == Role::Asking => Ok(()),
        Ok((hello, ..)) => events.send(Event::WorkerEnded(hello)),
        Err(why) if why.starts_with(MISFIT) => events.send(Event::Rejected(why)),
        Err(why) => {
            events.send(Event::Rejected(format!("a connection from {from} was refused: {why}")))
        }
    };
}

/// Forwards a worker's messages, with the time at which they were read.
fn listen(rank: u32, mut reader: WireReader, events: &Sender<Event>) {
    while let Ok(message) = reader.receive::<FromRank>() {
        if events.send(Event::Received(rank, message, clock::now())).is_err() {
            return;
        }
    }
    // Ignored for the same reason as above.
    let _ = events.send(Event::Gone(rank));
}
