//! Studies from end to end: errors in a file are reported before any work, stopped studies resume, and the
//! study of the docs runs.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::{
    PROGRAM, can_run_the_lab, code, fsdyno, full, lines, link_kernels, run, stderr, stdout,
    wait_until,
};

/// A study that needs neither kernel nor QEMU.
const STUDY: &str = r#"
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

fn study(folder: &Path, text: &str, words: &str) -> Output {
    std::fs::write(folder.join("my.toml"), text).unwrap();
    run(folder, &format!("study ./my.toml {words}"))
}

/// Each line of the trials up to what is the host's, in whatever order they ran.
fn trials(results: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap();
    text.lines().map(|line| line.split_once(",\"host\":").unwrap().0.to_string()).collect()
}

/// Two rows with a ratio near the bound of a claim for one seed.
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
    let of = |out: &str| -> Vec<String> {
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
    let said = "If the value of a claim for one seed lies within 20 % of its bound, its configurations get 2 more seeds: at most 6 \
                more trials (--no-more-seeds disables this)\n";
    assert!(stdout(&dry).ends_with(said), "{}", stdout(&dry));
    for (words, out) in [("--no-more-seeds", "off"), ("--repeat 1", "one")] {
        let done = study(folder, NEAR, &format!("{words} --out {out}"));
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        assert_eq!(of(out), ["far 1", "one 1", "other 1"], "{words}");
        assert!(
            !stdout(&study(folder, NEAR, &format!("{words} --dry-run"))).contains("more seeds")
        );
        assert!(stdout(&done).contains("C1 undecided, one seed"), "{}", stdout(&done));
    }
    let done = study(folder, NEAR, "--out more");
    let said = "with one seed, C1 within 20 % of the bound; running 4 more trials of one, other in once as it stands";
    assert!(stderr(&done).contains(said), "{}", stderr(&done));
    let all = ["far 1", "one 1", "one 2", "one 3", "other 1", "other 2", "other 3"];
    assert_eq!(of("more"), all);
    assert!(!stdout(&done).contains("one seed"), "{}", stdout(&done));
    // The same command goes on where it was: here there is nothing left.
    let again = study(folder, NEAR, "--out more");
    assert!(!stderr(&again).contains("with one seed"), "{}", stderr(&again));
    assert_eq!(of("more"), all);
}

#[test]
fn errors_in_a_file_are_reported_with_their_position_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, place, says) in [
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
            let told = stderr(&output);
            let line = place.split(':').next().unwrap();
            let there = told.contains(&format!("./my.toml:{line}:"));
            assert!(there && told.contains(says), "{place}: {told}");
        }
        assert!(!folder.path().join("results").exists(), "{to}");
    }
}

#[test]
fn invalid_arguments_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (words, says) in [
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
        assert!(stderr(&output).contains(says), "{words}: {}", stderr(&output));
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
    let legs: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let files = |leg: usize, cell: usize| {
        legs[leg]["cells"][cell]["plan"]["workload"]["params"]["files"]
            .as_str()
            .unwrap()
            .to_string()
    };
    assert_eq!((legs[0]["run"].as_str(), legs[0]["as"].as_str()), (Some("curve"), Some("then")));
    assert_eq!([files(0, 0), files(0, 4), files(1, 0)], ["100", "400", "150"]);
    let row = study(folder.path(), STUDY, "--dry-run --fs indexed --as today");
    assert!(stdout(&row).contains("\n4 trials in 2 runs\n"), "{}", stdout(&row));
    assert!(!stdout(&row).contains("on classic"), "{}", stdout(&row));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "more than my.toml");
}

