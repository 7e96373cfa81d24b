//! The protocols of delivery and retrieval, call by call.

use crate::mail::job::{Folder, Place, Step};
use crate::mail::names::Form;
use crate::op::OpenFlags;
use Place::{New, Seen, Store, Temporary};

/// What messages in maildirs are like under a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What they are named in `tmp`.
    pub temporary: Form,
    /// What they are named in `new` and `cur`.
    pub delivered: Form,
    /// Whether that name goes on with Dovecot's sizes.
    pub sizes: bool,
    /// How many bytes a file holds before the message.
    pub lead: u32,
}

/// How a message comes into a maildir.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// Its name in `--set protocol=`.
    pub name: &'static str,
    /// The calls.
    pub steps: &'static [Step],
    /// Bytes of a write that is not of a line.
    pub buffer: u32,
    /// Names and lead.
    pub layout: Layout,
}

/// The lines that qmail-local puts before a message, `Return-Path` and `Delivered-To`, in bytes with
/// their newlines [OWN].
pub const LEAD_LINES: [u32; 2] = [38, 34];
const LEAD: u32 = LEAD_LINES[0] + LEAD_LINES[1];

const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const REPLACE: OpenFlags = OpenFlags { truncate: true, ..WRITE };
const EXCLUSIVE: OpenFlags = OpenFlags { exclusive: true, ..WRITE };
const TAR: OpenFlags = OpenFlags { nonblock: true, noctty: true, ..EXCLUSIVE };

const SEQUENCE: Layout =
    Layout { temporary: Form::Sequence, delivered: Form::Sequence, sizes: false, lead: 0 };
const DOVECOT: Layout =
    Layout { temporary: Form::Microseconds, delivered: Form::Microseconds, sizes: true, lead: 0 };

/// The original script: no tmp, no fsync. perl asks for the status of each file that it opens [RUN].
pub const COPY: Protocol = Protocol {
    name: "copy",
    steps: &[Step::Create(New, REPLACE, 0o666), Step::StatFile, Step::Write, Step::Close],
    buffer: 4096,
    layout: SEQUENCE,
};

/// qmail-local [SRC].
const QMAIL: Protocol = Protocol {
    name: "qmail",
    steps: &[
        Step::Enter,
        Step::Absent(Temporary),
        Step::Create(Temporary, EXCLUSIVE, 0o644),
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Link(Temporary, New),
        Step::Unlink(Temporary),
        Step::Leave,
    ],
    buffer: 1024,
    layout: Layout { temporary: Form::Process, delivered: Form::Process, sizes: false, lead: LEAD },
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
    layout: Layout {
        temporary: Form::PrefixedProcess,
        delivered: Form::Inode,
        sizes: false,
        lead: 0,
    },
};

/// Guenter's fsbench of 2004, as he told it in 2008 [PUB].
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
    layout: SEQUENCE,
};

/// Dovecot [MEM] with `mail_fsync=never`.
const DOVECOT_NEVER: Protocol = Protocol {
    name: "dovecot",
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o600),
        Step::Write,
        Step::Close,
        Step::Rename(Temporary, New),
    ],
    buffer: 4096,
    layout: DOVECOT,
};

/// Dovecot [MEM] with `mail_fsync=optimized`: the file.
const DOVECOT_OPTIMIZED: Protocol = Protocol {
    steps: &[
        Step::Create(Temporary, EXCLUSIVE, 0o600),
        Step::Write,
        Step::Fsync,
        Step::Close,
        Step::Rename(Temporary, New),
    ],
    ..DOVECOT_NEVER
};

/// Dovecot [MEM] with `mail_fsync=always`: the file and the directory.
const DOVECOT_ALWAYS: Protocol = Protocol {
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
    /// The protocol called `name`, with Dovecot's `mail_fsync`.
    pub fn named(name: &str, mail_fsync: &str) -> Protocol {
        match (name, mail_fsync) {
            ("qmail", _) => QMAIL,
            ("postfix", _) => POSTFIX,
            ("fsbench", _) => FSBENCH,
            ("dovecot", "never") => DOVECOT_NEVER,
            ("dovecot", "always") => DOVECOT_ALWAYS,
            ("dovecot", _) => DOVECOT_OPTIMIZED,
            _ => COPY,
        }
    }
}

/// The time that unpacked messages are given.
pub const MTIME: i64 = super::names::TIME as i64;

/// GNU tar as root, as the workload tarball has it [RUN].
pub const UNPACK: &[Step] = &[
    Step::Create(Store, TAR, 0o600),
    Step::Write,
    Step::Utimes(MTIME),
    Step::Chown,
    Step::Chmod(0o644),
    Step::Close,
];
/// The directory of messages to write from is made.
pub const MAKE_WRITE_STORE: &[Step] = &[Step::Mkdir(Folder::WriteStore)];
/// The directory of messages to read is made.
pub const MAKE_READ_STORE: &[Step] = &[Step::Mkdir(Folder::ReadStore)];
/// A maildir is made.
pub const MAKE_MAILDIR: &[Step] = &[
    Step::Mkdir(Folder::Maildir),
    Step::Mkdir(Folder::Temporary),
    Step::Mkdir(Folder::New),
    Step::Mkdir(Folder::Current),
];
/// The messages to write from are listed.
pub const LIST_WRITE_STORE: &[Step] = &[Step::Scan(Folder::WriteStore)];
/// The messages to read are listed.
pub const LIST_READ_STORE: &[Step] = &[Step::Scan(Folder::ReadStore)];
/// A message is read where it lies, by perl [RUN].
pub const READ_MESSAGE: &[Step] = &[Step::Open(Store), Step::StatFile, Step::Read, Step::Close];
/// A reader finds a message, takes it over and reads it.
pub const RETRIEVE: &[Step] =
    &[Step::Scan(Folder::New), Step::Rename(New, Seen), Step::Open(Seen), Step::Read, Step::Close];
/// The same, and the message is gone.
pub const RETRIEVE_AND_DELETE: &[Step] = &[
    Step::Scan(Folder::New),
    Step::Rename(New, Seen),
    Step::Open(Seen),
    Step::Read,
    Step::Close,
    Step::Unlink(Seen),
];
