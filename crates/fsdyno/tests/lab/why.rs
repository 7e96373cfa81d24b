//! `fsdyno why` in the lab: the profiled run repeats the first one, its counts sum up to the log, and nearly all
//! requests are attributed.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::path::Path;

use crate::common::lab::{fsdyno, lab, main_program, run, trials};
use crate::common::{full, stderr};
use serde_json::Value;

/// Runs `fsdyno why` with `--format json` and returns its objects, one for each row of the result.
fn why(folder: &Path, args: &str) -> Vec<Value> {
    let output =
        fsdyno(main_program(), folder, &format!("why {args} --format json")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    rows.collect::<Result<_, _>>().unwrap()
}

fn sum(it: &Value, name: &str) -> u64 {
    it["requests"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
}

/// Asserts what holds for any row.
fn check_row(it: &Value, trial: &Value) {
    let total = |name: &str| it["log"][name].as_u64().unwrap();
    let context = format!("{} on {}: {}", it["workload"], it["label"], it["notes"]);
    assert_eq!(sum(it, "requests"), total("requests"), "{context}");
    assert_eq!(sum(it, "bytes"), total("bytes"), "{context}");
    assert_eq!(sum(it, "time_ns"), total("busy_ns"), "{context}");
    let part = |name: &str| it["attributed"][name].as_f64().unwrap();
    assert!(part("requests") >= 0.99, "{context}: {} of the requests", part("requests"));
    assert!(part("time") >= 0.95, "{context}: {} of the time", part("time"));
    // In a phase that is followed by a gap, the timed requests of the log are those that the device counted.
    for phase in trial["measured"]["phases"].as_array().unwrap() {
        let rows = it["requests"].as_array().unwrap().iter();
        let of_phase =
            rows.filter(|row| row["place"] == phase["name"] && row["cause"] != "untimed");
        let seen: u64 = of_phase.map(|row| row["requests"].as_u64().unwrap()).sum();
        let device = &phase["device"];
        let counted: u64 = ["reads", "writes", "flushes", "discards"]
            .iter()
            .map(|name| device[name].as_u64().unwrap())
            .sum();
        assert_eq!(seen, counted, "{context}: phase {}", phase["name"]);
        // One instruction takes one nanosecond, or the time of the processor profile. The kernel's CPU time covers the
        // agent's threads from the first op to the durable stamp; the counted instructions cover the whole stage, with
        // the agent's bookkeeping at both ends.
        let time = |row: &Value| -> f64 {
            let instructions = row["instructions"].as_f64().unwrap();
            let of_op = row["ns_per_op"].as_f64().zip(row["per_op"].as_f64());
            of_op.map_or(instructions, |(ns, count)| instructions * ns / count)
        };
        let executed = |tasks: &[&str]| -> u64 {
            let functions = it["functions"].as_array().unwrap().iter();
            functions
                .filter(|row| row["phase"] == phase["name"])
                .filter(|row| tasks.contains(&row["task"].as_str().unwrap()))
                .filter(|row| row["instructions"].as_u64().unwrap() > 0)
                .map(time)
                .sum::<f64>() as u64
        };
        let cpu = phase["cpu_ns"].as_u64().unwrap();
        let (ops, most) = (executed(&["ops"]), executed(&["ops", "agent", "interrupts"]));
        assert!(
            ops > cpu / 2 && cpu <= most && most < cpu + cpu / 10 + 20_000_000,
            "{context}: phase {}: {cpu} ns of CPU time, {ops} to {most} instructions",
            phase["name"]
        );
    }
}

/// Runs trials, explains each and returns them; none if the lab cannot run.
fn explain_all(args: &str) -> Vec<Value> {
    let Some(folder) = lab() else { return Vec::new() };
    let output = run(folder.path(), &format!("{args} --out first"));
    assert!(output.status.success(), "{}", stderr(&output));
    let first = trials(&folder.path().join("first"));
    let rows = why(folder.path(), "first --out pictures");
    assert_eq!(rows.len(), first.len());
    for row in &rows {
        let trial = first.iter().find(|trial| trial["trial_id"] == row["trial_id"]).unwrap();
        check_row(row, trial);
    }
    let pictures = std::fs::read_dir(folder.path().join("pictures")).unwrap().count();
    assert!(pictures >= 2 * rows.len(), "{pictures} pictures");
    // The explanation is stored, and is part of the page that was written and of any later one.
    let stored = std::fs::read_to_string(folder.path().join("first/why.ndjson")).unwrap();
    assert_eq!(stored.lines().count(), rows.len());
    let again = common::run(folder.path(), "report first --html again.html");
    assert!(again.status.success(), "{}", stderr(&again));
    for page in ["first/report.html", "again.html"] {
        let page = std::fs::read_to_string(folder.path().join(page)).unwrap();
        for row in &rows {
            let title = format!(
                "Why: {} on {}",
                row["workload"].as_str().unwrap(),
                row["label"].as_str().unwrap()
            );
            assert!(page.contains(&title), "{title}");
        }
        assert!(page.contains("Requests between the phases") && page.contains(": functions</h3>"));
    }
    first
}

#[test]
fn with_a_processor_profile_the_estimated_times_of_functions_are_the_phase_s_cpu_time() {
    // The boot is cold, so that the profiled run repeats it, too. That run is refused unless its measurements are
    // bit-identical to those of the first, so this also tests that a trial with a processor profile is bit-identical.
    let trials = explain_all("dirops --set files=500 --fs ext4 --cpu epyc-2024 --boot cold");
    trials.iter().for_each(|trial| crate::processor::assert_profiled(trial, 1000));
}

/// Asserts what holds for any file system, except that nearly all requests are attributed.
#[test]
fn a_trial_on_a_file_system_without_a_map_is_unattributed_and_its_sums_hold() {
    if !full() {
        return println!("skipped: FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    let output = run(folder.path(), "dirops --set files=200 --fs jfs --out first");
    assert!(output.status.success(), "{}", stderr(&output));
    let row = why(folder.path(), "first").remove(0);
    for (name, of) in [("requests", "requests"), ("bytes", "bytes"), ("time_ns", "busy_ns")] {
        assert_eq!(sum(&row, name), row["log"][of].as_u64().unwrap(), "{name}");
    }
    let rows = row["requests"].as_array().unwrap();
    let known = rows.iter().filter(|row| !row["structure"].is_null());
    // A flush has no address.
    assert!(known.into_iter().all(|row| row["structure"] == "flush"), "{row}");
    assert!(row["notes"].to_string().contains("cannot map jfs"), "{}", row["notes"]);
}

#[test]
fn a_small_trial_is_explained() {
    // The blocks of ext3 are mapped in crates/why/tests, too.
    let kinds = if full() { "--fs ext3 --fs xfs" } else { "--fs xfs" };
    explain_all(&format!("dirops --set files=200 {kinds}"));
}

#[test]
fn dirops_and_tarball_are_explained() {
    if !full() {
        return println!("skipped: FSDYNO_TEST=full runs it");
    }
    let four = "--fs ext2 --fs ext3 --fs ext4 --fs xfs";
    explain_all(&format!("dirops --set files=5000 {four}"));
    explain_all(&format!("tarball --set files=5000 {four}"));
}

#[test]
fn a_filled_reiserfs_is_explained() {
    if !full() {
        return println!("skipped: FSDYNO_TEST=full runs it");
    }
    explain_all("tarball --set files=3000 --fs reiserfs");
}

#[test]
fn the_profiled_run_has_the_deadline_of_the_first_run() {
    if !full() {
        return println!("skipped: FSDYNO_TEST=full runs it");
    }
    explain_all("dirops --set files=100 --fs ext2 --deadline 5000");
}

/// Returns the positions of a text.
fn find_all(bytes: &[u8], text: &str) -> Vec<usize> {
    let position = |(at, window): (usize, &[u8])| (window == text.as_bytes()).then_some(at);
    bytes.windows(text.len()).enumerate().filter_map(position).collect()
}

/// Makes a kernel that is not found by its release: a copy of the cached one with another release of the same length.
/// Returns it with the folder of its modules, which fit it (the checksums of their symbols are the same).
fn own_kernel(folder: &Path, suffix: &str) -> String {
    let cache = fsdyno_lab::Cache::of_user().unwrap().path().to_path_buf();
    let release = std::fs::read_to_string(cache.join("kernels/default")).unwrap();
    let release = release.trim();
    let renamed = format!("{}{suffix}", &release[..release.len() - suffix.len()]);
    let banner = format!("Linux version {release} ");
    let images = std::fs::read_dir(cache.join("vmlinux")).unwrap();
    let images = images.map(|entry| entry.unwrap().path());
    let mut image = images
        .map(|path| std::fs::read(path).unwrap())
        .find(|bytes| !find_all(bytes, &banner).is_empty())
        .unwrap();
    for at in find_all(&image, release) {
        image[at..at + renamed.len()].copy_from_slice(renamed.as_bytes());
    }
    let path = folder.join(format!("vmlinux-{suffix}"));
    std::fs::write(&path, image).unwrap();
    let modules = ["usr/lib/modules", "lib/modules"]
        .map(|below| cache.join("kernels").join(release).join(below).join(release));
    let modules = modules.iter().find(|path| path.join("kernel").is_dir()).unwrap();
    format!("{}:{}", path.display(), modules.display())
}

#[test]
fn a_trial_on_a_users_own_kernel_is_explained_with_that_kernel() {
    if !full() {
        return println!("skipped: FSDYNO_TEST=full runs it");
    }
    let Some(folder) = lab() else { return };
    let kernels = ["mine", "ours"].map(|suffix| own_kernel(folder.path(), suffix));
    let args = format!("dirops --set files=100 --fs ext2 --kernel '{}' --out first", kernels[0]);
    let output = run(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = trials(&folder.path().join("first"));
    assert!(
        first[0]["plan"]["venue"]["kernel"]["request"].as_str().unwrap().ends_with("mine"),
        "{first:?}"
    );
    // Another kernel is refused before any is searched for.
    let args = format!("why first --kernel '{}'", kernels[1]);
    let output = fsdyno(main_program(), folder.path(), &args).output().unwrap();
    let message = stderr(&output);
    assert!(
        common::code(&output) == 2 && message.contains("none of the trials ran on it"),
        "{message}"
    );
    let rows = why(folder.path(), &format!("first --kernel '{}'", kernels[0]));
    check_row(&rows[0], &first[0]);
    let functions = rows[0]["functions"].as_array().unwrap();
    assert!(functions.iter().any(|row| row["function"] == "vfs_unlink"), "its symbols are read");
}

#[test]
fn results_that_cannot_be_explained_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let output = common::run(folder.path(), "run dirops --set files=10 --on data --out r");
    assert!(output.status.success(), "{}", stderr(&output));
    for (args, expected) in [
        ("why r", "did not run in the lab"),
        ("why r --fs exta", "has no configuration 'exta'"),
        ("why nowhere", "failed to find the result"),
        ("why r --against-fs ext4", "--against"),
    ] {
        let output = common::run(folder.path(), args);
        assert_eq!(common::code(&output), 2, "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
}
