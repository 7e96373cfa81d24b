//! The protocols of delivery and retrieval, call by call.

use crate::mail::names::NameForm;
use crate::mail::step::{Folder, Location, Step};
use crate::op::OpenFlags;
use Location::{New, Seen, Store, Temporary};

/// The format of the messages that a protocol delivers into maildirs.
#[derive(Clone, Copy, Debug)]
pub struct MessageFormat {
    /// The form of the messages' names in `tmp`.
    pub temporary: NameForm,
    /// The form of the messages' names in `new` and `cur`.
    pub delivered: NameForm,
    /// True if Dovecot's sizes follow the delivered name.
    pub sizes: bool,
    /// Number of bytes before the message in its file.
    pub prefix_length: u32,
}

/// A protocol of delivery into a maildir.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// Its name in `--set protocol=`.
    pub name: &'static str,
    /// The calls.
    pub steps: &'static [Step],
    /// Bytes per write, unless each line has its own write.
    pub buffer: u32,
    /// The format of its messages.
    pub format: MessageFormat,
}

/// Lengths in bytes, with newlines, of the lines that qmail-local writes before a message: `Return-Path`
/// and `Delivered-To` [OWN].
pub const PREFIX_LINES: [u32; 2] = [38, 34];
const PREFIX_LENGTH: u32 = PREFIX_LINES[0] + PREFIX_LINES[1];

const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const REPLACE: OpenFlags = OpenFlags { truncate: true, ..WRITE };
const EXCLUSIVE: OpenFlags = OpenFlags { exclusive: true, ..WRITE };
const TAR: OpenFlags = OpenFlags { nonblock: true, noctty: true, ..EXCLUSIVE };

const SEQUENCE: MessageFormat = MessageFormat {
    temporary: NameForm::Sequence,
    delivered: NameForm::Sequence,
    sizes: false,
    prefix_length: 0,
};
const DOVECOT: MessageFormat = MessageFormat {
    temporary: NameForm::Microseconds,
    delivered: NameForm::Microseconds,
    sizes: true,
    prefix_length: 0,
};

/// The original script: no tmp, no fsync. perl calls fstat on each file that it opens [RUN].
pub const COPY: Protocol = Protocol {
    name: "copy",
    steps: &[Step::Create(New, REPLACE, 0o666), Step::StatFile, Step::Write, Step::Close],
    buffer: 4096,
    format: SEQUENCE,
};

/// qmail-local [SRC].
const QMAIL: Protocol = Protocol {
    name: "qmail",
    steps: &[
        Step::Enter,
        Step::CheckAbsent(Temporary),
        Step::Create(Temporary, EXCLUSIVE, 0o644),
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Link(Temporary, New),
        Step::Unlink(Temporary),
        Step::Leave,
    ],
    buffer: 1024,
    format: MessageFormat {
        temporary: NameForm::Process,
        delivered: NameForm::Process,
        sizes: false,
        prefix_length: PREFIX_LENGTH,
    },
};

/// Postfix, virtual and local [SRC of a derivative].
const POSTFIX: Protocol = Protocol {
    name: "postfix",
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o600),
        Step::StatFile,
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Link(Temporary, New),
        Step::Unlink(Temporary),
    ],
    buffer: 4096,
    format: MessageFormat {
        temporary: NameForm::PrefixedProcess,
        delivered: NameForm::Inode,
        sizes: false,
        prefix_length: 0,
    },
};

/// Guenter's fsbench of 2004, as he described it in 2008 [PUB].
const FSBENCH: Protocol = Protocol {
    name: "fsbench",
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o644),
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Rename(Temporary, New),
        Step::OpenFolder(Folder::New),
        Step::FsyncFolder(Folder::New),
        Step::CloseFolder(Folder::New),
    ],
    buffer: 4096,
    format: SEQUENCE,
};

/// Dovecot with `mail_fsync=never`: maildir-save.c of Dovecot 2.3 [SRC], without its stat calls.
const DOVECOT_NEVER: Protocol = Protocol {
    name: "dovecot",
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o600),
        Step::Write,
        Step::Close,
        Step::Rename(Temporary, New),
    ],
    buffer: 4096,
    format: DOVECOT,
};

/// Dovecot with an fsync of the file alone, which no version of Dovecot does.
const DOVECOT_FILE: Protocol = Protocol {
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o600),
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Rename(Temporary, New),
    ],
    ..DOVECOT_NEVER
};

/// Dovecot with `mail_fsync=optimized` or `always`, which do the same for a new message in a maildir [SRC]: fsync of
/// the file, and of the directory after the rename. Dovecot calls fdatasync(2) on the directory; for a directory, ext4
/// since Linux 5.10, XFS and btrfs treat it like fsync(2).
const DOVECOT_SYNCED: Protocol = Protocol {
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o600),
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Rename(Temporary, New),
        Step::OpenFolder(Folder::New),
        Step::FsyncFolder(Folder::New),
        Step::CloseFolder(Folder::New),
    ],
    ..DOVECOT_NEVER
};

impl Protocol {
    /// Returns the protocol called `name`, with Dovecot's `mail_fsync`.
    pub fn named(name: &str, mail_fsync: &str) -> Protocol {
        match (name, mail_fsync) {
            ("qmail", _) => QMAIL,
            ("postfix", _) => POSTFIX,
            ("fsbench", _) => FSBENCH,
            ("dovecot", "never") => DOVECOT_NEVER,
            ("dovecot", "file") => DOVECOT_FILE,
            ("dovecot", _) => DOVECOT_SYNCED,
            _ => COPY,
        }
    }
}

/// The modification time of unpacked messages.
pub const MTIME: i64 = super::names::FIRST_TIME as i64;

/// Unpacks a message as GNU tar does when run by root, as in the workload tarball [RUN].
pub const UNPACK: &[Step] = &[
    Step::Create(Store, TAR, 0o600),
    Step::Write,
    Step::Utimes(MTIME),
    Step::Chown,
    Step::Chmod(0o644),
    Step::Close,
];
/// Creates the directory of the source messages for writes.
pub const MAKE_WRITE_STORE: &[Step] = &[Step::Mkdir(Folder::WriteStore)];
/// Creates the directory of the messages to read.
pub const MAKE_READ_STORE: &[Step] = &[Step::Mkdir(Folder::ReadStore)];
/// Creates a maildir.
pub const MAKE_MAILDIR: &[Step] = &[
    Step::Mkdir(Folder::Maildir),
    Step::Mkdir(Folder::Temporary),
    Step::Mkdir(Folder::New),
    Step::Mkdir(Folder::Current),
];
/// Lists the source messages for writes.
pub const LIST_WRITE_STORE: &[Step] = &[Step::Scan(Folder::WriteStore)];
/// Lists the messages to read.
pub const LIST_READ_STORE: &[Step] = &[Step::Scan(Folder::ReadStore)];
/// Reads a message in its store, as perl does [RUN].
pub const READ_MESSAGE: &[Step] = &[Step::Open(Store), Step::StatFile, Step::Read, Step::Close];
/// Finds a message, moves it to `cur` and reads it.
pub const RETRIEVE: &[Step] =
    &[Step::Scan(Folder::New), Step::Rename(New, Seen), Step::Open(Seen), Step::Read, Step::Close];
/// Like [`RETRIEVE`], but then deletes the message.
pub const RETRIEVE_AND_DELETE: &[Step] = &[
    Step::Scan(Folder::New),
    Step::Rename(New, Seen),
    Step::Open(Seen),
    Step::Read,
    Step::Close,
    Step::Unlink(Seen),
];
