//! Tests the verifier on directories with planted faults: each fault is found and named.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use fsdyno_engine::verify;
use fsdyno_record::plan::VerifyMode;
use fsdyno_record::trial::VerifyReport;
use fsdyno_workload::{Contents, Expected, ExpectedKind, Links, Payload, Tree};

/// A handmade tree with every kind of file.
struct ExpectedTree(BTreeMap<&'static str, Expected>);

const MTIME: i64 = 1_000_000_000;
const LENGTH: u32 = 5000;

/// The two parts of the file `pieces`.
const PIECES: [Payload; 2] = [
    Payload { id: 20, offset: 100, length: 3000 },
    Payload { id: 21, offset: 0, length: 2_000_000 },
];

fn content(id: u64) -> Payload {
    Payload { id, offset: 0, length: LENGTH }
}

fn expected_tree() -> ExpectedTree {
    let file = |id| Expected::file(content(id)).with_mode(0o640).with_mtime(MTIME);
    let linked = Expected::file(content(9)).with_links(Links { group: 1, count: 2 });
    let size = PIECES.iter().map(|piece| u64::from(piece.length)).sum();
    ExpectedTree(BTreeMap::from([
        ("d", Expected::DIRECTORY.with_mode(0o750)),
        ("d/a", file(1)),
        ("d/b", file(2)),
        ("d/c", file(3)),
        ("e", Expected::DIRECTORY),
        ("e/soft", Expected::SYMLINK),
        ("e/hard", linked),
        ("e/other", linked),
        ("e/pieces", Expected::pieces(size)),
    ]))
}

impl Tree for ExpectedTree {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        self.0.get(std::str::from_utf8(path).ok()?).copied()
    }

    fn files(&self) -> u64 {
        self.0.values().filter(|expected| expected.kind != ExpectedKind::Directory).count() as u64
    }

    fn directories(&self) -> u64 {
        self.0.len() as u64 - self.files()
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        assert_eq!(path, b"e/pieces");
        let second = u64::from(PIECES[0].length);
        Some(match offset.checked_sub(second) {
            None => Contents::rest(PIECES[0], offset as u32),
            Some(into) => Contents::rest(PIECES[1], into as u32),
        })
    }

    fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        (path == b"e/soft").then(|| b"../d/a".to_vec())
    }
}

fn contents() -> &'static Contents {
    static POOL: LazyLock<Contents> = LazyLock::new(|| Contents::new(1));
    &POOL
}

fn bytes(payload: Payload) -> Vec<u8> {
    let (contents, mut bytes, mut remaining) = (contents(), Vec::new(), payload);
    while remaining.length > 0 {
        let slice = contents.slice(remaining);
        bytes.extend_from_slice(slice);
        remaining = Contents::rest(remaining, slice.len() as u32);
    }
    bytes
}

