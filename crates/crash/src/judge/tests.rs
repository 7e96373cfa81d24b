//! Tests of the oracle against the states that a file system may leave, case by case and by brute force.

use fsdyno_workload::{Call, DirSlot, OpenFlags};
use proptest::prelude::*;

use super::*;
use crate::tree::tests::{FILE, Script, bytes, content, file};
use fsdyno_filesystem::Names;

const ROOT: DirSlot = DirSlot::ROOT;
const BOTH: [Names; 2] = [Names::WithFile, Names::WithDirectory];

fn directory(path: &str) -> Entry {
    Entry { kind: Kind::Directory, ..file(path, b"") }
}

impl Script {
    fn mkdir(&mut self, path: &str) -> &mut Script {
        self.op(Call::Mkdir { dir: ROOT, mode: 0o755 }, path, "")
    }

    fn sync(&mut self) -> &mut Script {
        self.op(Call::Sync, "", "")
    }

    /// Calls fsync(2) on a directory, or on the root if the path is empty.
    fn sync_dir(&mut self, path: &str) -> &mut Script {
        if path.is_empty() {
            return self.op(Call::FsyncDir { dir: ROOT }, "", "");
        }
        let slot = DirSlot(3);
        self.op(Call::OpenDir { dir: ROOT, slot }, path, "");
        self.op(Call::FsyncDir { dir: slot }, "", "");
        self.op(Call::CloseDir { slot }, "", "")
    }

    fn link(&mut self, from: &str, to: &str) -> &mut Script {
        self.op(Call::Link { dir: ROOT, to: ROOT }, from, to)
    }

    fn unlink(&mut self, path: &str) -> &mut Script {
        self.op(Call::Unlink { dir: ROOT }, path, "")
    }

    /// Returns the violations if only these names are found, each with the contents of the file with that number.
    fn violations(&self, found: &[(&str, u64)]) -> u64 {
        let directories = ["tmp", "new", "cur"]
            .into_iter()
            .filter(|path| self.tree.current_node(path.as_bytes()).is_some());
        let files = found.iter().map(|(path, id)| file(path, &content(*id, 700)));
        self.judge(directories.map(directory).chain(files).collect()).violations()
    }
}

/// Returns a maildir with a message in tmp whose bytes are synced but whose name is not.
fn delivered(names: Names) -> Script {
    let mut script = Script::new(names);
    script.mkdir("tmp").mkdir("new").mkdir("cur").sync();
    script.create("tmp/x").write(bytes(1, 700)).fsync().close();
    script
}

/// fsync of `new` has returned, so the message is in `new` or, if the reader's later rename persisted, in `cur`.
#[test]
fn a_delivered_message_is_lost_if_it_has_only_its_temporary_name() {
    for names in BOTH {
        let mut script = delivered(names);
        script.rename("tmp/x", "new/x").sync_dir("new");
        assert_eq!(script.violations(&[("new/x", 1)]), 0);
        assert_eq!(script.violations(&[("tmp/x", 1)]), 1, "{names:?}");
        script.rename("new/x", "cur/x");
        for legal in [&[("new/x", 1)][..], &[("cur/x", 1)], &[("new/x", 1), ("cur/x", 1)]] {
            assert_eq!(script.violations(legal), 0, "{names:?}: {legal:?}");
        }
        // The directory tmp was not synced, so the old name may exist as well, but not alone.
        assert_eq!(script.violations(&[("tmp/x", 1), ("new/x", 1)]), 0, "{names:?}");
        assert_eq!(script.violations(&[("tmp/x", 1)]), 1, "{names:?}");
        let entries = ["tmp", "new", "cur"].map(directory).into_iter();
        let entries = entries.chain([file("tmp/x", &content(1, 700))]).collect();
        let examples = script.judge(entries).examples.join("\n");
        assert!(
            examples.contains("new/x: is missing") && examples.contains("and so is cur/x"),
            "{examples}"
        );
        assert!(examples.contains("it exists as tmp/x, an older name"), "{examples}");
        assert_eq!(script.violations(&[]), 2, "{names:?}: its name and its bytes");
        // The reader's rename is durable too.
        script.sync_dir("cur");
        assert_eq!(script.violations(&[("cur/x", 1)]), 0);
        assert_eq!(script.violations(&[("new/x", 1)]), 1, "{names:?}");
        assert_eq!(script.violations(&[("tmp/x", 1)]), 1, "{names:?}");
        script.unlink("cur/x");
        assert_eq!(script.violations(&[]), 0, "{names:?}");
    }
}

