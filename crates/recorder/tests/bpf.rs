//! Tests of recording by BPF, as root.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Bench, compiled, events, items, named, none_is_lost, sees};
use fsdyno_recorder::{Bounds, Options, RecordError, RecordMethod, Recorded, attach, check_bpf};
use fsdyno_trace::{Call, CallKind, Event, Item, Reader};

/// Returns true if this host can record by BPF; prints the reason if it cannot.
fn has_bpf() -> bool {
    match check_bpf() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

fn options(bench: &Bench) -> Options {
    Options { trees: vec![bench.tree()], how: RecordMethod::Bpf, ..Options::default() }
}

fn script(bench: &Bench, script: &str) -> (Recorded, Vec<Item>) {
    let script = format!("cd {} && {{ {script}\n}}", bench.tree().display());
    bench.record_with(&options(bench), &["sh", "-c", &script])
}

fn counts(items: &[Item], kind: CallKind) -> usize {
    events(items).iter().filter(|it| it.call.kind() == kind).count()
}

#[test]
fn no_call_of_eight_threads_is_lost_by_bpf() {
    if !has_bpf() {
        return;
    }
    let full = std::env::var("FSDYNO_TEST").is_ok_and(|it| it == "full");
    let rounds = if full { 16_000 } else { 1_600 };
    let recorded = none_is_lost(rounds, RecordMethod::Bpf, &[]);
    assert_eq!(recorded.end.notes.len(), 0, "{:?}", recorded.end.notes);
    none_is_lost(160, RecordMethod::Bpf, &["-static"]);
}

#[test]
fn bpf_records_what_ptrace_records() {
    if !has_bpf() {
        return;
    }
    let (stopped, _) = sees(RecordMethod::Ptrace);
    let (seen, all) = sees(RecordMethod::Bpf);
    assert_eq!(seen, stopped);
    assert!(all > stopped.len() as u64);
}

/// Replaces the numbers of nodes and files by the order of their first appearance.
fn renumber(text: &str, known: &mut Vec<String>) -> String {
    let mut all = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("Id(") {
        let end = at + rest[at..].find(')').unwrap();
        let begin = rest[..at].rfind(|it: char| !it.is_alphanumeric()).map_or(0, |it| it + 1);
        let id = rest[begin..end].to_string();
        let number = known.iter().position(|it| *it == id).unwrap_or_else(|| {
            known.push(id);
            known.len() - 1
        });
        all.push_str(&rest[..at]);
        all.push_str(&format!("#{number}"));
        rest = &rest[end + 1..];
    }
    all + rest
}

/// Records the program `paths`; returns its calls, and the names of its files in the initial tree.
fn paths(how: RecordMethod) -> (Vec<String>, Vec<String>) {
    let bench = Bench::new();
    let program = compiled(bench.dir.path(), "paths", &[]);
    let tree = bench.tree();
    fs::write(tree.join("b-source"), "0123456789").unwrap();
    let options = Options { trees: vec![tree.clone()], how, ..Options::default() };
    let args = [program.to_str().unwrap(), tree.to_str().unwrap()];
    let (recorded, items) = bench.record_with(&options, &args);
    assert!(recorded.status.success(), "{how:?}: {:?}", recorded.status);
    assert_eq!(recorded.end.notes.len(), 0, "{how:?}: {:?}", recorded.end.notes);
    let mut known = Vec::new();
    // The number of an object outside the trace is known only while the object exists.
    let text = |it: &Event| match &it.call {
        Call::Outside { call, object, .. } => format!("{call:?} {object:?} = {}", it.result),
        call => format!("{call:?} = {}", it.result),
    };
    let all: Vec<String> = events(&items).into_iter().map(text).collect();
    let from = all.iter().position(|it| it.contains("b-begin")).unwrap();
    let to = all.iter().position(|it| it.contains("b-end")).unwrap();
    let all = all[from..=to].iter().map(|it| renumber(it, &mut known)).collect();
    let entries =
        items.iter().filter_map(|it| if let Item::Entry(it) = it { Some(it) } else { None });
    let names = entries.map(|it| String::from_utf8_lossy(it.name.bytes()).into_owned());
    (all, names.filter(|it| it.starts_with("b-") || it == "comm").collect())
}

#[test]
fn paths_are_resolved_as_of_the_time_of_the_call() {
    if !has_bpf() {
        return;
    }
    let (stopped, seen) = (paths(RecordMethod::Ptrace), paths(RecordMethod::Bpf));
    assert_eq!(seen.1, ["b-source"]);
    assert_eq!(stopped.1, seen.1);
    for (stopped, seen) in stopped.0.iter().zip(&seen.0) {
        assert_eq!(seen, stopped);
    }
    assert_eq!(seen.0.len(), stopped.0.len());
}

#[test]
fn a_tree_within_a_tree_has_one_entry() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let below = bench.tree().join("t-below");
    fs::create_dir(&below).unwrap();
    let trees = vec![bench.tree(), below];
    let options = Options { trees, how: RecordMethod::Bpf, ..Options::default() };
    // The items are checked.
    let (recorded, all) = bench.record_with(&options, &["true"]);
    assert!(recorded.status.success() && !all.is_empty());
}

