//! What a trial comes to, in sentences that are computed from its rows.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::mailbox::Stage;

use crate::account::Sum;
use crate::explained::{Explained, Phase, flat};
use crate::kernel::Task;
use crate::map::Structure;

/// The sentences of a trial, against another of the same workload where there is one.
pub fn sentences(it: &Explained, other: Option<&Explained>) -> Vec<String> {
    let mut out = Vec::new();
    for (at, phase) in it.phases.iter().enumerate() {
        let at = u16::try_from(at).unwrap_or(u16::MAX);
        let there = other.and_then(|other| {
            let place = other.phases.iter().position(|there| there.name == phase.name)?;
            Some((other, u16::try_from(place).ok()?))
        });
        out.extend(disk(it, (at, phase), there));
        if let Some((other, place)) = there {
            let label = if it.label == other.label { "the other" } else { other.label.as_str() };
            out.extend(processor(phase, &other.phases[usize::from(place)], label));
        }
    }
    out
}

/// Requests of a phase by structure.
fn of_phase(it: &Explained, phase: u16) -> BTreeMap<Option<Structure>, Sum> {
    let mut sums: BTreeMap<_, Sum> = BTreeMap::new();
    for (key, sum) in it.account.iter().flat_map(|account| &account.rows) {
        if key.place == (Stage::Running, phase) {
            sums.entry(key.structure).or_default().add(sum);
        }
    }
    sums
}

fn disk(
    it: &Explained,
    (at, phase): (u16, &Phase),
    other: Option<(&Explained, u16)>,
) -> Option<String> {
    let sums = of_phase(it, at);
    let all: u64 = sums.values().map(|sum| sum.time_ns.0).sum();
    let (structure, most) = sums.iter().max_by_key(|(_, sum)| sum.time_ns)?;
    if all == 0 {
        return None;
    }
    let share = |part: u64| format!("{:.0} %", 100.0 * part as f64 / all as f64);
    let name = structure.map_or("blocks that cannot be told", Structure::plural);
    let is_seeks = most.seek_ns.0 * 2 > most.time_ns.0;
    let what = match is_seeks {
        _ if *structure == Some(Structure::Flush) => {
            format!("{} of the disk's time is {name} ({})", share(most.time_ns.0), most.requests)
        }
        true => format!(
            "{} of the disk's time is seeks to {name} ({})",
            share(most.seek_ns.0),
            many(most.seeks, "seek")
        ),
        false => format!(
            "{} of the disk's time is requests to {name} ({})",
            share(most.time_ns.0),
            many(most.requests, "request")
        ),
    };
    let number = |sum: &Sum| if is_seeks { sum.seeks } else { sum.requests };
    let against = other.map(|(other, place)| {
        let there = of_phase(other, place).get(structure).map_or(0, number);
        let label = if it.label == other.label { "the other result" } else { &other.label };
        match (number(most), there) {
            (_, 0) => format!("; {label} makes none"),
            (here, there) if here >= there => {
                format!("; {} makes {} as many as {label}", it.label, times(here, there))
            }
            (here, there) => {
                format!("; {label} makes {} as many as {}", times(there, here), it.label)
            }
        }
    });
    Some(format!("{}: {what}{}.", phase.name, against.unwrap_or_default()))
}

fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn times(more: u64, less: u64) -> String {
    match (more as f64 / less as f64, more == less) {
        (_, true) => "just".into(),
        (ratio, _) if ratio < 9.95 => format!("{ratio:.1} times"),
        (ratio, _) => format!("{ratio:.0} times"),
    }
}

/// A function's instructions an op here less those there.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The function.
    pub function: String,
    /// Its layer here, or there.
    pub layer: String,
    /// Instructions an op.
    pub here: f64,
    /// The same in the other result.
    pub there: f64,
}

impl Difference {
    /// How many more.
    pub fn more(&self) -> f64 {
        self.here - self.there
    }
}

