//! Tests of recording real programs.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::fs::{self, File};
use std::process::Command;

mod common;

use common::{Bench, compiled, events, named, none_is_lost, sees};
use fsdyno_recorder::{Options, RecordMethod, Recorded, record};
use fsdyno_trace::{Call, CallKind, Event, Item, Reader};

/// Returns the number of calls that did not stop.
fn inside(recorded: &Recorded) -> u64 {
    recorded.inside
}

/// Tests whether the long tests are requested.
fn is_full() -> bool {
    std::env::var("FSDYNO_TEST").is_ok_and(|value| value == "full")
}

#[test]
fn no_call_of_eight_threads_is_lost() {
    // 8 threads with 8 calls per round: 38,400 calls; 1,024,000 in a full test.
    let rounds = if is_full() { 16_000 } else { 600 };
    let recorded = none_is_lost(rounds, RecordMethod::Auto, &[]);
    assert_eq!(recorded.end.notes.len(), 0, "{:?}", recorded.end.notes);
}

#[test]
fn no_call_of_eight_threads_is_lost_inside() {
    let rounds = if is_full() { 16_000 } else { 800 };
    let recorded = none_is_lost(rounds, RecordMethod::Inside, &[]);
    // All calls but the first on each name are recorded inside the program, and there are no other notes.
    assert!(inside(&recorded) > 60 * rounds, "{:?}", recorded.end.notes);
}

#[test]
fn calls_by_syscall_2_are_recorded_inside_the_program() {
    let recorded = none_is_lost(1_600, RecordMethod::Inside, &["-DBY_NUMBER"]);
    assert!(inside(&recorded) > 60 * 1_600, "{:?}", recorded.end.notes);
}

#[test]
fn no_call_is_lost_in_a_static_program_or_by_stops_alone() {
    let rounds = if is_full() { 80 } else { 30 };
    none_is_lost(rounds, RecordMethod::Ptrace, &[]);
    let recorded = none_is_lost(rounds, RecordMethod::Inside, &["-static"]);
    assert_eq!(inside(&recorded), 0);
    let what = "programs without a dynamic C library (static, Go), whose calls all stopped";
    assert_eq!(recorded.end.notes.get(what), Some(&1), "{:?}", recorded.end.notes);
}

#[test]
fn code_inside_a_program_changes_nothing_that_it_sees() {
    let (stopped, none) = sees(RecordMethod::Ptrace);
    let (seen, some) = sees(RecordMethod::Inside);
    assert_eq!((&seen, none), (&stopped, 0));
    assert!(stopped.len() > 20 && some > 20, "{some} {stopped:?}");
}

#[test]
fn signals_to_the_recorder_do_not_disturb_the_programs() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let bench = Bench::new();
    // SAFETY: it has no arguments.
    let (process, recorder) = unsafe { (libc::getpid(), libc::gettid()) };
    static ENDED: AtomicBool = AtomicBool::new(false);
    // The signal of the recorder's timer, which interrupts it to drain the rings.
    let disturb = move || {
        while !ENDED.load(Ordering::Relaxed) {
            // SAFETY: a signal to a thread that waits for this one; it has a handler once a recording has begun.
            unsafe { libc::syscall(libc::SYS_tgkill, process, recorder, libc::SIGRTMIN() + 3) };
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    };
    // The first recording installs the handler.
    bench.script(":");
    let disturber = std::thread::spawn(disturb);
    let (recorded, items) =
        bench.script("for i in 1 2 3 4 5 6; do cat /dev/null >c$i || exit; done");
    ENDED.store(true, Ordering::Relaxed);
    disturber.join().unwrap();
    assert!(recorded.status.success());
    assert_eq!(recorded.end.notes.len(), 0, "{:?}", recorded.end.notes);
    assert_eq!(
        named(&items, "c").iter().filter(|(it, _)| it.call.kind() == CallKind::Open).count(),
        6
    );
}

