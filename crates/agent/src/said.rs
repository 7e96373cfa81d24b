//! What a child says: as much of it is kept as a reader can use, whatever it goes on to say.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};

/// How much of an output is kept: a mkfs that prints every superblock says some hundred KiB.
const KEPT: usize = 1 << 20;

/// How much of the output of a process that stays is kept, of which a few lines are told.
const KEPT_OF_STAYING: usize = 16 << 10;

/// What the thread needs that takes down what a process that stays says.
const STACK: usize = 64 << 10;

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

/// What a process says that stays: taken down by a thread for as long as anybody may say something, so that
/// it is never kept waiting, and a talkative one takes no more memory than a silent one.
#[derive(Clone, Debug)]
pub struct Heard(Arc<Ear>);

#[derive(Debug)]
struct Ear {
    end: OwnedFd,
    tail: Mutex<Tail>,
}

impl Heard {
    /// Begins to listen; what is said into the file is heard.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn listen() -> io::Result<(OwnedFd, Heard)> {
        let (end, mouth) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&end, true)?;
        let heard = Heard(Arc::new(Ear { end, tail: Mutex::new(Tail::new(KEPT_OF_STAYING)) }));
        let ear = heard.clone();
        let listening = move || while ear.wait() && ear.take().unwrap_or(false) {};
        thread::Builder::new().stack_size(STACK).spawn(listening)?;
        Ok((mouth, heard))
    }

    fn wait(&self) -> bool {
        wait_for([self.0.end.as_fd()].into_iter()).is_ok()
    }

    /// Takes down what was said up to now; whether somebody may say more.
    fn take(&self) -> io::Result<bool> {
        let mut tail = self.0.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let mut part = [0; 4 << 10];
        loop {
            match rustix::io::read(&self.0.end, &mut part) {
                Ok(0) => return Ok(false),
                Ok(read) => tail.push(&part[..read]),
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The last words.
    pub fn text(&self) -> String {
        // What was said and is not taken down yet is among the last.
        let _ = self.take();
        self.0.tail.lock().unwrap_or_else(PoisonError::into_inner).text()
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
        // The thread has gone with the last who could say something.
        let begun = std::time::Instant::now();
        while Arc::strong_count(&heard.0) > 1 {
            assert!(begun.elapsed().as_secs() < 60);
            thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
