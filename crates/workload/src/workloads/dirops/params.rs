//! The description and the parameters of dirops.

use crate::params::{Domain, Param};

const ORDERS: Domain = Domain::Choice(&["forward", "reverse", "random"]);

/// The description of the model, shown by `fsdyno show workload`.
pub(super) const DOC: &str = "\
Daniel Phillips' test of indexed directories for ext2, of 2001: many files are made in one directory \
and then deleted. It measures what one huge directory costs, and how the cost grows with its size.

create: mkdir of the directory, then for each file one open with O_CREAT, with `size` one write, and \
one close. stat (only with `stat=yes`) and delete: one fstatat or unlink for each file. No fsync. Each \
phase takes the files in an order of its own. NamePattern are relative to the open directory, so that no \
path is walked: each phase has one open and one close of the directory.

Published are create, delete, and delete in reverse, of 10,000 empty files, on Linux 2.4.13 [PUB]; \
`create-order=random` is Phillips' randfiles of December 2001, which shuffled the numbers [PUB]; its \
order came from rand(), ours from the seed. The forward deletion was \"after remounting\" [PUB]; that \
the reverse and the random one were remounted too is deduced from the posted times, which show more elapsed \
than system time [DER]. The length of the names is deduced from \"about 250 entries a block\" [DER]. Empty \
files are opened with O_CREAT only, others with O_WRONLY too. Phase stat, other patterns and lengths \
of names, and more than one thread are not in the original [OWN].

NamePattern: numbered is prefix and digits, in order. hex looks like a digest and random is made of letters \
and digits; both are computed from the number by a bijection drawn from the seed, so that names are \
unique and those of neighbours have nothing in common. Several threads take equal \
parts of the order, all in the one directory.";

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
        about: "The order of deletion, by number; random is another order than that of creation.",
        source: "[PUB] forward and reverse are in the posted table",
    },
    Param {
        name: "stat",
        default: "no",
        domain: Domain::YesNo,
        about: "Add a phase between the two that stats every file.",
        source: "[OWN] not in the original",
    },
    Param {
        name: "stat-order",
        default: "random",
        domain: ORDERS,
        about: "The order of that phase, by number.",
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
        source: "[DER] with `digits` a name of 8 characters; 250 entries a block mean 5 to 8",
    },
    Param {
        name: "digits",
        default: "7",
        domain: Domain::Whole { min: 1, max: 19 },
        about: "Least number of digits after the prefix; a larger number has more.",
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
        about: "Bytes of every name; auto is prefix and `digits`. Numbered names are padded with \
                'x' before the digits.",
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