#[test]
fn a_name_that_an_op_in_flight_creates_is_neither_back_nor_lost() {
    let mut script = Script::new(Names::WithFile);
    script.create("new/x").write(bytes(1, 100)).fsync().close();
    script.at = 1_000_000;
    script.in_flight(Call::Rename { dir: ROOT, to: ROOT }, "new/x", "cur/x");
    let found = script.judge(vec![file("cur/x", &content(1, 100))]);
    assert_eq!((found.names_back, found.lost_ns), (0, Nanos(0)), "{found:?}");
}

#[test]
fn a_rename_in_flight_may_have_persisted() {
    for names in BOTH {
        let mut script = delivered(names);
        script.rename("tmp/x", "new/x").sync_dir("new");
        script.in_flight(Call::Rename { dir: ROOT, to: ROOT }, "new/x", "cur/x");
        for (found, expected) in [("new/x", 0), ("cur/x", 0), ("tmp/x", 1)] {
            assert_eq!(script.violations(&[(found, 1)]), expected, "{names:?}: {found}");
        }
    }
}

/// Delivers as qmail does: with a link and a removal instead of the rename.
#[test]
fn a_link_that_was_durable_is_not_excused_by_another_link_of_the_file() {
    for names in BOTH {
        let mut script = delivered(names);
        script.sync_dir("tmp").link("tmp/x", "new/x").sync_dir("new").rename("new/x", "cur/x");
        assert_eq!(script.violations(&[("tmp/x", 1), ("cur/x", 1)]), 0);
        assert_eq!(script.violations(&[("tmp/x", 1)]), 1, "{names:?}");
        assert_eq!(script.violations(&[("new/x", 1)]), 1, "{names:?}: tmp/x was not removed");
        script.unlink("tmp/x");
        assert_eq!(script.violations(&[("new/x", 1)]), 0, "{names:?}");
        assert_eq!(script.violations(&[("tmp/x", 1)]), 1, "{names:?}");
    }
}

/// The names below a renamed directory are tested in `recorded/tests.rs`.
#[test]
fn a_renamed_directory_is_lost_if_it_has_only_an_older_name() {
    for names in BOTH {
        let mut script = Script::new(names);
        script.mkdir("a").sync_dir("").rename("a", "b").sync().rename("b", "c");
        let found = |path: &str| script.judge(vec![directory(path)]).violations();
        assert_eq!((found("b"), found("c")), (0, 0), "{names:?}");
        assert!(found("a") > 0, "{names:?}");
        assert_eq!(script.judge(Vec::new()).violations(), 1, "{names:?}");
    }
}

#[test]
fn a_file_that_was_replaced_keeps_its_name() {
    for names in BOTH {
        let mut script = delivered(names);
        script.rename("tmp/x", "new/x").sync_dir("new");
        script.create("tmp/y").write(bytes(2, 700)).fsync().close().rename("tmp/y", "new/x");
        for (found, expected) in [(&[("new/x", 1)][..], 0), (&[("new/x", 2)], 0), (&[], 1)] {
            let violations = script.violations(found);
            match names {
                Names::WithDirectory => assert_eq!(violations, expected, "{found:?}"),
                // The second file's name in tmp was durable too, so it must be found somewhere.
                Names::WithFile => assert_eq!(violations > 0, found != [("new/x", 2)], "{found:?}"),
            }
        }
    }
}

