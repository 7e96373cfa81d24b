//! Studies from end to end: errors in a file or in arguments are reported before any work, and the study of the docs
//! runs.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::Output;

use crate::common::{code, link_kernels, run, stderr, stdout, write_speeds};

/// A study that needs neither kernel nor QEMU.
pub(crate) const STUDY: &str = r#"
title = "Does an index pay?"
question = "From how many files on is an indexed directory faster?"
source = "A test"

[[run]]
name = "curve"
workload = "dirops"
on = "model"
set = { curve = "200,400,800" }
scales = ["curve"]
fs = { classic = "classic-ext2", indexed = "indexed-ext2" }
[run.then]
disk = "ide-2001"
[run.today]
disk = "hdd-7200"

[[run]]
name = "once"
workload = "dirops"
on = "model"
set = { files = 300 }
scales = ["files"]
fs = { classic = "classic-ext2", indexed = "indexed-ext2" }

[[published]]
name = "times"
caption = "Create"
unit = "s"
run = "curve"
phase = "create"
figure = "returned"
columns = [{ name = "200", at = { files = 200 } }, { name = "800", at = { files = 800 } }]
rows = { classic = [0.01, 0.1], indexed = [0.01, "-"] }

[[claim]]
id = "C1"
text = "At 800 files it is faster"
[claim.check]
ratio = { of = "classic", over = "indexed", run = "curve", phase = "create", figure = "returned", at = { files = 800 } }
more_than = 1.0

[[claim]]
id = "C2"
text = "Without an index a directory is quadratic"
[claim.check]
exponent = { row = "classic", run = "curve", phase = "create", figure = "returned" }
between = [1.0, 3.0]

[[claim]]
id = "C3"
text = "It is fun"
untestable = "fun is no figure"
"#;

pub(crate) fn study(folder: &Path, text: &str, words: &str) -> Output {
    std::fs::write(folder.join("my.toml"), text).unwrap();
    run(folder, &format!("study ./my.toml {words}"))
}

/// A study of two rows whose ratio is near the bound of a claim for one seed.
const NEAR: &str = r#"
title = "Are they alike?"
question = "Is one of two equal ones faster?"
source = "A test"
[[run]]
name = "once"
workload = "dirops"
on = "model"
set = { files = 20 }
fs = { one = "indexed-ext2", other = "indexed-ext2", far = "classic-ext2" }
[[claim]]
id = "C1"
text = "One is faster than the other"
[claim.check]
ratio = { of = "one", over = "other", phase = "create", figure = "returned" }
more_than = 1.0
"#;

#[test]
fn a_verdict_of_one_seed_near_its_bound_gets_two_more_seeds_for_its_rows() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let seeds_in = |out: &str| -> Vec<String> {
        let text =
            std::fs::read_to_string(folder.join(out).join("as-it-stands/once/trials.ndjson"));
        let records = text.unwrap();
        let seed = |line: &str| {
            let trial: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", trial["plan"]["label"].as_str().unwrap(), trial["seed"])
        };
        let mut seeds: Vec<String> = records.lines().map(seed).collect();
        seeds.sort();
        seeds
    };
    let dry = study(folder, NEAR, "--dry-run");
    let message = "If the value of a claim for one seed lies within 20 % of its bound, its configurations get 2 more seeds: at most 6 \
                more trials (--no-more-seeds disables this)\n";
    assert!(stdout(&dry).ends_with(message), "{}", stdout(&dry));
    for (words, out) in [("--no-more-seeds", "off"), ("--repeat 1", "one")] {
        let done = study(folder, NEAR, &format!("{words} --out {out}"));
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        assert_eq!(seeds_in(out), ["far 1", "one 1", "other 1"], "{words}");
        assert!(
            !stdout(&study(folder, NEAR, &format!("{words} --dry-run"))).contains("more seeds")
        );
        assert!(stdout(&done).contains("C1 undecided, one seed"), "{}", stdout(&done));
    }
    let done = study(folder, NEAR, "--out more");
    let message = "with one seed, C1 within 20 % of the bound; running 4 more trials of one, other in once as it stands";
    assert!(stderr(&done).contains(message), "{}", stderr(&done));
    let all = ["far 1", "one 1", "one 2", "one 3", "other 1", "other 2", "other 3"];
    assert_eq!(seeds_in("more"), all);
    assert!(!stdout(&done).contains("one seed"), "{}", stdout(&done));
    // The same command resumes the study; here nothing remains.
    let again = study(folder, NEAR, "--out more");
    assert!(!stderr(&again).contains("with one seed"), "{}", stderr(&again));
    assert_eq!(seeds_in("more"), all);
}

