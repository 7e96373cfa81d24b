//! everyday against the file system in memory and against counts computed by hand.

use crate::memory::{build, check_workload};
use fsdyno_record::OpKind::{
    self, Chmod, Chown, Close, Create, Mkdir, Open, Read, Rmdir, Stat, Unlink, Utimes, Write,
};
use fsdyno_workload::{Expected, OpCounts, Payload, Setting, Workload, workloads};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_trees_are_as_predicted_after_each_phase_for_any_number_of_files(
        (documents, songs, films) in (0u64..120, 0u64..30, 1u64..12),
        size in prop::sample::select(vec!["0", "1", "0-3", "131072", "131073", "1K-300K", "mix"]),
        seed: u64,
    ) {
        check_workload("everyday", &[
            ("documents", &documents.to_string()), ("songs", &songs.to_string()),
            ("films", &films.to_string()), ("document-size", size), ("song-size", "200K"),
            ("film-size", "1M"),
        ], seed, 2);
    }
}

fn counts(work: &dyn Workload, phase: usize) -> OpCounts {
    work.counts(phase, 1)
}

/// 2,000 documents of 102,400 bytes are one call each of 131,072; 40 songs of 5,242,880 are 40 each; a
/// film of 734,003,200 is 5,600: 9,200 calls. Folders: 40 of documents, 4 of songs, 1 of films; with three
/// directories of kinds and the tree's own 49.
#[test]
fn the_defaults_have_the_counts_computed_by_hand() {
    let work = build("everyday", &[], &Setting::seed(1));
    let names: Vec<&str> = work.phases().iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["write", "copy", "read", "delete"]);
    let write = [(Mkdir, 49), (Create, 2041), (Write, 9200), (Close, 2041)];
    assert_eq!(counts(work.as_ref(), 0), OpCounts::from(write));
    let copy: [(OpKind, u64); 10] = [
        (Stat, 2090),
        (Open, 2090),
        (Mkdir, 49),
        (Create, 2041),
        (Read, 11_241),
        (Write, 9200),
        (Utimes, 2090),
        (Chown, 2090),
        (Chmod, 2090),
        (Close, 4131),
    ];
    assert_eq!(counts(work.as_ref(), 1), OpCounts::from(copy));
    let read = [(Open, 2041), (Read, 11_241), (Close, 2041)];
    assert_eq!(counts(work.as_ref(), 2), OpCounts::from(read));
    let delete = [(Open, 98), (Close, 98), (Rmdir, 98), (Unlink, 4082)];
    assert_eq!(counts(work.as_ref(), 3), OpCounts::from(delete));
    assert_eq!(work.work_units(0)["bytes"], 1_148_518_400);
    assert_eq!(work.needs().bytes.0, 2 * 1_148_518_400);
    assert_eq!((work.needs().inodes, work.zeros()), (4180, 0));
}

#[test]
fn a_file_is_at_the_path_of_its_number_and_nowhere_else() {
    let work = build("everyday", &[("documents", "51")], &Setting::seed(1));
    let tree = work.tree(1);
    let content = |id, length| Expected::file(Payload { id, offset: 0, length }).with_mode(0o644);
    assert_eq!(tree.lookup(b"in/documents/d0001/f000050"), Some(content(50, 102_400)));
    assert_eq!(tree.lookup(b"copy/songs/d0000/f000011"), Some(content(62, 5_242_880)));
    assert_eq!(tree.lookup(b"in/films/d0000/f000000"), Some(content(91, 734_003_200)));
    for missing in [
        "in/documents/d0000/f000050",
        "in/documents/d0001/f000051",
        "in/documents/d0002",
        "in/songs/d0000/f000011/x",
        "in/songs/d0000/f11",
        "inn/songs",
        "copy2",
        "in/sounds",
    ] {
        assert_eq!(tree.lookup(missing.as_bytes()), None, "{missing}");
    }
    assert_eq!(work.tree(0).lookup(b"copy"), None, "it is copied in the second phase");
}

#[test]
fn nothing_to_do_is_refused_and_a_part_of_zeros_is_reported() {
    let kind = workloads::find("everyday").unwrap();
    let none = kind.resolve(&[("documents", "0"), ("songs", "0"), ("films", "0")]).unwrap();
    let error = kind.build(&none, &Setting::default()).err().unwrap().to_string();
    assert!(error.contains("nothing to do; set one of them"), "{error}");
    assert_eq!(build("everyday", &[("zeros", "30")], &Setting::default()).zeros(), 30);
    assert!(kind.resolve(&[("zeros", "101")]).is_err());
}
