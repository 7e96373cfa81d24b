//! What a child says: as much of it is kept as a reader can use, whatever it goes on to say.

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

/// How much of an output is kept: a mkfs that prints every superblock says some hundred KiB.
const KEPT: usize = 1 << 20;

/// How much of the output of a process that stays is kept, of which a few lines are told.
const KEPT_OF_STAYING: usize = 16 << 10;

/// The last bytes of an output.
#[derive(Debug)]
struct Tail {
    bytes: Vec<u8>,
    most: usize,
}

impl Tail {
    fn new(most: usize) -> Tail {
        Tail { bytes: Vec::new(), most }
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
        // Not at each byte too many, or each would move all others.
        if self.bytes.len() >= 2 * self.most {
            self.bytes.drain(..self.bytes.len() - self.most);
        }
    }

    fn text(&self) -> String {
        let from = self.bytes.len().saturating_sub(self.most);
        String::from_utf8_lossy(&self.bytes[from..]).into_owned()
    }
}

/// Reads both outputs of a child until nobody has them open any more: the last MiB of each.
///
/// # Errors
/// What the kernel reports.
pub fn both(child: &mut Child) -> io::Result<(String, String)> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut ends = [out.map(OwnedFd::from), err.map(OwnedFd::from)].map(|end| end.map(File::from));
    let mut said = [Tail::new(KEPT), Tail::new(KEPT)];
    let mut part = [0; 8 << 10];
    while ends.iter().any(Option::is_some) {
        let mut ready = wait_for(ends.iter().flatten().map(File::as_fd))?.into_iter();
        for (end, tail) in ends.iter_mut().zip(&mut said) {
            let Some(file) = end.as_mut().filter(|_| ready.next() == Some(true)) else { continue };
            match file.read(&mut part) {
                Ok(0) => *end = None,
                Ok(read) => tail.push(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    let [out, err] = said.map(|tail| tail.text());
    Ok((out, err))
}

/// Waits until one of these can be read, or has ended; of each whether it is one that can.
fn wait_for<'a>(ends: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Vec<bool>> {
    let mut ends: Vec<PollFd<'_>> =
        ends.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)).collect();
    loop {
        match poll(&mut ends, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(ends.iter().map(|end| !end.revents().is_empty()).collect()),
        }
    }
}

/// What a process says that stays: taken down for as long as anybody may say something, so that it is never kept
/// waiting, and a talkative one takes no more memory than a silent one.
///
/// Who takes it down is a process in our memory ([`process::lodger`]): a thread would share our descriptors, and then
/// the kernel counts references in each call that is given one; and a fork would have each page that we write
/// to copied once more, in the time that is measured.
#[derive(Clone, Debug)]
pub struct Heard(Arc<Ear>);

#[derive(Debug)]
struct Ear {
    end: OwnedFd,
    notes: &'static Notes,
    // Ends who writes the notes.
    _lodger: process::Lodger,
}

/// The last words, as both sides see them. A few pages for each mount that are never given back.
#[derive(Debug)]
struct Notes {
    /// How many bytes there were in all; the last of them stand in `kept`, each at its number modulo the length.
    all: AtomicUsize,
    /// Whether the listener has nothing in hand.
    waits: AtomicBool,
    kept: Vec<AtomicU8>,
}

