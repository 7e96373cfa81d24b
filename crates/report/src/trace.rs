//! The content of a trace of file system calls.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use fsdyno_trace::{
    Call, CallKind, End, Event, Header, Item, Kind, NodeId, Reader, SyncKind, TraceError,
};
use serde_json::{Value, json};

use crate::ReportError;
use crate::number::{count, sanitize, seconds};
use crate::table::{Block, Column, Document, Legend, Output, Rows, Table};

/// The events of one kind.
#[derive(Clone, Debug, Default)]
struct Calls {
    calls: u64,
    failed: u64,
    bytes: u64,
    time: u64,
    outside: u64,
}

/// The summary of a trace.
#[derive(Clone, Debug)]
pub struct Summary {
    header: Header,
    calls: BTreeMap<CallKind, Calls>,
    syncs: BTreeMap<SyncKind, u64>,
    roots: Vec<(String, &'static str, String)>,
    entries: BTreeMap<Kind, u64>,
    entry_bytes: u64,
    sparse: u64,
    created: u64,
    sizes: [u64; SIZES.len()],
    depth: u32,
    threads: u64,
    processes: u64,
    think: u64,
    mapped_stores: u64,
    marks: Vec<String>,
    /// The started programs, by name.
    programs: BTreeMap<String, u64>,
    end: Option<End>,
    incomplete: Option<String>,
}

/// The maximum number of programs listed in text.
const MAX_PROGRAMS: usize = 12;

/// The classes of file sizes: a name and the maximum size in bytes.
const SIZES: [(&str, u64); 6] = [
    ("empty", 0),
    ("to 4 KiB", 4 << 10),
    ("to 64 KiB", 64 << 10),
    ("to 1 MiB", 1 << 20),
    ("to 64 MiB", 64 << 20),
    ("larger", u64::MAX),
];

impl Summary {
    /// Reads a trace to its end. A truncated trace yields the summary of its valid part, with a note.
    ///
    /// # Errors
    /// The trace is invalid.
    pub fn read(reader: Reader<impl Read>) -> Result<Summary, TraceError> {
        let mut summary = Summary {
            header: reader.header().clone(),
            calls: BTreeMap::new(),
            syncs: BTreeMap::new(),
            roots: Vec::new(),
            entries: BTreeMap::new(),
            entry_bytes: 0,
            sparse: 0,
            created: 0,
            sizes: [0; SIZES.len()],
            depth: 0,
            threads: 1,
            processes: 1,
            think: 0,
            mapped_stores: 0,
            marks: Vec::new(),
            programs: BTreeMap::new(),
            end: None,
            incomplete: None,
        };
        let mut depths = HashMap::new();
        for item in reader {
            match item {
                Ok(item) => summary.add(item, &mut depths),
                Err(error @ TraceError::Truncated { .. }) => {
                    summary.incomplete = Some(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(summary)
    }

    fn add(&mut self, item: Item, depths: &mut HashMap<NodeId, u32>) {
        let mut update_depth = |summary: &mut Summary, node: NodeId, parent: NodeId, kind: Kind| {
            let depth = depths.get(&parent).map_or(1, |above| above + 1);
            summary.depth = summary.depth.max(depth);
            if kind == Kind::Directory {
                depths.insert(node, depth);
            }
        };
        match item {
            Item::Root(root) => {
                depths.insert(root.node, 0);
                let label = sanitize(&root.label.to_string());
                self.roots.push((label, root.kind.name(), sanitize(&root.file_system)));
            }
            Item::Entry(entry) => {
                update_depth(self, entry.node, entry.parent, entry.kind);
                *self.entries.entry(entry.kind).or_default() += 1;
                if entry.kind == Kind::File {
                    self.entry_bytes = self.entry_bytes.saturating_add(entry.size);
                    self.sparse += u64::from(entry.allocated < entry.size / 2);
                    let class = SIZES.iter().position(|(_, limit)| entry.size <= *limit);
                    self.sizes[class.unwrap_or(SIZES.len() - 1)] += 1;
                }
            }
            Item::Event(event) => {
                let uses = event.call.identities();
                if let (Some((node, kind)), Some(name)) = (uses.creates, uses.names[0]) {
                    self.created += 1;
                    update_depth(self, node, name.dir, kind);
                }
                self.add_event(&event);
            }
            Item::End(end) => self.end = Some(end),
        }
    }

    fn add_event(&mut self, event: &Event) {
        self.think = self.think.saturating_add(event.think);
        match &event.call {
            Call::Outside { call, .. } => {
                self.calls.entry(*call).or_default().outside += 1;
                return;
            }
            Call::Close { implicit: true, .. } | Call::Inherit { .. } | Call::Exit { .. } => return,
            Call::Unmap { implicit, length, stores, .. } => {
                self.mapped_stores += if *stores { *length } else { 0 };
                if *implicit {
                    return;
                }
            }
            Call::Spawn { process, .. } => {
                self.threads += 1;
                self.processes += u64::from(*process);
            }
            Call::Sync { sync, .. } => *self.syncs.entry(*sync).or_default() += 1,
            // A shell looks for a program in several directories; the failed attempts are not counted.
            Call::Exec { program, .. } if event.result >= 0 => {
                *self.programs.entry(sanitize(&program.to_string())).or_default() += 1;
            }
            Call::Mark { name } => self.marks.push(sanitize(&name.to_string())),
            _ => {}
        }
        let calls = self.calls.entry(event.call.kind()).or_default();
        calls.calls += 1;
        calls.failed += u64::from(event.result < 0);
        calls.time = calls.time.saturating_add(event.duration);
        if matches!(event.call, Call::Read { .. } | Call::Write { .. } | Call::Copy { .. }) {
            calls.bytes = calls.bytes.saturating_add(event.result.max(0).unsigned_abs());
        }
    }

    /// Sentences on the whole trace.
    fn facts(&self) -> Vec<String> {
        let entries = |kind: Kind| self.entries.get(&kind).copied().unwrap_or(0);
        let roots =
            self.roots.iter().map(|(label, kind, file_system)| match file_system.as_str() {
                "" => format!("{label} ({kind})"),
                file_system => format!("{label} ({kind}, {file_system})"),
            });
        let sizes = SIZES.iter().zip(self.sizes).filter(|(_, files)| *files > 0);
        let sizes: Vec<String> =
            sizes.map(|((name, _), files)| format!("{} {name}", count(files))).collect();
        let mut facts = vec![
            format!(
                "recorded by {}; kernel {}",
                sanitize(&self.header.recorded_by),
                sanitize(&self.header.kernel)
            ),
            format!("roots: {}", roots.collect::<Vec<_>>().join(", ")),
            format!(
                "initial tree: {} files of {} bytes ({} sparse), {} directories, {} links; deepest level {}",
                count(entries(Kind::File)),
                count(self.entry_bytes),
                count(self.sparse),
                count(entries(Kind::Directory)),
                count(entries(Kind::Symlink)),
                self.depth
            ),
        ];
        if !sizes.is_empty() {
            facts.push(format!("sizes of these files: {}", sizes.join(", ")));
        }
        facts.push(format!("objects created: {}", count(self.created)));
        facts.push(format!("{} processes, {} threads", count(self.processes), count(self.threads)));
        facts.extend(self.programs());
        if self.header.has_think {
            facts.push(format!(
                "think time (processor time between calls): {}",
                seconds(self.think as f64 / 1e9)
            ));
        }
        if let Some(end) = &self.end {
            facts.push(format!("wall time with the recorder: {}", seconds(end.wall as f64 / 1e9)));
        }
        if !self.syncs.is_empty() {
            let all = self.syncs.iter().map(|(kind, n)| format!("{} {}", count(*n), kind.name()));
            facts.push(format!("made durable: {}", all.collect::<Vec<_>>().join(", ")));
        }
        if !self.marks.is_empty() {
            facts.push(format!("marks: {}", self.marks.join(", ")));
        }
        facts
    }

    /// The started programs: `programs: cc1 20 times, as 20 times, make once`, the most frequent first, or `None` if
    /// none was started.
    fn programs(&self) -> Option<String> {
        let mut programs: Vec<(&String, u64)> =
            self.programs.iter().map(|(name, n)| (name, *n)).collect();
        programs.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let more = match programs.len().saturating_sub(MAX_PROGRAMS) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let times = |n: u64| if n == 1 { "once".into() } else { format!("{} times", count(n)) };
        let shown =
            programs.iter().take(MAX_PROGRAMS).map(|(name, n)| format!("{name} {}", times(*n)));
        let shown: Vec<String> = shown.collect();
        (!shown.is_empty()).then(|| format!("programs: {}{more}", shown.join(", ")))
    }

    /// Sentences on the parts of the trace that a replay cannot repeat.
    fn not_replayable(&self) -> Vec<String> {
        let outside: u64 = self.calls.values().map(|call| call.outside).sum();
        let mut sentences = Vec::new();
        if outside > 0 {
            sentences.push(format!(
                "{} calls on pipes, sockets, devices and files of the kernel: a replay uses them only to order \
                 threads",
                count(outside)
            ));
        }
        if self.mapped_stores > 0 {
            sentences.push(format!(
                "{} bytes of shared writable mappings, whose stores are not recorded: an upper bound of the bytes stored",
                count(self.mapped_stores)
            ));
        }
        let notes = self.end.iter().flat_map(|end| &end.notes);
        sentences.extend(notes.map(|(note, n)| format!("{}: {}", sanitize(note), count(*n))));
        sentences.extend(self.incomplete.clone());
        sentences
    }
}

/// A kind with its events.
type KindRow = (CallKind, Calls);

/// The columns of the calls.
fn columns() -> Vec<Column<'static, KindRow>> {
    let number = |value: u64| if value == 0 { "-".into() } else { value.to_string() };
    let outside = "calls of this kind on something that is not a file in a file system";
    vec![
        Column::words("call", |row: &KindRow| row.0.name().to_string()),
        Column::number("calls", |row: &KindRow| row.1.calls.to_string())
            .means("calls on files and directories"),
        Column::number("failed", move |row: &KindRow| number(row.1.failed))
            .means("of these, those that returned an error"),
        Column::number("bytes", move |row: &KindRow| number(row.1.bytes))
            .means("bytes read or written"),
        Column::number("outside", move |row: &KindRow| number(row.1.outside)).means(outside),
    ]
}

impl Output for Summary {
    fn document(&self) -> Document {
        let rows: Vec<_> = self.calls.iter().map(|(kind, call)| (*kind, call.clone())).collect();
        let mut out = Document(vec![Block::Items(self.facts())]);
        out.0.push(Block::Table(Table::of(columns(), &rows)));
        out.0.push(Block::List("Not replayable:", self.not_replayable()));
        out.0.push(Block::Legend(Legend::default()));
        out
    }

    fn rows(&self, out: &mut dyn Rows) {
        out.table(&columns(), self.calls.iter().map(|(kind, call)| (*kind, call.clone())));
    }

    fn json(&self) -> Result<String, ReportError> {
        let calls: serde_json::Map<String, Value> = self
            .calls
            .iter()
            .map(|(kind, call)| {
                let value = json!({"calls": call.calls, "failed": call.failed, "bytes": call.bytes,
                    "time_ns": call.time, "outside": call.outside});
                (kind.name().to_string(), value)
            })
            .collect();
        let by_name = |counts: &mut dyn Iterator<Item = (&'static str, u64)>| -> Value {
            counts.map(|(name, n)| (name.to_string(), json!(n))).collect()
        };
        let value = json!({
            "recorded_by": self.header.recorded_by,
            "kernel": self.header.kernel,
            "processors": self.header.processors,
            "anonymized": self.header.anonymized,
            "roots": self.roots.iter().map(|(label, kind, on)| json!({"label": label, "kind": kind, "file_system": on}))
                .collect::<Vec<_>>(),
            "initial_tree": {
                "entries": by_name(&mut self.entries.iter().map(|(kind, n)| (kind.name(), *n))),
                "bytes": self.entry_bytes,
                "sparse_files": self.sparse,
                "sizes": by_name(&mut SIZES.iter().zip(self.sizes).map(|((name, _), n)| (*name, n))),
            },
            "created": self.created,
            "deepest_level": self.depth,
            "processes": self.processes,
            "threads": self.threads,
            "think_ns": self.header.has_think.then_some(self.think),
            "wall_ns": self.end.as_ref().map(|end| end.wall),
            "status": self.end.as_ref().and_then(|end| end.status),
            "syncs": by_name(&mut self.syncs.iter().map(|(kind, n)| (kind.name(), *n))),
            "marks": self.marks,
            "programs": self.programs,
            "calls": calls,
            "mapped_store_bytes": self.mapped_stores,
            "notes": self.end.as_ref().map(|end| &end.notes),
            "complete": self.incomplete.is_none(),
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_trace::{Builder, Name};

    fn sample() -> Vec<u8> {
        let mut trace = Builder::new();
        let dir = trace.dir(Builder::ROOT, "src");
        let node = trace.file(dir, "main.c", 5000);
        let file = trace.open(Builder::MAIN, dir, "main.c", node, 0);
        trace.read(Builder::MAIN, file, 4096, 4096);
        trace.close(Builder::MAIN, file);
        let child = trace.spawn(Builder::MAIN, true);
        let (_, out) = trace.create(child, dir, "main.o", 0o101);
        trace.write(child, out, 700);
        trace.call(
            child,
            Call::Sync { sync: SyncKind::Fsync, file: out, offset: 0, length: 0 },
            -28,
        );
        for (name, result) in [("cc1", -2), ("cc1", 0), ("as", 0), ("as", 0)] {
            let program = Name::new(name.as_bytes()).unwrap();
            trace.call(child, Call::Exec { program, at: None }, result);
        }
        trace.finish().unwrap()
    }

    #[test]
    fn a_summary_counts_calls_bytes_and_objects() {
        let summary = Summary::read(Reader::new(&sample()[..]).unwrap()).unwrap();
        let value: Value = serde_json::from_str(&summary.json().unwrap()).unwrap();
        assert_eq!(value["calls"]["open"]["calls"], 2);
        assert_eq!(value["calls"]["read"]["bytes"], 4096);
        assert_eq!(value["calls"]["write"]["bytes"], 700);
        assert_eq!(value["calls"]["sync"]["failed"], 1);
        assert_eq!(value["syncs"]["fsync"], 1);
        assert_eq!(value["initial_tree"]["sizes"]["to 64 KiB"], 1);
        assert_eq!((&value["created"], &value["deepest_level"]), (&json!(1), &json!(2)));
        assert_eq!((&value["processes"], &value["complete"]), (&json!(2), &json!(true)));
        // Eleven calls and the spawn, 1 us each.
        assert_eq!(value["think_ns"], 11_000);
        assert_eq!(value["programs"], json!({"as": 2, "cc1": 1}));
        assert!(summary.facts().contains(&"programs: as 2 times, cc1 once".to_string()));
    }

    #[test]
    fn a_truncated_trace_is_reported_as_truncated() {
        let bytes = sample();
        let summary = Summary::read(Reader::new(&bytes[..bytes.len() - 3]).unwrap()).unwrap();
        let text = crate::Format::Markdown.write(&summary, crate::Style::default()).unwrap();
        assert!(text.contains("the trace is truncated"), "{text}");
        assert!(text.contains("| open | 2 |"), "{text}");
    }
}
