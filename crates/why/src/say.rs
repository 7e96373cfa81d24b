//! Explains a trial in sentences computed from its rows.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;

use crate::account::Sum;
use crate::explained::{Access, Explained, FunctionCounts, Phase};
use crate::functions::source;
use crate::kernel::Task;
use crate::map::Structure;

/// Returns the sentences of a trial, compared with another of the same workload if there is one.
pub fn sentences(it: &Explained, other: Option<&Explained>) -> Vec<String> {
    let mut out = Vec::new();
    for (at, phase) in (0u16..).zip(&it.phases) {
        let here = Side { it, at, phase };
        let there = other.and_then(|it| {
            let same = |(_, there): &(u16, &Phase)| there.name == phase.name;
            let (at, phase) = (0u16..).zip(&it.phases).find(same)?;
            Some(Side { it, at, phase })
        });
        match there {
            Some(there) => out.extend(against(&here, &there)),
            None => out.extend([disk(&here, None), processor_time(phase)].into_iter().flatten()),
        }
    }
    out
}

/// A phase of a trial.
struct Side<'a> {
    it: &'a Explained,
    at: u16,
    phase: &'a Phase,
}

/// Sums of the requests of a phase by structure.
type Sums = BTreeMap<Option<Structure>, Sum>;

impl Side<'_> {
    fn sums(&self) -> Sums {
        let mut sums = Sums::new();
        for (key, sum) in self.it.account.iter().flat_map(|account| &account.rows) {
            if key.place == (Stage::Running, self.at) {
                sums.entry(key.structure).or_default().add(sum);
            }
        }
        sums
    }

    /// Returns the subject of a sentence on busy time: the times of several disks are added.
    fn disks(&self) -> &'static str {
        if self.phase.any_busy_ns.is_some() { "the disks together are" } else { "the disk is" }
    }
}

fn busy(sums: &Sums) -> Nanos {
    Nanos(sums.values().map(|sum| sum.time_ns.0).sum())
}

fn percent(part: Nanos, whole: Nanos) -> String {
    format!("{:.0} %", 100.0 * part.0 as f64 / whole.0.max(1) as f64)
}

fn name(structure: Option<Structure>) -> &'static str {
    structure.map_or("unattributed blocks", Structure::plural)
}

/// Returns whether a structure's time is mostly that of its seeks, on a disk that has an arm.
fn is_seeks(it: &Explained, structure: Option<Structure>, sum: &Sum) -> bool {
    let moves = it.access == Access::Seek && structure != Some(Structure::Flush);
    moves && sum.seek_ns.0 * 2 > sum.time_ns.0
}

/// Names the structure that takes the largest share of the disk's time, and the disk's share of the phase.
fn disk(here: &Side<'_>, there: Option<&Side<'_>>) -> Option<String> {
    let sums = here.sums();
    let all = busy(&sums);
    let (structure, most) = sums.iter().max_by_key(|(_, sum)| sum.time_ns)?;
    if all.0 == 0 {
        return None;
    }
    let called = name(*structure);
    let seeks = is_seeks(here.it, *structure, most);
    let number = |sum: &Sum| if seeks { sum.seeks } else { sum.requests };
    let against = there.map_or(String::new(), |there| {
        let other = there.sums().get(structure).map_or(0, number);
        versus((&here.it.label, number(most)), (&there.it.label, other))
    });
    let flush = *structure == Some(Structure::Flush);
    let (part, doing, count) = match (seeks, flush) {
        (true, _) => (most.seek_ns, format!("seeking to {called}"), counted(most.seeks, "seek")),
        (_, true) => (most.time_ns, called.into(), most.requests.to_string()),
        _ => {
            let count = counted(most.requests, "request");
            let way = match here.it.access {
                Access::Network => " over the network",
                Access::Seek | Access::Direct => "",
            };
            (most.time_ns, format!("requests to {called}{way}"), count)
        }
    };
    let what = format!("{} of disk time is {doing} ({count}{against})", percent(part, all));
    let took = here.phase.took_ns;
    let part = match took.0 {
        0 => String::new(),
        _ => match here.phase.any_busy_ns {
            Some(any) => format!(
                "; at least one of its disks is busy for {any} of the phase's {took} ({})",
                percent(any, took)
            ),
            None => {
                format!(
                    "; the disk is busy for {all} of the phase's {took} ({})",
                    percent(all, took)
                )
            }
        },
    };
    Some(format!("{}: {what}{part}.", here.phase.name))
}