#[test]
fn entries_by_other_programs_follow_the_creation_of_their_directory() {
    let bench = Bench::new();
    let (dir, file) = (bench.tree().join("made"), bench.tree().join("made/foreign"));
    let other = std::thread::spawn(move || {
        while !dir.is_dir() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        fs::write(file, "foreign").unwrap();
    });
    // The items are checked in order.
    let (recorded, items) =
        bench.script("mkdir made; until test -s made/foreign; do :; done; cat made/foreign >copy");
    other.join().unwrap();
    assert!(recorded.status.success());
    let is_entry = |it: &&Item| matches!(it, Item::Entry(it) if it.name.bytes() == b"foreign");
    assert_eq!(items.iter().filter(is_entry).count(), 1);
}

#[test]
fn io_uring_is_rejected_and_noted() {
    let bench = Bench::new();
    let program = compiled(bench.dir.path(), "uring", &[]);
    let (recorded, _) = bench.record(&[program.to_str().unwrap()]);
    assert_eq!(recorded.status.code(), Some(libc::ENOSYS));
    assert_eq!(recorded.end.notes.get("io_uring_setup answered with ENOSYS"), Some(&1));
}

#[test]
fn calls_have_their_objects_results_and_sizes() {
    let bench = Bench::new();
    fs::create_dir(bench.tree().join("a")).unwrap();
    fs::write(bench.tree().join("a/old"), vec![0; 5000]).unwrap();
    fs::hard_link(bench.tree().join("a/old"), bench.tree().join("a/second")).unwrap();
    std::os::unix::fs::symlink("a/old", bench.tree().join("link")).unwrap();
    let (recorded, items) =
        bench.script("cat link >a/new; mv a/new a/moved; rm a/moved; ls gone/x; exit 7");
    assert_eq!(recorded.status.code(), Some(7));
    let entries: Vec<_> = items
        .iter()
        .filter_map(|it| if let Item::Entry(it) = it { Some(it) } else { None })
        .collect();
    let entry = |name: &[u8]| *entries.iter().find(|it| it.name.bytes() == name).unwrap();
    assert_eq!(entry(b"old").node, entry(b"second").node);
    assert_eq!((entry(b"old").size, entry(b"link").size), (5000, 5));
    // The symbolic link was followed: the open refers to the file.
    let old = named(&items, "old");
    let open = old.iter().find(|(it, _)| it.call.kind() == CallKind::Open).unwrap();
    let at = open.0.call.identities().names[0].unwrap();
    assert_eq!((at.node, at.links), (Some(entry(b"old").node), 1));
    // The shell creates a/new, cat writes it through its standard output.
    let (new, _) = &named(&items, "new")[0];
    let Call::Open { created: Some(node), file: Some(file), .. } = &new.call else {
        panic!("{new:?}")
    };
    let written = |it: &&Event| {
        matches!(it.call, Call::Write { file: target, .. } if target == *file)
            || matches!(it.call, Call::Copy { to, .. } if to == Some(*file))
    };
    let written: i64 = events(&items).into_iter().filter(written).map(|it| it.result).sum();
    assert_eq!(written, 5000);
    let moved = named(&items, "moved");
    let unlink = moved.iter().find(|(it, _)| it.call.kind() == CallKind::Unlink).unwrap();
    assert_eq!(unlink.0.call.identities().names[0].unwrap().node, Some(*node));
    let removed = named(&items, "gone");
    assert!(
        removed
            .iter()
            .any(|(it, _)| it.result == -2 && it.call.identities().names[0].unwrap().beyond == 1),
        "{removed:?}"
    );
    let Some(Item::End(end)) = items.last() else { panic!("no end") };
    assert_eq!(end.status, Some(7 << 8));
}

#[test]
fn a_directory_outside_the_trees_is_listed_as_it_was_before_the_program_changed_it() {
    for how in [RecordMethod::Ptrace, RecordMethod::Inside] {
        let bench = Bench::new();
        let outside = bench.dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("e-old"), "x").unwrap();
        fs::write(outside.join("e-still"), "x").unwrap();
        let options = Options { trees: vec![bench.tree()], how, ..Options::default() };
        let script = "cd $0 && : >e-new && mv e-old e-moved && ln e-new e-linked && ls >/dev/null";
        // The check of identities fails if an entry has an object that a call created.
        let (recorded, items) =
            bench.record_with(&options, &["sh", "-c", script, outside.to_str().unwrap()]);
        assert!(recorded.status.success());
        let entries =
            items.iter().filter_map(|it| if let Item::Entry(it) = it { Some(it) } else { None });
        let names = entries.map(|it| String::from_utf8_lossy(it.name.bytes()).into_owned());
        let mut names: Vec<String> = names.filter(|it| it.starts_with("e-")).collect();
        names.sort();
        assert_eq!(names, ["e-old", "e-still"], "{how:?}");
    }
}

