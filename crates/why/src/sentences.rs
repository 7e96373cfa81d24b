//! Explains a trial in sentences computed from its rows.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;

use crate::account::Sum;
use crate::explained::{Access, Explained, FunctionCounts, Phase};
use crate::functions::source;
use crate::kernel::Task;
use crate::map::Structure;

/// Returns the sentences on a trial; with a baseline, which is a trial of the same workload, they compare the two.
pub fn sentences(explained: &Explained, baseline: Option<&Explained>) -> Vec<String> {
    let mut sentences = Vec::new();
    for (index, phase) in (0u16..).zip(&explained.phases) {
        let current = ExplainedPhase { explained, index, phase };
        let baseline_side = baseline.and_then(|explained| {
            let is_same_phase =
                |(_, baseline_side): &(u16, &Phase)| baseline_side.name == phase.name;
            let (index, phase) = (0u16..).zip(&explained.phases).find(is_same_phase)?;
            Some(ExplainedPhase { explained, index, phase })
        });
        match baseline_side {
            Some(baseline_side) => sentences.extend(compare_phases(&current, &baseline_side)),
            None => sentences.extend(
                [disk_sentence(&current, None), processor_sentence(phase)].into_iter().flatten(),
            ),
        }
    }
    sentences
}

/// A phase of a trial.
struct ExplainedPhase<'a> {
    explained: &'a Explained,
    index: u16,
    phase: &'a Phase,
}

/// Sums of the requests of a phase by structure.
type Sums = BTreeMap<Option<Structure>, Sum>;

impl ExplainedPhase<'_> {
    fn sums(&self) -> Sums {
        let mut sums = Sums::new();
        for (key, sum) in self.explained.account.iter().flat_map(|account| &account.rows) {
            if key.place == (Stage::Running, self.index) {
                sums.entry(key.structure).or_default().add(sum);
            }
        }
        sums
    }

    /// Returns the subject and verb of a sentence on busy time, in which the times of several disks are added.
    fn busy_subject(&self) -> &'static str {
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

/// Returns true if most of a structure's time belongs to seeks, on a disk that has an arm.
fn is_mostly_seeks(explained: &Explained, structure: Option<Structure>, sum: &Sum) -> bool {
    let seeks = explained.access == Access::Seek && structure != Some(Structure::Flush);
    seeks && sum.seek_ns.0 * 2 > sum.time_ns.0
}

/// Returns the sentence that names the structure with the largest share of the disk's time, and the share of the phase
/// during which the disk is busy.
fn disk_sentence(
    current: &ExplainedPhase<'_>,
    baseline: Option<&ExplainedPhase<'_>>,
) -> Option<String> {
    let sums = current.sums();
    let total = busy(&sums);
    let (structure, largest) = sums.iter().max_by_key(|(_, sum)| sum.time_ns)?;
    if total.0 == 0 {
        return None;
    }
    let structure_name = name(*structure);
    let seeks = is_mostly_seeks(current.explained, *structure, largest);
    let number = |sum: &Sum| if seeks { sum.seeks } else { sum.requests };
    let comparison = baseline.map_or(String::new(), |baseline| {
        let baseline_count = baseline.sums().get(structure).map_or(0, number);
        compare_counts(
            (&current.explained.label, number(largest)),
            (&baseline.explained.label, baseline_count),
        )
    });
    let flush = *structure == Some(Structure::Flush);
    let (disk_part, activity, count) = match (seeks, flush) {
        (true, _) => (
            largest.seek_ns,
            format!("seeking to {structure_name}"),
            count_with_noun(largest.seeks, "seek"),
        ),
        (_, true) => (largest.time_ns, structure_name.into(), largest.requests.to_string()),
        _ => {
            let count = count_with_noun(largest.requests, "request");
            let suffix = match current.explained.access {
                Access::Network => " over the network",
                Access::Seek | Access::Direct => "",
            };
            (largest.time_ns, format!("requests to {structure_name}{suffix}"), count)
        }
    };
    let busy_part =
        format!("{} of disk time is {activity} ({count}{comparison})", percent(disk_part, total));
    let phase_time = current.phase.took_ns;
    let disk_part = match phase_time.0 {
        0 => String::new(),
        _ => match current.phase.any_busy_ns {
            Some(any) => format!(
                "; at least one of its disks is busy for {any} of the phase's {phase_time} ({})",
                percent(any, phase_time)
            ),
            None => {
                format!(
                    "; the disk is busy for {total} of the phase's {phase_time} ({})",
                    percent(total, phase_time)
                )
            }
        },
    };
    Some(format!("{}: {busy_part}{disk_part}.", current.phase.name))
}