/// What the threads that issue ops executed in a phase, function by function, against another's; the
/// largest difference first. Functions that differ by nothing are left out.
pub fn differences(here: &Phase, there: &Phase) -> Vec<Difference> {
    let of = |phase: &Phase| {
        let ops = phase.ops.max(1) as f64;
        let mut sums: BTreeMap<String, (String, f64)> = BTreeMap::new();
        for (function, (own, _)) in phase.executed.get(&Task::Ops).map(flat).unwrap_or_default() {
            let sum = sums.entry(function.name).or_insert((function.layer, 0.0));
            sum.1 += own as f64 / ops;
        }
        sums
    };
    let (here, there) = (of(here), of(there));
    let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let mut differences: Vec<Difference> = names
        .into_iter()
        .map(|name| {
            let (one, other) = (here.get(name), there.get(name));
            Difference {
                function: name.clone(),
                layer: one.or(other).map(|(layer, _)| layer.clone()).unwrap_or_default(),
                here: one.map_or(0.0, |(_, own)| *own),
                there: other.map_or(0.0, |(_, own)| *own),
            }
        })
        .filter(|it| it.more() != 0.0)
        .collect();
    differences.sort_by(|a, b| b.more().abs().total_cmp(&a.more().abs()));
    differences
}

/// Instructions an op of the threads that issue ops.
fn per_op(phase: &Phase) -> Option<f64> {
    let tree = phase.executed.get(&Task::Ops)?;
    Some(tree.whole() as f64 / phase.ops.max(1) as f64)
}

fn processor(here: &Phase, there: &Phase, label: &str) -> Option<String> {
    let (one, other) = (per_op(here)?, per_op(there)?);
    let more = one - other;
    let percent = if other > 0.0 { 100.0 * more / other } else { 0.0 };
    let largest = differences(here, there).into_iter().find(|it| it.more() * more > 0.0);
    let of_them = largest.map(|it| format!(", {:+.0} of them in {}", it.more(), it.function));
    let of_them = of_them.filter(|_| more.abs() >= 0.5).unwrap_or_default();
    Some(format!(
        "{}: {percent:+.1} % instructions against {label}: {more:+.0} an op ({one:.0} against {other:.0})\
         {of_them}.",
        here.name
    ))
}

impl Structure {
    /// The name of several.
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
            Structure::FreedTree => "blocks of trees, freed since",
            Structure::DeviceEnd => "the end of the device",
            Structure::Flush => "flushes of the drive's cache",
        }
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;

    use super::*;
    use crate::account::{Account, Cause, Key};
    use crate::kernel::Frame;

    fn explained(label: &str, seeks: u64, lookup: u64) -> Explained {
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
        add(Structure::InodeTable, seeks, 710);
        add(Structure::Data, 3, 290);
        let leaf =
            |own, layer: &str| Frame { own, calls: 1, layer: layer.into(), ..Frame::default() };
        let below = BTreeMap::from([
            ("ext4_find_entry".to_string(), leaf(lookup, "ext4")),
            ("vfs_unlink".to_string(), leaf(10_000, "files")),
        ]);
        let executed = BTreeMap::from([(Task::Ops, Frame { below, ..Frame::default() })]);
        let phase = Phase { name: "unlink".into(), ops: 10, cpu_ns: Nanos(0), executed };
        Explained {
            label: label.into(),
            phases: vec![phase],
            account: Some(account),
            ..Explained::default()
        }
    }

    #[test]
    fn a_phase_is_said_in_a_sentence_and_against_another_in_two() {
        let (ext3, ext4) = (explained("ext3", 600, 2800), explained("ext4", 100, 1000));
        let alone = "unlink: 71 % of the disk's time is seeks to inode tables (600 seeks)";
        assert_eq!(sentences(&ext3, None), [format!("{alone}.")]);
        assert_eq!(
            sentences(&ext3, Some(&ext4)),
            [
                format!("{alone}; ext3 makes 6.0 times as many as ext4."),
                "unlink: +16.4 % instructions against ext4: +180 an op (1280 against 1100), +180 of them \
                 in ext4_find_entry."
                    .to_string()
            ]
        );
        let back = sentences(&ext4, Some(&ext3));
        assert!(back[0].ends_with("; ext3 makes 6.0 times as many as ext4."), "{back:?}");
        assert!(back[1].contains("-180 of them in ext4_find_entry"), "{back:?}");
    }

    #[test]
    fn equal_results_differ_in_nothing() {
        let one = explained("ext4", 100, 1000);
        assert_eq!(differences(&one.phases[0], &one.phases[0]), []);
        let said = sentences(&one, Some(&one));
        assert!(said[0].contains("makes just as many as the other result"), "{said:?}");
        assert!(said[1].contains("+0.0 % instructions"), "{said:?}");
    }
}
