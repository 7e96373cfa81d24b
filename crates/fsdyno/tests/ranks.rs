//! Several processes that share a trial, on this machine: started by a script, and by the launchers that are installed.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::ranks::{
    Place, has_ended, is_empty, start, start_one, start_over_ssh, wait, worker_of,
};
use common::{PROGRAM, code, run, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn ranks_share_a_directory_and_every_file_is_made_seen_and_removed() {
    let place = Place::new();
    let args = place.args("dirops --set files=4003 --set stat=yes --threads 2 --repeat 2");
    let outputs = wait(start(place.out.path(), 3, &args));
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert!(outputs.iter().all(|output| output.status.success()));
    assert!(stdout(&outputs[0]).contains("skew"), "{}", stdout(&outputs[0]));
    assert!(is_empty(place.on.path()));
    let rows = place.rows();
    // Two trials, three phases, three ranks.
    assert_eq!(rows.len(), 18);
    let shown = stdout(&run(place.out.path(), "show ranks r --format csv"));
    assert_eq!(sum_of(&shown, "create", "items"), 2 * 4003);
    let original = run(place.out.path(), "report r --format original");
    assert!(stdout(&original).contains("File creation"), "{}", stdout(&original));
}

#[test]
fn ranks_with_their_own_directories_work_on_those_of_others() {
    let place = Place::new();
    let args = place.args("tarball --set files=200 --own --shift 1");
    let outputs = wait(start(place.out.path(), 3, &args));
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert!(is_empty(place.on.path()));
    assert_eq!(place.rows().len(), 6);
}

/// Returns the sum of a column of `show ranks` over the ranks of a phase.
fn sum_of(shown: &str, phase: &str, column: &str) -> u64 {
    let mut lines = shown.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    // Columns are counted from the end: the label before the phase may have commas.
    let at = |head: &str| heads.iter().rev().position(|one| *one == head).unwrap();
    let rows = lines.map(|line| line.rsplit(',').collect::<Vec<_>>());
    let of_phase = rows.filter(|row| row[at("phase")] == phase);
    of_phase.map(|row| row[at(column)].parse::<u64>().unwrap()).sum()
}

#[test]
fn after_a_stonewall_all_ranks_have_made_equally_many_files_and_every_count_agrees() {
    let place = Place::new();
    let args = "dirops --set files=3000000 --set stat=yes --threads 2 --stonewall 0.2 --shift 1";
    let outputs = wait(start(place.out.path(), 3, &place.args(args)));
    assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
    assert!(is_empty(place.on.path()));
    let shown = stdout(&run(place.out.path(), "show ranks r --format csv"));
    let created = sum_of(&shown, "create", "items");
    let stopped = sum_of(&shown, "create", "stonewall_items");
    assert!(created > 0 && created % 6 == 0 && stopped <= created, "{created}, {stopped}");
    assert_eq!(sum_of(&shown, "stat", "items"), created);
    assert_eq!(sum_of(&shown, "delete", "items"), created);
    let text = std::fs::read_to_string(place.out.path().join("r/trials.ndjson")).unwrap();
    let trial: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
    let measured = &trial["measured"];
    let calls = |phase: usize, kind: &str| measured["phases"][phase]["ops"][kind]["count"].clone();
    assert_eq!([calls(0, "create"), calls(1, "stat"), calls(2, "unlink")], [created; 3]);
    let wall = &measured["ranks"]["phases"][0]["stonewall"];
    assert_eq!((wall["items"].as_u64(), wall["most"].as_u64()), (Some(stopped), Some(created / 6)));
    let table = stdout(&run(place.out.path(), "show ranks r"));
    assert!(table.contains("at stonewall"), "{table}");
}

#[test]
fn a_stonewall_ends_a_phase_of_other_workloads_and_the_rest_works_on_what_was_done() {
    for (args, unit, phase) in [
        ("many-files --set widths=60/30/30 --threads 2 --shift 1", "files", 0),
        ("fdtree --own --set levels=3 --set files=100 --set size=1", "files", 1),
        ("tarball --own --shift 1 --set files=300000 --set order=random", "files", 0),
        ("postmark --own --set number=3000 --set transactions=300000", "transactions", 1),
        ("maildir --own --set ops=300000 --set store=50 --set read-store=50", "operations", 2),
        ("churn --set files=500 --set parts=5 --set ops=3000000", "operations", 1),
    ] {
        let place = Place::new();
        let args = format!("{args} --stonewall 0.1");
        let outputs = wait(start(place.out.path(), 3, &place.args(&args)));
        assert_eq!(code(&outputs[0]), 0, "{args}: {}", stderr(&outputs[0]));
        assert!(is_empty(place.on.path()));
        let trial = common::records(&place.out.path().join("r")).remove(0);
        let wall = &trial["measured"]["ranks"]["phases"][phase]["stonewall"];
        let [items, all, fewest, most] =
            ["items", "all", "fewest", "most"].map(|key| wall[key].as_u64().unwrap());
        let shares = if args.contains("--threads 2") { 6 } else { 3 };
        assert_eq!(wall["unit"], unit, "{args}");
        assert!(0 < fewest && fewest <= most && items <= all, "{args}: {wall}");
        // Every share did the same amount of work.
        assert_eq!(all, shares * most, "{args}: {wall}");
        let limited = trial["measured"]["phases"].as_array().unwrap();
        let limited = limited.iter().map(|phase| !phase["limit_ns"].is_null());
        assert!(limited.enumerate().all(|(at, limited)| limited == (at >= phase)), "{args}");
    }
}

#[test]
fn a_phase_has_a_durable_time_or_a_note_gives_the_reason() {
    let memory = Path::new("/dev/shm");
    let mut on = vec![tempfile::tempdir().unwrap()];
    on.extend(tempfile::tempdir_in(memory));
    for on in on {
        let place = Place { on, out: tempfile::tempdir().unwrap() };
        let outputs = wait(start(place.out.path(), 2, &place.args("dirops --set files=100")));
        assert_eq!(code(&outputs[0]), 0, "{}", stderr(&outputs[0]));
        let text = std::fs::read_to_string(place.out.path().join("r/trials.ndjson")).unwrap();
        let trial: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        let phase = &trial["measured"]["phases"][0];
        let notes = trial["conditions"]["notes"].to_string();
        match phase["durable_ns"].is_null() {
            true => assert!(notes.contains("no durable time: on "), "{notes}"),
            false => assert_eq!(phase["durable_ns"], phase["synced_ns"], "{notes}"),
        }
        if place.on.path().starts_with(memory) {
            assert!(
                notes.contains(
                    "file system tmpfs: the block device that holds the data is not known"
                ),
                "{notes}"
            );
        }
    }
}

#[test]
fn work_that_ranks_cannot_share_is_refused_before_any_work() {
    let place = Place::new();
    let refused = |args: &str| {
        let output = start_one(place.out.path(), 0, 2, &place.args(args)).wait_with_output();
        let output = output.unwrap();
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        stderr(&output)
    };
    assert!(refused("tarball").contains("--own"));
    assert!(refused("dirops --shift 2").contains("below the number of ranks"));
    assert!(refused("dirops --jobs 2").contains("--jobs"));
    assert!(refused("bonnie --own --stonewall 5").contains("stonewall"));
    assert!(refused("churn --set seconds=5 --stonewall 5").contains("without seconds"));
    assert!(refused("maildir --own --set deliverers=2 --stonewall 5").contains("deliverers=0"));
    assert!(refused("dirops --set create-order=random --stonewall 5").contains("create-order"));
    assert!(refused("dirops --stonewall never").contains("seconds"));
    let alone = run(place.out.path(), &place.args("dirops"));
    assert_eq!(code(&alone), 2);
    assert!(stderr(&alone).contains("mpiexec"), "{}", stderr(&alone));
    assert!(is_empty(place.on.path()));
}

/// Starts three ranks, of which `rank` (or all) also has the arguments `wrong`. Returns their outputs, and asserts that
/// none waited for a rank that does not come.
fn outputs_with_wrong(rank: Option<u32>, wrong: &str) -> Vec<Output> {
    let place = Place::new();
    let args = place.args("dirops --set files=20");
    let args_of = |it: u32| match rank.is_none_or(|rank| rank == it) {
        true => format!("{args} {wrong}"),
        false => args.clone(),
    };
    let begin = Instant::now();
    let children = (0..3).map(|it| start_one(place.out.path(), it, 3, &args_of(it))).collect();
    let outputs = wait(children);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}: {wrong}", begin.elapsed());
    assert!(is_empty(place.on.path()));
    outputs
}

