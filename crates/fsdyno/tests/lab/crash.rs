//! Power cuts from end to end, in the lab. Where the lab cannot run, they are skipped with the reason; with CI set in
//! the environment, that is a failure.
//!
//! `FSDYNO_TEST=full` adds more file systems, more cuts and every kind of disk fault.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::common::lab::{fsdyno, lab, main_program, size};
use crate::common::{code, full, run, stderr, stdout};
use serde_json::Value;

/// A mail workload: each message is synced before it gets its name, and a reader then renames it.
const MAIL: &str = "crash maildir --set deliverers=1 --set ops=60 --set maildirs=4";

/// A mail workload without renames after delivery, with a message store that fits our FUSE file system.
const SCRIPT: &str =
    "crash maildir --set ops=60 --set maildirs=4 --set store=20 --set read-store=10";

/// The path of our FUSE file system: one for all tests, because its bytes and its name are part of the guest.
const PROGRAMS: &str = env!("CARGO_TARGET_TMPDIR");

fn command(folder: &Path, args: &str) -> Command {
    command_of(MAIL, folder, args)
}

fn command_of(work: &str, folder: &Path, args: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).chain([PathBuf::from(PROGRAMS)]);
    // Few cuts need one guest, and each guest boots.
    let jobs = if full() || args.contains("--jobs") { "" } else { "--jobs 1" };
    let mut command =
        fsdyno(main_program(), folder, &format!("{work} {args} {jobs} --format json"));
    command.env("PATH", std::env::join_paths(path).unwrap());
    command
}

fn crash(folder: &Path, args: &str) -> Output {
    command(folder, args).output().unwrap()
}