#[test]
fn a_study_run_in_parts_equals_one_run_at_once_and_finished_parts_are_only_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let whole = study(path, STUDY, "--out whole --format json");
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
    for (words, legs) in [
        ("--only once --fs indexed", [0, 0, 1]),
        ("--fs classic --as today", [0, 3, 2]),
        ("", [6, 6, 2]),
    ] {
        let part = study(path, STUDY, &format!("--out parts --format json {words}"));
        assert_eq!(code(&part), 0, "{}", stderr(&part));
        let there = ["then/curve", "today/curve", "as-it-stands/once"]
            .map(|leg| std::fs::read_to_string(path.join("parts").join(leg).join("trials.ndjson")));
        let count = |text: &String| text.lines().filter(|line| line.contains("\"plan\"")).count();
        assert_eq!(there.map(|text| text.as_ref().map_or(0, count)), legs, "{words}");
        assert!(!stderr(&part).contains("other questions"), "{}", stderr(&part));
        if words.is_empty() {
            assert_eq!(stdout(&part), stdout(&whole));
        }
    }
    for leg in ["then/curve", "today/curve", "as-it-stands/once"] {
        let (whole, parts) = (path.join("whole").join(leg), path.join("parts").join(leg));
        assert_eq!(trials(&whole), trials(&parts), "{leg}");
    }
    let again = study(path, STUDY, "--out whole --format json");
    assert!(stderr(&again).contains("6 of 6 trials are stored already"), "{}", stderr(&again));
    assert_eq!(stdout(&again), stdout(&whole));
    let shown = run(path, "report whole --format json");
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    assert_eq!(stdout(&shown), stdout(&whole));
    for format in ["text", "mail", "markdown", "csv"] {
        let shown = run(path, &format!("report whole --format {format}"));
        assert_eq!(code(&shown), 0, "{format}: {}", stderr(&shown));
        let wanted = if format == "csv" { "classic" } else { "At 800 files it is faster" };
        assert!(stdout(&shown).contains(wanted), "{format}: {}", stdout(&shown));
    }
    let page = std::fs::read_to_string(path.join("whole/report.html")).unwrap();
    assert!(page.contains("At 800 files it is faster") && page.contains("fun is no figure"));
    let beside = run(path, "report whole parts");
    assert!(stderr(&beside).contains("report it alone"), "{}", stderr(&beside));
}

/// Writes the files of `fsdyno why` and `fsdyno crash` to a study's folder, without the lab.
fn put_beside(out: &Path) {
    let text = std::fs::read_to_string(out.join("then/curve/trials.ndjson")).unwrap();
    let trial: fsdyno_record::Trial = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let it = fsdyno_why::Explained {
        label: trial.plan.label.clone(),
        plan_label: trial.plan.label.clone(),
        workload: "dirops".into(),
        trial_id: trial.trial_id.clone(),
        lab_id: trial.lab_id.clone(),
        seed: trial.seed,
        notes: vec!["the directory is read from its first block".into()],
        ..Default::default()
    };
    let told = fsdyno_why::StoredExplanation {
        schema: fsdyno_record::SCHEMA,
        explained: it,
        baseline: None,
    };
    let told = serde_json::to_string(&told).unwrap() + "\n";
    std::fs::write(out.join("then/curve/why.ndjson"), told).unwrap();
    let (disk, reason) = (fsdyno_crash::DiskFault::Honest, "a model has no power".to_string());
    let row = fsdyno_crash::Row::skipped(&trial.plan, 1, disk, reason);
    std::fs::create_dir_all(out.join("crash/dirops")).unwrap();
    let rows = serde_json::to_string(&[row]).unwrap();
    std::fs::write(out.join("crash/dirops/crash.json"), rows).unwrap();
    std::fs::create_dir(out.join("crash/dirops/findings")).unwrap();
    std::fs::write(out.join("crash/dirops/findings/classic-0001.json"), "{}").unwrap();
    // A trial that failed before it was made good is none of those that count.
    let stored = out.join("as-it-stands/once/trials.ndjson");
    let text = std::fs::read_to_string(&stored).unwrap();
    let first =
        text.lines().next().unwrap().replacen("\"outcome\":\"ok\"", "\"outcome\":\"failed\"", 1);
    std::fs::write(&stored, format!("{first}\n{text}")).unwrap();
}

/// All files below a folder, by their names in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        match entry.path().is_dir() {
            true => {
                found.extend(files(&entry.path()).iter().map(|below| format!("{name}/{below}")))
            }
            false => found.push(name),
        }
    }
    found.sort();
    found
}