#[test]
fn errors_in_a_file_are_reported_with_their_position_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, place, expected) in [
        (
            "workload = \"dirops\"",
            "workload = \"dirop\"",
            "8:1",
            "no workload 'dirop'; did you mean 'dirops'?",
        ),
        ("curve = \"200", "curv = \"200", "10:9", "has a parameter 'curv'; did you mean 'curve'?"),
        (
            "\"200,400,800\"",
            "\"2,1\"",
            "10:9",
            "curve=2,1 is invalid: curve takes 'none' or points",
        ),
        ("disk = \"hdd-7200\"", "disk = \"hdd-720\"", "16:1", "did you mean 'hdd-7200'?"),
        (
            "disk = \"hdd-7200\"",
            "repeat = \"many\"",
            "16:10",
            "'repeat' is \"many\"; it must be a whole number, 1 or more",
        ),
        ("disk = \"hdd-7200\"", "ram = \"1G\"", "16:1", "--ram works only in the lab"),
        (
            "classic = \"classic-ext2\", indexed = \"indexed-ext2\" }\n[run",
            "classic = \"clasic-ext2\", indexed = \"indexed-ext2\" }\n[run",
            "12:8",
            "there is no model 'clasic-ext2'",
        ),
        (
            "scales = [\"curve\"]",
            "scales = [\"curv\"]",
            "11:1",
            "has no parameter 'curv'; did you mean 'curve'?",
        ),
        (
            "phase = \"create\", figure = \"returned\", at",
            "phase = \"creat\", figure = \"returned\", at",
            "40:68",
            "no phase 'creat' (workload dirops); did you mean 'create'?",
        ),
        (
            "at = { files = 800 } }\nmore",
            "at = { files = 900 } }\nmore",
            "40:9",
            "no point with files=900; valid values: 200, 400, 800",
        ),
        (
            ", at = { files = 800 } }\nmore",
            " }\nmore",
            "40:9",
            "is a curve of 3 points, and this cell does not select one of them",
        ),
        (
            "exponent = { row = \"classic\", run = \"curve\"",
            "exponent = { row = \"classic\", run = \"once\"",
            "47:12",
            "has 1 point, but an exponent requires 3",
        ),
        (
            "figure = \"returned\" }\nbetween",
            "figure = \"rate\", op = \"rename\" }\nbetween",
            "47:12",
            "phase 'create' of run 'curve' has no rename",
        ),
        (
            "more_than = 1.0",
            "more_than = \"1.0\"",
            "41:13",
            "'more_than' is a string; it must be a number",
        ),
    ] {
        assert_eq!(STUDY.matches(from).count().min(1), 1, "{from}");
        let text = STUDY.replacen(from, to, 1);
        for words in ["--out results", "--dry-run"] {
            let output = study(folder.path(), &text, words);
            assert_eq!(code(&output), 2, "{to}: {}", stderr(&output));
            let printed = stderr(&output);
            let line = place.split(':').next().unwrap();
            let has_line = printed.contains(&format!("./my.toml:{line}:"));
            assert!(has_line && printed.contains(expected), "{place}: {printed}");
        }
        assert!(!folder.path().join("results").exists(), "{to}");
    }
}

