//! Workloads with an input file, and with a tree that the first phase finds, shared by several processes.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::ranks::{
    Place, has_ended, is_empty, start, start_one, start_over_ssh, wait, worker_of,
};
use common::{PROGRAM, code, fsdyno, records, skipped, stderr, stdout, wait_until};
use fsdyno_trace::{At, Builder, Call, Item, Name, Target, XattrName};
use rustix::fs::StatVfsMountFlags;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Returns folders with it.trace, the recording of a script in a folder that has the file `old`.
fn with_recording(script: &str) -> Place {
    let place = Place::new();
    let on = place.out.path().join("recorded");
    fs::create_dir(&on).unwrap();
    fs::write(on.join("old"), "old").unwrap();
    let args = ["record", "-o", "../it.trace", "--", "sh", "-c", script];
    let recorded = fsdyno(&on).args(args).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", stderr(&recorded));
    place
}

/// Returns folders with a trace as it.trace.
fn with_trace(trace: &Builder) -> Place {
    let place = Place::new();
    fs::write(place.out.path().join("it.trace"), trace.finish().unwrap()).unwrap();
    place
}

/// A script of two concurrent processes in one directory that read an existing file.
const SCRIPT: &str = "mkdir d; (cat old >d/a; cat d/a >d/b) & (echo two >d/c; mv d/c d/e) & wait; \
                      ln d/a d/hard; rm d/b old";

fn only_trial(place: &Place) -> Value {
    records(&place.out.path().join("r")).remove(0)
}

fn notes(trial: &Value) -> String {
    trial["conditions"]["notes"].to_string()
}

/// Asserts that three ranks have replayed [`SCRIPT`] and that the tree of each was read by another.
fn assert_replayed_by_three(place: &Place) {
    let trial = only_trial(place);
    let phase = &trial["measured"]["phases"][0];
    for (kind, count) in [("mkdir", 3), ("link", 3), ("rename", 3), ("unlink", 6)] {
        assert_eq!(phase["ops"][kind]["count"], count, "{phase}");
    }
    let notes = notes(&trial);
    assert!(notes.contains("each of 3 ranks: every replayed call had the recorded"), "{notes}");
    assert!(
        notes.contains("the initial tree of the first phase was created outside the timed phases"),
        "{notes}"
    );
    let views = trial["measured"]["ranks"]["phases"][0]["views"].as_array().unwrap();
    let mut read: Vec<u64> = views.iter().map(|view| view["of"].as_u64().unwrap()).collect();
    assert!(
        views.iter().all(|view| view["of"] != view["rank"] && view["files"].as_u64() > Some(2)),
        "{views:?}"
    );
    read.sort_unstable();
    assert_eq!(read, [0, 1, 2]);
    assert_eq!(trial["conditions"]["replay"]["differing"], 0);
    assert!(is_empty(place.on.path()));
    assert_eq!(place.rows().len(), 3);
}

#[test]
fn each_rank_replays_the_recording_of_rank_0_regardless_of_its_own_arguments() {
    let place = with_recording(SCRIPT);
    let other = with_recording("mkdir x y z");
    let args = |trace: &str| place.args(&format!("replay --set trace={trace} --own"));
    let elsewhere = other.out.path().join("it.trace").display().to_string();
    let traces = ["it.trace", "/nowhere/it.trace", elsewhere.as_str()];
    let ranks = (0..).zip(traces);
    let children =
        ranks.map(|(rank, trace)| start_one(place.out.path(), rank, 3, &args(trace))).collect();
    let outputs = wait(children);
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert!(outputs.iter().all(|output| output.status.success()));
    assert!(stdout(&outputs[0]).contains("recorded calls are replayed"), "{}", stdout(&outputs[0]));
    assert_replayed_by_three(&place);
}

#[test]
fn hosts_need_not_have_the_recording() {
    let place = with_recording(SCRIPT);
    let args = "replay --set trace=it.trace --set cache=warm --own --hosts a,b --ranks=3 --shift 1";
    let (child, _) = start_over_ssh(&place, args);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_replayed_by_three(&place);
}

/// Returns true if PID namespaces can be made here; otherwise prints the reason.
fn can_be_apart() -> bool {
    let result = Command::new("unshare").args(APART).arg("true").stderr(Stdio::null()).status();
    let can = result.is_ok_and(|status| status.success());
    if !can {
        skipped("'unshare --pid' is not possible here");
    }
    can
}

const APART: [&str; 3] = ["--pid", "--fork", "--kill-child"];

