//! The description and the parameters of dirops.

use crate::params::{Domain, Param};

const ORDERS: Domain = Domain::Choice(&["forward", "reverse", "random"]);

/// The description of the model, shown by `fsdyno show workload`.
pub(super) const DOC: &str = "\
Daniel Phillips' 2001 test of indexed directories for ext2: many files are created in one directory \
and then deleted. It measures what one huge directory costs, and how the cost grows with its size.

create: mkdir of the directory, then for each file one open with O_CREAT, one write if `size` is not 0, \
and one close. stat (only with `stat=yes`) and delete: one fstatat or unlink for each file. No fsync. Each \
phase has its own order of the files. Names are relative to the open directory, so that no \
path is walked: each phase has one open and one close of the directory.

The published phases are create, delete, and delete in reverse, of 10,000 empty files, on Linux 2.4.13 [PUB]; \
`create-order=random` is Phillips' randfiles of December 2001, which shuffled the numbers [PUB]; its \
order came from rand(), ours from the seed. The forward deletion was \"after remounting\" [PUB]; that \
the reverse and random deletions were, too, is deduced from the posted times, which show more elapsed \
than system time [DER]. The length of the names is deduced from \"about 250 entries a block\" [DER]. Empty \
files are opened with O_CREAT only, others also with O_WRONLY. Phase stat, other patterns and lengths \
of names, and more than one thread are not in the original [OWN].

Names: numbered is prefix and digits, in order. hex looks like a digest, and random consists of letters \
and digits; both are computed from the number by a bijection drawn from the seed, so that names are \
unique and those of consecutive files have nothing in common. Several threads take equal \
parts of the order, all in the same directory.";

pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "files",
        default: "10000",
        domain: Domain::Whole { min: 1, max: 100_000_000 },
        about: "Number of files.",
        source: "[PUB] 10,000 in the posted table; the curves go from 100 to 2,000,000",
    },
    Param {
        name: "curve",
        default: "none",
        domain: Domain::Or("none", &Domain::Curve { min: 1, max: 100_000_000 }),
        about: "Numbers of files to run in place of `files`, each on a fresh file system; the report \
                fits how the time grows with them.",
        source: "[PUB] 10,000 to 100,000 by 10,000 in the charts of December 2001",
    },
    Param {
        name: "create-order",
        default: "forward",
        domain: ORDERS,
        about: "The order of creation, by number.",
        source: "[PUB] forward; random is randfiles of December 2001",
    },
    Param {
        name: "order",
        default: "forward",
        domain: ORDERS,
        about: "The order of deletion, by number; random differs from the order of creation.",
        source: "[PUB] forward and reverse are in the posted table",
    },
    Param {
        name: "stat",
        default: "no",
        domain: Domain::YesNo,
        about: "Add a phase that stats every file, between create and delete.",
        source: "[OWN] not in the original",
    },
    Param {
        name: "stat-order",
        default: "random",
        domain: ORDERS,
        about: "The order of phase stat, by number.",
        source: "[OWN] not in the original",
    },
    Param {
        name: "remount",
        default: "yes",
        domain: Domain::YesNo,
        about: "Unmount and mount the file system between phases.",
        source: "[PUB] for the forward deletion; [DER] for the others: elapsed above system time",
    },
    Param {
        name: "prefix",
        default: "f",
        domain: Domain::Word(200),
        about: "The beginning of every name.",
        source: "[DER] with `digits` a name of 8 characters; 250 entries per block mean 5 to 8",
    },
    Param {
        name: "digits",
        default: "7",
        domain: Domain::Whole { min: 1, max: 19 },
        about: "Minimum number of digits after the prefix; larger numbers have more.",
        source: "[DER] see `prefix`",
    },
    Param {
        name: "names",
        default: "numbered",
        domain: Domain::Choice(&["numbered", "hex", "random"]),
        about: "The rest of the name: the number, hex digits that look random, or random letters and \
                digits.",
        source: "[PUB] numbered",
    },
    Param {
        name: "name-length",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 255 }),
        about: "Length of every name in bytes; auto is that of `prefix` plus `digits`. Numbered names are \
                padded with 'x' before the digits.",
        source: "[DER] see `prefix`",
    },
    Param {
        name: "size",
        default: "0",
        domain: Domain::Size { min: 0, max: 1 << 20 },
        about: "Bytes written into every file, in one call.",
        source: "[PUB] empty files",
    },
];
