//! The mail workloads: their calls one by one, and against the file system in memory.

use std::collections::BTreeMap;

use crate::mail_real::archive;
use crate::memory::{build, check_workload};
use fsdyno_record::OpKind;
use fsdyno_workload::{Call, Compound, Expect, Input, Op, Setting, Share, Workload, workloads};
use proptest::prelude::*;

/// Every op of a share in a line.
pub(crate) fn trace(work: &dyn Workload, phase: usize, share: Share) -> Vec<String> {
    let mut ops = work.ops(phase, share);
    let mut op = Op::default();
    let mut lines = Vec::new();
    while ops.next(&mut op) {
        lines.push(line(&op));
    }
    lines
}

fn line(op: &Op) -> String {
    let (name, second_name) = (op.name.display(), op.second_name.display());
    let text = match op.call {
        Call::Mkdir { .. } => format!("mkdir {name}"),
        Call::OpenDir { .. } => format!("opendir {name}"),
        Call::CloseDir { .. } => "closedir".to_string(),
        Call::FsyncDir { .. } => "fsyncdir".to_string(),
        Call::Compound(Compound::Scan { .. }) => format!("scan {name}"),
        Call::Stat { .. } => format!("stat {name}"),
        Call::Create { flags, mode, .. } => {
            let flags_text = match (flags.exclusive, flags.truncate) {
                (true, false) => "exclusive",
                (false, true) => "truncate",
                other => panic!("{other:?}"),
            };
            format!("create {name} {flags_text} {mode:o}")
        }
        Call::Open { .. } => format!("open {name}"),
        Call::StatFile { .. } => "fstat".to_string(),
        Call::Write { payload, .. } => format!("write {}+{}", payload.offset, payload.length),
        Call::Read { length, .. } => format!("read {length}"),
        Call::Fsync { .. } => "fsync".to_string(),
        Call::Close { .. } => "close".to_string(),
        Call::Link { .. } => format!("link {name} {second_name}"),
        Call::Rename { .. } => format!("rename {name} {second_name}"),
        Call::Unlink { .. } => format!("unlink {name}"),
        Call::UtimesFile { mtime, .. } => format!("futimens {mtime}"),
        Call::ChownFile { .. } => "fchown".to_string(),
        Call::ChmodFile { mode, .. } => format!("fchmod {mode:o}"),
        other => panic!("{other:?}"),
    };
    match op.expect {
        Expect::Success => text,
        Expect::Missing => format!("{text} ENOENT"),
        Expect::Exists => format!("{text} EEXIST"),
        Expect::Errno | Expect::Result | Expect::Any => format!("{text} unexpected"),
    }
}

/// Parameters as text.
type Set<'a> = &'a [(&'a str, &'a str)];

/// One message of 2,500 bytes for one maildir, and nothing else.
pub(crate) const ONE_MESSAGE: [(&str, &str); 7] = [
    ("ops", "1"),
    ("writes", "100"),
    ("store", "1"),
    ("read-store", "1"),
    ("maildirs", "1"),
    ("size", "2500"),
    ("list-source", "none"),
];

pub(crate) fn with<'a>(
    set: &[(&'a str, &'a str)],
    additional: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    [set, additional].concat()
}

const READ_SOURCE: [&str; 5] =
    ["open write_src/1099267200.2119_0.mail", "fstat", "read 4096", "read 4096", "close"];

