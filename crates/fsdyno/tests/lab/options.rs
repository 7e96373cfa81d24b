//! Every spec of `common/specs.rs` is made, mounted, used, verified and checked in the lab, and has the effect in its
//! row. CI runs a few of them, `make test-full` all of them under three workloads; with FSDYNO_WRITE_DOCS=1 the latter
//! writes docs/filesystems.md from the records.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::common::lab::{lab, run, runnable, skipped, trials};
use crate::common::specs::{Effect, KERNELS, ROWS, Row, clean};
use crate::common::{code, full, stderr};
use serde_json::Value;

/// The size of the file systems: a journal of 1 GiB fits in.
const SIZE: &str = "--size 8G";

/// Returns the words of a line that was read back.
fn feature_words(trial: &Value, key: &str) -> Vec<String> {
    let text = trial["conditions"]["features"][key].as_str().unwrap_or_default();
    text.split([' ', ',']).map(String::from).collect()
}

/// Returns the options of the mount from mountinfo and from the list of the driver.
fn mount_options(trial: &Value) -> Vec<String> {
    let shown = trial["conditions"]["mount"].as_str().unwrap_or_default();
    let shown = shown.split([' ', ',']).map(String::from);
    shown.chain(feature_words(trial, "mount options")).collect()
}

/// Returns the words of the mountinfo of the lower file system.
fn lower_mount_words(trial: &Value) -> Vec<String> {
    let shown = trial["conditions"]["below"].as_str().unwrap_or_default();
    shown.split([' ', ',']).map(String::from).collect()
}

/// Returns the differences of a trial from its row.
pub(crate) fn differences(row: &Row, trial: &Value) -> Vec<String> {
    if trial["outcome"] != "ok" || clean(trial) == Some(false) {
        return vec![format!("{}: {} {}", row.spec, trial["outcome"], trial["reason"])];
    }
    let mut differences = Vec::new();
    let mut expect = |words: &str, present: &[String], wanted: bool| {
        for word in words.split(' ').filter(|word| present.iter().any(|t| t == word) != wanted) {
            let what = if wanted { "lacks" } else { "has" };
            differences.push(format!("{}: {what} '{word}': {}", row.spec, present.join(" ")));
        }
    };
    for effect in row.effects {
        match effect {
            Effect::Has(key, words) => expect(words, &feature_words(trial, key), true),
            Effect::Lacks(key, words) => {
                let present = feature_words(trial, key);
                assert!(present.iter().any(|word| !word.is_empty()), "{}: no {key}", row.spec);
                expect(words, &present, false);
            }
            Effect::Inodes(bytes) => {
                let size = trial["plan"]["medium"]["size"].as_u64().unwrap();
                expect(&(size / bytes).to_string(), &feature_words(trial, "Inode count"), true);
            }
            Effect::Mounted(words) => expect(words, &mount_options(trial), true),
            Effect::Below(words) => expect(words, &lower_mount_words(trial), true),
        }
    }
    if trial["measured"]["verify"]["problems"] != 0 {
        differences.push(format!("{}: {}", row.spec, trial["measured"]["verify"]));
    }
    differences
}

/// Runs workloads on the rows of one kind and returns the trials.
fn run_rows(folder: &Path, rows: &[&Row], words: &str, out: &str) -> Vec<Value> {
    let specs: Vec<String> = rows.iter().map(|row| format!("--fs '{}'", row.spec)).collect();
    let kernel = rows[0].kernel.map(|kernel| format!("--kernel {kernel}")).unwrap_or_default();
    // mke2fs makes a journal of the same size for both.
    let size = if full() { SIZE } else { "--size 2G" };
    let words = format!("{words} {size} {kernel} {} --jobs 2 --out {out}", specs.join(" "));
    let output = run(folder, &words);
    assert!([0, 4].contains(&code(&output)), "{}", stderr(&output));
    trials(&folder.join(out))
}

fn of_row<'a>(row: &'a Row, trials: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let label = row.label();
    trials.iter().filter(move |trial| trial["plan"]["label"] == label.as_str())
}