#[test]
fn a_path_refers_to_another_directory_after_a_rename() {
    let bench = Bench::new();
    // Each path is used just before and just after a rename by another process.
    let script = "mkdir one two; : >one/f-1; : >$PWD/one/f-2; mv one three; mv two one; \
        : >one/f-3; : >$PWD/one/f-4; cd one; : >f-5; cd ../three; : >f-6; : >$PWD/f-7";
    let (recorded, items) = bench.script(script);
    assert!(recorded.status.success());
    let made = named(&items, "f-");
    let dirs: Vec<_> =
        made.iter().map(|(it, _)| it.call.identities().names[0].unwrap().dir).collect();
    let (first, second) = (dirs[0], dirs[2]);
    assert_ne!(first, second);
    assert_eq!(dirs, [first, first, second, second, second, first, first]);
}

#[test]
fn changed_symbolic_links_are_followed_to_their_new_targets() {
    let bench = Bench::new();
    fs::create_dir(bench.tree().join("far")).unwrap();
    fs::write(bench.tree().join("near-file"), "near").unwrap();
    fs::write(bench.tree().join("far/far-file"), "far").unwrap();
    let script = "use() { for way in link $PWD/link; do : <$way; : <$way; done; }; \
        ln -s near-file link; use; ln -sfn far/far-file link; use; \
        ln -sfn $PWD/more link; ln -s far/../near-file more; use; ln -sfn none link; (use 2>&-); :";
    let (recorded, items) = bench.script(script);
    assert!(recorded.status.success());
    let opens = |name: &str| -> Vec<(u8, i64)> {
        let events = named(&items, name);
        let opens = events.iter().filter(|(it, _)| it.call.kind() == CallKind::Open);
        opens.map(|(it, _)| (it.call.identities().names[0].unwrap().links, it.result)).collect()
    };
    let near = [vec![(1, 0); 4], vec![(2, 0); 4]].concat();
    assert_eq!((opens("near-file"), opens("far-file")), (near, vec![(1, 0); 4]));
    // A special built-in whose redirection fails ends the shell.
    assert_eq!(opens("none"), [(1, -2)]);
}

#[test]
fn many_children_are_followed() {
    let bench = Bench::new();
    let (recorded, items) = bench.script("for i in $(seq 1000); do (: >c$i) & done; wait");
    assert!(recorded.status.success());
    let made = named(&items, "c")
        .iter()
        .filter(|(it, _)| matches!(it.call, Call::Open { created: Some(_), .. }))
        .count();
    assert_eq!(made, 1000);
    let spawned = events(&items).iter().filter(|it| it.call.kind() == CallKind::Spawn).count();
    let ended = events(&items).iter().filter(|it| it.call.kind() == CallKind::Exit).count();
    assert!(spawned >= 1000, "{spawned}");
    assert_eq!(ended, spawned + 1);
}

#[test]
fn a_program_that_crashes_or_stops_leaves_a_complete_trace() {
    let bench = Bench::new();
    let (recorded, items) = bench.script(": >x; (kill -STOP $BASHPID 2>/dev/null; :) ; sh -c '(sleep 0.2; kill -CONT $$) & kill -STOP $$; : >continued'; kill -SEGV $$");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&recorded.status), Some(11));
    assert_eq!(named(&items, "continued").len(), 1);
    let Some(Item::End(end)) = items.last() else { panic!("no end") };
    assert_eq!(end.status.unwrap() & 0x7f, 11);
}

