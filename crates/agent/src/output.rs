//! Captures the last part of the output of child processes, however long the output is.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::process;

/// Number of bytes of an output that are kept: a mkfs that lists every superblock prints several hundred KiB.
const MAX_KEPT: usize = 1 << 20;

/// Number of bytes that are kept of the output of a long-running process; a report shows a few lines of it.
const MAX_KEPT_LONG_RUNNING: usize = 16 << 10;

/// The last bytes of an output.
#[derive(Debug)]
struct Tail {
    bytes: Vec<u8>,
    limit: usize,
}

impl Tail {
    fn new(limit: usize) -> Tail {
        Tail { bytes: Vec::new(), limit }
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
        // Trims only at twice the limit; trimming at every push would move all the other bytes each time.
        if self.bytes.len() >= 2 * self.limit {
            self.bytes.drain(..self.bytes.len() - self.limit);
        }
    }

    fn text(&self) -> String {
        let from = self.bytes.len().saturating_sub(self.limit);
        String::from_utf8_lossy(&self.bytes[from..]).into_owned()
    }
}

/// Reads both outputs of a child until no process has them open any more, and returns the last MiB of each.
///
/// # Errors
/// Errors from the kernel.
pub fn read_both(child: &mut Child) -> io::Result<(String, String)> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut streams =
        [out.map(OwnedFd::from), err.map(OwnedFd::from)].map(|stream| stream.map(File::from));
    let mut tails = [Tail::new(MAX_KEPT), Tail::new(MAX_KEPT)];
    let mut buffer = [0; 8 << 10];
    while streams.iter().any(Option::is_some) {
        let mut ready = wait_for(streams.iter().flatten().map(File::as_fd))?.into_iter();
        for (stream, tail) in streams.iter_mut().zip(&mut tails) {
            let Some(file) = stream.as_mut().filter(|_| ready.next() == Some(true)) else {
                continue;
            };
            match file.read(&mut buffer) {
                Ok(0) => *stream = None,
                Ok(count) => tail.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    let [out, err] = tails.map(|tail| tail.text());
    Ok((out, err))
}

/// Waits until at least one of these can be read or has been closed; returns, for each, whether it is ready.
fn wait_for<'a>(polled: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        polled.map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN)).collect();
    loop {
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(polled.iter().map(|stream| !stream.revents().is_empty()).collect()),
        }
    }
}

/// The end of the output of a long-running process: read for as long as any process may write to it, so that a writer
/// never waits, and a long output takes no more memory than a short one.
///
/// The reader is a process that shares our memory ([`process::spawn_vm_child`]): a thread would share our descriptors,
/// so that the kernel would count references in each call on a descriptor; and after a fork, each page that we write to
/// would be copied once more, within the measured time.
#[derive(Clone, Debug)]
pub struct OutputTail(Arc<Capture>);

#[derive(Debug)]
struct Capture {
    end: OwnedFd,
    ring: &'static Ring,
    // Dropping it ends the reader.
    _reader: process::VmChild,
}

/// The last bytes, shared by both sides. Each ring (one per long-running process) takes a few pages, which are never
/// freed.
#[derive(Debug)]
struct Ring {
    /// The number of bytes of the whole output; the last ones are in `last_bytes`, each at its index modulo the buffer
    /// size.
    total: AtomicUsize,
    /// True while the reader holds no bytes that are not yet in `last_bytes`.
    idle: AtomicBool,
    last_bytes: Vec<AtomicU8>,
}