#[test]
fn a_renamed_file_is_lost_if_the_file_that_it_replaced_still_exists() {
    for names in BOTH {
        let mut script = delivered(names);
        script.create("tmp/y").write(bytes(2, 700)).fsync().close().sync();
        script.rename("tmp/x", "tmp/y").unlink("tmp/y");
        let legal = [&[][..], &[("tmp/y", 1)], &[("tmp/x", 1)], &[("tmp/x", 1), ("tmp/y", 2)]];
        for found in legal {
            assert_eq!(script.violations(found), 0, "{names:?}: {found:?}");
        }
        assert_eq!(script.violations(&[("tmp/y", 2)]), 1, "{names:?}");
    }
}

/// A directory whose own name was not acknowledged may be lost together with its names, but only if names become
/// durable with their directory.
#[test]
fn names_in_an_unacknowledged_directory_may_be_lost_with_it() {
    for names in BOTH {
        let mut script = Script::new(names);
        script.mkdir("new").create("new/x").write(bytes(1, 700)).fsync().close().sync_dir("new");
        let violations = script.judge(Vec::new()).violations();
        assert_eq!(violations > 0, names == Names::WithFile, "{names:?}: {violations}");
        assert_eq!(script.judge(vec![directory("new")]).violations(), 2, "{names:?}");
        script.sync_dir("");
        assert!(script.judge(Vec::new()).violations() > 0, "{names:?}");
    }
}

/// An op in the enumerated histories: its names are indices into [`PATHS`].
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Unlink(usize),
    Fsync(usize),
    FsyncDir(bool),
    Mkdir,
    Sync,
}

/// Files in the root and in one directory.
const PATHS: [&str; 4] = ["a", "b", "d/a", "d/b"];
/// Index of the directory, after those of the files.
const DIR: usize = PATHS.len();
/// Node of the directory.
const DIR_NODE: usize = usize::MAX;

/// A change of the node that a name refers to.
#[derive(Clone, Copy, Debug)]
struct Change {
    node: Option<usize>,
    /// The change of another name, to which a rename moved the old node.
    moved: Option<(usize, usize)>,
}

/// A reference file system that follows the documented guarantees: each name goes through its changes in order and
/// independently; a durable change survives, and a rename removes an acknowledged name only after the new one is
/// created.
#[derive(Clone, Debug)]
struct Reference {
    names_with: Names,
    /// All changes of each name; the first is its initial absence.
    changes: Vec<Vec<Change>>,
    /// The durable change of each name; `ever` has all that were durable at some time.
    durable: Vec<usize>,
    ever: Vec<Vec<usize>>,
    /// For each file, whether it was without a name at some time. Its bytes are synced when it is created.
    files: Vec<bool>,
}

impl Reference {
    fn new(names_with: Names) -> Reference {
        let nothing = Change { node: None, moved: None };
        Reference {
            names_with,
            changes: vec![vec![nothing]; PATHS.len() + 1],
            durable: vec![0; PATHS.len() + 1],
            ever: vec![Vec::new(); PATHS.len() + 1],
            files: Vec::new(),
        }
    }

    fn now(&self, path: usize) -> Option<usize> {
        self.changes[path].last()?.node
    }

    fn set(&mut self, path: usize, node: Option<usize>, moved: Option<(usize, usize)>) {
        let old = self.now(path);
        self.changes[path].push(Change { node, moved });
        let named = |id: usize| (0..PATHS.len()).any(|path| self.now(path) == Some(id));
        if let Some(old) = old.filter(|old| *old != DIR_NODE && !named(*old)) {
            self.files[old] = true;
        }
    }

    fn settle(&mut self, path: usize) {
        self.durable[path] = self.changes[path].len() - 1;
        self.ever[path].push(self.durable[path]);
    }