#[test]
fn a_wrong_option_of_one_rank_ends_all_at_once_with_the_rank_and_the_reason() {
    let outputs = outputs_with_wrong(Some(2), "--nonsense");
    assert_eq!([code(&outputs[0]), code(&outputs[2])], [4, 2], "{outputs:?}");
    let (error, reason) = (stderr(&outputs[0]), "unexpected argument '--nonsense' found");
    let expected = format!("its command line is refused: {reason}");
    assert!(error.contains("rank 2 on ") && error.contains(&expected), "{error}");
    assert!(stderr(&outputs[2]).contains("unexpected argument '--nonsense'"), "{outputs:?}");
}

#[test]
fn a_wrong_option_of_rank_0_or_of_all_ranks_ends_all_at_once() {
    // Rank 0 alone checks the parameters of the workload.
    for (rank, wrong, codes) in [
        (Some(0), "--nonsense", [2, 2, 2]),
        (Some(0), "--set size=many", [2, 2, 2]),
        (None, "--set size=many", [2, 2, 2]),
        (None, "--nonsense", [2, 2, 2]),
    ] {
        let outputs = outputs_with_wrong(rank, wrong);
        assert_eq!(outputs.iter().map(code).collect::<Vec<_>>(), codes, "{wrong}: {outputs:?}");
    }
}