#[test]
fn an_archive_is_judged_like_the_folder_and_includes_its_sidecars() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let good = |words: &str| {
        let output = run(path, words);
        assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
        output
    };
    let whole = study(path, STUDY, "--out out --repeat 2");
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
    put_beside(&path.join("out"));
    let told = stderr(&good("report out --archive kept"));
    assert!(told.contains("archive: kept (") && told.contains(" in 9 files)"), "{told}");
    assert_eq!(
        files(&path.join("kept")),
        [
            "README.md",
            "as-it-stands/once/trials.ndjson.zst",
            "crash/dirops/crash.json.zst",
            "crash/dirops/findings/classic-0001.json",
            "report.html",
            "study.toml",
            "then/curve/trials.ndjson.zst",
            "then/curve/why.ndjson.zst",
            "today/curve/trials.ndjson.zst",
        ]
    );
    for words in ["--format json", "--format text", "--format csv"] {
        let of = |folder: &str| stdout(&good(&format!("report {folder} {words}")));
        assert_eq!(of("kept"), of("out"), "{words}");
        let of = |folder: &str| stdout(&good(&format!("report {folder}/then/curve {words}")));
        assert_eq!(of("kept"), of("out"), "{words}");
    }
    let text = stdout(&good("report kept"));
    assert!(text.contains("dirops on classic, seed 1"), "{text}");
    assert!(text.contains("classic is skipped: a model has no power"), "{text}");
    let page = std::fs::read_to_string(path.join("kept/report.html")).unwrap();
    for part in ["href=\"#w0\"", "read from its first block", "href=\"#crash\"", "id=\"crash\""] {
        assert!(page.contains(part), "{part}");
    }
    let readme = std::fs::read_to_string(path.join("kept/README.md")).unwrap();
    let again = "fsdyno study ./study.toml --seed 1 --repeat 2 --out again\n";
    assert!(readme.contains(again) && readme.contains("At 800 files it is faster"), "{readme}");
    assert!(readme.contains("a model has no power") && !readme.contains("NaN"), "{readme}");
    assert!(readme.contains("| once | as it stands | 1 to 2 | 4 |"), "{readme}");
    // What is kept is read, and never gone on with or written over.
    for (words, says) in [
        ("study ./my.toml --out kept", "is an archive (report --archive), which is read-only"),
        ("report out --archive kept", "'kept' is not empty; give a new folder with --archive"),
        ("report out --archive out/x/y", "'out/x/y' is in the study's own folder 'out'"),
        ("report out/then/curve --archive other", "--archive is for the folder of a study"),
    ] {
        let output = run(path, words);
        assert_eq!(code(&output), 2, "{words}");
        assert!(stderr(&output).contains(says), "{words}: {}", stderr(&output));
    }
    let hidden = run(path, "run dirops --on model --fs classic-ext2 --out kept/then/curve");
    assert!(stderr(&hidden).contains("which is read-only"), "{}", stderr(&hidden));
    // What stands beside the trials is no part of what is judged.
    for beside in ["then/curve/why.ndjson", "crash/dirops/crash.json"] {
        std::fs::write(path.join("out").join(beside), "broken\n{}\n").unwrap();
        let told = stderr(&good("report out --html page.html"));
        assert!(told.contains("omitted: ") && told.contains(beside), "{told}");
    }
    let cut = path.join("kept/then/curve/trials.ndjson.zst");
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let output = run(path, "report kept");
    assert_eq!(code(&output), 2);
    let said = "kept/then/curve/trials.ndjson.zst: it is damaged or truncated";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

