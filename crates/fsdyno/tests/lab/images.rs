//! The lab's caches (snapshots of guests, prepared images), aging, killed and resumed runs, and KVM. Where the lab
//! cannot run, these tests are skipped with the reason; with CI set in the environment, that is a failure.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::lab::{boot, skipped};
use crate::common::{PROGRAM, code, full, lines, stderr, stdout, wait_until};
use fsdyno_lab::Cache;
use serde_json::Value;

/// A folder with a separate cache that has only the user's kernels and, for some tests, the user's snapshots. There is
/// none where the lab cannot run; the reason is printed.
struct Lab(tempfile::TempDir);

fn lab() -> Option<Lab> {
    with_cached(&["kernels", "vmlinux"])
}

/// Returns a lab for tests of images that do not test snapshots.
fn lab_with_snapshots() -> Option<Lab> {
    with_cached(&["kernels", "vmlinux", "snapshots"])
}

fn with_cached(folders: &[&str]) -> Option<Lab> {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache/fsdyno");
    std::fs::create_dir_all(&cache).unwrap();
    for kept in folders {
        std::fs::create_dir_all(Cache::of_user().unwrap().path().join(kept)).unwrap();
        std::os::unix::fs::symlink(Cache::of_user().unwrap().path().join(kept), cache.join(kept))
            .unwrap();
    }
    let lab = Lab(folder);
    let output = lab.fsdyno("doctor").output().unwrap();
    if output.status.success() {
        return Some(lab);
    }
    let why = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(std::env::var_os("CI").is_none(), "CI has to run the lab; here it lacks\n{why}");
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let _ = writeln!(std::io::stderr(), "skipped {test}: the lab cannot run here");
    None
}

impl Lab {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn fsdyno(&self, args: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(self.path())
            .stdin(Stdio::null())
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .args(args.split_whitespace());
        command
    }

    fn run_ok(&self, args: &str) -> Output {
        let output = self.fsdyno(&format!("run {args}")).output().unwrap();
        assert_eq!(code(&output), 0, "{args}: {}", stderr(&output));
        output
    }

    fn trials(&self, out: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join(out).join("trials.ndjson")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the records without their host part, in order.
    fn records(&self, out: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join(out).join("trials.ndjson")).unwrap();
        let record = |line: &str| line.split_once(",\"host\":").unwrap().0.to_string();
        text.lines().map(record).collect()
    }

    fn cached(&self, what: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("cache/fsdyno").join(what));
        let whole = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            !name.starts_with("lock") && !name.starts_with("unfinished")
        };
        entries.into_iter().flatten().flatten().map(|e| e.path()).filter(whole).collect()
    }
}

const ALL: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "reiserfs", "jfs"];

fn was_prepared(trial: &Value) -> bool {
    trial["host"]["stages"]["make"].is_u64()
}

#[test]
fn an_aged_disk_is_bit_identical_from_the_cache_and_newly_made() {
    let Some(lab) = lab_with_snapshots() else { return };
    let (kinds, size): (&[&str], _) = if full() { (&ALL, "320M") } else { (&["ext4"], "128M") };
    let args = format!(
        "dirops --fs {} --set files=50 --size {size} {} --age fill=30%,churn=1,files=4K-128K --age none",
        kinds.join(" --fs "),
        boot()
    );
    for out in ["first", "cached", "anew"] {
        // A file system that is not aged is tested once; it has a disk in the cache only if its guest starts from a
        // snapshot.
        let args = if out == "first" { args.clone() } else { args.replace(" --age none", "") };
        if out == "anew" {
            let images = lab.cached("images");
            assert_eq!(images.len(), kinds.len() * if full() { 1 } else { 2 }, "{images:?}");
            images.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        }
        lab.run_ok(&format!("{args} --out {out}"));
        for trial in lab.trials(out) {
            let aged = !trial["conditions"]["aged"].is_null();
            let is_prepared = aged || !full();
            let label = &trial["plan"]["label"];
            assert_eq!(was_prepared(&trial), is_prepared && out != "cached", "{out}: {label}");
        }
    }
    assert!(lab.records("anew") == lab.records("cached"), "a new disk and a cached one differ");
    let trials = lab.trials("first");
    let is_aged = trials.iter().map(|trial| !trial["conditions"]["aged"].is_null());
    let records = lab.records("first").into_iter().zip(is_aged);
    let aged = records.filter_map(|(it, is_aged)| is_aged.then_some(it));
    // The number of a row counts the rows that are not aged, too.
    let without_row = |record: String| {
        let (start, rest) = record.split_once(",\"row\":").unwrap();
        format!("{start},{}", rest.split_once(',').unwrap().1)
    };
    let [aged, cached] = [aged.collect(), lab.records("cached")]
        .map(|records: Vec<String>| records.into_iter().map(without_row).collect::<Vec<_>>());
    assert!(aged == cached, "a disk from the cache and a new one differ");
    for kind in kinds {
        let trial_of = |is_aged: bool| {
            let wanted = |trial: &&Value| {
                trial["plan"]["label"] == *kind && trial["conditions"]["aged"].is_null() != is_aged
            };
            trials.iter().find(wanted).unwrap()
        };
        let (fresh, aged) = (trial_of(false), trial_of(true));
        let number = |key: &str| aged["conditions"]["aged"][key].as_u64().unwrap();
        let fill = 100.0 * number("used") as f64 / number("size") as f64;
        assert!((29.5..31.5).contains(&fill), "{fill} % full");
        assert!(number("files") > 500 && number("removed") >= number("files") * 9 / 10);
        let used = |trial: &Value| trial["measured"]["phases"][0]["space_used"].as_u64().unwrap();
        assert!(
            used(aged) > used(fresh) + number("bytes"),
            "the files that aged the disk stay during the phases"
        );
        assert_eq!(fresh["conditions"]["mkfs"], aged["conditions"]["mkfs"]);
        assert_eq!(fresh["conditions"]["features"], aged["conditions"]["features"]);
        assert_ne!(fresh["measured"]["phases"], aged["measured"]["phases"]);
        assert_eq!(aged["measured"]["check"]["clean"], true);
    }
}