/// Compares a phase with the same phase of the other trial: how much longer it takes, then the processor's and the
/// disk's part of the difference, the larger first.
fn compare_phases(current: &ExplainedPhase<'_>, baseline: &ExplainedPhase<'_>) -> Vec<String> {
    let label = if current.explained.label == baseline.explained.label {
        "the other"
    } else {
        &baseline.explained.label
    };
    let difference = |quantity: &dyn Fn(&ExplainedPhase<'_>) -> Nanos| {
        quantity(current).0 as f64 - quantity(baseline).0 as f64
    };
    let phase_time = difference(&|side| side.phase.took_ns);
    let (cpu, disks) =
        (difference(&|side| side.phase.cpu_ns), difference(&|side| busy(&side.sums())));
    let (cpu_text, disk_text) = (
        format!("processor time {}", signed(cpu)),
        format!("busy time of the disk {}", signed(disks)),
    );
    let by_cpu = cpu.abs() > disks.abs();
    let (first, second) = if by_cpu { (cpu_text, disk_text) } else { (disk_text, cpu_text) };
    let summary = format!(
        "{}: the phase takes {}, with {label} {} ({}); {first}, {second}.",
        current.phase.name,
        current.phase.took_ns,
        baseline.phase.took_ns,
        signed(phase_time)
    );
    let cpu_details = processor_difference(current.phase, baseline.phase, label);
    let disk_details = [disk_difference(current, baseline), disk_sentence(current, Some(baseline))];
    let details: Vec<Option<String>> = match by_cpu {
        true => std::iter::once(cpu_details).chain(disk_details).collect(),
        false => disk_details.into_iter().chain([cpu_details]).collect(),
    };
    std::iter::once(summary).chain(details.into_iter().flatten()).collect()
}

/// Relative difference below which two times count as equal.
const EQUAL_TOLERANCE: f64 = 0.01;

/// Minimum share of a difference for which a structure is named, and the maximum number of structures named.
const MIN_SHARE: f64 = 0.2;
const MAX_NAMED: usize = 2;

/// Returns the sentence that names the structures that keep the disk busy for more or less time than in the baseline.
fn disk_difference(current: &ExplainedPhase<'_>, baseline: &ExplainedPhase<'_>) -> Option<String> {
    let (sums, baseline_sums) = (current.sums(), baseline.sums());
    let (busy_time, baseline_time) = (busy(&sums), busy(&baseline_sums));
    if busy_time.0 == 0 && baseline_time.0 == 0 {
        return None;
    }
    let phase_name = &current.phase.name;
    let difference = busy_time.0 as f64 - baseline_time.0 as f64;
    let subject = if baseline.phase.any_busy_ns.is_some() {
        baseline.busy_subject()
    } else {
        current.busy_subject()
    };
    if difference.abs() < EQUAL_TOLERANCE * busy_time.0.max(baseline_time.0) as f64 {
        return Some(format!(
            "{phase_name}: {subject} busy about as long ({busy_time} against {baseline_time})."
        ));
    }
    let none = Sum::default();
    let structures: BTreeSet<_> = sums.keys().chain(baseline_sums.keys()).collect();
    let mut parts: Vec<(f64, String)> = structures
        .into_iter()
        .map(|structure| {
            let (sums, baseline_sums) = (
                sums.get(structure).unwrap_or(&none),
                baseline_sums.get(structure).unwrap_or(&none),
            );
            let change = sums.time_ns.0 as f64 - baseline_sums.time_ns.0 as f64;
            let larger = if change > 0.0 { sums } else { baseline_sums };
            // The time includes all requests to the structure, not only seeks.
            let counts = match (is_mostly_seeks(current.explained, *structure, larger), structure) {
                (true, _) => format!("{} seeks against {}", sums.seeks, baseline_sums.seeks),
                (_, Some(Structure::Flush)) => {
                    format!("{} against {}", sums.requests, baseline_sums.requests)
                }
                _ => format!("{} requests against {}", sums.requests, baseline_sums.requests),
            };
            (change, format!("{} for {} ({counts})", signed(change), name(*structure)))
        })
        .filter(|(change, _)| change / difference >= MIN_SHARE)
        .collect();
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    parts.truncate(MAX_NAMED);
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    let details = match texts.is_empty() {
        true => String::new(),
        false => format!(": {}", texts.join(", ")),
    };
    Some(format!(
        "{phase_name}: {subject} busy for {busy_time} against {baseline_time} ({}){details}.",
        signed(difference)
    ))
}