#[test]
fn numbers_of_study_runs_are_separate_and_missing_files_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let dry = study(path, STUDY, "--out out --dry-run --only once");
    assert!(stdout(&dry).contains(" in 1 run\n"), "{}", stdout(&dry));
    assert_eq!(code(&study(path, STUDY, "--out out")), 0);
    put_beside(&path.join("out"));
    let shown = |words: &str| stdout(&run(path, &format!("report out {words}")));
    let text = shown("");
    assert!(text.contains("Why (curve as then): dirops on classic, seed 1"), "{text}");
    let legs = [("curve", "then"), ("curve", "today"), ("once", "as-it-stands")];
    let told: serde_json::Value = serde_json::from_str(&shown("--format statistics")).unwrap();
    let of = |what: &str| -> Vec<(String, String)> {
        let word = |it: &serde_json::Value| it.as_str().unwrap().to_string();
        let all = told[what].as_array().unwrap().iter();
        let mut all: Vec<_> = all.map(|row| (word(&row["run"]), word(&row["as"]))).collect();
        all.dedup();
        all
    };
    let legs = legs.map(|(run, variant)| (run.to_string(), variant.to_string()));
    assert_eq!((of("rows"), of("exponents")), (legs.to_vec(), legs[..2].to_vec()));
    let table = shown("--format csv");
    assert!(table.contains(",run,as,period,cacheable,unsafe,"), "{table}");
    for (run, variant) in &legs {
        assert!(table.contains(&format!(",{run},{variant},,,,")), "{table}");
    }
    std::fs::remove_dir_all(path.join("out/today")).unwrap();
    let text = shown("");
    assert!(text.contains("\nas today: not run. No trials are stored: "), "{text}");
    let told: serde_json::Value = serde_json::from_str(&shown("--format json")).unwrap();
    assert_eq!(told["not_run"][0]["conditions"], "as today");
    // Records in the folder of another run would be judged as if they were that one's.
    let own = path.join("out/then/curve/trials.ndjson");
    let records = std::fs::read_to_string(&own).unwrap();
    for (was, is) in [("\"dirops\"", "\"maildir\""), ("\"classic\"", "\"other\"")] {
        std::fs::write(&own, records.replace(was, is)).unwrap();
        let strange = run(path, "report out");
        assert_eq!(code(&strange), 2);
        let told = "and run curve as then is of dirops on classic, indexed; move the records to";
        assert!(stderr(&strange).contains(told), "{}", stderr(&strange));
        let before_work = study(path, STUDY, "--out out --as today --repeat 2");
        assert!(stderr(&before_work).contains(told), "{}", stderr(&before_work));
        assert!(!stderr(&before_work).contains("run 1 of"), "{}", stderr(&before_work));
    }
    std::fs::write(&own, records).unwrap();
    std::fs::remove_file(path.join("out/study.toml")).unwrap();
    let lost = run(path, "report out");
    assert_eq!(code(&lost), 2);
    for part in ["its study.toml is missing; restore it", "fsdyno report 'out/then/curve'"] {
        assert!(stderr(&lost).contains(part), "{}", stderr(&lost));
    }
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
        let says = format!(
            "{option} applies only to the lab, and no selected run is in the lab (curve as then on model, \
             curve as today on model, once as it stands on model); remove {}",
            option.split(' ').next().unwrap()
        );
        assert!(stderr(&output).contains(&says), "{}", stderr(&output));
    }
    let wrong = study(folder.path(), STUDY, "--cpu epyc-2042 --dry-run");
    assert_eq!(code(&wrong), 2);
    let says = "--cpu: 'epyc-2042' is not a valid speed for the lab's CPU";
    assert!(stderr(&wrong).contains(says), "{}", stderr(&wrong));
    assert!(!folder.path().join("results").exists());
    let (head, tail) = STUDY.split_once("name = \"once\"").unwrap();
    let tail = tail.replacen("on = \"model\"\n", "", 1).replacen("classic-ext2", "ext2", 1);
    let mixed = format!("{head}name = \"once\"{}", tail.replacen("indexed-ext2", "ext4", 1));
    let output = study(folder.path(), &mixed, "--kernel 6.1 --dry-run");
    // Where the lab's kernel is not here yet, that is said behind what would be run.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    let says = "--kernel does not apply to curve as then on model, curve as today on model\n";
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
    let output = study(folder.path(), &mixed, "--cpu pi-2024 --dry-run");
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    let says = "--cpu does not apply to curve as then on model, curve as today on model\n";
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
    let shown = stdout(&output);
    assert_eq!(shown.matches("CPU pi-2024").count(), 2, "{shown}");
    let here = run(folder.path(), "run dirops --on . --kernel 6.1");
    assert_eq!(code(&here), 2);
    assert!(stderr(&here).contains("--kernel works only in the lab"), "{}", stderr(&here));
}