#[test]
fn options_have_the_effect_that_is_read_back() {
    let Some(folder) = lab() else { return };
    // The other rows of CI are in the test of newer file systems (filesystems.rs).
    let rows = runnable(ROWS.iter().filter(|row| row.ci && (full() || row.is_classical())));
    let trials = run_rows(folder.path(), &rows, "dirops --set files=30", "out");
    let mut problems = Vec::new();
    for row in rows {
        assert_eq!(of_row(row, &trials).count(), 1, "{}", row.spec);
        problems.extend(of_row(row, &trials).flat_map(|trial| differences(row, trial)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_option_that_mkfs_refuses_fails_once_in_seconds_with_mkfss_message() {
    let Some(folder) = lab() else { return };
    let refused = [
        ("xfs -l size=10m", "failed (exit code 1): Log size must be at least 64MB"),
        ("ext4 -I 100", "mke2fs: invalid inode size 100"),
    ];
    // A prepared image that mke2fs refuses is tested in images.rs.
    for (spec, words) in &refused[..if full() { 2 } else { 1 }] {
        let started = Instant::now();
        let run = run(
            folder.path(),
            &format!("dirops tarball --fs '{spec}' --size 32G --repeat 2 --boot cold --out out"),
        );
        let took = started.elapsed().as_secs();
        assert_eq!(code(&run), 4, "{}", stderr(&run));
        let trials = trials(&folder.path().join("out"));
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
        let outcomes: Vec<&Value> = trials.iter().map(|trial| &trial["outcome"]).collect();
        assert_eq!(outcomes, ["failed", "skipped", "skipped", "skipped"]);
        for trial in &trials {
            let reason = trial["reason"].as_str().unwrap();
            assert!(reason.contains(words), "{spec}: {reason}");
        }
        // The time is that of a guest's boot; the limit allows for a busy machine.
        assert!(took < 120, "{spec} took {took} s to fail");
    }
}

#[test]
fn a_period_makes_the_file_systems_of_its_year_and_shows_the_commands() {
    let Some(folder) = lab() else { return };
    let words = "dirops --set files=50 --size 1G --period 2004 --fs 'ext3 @ noatime' --fs xfs \
        --jobs 2 --out out";
    let output = run(folder.path(), words);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for trial in trials(&folder.path().join("out")) {
        let sysctls = &trial["conditions"]["sysctls"];
        assert_eq!(sysctls["vm.dirty_ratio"], "40", "{sysctls}");
        let mkfs = &trial["conditions"]["mkfs"].to_string();
        let options = mount_options(&trial);
        let has = |option: &str| options.iter().any(|have| have == option);
        let cache = &trial["conditions"]["queue"]["write_cache"];
        if trial["plan"]["filesystem"]["kind"] == "ext3" {
            let features = feature_words(&trial, "Filesystem features");
            assert_eq!(features, ["has_journal", "filetype", "sparse_super"]);
            assert_eq!(feature_words(&trial, "journal bytes"), ["33554432"]);
            assert!(mkfs.contains("\"-I\",\"128\""), "{mkfs}");
            assert!(has("nobarrier") && has("noatime"), "{options:?}");
            assert_eq!(cache, "write back");
        } else {
            assert_eq!(feature_words(&trial, "meta-data crc"), ["0"]);
            assert_eq!(feature_words(&trial, "log version"), ["1"]);
            assert_eq!(feature_words(&trial, "journal bytes"), ["10485760"]);
            assert!(has("logbufs=2") && !has("relatime"), "{options:?}");
            assert_eq!(cache, "write through");
        }
    }
}

#[test]
fn every_option_holds_under_three_workloads() {
    if !full() {
        skipped("it runs every spec of the table under three workloads (make test-full)");
        return;
    }
    let Some(folder) = lab() else { return };
    let words = "dirops fdtree postmark --boot snapshot --set dirops.files=200 --set fdtree.levels=2 \
        --set fdtree.dirs=3 --set fdtree.files=4 --set postmark.number=100 \
        --set postmark.transactions=200";
    let rows = runnable(ROWS.iter());
    let write = std::env::var_os("FSDYNO_WRITE_DOCS").is_some();
    assert!(!write || rows.len() == ROWS.len(), "the table needs all rows");
    let (mut problems, mut lines) = (Vec::new(), Vec::new());
    for rows in rows.chunk_by(|a, b| a.kind() == b.kind()) {
        let trials = run_rows(folder.path(), rows, words, rows[0].kind());
        for row in rows {
            assert_eq!(of_row(row, &trials).count(), 3, "{}", row.spec);
            problems.extend(of_row(row, &trials).flat_map(|trial| differences(row, trial)));
            lines.push(table_line(row, &of_row(row, &trials).collect::<Vec<_>>()));
        }
    }
    if write {
        let text = std::fs::read_to_string(docs()).unwrap();
        let kernels = text.split_once(KERNELS).map(|(_, rest)| format!("\n{KERNELS}{rest}"));
        let kernels = kernels.unwrap_or_default();
        std::fs::write(docs(), format!("{HEAD}{}\n{kernels}", lines.join("\n"))).unwrap();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_file_system_of_every_period_is_made_mounted_and_checked() {
    if !full() {
        skipped("it runs every file system of five periods (make test-full)");
        return;
    }
    let Some(folder) = lab() else { return };
    for period in fsdyno_filesystem::period::all() {
        let (name, disk) = (&period.name, &period.disk);
        let kinds: Vec<String> =
            period.filesystem.keys().map(|kind| format!("--fs {kind}")).collect();
        let words = format!(
            "dirops --set files=100 --period {name} --disk {disk} --boot snapshot {} --out {name}",
            kinds.join(" ")
        );
        let output = run(folder.path(), &words);
        assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
        for trial in trials(&folder.path().join(name)) {
            assert_eq!(trial["plan"]["filesystem"]["period"], name.as_str());
            let options = mount_options(&trial);
            let settings =
                &period.filesystem[trial["plan"]["filesystem"]["kind"].as_str().unwrap()];
            // These are shown as nobarrier or not at all, because they are the driver's defaults or not options of the
            // driver.
            let silent =
                ["barrier=0", "strictatime", "nospace_cache", "data=ordered", "dont_punch_holes"];
            for option in settings.mount.iter().filter(|option| !silent.contains(&option.as_str()))
            {
                assert!(options.contains(option), "{name}: no {option} in {options:?}");
            }
            let then = settings.mount.iter().any(|option| option == "strictatime");
            assert_eq!(options.iter().any(|option| option == "relatime"), !then, "{options:?}");
        }
    }
}

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/filesystems.md")
}

const HEAD: &str = "\
# File systems and options

In the lab, a file system was created and mounted for each spec of this table, as given to `--fs`, and used by
three small workloads (dirops, 200 files; fdtree, 2 levels of 3 directories and 4 files; postmark, 100 files and
200 transactions). The tree was read back and compared byte by byte, and the file system's own check was run at the
end. `verified` means that all of this succeeded; `none` under `check` means that the file system has no check, or
is in memory. Options in effect were read back from the file system and the mount, not copied from the spec. The
table is generated from the records:

    FSDYNO_WRITE_DOCS=1 FSDYNO_TEST=full cargo test --release --locked -p fsdyno --test lab options::every_option

The specs are in `crates/fsdyno/tests/common/specs.rs`. Other options of mkfs and mount are accepted, too
(`fsdyno show filesystem NAME`); an option that mkfs refuses fails with mkfs's own message. `{journal}` is the
lab's second disk, 256 MiB here. Btrfs is on one device: its raid profiles need several devices, and `--raid`
provides one md array. Debian's default kernel has no bcachefs, ntfs3 or zfs, and its SMB server fails. These are
tested on other kernels (`--kernel`): zfs on a kernel of Ubuntu (`fsdyno kernel build zfs` adds it to a kernel of
Debian). `raw` has no tree and is tested separately; `reiser4` needs `fsdyno kernel build reiser4`.

| spec | kernel | in effect | dirops | fdtree | postmark | check |
|---|---|---|---|---|---|---|
";

/// Returns a feature with its value.
fn read_back(trial: &Value, key: &str) -> String {
    format!("{key} {}", trial["conditions"]["features"][key].as_str().unwrap_or("?"))
}

/// Returns the line of the table for a row.
fn table_line(row: &Row, trials: &[&Value]) -> String {
    let first = trials[0];
    let mut found: Vec<String> = Vec::new();
    for effect in row.effects {
        match effect {
            Effect::Has("journal bytes", _) => {}
            Effect::Has("Filesystem features", words) => found.push(words.replace(' ', ", ")),
            Effect::Has(key, _) => found.push(read_back(first, key)),
            Effect::Inodes(_) => found.push(read_back(first, "Inode count")),
            Effect::Lacks(_, words) => found.push(format!("no {}", words.replace(' ', ", no "))),
            Effect::Mounted(words) => found.push(words.replace(' ', ", ")),
            Effect::Below(words) => found.push(format!("below {}", words.replace(' ', ", "))),
        }
    }
    let journal = first["conditions"]["features"]["journal bytes"].as_str();
    if let Some(bytes) = journal.and_then(|bytes| bytes.parse::<u64>().ok()) {
        found.push(format!("journal {}", fsdyno_record::Bytes(bytes)));
    }
    let kernel = first["conditions"]["kernel"].as_str().unwrap_or_default();
    let state_of = |workload: &str| {
        let trial = trials.iter().find(|trial| trial["plan"]["workload"]["name"] == workload);
        match trial {
            Some(trial) if differences(row, trial).is_empty() => "verified".to_string(),
            Some(trial) => trial["outcome"].as_str().unwrap_or("?").to_string(),
            None => "not run".to_string(),
        }
    };
    let checks: Vec<Option<bool>> = trials.iter().map(|trial| clean(trial)).collect();
    let check = match checks.contains(&Some(false)) {
        true => "not clean",
        false if checks.contains(&None) => "none",
        false => "clean",
    };
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} |",
        row.spec,
        kernel.split('-').next().unwrap_or_default(),
        found.join("; "),
        state_of("dirops"),
        state_of("fdtree"),
        state_of("postmark"),
        check,
    )
}

#[test]
fn the_documented_table_has_every_spec_and_no_other() {
    let text = std::fs::read_to_string(docs()).unwrap();
    let listed: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let known: Vec<&str> = ROWS.iter().map(|row| row.spec).collect();
    assert_eq!(listed, known, "left: docs/filesystems.md, right: common/specs.rs");
}
