//! The creation of files until a stonewall.

use fsdyno_record::Nanos;

use super::{Ops, Step};
use crate::op::Op;
use crate::wall::Wall;
use crate::workload::OpSource;

/// The ops of a share, which consults a wall before each file.
pub(super) struct Until<'a> {
    ops: Ops<'a>,
    wall: Box<dyn Wall + 'a>,
    /// Files begun.
    files: u64,
    began: bool,
}

impl<'a> Until<'a> {
    pub(super) fn new(ops: Ops<'a>, wall: Box<dyn Wall + 'a>) -> Until<'a> {
        Until { ops, wall, files: 0, began: false }
    }
}

impl OpSource for Until<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.began {
            self.began = true;
            self.wall.begin();
        }
        op.due = Nanos(0);
        if matches!(self.ops.step, Step::FirstFile | Step::File) {
            let more = self.ops.index < self.ops.end;
            let pass = self.wall.pass(self.files, more);
            op.due = pass.waited_until;
            if self.files >= pass.most {
                self.ops.end = self.ops.index;
            } else if more {
                self.files += 1;
            }
        }
        self.ops.next(op)
    }

    fn done(&self) -> u64 {
        self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Setting;
    use crate::wall::Pass;
    use crate::workload::{Share, Workload};
    use crate::workloads;
    use std::collections::BTreeMap;

    /// A wall that stops a share after some items, and then lets it do `most`.
    struct After {
        stop: u64,
        most: u64,
        begun: bool,
    }

    impl Wall for After {
        fn begin(&mut self) {
            assert!(!self.begun, "once");
            self.begun = true;
        }

        fn pass(&mut self, done: u64, more: bool) -> Pass {
            assert!(self.begun);
            match (done, more) {
                (done, true) if done == self.stop => {
                    Pass { most: self.most, waited_until: Nanos(77) }
                }
                (done, _) if done > self.stop => Pass { most: self.most, ..Pass::GO_ON },
                _ => Pass::GO_ON,
            }
        }
    }

    fn dirops(files: u64, more: &[(&str, &str)]) -> Box<dyn Workload> {
        let mut params = BTreeMap::from([("files".to_string(), files.to_string())]);
        params.extend(more.iter().map(|(key, value)| (key.to_string(), value.to_string())));
        let setting = Setting { seed: 1, input: None };
        workloads::find("dirops").unwrap().build(&params, &setting).unwrap()
    }

    /// The counts and the names that shares make, of which each stops after as many files as `stops` says.
    fn make(work: &dyn Workload, stops: &[u64], most: u64) -> (u64, Vec<String>, usize) {
        let mut names = Vec::new();
        let (mut ops, mut waits) = (0, 0);
        for (rank, stop) in (0..).zip(stops) {
            let share = Share { rank, ranks: stops.len() as u32 };
            let wall = Box::new(After { stop: *stop, most, begun: false });
            let mut source = work.ops_until(0, share, wall);
            let mut op = Op::default();
            while source.next(&mut op) {
                ops += 1;
                waits += usize::from(op.due == Nanos(77));
                if op.call.kind() == Some(fsdyno_record::OpKind::Create) {
                    names.push(String::from_utf8_lossy(op.name.as_bytes()).into_owned());
                }
            }
            assert!(source.done() <= most);
        }
        names.sort();
        (ops, names, waits)
    }

    #[test]
    fn shares_that_go_on_to_one_number_have_made_the_first_files_of_all() {
        let work = dirops(1000, &[("size", "5")]);
        assert_eq!(work.stonewalled(), Some((0, "files")));
        let (ops, names, waits) = make(work.as_ref(), &[3, 7, 0], 7);
        let after = dirops(21, &[("size", "5")]);
        assert_eq!(ops, after.counts(0, 3).values().sum::<u64>());
        let tree = after.tree(0);
        assert!(names.iter().all(|name| tree.lookup(format!("d/{name}").as_bytes()).is_some()));
        names.windows(2).for_each(|two| assert_ne!(two[0], two[1]));
        assert_eq!((names.len(), waits), (21, 3));
    }

    #[test]
    fn a_share_without_more_files_does_not_wait_and_the_rest_is_still_the_first_of_all() {
        let work = dirops(8, &[("names", "hex")]);
        // Shares of 3, 3 and 2 files, of which the first stops after one.
        let (_, names, waits) = make(work.as_ref(), &[1, 100, 100], 3);
        assert_eq!((names.len(), waits), (8, 1));
        let tree = dirops(8, &[("names", "hex")]).tree(0).files();
        assert_eq!(tree, 8);
    }

    #[test]
    fn an_order_or_names_that_depend_on_the_number_of_files_have_no_stonewall() {
        assert_eq!(dirops(100, &[("create-order", "random")]).stonewalled(), None);
        let long = [("name-length", "12"), ("digits", "2")];
        assert_eq!(dirops(1000, &long).stonewalled(), None);
        assert!(dirops(100, &long).stonewalled().is_some());
    }
}