#[test]
fn every_protocol_makes_the_calls_of_its_program() {
    let tmp = "maildir0/tmp/1099267200";
    let new = "maildir0/new/1099267200";
    let table: [(Set, Vec<String>); 8] = [
        (
            &[("protocol", "copy"), ("flush", "none")],
            vec![
                format!("create {new}.2119_0.mail truncate 666"),
                "fstat".into(),
                "write 0+2500".into(),
                "close".into(),
            ],
        ),
        (
            // The message and the two lines before it, 72 bytes, in buffers of 1,024.
            &[("protocol", "qmail")],
            vec![
                "opendir maildir0".into(),
                "stat tmp/1099267200.300.mail ENOENT".into(),
                "create tmp/1099267200.300.mail exclusive 644".into(),
                "write 0+1024".into(),
                "write 1024+1024".into(),
                "write 2048+524".into(),
                "fsync".into(),
                "close".into(),
                "link tmp/1099267200.300.mail new/1099267200.300.mail".into(),
                "unlink tmp/1099267200.300.mail".into(),
                "closedir".into(),
            ],
        ),
        (
            &[("protocol", "postfix")],
            vec![
                format!("create {tmp}.P300.mail exclusive 600"),
                "fstat".into(),
                "write 0+2500".into(),
                "fsync".into(),
                "close".into(),
                format!("link {tmp}.P300.mail {new}.V801I8000.mail"),
                format!("unlink {tmp}.P300.mail"),
            ],
        ),
        (
            &[("protocol", "fsbench")],
            vec![
                format!("create {tmp}.2119_0.mail exclusive 644"),
                "write 0+2500".into(),
                "fsync".into(),
                "close".into(),
                format!("rename {tmp}.2119_0.mail {new}.2119_0.mail"),
                "opendir maildir0/new".into(),
                "fsyncdir".into(),
                "closedir".into(),
            ],
        ),
        (&[("protocol", "dovecot"), ("mail-fsync", "never")], dovecot(&[], &[])),
        (&[("protocol", "dovecot"), ("mail-fsync", "file")], dovecot(&["fsync"], &[])),
        (
            &[("protocol", "dovecot")],
            dovecot(&["fsync"], &["opendir maildir0/new", "fsyncdir", "closedir"]),
        ),
        (
            &[("protocol", "dovecot"), ("mail-fsync", "always")],
            dovecot(&["fsync"], &["opendir maildir0/new", "fsyncdir", "closedir"]),
        ),
    ];
    for (set, expected) in table {
        let work = build("maildir", &with(&ONE_MESSAGE, set), &Setting::seed(1));
        let read = READ_SOURCE.map(String::from).to_vec();
        assert_eq!(trace(work.as_ref(), 2, Share::WHOLE), [read, expected].concat(), "{set:?}");
    }
}

/// The message has 50 lines, as counted in the writes of `flush=line`, so 2,550 bytes with CR LF.
fn dovecot(after_write: &[&str], after_rename: &[&str]) -> Vec<String> {
    let lines = line_lengths(&[]).len();
    let from = "maildir0/tmp/1099267200.M0P300.mail";
    let to = format!("maildir0/new/1099267200.M0P300.mail,S=2500,W={}", 2500 + lines);
    let mut calls = vec![format!("create {from} exclusive 600"), "write 0+2500".into()];
    calls.extend(after_write.iter().map(ToString::to_string));
    calls.extend(["close".into(), format!("rename {from} {to}")]);
    calls.extend(after_rename.iter().map(ToString::to_string));
    calls
}

/// The lengths of the writes of one message with `flush=line`, checked to be contiguous.
fn line_lengths(set: Set) -> Vec<u64> {
    let set = with(&with(&ONE_MESSAGE, &[("flush", "line")]), set);
    let work = build("maildir", &set, &Setting::seed(1));
    let mut position = 0;
    let mut lengths = Vec::new();
    for call in trace(work.as_ref(), 2, Share::WHOLE) {
        let Some(write) = call.strip_prefix("write ") else { continue };
        let (offset, length) = write.split_once('+').unwrap();
        assert_eq!(offset.parse::<u64>().unwrap(), position);
        lengths.push(length.parse().unwrap());
        position += lengths.last().unwrap();
    }
    lengths
}

#[test]
fn a_flushed_line_is_a_write_and_qmail_has_two_lines_of_its_own() {
    let lines = line_lengths(&[]);
    assert_eq!(lines.iter().sum::<u64>(), 2500);
    assert!((30..=80).contains(&lines.len()), "{} lines of about 50 bytes", lines.len());
    let qmail = line_lengths(&[("protocol", "qmail")]);
    assert_eq!(qmail[..2], [38, 34]);
    assert_eq!(qmail[2..], lines[..]);
}