impl Ring {
    fn new_leaked() -> &'static Ring {
        let last_bytes = (0..MAX_KEPT_LONG_RUNNING).map(|_| AtomicU8::new(0)).collect();
        Box::leak(Box::new(Ring {
            total: AtomicUsize::new(0),
            idle: AtomicBool::new(false),
            last_bytes,
        }))
    }

    fn push(&self, part: &[u8]) {
        let total = self.total.load(Ordering::Relaxed);
        for (index, byte) in part.iter().enumerate() {
            if let Some(slot) = self.last_bytes.get((total + index) % MAX_KEPT_LONG_RUNNING) {
                slot.store(*byte, Ordering::Relaxed);
            }
        }
        self.total.store(total + part.len(), Ordering::Release);
    }

    fn text(&self) -> String {
        let total = self.total.load(Ordering::Acquire);
        let indices = total.saturating_sub(MAX_KEPT_LONG_RUNNING)..total;
        let slots = indices.filter_map(|index| self.last_bytes.get(index % MAX_KEPT_LONG_RUNNING));
        let bytes: Vec<u8> = slots.map(|slot| slot.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads until no process can write any more. Neither allocates nor touches thread-local storage, as
    /// [`process::spawn_vm_child`] requires.
    fn fill(&self, end: BorrowedFd<'_>) {
        let mut buffer = [0; 4 << 10];
        loop {
            self.idle.store(true, Ordering::SeqCst);
            let ready = poll(&mut [PollFd::from_borrowed_fd(end, PollFlags::IN)], None);
            self.idle.store(false, Ordering::SeqCst);
            match ready.and_then(|_| rustix::io::read(end, &mut buffer)) {
                Ok(0) => break,
                Ok(count) => self.push(buffer.get(..count).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.idle.store(true, Ordering::SeqCst);
    }
}

/// The maximum wait for output that has not been read yet.
const MAX_WAIT: Duration = Duration::from_millis(500);

impl OutputTail {
    /// Starts a reader; returns the file to write to.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn start() -> io::Result<(OwnedFd, OutputTail)> {
        let (end, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let ring = Ring::new_leaked();
        let reader = process::spawn_vm_child(end.as_fd(), move |end| ring.fill(end))?;
        Ok((writer, OutputTail(Arc::new(Capture { end, ring, _reader: reader }))))
    }

    /// Returns the end of the output, including what has been written but not yet read.
    pub fn text(&self) -> String {
        let Capture { end, ring, .. } = &*self.0;
        let started = Instant::now();
        // The order matters: once the pipe is empty, a reader that is waiting has stored everything it read.
        let is_complete = || {
            ioctl_fionread(end).is_ok_and(|pending| pending == 0)
                && ring.idle.load(Ordering::SeqCst)
        };
        while !is_complete() && started.elapsed() < MAX_WAIT {
            thread::sleep(Duration::from_millis(1));
        }
        ring.text()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let mut tail = Tail::new(10);
        (0..1000).for_each(|number| tail.push(format!("{number} ").as_bytes()));
        assert_eq!(tail.text(), "7 998 999 ");
        assert!(tail.bytes.capacity() < 100);
        let script = "i=0; while [ $i -lt 60000 ]; do echo 'forty bytes and one more are shown in all';\
                      i=$((i+1)); done; echo end; echo bad >&2";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) = read_both(&mut child).unwrap();
        child.wait().unwrap();
        assert_eq!((out.len(), err.as_str()), (MAX_KEPT, "bad\n"));
        assert!(out.ends_with("in all\nend\n"));
    }

    #[test]
    fn a_writer_never_waits_and_its_last_bytes_are_available_immediately() {
        let (writer, tail) = OutputTail::start().unwrap();
        let mut writer = File::from(writer);
        // Far more than a pipe holds.
        for _ in 0..1000 {
            writer.write_all(&[b'x'; 1024]).unwrap();
        }
        writer.write_all(b"last words").unwrap();
        let text = tail.text();
        assert!(
            text.len() == MAX_KEPT_LONG_RUNNING && text.ends_with("xlast words"),
            "{}",
            text.len()
        );
        drop(writer);
        assert_eq!(tail.text(), text);
    }

    #[test]
    fn the_reader_is_not_one_of_our_threads_and_ends_with_the_last_writer() {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        // Other tests start and end threads: in at least one attempt, the number of threads must not have grown.
        let no_new_thread = (0..100).any(|_| {
            let before = threads();
            let tail = OutputTail::start().unwrap();
            let after = threads();
            drop(tail);
            after <= before
        });
        assert!(no_new_thread);
        let (writer, tail) = OutputTail::start().unwrap();
        let pid = tail.0._reader.pid;
        drop(writer);
        let started = Instant::now();
        while process::try_wait(pid).unwrap().is_none() {
            assert!(started.elapsed().as_secs() < 60);
            thread::sleep(Duration::from_millis(1));
        }
    }
}