/// Waits until the ranks have begun to make files.
fn wait_for_files(on: &Path) {
    let started = Instant::now();
    let is_there = || {
        let mut folders = std::fs::read_dir(on).unwrap().flatten();
        folders.any(|folder| folder.path().join("root/d").is_dir())
    };
    while !is_there() {
        assert!(started.elapsed() < Duration::from_secs(60), "no files");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const LONG: &str = "dirops --set files=3000000";

#[test]
fn a_rank_that_is_killed_ends_the_run_with_its_name_and_nothing_is_left() {
    let place = Place::new();
    let children = start(place.out.path(), 3, &place.args(LONG));
    let worker = worker_of(&children[2]);
    wait_for_files(place.on.path());
    kill_process(worker, Signal::KILL).unwrap();
    let outputs = wait(children);
    assert_eq!(code(&outputs[0]), 4, "{}", stderr(&outputs[0]));
    let printed = stdout(&outputs[0]) + &stderr(&outputs[0]);
    assert!(printed.contains("rank 2") && printed.contains("signal 9"), "{printed}");
    assert!(is_empty(place.on.path()));
}

#[test]
fn a_worker_that_is_stopped_ends_the_run_and_its_own_process_and_is_named() {
    let place = Place::new();
    let children = start(place.out.path(), 3, &place.args(LONG));
    let worker = worker_of(&children[2]);
    wait_for_files(place.on.path());
    kill_process(worker, Signal::STOP).unwrap();
    let outputs = wait(children);
    assert_eq!(code(&outputs[0]), 4, "{}", stderr(&outputs[0]));
    let printed = stdout(&outputs[0]) + &stderr(&outputs[0]);
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        printed.contains("rank 2 on") && printed.contains("no sign of life for 10 s"),
        "{printed}"
    );
    assert!(outputs[1..].iter().all(|output| output.status.success()));
    assert!(is_empty(place.on.path()) && has_ended(worker));
}

#[test]
fn a_rank_whose_own_process_is_killed_ends_the_run_with_its_name() {
    let place = Place::new();
    let mut children = start(place.out.path(), 3, &place.args(LONG));
    let worker = worker_of(&children[2]);
    wait_for_files(place.on.path());
    children[2].kill().unwrap();
    let outputs = wait(children);
    assert_eq!(code(&outputs[0]), 4, "{}", stderr(&outputs[0]));
    let printed = stdout(&outputs[0]) + &stderr(&outputs[0]);
    assert!(printed.contains("rank 2") && printed.contains("was lost"), "{printed}");
    assert!(outputs[1].status.success() && stderr(&outputs[1]).is_empty());
    assert!(is_empty(place.on.path()));
    assert!(has_ended(worker));
}

#[test]
fn a_killed_rank_0_ends_the_others_with_one_message_and_nothing_is_left() {
    let place = Place::new();
    let mut children = start(place.out.path(), 4, &place.args(LONG));
    let workers: Vec<Pid> = children.iter().map(worker_of).collect();
    wait_for_files(place.on.path());
    // The test waits for it only after the others have ended, as a slow launcher does.
    children[0].kill().unwrap();
    children.rotate_left(1);
    let outputs = wait(children);
    let messages: Vec<String> =
        outputs[..3].iter().map(stderr).filter(|message| !message.is_empty()).collect();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].contains("rank 0 on") && messages[0].contains("is removed"),
        "{messages:?}"
    );
    assert!(outputs[..3].iter().all(|output| code(output) == 4));
    assert!(is_empty(place.on.path()));
    assert!(workers.into_iter().all(has_ended));
}

#[test]
fn a_signal_to_all_ends_the_run_and_nothing_is_left() {
    let place = Place::new();
    let children = start(place.out.path(), 3, &place.args(LONG));
    wait_for_files(place.on.path());
    for child in &children {
        kill_process(Pid::from_child(child), Signal::INT).unwrap();
    }
    let outputs = wait(children);
    assert_eq!(code(&outputs[0]), 130, "{}", stderr(&outputs[0]));
    assert!(outputs[1..].iter().all(|output| output.status.success()));
    assert!(is_empty(place.on.path()));
}