fn set_mtime(path: &Path, seconds: i64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Writes one of the files `a`, `b`, `c`, with its attributes.
fn write_file(path: &Path, id: u64) {
    fs::write(path, bytes(content(id))).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    set_mtime(path, MTIME);
}

/// Creates the expected tree.
fn create_tree(folder: &Path) {
    fs::create_dir(folder.join("d")).unwrap();
    fs::set_permissions(folder.join("d"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(folder.join("e")).unwrap();
    for (id, name) in [(1, "d/a"), (2, "d/b"), (3, "d/c")] {
        write_file(&folder.join(name), id);
    }
    symlink("../d/a", folder.join("e/soft")).unwrap();
    fs::write(folder.join("e/hard"), bytes(content(9))).unwrap();
    fs::hard_link(folder.join("e/hard"), folder.join("e/other")).unwrap();
    fs::write(folder.join("e/pieces"), PIECES.map(bytes).concat()).unwrap();
}

fn check(folder: &Path) -> VerifyReport {
    let root = fs::File::open(folder).unwrap();
    verify(root.as_fd(), &expected_tree(), contents(), VerifyMode::Full, 5, &mut |_| {}).unwrap()
}

/// Returns the number of differences after `damage`, and their sentences in order.
fn findings_after(damage: impl Fn(&Path)) -> (u64, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    create_tree(folder.path());
    damage(folder.path());
    let report = check(folder.path());
    let mut examples = report.examples;
    examples.sort();
    (report.problems, examples)
}

fn flip_bit(path: &Path, index: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[index] ^= 0x10;
    let mtime = fs::metadata(path).unwrap().mtime();
    fs::write(path, bytes).unwrap();
    set_mtime(path, mtime);
}

/// Returns the expected findings, one for each sentence.
fn findings(sentences: &[&str]) -> (u64, Vec<String>) {
    (sentences.len() as u64, sentences.iter().map(|sentence| sentence.to_string()).collect())
}

#[test]
fn the_expected_tree_has_no_problem_and_is_read_completely() {
    let folder = tempfile::tempdir().unwrap();
    create_tree(folder.path());
    let report = check(folder.path());
    assert_eq!(report.examples, Vec::<String>::new());
    assert_eq!((report.problems, report.files, report.directories), (0, 7, 2));
    assert_eq!(report.bytes.0, 5 * u64::from(LENGTH) + 2_003_000);
}

#[test]
fn a_lost_an_extra_and_a_renamed_file_are_found() {
    let lost = "1 of 7 files are missing";
    assert_eq!(
        findings_after(|folder| fs::remove_file(folder.join("d/b")).unwrap()),
        findings(&[lost])
    );
    assert_eq!(
        findings_after(|folder| fs::write(folder.join("d/x"), b"").unwrap()),
        findings(&["d/x: should not be there"])
    );
    assert_eq!(
        findings_after(|folder| fs::rename(folder.join("d/b"), folder.join("d/bb")).unwrap()),
        findings(&[lost, "d/bb: should not be there"])
    );
}

#[test]
fn a_lost_an_extra_and_a_misplaced_directory_are_found() {
    assert_eq!(
        findings_after(|folder| fs::remove_dir_all(folder.join("e")).unwrap()),
        (5, vec!["1 of 2 directories are missing".into(), "4 of 7 files are missing".into()])
    );
    assert_eq!(
        findings_after(|folder| fs::create_dir(folder.join("d/d")).unwrap()),
        findings(&["d/d: should not be there"])
    );
    let (problems, examples) =
        findings_after(|folder| fs::rename(folder.join("d"), folder.join("e/d")).unwrap());
    assert_eq!(
        (problems, examples.len()),
        (5, 3),
        "d and its three files are missing, e/d is extra"
    );
    assert!(examples.contains(&"e/d: should not be there".to_string()));
}

#[test]
fn a_file_in_place_of_a_directory_and_vice_versa_are_found() {
    let (problems, examples) = findings_after(|folder| {
        fs::remove_dir_all(folder.join("e")).unwrap();
        fs::write(folder.join("e"), b"").unwrap();
    });
    assert_eq!(problems, 5, "four files below it are missing");
    assert!(examples.contains(&"e: is a file, not a directory".to_string()));
    let (_, examples) = findings_after(|folder| {
        fs::remove_file(folder.join("e/hard")).unwrap();
        fs::create_dir(folder.join("e/hard")).unwrap();
    });
    assert!(examples.contains(&"e/hard: is a directory, not a file".to_string()));
}

#[test]
fn a_flipped_byte_is_found_at_its_offset() {
    for offset in [0, 1, 4095, 4096, 4999] {
        assert_eq!(
            findings_after(|path| flip_bit(&path.join("d/c"), offset)),
            findings(&[&format!("d/c: byte {offset} is not what was written")])
        );
    }
}

#[test]
fn a_changed_piece_is_found_at_its_offset_even_far_after_the_first_read() {
    for offset in [0, 2999, 3000, 3001, 1_048_576, 2_002_999] {
        assert_eq!(
            findings_after(|path| flip_bit(&path.join("e/pieces"), offset)),
            findings(&[&format!("e/pieces: byte {offset} is not what was written")])
        );
    }
    // The pieces are in the wrong order.
    let swapped = [PIECES[1], PIECES[0]].map(bytes).concat();
    assert_eq!(
        findings_after(|folder| fs::write(folder.join("e/pieces"), &swapped).unwrap()),
        findings(&["e/pieces: byte 0 is not what was written"])
    );
}

#[test]
fn an_unexpected_size_is_reported_with_the_expected_one() {
    let long = [bytes(content(2)), vec![0]].concat();
    for (bytes, size) in [(&long[..4999], 4999), (&[], 0), (&long, 5001)] {
        assert_eq!(
            findings_after(|folder| {
                fs::write(folder.join("d/b"), bytes).unwrap();
                set_mtime(&folder.join("d/b"), MTIME);
            }),
            findings(&[&format!("d/b: is {size} bytes long, not 5000")])
        );
    }
}

#[test]
fn two_swapped_contents_are_two_problems() {
    let (problems, examples) = findings_after(|folder| {
        write_file(&folder.join("d/a"), 2);
        write_file(&folder.join("d/b"), 1);
    });
    assert_eq!(problems, 2);
    assert!(examples[0].starts_with("d/a: byte ") && examples[1].starts_with("d/b: byte "));
}

#[test]
fn old_content_under_the_new_name_of_a_rename_is_found() {
    // d/c should have replaced d/b by a rename; the name exists, but the content is still d/b's.
    let (problems, examples) = findings_after(|folder| write_file(&folder.join("d/c"), 2));
    assert_eq!(problems, 1);
    assert!(examples[0].starts_with("d/c: byte "));
}

#[test]
fn zeros_where_data_never_reached_the_disk_are_found() {
    let mut torn = bytes(content(1));
    torn[4096..].fill(0);
    let expected = bytes(content(1));
    let first = (4096..).find(|offset| expected[*offset] != 0).unwrap();
    assert_eq!(
        findings_after(|folder| {
            fs::write(folder.join("d/a"), &torn).unwrap();
            set_mtime(&folder.join("d/a"), MTIME);
        }),
        findings(&[&format!("d/a: byte {first} is not what was written")])
    );
}

#[test]
fn an_unexpected_mode_and_time_are_reported_with_the_expected_ones() {
    let mode = |name: &'static str| {
        move |folder: &Path| {
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
    };
    assert_eq!(findings_after(mode("d/a")), findings(&["d/a: has mode 700, not 640"]));
    assert_eq!(findings_after(mode("d")), findings(&["d: has mode 700, not 750"]));
    assert_eq!(
        findings_after(|folder| set_mtime(&folder.join("d/a"), MTIME + 1)),
        findings(&["d/a: has modification time 1000000001, not 1000000000 (seconds since 1970)"])
    );
}

#[test]
fn a_symbolic_link_to_elsewhere_and_a_file_in_its_place_are_found() {
    let remove_link = |folder: &Path| fs::remove_file(folder.join("e/soft")).unwrap();
    assert_eq!(
        findings_after(|folder| {
            remove_link(folder);
            symlink("../d/b", folder.join("e/soft")).unwrap();
        }),
        findings(&["e/soft: points to ../d/b, not ../d/a"])
    );
    assert_eq!(
        findings_after(|folder| {
            remove_link(folder);
            fs::write(folder.join("e/soft"), b"../d/a").unwrap();
        }),
        findings(&["e/soft: is a file, not a symbolic link"])
    );
}

#[test]
fn a_hard_link_that_became_a_copy_is_found() {
    let (problems, examples) = findings_after(|folder| {
        fs::remove_file(folder.join("e/other")).unwrap();
        fs::copy(folder.join("e/hard"), folder.join("e/other")).unwrap();
    });
    assert_eq!(problems, 3);
    assert!(examples.contains(&"e/hard: has 1 links, not 2".to_string()));
    assert!(examples.contains(&"e/other: has 1 links, not 2".to_string()));
    let other = "is not the same file as its other links";
    assert!(examples.iter().any(|sentence| sentence.ends_with(other)));
    assert_eq!(
        findings_after(
            |folder| fs::hard_link(folder.join("e/hard"), folder.join("d/extra")).unwrap()
        ),
        findings(&[
            "d/extra: should not be there",
            "e/hard: has 3 links, not 2",
            "e/other: has 3 links, not 2"
        ])
    );
}

#[test]
fn two_names_that_became_one_file_are_found() {
    let link = |folder: &Path, to: &str| {
        let _ = fs::remove_file(folder.join(to));
        fs::hard_link(folder.join("d/a"), folder.join(to)).unwrap();
    };
    assert_eq!(
        findings_after(|folder| link(folder, "d/b")),
        findings(&[
            "d/a: has 2 links, not 1",
            "d/b: byte 0 is not what was written",
            "d/b: has 2 links, not 1"
        ])
    );
    assert_eq!(
        findings_after(|folder| link(folder, "e/new")),
        findings(&["d/a: has 2 links, not 1", "e/new: should not be there"])
    );
}
