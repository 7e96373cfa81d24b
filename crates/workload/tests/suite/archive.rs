//! Archives of the user: read, refused, unpacked and removed as by GNU tar and rm.

use crate::archives::{Spec, TIME, add, archive, raw};
use crate::memory::check_workload_with_input;
use fsdyno_workload::tar::archive::{Archive, MemberKind};
use fsdyno_workload::tar::unpack::Unpack;
use fsdyno_workload::{
    Call, Expect, ExpectedKind, Input, Links, Name, Op, Payload, Setting, Share, Workload,
    workloads,
};
use proptest::prelude::*;

const SET: &[(&str, &str)] = &[("archive", "x.tar")];

fn workload(bytes: Vec<u8>) -> Result<Box<dyn Workload>, String> {
    let kind = workloads::find("tarball").unwrap();
    let setting = Setting { seed: 1, input: Some(Input::new(bytes)) };
    kind.build(&kind.resolve(SET).unwrap(), &setting).map_err(|error| error.to_string())
}

/// The calls on names, as strace shows them, abbreviated.
fn calls(members: &[Spec<'_>]) -> Vec<String> {
    let work = workload(archive(members)).unwrap();
    let (mut ops, mut op, mut lines) = (work.ops(0, Share::WHOLE), Op::default(), Vec::new());
    while ops.next(&mut op) {
        let (name, second_name) = (op.name.display(), op.second_name.display());
        let outcome = match op.expect {
            Expect::Success => "",
            Expect::Missing => " ENOENT",
            Expect::Exists => " EEXIST",
            Expect::Errno | Expect::Result | Expect::Any => " unexpected",
        };
        let call = match op.call {
            Call::Mkdir { mode, .. } => format!("mkdir {name} {mode:04o}"),
            Call::Create { mode, .. } => format!("create {name} {mode:04o}"),
            Call::Write { payload, .. } => format!("write {}", payload.length),
            Call::UtimesFile { mtime, .. } => format!("futimens {mtime}"),
            Call::ChownFile { .. } => "fchown".into(),
            Call::ChmodFile { mode, .. } => format!("fchmod {mode:04o}"),
            Call::StatFile { .. } => "fstat".into(),
            Call::Close { .. } => "close".into(),
            Call::Utimes { .. } => format!("utimes {name}"),
            Call::Chown { .. } => format!("chown {name}"),
            Call::Chmod { mode, .. } => format!("chmod {name} {mode:04o}"),
            Call::Stat { .. } => format!("stat {name}"),
            Call::Unlink { .. } => format!("unlink {name}"),
            Call::Symlink { .. } => format!("symlink {name} -> {second_name}"),
            Call::Link { .. } => format!("link {name} {second_name}"),
            Call::OpenDir { .. } | Call::CloseDir { .. } => continue,
            call => format!("{call:?}"),
        };
        lines.push(call + outcome);
    }
    // The folder is made first; all other calls are those of tar.
    assert_eq!(lines.remove(0), "mkdir t 0755");
    lines
}

/// The calls for an empty file of mode 0644.
fn empty_file_calls(name: &str) -> Vec<String> {
    let rest = ["futimens 1000000000", "fchown", "fchmod 0644", "close"];
    let mut lines = vec![format!("create {name} 0600")];
    lines.extend(rest.map(String::from));
    lines
}

fn joined(parts: &[&[String]]) -> Vec<String> {
    parts.concat()
}

fn lines(text: &str) -> Vec<String> {
    text.split(", ").map(String::from).collect()
}

// The expected calls below are those that strace showed for GNU tar 1.34 with exactly these archives, without its own
// reads and the C library's open and close around a chmod.

#[test]
fn parents_are_created_as_by_tar() {
    let actual = calls(&[
        ('s', "a/b/l", 0o777, b"z"),
        ('f', "a/c/f", 0o644, b""),
        ('h', "a/d/h", 0o644, b"a/c/f"),
        ('d', "a/e/f", 0o755, b""),
        ('d', "q/r/s", 0o755, b""),
    ]);
    let expected = joined(&[
        &lines("symlink a/b/l -> z ENOENT, mkdir a 0755, mkdir a/b 0755, symlink a/b/l -> z"),
        &lines("utimes a/b/l, chown a/b/l"),
        &lines("create a/c/f 0600 ENOENT, mkdir a 0755 EEXIST, mkdir a/c 0755"),
        &empty_file_calls("a/c/f"),
        &lines("link a/c/f a/d/h ENOENT, stat a/c/f, stat a/d/h ENOENT, mkdir a 0755 EEXIST"),
        &lines("mkdir a/d 0755, link a/c/f a/d/h"),
        &lines("mkdir a/e/f 0700 ENOENT, mkdir a 0755 EEXIST, mkdir a/e 0755, mkdir a/e/f 0700"),
        &lines("utimes a/e/f, chown a/e/f, chmod a/e/f 0755"),
        &lines("mkdir q/r/s 0700 ENOENT, mkdir q 0755, mkdir q/r 0755, mkdir q/r/s 0700"),
        &lines("utimes q/r/s, chown q/r/s, chmod q/r/s 0755"),
    ]);
    assert_eq!(actual, expected);
}

#[test]
fn directories_are_finished_as_by_tar() {
    let actual = calls(&[
        ('d', "a", 0o755, b""),
        ('d', "a/b", 0o500, b""),
        ('f', "a/b/f", 0o644, b""),
        ('d', "c", 0o755, b""),
        ('f', "a/b/g", 0o644, b""),
        ('d', "a/z", 0o2777, b""),
        ('f', "a/z/k", 0o644, b""),
        ('f', "c/x", 0o644, b""),
    ]);
    let expected = joined(&[
        &lines("mkdir a 0700, mkdir a/b 0500"),
        &empty_file_calls("a/b/f"),
        &lines("utimes a/b, chown a/b, utimes a, chown a, chmod a 0755, mkdir c 0700"),
        &lines("utimes c, chown c, chmod c 0755"),
        &empty_file_calls("a/b/g"),
        &lines("mkdir a/z 0700"),
        &empty_file_calls("a/z/k"),
        &lines("utimes a/z, chown a/z, chmod a/z 2777"),
        &empty_file_calls("c/x"),
    ]);
    assert_eq!(actual, expected);
    let actual = calls(&[
        ('f', "t/d/f", 0o644, b""),
        ('d', "t/d", 0o755, b""),
        ('f', "t/d/g", 0o644, b""),
        ('d', "t", 0o755, b""),
        ('f', "t/h", 0o644, b""),
    ]);
    let expected = joined(&[
        &lines("create t/d/f 0600 ENOENT, mkdir t 0755, mkdir t/d 0755"),
        &empty_file_calls("t/d/f"),
        &lines("mkdir t/d 0700 EEXIST, stat t/d"),
        &empty_file_calls("t/d/g"),
        &lines("utimes t/d, chown t/d, mkdir t 0700 EEXIST, stat t"),
        &empty_file_calls("t/h"),
        &lines("utimes t, chown t"),
    ]);
    assert_eq!(actual, expected);
}

#[test]
fn a_repeated_member_is_replaced_as_by_tar() {
    let actual = calls(&[
        ('d', "d", 0o755, b""),
        ('f', "d/x", 0o600, b"one"),
        ('f', "d/x", 0o644, b"two"),
        ('f', "d/y", 0o644, b""),
        ('h', "d/h", 0o644, b"d/x"),
        ('h', "d/h", 0o644, b"d/y"),
        ('s', "d/s", 0o777, b"x"),
        ('s', "d/s", 0o777, b"yy"),
        ('f', "d/s", 0o700, b"file"),
        ('d', "d", 0o711, b""),
    ]);
    let expected = joined(&[
        &lines("mkdir d 0700, create d/x 0600, write 3, futimens 1000000000, fchown, close"),
        &lines("create d/x 0600 EEXIST, unlink d/x, create d/x 0600, write 3"),
        &lines("futimens 1000000000, fchown, fchmod 0644, close"),
        &empty_file_calls("d/y"),
        &lines("link d/x d/h, link d/y d/h EEXIST, stat d/y, stat d/h, unlink d/h, link d/y d/h"),
        &lines("symlink d/s -> x, utimes d/s, chown d/s"),
        &lines("symlink d/s -> yy EEXIST, unlink d/s, symlink d/s -> yy, utimes d/s, chown d/s"),
        &lines("create d/s 0700 EEXIST, unlink d/s, create d/s 0700, write 4"),
        &lines("futimens 1000000000, fchown, close, utimes d, chown d, chmod d 0755"),
        &lines("mkdir d 0700 EEXIST, stat d, utimes d, chown d, chmod d 0711"),
    ]);
    assert_eq!(actual, expected);
    let actual = calls(&[('f', "x", 0o644, b""), ('d', "x", 0o755, b"")]);
    let rest = lines(
        "mkdir x 0700 EEXIST, stat x, unlink x, mkdir x 0700, utimes x, chown x, chmod x 0755",
    );
    assert_eq!(actual, joined(&[&empty_file_calls("x"), &rest]));
}

#[test]
fn links_that_lead_outside_are_created_last_as_by_tar() {
    let actual = calls(&[
        ('d', "a", 0o755, b""),
        ('d', "a/b", 0o755, b""),
        ('s', "a/b/l", 0o777, b"../x"),
        ('f', "a/b/k", 0o644, b""),
        ('f', "z", 0o644, b""),
        ('d', "a/c", 0o755, b""),
        ('s', "a/c/l", 0o777, b"/x"),
        ('s', "a/b/l2", 0o777, b"d/../x"),
        ('d', "a/b", 0o755, b""),
        ('h', "h", 0o644, b"z"),
        ('h', "h", 0o644, b"z"),
    ]);
    let last = |link: &str, to: &str| {
        lines(&format!(
            "stat {link}, unlink {link}, symlink {link} -> {to}, utimes {link}, chown {link}"
        ))
    };
    let expected = joined(&[
        &lines("mkdir a 0700, mkdir a/b 0700, create a/b/l 0000, fstat, close, stat a/b, stat a"),
        &empty_file_calls("a/b/k"),
        &empty_file_calls("z"),
        &lines("mkdir a/c 0700, create a/c/l 0000, fstat, close, stat a/c"),
        &lines("create a/b/l2 0000, fstat, close, mkdir a/b 0700 EEXIST, stat a/b"),
        &lines("stat z, link z h, stat z, stat z, link z h EEXIST, stat z, stat h"),
        &last("a/b/l2", "d/../x"),
        &last("a/c/l", "/x"),
        &last("a/b/l", "../x"),
        &lines("stat a/c, utimes a/c, chown a/c, chmod a/c 0755"),
        &lines("stat a/b, utimes a/b, chown a/b, chmod a/b 0755"),
        &lines("stat a, utimes a, chown a, chmod a 0755"),
    ]);
    assert_eq!(actual, expected);
}

#[test]
fn the_folder_itself_is_finished_last() {
    let actual = calls(&[
        ('d', "x", 0o755, b""),
        ('d', "./", 0o755, b""),
        ('d', "./y", 0o000, b""),
        ('f', "./y/f", 0o644, b""),
    ]);
    let expected = joined(&[
        &lines(
            "mkdir x 0700, utimes x, chown x, chmod x 0755, mkdir . 0700 EEXIST, stat ., stat .",
        ),
        &lines("mkdir y 0000"),
        &empty_file_calls("y/f"),
        &lines("utimes y, chown y, stat ., utimes ., chown ."),
    ]);
    assert_eq!(actual, expected);
}

#[test]
fn every_kind_of_member_is_unpacked_with_its_mode_time_and_links() {
    let mut builder = tar::Builder::new(Vec::new());
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(250));
    add(&mut builder, 'd', "e", 0o1777, b"", 5);
    add(&mut builder, 'f', "e/f", 0o4755, &[b'x'; 30_000], 77);
    add(&mut builder, 'h', "e/g", 0o644, b"e/f", 99);
    add(&mut builder, 's', "e/s", 0o777, b"../out", 88);
    add(&mut builder, 'f', &long, 0o640, b"long", 66);
    let bytes = builder.into_inner().unwrap();
    let work = workload(bytes.clone()).unwrap();
    let tree = work.tree(0);
    let entry = |path: &str| tree.lookup(format!("t/{path}").as_bytes()).unwrap();
    assert_eq!((entry("e").mode, entry("e").mtime), (Some(0o1777), Some(5)));
    for name in ["e/f", "e/g"] {
        assert_eq!((entry(name).mode, entry(name).mtime), (Some(0o4755), Some(77)));
        assert_eq!(entry(name).links, Some(Links { group: 1, count: 2 }));
    }
    assert_eq!((entry("e/s").kind, entry("e/s").mtime), (ExpectedKind::Symlink, Some(88)));
    assert_eq!(tree.target(b"t/e/s").unwrap(), b"../out");
    let ExpectedKind::File(Payload { id: Payload::INPUT, offset, length: 4 }) = entry(&long).kind
    else {
        panic!("{:?}", entry(&long));
    };
    assert_eq!(&bytes[offset as usize..][..4], b"long");
    assert_eq!((tree.files(), tree.directories()), (4, 3));
    assert_eq!(tree.lookup(b"t/e/x"), None);
    let memory = check_workload_with_input("tarball", SET, 1, Input::new(bytes));
    assert_eq!(memory.written, 30_004);
    assert!(memory.paths().is_empty());
}

