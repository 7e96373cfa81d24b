//! Tests of the import of recordings made by other tools.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::path::PathBuf;

use fsdyno_recorder::import::{Format, ImportOptions, Imported, import};
use fsdyno_trace::{Call, CallKind, Checker, Entry, Event, Item, Kind, NodeId, Reader};

struct Trace {
    imported: Imported,
    entries: Vec<Entry>,
    events: Vec<Event>,
}

impl Trace {
    fn kinds(&self) -> Vec<&'static str> {
        self.events.iter().map(|it| it.call.kind().name()).collect()
    }

    fn entry(&self, name: &str) -> &Entry {
        self.entries.iter().find(|it| it.name.bytes() == name.as_bytes()).unwrap()
    }
}

fn imported_with(format: Format, options: &ImportOptions, text: &str) -> Trace {
    let mut bytes = Vec::new();
    let out = &mut bytes;
    let imported = import(format, text.as_bytes(), options, || Ok(out)).unwrap();
    let (mut entries, mut events) = (Vec::new(), Vec::new());
    let mut checker = Checker::new();
    for item in Reader::new(&bytes[..]).unwrap() {
        let item = item.unwrap();
        checker.check(&item).unwrap();
        match item {
            Item::Entry(it) => entries.push(it),
            Item::Event(it) => events.push(it),
            _ => {}
        }
    }
    Trace { imported, entries, events }
}

fn imported(format: Format, text: &str) -> Trace {
    imported_with(format, &ImportOptions::default(), text)
}

fn import_error(format: Format, text: &str) -> String {
    let (mut bytes, options) = (Vec::new(), ImportOptions::default());
    let out = &mut bytes;
    let error = import(format, text.as_bytes(), &options, || Ok(out)).unwrap_err();
    assert!(bytes.is_empty());
    error.to_string()
}

