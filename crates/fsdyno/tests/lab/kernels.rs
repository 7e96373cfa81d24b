//! Each kind of file system on Debian's other kernels (5.10 and 6.12), in the lab: made,
//! mounted, used, verified and checked. With FSDYNO_WRITE_DOCS=1 its table in docs/filesystems.md is written
//! from the records. `FSDYNO_TEST=full` (`make test-full`) runs it; unavailable kernels are reported.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::PathBuf;

use crate::common::lab::{self, runnable, skipped, trials};
use crate::common::specs::{KERNELS, ROWS, Row, clean};
use crate::common::{code, full, stderr};
use serde_json::Value;

/// The kernels, as `--kernel` takes them.
const OTHERS: [&str; 2] = ["5.10", "6.12"];

/// Known faults: the kernel, the spec, a part of the reason of the failed trial, and the text in the table.
const BROKEN: [(&str, &str, &str, &str); 1] = [(
    "5.10",
    "jfs -s 8 @ nointegrity",
    "failed to run the guest: its kernel panicked",
    "the kernel panics",
)];

/// Returns the expected reason of the failed trial and the text in the table, if the fault is known.
fn known_fault(kernel: &str, spec: &str) -> Option<(&'static str, &'static str)> {
    let known = BROKEN.iter().find(|(on, of, ..)| (*on, *of) == (kernel, spec));
    known.map(|(_, _, reason, shown)| (*reason, *shown))
}

/// Returns the default row of each file system and the rows of CI.
fn rows() -> Vec<&'static Row> {
    let plain = |row: &&Row| row.spec == row.kind() || row.spec.starts_with("overlayfs");
    let on_default_kernel = ROWS.iter().filter(|row| row.kernel.is_none());
    runnable(on_default_kernel.filter(|row| plain(row) || row.ci || row.kind() == "fuse"))
}

#[test]
fn each_kind_is_verified_and_clean_on_an_older_and_a_newer_kernel() {
    if !full() {
        skipped("it runs every kind of file system on two more kernels (make test-full)");
        return;
    }
    let Some(folder) = lab::lab() else { return };
    let rows = rows();
    let specs: Vec<String> = rows.iter().map(|row| format!("--fs '{}'", row.spec)).collect();
    let mut columns = Vec::new();
    for kernel in OTHERS {
        let args =
            format!("dirops --set files=100 --size 2G --jobs 2 --kernel {kernel} --out {kernel}");
        let output = lab::run(folder.path(), &format!("{args} {}", specs.join(" ")));
        if code(&output) == 3 {
            skipped(&format!("kernel {kernel}: {}", stderr(&output)));
            continue;
        }
        let exit =
            if rows.iter().any(|row| known_fault(kernel, row.spec).is_some()) { 4 } else { 0 };
        assert_eq!(code(&output), exit, "{kernel}: {}", stderr(&output));
        let trials = trials(&folder.path().join(kernel));
        assert_eq!(trials.len(), rows.len());
        for trial in &trials {
            let spec = trial["plan"]["filesystem"]["spec"].as_str().unwrap();
            if let Some((reason, _)) = known_fault(kernel, spec) {
                // If a newer kernel has fixed the fault, this table must be changed.
                assert!(trial["reason"].as_str().unwrap().contains(reason), "{trial}");
                continue;
            }
            assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
            assert_eq!(trial["measured"]["verify"]["problems"], 0, "{trial}");
            assert_ne!(clean(trial), Some(false), "{trial}");
        }
        columns.push(trials);
    }
    if std::env::var_os("FSDYNO_WRITE_DOCS").is_some() {
        assert_eq!(columns.len(), OTHERS.len(), "the table needs all kernels");
        write_docs(&rows, &columns);
    }
}