#[test]
fn the_initial_tree_is_the_state_before_the_start() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree();
    fs::create_dir(tree.join("a")).unwrap();
    fs::write(tree.join("a/e-old"), vec![7; 5000]).unwrap();
    fs::hard_link(tree.join("a/e-old"), tree.join("a/e-second")).unwrap();
    fs::write(tree.join("e-gone"), "x").unwrap();
    std::os::unix::fs::symlink("a/e-old", tree.join("e-link")).unwrap();
    let text = "cat e-link >a/e-new; mv a/e-new a/e-moved; rm a/e-moved e-gone; cat e-second 2>&-; \
        mv a b; cat b/e-second; exit 7";
    let (recorded, all) = script(&bench, text);
    assert_eq!(recorded.status.code(), Some(7));
    let entries =
        all.iter().filter_map(|it| if let Item::Entry(it) = it { Some(it) } else { None });
    let mut found: Vec<(String, u64)> = entries
        .map(|it| (String::from_utf8_lossy(it.name.bytes()).into_owned(), it.size))
        .filter(|(name, _)| name.starts_with("e-"))
        .collect();
    found.sort();
    let expected = [("e-gone", 1), ("e-link", 7), ("e-old", 5000), ("e-second", 5000)];
    assert_eq!(found, expected.map(|(name, size)| (name.to_string(), size)));
    let old = named(&all, "e-old");
    let open = old.iter().find(|(it, _)| it.call.kind() == CallKind::Open).unwrap();
    assert_eq!(open.0.call.identities().names[0].unwrap().links, 1);
    // The file is found by its second name in the renamed directory.
    let second: Vec<_> = named(&all, "e-second");
    let nodes: Vec<_> = second
        .iter()
        .filter(|(it, _)| it.result >= 0)
        .map(|(it, _)| it.call.identities().names[0].unwrap().node)
        .collect();
    assert_eq!(nodes, [open.0.call.identities().names[0].unwrap().node]);
    let Some(Item::End(end)) = all.last() else { panic!("no end") };
    assert_eq!(end.status, Some(7 << 8));
}

#[test]
fn many_children_are_followed_by_bpf() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let (recorded, all) = script(&bench, "for i in $(seq 1000); do (: >c$i) & done; wait");
    assert!(recorded.status.success());
    let made = named(&all, "c");
    let made = made.iter().filter(|(it, _)| matches!(it.call, Call::Open { created: Some(_), .. }));
    assert_eq!(made.count(), 1000);
    let spawned = counts(&all, CallKind::Spawn);
    assert!(spawned >= 1000, "{spawned}");
    assert_eq!(counts(&all, CallKind::Exit), spawned + 1);
}

#[test]
fn descriptors_are_followed_across_exec_fork_and_dup() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let text =
        "exec 5>kept; echo a >&5; (echo b >&5); cat /dev/null >&5; sh -c 'echo c >&5'; exec 5>&-";
    let (recorded, all) = script(&bench, text);
    assert!(recorded.status.success());
    let (open, _) = named(&all, "kept")
        .into_iter()
        .find(|(it, _)| matches!(it.call, Call::Open { created: Some(_), .. }))
        .unwrap();
    let Call::Open { file: Some(file), .. } = open.call else { panic!("{open:?}") };
    let is_write =
        |it: &&&Event| matches!(it.call, Call::Write { file: written, .. } if written == file);
    let all = events(&all);
    assert_eq!(all.iter().filter(is_write).map(|it| it.result).collect::<Vec<_>>(), [2, 2, 2]);
    let last = all.iter().filter(
        |it| matches!(it.call, Call::Close { file: closed, last: true, .. } if closed == file),
    );
    assert_eq!(last.count(), 1);
}

