//! The parameters of the maildir workload and its documentation.

use crate::mail::store::{GAP, SIZE, SOURCE};
use crate::params::{Domain, Param};

/// Documentation of the workload, with the marks of its sources.
pub const DOC: &str = "\
The maildir benchmark of 2004: 10,000 ops on 100 maildirs, four of five of them writes. Its perl \
scripts are lost; this is a model of their output [DER].

Phase `unpack` makes write_src (77,133 messages in one directory) and read_src (1,177) with the calls \
of GNU tar as root [RUN, see workload tarball]; the original's unpacking was timed too [PUB]. Each \
directory comes before its messages, and these by number [OWN]. Omitted: GNU tar makes a directory \
0700, and gives it time, owner and mode 0755 when it is complete; here it is made 0755.

Phase `setup` makes the maildirs, each a directory with tmp, new and cur. `fill` copies that many \
messages of read_src into each. The original's set-up took 64 to 202 s for 100 units [PUB], far more \
than directories take; fill=1177 would fit [DER]; the default is 0 [OWN].

Phase `mixed` draws for each op independently whether it writes (probability 0.80: eight published runs \
had 8,006 of 10,000 on average, all within 2.1 standard deviations), the message and the maildir, \
evenly; so the number of writes differs from seed to seed as it did. A write lists write_src \
(list-source=each: system time of 7 to 99 ms a write and user time of 43 to 50 ms are those of a \
readdir of 77,133 entries for each [DER]), opens a message of write_src, calls fstat as perl \
does [RUN], reads it in calls of 4,096 bytes (perl 5.8's buffer [MEM]) until one returns nothing, closes \
it, and delivers it by `protocol`. A read does the same with a message of read_src (or it was a \
maildir: the original's output does not show) and delivers nothing. perl alternates reads and writes \
[RUN], here the reads come first [OWN]. read_src is listed once, when the phase begins [DER].

Phase `read`, if `reads-after` is not 0, is the script of workload maildir-read after a fresh mount, \
on write_src. The original's maildirs existed already in five of its seven reading runs [PUB].

Protocols: copy is the script: open in `new`, fstat, a write(2) for every line (printflush [RUN]) or \
for 4,096 bytes, close, no fsync. qmail [SRC]: enter the maildir (an open and a close stand for \
chdir), stat of tmp/<time>.<pid>.<host> that fails, open O_EXCL, two lines of its own and the message \
in writes of 1,024 bytes, fsync, close, link to new, unlink. postfix [SRC of a derivative; buffer \
MEM]: open O_EXCL, fstat, write, fsync, close, link, unlink; the inode in its name is a number of \
ours. fsbench [PUB]: write, fsync, close, rename to new, fsync of new. dovecot [SRC]: write, fsync, \
close, rename to new under a name with sizes, fsync of new (mail-fsync=never omits both fsyncs, file the second). A name \
that is already taken, and its retry, do not occur.

With `deliverers` there is no script: phase `deliver-N` has N threads that deliver `ops` \
messages in turn (from memory, as from a socket) and one that retrieves each when its delivery is \
complete: it lists new, renames the message to cur/...:2,S, opens, reads and closes it, and with \
retrieve=delete unlinks it. Guenter's fsbench had one deliverer and one retrieval simulator, then 2, \
4, 8 and 16, with sync between [PUB]: deliverers=sweep. How his simulator searched for mail is not \
published; one listing for each message is [OWN].

Messages: sizes and line lengths are a mix of our own [OWN], the same under every seed; contents are \
bytes by rule, so lines are cut by rule and contain no newline. With source=DIR they are real mail; \
then the two lines that qmail adds are the last bytes of the archive's header before the message. \
Files are found again by their names; nothing is stored for a message. With gap=none a \
phase is still synced for its times, flushed and verified (from the caches) before the next begins, as \
`setup` always is; with gap=back-to-back one follows the other at once, and only the last is verified. getdents64(2) calls are not \
counted: the file system decides how many a directory takes.";

/// The parameters of the workload.
pub const PARAMS: &[Param] = &[
    Param {
        name: "ops",
        default: "10000",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of ops (writes and reads); with deliverers, deliveries per phase.",
        source: "[PUB]",
    },
    Param {
        name: "writes",
        default: "80",
        domain: Domain::Whole { min: 0, max: 100 },
        about: "Average percentage of ops that write.",
        source: "[DER] 80.06 in eight published runs",
    },
    Param {
        name: "maildirs",
        default: "100",
        domain: Domain::Whole { min: 1, max: 10_000 },
        about: "Number of maildirs.",
        source: "[DER] 10,100 units of work with set-up, 10,000 without",
    },
    Param {
        name: "store",
        default: "77133",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of messages in the directory of source messages.",
        source: "[PUB]",
    },
    Param {
        name: "read-store",
        default: "1177",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Number of messages in the directory that is read.",
        source: "[PUB]",
    },
    Param {
        name: "fill",
        default: "0",
        domain: Domain::Whole { min: 0, max: 100_000 },
        about: "Number of messages of the read store that set-up copies into each maildir.",
        source: "[OWN] not published; 1177 fits the published set-up times [DER]",
    },
    Param {
        name: "protocol",
        default: "copy",
        domain: Domain::Choice(&["copy", "qmail", "postfix", "dovecot", "fsbench"]),
        about: "The calls that deliver a message into a maildir; copy is the script, without fsync.",
        source: "[DER] copy; the others are those of mail programs, see above",
    },
    Param {
        name: "mail-fsync",
        default: "optimized",
        domain: Domain::Choice(&["never", "optimized", "always", "file"]),
        about: "Fsyncs of protocol=dovecot: none; optimized and always, which are the same here, the file and its \
                directory; or the file alone, which is not Dovecot's.",
        source: "[SRC] Dovecot's setting mail_fsync, maildir-save.c",
    },
    Param {
        name: "flush",
        default: "auto",
        domain: Domain::Choice(&["auto", "line", "none"]),
        about: "Write each line with its own write(2), or fill a buffer; auto is line for \
                copy and none for the others.",
        source: "[PUB] line on the single disk, none on the RAID",
    },
    Param {
        name: "list-source",
        default: "auto",
        domain: Domain::Choice(&["auto", "each", "once", "none"]),
        about: "List the source directory before each write, once, or never; \
                auto is each, and none with deliverers.",
        source: "[DER] each, from the published system time",
    },
    Param {
        name: "think",
        default: "off",
        domain: Domain::Choice(&["off", "original"]),
        about: "Computing time of the script itself: original is 46 ms before each write, 0.15 ms before \
                each read.",
        source: "[DER] 344 to 403 s of user time for about 8,000 writes",
    },
    Param {
        name: "deliverers",
        default: "0",
        domain: Domain::Choice(&["0", "1", "2", "4", "8", "16", "sweep"]),
        about: "Number of threads that deliver while one retrieves; 0 is the script, sweep is a \
                phase for each number.",
        source: "[PUB] fsbench: 1, then 2, 4, 8, 16",
    },
    Param {
        name: "reads-after",
        default: "0",
        domain: Domain::Whole { min: 0, max: 10_000_000 },
        about: "Number of random source messages to read at the end, \
                after a fresh mount: the script of workload maildir-read on the source directory.",
        source: "[PUB] 10,000, on file systems whose maildirs had been made before",
    },
    Param {
        name: "retrieve",
        default: "read",
        domain: Domain::Choice(&["read", "delete"]),
        about: "Keep or delete retrieved messages.",
        source: "[OWN] not published",
    },
    GAP,
    SIZE,
    SOURCE,
];
