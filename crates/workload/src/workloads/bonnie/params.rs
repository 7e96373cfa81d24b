//! The description and the parameters of bonnie.

use crate::params::{Domain, Param};

/// The description of the model, shown by `fsdyno show workload`.
pub(super) const DOC: &str = "\
Order: program=bonnie++ is char-write, char-unlink, block-write, rewrite, char-read, block-read, \
seeks, unlink, then create, stat and delete of many files, once with names in sequence and once \
random [SRC, RUN: bonnie++ 2.00a under strace]. program=bonnie is char-write, rewrite, char-unlink, \
block-write, char-read, block-read, seeks, unlink [SRC].

Times: the originals stop no clock for the two unlinks of the large file; here they are \
phases of their own [OWN]. The originals make the directories before the clock of `create` starts; \
here those calls are in the phase, and the report in the original's format subtracts their time. \
bonnie++ ends each pass and each seeker with fsync(2), inside the time, and `create` and `delete` \
with sync(2) [SRC, RUN], here syncfs(2) of the trial's file system. Bonnie of 1996 never syncs [SRC]: \
its time excludes data that is still dirty, so it can write faster than the disk.

Characters: bonnie++ writes and reads them one by one with write(2) and read(2) [RUN]. Bonnie uses \
putc and getc, which reach the kernel as calls of 4096 bytes [MEM: st_blksize]; the processor time of \
stdio is `char-time` a byte.

Seeks: the originals' processes race for tickets in a pipe [SRC]. Here the tickets are dealt: \
each round of tickets to the seekers in turn, each round beginning with the next one [DER], because a \
race cannot be repeated. The chunks are not drawn with the originals' random() [OWN]; those that are \
written back follow a permutation, so that their contents can be verified. bonnie++ writes every \
tenth ticket back, Bonnie every tenth of each process, the first included [SRC]. lseek(2) and \
read(2) are one pread(2) here, lseek(2) and write(2) one pwrite(2).

Files: names, flags, modes, links to the first file, subdirectories and the order of calls are as \
observed [RUN]. The sequential part stats and removes names as the directory is read; the random part \
in a random order, a different one for each of the two, and not the original's draws. Omitted: chdir(2); names are \
resolved below an open directory instead. stat here does not follow symbolic links, the original's \
does. Reading a file in `stat-seq` takes one more read(2), which finds the end, and there empty files \
are opened too. Files are spread evenly over subdirectories [DER]; 2.00a was seen to put one more \
into the first of two [RUN].

Data: the originals write zeros, one int or byte of each chunk counted up [SRC], which flatters file \
systems that compress. Here data are random unless `data=zeros`; then they are all zeros, and a \
stale chunk cannot be distinguished from a new one. A rewritten chunk is new as a whole.

File size: the originals take at least twice the RAM [SRC], because otherwise reads and seeks measure \
the page cache. A plan must not depend on the machine, so the default is their minimum, 300 MiB: set \
file-size to twice the RAM of the trial, or use gap=remount.

Verification: with gap=none reading everything back between two phases would fill the cache for the \
second, so the file is verified only before it is unlinked and the names before they are removed; \
with gap=remount after every phase that writes. With gap=none the phase before is still synced for its \
times, and verified (from the caches) at these points, before the next begins; gap=back-to-back is what the \
originals did, and only the last phase is verified.";

pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "program",
        default: "bonnie++",
        domain: Domain::Choice(&["bonnie++", "bonnie"]),
        about: "The program whose phases, order and defaults are used: bonnie++ 2.00a, or Bonnie of 1996.",
        source: "[OWN] linuxinsight-2006 used Bonnie; its readers requested bonnie++",
    },
    Param {
        name: "file-size",
        default: "314572800",
        domain: Domain::Size { min: 0, max: 16 << 40 },
        about: "Size of the large file; 0 skips its phases; to measure the disk, not memory, take \
                twice the RAM.",
        source: "[SRC] the minimum of bonnie++: 300 MiB, or twice the RAM if that is more",
    },
    Param {
        name: "chunk",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Size { min: 256, max: 1 << 20 }),
        about: "Unit of block passes and seeks, a power of two; auto is 8192 of bonnie++, 16384 of \
                Bonnie.",
        source: "[SRC] both; 8192 in older builds of Bonnie is [MEM]",
    },
    Param {
        name: "char",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Size { min: 0, max: 16 << 40 }),
        about: "Bytes of the passes character by character; 0 skips them as -f does; auto is 3 MiB \
                of bonnie++ (no more than the file), the whole file of Bonnie.",
        source: "[SRC, RUN] both",
    },
    Param {
        name: "char-time",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000 },
        about: "Processor time of putc and getc, in nanoseconds a character; program=bonnie only.",
        source: "[OWN] none: the time of another machine's stdio is not ours to invent",
    },
    Param {
        name: "seeks",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 0, max: 1_000_000_000 }),
        about: "Number of seeks; 0 skips them; auto is 8192 of bonnie++, 4000 of Bonnie.",
        source: "[SRC] both",
    },
    Param {
        name: "seekers",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 256 }),
        about: "Number of concurrent seekers; auto is 5 of bonnie++, 3 of Bonnie.",
        source: "[SRC] both",
    },
    Param {
        name: "files",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 0, max: 100_000 }),
        about: "Number of files in units of 1024 (-n); 0 skips their phases; auto is 16 of bonnie++, 0 of \
                Bonnie, which has no such test.",
        source: "[SRC] 16",
    },
    Param {
        name: "files-max",
        default: "0",
        domain: Domain::Or("link", &Domain::Or("symlink", &Domain::Size { min: 0, max: 1 << 30 })),
        about: "Size of the largest file; link and symlink make hard and symbolic links (-1 and -2).",
        source: "[SRC] empty files",
    },
    Param {
        name: "files-min",
        default: "0",
        domain: Domain::Size { min: 0, max: 1 << 30 },
        about: "Size of the smallest file; sizes are drawn evenly between the two.",
        source: "[SRC]",
    },
    Param {
        name: "files-chunk",
        default: "8192",
        domain: Domain::Size { min: 256, max: 1 << 20 },
        about: "Maximum number of bytes that one call writes to or reads from such a file.",
        source: "[RUN] 8192",
    },
    Param {
        name: "dirs",
        default: "0",
        domain: Domain::Whole { min: 0, max: 60_000 },
        about: "Number of subdirectories with equal shares of the files; 0 and 1 are none.",
        source: "[SRC] none; [RUN] 1 is none too",
    },
    Param {
        name: "sync",
        default: "none",
        domain: Domain::Choice(&["none", "b"]),
        about: "b is bonnie++ -b: fsync of the file after each chunk that a seeker writes, of file \
                and directory after each file made, of the directory after each one removed.",
        source: "[RUN] not after every write, as its manual says",
    },
    Param {
        name: "end-sync",
        default: "auto",
        domain: Domain::Or("auto", &Domain::YesNo),
        about: "End passes and seekers with fsync and creations and removals with syncfs, in \
                their time; auto is yes of bonnie++, no of Bonnie.",
        source: "[SRC, RUN] both",
    },
    Param {
        name: "data",
        default: "random",
        domain: Domain::Choice(&["random", "zeros"]),
        about: "The contents of the files.",
        source: "[OWN] random; the originals write nearly all zeros [SRC]",
    },
    Param {
        name: "gap",
        default: "none",
        domain: Domain::Choice(&["none", "back-to-back", "remount"]),
        about: "The step between phases.",
        source: "[SRC] the originals do nothing there",
    },
];
