//! Samples, at the end of each interval of a phase, how many bytes are dirty, under write-back, and written.
//!
//! The sampler is a separate process, so that its CPU time is not part of the trial's. It is not a thread: in a process
//! with two threads, which share a descriptor table, the kernel counts references in each call that takes a descriptor,
//! and the cost of that would be measured. It starts before the trial has files or mounts, holds none, and does nothing
//! between phases. In the lab, only the disks' servers have a higher priority.
//!
//! It reads /proc/vmstat rather than /proc/meminfo: the kernel produces vmstat line by line, and the two lines needed
//! are in its first third.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_engine::{Gauge, clock, device_caches};
use fsdyno_record::Nanos;
use fsdyno_record::mailbox::{Mailbox, Word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};

use crate::{memory, process, processor};

/// Real-time priority of the sampler: lower than that of the disks' servers, which nothing may delay.
const SAMPLER_PRIORITY: i32 = 40;

/// The file with the numbers of dirty pages and of pages under write-back.
const VMSTAT: &str = "/proc/vmstat";

/// Number of bytes read beyond those needed: the numbers grow, but each further line costs time.
const SLACK: usize = 16;

/// Distance from the start of a search to the position at which the two lines were last found.
const SEARCH_MARGIN: usize = 64;

/// The values at the end of an interval: dirty bytes, bytes under write-back, bytes written to the device so far.
pub type SampledValues = [u64; 3];

/// The samples of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The values at the end of each interval.
    pub gauge: Gauge<3>,
    /// Bytes written to the device before the phase.
    pub written_before: u64,
}

/// The trial's handle to the sampler.
pub struct Sampler {
    pid: Pid,
    socket: UnixStream,
    /// The start of the phase, or zero while it is unknown.
    phase_start: &'static AtomicU64,
}

impl Sampler {
    /// Starts the sampler. In a guest, only the disks' servers have a higher priority.
    ///
    /// # Errors
    /// Errors from fork(2), mmap(2) and socketpair(2).
    pub fn start(mailbox: Mailbox<'static>, in_guest: bool) -> io::Result<Sampler> {
        let (socket, sampler_socket) = UnixStream::pair()?;
        let words = memory::shared_with_children(1)?;
        let [phase_start, ..] = words else { return Err(io::Error::other("no memory to share")) };
        let parent = rustix::process::getpid();
        let pid = process::fork(|| {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                return Ok(());
            }
            process::close_all_but(sampler_socket.as_fd())?;
            if in_guest {
                process::set_realtime_priority(SAMPLER_PRIORITY)?;
            }
            processor::free_of_charge(|| serve(&sampler_socket, phase_start, mailbox))
        })?;
        Ok(Sampler { pid, socket, phase_start })
    }

    /// Returns the sampler's pid.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Announces that a phase is about to begin. The bytes written to its device are counted by the disks' servers, and
    /// in these kernel files (in the format of /sys/block/NAME/stat).
    ///
    /// # Errors
    /// A sampler that has ended.
    pub fn ready(&mut self, counters: &[PathBuf]) -> io::Result<()> {
        self.phase_start.store(0, Ordering::Release);
        let names: Vec<String> =
            counters.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        send(&self.socket, names.join("\n").as_bytes())?;
        // By then, the sampler has opened everything that it will read.
        receive(&self.socket).map(drop)
    }

    /// Sets the start of the phase.
    pub fn begin(&self, now: Nanos) {
        self.phase_start.store(now.0, Ordering::Release);
    }

    /// Ends sampling after a phase and returns its samples.
    ///
    /// # Errors
    /// A sampler that has ended.
    pub fn end(&mut self) -> io::Result<Samples> {
        send(&self.socket, b"")?;
        let bytes = receive(&self.socket)?;
        let mut words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok());
        let mut next = || words.next().map(u64::from_le_bytes);
        let (Some(interval), Some(written_before)) = (next(), next()) else {
            return Err(io::Error::other("the sampler returned no samples"));
        };
        let mut samples = Vec::new();
        while let (Some(dirty), Some(writeback), Some(written)) = (next(), next(), next()) {
            samples.push([dirty, writeback, written]);
        }
        Ok(Samples { gauge: Gauge::from_samples(Nanos(interval), samples), written_before })
    }
}

