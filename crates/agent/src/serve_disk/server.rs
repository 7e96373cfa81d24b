//! The server's loop: takes requests, queries the model for their completion times, and replies at those times.

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

/// Maximum number of requests in flight: more than the driver can have (linux/drivers/block/nbd.c: 128 tags).
const MAX_IN_FLIGHT: usize = 256;

/// Instructions that the driver needs to send 1 KiB of payload, including context switches: the server waits as
/// long as the guest's processor takes for them. Determined by experiment at one instruction per nanosecond with a
/// streaming write (200 files of 1 MiB, ext4, hdd-7200): with 800, 1,200, 1,700, 2,500 the server took 0.79, 0.61,
/// 0.62, 0.64 ns per byte, and answers were 0.09, 0.10, 0.47, 1.11 ms later than due. In the model, a request has
/// arrived before its payload.
const DRIVER_INSTRUCTIONS_PER_KIB: u64 = 1200;

/// The polling interval of an idle disk that has bytes in its cache: it destages them while idle, so that they
/// become persisted although no request arrives.
const IDLE_POLL: Nanos = Nanos(1_000_000_000);

/// Maximum number of parts of one write that can reach the medium, according to the model, before all of its bytes have
/// arrived.
const MAX_EARLY: usize = 64;

/// The server's state. Nothing in it grows after [`Server::new`].
pub struct Server {
    socket: UnixStream,
    disk: Box<dyn Disk>,
    store: Store<Windows>,
    log: Writer<Windows>,
    /// The log of the written bytes, if they are logged.
    data: Option<data::Writer<Windows>>,
    shared: Shared,
    mailbox: Mailbox<'static>,
    /// The part of the disk that is served.
    partition: Partition,
    /// The guest's processor, whose speed determines how long a payload takes to arrive.
    cpu: CpuPlan,
    in_flight: Vec<InFlight>,
    /// The range of sectors (first, and one past the last) whose bytes are still arriving from the driver.
    arriving: Option<(u64, u64)>,
    /// The ranges of those sectors (first, count) that the model has already persisted.
    early: Vec<(u64, u64)>,
    /// The time by which the server is woken before an answer is due; see [`measure_wake_time`].
    lead: Nanos,
    /// The stored bytes of this disk that are already included in the mailbox's sum over all disks.
    reported: u64,
    /// The bytes written to this disk that are already included in the mailbox's sum, likewise.
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
    /// True once the whole request has arrived; a write's payload follows its header.
    is_complete: bool,
    /// The time at which the model completed it, if that was before the whole request had arrived.
    due: Option<Nanos>,
    /// Its event in the log of bytes, starting at 1; 0 if there is none.
    event: u32,
}

/// Measures the minimum time that waking from a sleep takes on this CPU: timer, scheduler, return from the kernel. If a
/// sleep is shortened by this, the server is awake when an answer is due; if it wakes too early, it sleeps again, so
/// nothing is answered too early.
fn measure_wake_time() -> Nanos {
    let late = (0..WAKE_SAMPLES).map(|_| {
        let until = clock::now() + WAKE_SAMPLE_SLEEP;
        clock::sleep_until(until);
        clock::now().since(until)
    });
    late.min().unwrap_or_default()
}

/// Number of sleeps that measure waking: 3 ms of the guest's boot in total.
const WAKE_SAMPLES: usize = 32;
const WAKE_SAMPLE_SLEEP: Nanos = Nanos(100_000);

