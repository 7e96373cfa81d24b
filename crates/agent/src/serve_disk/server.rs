//! The server's loop: take requests, ask the model when they are done, answer then.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use fsdyno_disk::log::{self, data, data::EventKind, region::Writer};
use fsdyno_disk::store::{Destination, Store, StoreError};
use fsdyno_disk::{Action, Disk, Partition, Request};
use fsdyno_engine::clock;
use fsdyno_record::Nanos;
use fsdyno_record::mailbox::{Mailbox, Stage, Word};
use fsdyno_record::plan::CpuPlan;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;

use super::protocol::{self, Command, Malformed, REQUEST_LENGTH};
use super::shared::Shared;
use crate::memory::Windows;

/// More than the driver can have in flight (linux/drivers/block/nbd.c: 128 tags).
const MOST_IN_FLIGHT: usize = 256;

/// Instructions that the driver needs to put a KiB of payload into the socket, switches included: the server waits as long
/// as the guest's processor takes for them. Found by trial at an instruction per nanosecond with a streaming write
/// (200 files of 1 MiB, ext4, hdd-7200): with 800, 1,200, 1,700, 2,500 the server took 0.79, 0.61,
/// 0.62, 0.64 ns a byte, and answers were 0.09, 0.10, 0.47, 1.11 ms later than due. For the model a
/// request has arrived before.
const DRIVER_INSTRUCTIONS_PER_KIB: u64 = 1200;

/// Period of looks at an idle disk that has bytes in its cache: it destages them when it is idle,
/// and they are persisted from then on although no request arrives.
const IDLE_LOOK: Nanos = Nanos(1_000_000_000);

/// Parts of one write that can reach the medium, by the model, before all of its bytes are here.
const MOST_EARLY: usize = 64;

/// Everything the server owns. Nothing in it grows after [`Server::new`].
pub struct Server {
    socket: UnixStream,
    disk: Box<dyn Disk>,
    store: Store<Windows>,
    log: Writer<Windows>,
    /// The log of the bytes too, if they are logged.
    data: Option<data::Writer<Windows>>,
    shared: Shared,
    mailbox: Mailbox<'static>,
    /// The part of the disk that is served.
    partition: Partition,
    /// The guest's processor, whose speed decides how long a payload takes.
    cpu: CpuPlan,
    in_flight: Vec<InFlight>,
    /// The sectors of the disk, first and end, whose bytes are on their way from the driver.
    coming: Option<(u64, u64)>,
    /// The ranges of them that the model has persisted already, first and count.
    early: Vec<(u64, u64)>,
    /// Time before an answer is due at which the server is woken; see [`waking`].
    lead: Nanos,
    /// Bytes that the mailbox knows to be stored on this disk; it holds the sum over all disks.
    reported: u64,
    /// Bytes that it knows to be written to this disk, likewise.
    reported_written: u64,
}

#[derive(Clone, Copy)]
struct InFlight {
    request: Request,
    arrived: Nanos,
    /// The stage of the trial at that time.
    stage: Stage,
    phase: u16,
    errno: u32,
    /// True once all of it is here; a write's payload follows its header.
    whole: bool,
    /// The time at which the model completed it, if that was before all of it was here.
    due: Option<Nanos>,
    /// Its event in the log of bytes, from 1; 0 for none.
    event: u32,
}

/// Measures the least time that waking from a sleep takes on this CPU: timer, scheduler, return from the
/// kernel. With a sleep shorter by this the server is awake when an answer is due; if it wakes too early
/// it sleeps again, so nothing is answered too early.
fn waking() -> Nanos {
    let late = (0..WAKINGS).map(|_| {
        let until = clock::now() + WAKING_SLEEP;
        clock::sleep_until(until);
        clock::now().since(until)
    });
    late.min().unwrap_or_default()
}

/// Number of sleeps that measure waking: 3 ms of the guest's boot in all.
const WAKINGS: usize = 32;
const WAKING_SLEEP: Nanos = Nanos(100_000);