/// Sends a message, preceded by its length.
fn send(mut socket: &UnixStream, message: &[u8]) -> io::Result<()> {
    let mut bytes = (message.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(message);
    socket.write_all(&bytes)
}

fn receive(mut socket: &UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    socket.read_exact(&mut length)?;
    let mut message = vec![0; u64::from_le_bytes(length) as usize];
    socket.read_exact(&mut message)?;
    Ok(message)
}

/// Runs the sampler's side: phase after phase, until the trial's end of the socket is closed.
fn serve(socket: &UnixStream, phase_start: &AtomicU64, mailbox: Mailbox<'_>) -> io::Result<()> {
    loop {
        let names = match receive(socket) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut sources = Sources::open(&names, mailbox)?;
        // This first sample also determines how many bytes must be read.
        let mut gauge = Gauge::default();
        let written_before = sources.now()[2];
        send(socket, b"")?;
        watch(socket, phase_start, &mut gauge, &mut sources)?;
        receive(socket)?;
        let mut words = vec![gauge.interval().0, written_before];
        words.extend(gauge.samples().iter().flatten());
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        send(socket, &bytes)?;
    }
}

/// Takes a sample at the end of each interval until there is a message.
fn watch(
    socket: &UnixStream,
    phase_start: &AtomicU64,
    gauge: &mut Gauge<3>,
    sources: &mut Sources<'_>,
) -> io::Result<()> {
    let ready = clock::now();
    loop {
        // The time of the first op is not known in advance; it is known by the end of an interval.
        let start = Some(phase_start.load(Ordering::Acquire)).filter(|start| *start > 0).map(Nanos);
        let now = clock::now();
        if let Some(start) = start
            && now.since(start) >= gauge.next_sample()
        {
            gauge.add(now.since(start), sources.now());
            continue;
        }
        let until = match start {
            Some(start) => start + gauge.next_sample(),
            None => {
                let intervals = now.since(ready).0 / gauge.interval().0;
                ready + Nanos((intervals + 1) * gauge.interval().0)
            }
        };
        if has_message(socket, until.since(now))? {
            return Ok(());
        }
    }
}

/// Sleeps for up to `wait`; returns true if a message arrives before that.
fn has_message(socket: &UnixStream, wait: Nanos) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: (wait.0 / 1_000_000_000) as i64,
        tv_nsec: (wait.0 % 1_000_000_000) as i64,
    };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The sources that are sampled in one phase.
struct Sources<'a> {
    vmstat: File,
    /// The buffer for the part of [`VMSTAT`] that is read.
    bytes: Vec<u8>,
    /// The offset at which the wanted lines were last found.
    last_position: usize,
    counters: Vec<File>,
    mailbox: Mailbox<'a>,
    page: u64,
}

impl<'a> Sources<'a> {
    fn open(counters: &[u8], mailbox: Mailbox<'a>) -> io::Result<Sources<'a>> {
        let names = String::from_utf8_lossy(counters);
        Ok(Sources {
            vmstat: File::open(VMSTAT)?,
            bytes: vec![0; 512],
            last_position: 0,
            counters: names.lines().map(File::open).collect::<io::Result<_>>()?,
            mailbox,
            page: rustix::param::page_size() as u64,
        })
    }

    /// Reads the current values; the result is zero for those that the kernel does not have.
    fn now(&mut self) -> SampledValues {
        let (dirty, writeback) = self.pages();
        let mut written = self.mailbox.get(Word::Written);
        for counter in &self.counters {
            let mut text = [0; 256];
            let length = counter.read_at(&mut text, 0).unwrap_or(0);
            let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
            written += device_caches::counters(text).map_or(0, |device| device.bytes_written.0);
        }
        [dirty * self.page, writeback * self.page, written]
    }

    /// Returns the numbers of dirty pages and of pages under write-back.
    fn pages(&mut self) -> (u64, u64) {
        loop {
            let length = self.vmstat.read_at(&mut self.bytes, 0).unwrap_or(0);
            let text = self.bytes.get(..length).unwrap_or_default();
            let search_start = self.last_position.saturating_sub(SEARCH_MARGIN);
            if let Some((dirty, writeback, position)) =
                parse_both(text, search_start).or_else(|| parse_both(text, 0))
            {
                self.last_position = position;
                return (dirty, writeback);
            }
            if length < self.bytes.len() {
                return (0, 0);
            }
            self.bytes.resize(length + SLACK, 0);
        }
    }
}

/// Returns the numbers in both lines and the position of the first line, searching from an offset; `None` if either
/// line is missing or truncated.
fn parse_both(text: &[u8], from: usize) -> Option<(u64, u64, usize)> {
    let text = text.get(from..)?;
    let (dirty, end) = number_in_line(text, DIRTY)?;
    let (writeback, length) = number_in_line(&text[end..], WRITEBACK)?;
    (text.get(end + length) == Some(&b'\n')).then_some((dirty, writeback, from + end))
}

const DIRTY: &[u8] = b"\nnr_dirty ";
const WRITEBACK: &[u8] = b"\nnr_writeback ";

/// Returns the number in the line that begins with `name`, and the offset of its end.
fn number_in_line(text: &[u8], name: &[u8]) -> Option<(u64, usize)> {
    let from = text.windows(name.len()).position(|word| word == name)? + name.len();
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit());
    let (number, count) =
        digits.fold((0u64, 0), |(n, count), digit| (n * 10 + u64::from(digit - b'0'), count + 1));
    (count > 0).then_some((number, from + count))
}