/// Compares a phase with the other trial's: how much longer it takes, then the processor's and the disk's share of
/// the difference, the larger first.
fn against(here: &Side<'_>, there: &Side<'_>) -> Vec<String> {
    let label = if here.it.label == there.it.label { "the other" } else { &there.it.label };
    let more = |of: &dyn Fn(&Side<'_>) -> Nanos| of(here).0 as f64 - of(there).0 as f64;
    let took = more(&|side| side.phase.took_ns);
    let (cpu, disks) = (more(&|side| side.phase.cpu_ns), more(&|side| busy(&side.sums())));
    let (cpu_text, disk_text) = (
        format!("the processor runs for {}", signed(cpu)),
        format!("the disk is busy for {}", signed(disks)),
    );
    let by_cpu = cpu.abs() > disks.abs();
    let (first, then) = if by_cpu { (cpu_text, disk_text) } else { (disk_text, cpu_text) };
    let lead = format!(
        "{}: the phase takes {}, with {label} {} ({}); {first}, {then}.",
        here.phase.name,
        here.phase.took_ns,
        there.phase.took_ns,
        signed(took)
    );
    let of_cpu = processor(here.phase, there.phase, label);
    let of_disk = [difference(here, there), disk(here, Some(there))];
    let details: Vec<Option<String>> = match by_cpu {
        true => std::iter::once(of_cpu).chain(of_disk).collect(),
        false => of_disk.into_iter().chain([of_cpu]).collect(),
    };
    std::iter::once(lead).chain(details.into_iter().flatten()).collect()
}

/// Relative difference below which two times count as equal.
const ALIKE: f64 = 0.01;

/// Minimum share of a difference for which a structure is named, and the maximum number that are.
const MIN_SHARE: f64 = 0.2;
const MAX_NAMED: usize = 2;

/// Names the structures that keep the disk busy for more time here than there, or for less.
fn difference(here: &Side<'_>, there: &Side<'_>) -> Option<String> {
    let (ours, theirs) = (here.sums(), there.sums());
    let (one, other) = (busy(&ours), busy(&theirs));
    if one.0 == 0 && other.0 == 0 {
        return None;
    }
    let begin = &here.phase.name;
    let more = one.0 as f64 - other.0 as f64;
    let are = if there.phase.any_busy_ns.is_some() { there.disks() } else { here.disks() };
    if more.abs() < ALIKE * one.0.max(other.0) as f64 {
        return Some(format!("{begin}: {are} busy about as long ({one} against {other})."));
    }
    let none = Sum::default();
    let structures: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let mut parts: Vec<(f64, String)> = structures
        .into_iter()
        .map(|structure| {
            let (ours, theirs) =
                (ours.get(structure).unwrap_or(&none), theirs.get(structure).unwrap_or(&none));
            let part = ours.time_ns.0 as f64 - theirs.time_ns.0 as f64;
            let larger = if part > 0.0 { ours } else { theirs };
            // The time includes all requests to the structure, not only seeks.
            let counts = match (is_seeks(here.it, *structure, larger), structure) {
                (true, _) => format!("{} seeks against {}", ours.seeks, theirs.seeks),
                (_, Some(Structure::Flush)) => {
                    format!("{} against {}", ours.requests, theirs.requests)
                }
                _ => format!("{} requests against {}", ours.requests, theirs.requests),
            };
            (part, format!("{} for {} ({counts})", signed(part), name(*structure)))
        })
        .filter(|(part, _)| part / more >= MIN_SHARE)
        .collect();
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    parts.truncate(MAX_NAMED);
    let named: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    let of_it = match named.is_empty() {
        true => String::new(),
        false => format!(": {}", named.join(", ")),
    };
    Some(format!("{begin}: {are} busy for {one} against {other} ({}){of_it}.", signed(more)))
}

/// Returns a time with its sign.
fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { '-' } else { '+' };
    format!("{sign}{}", Nanos(ns.abs() as u64))
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Compares a count that the sentence has stated with the other trial's.
fn versus((it, here): (&str, u64), (other, there): (&str, u64)) -> String {
    let label = if it == other { "the other result" } else { other };
    let times = |more: u64, less: u64| match more as f64 / less as f64 {
        ratio if ratio < 9.95 => format!("{ratio:.1} times"),
        ratio => format!("{ratio:.0} times"),
    };
    match (here, there) {
        (_, 0) => format!(", none in {label}"),
        (here, there) if here == there => ", the same in both".into(),
        (here, there) if here.abs_diff(there) * 20 < here.min(there) => {
            format!(", about as many in {label}")
        }
        (here, there) if here > there => {
            format!(", {} as many as in {label}", times(here, there))
        }
        (0, there) => format!("; {there} in {label}"),
        (here, there) => format!("; {label} has {} as many", times(there, here)),
    }
}

fn processor(here: &Phase, there: &Phase, label: &str) -> Option<String> {
    let (one, other) = (here.instructions_per_op()?, there.instructions_per_op()?);
    let more = one - other;
    let percent = if other > 0.0 { 100.0 * more / other } else { 0.0 };
    let of_them = source(here, there, more).filter(|_| more.abs() >= 0.5);
    let of_them = of_them.map_or(String::new(), |source| format!(", {source}"));
    Some(format!(
        "{}: {percent:+.1} % instructions against {label}: {more:+.0} per op ({one:.0} against {other:.0})\
         {of_them}.",
        here.name
    ))
}

/// Returns the processor time of a phase's ops, and the kernel function with the most instructions.
fn processor_time(phase: &Phase) -> Option<String> {
    let each = phase.instructions_per_op()?;
    let of_ops = phase.functions.iter().filter(|it| it.task == Task::Ops);
    let (all, largest) =
        of_ops.fold((0, None), |(all, largest): (u64, Option<&FunctionCounts>), it| {
            let more = largest.is_none_or(|largest| it.instructions > largest.instructions);
            let largest = if more && it.layer != "user" { Some(it) } else { largest };
            (all + it.instructions, largest)
        });
    let largest = largest.filter(|it| it.instructions > 0)?;
    let part = 100.0 * largest.instructions as f64 / all.max(1) as f64;
    Some(format!(
        "{}: the threads that issue ops run for {} of the phase's {} ({}): {each:.0} instructions per op; \
         {} has the most of any kernel function ({part:.0} %).",
        phase.name,
        phase.cpu_ns,
        phase.took_ns,
        percent(phase.cpu_ns, phase.took_ns),
        largest.function,
    ))
}

impl Structure {
    /// Returns the plural name.
    pub fn plural(self) -> &'static str {
        match self {
            Structure::Superblock => "superblocks",
            Structure::GroupDescriptors => "group descriptors",
            Structure::Bitmap => "bitmaps",
            Structure::InodeTable => "inode tables",
            Structure::AgHeader => "AG headers",
            Structure::FreeSpaceTree => "free-space trees",
            Structure::InodeTree => "inode trees",
            Structure::OwnerTree => "owner trees",
            Structure::InodeChunk => "inode chunks",
            Structure::Directory => "directories",
            Structure::Attribute => "attributes",
            Structure::Extents => "extent or indirect blocks",
            Structure::Journal => "the journal",
            Structure::Data => "data",
            Structure::RootTree => "the root, chunk and device trees",
            Structure::FsTree => "the tree of files",
            Structure::ExtentTree => "the extent tree",
            Structure::ChecksumTree => "the checksum tree",
            Structure::LogTree => "the log tree",
            Structure::FreedTree => "freed tree blocks",
            Structure::DeviceEnd => "the end of the device",
            Structure::Flush => "flushes of the drive's cache",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, Cause, Key};
    use crate::functions::differences;
    use crate::kernel::Frame;

    fn leaf(own: u64, layer: &str, below: &[(&str, Frame)]) -> Frame {
        let below = below.iter().map(|(name, frame)| (name.to_string(), frame.clone())).collect();
        Frame { own, calls: 1, charged: 0, layer: layer.into(), below }
    }

    fn explained(label: &str, (seeks, time): (u64, u64), lookup: u64) -> Explained {
        let mut account = Account::default();
        let mut add = |structure, seeks, time| {
            let key =
                Key { place: (Stage::Running, 0), structure: Some(structure), cause: Cause::Work };
            let sum = Sum {
                requests: seeks,
                seeks,
                time_ns: Nanos(time),
                seek_ns: Nanos(time),
                ..Sum::default()
            };
            account.rows.insert(key, sum);
        };
        add(Structure::InodeTable, seeks, time);
        add(Structure::Data, 3, 290_000);
        let tree = [
            ("ext4_find_entry", leaf(lookup, "ext4", &[])),
            ("vfs_unlink", leaf(10_000, "files", &[])),
        ];
        let tree = leaf(0, "", &[("do_syscall_64", leaf(0, "entry", &tree))]);
        let mut phase =
            Phase { name: "unlink".into(), ops: 10, took_ns: Nanos(2_000_000), ..Phase::default() };
        phase.cpu_ns = Nanos(900_000);
        phase.set_executed(&BTreeMap::from([(Task::Ops, tree)]));
        Explained {
            label: label.into(),
            phases: vec![phase],
            account: Some(account),
            ..Explained::default()
        }
    }

    #[test]
    fn a_disk_without_an_arm_does_not_seek() {
        let said = |access| {
            let it = Explained { access, ..explained("ext4", (600, 710_000), 1000) };
            sentences(&it, None)[0].clone()
        };
        let direct = "71 % of disk time is requests to inode tables (600 requests)";
        assert!(said(Access::Direct).contains(direct), "{}", said(Access::Direct));
        let far = "requests to inode tables over the network (600 requests)";
        assert!(said(Access::Network).contains(far), "{}", said(Access::Network));
        assert!(said(Access::Seek).contains("seeking to inode tables"));
    }

    #[test]
    fn a_phase_takes_a_sentence_and_a_comparison_three() {
        let ext3 = explained("ext3", (600, 710_000), 2800);
        let ext4 = explained("ext4", (100, 110_000), 1000);
        let alone = "unlink: 71 % of disk time is seeking to inode tables (600 seeks";
        let part = "the disk is busy for 1.00 ms of the phase's 2.00 ms (50 %).";
        let ran = "unlink: the threads that issue ops run for 900 us of the phase's 2.00 ms (45 %): 1280 \
                   instructions per op; vfs_unlink has the most of any kernel function (78 %).";
        assert_eq!(sentences(&ext3, None), [format!("{alone}); {part}"), ran.to_string()]);
        assert_eq!(
            sentences(&ext3, Some(&ext4)),
            [
                "unlink: the phase takes 2.00 ms, with ext4 2.00 ms (+0 ns); the disk is busy for +600 us, \
                 the processor runs for +0 ns."
                    .to_string(),
                "unlink: the disk is busy for 1.00 ms against 400 us (+600 us): +600 us for inode tables \
                 (600 seeks against 100)."
                    .to_string(),
                format!("{alone}, 6.0 times as many as in ext4); {part}"),
                "unlink: +16.4 % instructions against ext4: +180 per op (1280 against 1100), +180 of them \
                 in ext4_find_entry."
                    .to_string()
            ]
        );
        let back = sentences(&ext4, Some(&ext3));
        assert!(back[1].contains("(-600 us): -600 us for inode tables (100 seeks against 600)"));
        assert!(
            back[2].contains("seeking to data") && back[2].contains("the same in both"),
            "{back:?}"
        );
        assert!(back[3].contains("-180 of them in ext4_find_entry"), "{back:?}");
    }

    #[test]
    fn the_first_sentence_is_about_the_larger_cause() {
        let (mut one, other) =
            (explained("new", (110, 715_000), 9000), explained("old", (100, 710_000), 0));
        (one.phases[0].took_ns, one.phases[0].cpu_ns) = (Nanos(2_021_000), Nanos(916_000));
        let text = sentences(&one, Some(&other));
        assert_eq!(
            text[0],
            "unlink: the phase takes 2.02 ms, with old 2.00 ms (+21.0 us); the processor runs for +16.0 us, the \
             disk is busy for +5.00 us."
        );
        assert!(text[1].contains("% instructions against old"), "{text:?}");
        assert!(text[2].contains("the disk is busy"), "{text:?}");
    }

    #[test]
    fn a_structure_that_only_the_other_touches_is_named() {
        let (mut ext4, ext3) = (explained("ext4", (1, 5), 0), explained("ext3", (1, 5), 0));
        let account = ext4.account.as_mut().unwrap();
        account.rows.retain(|key, _| key.structure != Some(Structure::Data));
        let text = sentences(&ext4, Some(&ext3));
        assert!(text[1].ends_with("-290 us for data (0 seeks against 3)."), "{text:?}");
    }

    #[test]
    fn a_spread_difference_is_attributed_to_the_deepest_common_caller() {
        let tree = |each: u64| {
            let twigs: Vec<(String, Frame)> =
                (0..4).map(|at| (format!("part_{at}"), leaf(each, "ext4", &[]))).collect();
            let twigs: Vec<(&str, Frame)> =
                twigs.iter().map(|(n, f)| (n.as_str(), f.clone())).collect();
            let evict = leaf(100, "ext4", &twigs);
            leaf(0, "", &[("evict", evict), ("other", leaf(50, "files", &[]))])
        };
        let phase = |each| {
            let mut phase = Phase { name: "unlink".into(), ops: 1, ..Phase::default() };
            phase.set_executed(&BTreeMap::from([(Task::Ops, tree(each))]));
            phase
        };
        let text = processor(&phase(200), &phase(100), "old").unwrap();
        assert!(text.ends_with("+400 of them in evict and what it calls."), "{text}");
        let text = processor(&phase(100), &phase(200), "old").unwrap();
        assert!(text.ends_with("-400 of them in evict and what it calls."), "{text}");
    }

    #[test]
    fn a_nameless_function_counts_for_its_caller() {
        let phase = |own| {
            let none = leaf(own, "module", &[]);
            let update = leaf(50, "kernel", &[("?", none)]);
            let mut phase = Phase { name: "unlink".into(), ops: 1, ..Phase::default() };
            let tree = leaf(0, "", &[("crypto_shash_update", update)]);
            phase.set_executed(&BTreeMap::from([(Task::Ops, tree)]));
            phase
        };
        let text = processor(&phase(100), &phase(900), "old").unwrap();
        assert!(text.ends_with("-800 of them in crypto_shash_update and what it calls."), "{text}");
    }

    #[test]
    fn equal_results_differ_in_nothing() {
        let one = explained("ext4", (100, 710_000), 1000);
        assert_eq!(differences(&one.phases[0], &one.phases[0]), []);
        let text = sentences(&one, Some(&one));
        assert!(text[1].contains("busy about as long (1.00 ms against 1.00 ms)"), "{text:?}");
        assert!(text[2].contains("the same in both"), "{text:?}");
        assert!(text[3].contains("+0.0 % instructions"), "{text:?}");
    }
}