/// Tests an array, and a file system with an external journal: all their disks are one image.
#[test]
fn an_aged_array_is_assembled_from_the_cached_disks() {
    let Some(lab) = lab_with_snapshots() else { return };
    let arrays: &[&str] = if full() { &["0x2", "1x2", "5x3:64K", "10x4"] } else { &["5x3:64K"] };
    for raid in arrays {
        let args = format!(
            "dirops --fs ext4 --set files=50 --size 160M --raid {raid} {} --jobs 2 --age none \
             --age fill=15%,churn=1,files=4K-256K",
            boot()
        );
        for out in ["first", "cached"] {
            lab.run_ok(&format!("{args} --out {out}"));
        }
        // Two guests at the same time end in any order.
        let [first, cached] = ["first", "cached"].map(|out| {
            let mut records = lab.records(out);
            records.sort();
            records
        });
        assert!(first == cached, "{raid}: a cached array and a new one differ");
        let is_aged = |trial: &&Value| !trial["conditions"]["aged"].is_null();
        let [one, two] = ["first", "cached"].map(|out| lab.trials(out));
        assert_eq!((one.len(), one.iter().filter(is_aged).count()), (2, 1));
        // Only the aged one is prepared if guests boot cold.
        let prepared = if full() { 1 } else { 2 };
        assert_eq!(one.iter().map(was_prepared).filter(|made| *made).count(), prepared, "{raid}");
        assert!(!two.iter().any(was_prepared), "{raid}");
        for trial in &one {
            assert_eq!(trial["measured"]["check"]["clean"], true, "{trial}");
            // Wrong parity, or copies that differ, would be reported.
            let found = trial["conditions"]["array"]["found"].as_str().unwrap();
            assert!(!found.contains("wrong") && !found.starts_with('0'), "{found}");
        }
        let _ = ["first", "cached"].map(|out| std::fs::remove_dir_all(lab.path().join(out)));
    }
    if !full() {
        return;
    }
    for (out, spec) in [("far", "ext4 -J device={journal}"), ("log", "xfs -l logdev={journal}")] {
        let args = format!(
            "run dirops --set files=50 --size 512M --journal-size 64M --out {out} \
             --age fill=40%,churn=1,files=16K-1M --fs"
        );
        let output = lab.fsdyno(&args).arg(spec).output().unwrap();
        assert_eq!(code(&output), 0, "{spec}: {}", stderr(&output));
        let trial = lab.trials(out).remove(0);
        assert!(was_prepared(&trial) && trial["measured"]["check"]["clean"] == true, "{trial}");
    }
}