#[test]
fn strace_output_becomes_calls_on_objects() {
    let text = r#"
100 1700000000.000100 openat(AT_FDCWD</srv/t>, "dir/old", O_RDONLY) = 3</srv/t/dir/old> <0.000010>
100 1700000000.000200 newfstatat(3</srv/t/dir/old>, "", {st_mode=S_IFREG|0640, st_size=5000, ...}, AT_EMPTY_PATH) = 0 <0.000002>
100 1700000000.000300 openat(AT_FDCWD</srv/t>, "new", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4</srv/t/new> <0.000020>
100 1700000000.000400 read(3</srv/t/dir/old>, "a, \"b) = 7\"\n"..., 8192) = 5000 <0.000003>
100 1700000000.000500 write(4</srv/t/new>, "..."..., 5000) = 5000 <0.000004>
100 1700000000.000600 close(3</srv/t/dir/old>) = 0 <0.000001>
100 1700000000.000700 rename("new", "dir/moved") = 0 <0.000005>
100 1700000000.000800 fsync(4</srv/t/dir/moved> <unfinished ...>
101 1700000000.000850 stat("/srv/t/none", 0x7ffd) = -1 ENOENT (No such file or directory) <0.000001>
100 1700000000.000900 <... fsync resumed>) = 0 <0.000100>
100 1700000000.001000 unlink("dir/moved") = 0 <0.000006>
100 1700000000.001100 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
100 1700000000.001200 exit_group(0) = ?
100 1700000000.001300 +++ exited with 0 +++
"#;
    let trace = imported(Format::Strace, text);
    assert_eq!((trace.imported.unknown, trace.imported.lines), (0, 15));
    let expected = [
        "open", "stat", "open", "read", "write", "close", "rename", "spawn", "stat", "sync",
        "unlink", "exit",
    ];
    assert_eq!(trace.kinds(), expected);
    let old = trace.entry("old");
    assert_eq!(
        (old.kind, old.size, old.mode, old.parent),
        (Kind::File, 5000, 0o640, trace.entry("dir").node)
    );
    assert_eq!((trace.entry("dir").kind, trace.entry("dir").parent), (Kind::Directory, NodeId(0)));
    assert_eq!(trace.entries.len(), 2);
    let Call::Open { created: Some(new), .. } = trace.events[2].call else {
        panic!("{:?}", trace.events[2])
    };
    let Call::Unlink { at } = &trace.events[10].call else { panic!("{:?}", trace.events[10]) };
    assert_eq!(at.node, Some(new));
    let sync = &trace.events[9];
    assert_eq!((sync.start, sync.duration, trace.events[8].result), (700_000, 100_000, -2));
}

#[test]
fn threads_children_and_descriptors_are_followed() {
    let text = r#"
openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3
dup2(3, 1) = 1
vfork(strace: Process 12 attached
 <unfinished ...>
[pid 12] execve("/bin/x", ["x"], 0x7ff /* 3 vars */) = 0
[pid 12] write(1, "x", 1) = 1
[pid 12] chdir("/other") = 0
[pid 12] open("rel", O_RDONLY) = 3
[pid 12] +++ exited with 1 +++
[pid 11] <... vfork resumed>) = 12
[pid 11] close(1) = 0
close(3) = 0
"#
    .replace("vfork(strace: Process 12 attached\n", "strace: Process 12 attached\nvfork(");
    let trace = imported(Format::Strace, &text);
    // The end of the child closes the descriptor of rel; that of a is still open in its parent. The start of the
    // resumed vfork belongs to the thread without an ID, whose ID appears later.
    assert_eq!(trace.imported.unknown, 0, "{:?}", trace.imported);
    let writes: Vec<_> =
        trace.events.iter().filter(|it| it.call.kind() == CallKind::Write).collect();
    assert_eq!(writes[0].thread.0, 1);
    let last: Vec<bool> = trace
        .events
        .iter()
        .filter_map(|it| if let Call::Close { last, .. } = it.call { Some(last) } else { None })
        .collect();
    assert_eq!(last, [true, false, true]);
    assert_eq!(trace.entry("rel").parent, trace.entry("other").node);
}

#[test]
fn lines_that_are_not_understood_are_counted_with_their_numbers() {
    let text = "open(\"a\", O_RDONLY) = 3\nwhat is this\nread(3, \"x\", 4) = 1\nread(3, \"\nclose(3) = 0\n";
    let trace = imported(Format::Strace, text);
    assert_eq!(trace.kinds(), ["open", "read", "close"]);
    let lines: Vec<u64> = trace.imported.first.iter().map(|it| it.0).collect();
    assert_eq!((trace.imported.unknown, lines), (2, vec![2, 4]));
    assert_eq!(import_error(Format::Strace, "\nno strace\n"), "line 2: it is not a call");
    assert!(
        import_error(Format::Strace, "getpid() = 4\n")
            .contains("no call that a trace can represent")
    );
}

#[test]
fn paths_out_of_the_tree_lead_to_the_system_tree() {
    let text = "open(\"../../../../etc/x\", O_RDONLY) = 3\nopen(\"a\\0b\", O_RDONLY) = 4\nopen(\"/srv/tree/in\", O_RDONLY) = 5\n";
    let options = ImportOptions { tree: Some(PathBuf::from("/srv/tree")), anonymize: false };
    let trace = imported_with(Format::Strace, &options, text);
    assert_eq!(trace.entry("etc").parent, NodeId(1));
    assert_eq!(trace.entry("in").parent, NodeId(0));
    assert!(trace.entries.iter().all(|it| !it.name.bytes().contains(&0)));
    let options = ImportOptions { anonymize: true, ..options };
    let hashed = imported_with(Format::Strace, &options, text);
    assert!(hashed.entries.iter().all(|it| it.name.bytes().len() >= 12));
}

#[test]
fn fio_logs_become_calls_and_invalid_lines_are_errors() {
    let text = "fio version 3 iolog\n19 a.0.0 add\n125 a.0.0 open\n128 a.0.0 read 0 4096\n23010 a.0.0 write 20480 4096\n23011 a.0.0 sync 0 0\n23012 a.0.0 trim 0 512\n23013 a.0.0 close\n";
    let trace = imported(Format::FioV3, text);
    assert_eq!(trace.kinds(), ["open", "read", "write", "sync", "fallocate", "close"]);
    assert_eq!((trace.entry("a.0.0").size, trace.events[2].start), (24_576, 23_010_000));
    let two = "fio version 2 iolog\n/d/f add\n/d/f open\n/d/f wait 500 0\n/d/f datasync 0 0\n";
    assert_eq!(imported(Format::FioV2, two).kinds(), ["open", "sync"]);
    assert_eq!(
        import_error(Format::FioV2, text),
        "line 1: it is 'fio version 3 iolog', not 'fio version 2 iolog'"
    );
    let invalid = text.replace("read 0 4096", "read 0");
    assert_eq!(import_error(Format::FioV3, &invalid), "line 4: offset and length are missing");
    let invalid = text.replace("125 a.0.0 open\n", "");
    assert_eq!(import_error(Format::FioV3, &invalid), "line 3: 'a.0.0' is not open");
}

#[test]
fn babeltrace_output_becomes_calls() {
    let text = r#"[17:02:57.265276947] (+0.000960778) host syscall_entry_openat: { cpu_id = 2 }, { vtid = 7, procname = "a" }, { dfd = -100, filename = "d/f", flags = ( "O_RDONLY" : container = 0 ), mode = ( <unknown> : container = 0 ) }
[17:02:57.265276950] (+0.000000003) host sched_switch: { cpu_id = 2 }, { prev_comm = "a" }
[17:02:57.265284413] (+0.000007466) host syscall_exit_openat: { cpu_id = 1 }, { vtid = 7, procname = "a" }, { ret = 3 }
[17:02:57.265300000] (+0.000007466) host syscall_entry_pread64: { cpu_id = 1 }, { vtid = 7 }, { fd = 3, count = 100, pos = 4000 }
[17:02:57.265310000] (+0.000007466) host syscall_exit_pread64: { cpu_id = 1 }, { vtid = 7 }, { ret = 96, buf = 139 }
[17:02:57.265320000] (+0.000007466) host syscall_entry_unlink: { cpu_id = 1 }, { vtid = 7 }, { pathname = "none" }
[17:02:57.265330000] (+0.000007466) host syscall_exit_unlink: { cpu_id = 1 }, { vtid = 7 }, { ret = -2 }
not this
"#;
    let trace = imported(Format::Lttng, text);
    assert_eq!(trace.kinds(), ["open", "read", "unlink"]);
    assert_eq!(
        (trace.entry("f").size, trace.events[1].duration, trace.events[2].result),
        (4096, 10_000, -2)
    );
    assert_eq!((trace.imported.unknown, trace.imported.first[0].0), (1, 8));
}

/// Imports real output of the strace of this host, in three forms.
#[test]
fn the_output_of_the_installed_strace_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo hi >old; cat old >new; mv new moved; (ls -l . >/dev/null); mkdir x; rmdir x; rm moved none; ln -s old l; \
                  cat l | cat >copy; chmod 600 copy; touch -d 2020-01-01 copy; sync copy; dd if=copy of=d bs=1 count=3 2>/dev/null";
    for flags in [
        &["-f"][..],
        &["-f", "-y", "-ttt", "-T"],
        &["-f", "-yy", "-tt"],
        &["-f", "-t", "-y"],
        &["-f", "-r"],
    ] {
        let (out, tree) = (dir.path().join("text"), tempfile::tempdir().unwrap());
        let ran = std::process::Command::new("strace")
            .args(flags)
            .arg("-o")
            .args([out.to_str().unwrap(), "sh", "-c", script])
            .current_dir(tree.path())
            .stderr(std::process::Stdio::null())
            .status();
        if !ran.is_ok_and(|it| it.success()) {
            eprintln!("skipped: strace does not run here");
            return;
        }
        let text = std::fs::read_to_string(&out).unwrap();
        let trace = imported(Format::Strace, &text);
        assert_eq!(trace.imported.unknown, 0, "{flags:?}: {:?}", trace.imported.first);
        let made = trace
            .events
            .iter()
            .filter(|it| matches!(it.call, Call::Open { created: Some(_), .. }))
            .count();
        assert_eq!(made, 4, "{flags:?}: {:?}", trace.imported.notes);
        let kinds = trace.kinds();
        for kind in [
            "rename", "mkdir", "rmdir", "unlink", "symlink", "chmod", "utimes", "sync", "exec",
            "spawn", "exit",
        ] {
            assert!(kinds.contains(&kind), "{flags:?}: {kind}");
        }
        assert!(
            !trace.imported.notes.contains_key("threads whose start is not in the text"),
            "{flags:?}"
        );
    }
}
