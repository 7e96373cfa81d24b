//! Stonewalls: shares that stop at different items and go on to one number leave the tree, make the calls and do the work
//! of the workload after it.

use fsdyno_record::Nanos;
use fsdyno_workload::{ItemLimit, Op, OpSource, Pass, Setting, Share, Workload};

use crate::memory::{Memory, build, run, run_all};

/// The time until which a share has waited at the wall.
const WAITED: Nanos = Nanos(77);

/// A wall at which a share stops after some items, and then goes on to `most`.
struct After {
    stop: u64,
    most: u64,
    begun: bool,
    waited: bool,
    last: u64,
}

impl ItemLimit for After {
    fn begin(&mut self) {
        assert!(!self.begun, "once");
        self.begun = true;
    }

    fn pass(&mut self, done: u64, more: bool) -> Pass {
        assert!(self.begun);
        assert!(done >= self.last, "{done} after {}", self.last);
        self.last = done;
        if self.waited {
            return Pass { most: self.most, ..Pass::GO_ON };
        }
        self.waited = more && done >= self.stop;
        // Items without an op are passed over.
        let most = self.most.max(done);
        if self.waited { Pass { most, waited_until: WAITED } } else { Pass::GO_ON }
    }
}

/// The sources of shares that stop after `stops` items each.
fn walled<'a>(
    work: &'a dyn Workload,
    stops: &[u64],
    most: u64,
) -> Vec<Box<dyn OpSource + Send + 'a>> {
    let (phase, _) = work.stonewalled().unwrap();
    let ranks = stops.len() as u32;
    let source = |(rank, stop): (u32, &u64)| {
        let wall = After { stop: *stop, most, begun: false, waited: false, last: 0 };
        work.ops_until(phase, Share { rank, ranks }, Box::new(wall))
    };
    (0..).zip(stops).map(source).collect()
}

fn set(words: &str) -> Vec<(&str, &str)> {
    words.split_whitespace().map(|word| word.split_once('=').unwrap()).collect()
}

/// Runs a workload whose shares stop, and compares counts and tree after each phase.
fn prove(name: &str, words: &str, stops: &[u64], most: u64) {
    let context = format!("{name} {words} {stops:?} {most}");
    let work = build(name, &set(words), &Setting::seed(7));
    let (walled_phase, _) = work.stonewalled().unwrap_or_else(|| panic!("{context}"));
    let mut memory = Memory { empty_writes: name == "postmark", ..Memory::default() };
    let ranks = stops.len() as u32;
    let mut after = None;
    for (phase, spec) in work.phases().iter().enumerate() {
        memory.counts.clear();
        let now: &dyn Workload = after.as_deref().unwrap_or(work.as_ref());
        let done = match phase == walled_phase {
            true => run_all(&mut memory, walled(work.as_ref(), stops, most)),
            false => run(&mut memory, now, phase, spec.threads.of(ranks)),
        };
        if phase == walled_phase {
            assert!(done.iter().all(|done| *done <= most), "{context}: {done:?}");
            after = work.after_stonewall(most, ranks);
        }
        let now: &dyn Workload = after.as_deref().unwrap_or(work.as_ref());
        assert_eq!(memory.counts, now.counts_after(phase, &done), "{context}: {}", spec.name);
        assert_eq!(memory.fs.open_slots(), 0, "{context}: left open after {}", spec.name);
        memory.check(now.tree_after(phase, &done).as_ref());
        assert_eq!(now.stonewalled(), work.stonewalled(), "{context}");
        if phase == walled_phase {
            let units = now.work_units_after(phase, &done);
            let unit = now.unit(phase).and_then(|unit| units.get(unit));
            assert!(
                unit.is_none_or(|all| *all == done.iter().sum::<u64>()),
                "{context}: {units:?}"
            );
        }
    }
    let needs = work.needs();
    assert!(needs.bytes.0 >= memory.most.0 && needs.inodes >= memory.most.1, "{context}");
}

