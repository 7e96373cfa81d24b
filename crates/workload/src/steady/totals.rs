//! Totals of operations: exact counts of calls and of work units.

use fsdyno_record::OpKind;

use crate::op_source::WorkUnits;
use crate::steady::population::{Action, Operation, Population};
use crate::workload::OpCounts;

/// Totals of operations: the number of each kind, their calls and bytes, and the files that they leave.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of operations by action.
    operations: [u64; 9],
    /// Number of calls that move data, and number of bytes, by action.
    calls: [u64; 9],
    bytes: [u64; 9],
    fsyncs: u64,
    /// Number of live files, names and bytes at the end.
    live: (u64, u64, u64),
}

impl Totals {
    /// Adds an operation that moves `length` bytes in calls of at most `block`.
    pub fn add_data(&mut self, action: Action, length: u64, block: u32) {
        let index = action as usize;
        self.operations[index] += 1;
        match action {
            Action::Create | Action::Write | Action::Append => {
                self.calls[index] += length.div_ceil(u64::from(block));
            }
            // The last call reads the end of the file.
            Action::Read => self.calls[index] += length.div_ceil(u64::from(block)) + 1,
            _ => return,
        }
        self.bytes[index] += length;
    }

    /// Adds an operation.
    pub fn add_operation(&mut self, operation: &Operation, block: u32) {
        self.add_data(operation.action, u64::from(operation.payload.length), block);
        self.fsyncs += u64::from(operation.fsync);
    }

    /// Adds the files of `population` that are live at the end.
    pub fn add_live(&mut self, population: &Population) {
        self.live.0 += population.files().len() as u64;
        self.live.1 += population.names();
        self.live.2 += population.bytes();
    }

    /// Returns the number of calls by kind, excluding those whose number depends on the file system.
    pub fn counts(&self) -> OpCounts {
        let operations = |action: Action| self.operations[action as usize];
        let calls = |action: Action| self.calls[action as usize];
        let opened = [Action::Write, Action::Append, Action::Read, Action::Readdir].map(operations);
        let opened = opened.iter().sum::<u64>();
        OpCounts::from([
            (OpKind::Create, operations(Action::Create)),
            (OpKind::Open, opened),
            (OpKind::Close, opened + operations(Action::Create)),
            (OpKind::Write, calls(Action::Create) + calls(Action::Write)),
            (OpKind::Append, calls(Action::Append)),
            (OpKind::Read, calls(Action::Read)),
            (OpKind::Fsync, self.fsyncs),
            (OpKind::Stat, operations(Action::Stat)),
            (OpKind::Rename, operations(Action::Rename)),
            (OpKind::Link, operations(Action::Link)),
            (OpKind::Unlink, operations(Action::Unlink)),
        ])
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }

    /// Returns the number of bytes of the live files at the end.
    pub fn live_bytes(&self) -> u64 {
        self.live.2
    }

    /// Returns the work units.
    pub fn work_units(&self) -> WorkUnits {
        let names = [
            "files created",
            "files overwritten",
            "files appended to",
            "files read",
            "status asked for",
            "names renamed",
            "names linked",
            "names unlinked",
            "directories read",
        ];
        let bytes = |actions: &[Action]| -> u64 {
            actions.iter().map(|action| self.bytes[*action as usize]).sum()
        };
        let mut units: WorkUnits = names.into_iter().zip(self.operations).collect();
        units.extend([
            ("operations", self.operations.iter().sum()),
            ("files fsynced", self.fsyncs),
            ("written bytes", bytes(&[Action::Create, Action::Write, Action::Append])),
            ("read bytes", bytes(&[Action::Read])),
            ("live files", self.live.0),
            ("live names", self.live.1),
            ("live bytes", self.live.2),
        ]);
        units
    }
}