#[test]
fn a_folder_of_another_scale_or_of_changed_runs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let first = study(path, STUDY, "--out out --only once --scale 1/2");
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    assert!(stdout(&first).contains("1/2"), "{}", stdout(&first));
    let stored = std::fs::read_to_string(path.join("out/study.toml")).unwrap();
    assert!(stored.contains("scale = \"1/2\"\n"), "{stored}");
    let full = study(path, STUDY, "--out out --only once");
    assert!(
        stderr(&full).contains("has scale 1/2, and this command has scale 1"),
        "{}",
        stderr(&full)
    );
    let other = STUDY.replace("files = 300", "files = 600");
    let other = study(path, &other, "--out out --only once --scale 1/2");
    assert_eq!(code(&other), 2);
    assert!(stderr(&other).contains("has results of run 'once'"), "{}", stderr(&other));
    // A claim may be added, and a run that has no results yet changed.
    let claim = STUDY.replace("It is fun", "It is great fun").replace("200,400", "100,400");
    let claim = claim.replace("files = 200", "files = 100");
    let claim = study(path, &claim, "--out out --only once --scale 1/2");
    assert_eq!(code(&claim), 0, "{}", stderr(&claim));
    // The stored file is a study too, at its scale.
    let again = run(path, "study out/study.toml --dry-run --only once");
    assert!(stdout(&again).contains("150 create"), "{}", stdout(&again));
    std::fs::create_dir(path.join("mine")).unwrap();
    std::fs::write(path.join("mine/thesis"), "mine").unwrap();
    let mine = study(path, STUDY, "--out mine");
    assert!(stderr(&mine).contains("not the folder of a study"), "{}", stderr(&mine));
}

#[test]
fn a_users_own_study_toml_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::create_dir(path.join("mine")).unwrap();
    let own = STUDY.replace("It is fun", "It is mine");
    std::fs::write(path.join("mine/study.toml"), &own).unwrap();
    let refused = study(path, STUDY, "--out mine --only once");
    assert_eq!(code(&refused), 2);
    assert!(
        stderr(&refused).contains("a different study.toml and no results"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(std::fs::read_to_string(path.join("mine/study.toml")).unwrap(), own);
    let same = study(path, &own, "--out mine --only once");
    assert_eq!(code(&same), 0, "{}", stderr(&same));
}

#[test]
fn a_stopped_study_prints_how_to_resume() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), STUDY).unwrap();
    let mut child = fsdyno(folder.path())
        .args(["study", "./my.toml", "--only", "curve", "--repeat", "2000", "--out", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let results = folder.path().join("out/then/curve");
    wait_until("a trial", || lines(&results) > 0);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("resume with:\n  fsdyno study ./my.toml"), "{told}");
    assert!(stdout(&output).contains("as then: "), "what is there is shown: {}", stdout(&output));
}

#[test]
fn the_study_of_the_docs_is_read_and_dry_run() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/studies.md");
    let page = std::fs::read_to_string(page).unwrap();
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let own = text.lines().filter(|line| !line.is_empty()).count();
    assert!(own <= 20, "the docs promise 20 lines, and there are {own}");
    let folder = tempfile::tempdir().unwrap();
    link_kernels(folder.path());
    let output = study(folder.path(), text, "--dry-run");
    // Where the lab's kernel or tools are not here yet, that is said behind what would be run.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    assert!(stdout(&output).contains("2000 unlink"), "{}", stdout(&output));
    // Two kernels are two plans of a row, and no curve.
    let kernels = study(folder.path(), text, "--kernel 6.1 --kernel 5.10 --dry-run");
    assert!([0, 3].contains(&code(&kernels)), "{}", stderr(&kernels));
    let own = text.replace("cacheable = \"256M\"", "kernel = \"6.1\"");
    assert_eq!(code(&study(folder.path(), &own, "--kernel 5.10 --dry-run")), 2);
    let wrong = text.replace("phase = \"delete\"", "phase = \"delet\"");
    let output = study(folder.path(), &wrong, "--dry-run");
    let promised = page.split("fsdyno: ./journal.toml:").nth(1).unwrap().lines().next().unwrap();
    assert!(stderr(&output).contains(&format!("./my.toml:{promised}")), "{}", stderr(&output));
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
        let says = ["claims:", "factors to the best:"];
        let found = says.iter().any(|word| stdout(&shown).contains(word));
        assert!(found, "{}", stdout(&shown));
        let json = run(folder.path(), &format!("show study {name} --format json"));
        let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
        let says = ["claims", "factors"];
        let found = says.iter().any(|key| !json[key].as_array().unwrap().is_empty());
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