#[test]
fn a_directory_that_changes_after_it_is_finished_has_an_unspecified_time() {
    let work = workload(archive(&[
        ('d', "a", 0o755, b""),
        ('f', "b", 0o644, b""),
        ('f', "a/f", 0o644, b""),
    ]));
    let a = work.unwrap().tree(0).lookup(b"t/a").unwrap();
    assert_eq!((a.mode, a.mtime), (Some(0o755), None));
}

#[test]
fn times_before_1970_and_long_names_are_read_from_pax_headers() {
    let mut bytes = raw(b'x', b"pax", b"", b"16 mtime=-1.500\n14 path=b\xc3\xa4/c\n");
    bytes.extend(raw(b'0', b"other", b"", b""));
    let archive = Archive::read(&Input::new(bytes)).unwrap();
    let member = &archive.members()[0];
    assert_eq!((&*member.path, member.mtime), ("bä/c".as_bytes(), -2));
}

#[test]
fn a_global_pax_header_applies_to_all_members_up_to_the_next_one() {
    let global = |text: &[u8]| raw(b'g', b"global", b"", text);
    let file = |name: &[u8]| raw(b'0', name, b"", b"");
    let times = |parts: &[Vec<u8>]| -> Vec<i64> {
        let archive = Archive::read(&Input::new(parts.concat())).unwrap();
        archive.members().iter().map(|member| member.mtime).collect()
    };
    let (early, late) = (global(b"14 mtime=5000\n"), global(b"14 mtime=9000\n"));
    let all = times(&[early.clone(), file(b"a"), late.clone(), file(b"b"), file(b"c")]);
    assert_eq!(all, [5000, 9000, 9000]);
    // A member's own header takes precedence, before or after the global one.
    let header = raw(b'x', b"pax", b"", b"11 mtime=7\n");
    assert_eq!(times(&[early.clone(), header.clone(), file(b"a"), file(b"b")]), [7, 5000]);
    assert_eq!(times(&[header, early, file(b"a"), file(b"b")]), [7, 5000]);
}