/// Returns the option for our small FUSE file system in one of its modes (`fixtures/forgetful.c`). The honest mode is
/// named by the path of the program, the others by its name.
fn forgetful(mode: &str) -> String {
    static COMPILED: Once = Once::new();
    let program = Path::new(PROGRAMS).join("forgetful");
    COMPILED.call_once(|| {
        let new = Path::new(PROGRAMS).join(format!("forgetful-{}", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/forgetful.c");
        let mut compile = Command::new("cc");
        compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
        assert!(compile.arg(&new).arg(source).status().unwrap().success());
        std::fs::rename(new, &program).unwrap();
    });
    let path = program.display().to_string();
    let program = if mode == "honest" { &path } else { "forgetful" };
    format!("--fs '{mode}=fuse: {program} {mode} {{device}} {{mount}}'")
}

/// Returns the rows of a run that ended with this exit code.
fn rows(output: &Output, exit_code: i32) -> Vec<Value> {
    assert_eq!(code(output), exit_code, "{}\n{}", stderr(output), stdout(output));
    serde_json::from_str::<Vec<Value>>(&stdout(output)).unwrap()
}

fn sum(row: &Value, keys: &[&str]) -> u64 {
    let count_in = |tried: &Value| {
        keys.iter().map(|key| tried["findings"][*key].as_u64().unwrap()).sum::<u64>()
    };
    row["tried"].as_array().unwrap().iter().map(count_in).sum()
}

const VIOLATIONS: &[&str] = &["acknowledged_lost", "acknowledged_names"];

/// Returns the number of crash points whose recovery has this field.
fn count(row: &Value, key: &str) -> usize {
    let cuts = row["tried"].as_array().unwrap().iter();
    cuts.filter(|cut| !cut["recovery"][key].is_null()).count()
}

#[test]
fn a_journal_keeps_what_was_acknowledged_on_an_honest_disk_and_not_on_one_that_drops_flushes() {
    let Some(folder) = lab() else { return };
    let cuts = if full() { 200 } else { 4 };
    let kinds = if full() { "--fs ext4 --fs xfs --fs btrfs" } else { "--fs ext4" };
    let kinds = format!("{kinds} {}", size());
    let args = format!("--set protocol=qmail {kinds} --cuts {cuts} --out honest");
    let first = crash(folder.path(), &args);
    for row in rows(&first, 0) {
        assert_eq!(row["tried"].as_array().unwrap().len(), cuts, "{}", row["label"]);
        assert_eq!(sum(&row, VIOLATIONS), 0, "{}", row["label"]);
        assert_eq!((count(&row, "lost"), count(&row, "unclean")), (0, 0), "{}", row["label"]);
    }
    // The same command finds its rows, and another one refuses them.
    let again = crash(folder.path(), &args);
    assert_eq!(stdout(&again), stdout(&first), "{}", stderr(&again));
    let stored = format!("ext4: {cuts} crash points are stored");
    assert!(stderr(&again).contains(&stored), "{}", stderr(&again));
    let other = crash(folder.path(), &args.replace(&format!("--cuts {cuts}"), "--cuts 3"));
    assert_eq!(code(&other), 2, "{}", stderr(&other));
    assert!(stderr(&other).contains("has ext4 from another command"), "{}", stderr(&other));
    // Without --out, the results are in a new folder.
    let args = format!("--set protocol=qmail {kinds} --cuts 3 --misbehave drops-flushes");
    for row in rows(&crash(folder.path(), &args), 1) {
        assert!(sum(&row, VIOLATIONS) > 0, "{}", row["label"]);
    }
    // A finding is stored as a file. That of a recording is repeated in replay.rs.
    let results = folder.path().join("fsdyno-results").read_dir().unwrap().flatten();
    let found = results.map(|it| it.path().join("findings")).find(|it| it.is_dir()).unwrap();
    let found = found.read_dir().unwrap().flatten();
    let of_ext4 = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with("ext4");
    let found = found.into_iter().find(of_ext4).unwrap();
    if full() {
        repeat_finding(folder.path(), &found.path());
    }
}

/// Repeats a finding from its file and asserts that the result is the same, except for the time of the mount, which
/// depends on the guest's history. Also checks the image of the disk after the cut. Returns the report.
pub(crate) fn repeat_finding(folder: &Path, file: &Path) -> String {
    let mut finding: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let args = format!("crash --replay {} --image left.img --format json", file.display());
    let again = fsdyno(main_program(), folder, &args).output().unwrap();
    assert!(matches!(code(&again), 0 | 1), "{}", stderr(&again));
    // The image has the requested size, consists mostly of holes, and is not overwritten.
    let image = folder.join("left.img");
    let image_metadata = std::fs::metadata(&image).unwrap();
    assert_eq!(image_metadata.len(), finding["plan"]["medium"]["size"].as_u64().unwrap());
    assert!(
        image_metadata.blocks() * 512 < image_metadata.len() / 4,
        "{} bytes",
        image_metadata.blocks() * 512
    );
    let magic = &std::fs::read(&image).unwrap()[1080..1082];
    assert_eq!(magic, [0x53, 0xef], "no superblock of ext2 or later");
    let refused = fsdyno(main_program(), folder, &args).output().unwrap();
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("'left.img' exists"), "{}", stderr(&refused));
    let reported = stderr(&again);
    let mut again: Value = serde_json::from_str(&stdout(&again)).unwrap();
    for cut in [&mut again, &mut finding["tried"]] {
        cut["recovery"]["mount_ns"] = Value::Null;
    }
    assert_eq!(again, finding["tried"]);
    reported
}

/// Asserts that every mode of our FUSE file system except the honest one is found to lose data in this number of cuts.
fn assert_lost_syncs_are_detected(work: &str, modes: &[&str], cuts: usize) {
    let Some(folder) = lab() else { return };
    let specs: Vec<String> = modes.iter().map(|mode| forgetful(mode)).collect();
    let args =
        format!("--set protocol=fsbench {} --cuts {cuts} --size 256M --out out", specs.join(" "));
    let output = command_of(work, folder.path(), &args).output().unwrap();
    let rows = rows(&output, 1);
    assert_eq!(rows.len(), modes.len(), "{}", stderr(&output));
    for (row, mode) in rows.iter().zip(modes) {
        assert_eq!(row["tried"].as_array().unwrap().len(), cuts, "{mode}");
        assert_eq!(count(row, "lost"), 0, "{mode}: recovered");
        assert_eq!(sum(row, VIOLATIONS) > 0, *mode != "honest", "{work}: {mode}: {}", row["tried"]);
    }
}

/// A reader renames each message, so that a name made durable by a sync of its directory is soon out of date.
#[test]
fn a_missing_directory_sync_is_detected_if_a_reader_renames_delivered_mail() {
    assert_lost_syncs_are_detected(MAIL, &["honest", "nodir"], 5);
}

#[test]
fn each_missing_sync_is_detected_with_and_without_a_reader() {
    if !full() {
        return common::lab::skipped("FSDYNO_TEST=full runs it");
    }
    for work in [MAIL, SCRIPT] {
        assert_lost_syncs_are_detected(work, &["honest", "forgets", "drops", "nodir"], 20);
        // The next sync of a file or a directory makes up for a missing one.
        assert_lost_syncs_are_detected(work, &["honest", "seventh"], 100);
    }
}

/// Returns all files of a folder, by their paths.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                all.insert(path.strip_prefix(folder).unwrap().into(), std::fs::read(path).unwrap());
            }
        }
    }
    all
}