/// Returns a time with its sign.
fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { '-' } else { '+' };
    format!("{sign}{}", Nanos(ns.abs() as u64))
}

fn count_with_noun(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Returns text that compares a count, which the sentence has stated, with the other trial's count.
fn compare_counts(
    (own_label, count): (&str, u64),
    (baseline_label, baseline_count): (&str, u64),
) -> String {
    let label = if own_label == baseline_label { "the other result" } else { baseline_label };
    let times = |larger: u64, smaller: u64| match larger as f64 / smaller as f64 {
        ratio if ratio < 9.95 => format!("{ratio:.1} times"),
        ratio => format!("{ratio:.0} times"),
    };
    match (count, baseline_count) {
        (_, 0) => format!(", none in {label}"),
        (count, baseline_count) if count == baseline_count => ", the same in both".into(),
        (count, baseline_count)
            if count.abs_diff(baseline_count) * 20 < count.min(baseline_count) =>
        {
            format!(", about as many in {label}")
        }
        (count, baseline_count) if count > baseline_count => {
            format!(", {} as many as in {label}", times(count, baseline_count))
        }
        (0, baseline_count) => format!("; {baseline_count} in {label}"),
        (count, baseline_count) => {
            format!("; {label} has {} as many", times(baseline_count, count))
        }
    }
}

fn processor_difference(current: &Phase, baseline: &Phase, label: &str) -> Option<String> {
    let (instructions, baseline_instructions) =
        (current.instructions_per_op()?, baseline.instructions_per_op()?);
    let difference = instructions - baseline_instructions;
    let percent =
        if baseline_instructions > 0.0 { 100.0 * difference / baseline_instructions } else { 0.0 };
    let source_text = source(current, baseline, difference).filter(|_| difference.abs() >= 0.5);
    let source_text = source_text.map_or(String::new(), |source| format!(", {source}"));
    Some(format!(
        "{}: {percent:+.1} % instructions against {label}: {difference:+.0} per op ({instructions:.0} \
         against {baseline_instructions:.0}){source_text}.",
        current.name
    ))
}

/// Returns the sentence on the processor time of a phase's ops and the kernel function with the most instructions.
fn processor_sentence(phase: &Phase) -> Option<String> {
    let per_op = phase.instructions_per_op()?;
    let rows = phase.functions.iter().filter(|row| row.task == Task::Ops);
    let (all, largest) =
        rows.fold((0, None), |(all, largest): (u64, Option<&FunctionCounts>), row| {
            let is_larger = largest.is_none_or(|largest| row.instructions > largest.instructions);
            let largest = if is_larger && row.layer != "user" { Some(row) } else { largest };
            (all + row.instructions, largest)
        });
    let largest = largest.filter(|row| row.instructions > 0)?;
    let share = 100.0 * largest.instructions as f64 / all.max(1) as f64;
    Some(format!(
        "{}: the threads that issue ops run for {} of the phase's {} ({}): {per_op:.0} instructions per op; \
         {} has the most of any kernel function ({share:.0} %).",
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
mod tests;