impl Server {
    /// Creates a server that is ready to run, in a guest with one instruction per nanosecond.
    pub fn new(
        socket: UnixStream,
        disk: Box<dyn Disk>,
        store: Store<Windows>,
        log: Writer<Windows>,
        shared: Shared,
        mailbox: Mailbox<'static>,
        partition: Partition,
    ) -> Server {
        let in_flight = Vec::with_capacity(MAX_IN_FLIGHT);
        let (early, arriving) = (Vec::with_capacity(MAX_EARLY), None);
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
            arriving,
            early,
            lead,
            reported,
            reported_written,
        }
    }

    /// Returns the same server, which also logs the bytes of all writes and when they reach the medium.
    pub fn with_data(self, data: Option<data::Writer<Windows>>) -> Server {
        Server { data, ..self }
    }

    /// Returns the same server, in a guest with this processor.
    pub fn with_cpu(self, cpu: CpuPlan) -> Server {
        Server { cpu, ..self }
    }

    /// Serves until the driver disconnects.
    ///
    /// # Errors
    /// A broken socket, or a stream out of sync.
    pub fn run(&mut self) -> io::Result<()> {
        self.lead = measure_wake_time();
        loop {
            self.answer_due()?;
            if !self.wait()? {
                self.advance_disk()?;
            } else if !self.take_request()? {
                return Ok(());
            }
        }
    }

    /// Yields the CPU to the driver until it has sent a write's payload to the socket, and meanwhile answers due
    /// requests. Reading immediately would switch between driver and server at every page, which took three times the
    /// instructions. A driver that needs longer than expected, for example because of a processor profile, is given the
    /// remaining time at its observed rate, until it makes no more progress.
    fn wait_for_payload(&mut self, arrived: Nanos, length: u32) -> io::Result<()> {
        let instructions = u64::from(length) * DRIVER_INSTRUCTIONS_PER_KIB / 1024;
        let mut ready = arrived + self.cpu.time_of(instructions);
        let mut received = 0;
        loop {
            self.answer_due()?;
            let wake_time = |due: Nanos| (due - self.lead).min(ready);
            let until = self.disk.next_due().map_or(ready, wake_time);
            clock::sleep_until(until);
            if until < ready {
                continue;
            }
            let previous = received;
            received = ioctl_fionread(&self.socket)?;
            let remaining = u64::from(length).saturating_sub(received);
            if remaining == 0 || received == previous {
                return Ok(());
            }
            let now = clock::now();
            ready = now + Nanos(remaining * now.since(arrived).0 / received);
        }
    }

    /// Waits for a request, for the next completion, or until the idle disk is due for polling; returns true if there
    /// is a request.
    fn wait(&self) -> io::Result<bool> {
        let due = self.disk.next_due().map(|due| (due - self.lead).since(clock::now()));
        let timeout =
            due.or((!self.store.is_persisted()).then_some(IDLE_POLL)).map(|wait| Timespec {
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

    /// Advances the disk to the current time and records what has reached the medium by then.
    fn advance_disk(&mut self) -> io::Result<()> {
        self.disk.advance_to(clock::now());
        self.record_persisted()
    }

    /// Records what has reached the medium. For a write whose bytes are still arriving, the bytes that these overwrite
    /// are recorded as persisted, since they may have been acknowledged; the new bytes follow once they have arrived.
    fn record_persisted(&mut self) -> io::Result<()> {
        while let Some((first, count)) = self.disk.pop_persisted() {
            self.log_persisted(first, count);
            let Some(arriving) = self.arriving else { continue };
            let (from, to) = (arriving.0.max(first), arriving.1.min(first + count));
            if from < to {
                if self.early.len() == MAX_EARLY {
                    return Err(io::Error::other("a write reached the medium in too many parts"));
                }
                self.early.push((from, to - from));
            }
        }
        Ok(())
    }

    /// Records that sectors have reached the medium.
    fn log_persisted(&mut self, first: u64, count: u64) {
        self.store.persist(first, count);
        if let Some(data) = &mut self.data {
            data.add_persisted(clock::now(), first, count);
        }
    }

    /// Logs a request that has fully arrived; returns its event.
    fn log_received(&mut self, request: &Request, errno: u32, untimed: bool) -> u32 {
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

    /// Takes one request; returns false when the driver disconnects.
    fn take_request(&mut self) -> io::Result<bool> {
        let mut header = [0; REQUEST_LENGTH];
        self.socket.read_exact(&mut header)?;
        let arrived = clock::now();
        let sectors = self.partition.size.0 / 512;
        match protocol::parse(&header, sectors) {
            Ok(Command::Disconnect) => return Ok(false),
            Ok(Command::Disk { request, length }) => {
                let is_complete = request.action != Action::Write;
                if self.shared.is_timed() {
                    self.submit(arrived, request, is_complete)?;
                    if !is_complete {
                        self.wait_for_payload(arrived, length)?;
                    }
                    let errno = self.transfer_in(Destination::Cache, &request, length)?;
                    let event = self.log_received(&request, errno, false);
                    self.complete_transfer(request.id, errno, event)?;
                } else {
                    let errno = self.transfer_in(Destination::Medium, &request, length)?;
                    let event = self.log_received(&request, errno, true);
                    let untimed = InFlight { errno, event, ..self.new_in_flight(arrived, request) };
                    self.disk.note_untimed(self.on_disk(request));
                    self.answer(&untimed, None)?;
                }
            }
            Err(Malformed::Magic) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not an NBD request"));
            }
            Err(Malformed::Invalid { id, payload }) => {
                self.discard_payload(payload)?;
                self.socket.write_all(&protocol::reply(id, protocol::EINVAL))?;
            }
        }
        Ok(true)
    }

    /// Moves a write's payload from the socket directly into the store.
    fn transfer_in(&mut self, to: Destination, request: &Request, length: u32) -> io::Result<u32> {
        let offset = self.partition.start.0 + request.sector * 512;
        match request.action {
            Action::Write => {
                let (socket, data) = (&mut self.socket, &mut self.data);
                if let Some(data) = data {
                    data.begin_write(offset, length.into());
                }
                let mut remaining = length;
                let written = self.store.write_with(to, offset, u64::from(length), &mut |bytes| {
                    socket.read_exact(bytes)?;
                    if let Some(data) = data {
                        data.add_bytes(bytes);
                    }
                    remaining -= bytes.len() as u32;
                    io::Result::Ok(())
                });
                match written {
                    Ok(()) => Ok(0),
                    Err(StoreError::Source(error)) => Err(error),
                    Err(_) => {
                        self.discard_payload(remaining)?;
                        self.shared.fail(protocol::ENOSPC);
                        Ok(protocol::ENOSPC)
                    }
                }
            }
            Action::Trim => {
                self.store.trim(offset, u64::from(length));
                Ok(0)
            }
            // For untimed requests, the model has no completion time to wait for.
            Action::Flush if to == Destination::Medium => {
                self.store.persist_all();
                Ok(0)
            }
            Action::Read | Action::Flush => Ok(0),
        }
    }

    fn discard_payload(&mut self, mut remaining: u32) -> io::Result<()> {
        let mut sink = [0; 4096];
        while remaining > 0 {
            let length = remaining.min(sink.len() as u32);
            self.socket.read_exact(&mut sink[..length as usize])?;
            remaining -= length;
        }
        Ok(())
    }

    /// Returns the record of a request that has just arrived.
    fn new_in_flight(&self, arrived: Nanos, request: Request) -> InFlight {
        let stage = Stage::from_word(self.mailbox.get(Word::Stage));
        let phase = self.mailbox.get(Word::Phase) as u16;
        InFlight {
            request,
            arrived,
            stage,
            phase,
            errno: 0,
            is_complete: true,
            due: None,
            event: 0,
        }
    }

    /// Hands a request to the model on its arrival; `is_complete` is false if its payload has not arrived yet.
    fn submit(&mut self, arrived: Nanos, request: Request, is_complete: bool) -> io::Result<()> {
        if self.in_flight.len() == MAX_IN_FLIGHT {
            return Err(io::Error::other("more requests in flight than the driver has tags"));
        }
        // Bytes that an idle disk has destaged since the last call are persisted before the new bytes arrive.
        self.disk.advance_to(arrived);
        self.record_persisted()?;
        self.in_flight.push(InFlight { is_complete, ..self.new_in_flight(arrived, request) });
        self.shared.note_in_flight(self.in_flight.len());
        let request = self.on_disk(request);
        if !is_complete {
            self.arriving = Some((request.sector, request.sector + u64::from(request.sectors)));
        }
        self.disk.submit(arrived, request);
        Ok(())
    }

    /// Translates a request for the partition into one for the whole disk.
    fn on_disk(&self, request: Request) -> Request {
        Request { sector: request.sector + self.partition.start.0 / 512, ..request }
    }

    /// Records that the payload is in the store, and answers the request if the model has already completed it.
    fn complete_transfer(&mut self, id: u64, errno: u32, event: u32) -> io::Result<()> {
        self.arriving = None;
        while let Some((first, count)) = self.early.pop() {
            self.log_persisted(first, count);
        }
        let Some(index) = self.in_flight.iter().position(|request| request.request.id == id) else {
            return Err(io::Error::other("a request was answered before it arrived"));
        };
        self.in_flight[index].errno = errno;
        self.in_flight[index].is_complete = true;
        self.in_flight[index].event = event;
        let Some(due) = self.in_flight[index].due else { return Ok(()) };
        let request = self.in_flight.swap_remove(index);
        self.answer(&request, Some(due))
    }

    fn answer_due(&mut self) -> io::Result<()> {
        loop {
            let now = clock::now();
            let Some(due) = self.disk.next_due().filter(|due| *due <= now) else { return Ok(()) };
            let Some(id) = self.disk.pop_completed(now) else { continue };
            self.record_persisted()?;
            let Some(index) = self.in_flight.iter().position(|request| request.request.id == id)
            else {
                return Err(io::Error::other("the model completed a request that was not made"));
            };
            if !self.in_flight[index].is_complete {
                self.in_flight[index].due = Some(due);
                continue;
            }
            let request = self.in_flight.swap_remove(index);
            if request.request.action == Action::Flush {
                self.shared.set_volatile(self.disk.volatile_bytes(now));
            }
            self.answer(&request, Some(due))?;
        }
    }

    /// Answers a request that the model completed at the time `due`, or an untimed one.
    fn answer(&mut self, in_flight: &InFlight, due: Option<Nanos>) -> io::Result<()> {
        let InFlight { request, errno, .. } = in_flight;
        let late = due.map_or(Nanos(0), |due| clock::now().since(due));
        let header = protocol::reply(request.id, *errno);
        if request.action == Action::Read && *errno == 0 {
            let offset = self.partition.start.0 + request.sector * 512;
            let socket = &mut self.socket;
            let mut header = &header[..];
            self.store.read_with(offset, u64::from(request.sectors) * 512, &mut |bytes| {
                write_both(socket, std::mem::take(&mut header), bytes)
            })?;
        } else {
            self.socket.write_all(&header)?;
        }
        self.log.add(&log::Entry {
            arrived: in_flight.arrived,
            response: due.map_or(Nanos(0), |due| due.since(in_flight.arrived)),
            action: request.action,
            sector: request.sector + self.partition.start.0 / 512,
            sectors: request.sectors,
            fua: request.fua,
            untimed: due.is_none(),
            failed: *errno != 0,
            // The log fills in the disk's number.
            disk: 0,
            stage: in_flight.stage,
            phase: in_flight.phase,
        });
        let on_disk = self.on_disk(*request);
        if let Some(data) = &mut self.data {
            data.add_reply(clock::now(), &on_disk, due.is_none(), in_flight.event);
        }
        let counters = self.disk.counters();
        self.shared.publish(&counters, self.store.stored());
        self.shared.count_answer(late);
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

/// Writes two slices in one call, which saves a system call and a wakeup of the driver.
fn write_both(socket: &mut UnixStream, first: &[u8], second: &[u8]) -> io::Result<()> {
    let sent = match socket.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        sent => sent?,
    };
    let first_sent = sent.min(first.len());
    socket.write_all(&first[first_sent..])?;
    socket.write_all(&second[sent - first_sent..])
}

#[cfg(test)]
mod tests;