impl Server {
    /// A server that is ready to run, in a guest of an instruction per nanosecond.
    pub fn new(
        socket: UnixStream,
        disk: Box<dyn Disk>,
        store: Store<Windows>,
        log: Writer<Windows>,
        shared: Shared,
        mailbox: Mailbox<'static>,
        partition: Partition,
    ) -> Server {
        let in_flight = Vec::with_capacity(MOST_IN_FLIGHT);
        let (early, coming) = (Vec::with_capacity(MOST_EARLY), None);
        let (lead, reported, reported_written) = (Nanos(0), 0, 0);
        Server {
            socket,
            disk,
            store,
            log,
            data: None,
            shared,
            mailbox,
            partition,
            cpu: CpuPlan::default(),
            in_flight,
            coming,
            early,
            lead,
            reported,
            reported_written,
        }
    }

    /// The same, logging the bytes of all writes, and when they reached the medium.
    pub fn with_data(self, data: Option<data::Writer<Windows>>) -> Server {
        Server { data, ..self }
    }

    /// The same, in a guest with this processor.
    pub fn on(self, cpu: CpuPlan) -> Server {
        Server { cpu, ..self }
    }

    /// Serves until the driver disconnects.
    ///
    /// # Errors
    /// A broken socket or a stream out of step.
    pub fn run(&mut self) -> io::Result<()> {
        self.lead = waking();
        loop {
            self.answer_what_is_due()?;
            if !self.wait()? {
                self.look()?;
            } else if !self.take()? {
                return Ok(());
            }
        }
    }

    /// Leaves the CPU to the driver until it has put a write's payload into the socket, answering
    /// meanwhile what falls due. Reading at once would switch between driver and server at every
    /// page, which took three times the instructions. A driver that needs longer than expected, as by a
    /// processor profile, gets the rest of the time at its own rate until it makes no more progress.
    fn let_payload_come(&mut self, arrived: Nanos, length: u32) -> io::Result<()> {
        let instructions = u64::from(length) * DRIVER_INSTRUCTIONS_PER_KIB / 1024;
        let mut ready = arrived + self.cpu.time_of(instructions);
        let mut here = 0;
        loop {
            self.answer_what_is_due()?;
            let wake = |due: Nanos| (due - self.lead).min(ready);
            let until = self.disk.next_due().map_or(ready, wake);
            clock::sleep_until(until);
            if until < ready {
                continue;
            }
            let before = here;
            here = ioctl_fionread(&self.socket)?;
            let left = u64::from(length).saturating_sub(here);
            if left == 0 || here == before {
                return Ok(());
            }
            let now = clock::now();
            ready = now + Nanos(left * now.since(arrived).0 / here);
        }
    }

    /// Waits for a request, for the next completion, or until the idle disk is to be looked at;
    /// whether a request is there.
    fn wait(&self) -> io::Result<bool> {
        let due = self.disk.next_due().map(|due| (due - self.lead).since(clock::now()));
        let timeout =
            due.or((!self.store.is_persisted()).then_some(IDLE_LOOK)).map(|wait| Timespec {
                tv_sec: (wait.0 / 1_000_000_000) as i64,
                tv_nsec: (wait.0 % 1_000_000_000) as i64,
            });
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the disk the time, and takes up what has reached the medium by then.
    fn look(&mut self) -> io::Result<()> {
        self.disk.advance_to(clock::now());
        self.land()
    }

    /// Takes up what has reached the medium. Of a write whose bytes are still on their way it is what
    /// they overwrite, which may have been acknowledged; they themselves follow as they arrive.
    fn land(&mut self) -> io::Result<()> {
        while let Some((first, count)) = self.disk.persisted() {
            self.persisted(first, count);
            let Some(coming) = self.coming else { continue };
            let (from, to) = (coming.0.max(first), coming.1.min(first + count));
            if from < to {
                if self.early.len() == MOST_EARLY {
                    return Err(io::Error::other("a write reached the medium in too many parts"));
                }
                self.early.push((from, to - from));
            }
        }
        Ok(())
    }

    /// Sectors have reached the medium.
    fn persisted(&mut self, first: u64, count: u64) {
        self.store.persist(first, count);
        if let Some(data) = &mut self.data {
            data.add_persisted(clock::now(), first, count);
        }
    }

    /// Logs a request that is here as a whole; its event.
    fn received(&mut self, request: &Request, errno: u32, untimed: bool) -> u32 {
        let request = self.on_disk(*request);
        let Some(data) = self.data.as_mut().filter(|_| errno == 0) else { return 0 };
        let now = clock::now();
        match request.action {
            Action::Write => data.end_write(now, &request, untimed),
            Action::Trim => data.add_request(now, EventKind::Trim, &request, untimed),
            Action::Flush => {
                if untimed {
                    data.add_all_persisted(now);
                }
                data.add_request(now, EventKind::Flush, &request, untimed)
            }
            Action::Read => 0,
        }
    }

    /// Takes one request; false when the driver is done.
    fn take(&mut self) -> io::Result<bool> {
        let mut header = [0; REQUEST_LENGTH];
        self.socket.read_exact(&mut header)?;
        let arrived = clock::now();
        let sectors = self.partition.size.0 / 512;
        match protocol::parse(&header, sectors) {
            Ok(Command::Disconnect) => return Ok(false),
            Ok(Command::Disk { request, length }) => {
                let whole = request.action != Action::Write;
                if self.shared.timed() {
                    self.submit(arrived, request, whole)?;
                    if !whole {
                        self.let_payload_come(arrived, length)?;
                    }
                    let errno = self.transfer_in(Destination::Cache, &request, length)?;
                    let event = self.received(&request, errno, false);
                    self.transferred(request.id, errno, event)?;
                } else {
                    let errno = self.transfer_in(Destination::Medium, &request, length)?;
                    let event = self.received(&request, errno, true);
                    let held = InFlight { errno, event, ..self.held(arrived, request) };
                    self.disk.note_untimed(self.on_disk(request));
                    self.answer(&held, None)?;
                }
            }
            Err(Malformed::Magic) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no NBD request"));
            }
            Err(Malformed::Invalid { id, payload }) => {
                self.discard_payload(payload)?;
                self.socket.write_all(&protocol::reply(id, protocol::EINVAL))?;
            }
        }
        Ok(true)
    }

