//! command: any command given by the user, timed as one piece.

use fsdyno_record::quote;

use crate::op_source::{NoOps, OpSource};
use crate::params::{Domain, Param, ParamError, Values};
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, ShellCommand, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: NAME,
    about: "Time any command of yours on a fresh file system of this host.",
    source: "the command line of the user",
    params: PARAMS,
    // It runs what the user gives.
    more_work: &[],
    doc: DOC,
    config: None,
    build: |values, _| Ok(Box::new(Command::new(values)?)),
};

/// Its name: this workload runs only if the user gave it on the command line.
pub const NAME: &str = "command";

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
`setup` and `command` are lines for sh(1), with the root of the trial's file system as their working directory, and \
the environment, the user and the umask of fsdyno itself. The setup is run first and is not measured; then the file system is \
unmounted and mounted again (in a directory: as far as the user's rights allow), unless cache=warm; then the command is \
timed [OWN], from its start until it has ended, until syncfs(2) has returned, and until the drive's cache is empty. \
Processes that it leaves running are killed, and a note states how many. A command that exits with a non-zero code \
fails the trial, and the failure shows the last lines of its output.

CPU time is that of the command and of all children that it waited for. There are no calls to count, so columns of calls \
are empty; `fsdyno record` and the workload replay have them.

Then the tree is read back cold: names, types, permission bits, sizes, links and contents of everything, as one hash. \
Hashes of trials are compared, and a difference is reported. Times are not part of it.

The lab's guest does not contain the user's programs. There the same command line records the command once, on this host, and the trials \
replay the recording (fsdyno show workload replay).

The command comes only from the command line of fsdyno: a record, a study or an archive that contains one cannot run \
it (docs/safety.md).";

/// The value that means no command.
const NONE: &str = "none";

const PARAMS: &[Param] = &[
    Param {
        name: "command",
        default: NONE,
        domain: Domain::Or(NONE, &Domain::Command),
        about: "The line for sh(1) that is timed.",
        source: "[OWN]",
    },
    Param {
        name: "setup",
        default: NONE,
        domain: Domain::Or(NONE, &Domain::Command),
        about: "A line for sh(1) that runs before the command and is not measured.",
        source: "[OWN]",
    },
    Param {
        name: "cache",
        default: "cold",
        domain: Domain::Choice(&["cold", "warm"]),
        about: "Whether the file system is unmounted and mounted between setup and command.",
        source: "[OWN]",
    },
];

/// A command with its parameters bound.
struct Command {
    shell: ShellCommand,
    gap: GapKind,
}

impl Command {
    fn new(values: &Values) -> Result<Command, ParamError> {
        let line = |key| Some(values.text(key).to_string()).filter(|line| line != NONE);
        let Some(command) = line("command") else {
            return Err(ParamError::Conflict(
                "command needs a command to time, such as --set 'command=git clone /src/project .'"
                    .to_string(),
            ));
        };
        let gap = if values.text("cache") == "warm" { GapKind::None } else { GapKind::Remount };
        Ok(Command { shell: ShellCommand { setup: line("setup"), command }, gap })
    }
}

impl Workload for Command {
    fn phases(&self) -> Vec<PhaseSpec> {
        vec![PhaseSpec { name: NAME, gap: self.gap, verify: false, threads: Threads::One }]
    }

    fn ops(&self, _: usize, _: Share) -> Box<dyn OpSource + Send + '_> {
        Box::new(NoOps)
    }

    fn counts(&self, _: usize, _: u32) -> OpCounts {
        OpCounts::new()
    }

    fn tree(&self, _: usize) -> Box<dyn Tree + '_> {
        Box::new(UnknownTree)
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn command(&self) -> Option<&ShellCommand> {
        Some(&self.shell)
    }
}

/// The tree after a command, which is not known in advance.
struct UnknownTree;

impl Tree for UnknownTree {
    fn lookup(&self, _: &[u8]) -> Option<Expected> {
        None
    }

    fn files(&self) -> u64 {
        0
    }

    fn directories(&self) -> u64 {
        0
    }
}

/// Returns the reason why only the command line may run a plan of this workload, and how to run it.
pub fn refusal(command: &str) -> String {
    format!(
        "it runs the command '{}', and a command runs only if you give it yourself: fsdyno run command --set \
         'command=...'",
        quote::short(command)
    )
}
