//! The layout of mail: the messages, their delivery protocol, and their paths.

use crate::mail::job::{BLOCK, Job, Progress, READ, RECORD, Split};
use crate::mail::messages::Messages;
use crate::mail::names::NameForm;
use crate::mail::protocol::{MessageFormat, PREFIX_LINES};
use crate::mail::step::{Folder, Location, Step};
use crate::numbered::Numbered;
use crate::op::{Call, Compound, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};

/// The directory of the source messages for writes.
pub const WRITE_STORE: &[u8] = b"write_src";
/// The directory of the messages to read.
pub const READ_STORE: &[u8] = b"read_src";
/// The form of message names in a store.
pub const STORE_NAMES: NameForm = NameForm::Sequence;
/// Name suffix in `cur` of messages whose only flag is "seen".
pub const SEEN: &[u8] = b":2,S";

/// The slot of the maildir that was entered.
const ENTERED: DirSlot = DirSlot(1);
/// The slot of the directory to sync.
const SYNCED: DirSlot = DirSlot(2);
/// The slot of the open file.
const FILE: FileSlot = FileSlot(0);
const READ_ONLY: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };

/// The translation of the steps of jobs into calls and names.
#[derive(Clone, Debug)]
pub struct MailLayout {
    /// The messages: those of the write store, then those of the read store.
    pub messages: Messages,
    /// Number of messages in the write store.
    pub write_store: u64,
    /// Number of messages in the read store.
    pub read_store: u64,
    /// The directories of the maildirs.
    pub maildirs: Numbered,
    /// The format of the messages in maildirs.
    pub format: MessageFormat,
}

impl MailLayout {
    /// Returns the length of the file that the job works on, in bytes.
    pub fn length(&self, job: &Job) -> u64 {
        u64::from(job.prefix_length) + self.messages.length(job.message)
    }

    /// Returns the length of the next part of the job's file to be written.
    #[inline]
    pub fn part_length(&self, job: &Job, Progress { part, offset, remaining }: Progress) -> u32 {
        match job.split {
            Split::Lines if job.prefix_length == 0 => {
                self.messages.line_length(job.message, part, offset, remaining)
            }
            Split::Lines => match PREFIX_LINES.get(part as usize) {
                Some(line) => *line,
                None => {
                    let (line, prefix_length) =
                        (part - PREFIX_LINES.len() as u64, u64::from(job.prefix_length));
                    self.messages.line_length(job.message, line, offset - prefix_length, remaining)
                }
            },
            Split::Blocks(block) => remaining.min(u64::from(block)) as u32,
            // The first write ends with the tar record that contains the header of the archive member.
            Split::Records(header) if offset == 0 => {
                remaining.min(RECORD - (header + BLOCK) % RECORD) as u32
            }
            Split::Records(_) => remaining.min(RECORD) as u32,
        }
    }

    /// Returns the number of parts in which the job's file is written.
    pub fn part_count(&self, job: &Job) -> u64 {
        let length = self.length(job);
        match job.split {
            Split::Lines if job.prefix_length == 0 => self.messages.line_count(job.message),
            Split::Lines => PREFIX_LINES.len() as u64 + self.messages.line_count(job.message),
            Split::Blocks(block) => length.div_ceil(u64::from(block)),
            Split::Records(_) => {
                let first = u64::from(self.part_length(job, Progress::start(length)));
                u64::from(first > 0) + (length - first).div_ceil(RECORD)
            }
        }
    }

    /// Returns the call that `step` makes; with `inside`, paths are relative to the maildir.
    pub fn call(&self, job: &Job, step: Step, progress: Progress, inside: bool) -> Call {
        let dir = if inside { ENTERED } else { DirSlot::ROOT };
        let file = FILE;
        match step {
            Step::Mkdir(_) => Call::Mkdir { dir, mode: 0o755 },
            Step::Enter => Call::OpenDir { dir: DirSlot::ROOT, slot: ENTERED },
            Step::Leave => Call::CloseDir { slot: ENTERED },
            Step::Scan(_) => Call::Compound(Compound::Scan { dir }),
            Step::OpenFolder(_) => Call::OpenDir { dir, slot: SYNCED },
            Step::FsyncFolder(_) => Call::FsyncDir { dir: SYNCED },
            Step::CloseFolder(_) => Call::CloseDir { slot: SYNCED },
            Step::CheckAbsent(_) => Call::Stat { dir },
            Step::Create(_, flags, mode) => Call::Create { dir, file, flags, mode },
            Step::Open(_) => Call::Open { dir, file, flags: READ_ONLY },
            Step::StatFile => Call::StatFile { file },
            Step::Write => {
                let length = self.part_length(job, progress);
                Call::Write { file, payload: self.payload(job, progress.offset, length) }
            }
            Step::Read => Call::Read { file, length: READ },
            Step::Utimes(mtime) => Call::UtimesFile { file, mtime },
            Step::Chown => Call::ChownFile { file },
            Step::Chmod(mode) => Call::ChmodFile { file, mode },
            Step::Fsync => Call::Fsync { file },
            Step::Close => Call::Close { file },
            Step::Link(..) => Call::Link { dir, to: dir },
            Step::Rename(..) => Call::Rename { dir, to: dir },
            Step::Unlink(_) => Call::Unlink { dir },
        }
    }