    /// Moves a write's payload from the socket straight into the store.
    fn transfer_in(&mut self, to: Destination, request: &Request, length: u32) -> io::Result<u32> {
        let offset = self.partition.start.0 + request.sector * 512;
        match request.action {
            Action::Write => {
                let (socket, data) = (&mut self.socket, &mut self.data);
                if let Some(data) = data {
                    data.begin_write(offset, length.into());
                }
                let mut left = length;
                let written = self.store.write_with(to, offset, u64::from(length), &mut |bytes| {
                    socket.read_exact(bytes)?;
                    if let Some(data) = data {
                        data.add_bytes(bytes);
                    }
                    left -= bytes.len() as u32;
                    io::Result::Ok(())
                });
                match written {
                    Ok(()) => Ok(0),
                    Err(StoreError::Source(error)) => Err(error),
                    Err(_) => {
                        self.discard_payload(left)?;
                        self.shared.fail(protocol::ENOSPC);
                        Ok(protocol::ENOSPC)
                    }
                }
            }
            Action::Trim => {
                self.store.trim(offset, u64::from(length));
                Ok(0)
            }
            // Without the model's time nothing waits for it either.
            Action::Flush if to == Destination::Medium => {
                self.store.persist_all();
                Ok(0)
            }
            Action::Read | Action::Flush => Ok(0),
        }
    }

    fn discard_payload(&mut self, mut left: u32) -> io::Result<()> {
        let mut sink = [0; 4096];
        while left > 0 {
            let take = left.min(sink.len() as u32);
            self.socket.read_exact(&mut sink[..take as usize])?;
            left -= take;
        }
        Ok(())
    }

    /// A request as it arrived.
    fn held(&self, arrived: Nanos, request: Request) -> InFlight {
        let stage = Stage::from_word(self.mailbox.get(Word::Stage));
        let phase = self.mailbox.get(Word::Phase) as u16;
        InFlight { request, arrived, stage, phase, errno: 0, whole: true, due: None, event: 0 }
    }

    /// Hands a request to the model as it arrived, whether its payload is `whole` yet or not.
    fn submit(&mut self, arrived: Nanos, request: Request, whole: bool) -> io::Result<()> {
        if self.in_flight.len() == MOST_IN_FLIGHT {
            return Err(io::Error::other("more requests in flight than the driver has tags"));
        }
        // Bytes that an idle disk has destaged since the last call are persisted before the new bytes arrive.
        self.disk.advance_to(arrived);
        self.land()?;
        self.in_flight.push(InFlight { whole, ..self.held(arrived, request) });
        self.shared.in_flight(self.in_flight.len());
        let request = self.on_disk(request);
        if !whole {
            self.coming = Some((request.sector, request.sector + u64::from(request.sectors)));
        }
        self.disk.submit(arrived, request);
        Ok(())
    }