    fn is_valid(&self, step: Step) -> bool {
        let parent = |path: usize| path < 2 || self.now(DIR).is_some();
        let free = |path: usize| self.now(path).is_none() && parent(path);
        match step {
            Step::Create(path) => free(path),
            Step::Rename(from, to) => from != to && self.now(from).is_some() && parent(to),
            Step::Link(from, to) => self.now(from).is_some() && free(to),
            Step::Unlink(path) | Step::Fsync(path) => self.now(path).is_some(),
            Step::FsyncDir(inner) => !inner || self.now(DIR).is_some(),
            Step::Mkdir => self.now(DIR).is_none(),
            Step::Sync => true,
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Create(path) => {
                self.files.push(false);
                self.set(path, Some(self.files.len() - 1), None);
                self.fsync(path);
            }
            // rename(2) changes nothing if both names refer to the same file.
            Step::Rename(from, to) if self.now(from) == self.now(to) => {}
            Step::Rename(from, to) => {
                let node = self.now(from);
                self.set(to, node, None);
                let place = (to, self.changes[to].len() - 1);
                self.set(from, None, Some(place));
            }
            Step::Link(from, to) => self.set(to, self.now(from), None),
            Step::Unlink(path) => self.set(path, None, None),
            Step::Fsync(path) => self.fsync(path),
            Step::FsyncDir(inner) => {
                let settled = if inner { vec![2, 3] } else { vec![0, 1, DIR] };
                settled.into_iter().for_each(|path| self.settle(path));
                if inner && self.names_with == Names::WithFile {
                    self.settle(DIR);
                }
            }
            Step::Mkdir => self.set(DIR, Some(DIR_NODE), None),
            Step::Sync => {
                (0..=DIR).for_each(|path| self.settle(path));
            }
        }
    }

    fn fsync(&mut self, path: usize) {
        let Some(id) = self.now(path) else { return };
        if self.names_with == Names::WithFile {
            for path in (0..PATHS.len())
                .filter(|path| self.changes[*path].last().unwrap().node == Some(id))
                .collect::<Vec<_>>()
            {
                self.settle(path);
                if path >= 2 {
                    self.settle(DIR);
                }
            }
        }
    }

    /// Returns whether a change created a name that was durable, or that replaced a durable one through renames.
    fn is_acknowledged(&self, path: usize, at: usize) -> bool {
        let from_another = || {
            (0..DIR)
                .flat_map(|from| (1..self.changes[from].len()).map(move |k| (from, k)))
                .find(|(from, k)| self.changes[*from][*k].moved == Some((path, at)))
        };
        self.ever[path].contains(&at)
            || from_another().is_some_and(|(from, k)| self.is_acknowledged(from, k - 1))
    }

    /// Returns whether a later name of the file, through renames, was durable.
    fn is_replaced(&self, path: usize, at: usize) -> bool {
        let next = self.changes[path].get(at + 1).and_then(|change| change.moved);
        next.is_some_and(|(path, at)| self.ever[path].contains(&at) || self.is_replaced(path, at))
    }

    /// Returns whether a name created by a change, or its successor, survives or may be gone, if the names are in these
    /// states.
    fn is_kept(&self, path: usize, k: usize, at: &[usize]) -> bool {
        // A directory survives with the names in it if metadata persists in order; otherwise they may be lost with it,
        // whatever their states.
        let lost = path >= 2 && at[DIR] == 0;
        if lost && self.names_with == Names::WithDirectory {
            return true;
        }
        if at[path] <= k {
            return at[path] == k && !lost;
        }
        self.successor(path, k).is_none_or(|(path, k)| self.is_kept(path, k, at))
    }

    /// Returns the change that must be found if this one is not: that of the new name after a rename, or of the file
    /// that replaced its own. `None` if nothing must be found.
    fn successor(&self, path: usize, k: usize) -> Option<(usize, usize)> {
        let next = self.changes[path].get(k + 1)?;
        match next.moved {
            Some(moved) => self.is_acknowledged(path, k).then_some(moved),
            None => next.node.map(|_| (path, k + 1)),
        }
    }