#[test]
fn an_io_uring_instance_is_noted_and_works() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let program = compiled(bench.dir.path(), "uring", &[]);
    let (recorded, _) = bench.record_with(&options(&bench), &[program.to_str().unwrap()]);
    let code = recorded.status.code();
    let note = "io_uring instances (io_uring_setup), whose operations are not in the trace";
    let expected = (code == Some(0)).then_some(&1);
    assert_eq!(recorded.end.notes.get(note), expected, "{code:?}");
}

/// A shell in a directory, which runs the lines that it receives.
struct Shell {
    child: Child,
    input: Option<std::process::ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn new(tree: &Path) -> Shell {
        let mut child = Command::new("sh")
            .current_dir(tree)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Shell { child, input, output: BufReader::new(output) }
    }

    /// Runs a line and waits for its end.
    fn run(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}; echo done").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n");
    }
}

/// Records a shell while it runs `lines`, after it ran `before` unrecorded.
fn record_shell(bench: &Bench, before: &str, lines: &[&str], ends: bool) -> (Recorded, Vec<Item>) {
    let mut shell = Shell::new(&bench.tree());
    shell.run(before);
    let pid = shell.child.id() as i32;
    let path: PathBuf = bench.dir.path().join("out.trace");
    let (options, out) = (options(bench), File::create(&path).unwrap());
    let max_duration = (!ends).then_some(Duration::from_secs(5));
    let (begins, begun) = std::sync::mpsc::channel();
    let begins = move || begins.send(()).unwrap();
    let recorder =
        std::thread::spawn(move || attach(&options, Bounds { pid, max_duration }, out, begins));
    begun.recv().unwrap();
    lines.iter().for_each(|line| shell.run(line));
    if ends {
        shell.input = None;
        shell.child.wait().unwrap();
    }
    let recorded = recorder.join().unwrap().unwrap();
    if !ends {
        // The process still works.
        shell.run("echo more >after");
        shell.input = None;
        assert!(shell.child.wait().unwrap().success());
    }
    (recorded, items(&path))
}

#[test]
fn a_running_process_is_recorded_to_its_end() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let before = "mkdir d; cd d; exec 7>p-open; echo hello >&7";
    let lines = ["echo more >&7", ": >p-new", "cat p-new p-open >/dev/null", "rm p-open"];
    let (recorded, all) = record_shell(&bench, before, &lines, true);
    assert!(recorded.failed.is_none() && recorded.status.success());
    // The file that was open, with its position; then the calls on it, and those of a child.
    let all_events = events(&all);
    let inherited = all_events
        .iter()
        .find_map(|it| match it.call {
            Call::Inherit { file, offset: 6, .. } => Some(file),
            _ => None,
        })
        .unwrap();
    let write = |it: &&&Event| matches!(it.call, Call::Write { file, .. } if file == inherited);
    assert_eq!(all_events.iter().filter(write).map(|it| it.result).collect::<Vec<_>>(), [5]);
    let new = named(&all, "p-new");
    assert!(new.iter().any(|(it, _)| matches!(it.call, Call::Open { created: Some(_), .. })));
    let of_child = new.iter().filter(|(it, _)| it.thread.0 > 0).count();
    assert!(of_child > 0 && counts(&all, CallKind::Exec) == 2, "{new:?}");
    let Some(Item::End(end)) = all.last() else { panic!("no end") };
    assert_eq!(end.status, Some(0));
}

#[test]
fn a_process_continues_after_its_recording() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let (recorded, all) = record_shell(&bench, ":", &[": >p-new"], false);
    assert!(recorded.failed.is_none());
    assert_eq!(named(&all, "p-new").len(), 1);
    assert_eq!(fs::read_to_string(bench.tree().join("after")).unwrap(), "more\n");
    let Some(Item::End(end)) = all.last() else { panic!("no end") };
    assert_eq!(end.status, None);
}

#[test]
fn a_process_that_has_ended_is_an_error() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let bounds = Bounds { pid: child.id() as i32, max_duration: None };
    let out = File::create(bench.dir.path().join("t")).unwrap();
    let error = attach(&options(&bench), bounds, out, || ()).unwrap_err().to_string();
    let expected =
        format!("process {} cannot be recorded: No such process (os error 3)", child.id());
    assert_eq!(error, expected);
}

