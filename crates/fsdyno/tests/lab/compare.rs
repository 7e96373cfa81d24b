//! `fsdyno compare` on stored results: its exit codes, its errors, and in the lab the verdicts
//! same and slower.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::path::Path;
use std::process::Output;

use crate::common::lab::{lab, main_program, run as run_in_lab, skipped};
use crate::common::{code, full, run, stderr, stdout};
use serde_json::Value;

/// A result of a small run on a directory of this host.
fn measure() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("scratch")).unwrap();
    let done = run(folder.path(), "run dirops --on scratch --set files=50 --repeat 3 --out base");
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    folder
}

/// Writes a copy of the result with every record changed; it consists of `trials.ndjson` alone.
fn write_changed_copy(folder: &Path, name: &str, change: impl Fn(&mut Value)) {
    let trials = common::records(&folder.join("base")).into_iter().map(|mut trial| {
        change(&mut trial);
        trial.to_string() + "\n"
    });
    // The version of the schema comes first in a line.
    let line = |line: String| {
        let rest = line.replacen("\"schema\":2,", "", 1).replacen(",\"schema\":2", "", 1);
        rest.replacen('{', "{\"schema\":2,", 1)
    };
    std::fs::create_dir(folder.join(name)).unwrap();
    let text: String = trials.map(line).collect();
    std::fs::write(folder.join(name).join("trials.ndjson"), text).unwrap();
}

/// Sets the time of every phase to a number of nanoseconds that varies slightly with the seed.
fn set_times(ns: u64) -> impl Fn(&mut Value) {
    move |trial| {
        let ns = ns + trial["seed"].as_u64().unwrap() * (ns / 10_000);
        for phase in trial["measured"]["phases"].as_array_mut().unwrap() {
            phase["returned_ns"] = ns.into();
            phase["durable_ns"] = (ns + 1000).into();
        }
    }
}

fn compare(folder: &Path, args: &str) -> Output {
    run(folder, &format!("compare {args}"))
}

#[test]
fn slower_gives_code_1_same_and_faster_0_and_a_bisection_has_its_own_codes() {
    let place = measure();
    let folder = place.path();
    write_changed_copy(folder, "old", set_times(1_000_000_000));
    write_changed_copy(folder, "slow", set_times(1_100_000_000));
    for (args, expected, part) in [
        ("old old", 0, "same"),
        ("old old --fail-on undecided", 0, "same"),
        ("old slow", 1, "slower"),
        ("slow old", 0, "faster"),
        ("old slow --threshold 20%", 0, "same"),
        ("old slow --bisect", 1, "slower"),
        ("slow old --bisect", 0, "faster"),
        ("old/trials.ndjson slow/trials.ndjson", 1, "slower"),
    ] {
        let output = compare(folder, args);
        assert_eq!(code(&output), expected, "{args}: {}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains(part), "{args}: {}", stdout(&output));
    }
    let junit = stdout(&compare(folder, "old slow --format junit"));
    assert!(junit.starts_with("<?xml") && junit.contains("<failure "), "{junit}");
    let json = compare(folder, "old slow --format json");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["rows"].as_array().unwrap().iter().all(|row| row["verdict"] == "slower"));
}

/// Writes the result as if from three kernels, of which the two newer ones take a tenth longer.
fn write_three_kernels(folder: &Path) {
    let mut text = String::new();
    for (kernel, ns) in
        [("7.3.0 #1", 1_100_000_000), ("6.9.1 #1", 1_000_000_000), ("6.12.1 #1", 1_100_000_000)]
    {
        write_changed_copy(folder, "one", |trial| {
            set_times(ns)(trial);
            trial["conditions"]["kernel"] = kernel.into();
        });
        text += &std::fs::read_to_string(folder.join("one/trials.ndjson")).unwrap();
        std::fs::remove_dir_all(folder.join("one")).unwrap();
    }
    std::fs::create_dir(folder.join("steps")).unwrap();
    std::fs::write(folder.join("steps/trials.ndjson"), text).unwrap();
}

#[test]
fn each_step_along_an_axis_of_one_result_has_a_verdict() {
    let place = measure();
    let folder = place.path();
    write_three_kernels(folder);
    let output = compare(folder, "steps --by kernel");
    let text = stdout(&output);
    assert_eq!(code(&output), 1, "{text}{}", stderr(&output));
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(at("6.9.1 -> 6.12.1") < at("6.12.1 -> 7.3.0"), "{text}");
    assert!(text.contains("slower") && text.contains("same"), "{text}");
    assert_eq!(code(&compare(folder, "steps --by kernel --threshold 20%")), 0);
    let json = compare(folder, "steps --by kernel --format json");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (json["by"].as_str(), json["rows"].as_array().map(Vec::len)),
        (Some("kernel"), Some(4))
    );
    assert_eq!(json["rows"][0]["step"]["to"], "6.12.1");
    let csv = stdout(&compare(folder, "steps --by kernel --format csv"));
    assert!(csv.lines().nth(1).unwrap().contains(",6.9.1,6.12.1,"), "{csv}");
    let junit = stdout(&compare(folder, "steps --by kernel --format junit"));
    assert!(junit.contains("6.9.1 -&gt; 6.12.1"), "{junit}");
    assert_eq!(code(&run(folder, "report steps --html page.html")), 0);
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("From kernel to kernel"), "no timeline");
    for (args, part) in [
        ("steps --by disk", "no trial has a disk; they differ in kernel"),
        ("steps --by threads", "all trials have the same threads, 1 thread; they differ in kernel"),
        ("steps --by colour", "invalid value 'colour'"),
        ("steps", "fsdyno compare steps --by kernel"),
        ("steps steps --explain", "--by"),
        ("steps --by kernel --explain", "steps cannot be explained: it did not run in the lab"),
    ] {
        let output = compare(folder, args);
        assert_eq!(code(&output), 2, "{args}: {}", stdout(&output));
        assert!(stderr(&output).contains(part), "{args}: {}", stderr(&output));
    }
    // `git bisect run` must not treat this as a bad commit.
    assert_eq!(code(&compare(folder, "steps --by kernel --bisect")), 125);
}