    /// Returns whether a successor was durable, which replaces all before it.
    fn is_superseded(&self, path: usize, k: usize) -> bool {
        let next = self.successor(path, k);
        next.is_some_and(|(path, k)| self.ever[path].contains(&k) || self.is_superseded(path, k))
    }

    /// Returns whether the names may be in these states.
    fn is_legal(&self, at: &[usize]) -> bool {
        let ordered = self.names_with == Names::WithFile;
        let mut durable = (0..DIR).flat_map(|path| self.ever[path].iter().map(move |k| (path, *k)));
        let durable = durable.all(|(path, k)| {
            self.changes[path][k].node.is_none()
                || self.is_superseded(path, k)
                || self.is_kept(path, k, at)
        });
        let lost = |(id, was_nameless): (usize, &bool)| {
            let named = (0..DIR).any(|path| {
                self.ever[path].iter().any(|k| self.changes[path][*k].node == Some(id))
            });
            let is_present = (0..DIR).any(|path| {
                let may_be =
                    |k: usize| self.changes[path][k].node == Some(id) && !self.is_replaced(path, k);
                if path < 2 || at[DIR] > 0 {
                    return may_be(at[path]);
                }
                // A name in an absent directory may be in any state.
                !ordered && (0..self.changes[path].len()).any(may_be)
            });
            named && !was_nameless && !is_present
        };
        durable && !self.files.iter().enumerate().any(lost)
    }

    /// Returns whether a name was given twice to the file that it refers to. The oracle cannot distinguish the two, and
    /// accepts both as found.
    fn is_ambiguous(&self, found: &[Option<usize>]) -> bool {
        let times =
            |path: usize| self.changes[path].iter().filter(|it| it.node == found[path]).count();
        (0..DIR).any(|path| found[path].is_some() && times(path) > 1)
    }

    /// Returns all legal outcomes: the node of each name.
    fn legal(&self) -> std::collections::BTreeSet<Vec<Option<usize>>> {
        let mut all = std::collections::BTreeSet::new();
        let mut at = self.durable.clone();
        loop {
            if self.is_legal(&at) {
                let is_reachable = |path: usize| path < 2 || path == DIR || at[DIR] > 0;
                let node =
                    |path: usize| self.changes[path][at[path]].node.filter(|_| is_reachable(path));
                all.insert((0..=DIR).map(node).collect());
            }
            let Some(next) = (0..=DIR).find(|path| at[*path] + 1 < self.changes[*path].len())
            else {
                return all;
            };
            at[next] += 1;
            at[..next].copy_from_slice(&self.durable[..next]);
        }
    }
}

impl Script {
    fn step(&mut self, step: Step, number: u64) {
        let path = |at: usize| PATHS[at];
        let flags = OpenFlags { write: true, ..OpenFlags::NONE };
        match step {
            Step::Create(at) => {
                self.create(path(at)).write(bytes(number, 700)).fsync().close();
            }
            Step::Rename(from, to) => drop(self.rename(path(from), path(to))),
            Step::Link(from, to) => drop(self.link(path(from), path(to))),
            Step::Unlink(at) => drop(self.unlink(path(at))),
            Step::Fsync(at) => {
                self.op(Call::Open { dir: ROOT, file: FILE, flags }, path(at), "").fsync().close();
            }
            Step::FsyncDir(inner) => drop(self.sync_dir(if inner { "d" } else { "" })),
            Step::Mkdir => drop(self.mkdir("d")),
            Step::Sync => drop(self.sync()),
        }
    }