    /// Returns part of the content of the job's file.
    #[inline]
    pub fn payload(&self, job: &Job, offset: u64, length: u32) -> Payload {
        self.messages.payload(job.message, job.prefix_length, offset, length)
    }

    /// Returns the whole content of the job's file.
    pub fn content_of(&self, job: &Job) -> Payload {
        self.payload(job, 0, self.length(job) as u32)
    }

    /// Writes the names for the call that `step` makes; calls on an open file keep the name with which it was opened.
    pub fn write_names(&self, job: &Job, step: Step, inside: bool, op: &mut Op) {
        match step {
            Step::Mkdir(folder)
            | Step::Scan(folder)
            | Step::OpenFolder(folder)
            | Step::FsyncFolder(folder)
            | Step::CloseFolder(folder) => self.write_folder(&mut op.name, job, folder, inside),
            Step::Enter | Step::Leave => {
                self.write_folder(&mut op.name, job, Folder::Maildir, false)
            }
            Step::CheckAbsent(location)
            | Step::Create(location, ..)
            | Step::Open(location)
            | Step::Unlink(location) => self.write_path(&mut op.name, job, location, inside),
            Step::Link(from, to) | Step::Rename(from, to) => {
                self.write_path(&mut op.name, job, from, inside);
                self.write_path(&mut op.second_name, job, to, inside);
            }
            Step::StatFile
            | Step::Write
            | Step::Read
            | Step::Utimes(_)
            | Step::Chown
            | Step::Chmod(_)
            | Step::Fsync
            | Step::Close => {}
        }
    }

    fn write_folder(&self, name: &mut Name, job: &Job, folder: Folder, inside: bool) {
        name.clear();
        let folder_name: &[u8] = match folder {
            Folder::WriteStore => return name.push(WRITE_STORE),
            Folder::ReadStore => return name.push(READ_STORE),
            Folder::Maildir => return self.maildirs.push(name, job.maildir),
            Folder::Temporary => b"tmp",
            Folder::New => b"new",
            Folder::Current => b"cur",
        };
        if !inside {
            self.maildirs.push(name, job.maildir);
            name.push(b"/");
        }
        name.push(folder_name);
    }

    /// Writes the path of the job's message: `maildir07/new/1099267212.669.mail`.
    pub fn write_path(&self, name: &mut Name, job: &Job, location: Location, inside: bool) {
        let folder = match location {
            Location::Store if job.message < self.write_store => Folder::WriteStore,
            Location::Store => Folder::ReadStore,
            Location::Temporary => Folder::Temporary,
            Location::New => Folder::New,
            Location::Seen => Folder::Current,
        };
        self.write_folder(name, job, folder, inside);
        name.push(b"/");
        match location {
            Location::Store => {
                let first_message = if folder == Folder::ReadStore { self.write_store } else { 0 };
                STORE_NAMES.push(name, job.message - first_message);
            }
            Location::Temporary => self.format.temporary.push(name, job.number),
            Location::New | Location::Seen => {
                self.format.delivered.push(name, job.number);
                if self.format.sizes {
                    self.push_sizes(name, job);
                }
            }
        }
        if location == Location::Seen {
            name.push(SEEN);
        }
    }

    /// Appends Dovecot's `,S=<bytes>,W=<bytes with CR LF for LF>`.
    fn push_sizes(&self, name: &mut Name, job: &Job) {
        let size = self.length(job);
        name.push(b",S=");
        name.push_number(size, 1);
        name.push(b",W=");
        name.push_number(size + self.messages.line_count(job.message), 1);
    }
}