#[test]
fn messages_are_unpacked_as_tar_does_and_maildirs_are_four_directories() {
    let set = with(&ONE_MESSAGE, &[("fill", "1"), ("flush", "none"), ("size", "10000")]);
    let work = build("maildir", &set, &Setting::seed(1));
    let file = |path: &str, writes: [&str; 2]| {
        vec![
            format!("create {path} exclusive 600"),
            format!("write {}", writes[0]),
            format!("write {}", writes[1]),
            "futimens 1099267200".to_string(),
            "fchown".to_string(),
            "fchmod 644".to_string(),
            "close".to_string(),
        ]
    };
    // The first record of 10,240 bytes contains the headers of the directory and of the message, and 9,216 bytes. The
    // second contains the other 784, padded to 1,024, two more headers, and 8,192 bytes.
    let expected = [
        vec!["mkdir write_src".to_string()],
        file("write_src/1099267200.2119_0.mail", ["0+9216", "9216+784"]),
        vec!["mkdir read_src".to_string()],
        file("read_src/1099267200.2119_0.mail", ["0+8192", "8192+1808"]),
    ];
    assert_eq!(trace(work.as_ref(), 0, Share::WHOLE), expected.concat());
    let expected = [
        "mkdir maildir0",
        "mkdir maildir0/tmp",
        "mkdir maildir0/new",
        "mkdir maildir0/cur",
        "open read_src/1099267200.2119_0.mail",
        "fstat",
        "read 4096",
        "read 4096",
        "read 4096",
        "read 4096",
        "close",
        "create maildir0/new/1099267200.2119_0.mail truncate 666",
        "fstat",
        "write 0+4096",
        "write 4096+4096",
        "write 8192+1808",
        "close",
    ];
    assert_eq!(trace(work.as_ref(), 1, Share::WHOLE), expected);
}

#[test]
fn the_source_is_listed_as_often_as_requested() {
    let scans = |mode| {
        let set = [("ops", "200"), ("store", "20"), ("read-store", "5"), ("list-source", mode)];
        let work = build("maildir", &set, &Setting::seed(4));
        let calls = trace(work.as_ref(), 2, Share::WHOLE);
        let count = |text| calls.iter().filter(|call| *call == text).count();
        (count("scan write_src"), count("scan read_src"), work.work_units(2)["writes"] as usize)
    };
    let (each, reads, writes) = scans("each");
    assert_eq!((each, reads), (writes, 1));
    assert_eq!(scans("auto"), scans("each"));
    assert_eq!(scans("once"), (1, 1, writes));
    assert_eq!(scans("none"), (0, 0, writes));
}

#[test]
fn four_of_five_ops_write_and_their_number_depends_on_the_seed() {
    let writes: Vec<f64> = (0..60)
        .map(|seed| {
            let work = build("maildir", &[("size", "1")], &Setting::seed(seed));
            let units = work.work_units(2);
            assert_eq!(units["writes"] + units["reads"], 10_000);
            units["writes"] as f64
        })
        .collect();
    // Binomial(10,000, 0.8): mean 8,000, standard deviation 40.
    assert!(writes.iter().all(|writes| (writes - 8000.0).abs() < 4.0 * 40.0), "{writes:?}");
    let mean = writes.iter().sum::<f64>() / 60.0;
    assert!((mean - 8000.0).abs() < 4.0 * 40.0 / 60f64.sqrt(), "{mean}");
    let variance = writes.iter().map(|writes| (writes - mean).powi(2)).sum::<f64>() / 59.0;
    // A standard deviation of 60 draws is known to 9 %; four times that.
    assert!((variance.sqrt() / 40.0 - 1.0).abs() < 0.37, "{}", variance.sqrt());
}