#[test]
fn the_same_command_gives_the_same_bytes_with_any_number_of_jobs() {
    if !full() {
        return common::lab::skipped("FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    let args = "--set protocol=fsbench --fs ext4 --fs ext2 --cuts 60 --misbehave reorders";
    let runs = ["1", "2"].map(|jobs| {
        let out = folder.path().join(jobs);
        let output = crash(folder.path(), &format!("{args} --jobs {jobs} --out {}", out.display()));
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        (stdout(&output), files(&out))
    });
    let [first, second] = runs;
    assert!(first.1.keys().any(|path| path.starts_with("findings")), "{:?}", first.1.keys());
    assert!(first == second, "the same command gave other bytes");
}

#[test]
fn a_stopped_row_continues_after_the_guests_that_were_done_with_the_same_bytes() {
    if !full() {
        return common::lab::skipped("FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    let args = "--set protocol=qmail --fs ext4 --cuts 53 --jobs 1 --misbehave drops-flushes --out";
    let whole = crash(folder.path(), &format!("{args} whole"));
    assert_eq!(code(&whole), 1, "{}", stderr(&whole));
    // The second crash test on this machine is estimated from the first.
    let mut stopped = command(folder.path(), &format!("{args} stopped"));
    stopped.stdout(Stdio::piped()).stderr(Stdio::piped());
    let stopped = stopped.spawn().unwrap();
    let part = folder.path().join("stopped/crash.part.json");
    let begin = Instant::now();
    while !part.exists() {
        assert!(begin.elapsed() < Duration::from_secs(1800), "no guest is done");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_raw(stopped.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let stopped = stopped.wait_with_output().unwrap();
    let message = stderr(&stopped);
    assert_eq!(code(&stopped), 130, "{message}");
    assert!(message.contains("(estimated from ") && message.contains(" left\n"), "{message}");
    assert!(message.contains("ext4: 50 of 53 crash points are stored; a resumed run"), "{message}");
    let resumed = crash(folder.path(), &format!("{args} stopped"));
    assert!(stderr(&resumed).contains("50 of 53 crash points are stored"), "{}", stderr(&resumed));
    assert_eq!((code(&resumed), stdout(&resumed)), (1, stdout(&whole)));
    let [whole, resumed] = ["whole", "stopped"].map(|out| files(&folder.path().join(out)));
    assert!(whole == resumed, "{:?}, {:?}", whole.keys(), resumed.keys());
}

#[test]
fn a_crash_point_that_hangs_or_panics_is_a_finding_and_the_others_continue() {
    if !full() {
        return common::lab::skipped("FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    for (mode, why) in
        [("hangs", "it hung: it did not return within"), ("panics", "the kernel panicked")]
    {
        let spec = forgetful(mode);
        let args = format!("--set protocol=fsbench {spec} --cuts 8 --jobs 1 --out {mode}");
        let row = rows(&crash(folder.path(), &args), 1).remove(0);
        let cuts = row["tried"].as_array().unwrap();
        assert_eq!(cuts.len(), 8, "{mode}: all crash points are reported");
        let is_lost =
            |cut: &&Value| cut["recovery"]["lost"].as_str().is_some_and(|it| it.contains(why));
        assert!(cuts.iter().filter(is_lost).count() > 0, "{mode}: {cuts:?}");
        assert!(folder.path().join(mode).join("findings").read_dir().unwrap().count() > 0);
    }
}

#[test]
fn disks_that_reorder_or_tear_and_a_file_system_without_a_journal_are_detected() {
    if !full() {
        return common::lab::skipped("FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    for disk in ["reorders", "tears"] {
        let args =
            format!("--set protocol=qmail --fs ext4 --cuts 40 --misbehave {disk} --out {disk}");
        let row = rows(&crash(folder.path(), &args), 1).remove(0);
        assert!(sum(&row, VIOLATIONS) > 0, "{disk}");
    }
    // The same file system without and with the sync that it acknowledges.
    let args = "--set protocol=fsbench --fs 'lies=overlayfs,volatile:ext4' --cuts 20 --out lies";
    assert!(sum(&rows(&crash(folder.path(), args), 1)[0], VIOLATIONS) > 0);
    let args = "--set protocol=fsbench --fs 'over=overlayfs:ext4' --cuts 20 --out over";
    assert_eq!(sum(&rows(&crash(folder.path(), args), 0)[0], VIOLATIONS), 0);
    // Renamed without a sync of the directory: ext2 has files under neither name, or under both.
    let args = "--set protocol=dovecot --set mail-fsync=file --fs ext2 --cuts 40 --out ext2";
    let output = crash(folder.path(), args);
    let row = serde_json::from_str::<Vec<Value>>(&stdout(&output)).unwrap().remove(0);
    assert!(sum(&row, &["names_lost", "names_doubled"]) > 0, "{}", stdout(&output));
    assert!(count(&row, "repair") > 0);
}

#[test]
fn plans_that_cannot_be_crash_tested_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (args, why) in [
        ("maildir --fs tmpfs", "the durability guarantees of 'tmpfs' are not known"),
        ("maildir --disk instant", "persistent memory, which has no write cache"),
        ("capacity", "until its file system is full"),
        ("source-tree --size 32G", "whose parts only the file system knows"),
        ("replay", "replay needs a recording"),
        (
            concat!(
                "replay --set order=none --set trace=",
                env!("CARGO_MANIFEST_DIR"),
                "/../../examples/traces/rsync.trace"
            ),
            "with order=none the calls of its 4 threads have no order",
        ),
        ("--replay no-such-file", "failed to read 'no-such-file' as a finding"),
        ("maildir --misbehave lies", "drops-flushes"),
        ("maildir --cuts 0", "expected a whole number from 1 to 100,000"),
        ("maildir --image left.img", "cannot be used with"),
        ("--image left.img", "--replay <FILE>"),
        ("maildir --boot snapshot", "fsdyno crash has no --boot: its guests boot cold"),
        ("maildir --repeat=3", "fsdyno crash has no --repeat: a crash test is one trial"),
        ("maildir --cpu 3", "--cpu"),
    ] {
        let output = run(folder.path(), &format!("crash {args}"));
        assert_eq!(code(&output), 2, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args}: {}", stderr(&output));
    }
    let dry = run(folder.path(), "crash dirops --fs ext4 --fs xfs --cuts 7 --dry-run");
    let time = stdout(&dry).lines().last().unwrap().to_string();
    assert!(
        time.starts_with("time: about ") && time.contains("(a rough estimate: no crash"),
        "{time}"
    );
    assert_eq!(
        (code(&dry), stdout(&dry).matches("7 crash points").count()),
        (0, 2),
        "{}",
        stderr(&dry)
    );
    assert_eq!(
        std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|it| it.as_ref().unwrap().file_name() != "cache")
            .count(),
        0
    );
}
