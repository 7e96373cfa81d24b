//! Helper functions for the tests of recording.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]
#![allow(dead_code, reason = "each test uses a part of them")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use fsdyno_recorder::{Options, RecordMethod, Recorded, record};
use fsdyno_trace::{Base, CallKind, Checker, Event, Item, Reader};

/// Held during a recording: a recorder waits for all children of its process, so a process can have only one recorder.
static ONE: Mutex<()> = Mutex::new(());

pub struct Bench {
    _one: MutexGuard<'static, ()>,
    pub dir: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        let one = ONE.lock().unwrap_or_else(|it| it.into_inner());
        Bench { _one: one, dir: tempfile::tempdir().unwrap() }
    }

    pub fn tree(&self) -> PathBuf {
        let path = self.dir.path().join("tree");
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Records a command, with the tree as the root of the trace.
    pub fn record(&self, args: &[&str]) -> (Recorded, Vec<Item>) {
        let options = Options { trees: vec![self.tree()], ..Options::default() };
        self.record_with(&options, args)
    }

    pub fn record_with(&self, options: &Options, args: &[&str]) -> (Recorded, Vec<Item>) {
        let path = self.dir.path().join("out.trace");
        let args: Vec<String> = args.iter().map(|it| it.to_string()).collect();
        let recorded = record(options, &args, File::create(&path).unwrap()).unwrap();
        (recorded, items(&path))
    }

    /// Records a shell script that runs in the tree.
    pub fn script(&self, script: &str) -> (Recorded, Vec<Item>) {
        let script = format!("cd {} && {{ {script}\n}}", self.tree().display());
        self.record(&["sh", "-c", &script])
    }
}

pub fn items(path: &Path) -> Vec<Item> {
    let reader = Reader::new(File::open(path).unwrap()).unwrap();
    let items: Vec<Item> = reader.map(Result::unwrap).collect();
    // Checks each item in order: entries may follow events.
    let mut checker = Checker::new();
    for (at, item) in items.iter().enumerate() {
        let problem = checker.check(item).err();
        assert!(problem.is_none(), "item {at}: {problem:?}: {item:?}");
    }
    items
}

pub fn events(items: &[Item]) -> Vec<&Event> {
    items.iter().filter_map(|it| if let Item::Event(it) = it { Some(it) } else { None }).collect()
}

/// Returns the events on names that begin with `prefix`, with these names.
pub fn named<'i>(items: &'i [Item], prefix: &str) -> Vec<(&'i Event, String)> {
    let with_name = |it: &&'i Event| {
        let name = it.call.identities().names[0].and_then(|at| at.name.clone())?;
        let name = String::from_utf8_lossy(name.bytes()).into_owned();
        name.starts_with(prefix).then_some((*it, name))
    };
    events(items).iter().filter_map(with_name).collect()
}

pub fn compiled(dir: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let program = dir.join(source);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(format!("{source}.c"));
    let built = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags)
        .status();
    assert!(built.unwrap().success());
    program
}

/// Checks that the events on the files of the program are the calls that it counted.
pub fn none_is_lost(rounds: u64, how: RecordMethod, flags: &[&str]) -> Recorded {
    let bench = Bench::new();
    let program = compiled(bench.dir.path(), "counted", flags);
    let tree = bench.tree();
    let args = [program.to_str().unwrap(), tree.to_str().unwrap(), "8", &rounds.to_string()];
    let options = Options { trees: vec![tree.clone()], how, ..Options::default() };
    let (recorded, items) = bench.record_with(&options, &args);
    assert!(recorded.status.success(), "{flags:?}");
    let mut counts: BTreeMap<CallKind, u64> = BTreeMap::new();
    let mut own = std::collections::HashSet::new();
    for event in events(&items) {
        let uses = event.call.identities();
        let is_in_tree = uses.names[0].and_then(|at| at.name.as_ref()).is_some_and(
            |name| matches!(name.bytes(), [b't' | b'o', digit] if digit.is_ascii_digit()),
        );
        if is_in_tree && uses.opens.is_some() {
            own.extend(uses.opens);
        }
        if is_in_tree || uses.files[0].is_some_and(|file| own.contains(&file)) {
            *counts.entry(event.call.kind()).or_default() += 1;
        }
    }
    let kinds = [
        CallKind::Open,
        CallKind::Write,
        CallKind::Read,
        CallKind::Stat,
        CallKind::Close,
        CallKind::Rename,
        CallKind::Access,
        CallKind::Unlink,
    ];
    let expected: BTreeMap<CallKind, u64> =
        kinds.into_iter().map(|kind| (kind, 8 * rounds)).collect();
    assert_eq!(counts, expected, "{:?}", recorded.end.notes);
    recorded
}

/// Records the program `sees`. Returns its calls as text, and the number of calls recorded without a stop.
pub fn sees(how: RecordMethod) -> (Vec<String>, u64) {
    let bench = Bench::new();
    let program = compiled(bench.dir.path(), "sees", &[]);
    let tree = bench.tree();
    let args = [program.to_str().unwrap(), tree.to_str().unwrap()];
    let options = Options { trees: vec![bench.tree()], how, ..Options::default() };
    let (recorded, items) = bench.record_with(&options, &args);
    assert!(recorded.status.success(), "{how:?}: {:?}", recorded.status);
    // Only the program's own calls, without identities: libraries and identities differ.
    let is_in_tree = |it: &&Event| {
        it.call.identities().names[0].is_some_and(|at| match &at.name {
            Some(name) => name.bytes().starts_with(b"s-"),
            None => at.base == Base::Cwd,
        })
    };
    let all: Vec<String> = events(&items)
        .into_iter()
        .filter(is_in_tree)
        .map(|it| {
            let at = it.call.identities().names[0].unwrap();
            let name = at.name.as_ref().map(|it| String::from_utf8_lossy(it.bytes()));
            let way = (at.base, at.walked, at.beyond, at.links, at.node.is_some());
            format!("{} {name:?} {way:?} {}", it.call.kind().name(), it.result)
        })
        .collect();
    (all, recorded.inside)
}