#[test]
fn shares_of_one_directory_go_on_to_one_number_and_every_count_is_of_what_was_done() {
    for (stops, most) in [(&[3, 7, 1][..], 7), (&[1, 1, 1, 1], 1), (&[2], 9), (&[900, 2], 1000)] {
        prove("dirops", "files=1000 size=5 stat=yes", stops, most);
        prove("dirops", "files=9 names=hex order=random", stops, most);
        prove("dirops", "files=100 order=reverse stat=yes stat-order=reverse", stops, most);
        for widths in ["3/4", "7", "2/3/2"] {
            prove("many-files", &format!("widths={widths} files=5"), stops, most);
        }
        prove("many-files", "widths=30/2 files=3 size=0 data=random", stops, most);
        prove("churn", "files=200 directories=9 ops=1000 parts=7", stops, most);
        prove("churn", "files=200 ops=1000 parts=64 directories=70 mix=read:1", stops, most);
    }
}

#[test]
fn a_share_that_does_all_of_it_in_its_own_directory_ends_at_any_item() {
    for (stop, most) in [(1, 1), (1, 5), (9, 10), (33, 77), (99, 1_000_000)] {
        let prove = |name: &str, words: &str| prove(name, words, &[stop], most);
        for words in ["levels=2 dirs=3 files=4", "levels=0 files=3", "levels=3 dirs=2 mode=create"]
        {
            prove("fdtree", words);
        }
        for order in ["readdir", "name", "creation", "reverse", "random"] {
            prove("tarball", &format!("files=200 directories=20 order={order}"));
        }
        prove("tarball", "files=100 directories=100 size=0");
        for more in ["", "subdirectories=3", "locations=1,2", "bias-read=off", "bias-create=off"] {
            prove("postmark", &format!("number=100 transactions=200 {more}"));
        }
        prove("postmark", "number=10 transactions=900 bias-create=10 bias-read=0 size-high=501");
        for listing in ["each", "once", "none"] {
            let more = format!("list-source={listing} reads-after=20 fill=2");
            let words = format!("ops=100 maildirs=5 store=100 read-store=50 {more}");
            prove("maildir", &words);
        }
    }
}

#[test]
fn a_share_waits_once_and_its_computing_is_no_part_of_a_latency() {
    for (name, words, compute) in
        [("dirops", "files=1000", 0), ("fdtree", "levels=2 dirs=3 files=4 fork-time=5", 5000)]
    {
        let work = build(name, &set(words), &Setting::seed(1));
        let mut waits = Vec::new();
        for mut source in walled(work.as_ref(), &[3], 7) {
            let mut op = Op::default();
            while source.next(&mut op) {
                waits.extend((op.due != Nanos(0)).then_some(op.due));
            }
        }
        assert_eq!(waits, [WAITED + Nanos(compute)], "{name}");
    }
}

#[test]
fn a_share_without_more_items_does_not_wait() {
    // Shares of 3, 3 and 2 files, of which the first stops after one.
    let work = build("dirops", &[("files", "8")], &Setting::seed(1));
    let mut waits = 0;
    for mut source in walled(work.as_ref(), &[1, 100, 100], 3) {
        let mut op = Op::default();
        while source.next(&mut op) {
            waits += u64::from(op.due == WAITED);
        }
    }
    assert_eq!(waits, 1);
    prove("dirops", "files=8 names=hex", &[1, 100, 100], 3);
}

#[test]
fn a_phase_whose_items_depend_on_their_number_or_on_a_time_has_no_stonewall() {
    let is_walled =
        |name, words| build(name, &set(words), &Setting::seed(1)).stonewalled().is_some();
    assert!(!is_walled("dirops", "files=100 create-order=random"));
    assert!(!is_walled("dirops", "files=1000 name-length=12 digits=2"));
    assert!(is_walled("dirops", "files=100 name-length=12 digits=2"));
    assert!(!is_walled("churn", "seconds=5"));
    assert!(!is_walled("churn", "rate=1000"));
    assert!(!is_walled("maildir", "deliverers=2"));
    for name in ["bonnie", "calls", "bigfile", "source-tree", "everyday", "tenant", "capacity"] {
        assert!(!is_walled(name, ""), "{name}");
    }
}