#[test]
fn messages_and_maildirs_are_drawn_evenly() {
    let set = [("maildirs", "10"), ("store", "20"), ("size", "1"), ("list-source", "none")];
    let work = build("maildir", &set, &Setting::seed(5));
    let mut maildirs = BTreeMap::<String, u32>::new();
    let mut messages = BTreeMap::<String, u32>::new();
    for call in trace(work.as_ref(), 2, Share::WHOLE) {
        if let Some(path) = call.strip_prefix("create ") {
            *maildirs.entry(path[..8].to_string()).or_default() += 1;
        } else if let Some(path) = call.strip_prefix("open write_src/") {
            *messages.entry(path.to_string()).or_default() += 1;
        }
    }
    // 8,000 writes: 800 +- 27 to each maildir, 400 +- 19.5 of each message.
    assert!(maildirs.len() == 10 && maildirs.values().all(|n| (692..=908).contains(n)));
    assert!(messages.len() == 20 && messages.values().all(|n| (322..=478).contains(n)));
}

#[test]
fn the_script_computes_once_before_each_write_and_each_read() {
    let set = [("ops", "50"), ("store", "9"), ("read-store", "5"), ("think", "original")];
    let work = build("maildir", &set, &Setting::seed(6));
    let mut ops = work.ops(2, Share::WHOLE);
    let mut op = Op::default();
    let mut computed = BTreeMap::<u64, u64>::new();
    while ops.next(&mut op) {
        if op.compute.0 > 0 {
            let write = matches!(op.call, Call::Compound(Compound::Scan { .. }));
            assert!(write == (op.compute.0 == 46_000_000), "{}", line(&op));
            *computed.entry(op.compute.0).or_default() += 1;
        }
    }
    let units = work.work_units(2);
    assert_eq!(
        computed,
        BTreeMap::from([(46_000_000, units["writes"]), (150_000, units["reads"])])
    );
}