#[test]
fn invalid_arguments_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (words, expected) in [
        ("--only curv", "--only curv: the study has no such run; did you mean 'curve'?"),
        ("--only once --only once", "--only once is given twice"),
        (
            "--fs clasic",
            "--fs clasic: no selected run has this configuration; did you mean 'classic'?",
        ),
        ("--fs classic --fs classic", "--fs classic is given twice"),
        ("--scale 2", "a scale is 1 or 1 over a whole number, such as 1/10"),
        ("--scale 1/1000", "the smallest scale that works is 1/"),
        ("--as yesterday", "possible values: then, today"),
        ("--dry-run --format csv", "--dry-run supports only --format text or json"),
    ] {
        let output = study(folder.path(), STUDY, words);
        assert_eq!(code(&output), 2, "{words}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{words}: {}", stderr(&output));
    }
    let nowhere = run(folder.path(), "study guenter-2080");
    assert!(stderr(&nowhere).contains("did you mean 'guenter-2008'?"), "{}", stderr(&nowhere));
    let no_file = run(folder.path(), "study ./nowhere.toml");
    assert!(stderr(&no_file).contains("failed to read the study './nowhere.toml'"));
}

#[test]
fn a_dry_run_prints_each_run_at_its_scale_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = study(folder.path(), STUDY, "--dry-run --repeat 2");
    assert!(stdout(&output).contains("\ntime: not known before the first such trial"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "curve as then:",
        "curve as today:",
        "once as it stands:",
        "800 create",
        "28 trials in 3 runs",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = study(folder.path(), STUDY, "--dry-run --scale 1/2 --as then --format json");
    let study_runs: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let files = |study_run: usize, cell: usize| {
        study_runs[study_run]["cells"][cell]["plan"]["workload"]["params"]["files"]
            .as_str()
            .unwrap()
            .to_string()
    };
    assert_eq!(
        (study_runs[0]["run"].as_str(), study_runs[0]["as"].as_str()),
        (Some("curve"), Some("then"))
    );
    assert_eq!([files(0, 0), files(0, 4), files(1, 0)], ["100", "400", "150"]);
    let row = study(folder.path(), STUDY, "--dry-run --fs indexed --as today");
    assert!(stdout(&row).contains("\n4 trials in 2 runs\n"), "{}", stdout(&row));
    assert!(!stdout(&row).contains("on classic"), "{}", stdout(&row));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "more than my.toml");
}

