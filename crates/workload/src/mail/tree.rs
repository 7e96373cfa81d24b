//! The tree of a mail workload, looked up by trying the ten numbers that a name may be of.

use crate::mail::job::{Job, Place};
use crate::mail::names::candidates;
use crate::mail::office::{Office, READ_STORE, WRITE_STORE};
use crate::mail::protocol::{MTIME, UNPACK};
use crate::op::Name;
use crate::workload::{Expected, Tree};

/// The message in a maildir that a number stands for and where in it; none if it is nowhere.
pub type Delivered<'a> = Box<dyn Fn(u64) -> Option<(Job, Place)> + 'a>;

/// The maildirs and what is in them.
pub struct Boxes<'a> {
    /// How many maildirs there are.
    pub maildirs: u64,
    /// Messages have numbers below this.
    pub numbers: u64,
    /// How many of these are in a maildir.
    pub messages: u64,
    /// Which these are.
    pub delivered: Delivered<'a>,
}

impl Boxes<'_> {
    /// No maildirs yet.
    pub fn none() -> Self {
        Boxes { maildirs: 0, numbers: 0, messages: 0, delivered: Box::new(|_| None) }
    }
}

/// The stores, if they are unpacked, and the maildirs.
pub struct MailTree<'a> {
    /// Where everything lies.
    pub office: &'a Office,
    /// Whether the stores are there.
    pub unpacked: bool,
    /// The maildirs.
    pub boxes: Boxes<'a>,
}

impl MailTree<'_> {
    /// What lies at `rest` in the store that begins with message `first` and holds `count`.
    fn stored(&self, rest: &[u8], first: u64, count: u64) -> Option<Expected> {
        if count == 0 || !self.unpacked {
            return None;
        }
        if rest.is_empty() {
            return Some(Expected::DIRECTORY);
        }
        let file = rest.strip_prefix(b"/")?;
        candidates(file).filter(|index| *index < count).find_map(|index| {
            let job = Job { message: first + index, ..Job::new(UNPACK) };
            let found = self.is_path(&job, Place::Store, |path| path.ends_with(rest));
            let content = Expected::file(self.office.content(&job));
            found.then(|| content.with_mode(0o644).with_mtime(MTIME))
        })
    }

    fn is_path(&self, job: &Job, place: Place, right: impl Fn(&[u8]) -> bool) -> bool {
        let mut name = Name::default();
        self.office.path(&mut name, job, place, false);
        right(name.as_bytes())
    }

    fn in_maildir(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        let maildir = self.office.maildirs.read(parts.next()?)?;
        if maildir >= self.boxes.maildirs {
            return None;
        }
        let Some(folder) = parts.next() else { return Some(Expected::DIRECTORY) };
        let Some(file) = parts.next() else {
            return matches!(folder, b"tmp" | b"new" | b"cur").then_some(Expected::DIRECTORY);
        };
        candidates(file).filter(|number| *number < self.boxes.numbers).find_map(|number| {
            let (job, place) = (self.boxes.delivered)(number)?;
            let found = self.is_path(&job, place, |right| right == path);
            found.then(|| Expected::file(self.office.content(&job)))
        })
    }
}

impl Tree for MailTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let (writes, reads) = (self.office.write_store, self.office.read_store);
        if let Some(rest) = path.strip_prefix(WRITE_STORE) {
            return self.stored(rest, 0, writes);
        }
        match path.strip_prefix(READ_STORE) {
            Some(rest) => self.stored(rest, writes, reads),
            None => self.in_maildir(path),
        }
    }

    fn files(&self) -> u64 {
        let stores = self.office.write_store + self.office.read_store;
        self.boxes.messages + if self.unpacked { stores } else { 0 }
    }

    fn directories(&self) -> u64 {
        let stores = [self.office.write_store, self.office.read_store];
        let stores = stores.iter().filter(|count| self.unpacked && **count > 0).count();
        4 * self.boxes.maildirs + stores as u64
    }
}