#[test]
fn in_the_lab_a_study_in_two_parts_stores_the_same_as_at_once() {
    if !full() || !can_run_the_lab() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = STUDY
        .replace("on = \"model\"\n", "ram = \"256M\"\n")
        .replace("\"200,400,800\"", "\"200,400\"")
        .replace("files = 800", "files = 400")
        .replace("classic-ext2", "ext2 -O ^dir_index")
        .replace("indexed-ext2", "ext2")
        .replace("exponent =", "value =")
        .replace("between = [1.0, 3.0]", "less_than = 100");
    let text = text.replacen(
        "value = { row = \"classic\"",
        "value = { at = { files = 200 }, row = \"classic\"",
        1,
    );
    std::fs::write(folder.path().join("my.toml"), text).unwrap();
    let study = |words: &str| {
        let output = std::process::Command::new(PROGRAM)
            .current_dir(folder.path())
            .args(["study", "./my.toml", "--only", "curve", "--jobs", "2"])
            .args(words.split_whitespace())
            .env("XDG_CACHE_HOME", fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap())
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    };
    study("--out whole");
    study("--out parts --as today");
    study("--out parts");
    for leg in ["then/curve", "today/curve"] {
        let all = |results: &str| trials(&folder.path().join(results).join(leg));
        assert_eq!(all("whole"), all("parts"), "{leg}");
    }
}

#[test]
fn trials_of_an_archived_study_are_repeated_with_a_verdict_on_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let made = study(path, STUDY, "--only once --out out");
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert_eq!(code(&run(path, "report out --archive kept")), 0);
    let check = |words: &str| {
        let output = run(path, &format!("study {words}"));
        (code(&output), stdout(&output), stderr(&output))
    };
    let (exit, text, said) = check("kept --check 5");
    assert!(said.contains("repeating the shortest 2 trials of 2, which took "), "{said}");
    let each: BTreeSet<&str> = text.lines().collect();
    let of = |row: &str| format!("once as it stands, {row}, seed 1: bit-identical");
    assert_eq!((exit, each), (0, BTreeSet::from([&*of("classic"), &*of("indexed")])), "{said}");
    assert_eq!(check("kept --check 1 --fs indexed").1, format!("{}\n", of("indexed")));

    let stored = path.join("out/as-it-stands/once/trials.ndjson");
    let own = std::fs::read_to_string(&stored).unwrap();
    let more = own.replace("\"count\":300,", "\"count\":301,");
    assert_ne!(own, more);
    std::fs::write(&stored, &more).unwrap();
    let (exit, text, said) = check("out --check 1");
    let how = "DIFFERENT under one lab identity: phase create: 300 calls of create, and 301 in the stored trial\n";
    assert!(exit == 4 && text.ends_with(how), "{text}{said}");
    // As another program would have stored it.
    let trial: serde_json::Value = serde_json::from_str(own.lines().next().unwrap()).unwrap();
    let program = trial["lab"]["program"].as_str().unwrap();
    let lab = trial["lab_id"].as_str().unwrap();
    let other = |text: &str| text.replace(program, &"0".repeat(64)).replace(lab, &"1".repeat(64));
    std::fs::write(&stored, other(&own)).unwrap();
    let (exit, text, said) = check("out --check 1");
    assert!(
        text.contains("bit-identical; lab identity differs in program (stored by fsdyno "),
        "{text}"
    );
    assert_eq!(exit, 0, "{said}");
    std::fs::write(&stored, other(&more)).unwrap();
    let (exit, text, said) = check("out --check 1");
    let how = ": DIFFERENT: phase create: 300 calls of create, and 301 in the stored trial; lab identity differs in program";
    assert!(exit == 1 && text.contains(how), "{text}{said}");

    for (words, says) in [
        ("kept", "'kept' is the folder of a study; to report it: fsdyno report kept"),
        (
            "./my.toml --check 1",
            "'./my.toml' has no study.toml; --check needs the folder of a study",
        ),
        ("kept --check 1 --only twice", "--only twice: the study has no such run"),
        ("kept --check 1 --repeat 2", "cannot be used with"),
        ("kept --check 1 --fs other", "'kept' has no selected trial"),
    ] {
        let (exit, _, said) = check(words);
        assert!(exit == 2 && said.contains(says), "{words}: {said}");
    }
}
