//! The description and the parameters of fdtree.

use crate::params::{Domain, Param};

/// The description of the model, shown by `fsdyno show workload`.
pub(super) const DOC: &str = "\
The four phases of the shell script fdtree 1.0.2, its calls in its order [SRC]. Every directory down \
to the last level has `dirs` directories, and every directory, leaves too, has `files` files of `size` \
blocks of 4,096 bytes. Levels are counted down: a child of a node at level n is L<n>D<k>, its file \
L<n>F<k>, and k goes from the maximum down to 1. Paths are whole, as the script gives them to mkdir, dd, \
rm and rmdir [SRC]; the root is LEVEL0.<host>.<pid> there and LEVEL0.fsdyno.1 here.

directory-create: mkdir of the root; then in a node all its directories, then down into each. \
file-create: in a node each file as dd does it (open O_WRONLY|O_CREAT|O_TRUNC, one write per block, \
close), then down. file-remove: unlink of each file, then down. directory-remove: a node's directories \
with rmdir when everything below them is removed; the root last. One thread, no fsync, nothing between phases \
[SRC]. With gap=none fsdyno still syncs the file system after each phase, after the time of the last \
call was taken, and reads the files back after file-create, before the next begins; gap=back-to-back is \
what the original did, and only the last phase is verified.

The script starts one process for each mkdir, each file, each directory's rm and each parent's rmdir \
[SRC], so its rates were those of fork and exec: hardly above 1,000 a second in 2009. Only the \
file system's calls are made here, so absolute rates do not compare with published ones. `fork-time` \
computes for that time before the first call of each such process; 1,000 us is a fair guess for 2009 [DER]. \
Other calls of those processes (fstatat before an unlink, for one) are omitted.

The sets are those of Layton's articles on journal sizes, found by arithmetic from his tables; they \
fit their KiB within 0.15 % in all 16 rows [DER, MEM]; small-shallow is confirmed by a second source \
[PUB]. `mode=create` is option -C. Option -R alone cannot find an older tree in the original either, \
because its root has a process number in its name [SRC], and a trial's file system is new: it is \
omitted. Work units: directories, files, KiB.

With data=zeros a file's expected content equals a hole: lost data in a file of the correct size is not detected; with \
data=random it is.";

pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "set",
        default: "none",
        domain: Domain::Choice(&[
            "none",
            "small-shallow",
            "small-deep",
            "medium-shallow",
            "medium-deep",
        ]),
        about: "A published set of levels, dirs, files and size, which must then be auto.",
        source: "[PUB] small-shallow; [DER, MEM] the others, computed from Layton's tables",
    },
    Param {
        name: "levels",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 0, max: 64 }),
        about: "Levels of directories below the root (-l); auto is the set's, or 4.",
        source: "[SRC] 4",
    },
    Param {
        name: "dirs",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 1_000_000 }),
        about: "Directories in each directory (-d); auto is the set's, or 10.",
        source: "[SRC] 10",
    },
    Param {
        name: "files",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 100_000_000 }),
        about: "Files in each directory (-f); auto is the set's, or 10.",
        source: "[SRC] 10",
    },
    Param {
        name: "size",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 0, max: 262_144 }),
        about: "Size of each file in blocks of 4,096 bytes (-s); auto is the set's, or 10.",
        source: "[SRC] 10",
    },
    Param {
        name: "data",
        default: "zeros",
        domain: Domain::Choice(&["zeros", "random"]),
        about: "The contents of the files; zeros flatter a file system that compresses.",
        source: "[SRC] dd if=/dev/zero",
    },
    Param {
        name: "fork-time",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000 },
        about: "Microseconds of CPU time for each process that the original starts.",
        source: "[OWN] none; about 1,000 in 2009 [DER]",
    },
    Param {
        name: "mode",
        default: "both",
        domain: Domain::Choice(&["both", "create"]),
        about: "Create and remove, or create only (-C).",
        source: "[SRC] both",
    },
    Param {
        name: "gap",
        default: "none",
        domain: Domain::Choice(&["none", "back-to-back", "sync", "remount"]),
        about: "The step before each phase but the first.",
        source: "[SRC] nothing",
    },
];