/// Returns the current dirty bytes and bytes under write-back; `None` if the kernel does not report them.
pub fn dirty_and_writeback() -> Option<[u64; 2]> {
    let (dirty, writeback, _) = parse_both(&std::fs::read(VMSTAT).ok()?, 0)?;
    let page = rustix::param::page_size() as u64;
    Some([dirty * page, writeback * page])
}

#[cfg(test)]
mod tests {
    use fsdyno_record::series::MIN_SAMPLED_INTERVAL;

    use super::*;

    #[test]
    fn the_two_lines_are_found_by_their_whole_names() {
        let text = b"nr_free_pages 5\nnr_dirty 12\nnr_writeback 3\nnr_writeback_temp 9\n\
                     nr_dirty_threshold 77\n";
        assert_eq!(number_in_line(text, DIRTY), Some((12, 27)));
        assert_eq!(number_in_line(text, WRITEBACK).map(|line| line.0), Some(3));
        assert_eq!(parse_both(text, 0), Some((12, 3, 27)));
        assert_eq!(parse_both(text, 9), Some((12, 3, 27)));
        // A truncated number is ignored.
        assert_eq!((parse_both(&text[..42], 0), parse_both(text, 20)), (None, None));
        assert!(dirty_and_writeback().is_some());
    }

    #[test]
    fn the_sampler_samples_at_the_end_of_each_interval_and_only_while_a_phase_runs() {
        static WORDS: [AtomicU64; fsdyno_record::mailbox::SIZE / 8] =
            [const { AtomicU64::new(0) }; fsdyno_record::mailbox::SIZE / 8];
        let mailbox = Mailbox::new(&WORDS).unwrap();
        let mut sampler = Sampler::start(mailbox, false).unwrap();
        for intervals in [100, 0] {
            sampler.ready(&[]).unwrap();
            let start = clock::now();
            sampler.begin(start);
            clock::sleep_until(start + Nanos(10_000_000 * intervals));
            let samples = sampler.end().unwrap();
            let (sample_count, elapsed) =
                (samples.gauge.samples().len(), clock::now().since(start).0);
            assert!(
                sample_count as u64 <= elapsed / MIN_SAMPLED_INTERVAL.0,
                "{sample_count} in {elapsed} ns"
            );
            // It ran at least once in a second, however busy the machine is.
            assert!(sample_count > 0 || intervals < 100);
            assert_eq!(samples.written_before, 0);
        }
        let pid = sampler.pid();
        drop(sampler);
        while process::try_wait(pid).unwrap().is_none() {}
    }

    #[test]
    fn kernel_counters_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let stat = folder.path().join("stat");
        // 16 sectors written.
        std::fs::write(&stat, "1 0 8 0 2 0 16 0 0 0 0\n").unwrap();
        static WORDS: [AtomicU64; fsdyno_record::mailbox::SIZE / 8] =
            [const { AtomicU64::new(0) }; fsdyno_record::mailbox::SIZE / 8];
        let mailbox = Mailbox::new(&WORDS).unwrap();
        mailbox.add(Word::Written, 4096);
        let names = stat.to_string_lossy().into_owned();
        assert_eq!(Sources::open(names.as_bytes(), mailbox).unwrap().now()[2], 4096 + 16 * 512);
    }
}