#[test]
fn results_that_cannot_be_compared_give_code_2_and_a_bisection_skips_them() {
    let place = measure();
    let folder = place.path();
    write_changed_copy(folder, "other", |trial| {
        trial["plan"]["workload"]["params"]["files"] = "60".into();
        trial["plan"]["hash"] = "of others".into();
        trial["plan"]["label"] = "other".into();
    });
    write_changed_copy(folder, "newer", |_| ());
    let newer = std::fs::read_to_string(folder.join("newer/trials.ndjson")).unwrap();
    let newer = newer.replacen("\"schema\":2", "\"schema\":3", 1);
    std::fs::write(folder.join("newer/trials.ndjson"), newer).unwrap();
    write_changed_copy(folder, "broken", |_| ());
    let broken = std::fs::read_to_string(folder.join("broken/trials.ndjson")).unwrap();
    std::fs::write(folder.join("broken/trials.ndjson"), &broken[40..]).unwrap();
    for (args, part) in [
        ("base other", "files=60"),
        ("base nowhere", "nowhere"),
        ("base newer", "schema is 3"),
        ("base broken", "trials.ndjson:1"),
    ] {
        let output = compare(folder, args);
        assert_eq!(code(&output), 2, "{args}: {}", stdout(&output));
        assert!(stderr(&output).contains(part), "{args}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{args}");
        assert_eq!(code(&compare(folder, &format!("{args} --bisect"))), 125, "{args}");
    }
    assert_eq!(code(&compare(folder, "base base --threshold 0.03")), 2);
    assert_eq!(code(&compare(folder, "base base --threshold 0.03 --bisect")), 125);
}

#[test]
fn one_trial_and_a_torn_line_claim_nothing_and_a_failed_trial_is_4() {
    let place = measure();
    let folder = place.path();
    write_changed_copy(folder, "torn", set_times(9_000_000_000));
    let text = std::fs::read_to_string(folder.join("torn/trials.ndjson")).unwrap();
    let end = text.find('\n').unwrap() + 50;
    std::fs::write(folder.join("torn/trials.ndjson"), &text[..end]).unwrap();
    let output = compare(folder, "base torn");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("truncated"), "{}", stderr(&output));
    assert!(stdout(&output).contains("n = 1"), "{}", stdout(&output));
    assert_eq!(code(&compare(folder, "base torn --bisect")), 125);
    let strict = compare(folder, "base torn --fail-on undecided --format markdown");
    assert_eq!(code(&strict), 1, "{}", stderr(&strict));
    assert!(
        stdout(&strict).contains("Failure because of --fail-on undecided: "),
        "{}",
        stdout(&strict)
    );
    assert_eq!(code(&compare(folder, "base torn --fail-on slower")), 0);
    write_changed_copy(folder, "failed", |trial| {
        if trial["seed"] == 2 {
            trial["outcome"] = "failed".into();
            trial["reason"] = "the kernel \u{1b}[2J oopsed".into();
        }
    });
    let output = compare(folder, "base failed");
    assert_eq!(code(&output), 4, "{}", stdout(&output));
    assert!(stdout(&output).contains("oopsed") && !stdout(&output).contains('\u{1b}'));
    assert_eq!(code(&compare(folder, "failed base")) & !1, 0, "a base that failed is only listed");
}

#[test]
fn in_the_lab_the_same_is_the_same_and_a_directory_without_its_index_is_slower() {
    if !full() {
        skipped("it takes some minutes (make test-full)");
        return;
    }
    let Some(folder) = lab() else { return };
    let results = [("one", "x=ext4"), ("two", "x=ext4"), ("linear", "x=ext4 -O ^dir_index")];
    for (out, spec) in results {
        let args = format!(
            "dirops --disk instant --fs '{spec}' --set files=4000 --repeat 3 --jobs 2 --out {out}"
        );
        let output = run_in_lab(folder.path(), &args);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let compare = |args: &str| {
        let args = format!("compare {args} --format json");
        let output = common::lab::fsdyno(main_program(), folder.path(), &args).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        (code(&output), json)
    };
    let (exit, same) = compare("one two");
    assert_eq!(exit, 0);
    let rows = same["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!((&row["verdict"], &row["ratio"]), (&"same".into(), &1.0.into()), "{row}");
    }
    assert_eq!(same["differences"].as_array().unwrap().len(), 0, "{same}");
    let (exit, linear) = compare("one linear");
    assert_eq!(exit, 1, "{linear}");
    let create = linear["rows"].as_array().unwrap().iter().find(|row| row["phase"] == "create");
    let create = create.unwrap();
    assert!(create["ratio"].as_f64().unwrap() > 2.0, "{create}");
    let named = |d: &Value| d["what"] == "file system" && d["new"] == "ext4 -O ^dir_index";
    assert!(linear["differences"].as_array().unwrap().iter().any(named), "{linear}");
}