#[test]
fn a_snapshot_and_its_prepared_images_are_made_once_and_bit_identical() {
    let Some(lab) = lab() else { return };
    let args = "dirops --fs ext3 --set files=50 --size 512M --boot snapshot --repeat 2";
    let first = lab.run_ok(&format!("{args} --out first"));
    assert!(
        stderr(&first).contains("booting a guest once to save a snapshot"),
        "{}",
        stderr(&first)
    );
    assert_eq!((lab.cached("snapshots").len(), lab.cached("images").len()), (1, 2));
    let again = lab.run_ok(&format!("{args} --out again"));
    assert!(!stderr(&again).contains("booting a guest"), "{}", stderr(&again));
    assert_eq!(lab.records("first"), lab.records("again"));
    // An estimate includes the boots for snapshots that are missing, and only those.
    let estimate = |kinds: &str| {
        let args = args.replace("--fs ext3", &format!("--fs {kinds}"));
        stdout(&lab.run_ok(&format!("{args} --dry-run")))
    };
    let (known, missing) = (estimate("ext3"), estimate("ext3,xfs"));
    assert!(known.contains("time: about") && !known.contains("boot once"), "{known}");
    assert!(missing.contains(" of it to boot guests for snapshots; estimated"), "{missing}");
    assert_eq!(lab.cached("snapshots").len(), 1);
    let seeds = lab.trials("first");
    assert_eq!(seeds.iter().map(was_prepared).collect::<Vec<_>>(), [true, true]);
    assert_ne!(seeds[0]["measured"], seeds[1]["measured"], "another seed gives another result");
    assert_eq!(lab.trials("again").iter().map(was_prepared).collect::<Vec<_>>(), [false, false]);
    let features = &lab.trials("again")[0]["conditions"]["features"];
    assert!(features.to_string().contains("has_journal"), "{features}");
    // A disk that mkfs refuses fails its trial with mkfs's message, and nothing is cached.
    let args = "dirops --size 512M --boot snapshot --out refused --fs";
    let refused = lab.fsdyno(&format!("run {args}")).arg("ext3 -b 1024 -I 2048").output().unwrap();
    assert_eq!(code(&refused), 4, "{}", stderr(&refused));
    let reason = lab.trials("refused")[0]["reason"].to_string();
    assert!(reason.contains("inode size"), "{reason}");
    assert_eq!(lab.cached("images").len(), 2);
}

#[test]
fn ctrl_c_ends_the_boot_of_a_guest_that_is_to_be_saved() {
    let Some(lab) = lab() else { return };
    let mut command = lab.fsdyno("run dirops --fs ext4 --boot snapshot --out out");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("booting a guest once to save a snapshot") {
        line.clear();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "the message about the snapshot is missing"
        );
    }
    let stopped = Instant::now();
    // SAFETY: kill takes numbers; the process is this test's own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    assert_eq!(lab.cached("snapshots").len(), 0);
}

#[test]
fn a_run_that_is_killed_repeatedly_stores_the_records_of_an_uninterrupted_one() {
    if !full() {
        return skipped("resumed.rs kills runs without aged disks (make test-full)");
    }
    let Some(lab) = lab_with_snapshots() else { return };
    let (repeats, kills) = (2, [700, 3000, 2600, 4100]);
    let args = format!(
        "dirops --fs ext4 --set files=300 --size 64M --age none --age fill=30%,churn=0,files=64K \
         --repeat {repeats} {}",
        boot()
    );
    // This also saves the snapshot in the user's cache, so that no kill interrupts its saving.
    lab.run_ok(&format!("{args} --out uninterrupted"));
    lab.cached("images").iter().for_each(|path| std::fs::remove_file(path).unwrap());
    // During the start of the first guest, during the preparation of a disk, within a trial, and right after one.
    for milliseconds in kills {
        let mut child = lab
            .fsdyno(&format!("run {args} --out killed"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        let _ = child.kill();
        child.wait().unwrap();
    }
    let before = lines(&lab.path().join("killed"));
    let last = lab.run_ok(&format!("{args} --out killed"));
    assert!(before == 0 || stderr(&last).contains("already stored"), "{}", stderr(&last));
    assert!(!stderr(&last).contains("booting a guest"), "{}", stderr(&last));
    assert_eq!(lab.records("killed").len(), 2 * repeats);
    assert_eq!(lab.records("killed"), lab.records("uninterrupted"));
}

#[test]
fn kvm_is_marked_if_it_works_and_refused_soon_if_not() {
    let Some(lab) = lab() else { return };
    let start = Instant::now();
    let child = lab
        .fsdyno("run dirops --fs ext4 --set files=20 --accel kvm --out out")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    wait_until("the end of every guest", || !runs_with_kvm());
    if code(&output) == 0 {
        let trial = lab.trials("out").remove(0);
        assert!(trial["lab_id"].is_null(), "{trial}");
        assert_eq!(trial["plan"]["venue"]["accel"], "kvm");
        assert!(trial["conditions"]["notes"].to_string().contains("not bit-identical"));
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(table.contains("KVM: host time, not repeatable"), "{table}");
        return;
    }
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("use KVM: ") && message.contains("remove --accel kvm"), "{message}");
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

/// Returns true if a QEMU process with KVM and our machine type is running.
fn runs_with_kvm() -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let args = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    let args = args.map(|args| String::from_utf8_lossy(&args).replace('\0', " "));
    args.into_iter().any(|args| args.contains("-accel kvm") && args.contains("pc-q35-7.1"))
}
