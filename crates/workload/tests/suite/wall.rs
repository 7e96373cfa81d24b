//! Stonewalls: shares that stop at different items and continue to one number create the tree, make the calls and do
//! the work of the workload after the stonewall.

use fsdyno_record::Nanos;
use fsdyno_workload::{Allowance, ItemLimit, Op, OpSource, Setting, Share, Workload};

use crate::memory::{Memory, build, run, run_all};

/// The time until which a share has waited at the stonewall.
const WAITED: Nanos = Nanos(77);

/// A stonewall at which a share stops after some items, and then continues to `max_items`.
struct StopAfter {
    stop: u64,
    max_items: u64,
    has_begun: bool,
    has_waited: bool,
    last_done: u64,
}

impl ItemLimit for StopAfter {
    fn begin(&mut self) {
        assert!(!self.has_begun, "once");
        self.has_begun = true;
    }

    fn check(&mut self, done: u64, more: bool) -> Allowance {
        assert!(self.has_begun);
        assert!(done >= self.last_done, "{done} after {}", self.last_done);
        self.last_done = done;
        if self.has_waited {
            return Allowance { max_items: self.max_items, ..Allowance::UNLIMITED };
        }
        self.has_waited = more && done >= self.stop;
        // Items without an op may be skipped.
        let max_items = self.max_items.max(done);
        if self.has_waited {
            Allowance { max_items, waited_until: WAITED }
        } else {
            Allowance::UNLIMITED
        }
    }
}

/// The sources of shares that stop after `stops` items each.
fn stonewalled_sources<'a>(
    work: &'a dyn Workload,
    stops: &[u64],
    max_items: u64,
) -> Vec<Box<dyn OpSource + Send + 'a>> {
    let (phase, _) = work.stonewalled().unwrap();
    let ranks = stops.len() as u32;
    let source = |(rank, stop): (u32, &u64)| {
        let limit =
            StopAfter { stop: *stop, max_items, has_begun: false, has_waited: false, last_done: 0 };
        work.ops_until(phase, Share { rank, ranks }, Box::new(limit))
    };
    (0..).zip(stops).map(source).collect()
}

fn set(params: &str) -> Vec<(&str, &str)> {
    params.split_whitespace().map(|word| word.split_once('=').unwrap()).collect()
}

/// Runs a workload whose shares stop, and compares counts and tree after each phase.
fn check(name: &str, params: &str, stops: &[u64], max_items: u64) {
    let context = format!("{name} {params} {stops:?} {max_items}");
    let work = build(name, &set(params), &Setting::seed(7));
    let (stonewalled_phase, _) = work.stonewalled().unwrap_or_else(|| panic!("{context}"));
    let mut memory = Memory { empty_writes: name == "postmark", ..Memory::default() };
    let ranks = stops.len() as u32;
    let mut after = None;
    for (phase, spec) in work.phases().iter().enumerate() {
        memory.counts.clear();
        let current: &dyn Workload = after.as_deref().unwrap_or(work.as_ref());
        let done = match phase == stonewalled_phase {
            true => run_all(&mut memory, stonewalled_sources(work.as_ref(), stops, max_items)),
            false => run(&mut memory, current, phase, spec.threads.count_of(ranks)),
        };
        if phase == stonewalled_phase {
            assert!(done.iter().all(|done| *done <= max_items), "{context}: {done:?}");
            after = work.after_stonewall(max_items, ranks);
        }
        let current: &dyn Workload = after.as_deref().unwrap_or(work.as_ref());
        assert_eq!(memory.counts, current.counts_after(phase, &done), "{context}: {}", spec.name);
        assert_eq!(memory.fs.open_slots(), 0, "{context}: left open after {}", spec.name);
        memory.check(current.tree_after(phase, &done).as_ref());
        assert_eq!(current.stonewalled(), work.stonewalled(), "{context}");
        if phase == stonewalled_phase {
            let units = current.work_units_after(phase, &done);
            let unit = current.unit(phase).and_then(|unit| units.get(unit));
            assert!(
                unit.is_none_or(|count| *count == done.iter().sum::<u64>()),
                "{context}: {units:?}"
            );
        }
    }
    let needs = work.needs();
    assert!(needs.bytes.0 >= memory.peak.0 && needs.inodes >= memory.peak.1, "{context}");
}