/// Starts ranks 1 and 2 together in another PID namespace, as on another host: the files of rank 0 are not visible in
/// /proc there. They store files in `tmp`.
fn start_apart(place: &Place, args: &str, tmp: &Path) -> Vec<Child> {
    let mut both = Command::new("unshare");
    let template = fsdyno(place.out.path());
    for (name, value) in template.get_envs() {
        value.map(|value| both.env(name, value));
    }
    let script =
        "FSDYNO_RANK=1 \"$@\" & one=$!; FSDYNO_RANK=2 \"$@\"; two=$?; wait $one && exit $two";
    both.args(APART).args(["sh", "-c", script, "sh", PROGRAM]).args(args.split_whitespace());
    both.env("FSDYNO_RANKS", "3").env("FSDYNO_RUN", "test").env("TMPDIR", tmp);
    both.current_dir(place.out.path()).stdin(Stdio::null());
    both.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    vec![start_one(place.out.path(), 0, 3, args), both.spawn().unwrap()]
}

/// Writes a folder whose archive is larger than many messages.
fn write_sources(place: &Place) {
    let folder = place.out.path().join("sources");
    fs::create_dir(&folder).unwrap();
    for number in 0..40_u8 {
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| ((at * at) >> 7) as u8 ^ number).collect();
        fs::write(folder.join(number.to_string()), bytes).unwrap();
    }
}

const ARCHIVE: &str = "tarball --set archive=sources --own --shift 1 --repeat 2";

#[test]
fn a_rank_that_cannot_open_the_file_of_rank_0_receives_it() {
    if !can_be_apart() {
        return;
    }
    let place = Place::new();
    write_sources(&place);
    let tmp = place.out.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let outputs = wait(start_apart(&place, &place.args(ARCHIVE), &tmp));
    assert!(outputs.iter().all(|it| it.status.success()), "{}", stderr(&outputs[0]));
    let trial = only_trial(&place);
    let extract = &trial["measured"]["phases"][0];
    assert_eq!(
        (&extract["ops"]["create"]["count"], &extract["bytes_written"]),
        (&120.into(), &6_000_000.into())
    );
    assert_eq!(place.rows().len(), 2 * 2 * 3);
    assert!(is_empty(place.on.path()) && is_empty(&tmp));
}

#[test]
fn a_rank_that_cannot_store_the_file_is_named_before_any_work() {
    if !can_be_apart() {
        return;
    }
    let place = Place::new();
    write_sources(&place);
    let args = place.args(ARCHIVE);
    let outputs = wait(start_apart(&place, &args, Path::new("/no-such-folder")));
    assert_eq!(code(&outputs[0]), 4, "{}", stderr(&outputs[0]));
    let printed = stderr(&outputs[0]) + &stdout(&outputs[0]);
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("rank 1 on"), "{printed}");
    assert!(printed.contains("the input file cannot be stored in '/no-such-folder'"), "{printed}");
    assert_eq!(only_trial(&place)["measured"]["phases"], serde_json::json!([]));
    assert!(is_empty(place.on.path()));
    // A rank on the host of rank 0 does not store the file.
    let same_host = Place::new();
    write_sources(&same_host);
    let mut children = vec![start_one(same_host.out.path(), 0, 2, &same_host.args(ARCHIVE))];
    let mut second = fsdyno(same_host.out.path());
    second.args(same_host.args(ARCHIVE).split_whitespace()).env("TMPDIR", "/no-such-folder");
    second.env("FSDYNO_RANK", "1").env("FSDYNO_RANKS", "2").env("FSDYNO_RUN", "test");
    children.push(second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let outputs = wait(children);
    assert!(outputs.iter().all(|it| it.status.success()), "{}", stderr(&outputs[0]));
}

/// Returns folders with a trace in which `old` has no attribute although one was set, which no file system can repeat.
fn with_unrepeatable_result(file_system: &str) -> Place {
    let mut trace = Builder::new();
    if let Some(Item::Root(root)) = trace.items().first_mut() {
        root.file_system = file_system.into();
    }
    let node = trace.file(Builder::ROOT, "old", 100);
    let old = Name::new(&b"old"[..]).unwrap();
    let target = || Target::At(At::new(Builder::ROOT, old.clone(), Some(node)));
    let text: XattrName = b"user.a"[..].into();
    let set = Call::Setxattr { target: target(), name: text.clone(), size: 4, flags: 0 };
    trace.call(Builder::MAIN, set, 0);
    trace.call(Builder::MAIN, Call::Getxattr { target: target(), name: text, size: 0 }, -61);
    with_trace(&trace)
}