impl Notes {
    fn leaked() -> &'static Notes {
        let kept = (0..KEPT_OF_STAYING).map(|_| AtomicU8::new(0)).collect();
        Box::leak(Box::new(Notes { all: AtomicUsize::new(0), waits: AtomicBool::new(false), kept }))
    }

    fn push(&self, part: &[u8]) {
        let all = self.all.load(Ordering::Relaxed);
        for (at, byte) in part.iter().enumerate() {
            if let Some(place) = self.kept.get((all + at) % KEPT_OF_STAYING) {
                place.store(*byte, Ordering::Relaxed);
            }
        }
        self.all.store(all + part.len(), Ordering::Release);
    }

    fn text(&self) -> String {
        let all = self.all.load(Ordering::Acquire);
        let numbers = all.saturating_sub(KEPT_OF_STAYING)..all;
        let places = numbers.filter_map(|at| self.kept.get(at % KEPT_OF_STAYING));
        let bytes: Vec<u8> = places.map(|place| place.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Takes down what is said until nobody can say more. Neither allocates nor touches anything of a thread's own,
    /// as [`process::lodger`] asks.
    fn take(&self, end: BorrowedFd<'_>) {
        let mut part = [0; 4 << 10];
        loop {
            self.waits.store(true, Ordering::SeqCst);
            let ready = poll(&mut [PollFd::from_borrowed_fd(end, PollFlags::IN)], None);
            self.waits.store(false, Ordering::SeqCst);
            match ready.and_then(|_| rustix::io::read(end, &mut part)) {
                Ok(0) => break,
                Ok(read) => self.push(part.get(..read).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.waits.store(true, Ordering::SeqCst);
    }
}

/// So long the last words are waited for.
const A_MOMENT: Duration = Duration::from_millis(500);

impl Heard {
    /// Begins to listen; what is said into the file is heard.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn listen() -> io::Result<(OwnedFd, Heard)> {
        let (end, mouth) = pipe_with(PipeFlags::CLOEXEC)?;
        let notes = Notes::leaked();
        let lodger = process::lodger(end.as_fd(), move |end| notes.take(end))?;
        Ok((mouth, Heard(Arc::new(Ear { end, notes, _lodger: lodger }))))
    }

    /// The last words, those among them that are said and not taken down yet.
    pub fn text(&self) -> String {
        let Ear { end, notes, .. } = &*self.0;
        let begun = Instant::now();
        // In this order: what was there before has been taken down if nothing is in hand after.
        let all = || {
            ioctl_fionread(end).is_ok_and(|left| left == 0) && notes.waits.load(Ordering::SeqCst)
        };
        while !all() && begun.elapsed() < A_MOMENT {
            thread::sleep(Duration::from_millis(1));
        }
        notes.text()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn of_an_output_without_end_the_last_of_it_is_kept() {
        let mut tail = Tail::new(10);
        (0..1000).for_each(|number| tail.push(format!("{number} ").as_bytes()));
        assert_eq!(tail.text(), "7 998 999 ");
        assert!(tail.bytes.capacity() < 100);
        let script = "i=0; while [ $i -lt 60000 ]; do echo 'forty bytes and one more are said in all';\
                      i=$((i+1)); done; echo end; echo bad >&2";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) = both(&mut child).unwrap();
        child.wait().unwrap();
        assert_eq!((out.len(), err.as_str()), (KEPT, "bad\n"));
        assert!(out.ends_with("in all\nend\n"));
    }

    #[test]
    fn who_stays_is_never_kept_waiting_and_his_last_words_are_told_at_once() {
        let (mouth, heard) = Heard::listen().unwrap();
        let mut mouth = File::from(mouth);
        // Far more than a pipe holds.
        for _ in 0..1000 {
            mouth.write_all(&[b'x'; 1024]).unwrap();
        }
        mouth.write_all(b"last words").unwrap();
        let text = heard.text();
        assert!(text.len() == KEPT_OF_STAYING && text.ends_with("xlast words"), "{}", text.len());
        drop(mouth);
        assert_eq!(heard.text(), text);
    }

    #[test]
    fn whoever_listens_is_no_thread_of_ours_and_goes_with_what_it_listens_to() {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        // Other tests have threads that come and go: some try has to find no more of them than before.
        let alone = (0..100).any(|_| {
            let before = threads();
            let heard = Heard::listen().unwrap();
            let after = threads();
            drop(heard);
            after <= before
        });
        assert!(alone);
        let (mouth, heard) = Heard::listen().unwrap();
        let pid = heard.0._lodger.pid;
        drop(mouth);
        let begun = Instant::now();
        while process::ended(pid).unwrap().is_none() {
            assert!(begun.elapsed().as_secs() < 60);
            thread::sleep(Duration::from_millis(1));
        }
    }
}