fn choice(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn protocol() -> impl Strategy<Value = &'static str> {
    choice(&["copy", "qmail", "postfix", "dovecot", "fsbench"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_script_leaves_the_predicted_tree(
        (ops, writes, maildirs) in (1u64..80, 0u64..=100, 1u64..15),
        (store, read_store, fill) in (1u64..40, 1u64..12, 0u64..4),
        protocol in protocol(),
        fsync in choice(&["never", "optimized", "always", "file"]),
        flush in choice(&["auto", "line", "none"]),
        list in choice(&["auto", "each", "once", "none"]),
        (think, size) in (choice(&["off", "original"]), choice(&["mix", "0", "1", "1024", "4096", "30000"])),
        reads_after in 0u64..30,
        (seed, threads) in (prop::num::u64::ANY, 1u32..4),
    ) {
        let fsync = if protocol == "dovecot" { fsync } else { "optimized" };
        let memory = check_workload("maildir", &[
            ("ops", &ops.to_string()), ("writes", &writes.to_string()),
            ("maildirs", &maildirs.to_string()), ("store", &store.to_string()),
            ("read-store", &read_store.to_string()), ("fill", &fill.min(read_store).to_string()),
            ("protocol", protocol), ("mail-fsync", fsync), ("flush", flush),
            ("list-source", list), ("think", think), ("size", size),
            ("reads-after", &reads_after.to_string()),
        ], seed, threads);
        let delivered = memory.paths().iter().filter(|path| path.contains("/new/")).count() as u64;
        let filled = maildirs * fill.min(read_store);
        prop_assert!((filled..=filled + ops).contains(&delivered));
        prop_assert!(writes != 100 || delivered == filled + ops);
    }

    #[test]
    fn deliverers_and_their_reader_leave_the_predicted_tree(
        (ops, maildirs, store, fill) in (1u64..60, 1u64..8, 1u64..40, 0u64..3),
        deliverers in choice(&["1", "2", "4", "8", "16", "sweep"]),
        protocol in protocol(),
        flush in choice(&["auto", "line", "none"]),
        retrieve in choice(&["read", "delete"]),
        size in choice(&["mix", "0", "1", "3000"]),
        seed: u64,
    ) {
        let memory = check_workload("maildir", &[
            ("ops", &ops.to_string()), ("maildirs", &maildirs.to_string()),
            ("store", &store.to_string()), ("fill", &fill.to_string()),
            ("deliverers", deliverers), ("protocol", protocol), ("flush", flush),
            ("retrieve", retrieve), ("size", size),
        ], seed, 3);
        let steps = if deliverers == "sweep" { 5 } else { 1 };
        let seen = memory.paths().iter().filter(|path| path.contains("/cur/")).count() as u64;
        prop_assert_eq!(seen, if retrieve == "delete" { 0 } else { ops * steps });
    }

    #[test]
    fn reading_changes_nothing(
        (reads, store) in (1u64..200, 1u64..60),
        gap in choice(&["none", "sync", "drop", "remount"]),
        size in choice(&["mix", "0", "4096", "10000"]),
        seed: u64,
    ) {
        check_workload("maildir-read", &[
            ("reads", &reads.to_string()), ("read-store", &store.to_string()),
            ("gap", gap), ("size", size),
        ], seed, 1);
    }
}

#[test]
fn the_defaults_are_the_published_numbers() {
    let work = build("maildir", &[], &Setting::seed(1));
    let counts = work.counts(0, 1);
    assert_eq!(counts[&OpKind::Create], 78_310);
    assert_eq!(counts[&OpKind::Mkdir], 2);
    assert_eq!(work.counts(1, 1), BTreeMap::from([(OpKind::Mkdir, 400)]));
    assert_eq!(build("maildir-read", &[], &Setting::seed(1)).work_units(1)["reads"], 10_000);
}

#[test]
fn only_mail_is_expected_in_maildirs() {
    let set = with(&ONE_MESSAGE, &[("maildirs", "2"), ("ops", "2")]);
    let work = build("maildir", &set, &Setting::seed(1));
    let tree = work.tree(2);
    let exists = |path: &str| tree.lookup(path.as_bytes()).is_some();
    let name = "1099267200.2119_0.mail";
    assert!(exists(&format!("write_src/{name}")) && exists("maildir1/cur"));
    assert!(exists(&format!("maildir0/new/{name}")) != exists(&format!("maildir1/new/{name}")));
    for invalid in [
        "write_src/1099267200.2119_1.mail",
        "write_src/1099267200.2119_0.mai",
        "write_src/x/1099267200.2119_0.mail",
        "write_srcx",
        "maildir2",
        "maildir0/old",
        "maildir0/tmp/1099267200.2119_0.mail",
        "maildir0/cur/1099267200.2119_0.mail:2,S",
        "maildir0/new/1099267200.2119_2.mail",
        "maildir0/new/1099267200.2119_0.mail/x",
    ] {
        assert!(!exists(invalid), "{invalid}");
    }
    assert!(work.tree(1).lookup(format!("maildir0/new/{name}").as_bytes()).is_none());
}

#[test]
fn contradictions_are_refused_before_any_work_with_the_correction() {
    let error = |name: &str, set: Set, input| {
        let kind = workloads::find(name).unwrap();
        let setting = Setting { seed: 0, input };
        kind.build(&kind.resolve(set).unwrap(), &setting).err().unwrap().to_string()
    };
    let table: [(Set, &str); 7] = [
        (&[("fill", "6"), ("read-store", "5")], "use fill=5 or less"),
        (&[("mail-fsync", "always")], "is a setting of protocol=dovecot"),
        (&[("retrieve", "delete")], "use deliverers=1 or more"),
        (
            &[("deliverers", "2"), ("list-source", "each")],
            "list-source=each applies only to the script",
        ),
        (
            &[("deliverers", "2"), ("think", "original")],
            "think=original applies only to the script",
        ),
        (&[("deliverers", "2"), ("writes", "50")], "writes=50 applies only to the script"),
        (&[("source", "mail"), ("size", "5")], "real messages have their own sizes"),
    ];
    for (set, expected) in table {
        let message = error("maildir", set, None);
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    }
    let source = [("source", "mail")];
    let message = error("maildir-read", &source, Some(archive(&[])));
    assert!(message.starts_with("--set source=mail: "), "{message}");
    let message = error("maildir", &source, Some(Input::new(vec![1u8; 700])));
    assert!(message.starts_with("--set source=mail: "), "{message}");
}