    fn begin(&mut self, step: Step) {
        let path = |at: usize| PATHS[at];
        match step {
            Step::Rename(from, to) => {
                self.in_flight(Call::Rename { dir: ROOT, to: ROOT }, path(from), path(to));
            }
            Step::Unlink(at) => drop(self.in_flight(Call::Unlink { dir: ROOT }, path(at), "")),
            _ => {}
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let path = || 0..PATHS.len();
    prop_oneof![
        3 => path().prop_map(Step::Create),
        5 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Step::Link(from, to)),
        2 => path().prop_map(Step::Unlink),
        1 => path().prop_map(Step::Fsync),
        4 => any::<bool>().prop_map(Step::FsyncDir),
        1 => Just(Step::Mkdir),
        1 => Just(Step::Sync),
    ]
}

/// Compares the oracle's verdict on every state of the names with the reference.
fn compare(names: Names, steps: &[Step], last: Option<Step>) -> Result<(), TestCaseError> {
    let (mut reference, mut script) = (Reference::new(names), Script::new(names));
    let mut done = Vec::new();
    for step in steps {
        if reference.is_valid(*step) {
            script.step(*step, reference.files.len() as u64 + 1);
            reference.apply(*step);
            done.push(*step);
        }
    }
    if let Some(last) = last.filter(|last| reference.is_valid(*last)) {
        script.begin(last);
        if matches!(last, Step::Rename(..) | Step::Unlink(_)) {
            reference.apply(last);
            done.push(last);
        }
    }
    let legal = reference.legal();
    let kinds = reference.files.len() + 1;
    let node = |code: usize| code.checked_sub(1);
    for state in 0..kinds.pow(PATHS.len() as u32) * 2 {
        let mut remaining = state / 2;
        let mut found: Vec<Option<usize>> = Vec::new();
        for _ in PATHS {
            found.push(node(remaining % kinds));
            remaining /= kinds;
        }
        found.push((state % 2 == 1).then_some(DIR_NODE));
        if found[DIR].is_none() && (found[2].is_some() || found[3].is_some()) {
            continue;
        }
        let entries = (0..PATHS.len()).filter_map(|path| {
            Some(Entry {
                inode: path as u64,
                ..file(PATHS[path], &content(found[path]? as u64 + 1, 700))
            })
        });
        let entries = entries.chain(found[DIR].map(|_| directory("d")));
        let findings = script.judge(entries.collect());
        let accepted = findings.violations() == 0;
        if accepted && reference.is_ambiguous(&found) {
            continue;
        }
        prop_assert_eq!(
            accepted,
            legal.contains(&found),
            "{:?}: {:?}: found {:?}: {:?}",
            names,
            done,
            found,
            findings
        );
    }
    Ok(())
}

/// An older file under the new name of a rename shows that the rename was not done.
#[test]
fn a_file_is_lost_if_each_of_its_new_names_has_an_older_file() {
    use Step::*;
    let renamed_back = [Create(0), Create(1), Rename(0, 1), Rename(1, 0), Unlink(0)];
    let renamed_again = [Create(0), Create(1), Rename(0, 1), Rename(1, 2)];
    for names in BOTH {
        compare(names, &renamed_back, None).unwrap();
        compare(names, &[&[Mkdir, Sync], &renamed_again[..]].concat(), None).unwrap();
    }
    let mut script = Script::new(Names::WithFile);
    renamed_back.iter().enumerate().for_each(|(at, step)| script.step(*step, at as u64 + 1));
    assert_eq!(script.violations(&[("b", 2)]), 1);
    assert_eq!(script.violations(&[("a", 1), ("b", 2)]), 0);
}

/// Returns the number of random histories: they take one second, or two minutes in `make test-full`.
fn cases() -> u32 {
    if std::env::var("FSDYNO_TEST").is_ok_and(|it| it == "full") { 3_000_000 } else { 25_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// The oracle accepts exactly the states that the reference may leave, except for those that it cannot distinguish.
    #[test]
    fn the_oracle_accepts_exactly_the_states_that_a_file_system_may_leave(
        steps in proptest::collection::vec(step(), 1..10),
        last in proptest::option::of(step()),
    ) {
        for names in BOTH {
            compare(names, &steps, last)?;
        }
    }
}