    /// A request for the partition as one for the disk that it lies on.
    fn on_disk(&self, request: Request) -> Request {
        Request { sector: request.sector + self.partition.start.0 / 512, ..request }
    }

    /// The payload is in the store; if the model has been done with the request, it is answered.
    fn transferred(&mut self, id: u64, errno: u32, event: u32) -> io::Result<()> {
        self.coming = None;
        while let Some((first, count)) = self.early.pop() {
            self.persisted(first, count);
        }
        let Some(at) = self.in_flight.iter().position(|held| held.request.id == id) else {
            return Err(io::Error::other("a request was answered before it was here"));
        };
        self.in_flight[at].errno = errno;
        self.in_flight[at].whole = true;
        self.in_flight[at].event = event;
        let Some(due) = self.in_flight[at].due else { return Ok(()) };
        let held = self.in_flight.swap_remove(at);
        self.answer(&held, Some(due))
    }

    fn answer_what_is_due(&mut self) -> io::Result<()> {
        loop {
            let now = clock::now();
            let Some(due) = self.disk.next_due().filter(|due| *due <= now) else { return Ok(()) };
            let Some(id) = self.disk.completed(now) else { continue };
            self.land()?;
            let Some(at) = self.in_flight.iter().position(|held| held.request.id == id) else {
                return Err(io::Error::other("the model completed a request that was not made"));
            };
            if !self.in_flight[at].whole {
                self.in_flight[at].due = Some(due);
                continue;
            }
            let held = self.in_flight.swap_remove(at);
            if held.request.action == Action::Flush {
                self.shared.set_volatile(self.disk.volatile_bytes(now));
            }
            self.answer(&held, Some(due))?;
        }
    }

    /// Answers a request that was due at an instant of the model, or untimed.
    fn answer(&mut self, held: &InFlight, due: Option<Nanos>) -> io::Result<()> {
        let InFlight { request, errno, .. } = held;
        let late = due.map_or(Nanos(0), |due| clock::now().since(due));
        let head = protocol::reply(request.id, *errno);
        if request.action == Action::Read && *errno == 0 {
            let offset = self.partition.start.0 + request.sector * 512;
            let socket = &mut self.socket;
            let mut head = &head[..];
            self.store.read_with(offset, u64::from(request.sectors) * 512, &mut |bytes| {
                write_both(socket, std::mem::take(&mut head), bytes)
            })?;
        } else {
            self.socket.write_all(&head)?;
        }
        self.log.add(&log::Entry {
            arrived: held.arrived,
            response: due.map_or(Nanos(0), |due| due.since(held.arrived)),
            action: request.action,
            sector: request.sector + self.partition.start.0 / 512,
            sectors: request.sectors,
            fua: request.fua,
            untimed: due.is_none(),
            failed: *errno != 0,
            // The log knows whose it is.
            disk: 0,
            stage: held.stage,
            phase: held.phase,
        });
        let on_disk = self.on_disk(*request);
        if let Some(data) = &mut self.data {
            data.add_reply(clock::now(), &on_disk, due.is_none(), held.event);
        }
        let counters = self.disk.counters();
        self.shared.publish(&counters, self.store.stored());
        self.shared.answered(late);
        self.mailbox.add(Word::Requests, 1);
        self.mailbox.set(Word::Now, clock::now().0);
        let stored = self.store.stored().0;
        self.mailbox.add(Word::Stored, stored.wrapping_sub(self.reported));
        self.reported = stored;
        let written = counters.bytes_written.0;
        self.mailbox.add(Word::Written, written.wrapping_sub(self.reported_written));
        self.reported_written = written;
        Ok(())
    }
}

/// Writes two slices in one call: one system call and one waking of the driver fewer than two.
fn write_both(socket: &mut UnixStream, first: &[u8], second: &[u8]) -> io::Result<()> {
    let sent = match socket.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        sent => sent?,
    };
    let of_first = sent.min(first.len());
    socket.write_all(&first[of_first..])?;
    socket.write_all(&second[sent - of_first..])
}

#[cfg(test)]
mod tests;