#[test]
fn a_global_size_applies_to_the_member_right_after_it_too() {
    let mut bytes = raw(b'g', b"global", b"", b"9 size=3\n");
    let mut header = raw(b'0', b"a", b"", b"");
    header.extend_from_slice(b"abc");
    header.resize(1024, 0);
    bytes.extend(header);
    let archive = Archive::read(&Input::new(bytes)).unwrap();
    assert!(
        matches!(archive.members()[0].kind, MemberKind::File { size: 3, .. }),
        "{:?}",
        archive.members()[0]
    );
}

#[test]
fn parameters_for_a_generated_archive_contradict_the_users_archive() {
    let kind = workloads::find("tarball").unwrap();
    let set = kind.resolve(&[("archive", "x.tar"), ("files", "5")]).unwrap();
    let error = kind.build(&set, &Setting::default()).err().unwrap().to_string();
    assert!(error.contains("files=5") && error.contains("omit one of them"), "{error}");
    let set = kind.resolve(SET).unwrap();
    let error = kind.build(&set, &Setting::default()).err().unwrap().to_string();
    assert!(error.contains("has not been read"), "{error}");
}

/// Paths that collide, nest, and take each other's place.
fn member() -> impl Strategy<Value = (char, String, u32, Vec<u8>)> {
    let path =
        prop::sample::select(vec!["a", "a/b", "a/b/c", "d", "d/e", "f", "a/g", "d/e/f/g", "."]);
    let target = prop::sample::select(vec!["a", "f", "a/g", "d/e", "../x", "/y"]);
    let kind = prop::sample::select(vec!['f', 'f', 'f', 'd', 'd', 's', 'h']);
    let mode = prop::sample::select(vec![0o644, 0o600, 0o755, 0o700, 0o4711, 0]);
    (kind, path, mode, target, 0usize..25_000).prop_map(|(kind, path, mode, target, size)| {
        // A hard link out of the tree is refused by its name alone.
        let target = if kind == 'h' { target.trim_start_matches(['.', '/']) } else { target };
        let text = if kind == 'f' { vec![b'x'; size] } else { target.as_bytes().to_vec() };
        (kind, path.to_string(), mode, text)
    })
}