#[test]
fn a_kernel_or_a_cpu_is_refused_without_a_run_in_the_lab_and_else_noted() {
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    for (option, rest) in [
        ("--kernel 6.1", "--out results"),
        ("--kernel 6.1", "--dry-run"),
        ("--cpu epyc-2024", "--dry-run"),
    ] {
        let output = study(folder.path(), STUDY, &format!("{option} {rest}"));
        assert_eq!(code(&output), 2);
        let expected = format!(
            "{option} applies only to the lab, and no selected run is in the lab (curve as then on model, \
             curve as today on model, once as it stands on model); remove {}",
            option.split(' ').next().unwrap()
        );
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
    let invalid = study(folder.path(), STUDY, "--cpu epyc-2042 --dry-run");
    assert_eq!(code(&invalid), 2);
    let expected = "--cpu: 'epyc-2042' is not a valid speed for the lab's CPU";
    assert!(stderr(&invalid).contains(expected), "{}", stderr(&invalid));
    assert!(!folder.path().join("results").exists());
    let (head, tail) = STUDY.split_once("name = \"once\"").unwrap();
    let tail = tail.replacen("on = \"model\"\n", "", 1).replacen("classic-ext2", "ext2", 1);
    let mixed = format!("{head}name = \"once\"{}", tail.replacen("indexed-ext2", "ext4", 1));
    let output = study(folder.path(), &mixed, "--kernel 6.1 --dry-run");
    // If this host lacks the lab's kernel, that is reported in addition to the plan.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    let expected = "--kernel does not apply to curve as then on model, curve as today on model\n";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    let output = study(folder.path(), &mixed, "--cpu pi-2024 --dry-run");
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    let expected = "--cpu does not apply to curve as then on model, curve as today on model\n";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    let shown = stdout(&output);
    assert_eq!(shown.matches("CPU pi-2024").count(), 2, "{shown}");
    let on_host = run(folder.path(), "run dirops --on . --kernel 6.1");
    assert_eq!(code(&on_host), 2);
    assert!(stderr(&on_host).contains("--kernel works only in the lab"), "{}", stderr(&on_host));
}

#[test]
fn the_study_of_the_docs_is_read_and_dry_run() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/studies.md");
    let page = std::fs::read_to_string(page).unwrap();
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let lines = text.lines().filter(|line| !line.is_empty()).count();
    assert!(lines <= 20, "the docs promise 20 lines, and there are {lines}");
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    let output = study(folder.path(), text, "--dry-run");
    // If this host lacks the lab's kernel or tools, that is reported in addition to the plan.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    assert!(stdout(&output).contains("2000 unlink"), "{}", stdout(&output));
    // Two kernels are two plans of a row, and no curve.
    let kernels = study(folder.path(), text, "--kernel 6.1 --kernel 6.12 --dry-run");
    assert!([0, 3].contains(&code(&kernels)), "{}", stderr(&kernels));
    let with_kernel = text.replace("cacheable = \"256M\"", "kernel = \"6.1\"");
    assert_eq!(code(&study(folder.path(), &with_kernel, "--kernel 6.12 --dry-run")), 2);
    let misspelt = text.replace("phase = \"delete\"", "phase = \"delet\"");
    let output = study(folder.path(), &misspelt, "--dry-run");
    let promised = page.split("fsdyno: ./journal.toml:").nth(1).unwrap().lines().next().unwrap();
    assert!(stderr(&output).contains(&format!("./my.toml:{promised}")), "{}", stderr(&output));
}

#[test]
fn the_times_of_studies_include_one_boot_of_each_guest() {
    let folder = tempfile::tempdir().unwrap();
    let time = |boot: f64| {
        let trials = ["lab epyc-2024 Snapshot", "lab 8 Snapshot"].map(|kind| (kind, 1.0));
        write_speeds(folder.path(), &[&trials[..], &[("snapshot", boot)]].concat());
        let listed = run(folder.path(), "list studies --format json");
        let listed: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
        let study = listed.as_array().unwrap().iter().find(|study| study["name"] == "kernels");
        study.unwrap()["time"].as_str().unwrap().to_string()
    };
    // Six file systems with two processors, five workloads, three seeds.
    assert_eq!(time(0.0), "~90 s");
    assert_eq!(time(600.0), "~2 h 2 min");
}

#[test]
fn the_built_in_studies_are_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    let smaller = run(folder.path(), "study guenter-2008 --scale 1/10 --dry-run");
    assert!([0, 3].contains(&code(&smaller)), "{}", stderr(&smaller));
    let listed = run(folder.path(), "list studies --format json");
    let listed: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert!(listed.as_array().unwrap().len() >= 5);
    for study in listed.as_array().unwrap() {
        let name = study["name"].as_str().unwrap();
        let shown = run(folder.path(), &format!("show study {name}"));
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        let expected = ["claims:", "factors to the best:"];
        let found = expected.iter().any(|word| stdout(&shown).contains(word));
        assert!(found, "{}", stdout(&shown));
        let json = run(folder.path(), &format!("show study {name} --format json"));
        let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
        let expected = ["claims", "factors"];
        let found = expected.iter().any(|key| !json[key].as_array().unwrap().is_empty());
        assert!(found, "{name}");
    }
    let shown = stdout(&run(folder.path(), "show study guenter-2008"));
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("stored: as then reversed (results/2026-11-22-guenter-2008)"),
        "{shown}"
    );
    let no_result = run(folder.path(), "report guenter-2008");
    assert_eq!(code(&no_result), 2);
    assert!(stderr(&no_result).contains("is a study, not a result"), "{}", stderr(&no_result));
}
