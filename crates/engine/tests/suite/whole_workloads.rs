//! Tests the engine with whole workloads on a real directory: their counts, their trees, and the faults that verification
//! finds.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use fsdyno_engine::issue::null::Null;
use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::{Issuer, Recorder, run_phase, verify};
use fsdyno_record::plan::VerifyMode;
use fsdyno_record::trial::VerifyReport;
use fsdyno_workload::{Setting, Share, Workload, workloads};

use crate::engine::{contents, root};

fn build(name: &str, set: &[(&str, &str)]) -> Box<dyn Workload> {
    let kind = workloads::find(name).unwrap();
    kind.build(&kind.resolve(set).unwrap(), &Setting::seed(5)).unwrap()
}

fn run(work: &dyn Workload, phase: usize, issuer: &mut dyn Issuer) -> Recorder {
    let mut recorder = Recorder::new();
    let mut ops = work.ops(phase, Share::WHOLE);
    run_phase(ops.as_mut(), issuer, &mut recorder, &mut |_| {}).unwrap();
    recorder
}

fn verify_phase(path: &Path, work: &dyn Workload, phase: usize, mode: VerifyMode) -> VerifyReport {
    verify(root(path).as_fd(), work.tree(phase).as_ref(), &contents(), mode, 5, &mut |_| {})
        .unwrap()
}

/// Returns whether the recorded counts are those of the workload.
fn counts_match(work: &dyn Workload, phase: usize, recorder: &Recorder) -> bool {
    let counts = recorder.counts();
    work.counts(phase, 1).iter().all(|(kind, count)| counts.get(kind) == Some(count))
}

#[test]
fn every_workload_runs_for_real_with_its_exact_counts_and_leaves_its_tree() {
    let mut cases: Vec<(&str, Vec<(&str, &str)>)> =
        vec![("dirops", vec![("files", "300"), ("stat", "yes"), ("size", "100")])];
    for order in ["readdir", "inode", "name", "creation", "reverse", "random"] {
        cases.push(("tarball", vec![("files", "300"), ("order", order)]));
    }
    cases.push(("dirops", vec![("files", "300"), ("names", "random"), ("name-length", "255")]));
    cases.push(("fdtree", vec![("levels", "2"), ("dirs", "4"), ("files", "5"), ("size", "2")]));
    cases.push(("many-files", vec![("widths", "3/4/2"), ("files", "5"), ("data", "random")]));
    for kind in ["3000", "link", "symlink"] {
        let start = [("file-size", "64K"), ("seekers", "1"), ("files", "1"), ("dirs", "2")];
        cases.push(("bonnie", start.into_iter().chain([("files-max", kind)]).collect()));
    }
    let bray = [("program", "bonnie"), ("file-size", "1M"), ("seekers", "1"), ("data", "zeros")];
    cases.push(("bonnie", bray.to_vec()));
    for (name, parameters) in cases {
        let folder = tempfile::tempdir().unwrap();
        let work = build(name, &parameters);
        for phase in 0..work.phases().len() {
            let mut issuer = SyncIssuer::new(root(folder.path()), contents());
            let recorder = run(work.as_ref(), phase, &mut issuer);
            assert!(counts_match(work.as_ref(), phase, &recorder), "{name} {parameters:?}");
            let report = verify_phase(folder.path(), work.as_ref(), phase, VerifyMode::Full);
            assert_eq!(
                report.examples,
                Vec::<String>::new(),
                "{name} {parameters:?} phase {phase}"
            );
            assert_eq!(report.files, work.tree(phase).files());
        }
    }
}

#[test]
fn the_null_issuer_counts_the_same_ops_without_calls() {
    let work = build("tarball", &[("files", "200"), ("order", "random")]);
    for phase in 0..2 {
        assert!(counts_match(work.as_ref(), phase, &run(work.as_ref(), phase, &mut Null)));
    }
}

/// Extracts 100 files, damages them, and returns the verifier's findings.
fn findings_after(mode: VerifyMode, damage: impl Fn(&Path)) -> (u64, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let work = build("tarball", &[("files", "100"), ("directories", "2"), ("size", "5000")]);
    run(work.as_ref(), 0, &mut SyncIssuer::new(root(folder.path()), contents()));
    damage(folder.path());
    let report = verify_phase(folder.path(), work.as_ref(), 0, mode);
    assert_eq!(report.mode, mode);
    (report.problems, report.examples)
}

