//! Copies, packs and unpacks real trees: the results equal the originals, GNU tar reads the
//! archive, and faults are reported.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{Failure, Outcome, Recorder, run_phase, verify};
use fsdyno_record::plan::VerifyMode;
use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::{
    Call, Compound, Contents, DirSlot, Op, OpSource, Setting, Share, Workload, workloads,
};

const ROOT: DirSlot = DirSlot::ROOT;
const PACK: usize = 2;

fn root(path: &Path) -> OwnedFd {
    fs::File::open(path).unwrap().into()
}

fn contents() -> Arc<Contents> {
    Arc::new(Contents::new(5))
}

fn build(set: &[(&str, &str)]) -> Box<dyn Workload> {
    let kind = workloads::find("source-tree").unwrap();
    kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap()
}

/// Runs the ops below `path`.
fn issue(path: &Path, source: &mut dyn OpSource) -> (Result<Outcome, Failure>, Recorder) {
    let mut issuer = SyncIssuer::new(root(path), contents());
    let mut recorder = Recorder::new();
    let outcome = run_phase(source, &mut issuer, &mut recorder, &mut |_| {});
    (outcome, recorder)
}

/// One op.
struct Once(Option<Op>);

impl OpSource for Once {
    fn next(&mut self, op: &mut Op) -> bool {
        self.0.take().map(|next| *op = next).is_some()
    }
}

fn issue_one(
    path: &Path,
    call: Call,
    name: &str,
    second_name: &str,
) -> (Result<Outcome, Failure>, Recorder) {
    let mut op = Op { call, ..Op::default() };
    op.name.push(name.as_bytes());
    op.second_name.push(second_name.as_bytes());
    issue(path, &mut Once(Some(op)))
}

#[test]
fn every_phase_makes_its_exact_calls_and_leaves_its_exact_trees() {
    for size in ["mix", "0", "10240", "140000"] {
        let folder = tempfile::tempdir().unwrap();
        let set = [("trees", "2"), ("files", "80"), ("directories", "30"), ("size", size)];
        let work = build(&set);
        for (phase, spec) in work.phases().iter().enumerate() {
            let (outcome, recorder) = issue(folder.path(), work.ops(phase, Share::WHOLE).as_mut());
            outcome.unwrap();
            let mut counts = recorder.counts();
            counts.remove(&OpKind::Readdir);
            assert_eq!(counts, work.counts(phase, 1), "size={size} {}", spec.name);
            let tree = work.tree(phase);
            let report = verify(
                root(folder.path()).as_fd(),
                tree.as_ref(),
                &contents(),
                VerifyMode::Full,
                5,
                &mut |_| {},
            );
            let report = report.unwrap();
            assert_eq!(report.examples, Vec::<String>::new(), "size={size} {}", spec.name);
            assert_eq!(report.files, tree.files());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// A folder after the first phases of the workload, the last of which is `last`.
fn folder_after(last: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let work = build(&[("trees", "2"), ("files", "50"), ("directories", "20")]);
    for phase in 0..=last {
        issue(folder.path(), work.ops(phase, Share::WHOLE).as_mut()).0.unwrap();
    }
    folder
}

#[test]
fn gnu_tar_finds_no_difference_between_the_archive_and_the_tree() {
    let folder = folder_after(PACK);
    let mut tar = Command::new("tar");
    tar.args(["--compare", "--file", "archive.tar"]).current_dir(&folder);
    let output = match tar.output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: tar: {error}"),
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // Owners are not compared: the archive has 0, and the tree belongs to the user.
    let differences: Vec<&str> = text.lines().filter(|line| !line.contains("id differs")).collect();
    assert_eq!(differences, Vec::<&str>::new());
    let members = Command::new("tar").args(["-tf", "archive.tar"]).current_dir(&folder).output();
    // 100 files, 40 directories, and the directory that holds the trees.
    assert_eq!(String::from_utf8(members.unwrap().stdout).unwrap().lines().count(), 141);
}

#[test]
fn an_archive_is_unpacked_below_the_named_directory() {
    let folder = folder_after(PACK);
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    let call = Call::Compound(Compound::UnpackTree { dir: ROOT, to: ROOT, compute: Nanos(0) });
    issue_one(folder.path(), call, "archive.tar", "elsewhere").0.unwrap();
    assert!(folder.path().join("elsewhere/in/tree1").is_dir());
}

#[test]
fn a_damaged_or_truncated_archive_is_reported() {
    let call = Call::Compound(Compound::UnpackTree { dir: ROOT, to: ROOT, compute: Nanos(0) });
    let message = |damage: &dyn Fn(&mut Vec<u8>)| {
        let folder = folder_after(PACK);
        let archive = folder.path().join("archive.tar");
        let mut bytes = fs::read(&archive).unwrap();
        damage(&mut bytes);
        fs::write(&archive, bytes).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        issue_one(folder.path(), call, "archive.tar", "out").0.unwrap_err().to_string()
    };
    let damaged = message(&|bytes| bytes[1] ^= 1);
    assert!(
        damaged.starts_with("read archive.tar: ") && damaged.ends_with("after 2 ops"),
        "{damaged}"
    );
    let cut = message(&|bytes| bytes.truncate(10_000));
    assert!(cut.starts_with("read archive.tar: "), "{cut}");
}

#[test]
fn an_existing_target_is_not_overwritten() {
    let folder = folder_after(0);
    fs::create_dir(folder.path().join("copy")).unwrap();
    let failure = issue_one(
        folder.path(),
        Call::Compound(Compound::CopyTree { dir: ROOT, to: ROOT }),
        "in",
        "copy",
    );
    let text = failure.0.unwrap_err().to_string();
    assert!(text.starts_with("mkdir copy: File exists"), "{text}");
    fs::write(folder.path().join("archive.tar"), "mine").unwrap();
    let call = Call::Compound(Compound::PackTree { dir: ROOT, to: ROOT, compute: Nanos(0) });
    let text = issue_one(folder.path(), call, "in", "archive.tar").0.unwrap_err().to_string();
    assert!(text.starts_with("create archive.tar: File exists"), "{text}");
    assert_eq!(fs::read(folder.path().join("archive.tar")).unwrap(), b"mine");
}

#[test]
fn a_special_file_is_reported_and_not_skipped() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    symlink("x", folder.path().join("in/link")).unwrap();
    let copy = issue_one(
        folder.path(),
        Call::Compound(Compound::CopyTree { dir: ROOT, to: ROOT }),
        "in",
        "copy",
    )
    .0;
    let text = copy.unwrap_err().to_string();
    assert!(text.starts_with("open in/link: Operation not supported"), "{text}");
}

#[test]
fn compression_time_is_in_the_phase_and_in_no_latency() {
    let folder = folder_after(0);
    let compute = Nanos(2_000_000);
    let call = Call::Compound(Compound::PackTree { dir: ROOT, to: ROOT, compute });
    let (outcome, recorder) = issue_one(folder.path(), call, "in", "archive.tar");
    let outcome = outcome.unwrap();
    let records = fs::metadata(folder.path().join("archive.tar")).unwrap().len() / 10_240;
    assert!(outcome.think_time >= Nanos(records * compute.0), "{:?}", outcome.think_time);
    let latencies: u64 = recorder.ops().values().map(|stats| stats.total_ns.0).sum();
    let phase = outcome.returned.since(outcome.started);
    assert!(latencies <= phase.0 - outcome.think_time.0, "{latencies} ns of {phase:?}");
}
