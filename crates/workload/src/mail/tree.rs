//! The tree of a mail workload, which is looked up by trying the ten numbers that a name can stand for.

use crate::mail::job::Job;
use crate::mail::layout::{MailLayout, READ_STORE, WRITE_STORE};
use crate::mail::names::candidates;
use crate::mail::protocol::{MTIME, UNPACK};
use crate::mail::step::Location;
use crate::op::Name;
use crate::workload::{Expected, Tree};

/// A function from a number to the message and its location in a maildir, or `None` if the message is not in a
/// maildir.
pub type Delivered<'a> = Box<dyn Fn(u64) -> Option<(Job, Location)> + 'a>;

/// The maildirs and their messages.
pub struct Mailboxes<'a> {
    /// Number of maildirs.
    pub maildirs: u64,
    /// Exclusive upper bound of message numbers.
    pub numbers: u64,
    /// Number of messages in maildirs.
    pub messages: u64,
    /// The message and its location by number.
    pub delivered: Delivered<'a>,
}

impl Mailboxes<'_> {
    /// Returns the state before any maildir exists.
    pub fn empty() -> Self {
        Mailboxes { maildirs: 0, numbers: 0, messages: 0, delivered: Box::new(|_| None) }
    }
}

/// The stores, if they are unpacked, and the maildirs.
pub struct MailTree<'a> {
    /// The layout of the mail.
    pub layout: &'a MailLayout,
    /// True if the stores are unpacked.
    pub unpacked: bool,
    /// The maildirs.
    pub mailboxes: Mailboxes<'a>,
}

impl MailTree<'_> {
    /// Returns the expected entry at `rest` in the store that begins with message `first` and has `count` messages.
    fn lookup_in_store(&self, rest: &[u8], first: u64, count: u64) -> Option<Expected> {
        if count == 0 || !self.unpacked {
            return None;
        }
        if rest.is_empty() {
            return Some(Expected::DIRECTORY);
        }
        let file = rest.strip_prefix(b"/")?;
        candidates(file).filter(|index| *index < count).find_map(|index| {
            let job = Job { message: first + index, ..Job::new(UNPACK) };
            let found = self.path_matches(&job, Location::Store, |path| path.ends_with(rest));
            let content = Expected::file(self.layout.content_of(&job));
            found.then(|| content.with_mode(0o644).with_mtime(MTIME))
        })
    }

    fn path_matches(&self, job: &Job, location: Location, accepts: impl Fn(&[u8]) -> bool) -> bool {
        let mut name = Name::default();
        self.layout.write_path(&mut name, job, location, false);
        accepts(name.as_bytes())
    }

    fn lookup_in_maildir(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        let maildir = self.layout.maildirs.parse(parts.next()?)?;
        if maildir >= self.mailboxes.maildirs {
            return None;
        }
        let Some(folder) = parts.next() else { return Some(Expected::DIRECTORY) };
        let Some(file) = parts.next() else {
            return matches!(folder, b"tmp" | b"new" | b"cur").then_some(Expected::DIRECTORY);
        };
        candidates(file).filter(|number| *number < self.mailboxes.numbers).find_map(|number| {
            let (job, location) = (self.mailboxes.delivered)(number)?;
            let found = self.path_matches(&job, location, |expected| expected == path);
            found.then(|| Expected::file(self.layout.content_of(&job)))
        })
    }
}

impl Tree for MailTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let (writes, reads) = (self.layout.write_store, self.layout.read_store);
        if let Some(rest) = path.strip_prefix(WRITE_STORE) {
            return self.lookup_in_store(rest, 0, writes);
        }
        match path.strip_prefix(READ_STORE) {
            Some(rest) => self.lookup_in_store(rest, writes, reads),
            None => self.lookup_in_maildir(path),
        }
    }

    fn files(&self) -> u64 {
        let stores = self.layout.write_store + self.layout.read_store;
        self.mailboxes.messages + if self.unpacked { stores } else { 0 }
    }

    fn directories(&self) -> u64 {
        let stores = [self.layout.write_store, self.layout.read_store];
        let stores = stores.iter().filter(|count| self.unpacked && **count > 0).count();
        4 * self.mailboxes.maildirs + stores as u64
    }
}