/// Runs a recorder in a separate process, which the next test kills.
#[test]
#[ignore = "a helper for another test"]
fn endless() {
    let Ok(dir) = std::env::var("FSDYNO_ENDLESS") else { return };
    let script =
        format!("cd {dir} && echo $$ >pid && while [ ! -e stop ]; do : >f; done; : >ended");
    let out = File::create(format!("{dir}/out.trace")).unwrap();
    let options = Options { trees: vec![dir.into()], how: RecordMethod::Bpf, ..Options::default() };
    let _ = fsdyno_recorder::record(&options, &["sh".into(), "-c".into(), script], out);
}

#[test]
fn a_killed_recorder_leaves_the_command_running_and_a_valid_beginning() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let dir = bench.dir.path();
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "endless", "--ignored"])
        .env("FSDYNO_ENDLESS", dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (path, pid) = (dir.join("out.trace"), dir.join("pid"));
    let length = || fs::metadata(&path).map_or(0, |it| it.len());
    let mut enough = u64::MAX;
    while length() < enough {
        if enough == u64::MAX && pid.exists() {
            enough = length() + 1000;
        }
        assert!(recorder.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // The command continues, and ends without a signal.
    let pid = fs::read_to_string(pid).unwrap();
    assert!(Path::new(&format!("/proc/{}", pid.trim())).exists());
    fs::write(dir.join("stop"), "").unwrap();
    while !dir.join("ended").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let reader = Reader::new(File::open(&path).unwrap()).unwrap();
    let (valid_items, errors): (Vec<_>, Vec<_>) = reader.partition(Result::is_ok);
    assert!(valid_items.len() > 100, "{}", valid_items.len());
    assert!(errors[0].as_ref().unwrap_err().to_string().contains("truncated"), "{errors:?}");
}

/// Runs a recorder in a separate process, which the next test stops for a while.
#[test]
#[ignore = "a helper for another test"]
fn stopped_for_a_while() {
    let Ok(dir) = std::env::var("FSDYNO_STOPPED") else { return };
    // 240,000 calls; each puts at least 200 bytes into the ring.
    let script = format!(
        "cd {dir} && : >begun && while [ ! -e go ]; do sleep 0.1; done; \
        ./counted tree 1 30000 >/dev/null && : >ended; exit 7"
    );
    let out = File::create(format!("{dir}/out.trace")).unwrap();
    let trees = vec![Path::new(&dir).join("tree")];
    let options = Options { trees, how: RecordMethod::Bpf, ..Options::default() };
    let recorded = fsdyno_recorder::record(&options, &["sh".into(), "-c".into(), script], out);
    let recorded = recorded.unwrap();
    assert_eq!(recorded.status.code(), Some(7));
    assert!(matches!(recorded.failed, Some(RecordError::Lost(lost)) if lost > 0));
}

#[test]
fn a_full_ring_ends_the_trace_and_is_an_error() {
    if !has_bpf() {
        return;
    }
    let bench = Bench::new();
    let dir = bench.dir.path();
    bench.tree();
    compiled(dir, "counted", &[]);
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped_for_a_while", "--ignored"])
        .env("FSDYNO_STOPPED", dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let wait_for = |name: &str| {
        while !dir.join(name).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("begun");
    let pid = recorder.id() as i32;
    // SAFETY: signals to a child of this process, which has not been reaped.
    let signal = |signal| unsafe { libc::kill(pid, signal) };
    signal(libc::SIGSTOP);
    fs::write(dir.join("go"), "").unwrap();
    wait_for("ended");
    signal(libc::SIGCONT);
    assert!(recorder.wait().unwrap().success());
    // The trace is valid up to the loss, and has the program's first calls.
    let reader = Reader::new(File::open(dir.join("out.trace")).unwrap()).unwrap();
    let mut items = Vec::new();
    let mut last_error = None;
    for item in reader {
        match item {
            Ok(item) => items.push(item),
            Err(error) => last_error = Some(error.to_string()),
        }
    }
    assert!(last_error.is_some_and(|it| it.contains("truncated")));
    assert!(counts(&items, CallKind::Rename) > 1000, "{}", counts(&items, CallKind::Rename));
}