#[test]
fn shares_of_one_directory_continue_to_one_number_and_counts_match_the_work_done() {
    for (stops, max_items) in
        [(&[3, 7, 1][..], 7), (&[1, 1, 1, 1], 1), (&[2], 9), (&[900, 2], 1000)]
    {
        check("dirops", "files=1000 size=5 stat=yes", stops, max_items);
        check("dirops", "files=9 names=hex order=random", stops, max_items);
        check("dirops", "files=100 order=reverse stat=yes stat-order=reverse", stops, max_items);
        for widths in ["3/4", "7", "2/3/2"] {
            check("many-files", &format!("widths={widths} files=5"), stops, max_items);
        }
        check("many-files", "widths=30/2 files=3 size=0 data=random", stops, max_items);
        check("churn", "files=200 directories=9 ops=1000 parts=7", stops, max_items);
        check("churn", "files=200 ops=1000 parts=64 directories=70 mix=read:1", stops, max_items);
    }
}

#[test]
fn the_only_share_of_a_directory_can_end_at_any_item() {
    for (stop, max_items) in [(1, 1), (1, 5), (9, 10), (33, 77), (99, 1_000_000)] {
        let check = |name: &str, params: &str| check(name, params, &[stop], max_items);
        for params in ["levels=2 dirs=3 files=4", "levels=0 files=3", "levels=3 dirs=2 mode=create"]
        {
            check("fdtree", params);
        }
        for order in ["readdir", "name", "creation", "reverse", "random"] {
            check("tarball", &format!("files=200 directories=20 order={order}"));
        }
        check("tarball", "files=100 directories=100 size=0");
        for option in ["", "subdirectories=3", "locations=1,2", "bias-read=off", "bias-create=off"]
        {
            check("postmark", &format!("number=100 transactions=200 {option}"));
        }
        check("postmark", "number=10 transactions=900 bias-create=10 bias-read=0 size-high=501");
        for listing in ["each", "once", "none"] {
            let more = format!("list-source={listing} reads-after=20 fill=2");
            let params = format!("ops=100 maildirs=5 store=100 read-store=50 {more}");
            check("maildir", &params);
        }
    }
}

#[test]
fn a_share_waits_once_and_its_compute_time_is_not_part_of_a_latency() {
    for (name, params, compute) in
        [("dirops", "files=1000", 0), ("fdtree", "levels=2 dirs=3 files=4 fork-time=5", 5000)]
    {
        let work = build(name, &set(params), &Setting::seed(1));
        let mut waits = Vec::new();
        for mut source in stonewalled_sources(work.as_ref(), &[3], 7) {
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
    for mut source in stonewalled_sources(work.as_ref(), &[1, 100, 100], 3) {
        let mut op = Op::default();
        while source.next(&mut op) {
            waits += u64::from(op.due == WAITED);
        }
    }
    assert_eq!(waits, 1);
    check("dirops", "files=8 names=hex", &[1, 100, 100], 3);
}

#[test]
fn a_phase_whose_items_depend_on_their_number_or_on_a_time_has_no_stonewall() {
    let has_stonewall =
        |name, params| build(name, &set(params), &Setting::seed(1)).stonewalled().is_some();
    assert!(!has_stonewall("dirops", "files=100 create-order=random"));
    assert!(!has_stonewall("dirops", "files=1000 name-length=12 digits=2"));
    assert!(has_stonewall("dirops", "files=100 name-length=12 digits=2"));
    assert!(!has_stonewall("churn", "seconds=5"));
    assert!(!has_stonewall("churn", "rate=1000"));
    assert!(!has_stonewall("maildir", "deliverers=2"));
    for name in ["bonnie", "calls", "bigfile", "source-tree", "everyday", "tenant", "capacity"] {
        assert!(!has_stonewall(name, ""), "{name}");
    }
}
