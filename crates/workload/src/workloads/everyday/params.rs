//! The description and the parameters of everyday.

use crate::params::{Domain, Param};

/// The description of the model, shown by `fsdyno show workload`.
pub(super) const DOC: &str = "\
A reader of 2006 missed everyday files among the tests: documents of 100 KB, songs of 5 MB, a film of \
700 MB [PUB]. The numbers are ours: the same number of bytes of documents as of songs, and one film [OWN].

write creates the tree `in`: a directory for each kind, in it folders (of 50 documents, 12 songs or 10 \
films [OWN]), and in these the files. Its calls are mkdir, and for each file open O_CREAT|O_EXCL, writes of \
128 KiB and close, as cp does from a source that costs nothing [RUN: coreutils 9.1]. copy: cp -a of `in` to \
`copy`, with its calls and reads and writes of 128 KiB, in the order in which the file system returns the \
names of directories. read: each file of `in` by name: open, reads of 128 KiB until one returns nothing, \
close, as cat does [RUN]. delete: rm -r of `in`, then of `copy`, in the order of the names that the file \
system returns. Nothing is synced by these programs. To measure one kind alone, set the numbers of the \
others to 0.

Contents are random bytes unless `zeros` makes a part of each 4 KiB zeros: with zeros=50 a file system \
that compresses can save about half, with zeros=100 nearly all. The space that the file system has in \
use is recorded after each phase; compared with the bytes written it shows what compression saved, or \
what the file system's metadata cost.

With gap=none the phase before is still synced for its times and verified (from the caches) before the \
next begins; with gap=back-to-back only the last phase is verified.";

pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "documents",
        default: "2000",
        domain: Domain::Whole { min: 0, max: 10_000_000 },
        about: "Number of documents.",
        source: "[OWN] together about 200 MB",
    },
    Param {
        name: "document-size",
        default: "102400",
        domain: Domain::Sizes,
        about: "Bytes of each document.",
        source: "[PUB] 100k",
    },
    Param {
        name: "songs",
        default: "40",
        domain: Domain::Whole { min: 0, max: 1_000_000 },
        about: "Number of songs.",
        source: "[OWN] together about 200 MB",
    },
    Param {
        name: "song-size",
        default: "5242880",
        domain: Domain::Sizes,
        about: "Bytes of each song.",
        source: "[PUB] 5MB",
    },
    Param {
        name: "films",
        default: "1",
        domain: Domain::Whole { min: 0, max: 10_000 },
        about: "Number of films.",
        source: "[PUB] one",
    },
    Param {
        name: "film-size",
        default: "734003200",
        domain: Domain::Sizes,
        about: "Bytes of each film.",
        source: "[PUB] 700MB",
    },
    Param {
        name: "zeros",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Percentage of each 4 KiB that is zeros: 0 cannot be compressed, 100 is zeros only.",
        source: "[OWN] songs and films are compressed already",
    },
    Param {
        name: "gap",
        default: "remount",
        domain: Domain::Choice(&["none", "back-to-back", "sync", "drop", "remount"]),
        about: "The step before each phase but the first.",
        source: "[OWN] so that reads come from the disk",
    },
];