fn build_archive(members: &[(char, String, u32, Vec<u8>)]) -> Vec<u8> {
    let specs: Vec<Spec<'_>> = members
        .iter()
        .map(|(kind, path, mode, text)| (*kind, path.as_str(), *mode, text.as_slice()))
        .collect();
    archive(&specs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_accepted_archive_is_unpacked_and_removed(
        members in prop::collection::vec(member(), 1..14),
        order in prop::sample::select(vec!["readdir", "inode", "name", "creation", "reverse", "random"]),
        seed: u64,
    ) {
        let mut accepted = Vec::new();
        for member in members {
            accepted.push(member);
            if workload(build_archive(&accepted)).is_err() {
                accepted.pop();
            }
        }
        if !accepted.is_empty() {
            let set = [("archive", "x.tar"), ("order", order)];
            check_workload_with_input("tarball", &set, seed, Input::new(build_archive(&accepted)));
        }
    }

    #[test]
    fn members_are_those_that_the_tar_crate_reads(
        members in prop::collection::vec(member(), 1..14),
        deep in "[a-z]{1,200}/[a-z]{1,200}/[a-zä-ü]{1,60}",
    ) {
        let mut members = members;
        members.retain(|(kind, path, ..)| *kind == 'd' || path != ".");
        members.push(('f', deep, 0o600, b"deep".to_vec()));
        let bytes = build_archive(&members);
        let archive = Archive::read(&Input::new(bytes.clone())).unwrap();
        let mut expected = tar::Archive::new(std::io::Cursor::new(&bytes));
        let mut count = 0;
        for (entry, member) in expected.entries().unwrap().zip(archive.members()) {
            let entry = entry.unwrap();
            count += 1;
            let path = entry.path_bytes().into_owned();
            let path = path.strip_suffix(b"/").unwrap_or(&path);
            prop_assert_eq!(if path == b"." { b"" } else { path }, &*member.path);
            prop_assert_eq!(entry.header().mode().unwrap(), member.mode);
            prop_assert_eq!(member.mtime, TIME as i64);
            match &member.kind {
                MemberKind::File { data, size } => {
                    prop_assert_eq!((entry.raw_file_position(), entry.size()), (*data, *size));
                }
                MemberKind::Directory => prop_assert!(entry.header().entry_type().is_dir()),
                MemberKind::Symlink(to) | MemberKind::Link(to) => {
                    prop_assert_eq!(entry.link_name_bytes().unwrap().into_owned(), to.to_vec());
                }
            }
        }
        prop_assert_eq!(count, members.len());
        prop_assert_eq!(archive.members().len(), members.len());
    }
}

#[test]
fn a_path_with_the_unpacking_folder_fits_in_a_name() {
    assert!(fsdyno_workload::tar::archive::MAX_PATH + "t/".len() < Name::CAPACITY);
}

#[test]
fn the_last_global_header_applies_and_a_members_own_takes_precedence() {
    let bytes = [
        raw(b'g', b"pax", b"", b"12 mtime=17\n"),
        raw(b'g', b"pax", b"", b"12 mtime=18\n"),
        raw(b'0', b"a", b"", b""),
        raw(b'x', b"pax", b"", b"12 mtime=19\n"),
        raw(b'0', b"b", b"", b""),
        raw(b'0', b"c", b"", b""),
    ];
    let archive = Archive::read(&Input::new(bytes.concat())).unwrap();
    let times: Vec<i64> = archive.members().iter().map(|member| member.mtime).collect();
    assert_eq!(times, [18, 19, 18]);
}

/// A limit far above the time needed, and far below that of a hostile archive in quadratic time: 25 GB
/// of copies here, 3200 million comparisons there.
const TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Processor time of this thread, which other load on the machine hardly changes.
fn processor_time() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    std::time::Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_global_header_of_a_mebibyte_is_not_copied_for_every_member() {
    let record = [&b"1048575 linkpath="[..], &vec![b'x'; 1_048_575 - 18], b"\n"].concat();
    let mut bytes = raw(b'g', b"pax", b"", &record);
    bytes.extend(raw(b'0', b"f", b"", b"").repeat(25_000));
    let start = processor_time();
    let archive = Archive::read(&Input::new(bytes)).unwrap();
    assert_eq!(archive.members().len(), 25_000);
    let elapsed = processor_time() - start;
    assert!(elapsed < TIME_LIMIT, "{elapsed:?}");
}

#[test]
fn repeated_directories_that_wait_for_links_take_linear_time() {
    let mut bytes = Vec::new();
    for number in 0..80_000 {
        bytes.extend(raw(b'5', format!("d{number}").as_bytes(), b"", b""));
        bytes.extend(raw(b'2', format!("d{number}/s").as_bytes(), b"/", b""));
    }
    for number in 0..80_000 {
        bytes.extend(raw(b'5', format!("d{number}").as_bytes(), b"", b""));
    }
    let start = processor_time();
    Unpack::new(&Input::new(bytes)).unwrap();
    let elapsed = processor_time() - start;
    assert!(elapsed < TIME_LIMIT, "{elapsed:?}");
}