#[test]
fn a_rank_that_connects_twice_ends_the_run() {
    let place = Place::new();
    let args = place.args("dirops --set files=100");
    let mut children: Vec<Child> =
        [0, 1, 1].iter().map(|rank| start_one(place.out.path(), *rank, 3, &args)).collect();
    let first = children.remove(0).wait_with_output().unwrap();
    assert_eq!(code(&first), 4, "{}", stderr(&first));
    assert!(stderr(&first).contains("rank 1 connected twice"), "{}", stderr(&first));
    wait(children);
    assert!(is_empty(place.on.path()));
}

/// Returns the number of processes that have this word in their arguments.
fn count_processes_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|one| std::fs::read(one.path().join("cmdline")).unwrap_or_default());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

#[test]
fn hosts_are_reached_over_ssh_and_the_secret_is_on_no_command_line() {
    let place = Place::new();
    let args = "dirops --set files=3001 --hosts a,me@b --ranks=4 --shift 2 --repeat 2";
    let (child, log) = start_over_ssh(&place, args);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(is_empty(place.on.path()));
    assert_eq!(place.rows().len(), 2 * 2 * 4);
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().filter(|line| *line == "--").count(), 4);
    assert_eq!(log.lines().filter(|line| *line == "me@b").count(), 2);
    let is_secret =
        |line: &str| line.split(|c: char| !c.is_ascii_hexdigit()).any(|it| it.len() > 40);
    assert!(!log.lines().any(is_secret), "{log}");
}

#[test]
fn a_host_that_cannot_be_reached_ends_all_and_is_named() {
    let place = Place::new();
    let (child, _) = start_over_ssh(&place, "dirops --set files=100 --hosts a,lost7,slow8");
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(
        printed.contains("rank 1 on lost7") && printed.contains("No route to host"),
        "{printed}"
    );
    assert!(is_empty(place.on.path()));
    assert_eq!(count_processes_with(&place.on.path().display().to_string()), 0);
    assert_eq!(count_processes_with(&place.out.path().display().to_string()), 0);
}

#[test]
fn a_signal_ends_the_ranks_on_all_hosts() {
    let place = Place::new();
    let (child, _) = start_over_ssh(&place, &format!("{LONG} --hosts a,b,c"));
    wait_for_files(place.on.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(is_empty(place.on.path()));
    assert_eq!(count_processes_with(&place.out.path().display().to_string()), 0);
}

#[test]
fn invalid_host_names_are_refused_before_ssh_is_started() {
    for hosts in ["a,-oProxyCommand=id", "a,b;id", "a,,b", "root@-x", "a,b@c@d"] {
        let place = Place::new();
        let (child, log) = start_over_ssh(&place, &format!("dirops --hosts={hosts}"));
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains("not the name of a host"), "{}", stderr(&output));
        assert!(!log.exists());
    }
    let place = Place::new();
    let (child, log) = start_over_ssh(&place, "dirops --hosts a,b --ranks=1");
    let output = child.wait_with_output().unwrap();
    assert!(code(&output) == 2 && stderr(&output).contains("at least one rank"));
    assert!(!log.exists());
}

/// Returns the mpiexec of an MPI implementation; if it is not installed, prints that, bypassing the test harness.
fn launcher(name: &str, extra_args: &[&str]) -> Option<Command> {
    let program = format!("mpiexec.{name}");
    let found = Command::new(&program).arg("--version").output().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
        return None;
    }
    let mut command = Command::new(program);
    command.args(extra_args).env("COLUMNS", "100").stdin(Stdio::null());
    Some(command)
}

fn assert_ranks_start(launcher: Option<Command>) {
    let Some(mut command) = launcher else { return };
    let place = Place::new();
    command.args(["-n", "4", PROGRAM]).current_dir(place.out.path());
    command.args(place.args("dirops --set files=2000").split_whitespace());
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(is_empty(place.on.path()));
    assert_eq!(place.rows().len(), 8);
}

#[test]
fn mpich_starts_ranks_without_being_linked() {
    assert_ranks_start(launcher("mpich", &[]));
}

#[test]
fn a_run_that_is_refused_ends_under_mpich_with_one_message() {
    let Some(mut command) = launcher("mpich", &[]) else { return };
    let place = Place::new();
    command.args(["-n", "3", PROGRAM]).current_dir(place.out.path());
    command.args(place.args("bonnie").split_whitespace());
    let output = command.output().unwrap();
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("fsdyno: ").count(), 1, "{}", stderr(&output));
    assert!(is_empty(place.on.path()));
}

#[test]
fn open_mpi_starts_ranks_without_being_linked() {
    assert_ranks_start(launcher("openmpi", &["--allow-run-as-root", "--oversubscribe"]));
}