#[test]
fn names_are_hashed_everywhere_if_requested() {
    let bench = Bench::new();
    fs::write(bench.tree().join("secret-plan.txt"), "x").unwrap();
    let options = Options { trees: vec![bench.tree()], anonymize: true, ..Options::default() };
    let file = bench.tree().join("secret-plan.txt");
    bench.record_with(&options, &["cat", file.to_str().unwrap()]);
    let path = bench.dir.path().join("out.trace");
    let text = format!("{:?}", common::items(&path));
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains(".txt"));
}

#[test]
fn a_command_that_does_not_exist_is_an_error() {
    let bench = Bench::new();
    let out = File::create(bench.dir.path().join("t")).unwrap();
    let error = record(&Options::default(), &["/no/such".into()], out).unwrap_err().to_string();
    assert_eq!(error, "cannot run '/no/such': No such file or directory (os error 2)");
}

#[test]
fn a_full_disk_ends_the_trace_and_not_the_command() {
    let bench = Bench::new();
    let script = "for i in 1 2 3; do : >f$i; done; exit 3";
    let script = format!("cd {} && {{ {script}; }}", bench.tree().display());
    let full = File::options().write(true).open("/dev/full").unwrap();
    // The header fails at once on such a disk.
    let args = ["sh".to_string(), "-c".into(), script];
    let options = Options { trees: vec![bench.tree()], ..Options::default() };
    assert!(record(&options, &args, full).is_err());
    // A limit on the size of files (160 KiB) is reached halfway; its signal is ignored.
    let path = bench.dir.path().join("part.trace");
    let out = File::create(&path).unwrap();
    let many = format!(
        "cd {} && for i in $(seq 4000); do : >a-name-of-some-length-$i; done; exit 3",
        bench.tree().display()
    );
    let args = ["sh".to_string(), "-c".into(), many];
    // SAFETY: both calls set limits of this process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut before = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut before);
        let small = libc::rlimit { rlim_cur: 160 << 10, rlim_max: before.rlim_max };
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const small);
        let recorded = record(&options, &args, out);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const before);
        let recorded = recorded.unwrap();
        assert_eq!(recorded.status.code(), Some(3));
        assert!(recorded.failed.is_some());
    }
    assert_eq!(fs::read_dir(bench.tree()).unwrap().count(), 4000);
    let reader = Reader::new(File::open(&path).unwrap()).unwrap();
    let valid = reader.filter(|it| matches!(it, Ok(Item::Event(_)))).count();
    assert!(valid > 1000, "{valid} events in {} bytes", fs::metadata(&path).unwrap().len());
}

/// Runs a recorder in a separate process, which the next test kills.
#[test]
#[ignore = "a helper for another test"]
fn endless() {
    let Ok(dir) = std::env::var("FSDYNO_ENDLESS") else { return };
    let script = format!("cd {dir} && echo $$ >pid && while :; do : >f; done");
    let out = File::create(format!("{dir}/out.trace")).unwrap();
    let _ = record(&Options::default(), &["sh".into(), "-c".into(), script], out);
}

#[test]
fn a_killed_recorder_takes_the_command_with_it_and_leaves_a_valid_beginning() {
    let bench = Bench::new();
    let mut recorder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "endless", "--ignored"])
        .env("FSDYNO_ENDLESS", bench.dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (path, pid) = (bench.dir.path().join("out.trace"), bench.dir.path().join("pid"));
    // Waits for events after the first ones of the loop.
    let length = || fs::metadata(&path).map_or(0, |it| it.len());
    let mut enough = u64::MAX;
    while length() < enough {
        if enough == u64::MAX && pid.exists() {
            enough = length() + 1000;
        }
        assert!(recorder.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let pid = fs::read_to_string(pid).unwrap();
    // A killed process ends soon; it may be a zombie until init reaps it.
    let stat = format!("/proc/{}/stat", pid.trim());
    while fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z ")) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let reader = Reader::new(File::open(&path).unwrap()).unwrap();
    let (valid_items, errors): (Vec<_>, Vec<_>) = reader.partition(Result::is_ok);
    assert!(valid_items.len() > 100, "{}", valid_items.len());
    assert!(errors[0].as_ref().unwrap_err().to_string().contains("truncated"), "{errors:?}");
}