/// Writes the table after the one that the test of options writes.
fn write_docs(rows: &[&Row], columns: &[Vec<Value>]) {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/filesystems.md");
    let text = std::fs::read_to_string(&docs).unwrap();
    let first = text.split(KERNELS).next().unwrap().trim_end();
    let releases = columns.iter().map(|trials| {
        let release = trials[0]["plan"]["venue"]["kernel"]["release"].as_str().unwrap();
        release.to_string()
    });
    let releases: Vec<String> = releases.collect();
    let mut table =
        format!("| spec | {} |\n|---|{}\n", releases.join(" | "), "---|".repeat(releases.len()));
    for row in rows {
        let cells = columns.iter().zip(OTHERS).map(|(trials, kernel)| {
            let trial = trials.iter().find(|trial| trial["plan"]["label"] == row.label().as_str());
            match (known_fault(kernel, row.spec), clean(trial.unwrap())) {
                (Some((_, shown)), _) => shown,
                (None, Some(true)) => "verified, clean",
                (None, _) => "verified, no check",
            }
        });
        table.push_str(&format!("| {} | {} |\n", row.spec, cells.collect::<Vec<_>>().join(" | ")));
    }
    let head = "This table shows dirops with 100 files on Debian's other kernels; the tree was read back and compared, \
                and the file\nsystem's own check was run. It is generated from the records:\n\n    \
                FSDYNO_WRITE_DOCS=1 FSDYNO_TEST=full cargo test --release --locked -p fsdyno --test lab kernels::\n";
    std::fs::write(&docs, format!("{first}\n\n{KERNELS}\n\n{head}\n{table}")).unwrap();
}

/// The disk profile is in effect on each kernel, so that two kernels are compared on one disk. A kernel that is not in
/// the cache is downloaded; without a network the test is skipped.
#[test]
fn a_newer_kernel_has_the_same_disk_and_differences_of_its_driver_are_noted() {
    let Some(folder) = lab::lab() else { return };
    let kinds: &[&str] = if full() { &["ext4", "xfs"] } else { &["ext4"] };
    let args = format!(
        "dirops --set files=20 --kernel 6.1 --kernel 6.12 --fs {} --out out",
        kinds.join(" --fs ")
    );
    let output = lab::run(folder.path(), &args);
    if code(&output) == 3 {
        skipped(&stderr(&output));
        return;
    }
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trials = trials(&folder.path().join("out"));
    assert_eq!(trials.len(), 2 * kinds.len());
    // Trials are stored in the order in which they ran.
    let trial_of = |label: &str, kernel: &str| {
        let is_it = |trial: &&Value| {
            let release = trial["conditions"]["kernel"].as_str().unwrap();
            trial["plan"]["label"] == label && release.starts_with(kernel)
        };
        trials.iter().find(is_it).unwrap_or_else(|| panic!("no trial of {label} on {kernel}"))
    };
    for &label in kinds {
        let [old, new] = ["6.1.", "6.12."].map(|kernel| &trial_of(label, kernel)["conditions"]);
        let keys = ["rotational", "nr_requests", "max_sectors_kb", "read_ahead_kb", "write_cache"];
        for key in keys {
            assert_eq!(new["queue"][key], old["queue"][key], "{key}");
        }
        assert_eq!(old["queue"]["read_ahead_kb"], "128");
        for conditions in [old, new] {
            // Kernels list the schedulers in different orders.
            let schedulers = conditions["queue"]["scheduler"].as_str().unwrap();
            assert!(schedulers.contains("[mq-deadline]"), "{schedulers}");
        }
        for key in ["RAID stripe width", "sunit", "swidth"] {
            assert_eq!(new["features"][key], old["features"][key], "{key}");
        }
        assert!(!new["mount"].as_str().unwrap().contains("stripe"), "{new}");
        assert_eq!(new["mkfs"], old["mkfs"]);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "not in effect: the disk's optimal_io_size is 0, and the guest's driver has 131072 (kernel 6.12.";
    assert!(text.contains(line), "{text}");
}