#[test]
fn a_result_other_than_the_recorded_one_fails_the_trial_on_the_recordings_file_system_only() {
    let args = "replay --set trace=it.trace --own";
    let elsewhere = with_unrepeatable_result("no-such-fs");
    let outputs = wait(start(elsewhere.out.path(), 3, &elsewhere.args(args)));
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    let trial = only_trial(&elsewhere);
    let listed = notes(&trial);
    assert!(listed.contains("each of 3 ranks: 1 getxattr calls returned success"), "{listed}");
    assert!(listed.contains("the recording is from another file system"), "{listed}");
    assert_eq!(trial["conditions"]["replay"]["differing"], 3);
    let mount = trial["conditions"]["mount"].as_str().unwrap();
    let same = with_unrepeatable_result(mount.split(' ').next().unwrap());
    let outputs = wait(start(same.out.path(), 3, &same.args(args)));
    assert_eq!(code(&outputs[0]), 4, "{}", stderr(&outputs[0]));
    let printed = only_trial(&same)["reason"].to_string();
    assert!(
        printed.contains("rank 0 on ") && printed.contains("; 2 other ranks have such"),
        "{printed}"
    );
    assert!(
        printed.contains("1 replayed calls returned a result other than the recorded"),
        "{printed}"
    );
    assert!(is_empty(same.on.path()));
}

#[test]
fn a_rank_that_is_killed_during_a_replay_ends_the_run_with_its_name_and_nothing_is_left() {
    let mut trace = Builder::new();
    trace.file(Builder::ROOT, "old", 100);
    let (_, file) = trace.create(Builder::MAIN, Builder::ROOT, "made", 1);
    // The program slept for five minutes.
    let minutes = Duration::from_secs(300).as_nanos() as u64;
    trace.write(Builder::MAIN, file, 100);
    if let Some(Item::Event(event)) = trace.items().last_mut() {
        event.start += minutes;
    }
    let place = with_trace(&trace);
    let args = place.args("replay --set trace=it.trace --set think=wall --own");
    let children = start(place.out.path(), 3, &args);
    let workers: Vec<_> = children.iter().map(worker_of).collect();
    let below = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    // The directory of a rank contains that of the recording's root.
    let roots = || {
        let trials = below(place.on.path()).flat_map(|trial| below(&trial.path().join("root")));
        trials.flat_map(|rank| below(&rank.path())).map(|root| root.path()).collect::<Vec<_>>()
    };
    wait_until("each rank has made its file", || {
        roots().iter().filter(|root| root.join("made").exists()).count() == 3
    });
    let mount = rustix::fs::statvfs(place.on.path()).unwrap().f_flag;
    for root in roots().iter().filter(|_| !mount.contains(StatVfsMountFlags::NOATIME)) {
        let old = fs::metadata(root.join("old")).unwrap();
        let gap = old.accessed().unwrap().duration_since(old.modified().unwrap());
        assert!(gap.is_ok_and(|gap| !gap.is_zero()), "the initial tree was not read");
    }
    kill_process(workers[1], Signal::KILL).unwrap();
    let outputs = wait(children);
    assert_eq!(code(&outputs[0]), 4, "{}", stderr(&outputs[0]));
    let printed = only_trial(&place)["reason"].to_string();
    assert!(printed.contains("rank 1 on") && printed.contains("signal 9"), "{printed}");
    assert!(is_empty(place.on.path()) && workers.into_iter().all(has_ended));
}

#[test]
fn unsupported_uses_of_a_tree_or_a_recording_by_ranks_are_refused() {
    let mut trace = Builder::new();
    trace.dir(Builder::ROOT, "d");
    let first = trace.create(Builder::MAIN, Builder::ROOT, "a", 1).1;
    trace.call(Builder::MAIN, Call::Mark { name: Name::new(&b"second"[..]).unwrap() }, 0);
    trace.write(Builder::MAIN, first, 10);
    let place = with_trace(&trace);
    let refused = |args: &str| {
        let one = start_one(place.out.path(), 0, 2, &place.args(args));
        let output = one.wait_with_output().unwrap();
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(refused("replay --set trace=it.trace").contains("add --own"));
    assert!(refused("replay --set trace=it.trace --own --shift 1").contains("remove --shift"));
    assert!(refused("replay --set trace=other.trace --own").contains("No such file"));
    assert!(refused("tarball --set archive=it.trace --own").contains("is not a tar archive"));
    assert!(refused("capacity --own").contains("fills its file system"));
    let args = place.args("replay --set trace=it.trace --own");
    let outputs = wait(start(place.out.path(), 2, &args));
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert_eq!(place.rows().len(), 2 * 2);
}

#[test]
fn a_tree_that_the_first_phase_finds_is_made_by_each_rank_and_read_by_another() {
    let place = Place::new();
    let args = place.args("bigfile --own --set built=offline --set size=8M --shift 1");
    let outputs = wait(start(place.out.path(), 2, &args));
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert!(is_empty(place.on.path()));
}