/// Replaces a file's bytes and restores its modification time, which the verifier checks too.
fn overwrite(path: &Path, bytes: &[u8]) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn every_fault_on_disk_is_found_and_reported() {
    let full_findings = |damage: fn(&Path)| findings_after(VerifyMode::Full, damage);
    assert_eq!(full_findings(|_| {}), (0, vec![]));
    assert_eq!(
        full_findings(|folder| fs::remove_file(folder.join("t/d0/f07")).unwrap()),
        (1, vec!["1 of 100 files are missing".into()])
    );
    assert_eq!(
        full_findings(|folder| fs::write(folder.join("t/extra"), b"").unwrap()),
        (1, vec!["t/extra: should not be there".into()])
    );
    assert_eq!(
        full_findings(
            |folder| fs::rename(folder.join("t/d0/f07"), folder.join("t/d1/f07")).unwrap()
        ),
        (2, vec!["t/d1/f07: should not be there".into(), "1 of 100 files are missing".into()])
    );
    assert_eq!(
        full_findings(|folder| {
            let mut bytes = fs::read(folder.join("t/d1/f99")).unwrap();
            bytes[4321] ^= 0x10;
            overwrite(&folder.join("t/d1/f99"), &bytes);
        }),
        (1, vec!["t/d1/f99: byte 4321 is not what was written".into()])
    );
    assert_eq!(
        full_findings(|folder| overwrite(&folder.join("t/d0/f00"), b"short")),
        (1, vec!["t/d0/f00: is 5 bytes long, not 5000".into()])
    );
    // Its mode and its time also differ from those of the file.
    let (problems, examples) = full_findings(|folder| {
        fs::remove_file(folder.join("t/d0/f00")).unwrap();
        fs::create_dir(folder.join("t/d0/f00")).unwrap();
    });
    assert_eq!((problems, examples[2].as_str()), (3, "t/d0/f00: is a directory, not a file"));
    let (problems, _) = full_findings(|folder| {
        let (a, b) = (folder.join("t/d0/f00"), folder.join("t/d0/f01"));
        let (bytes, others) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
        overwrite(&a, &others);
        overwrite(&b, &bytes);
    });
    assert_eq!(problems, 2, "two swapped contents are two differences");
    let (problems, examples) = full_findings(|folder| {
        let bytes = fs::read(folder.join("t/d0/f00")).unwrap();
        fs::write(folder.join("t/d0/f00"), bytes).unwrap();
    });
    assert_eq!(problems, 1, "the same bytes, written again, have a different time: {examples:?}");
    assert!(examples[0].starts_with("t/d0/f00: has modification time "), "{examples:?}");
    let (problems, examples) =
        full_findings(|folder| fs::remove_dir_all(folder.join("t/d1")).unwrap());
    assert_eq!((problems, examples.len()), (51, 2));
    assert!(full_findings(|folder| fs::create_dir(folder.join("lost+found")).unwrap()).0 > 0);
}

#[test]
fn names_mode_reads_no_byte_and_sampled_mode_some() {
    let damage = |folder: &Path| {
        for number in 0..50 {
            overwrite(&folder.join(format!("t/d0/f{number:02}")), &[0; 5000]);
        }
    };
    assert_eq!(findings_after(VerifyMode::Names, damage).0, 0);
    assert_eq!(findings_after(VerifyMode::Full, damage).0, 50);
    let folder = tempfile::tempdir().unwrap();
    let work = build("dirops", &[("files", "2000"), ("size", "10")]);
    run(work.as_ref(), 0, &mut SyncIssuer::new(root(folder.path()), contents()));
    let bytes = verify_phase(folder.path(), work.as_ref(), 0, VerifyMode::Sampled).bytes.0;
    // 2,000 / 64 files of 10 bytes; five standard deviations are 280 bytes.
    assert!((32..=600).contains(&bytes), "{bytes} bytes of the sample");
}

#[test]
fn many_problems_are_counted_and_ten_are_reported() {
    let (problems, examples) = findings_after(VerifyMode::Full, |folder| {
        for number in 0..30 {
            fs::write(folder.join(format!("t/d0/x{number}")), b"").unwrap();
        }
    });
    assert_eq!((problems, examples.len()), (30, 10));
}
