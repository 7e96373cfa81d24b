//! The folder of a study: it is resumed, archived, reported and checked, and other folders are refused.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use super::study::{STUDY, study};
use crate::common::{
    PROGRAM, can_run_the_lab, code, fsdyno, full, lines, run, stderr, stdout, wait_until,
};

/// Returns the records without their host part, as a set.
fn trials(results: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(results.join("trials.ndjson")).unwrap();
    text.lines().map(|line| line.split_once(",\"host\":").unwrap().0.to_string()).collect()
}

#[test]
fn a_study_run_in_parts_equals_one_run_at_once_and_finished_parts_are_only_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let whole = study(path, STUDY, "--out whole --format json");
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
    for (words, study_runs) in [
        ("--only once --fs indexed", [0, 0, 1]),
        ("--fs classic --as today", [0, 3, 2]),
        ("", [6, 6, 2]),
    ] {
        let part = study(path, STUDY, &format!("--out parts --format json {words}"));
        assert_eq!(code(&part), 0, "{}", stderr(&part));
        let stored = ["then/curve", "today/curve", "as-it-stands/once"].map(|study_run| {
            std::fs::read_to_string(path.join("parts").join(study_run).join("trials.ndjson"))
        });
        let count = |text: &String| text.lines().filter(|line| line.contains("\"plan\"")).count();
        assert_eq!(stored.map(|text| text.as_ref().map_or(0, count)), study_runs, "{words}");
        assert!(!stderr(&part).contains("other questions"), "{}", stderr(&part));
        if words.is_empty() {
            assert_eq!(stdout(&part), stdout(&whole));
        }
    }
    for study_run in ["then/curve", "today/curve", "as-it-stands/once"] {
        let (whole, parts) =
            (path.join("whole").join(study_run), path.join("parts").join(study_run));
        assert_eq!(trials(&whole), trials(&parts), "{study_run}");
    }
    let again = study(path, STUDY, "--out whole --format json");
    assert!(stderr(&again).contains("6 of 6 trials already stored"), "{}", stderr(&again));
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
    let together = run(path, "report whole parts");
    assert!(stderr(&together).contains("report it alone"), "{}", stderr(&together));
}

/// Writes the files of `fsdyno why` and `fsdyno crash` to a study's folder, without the lab.
fn put_sidecars(out: &Path) {
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
    let explanation = fsdyno_why::StoredExplanation {
        schema: fsdyno_record::SCHEMA,
        explained: it,
        baseline: None,
    };
    let line = serde_json::to_string(&explanation).unwrap() + "\n";
    std::fs::write(out.join("then/curve/why.ndjson"), line).unwrap();
    let (disk, reason) = (fsdyno_crash::DiskFault::Honest, "a model has no power".to_string());
    let row = fsdyno_crash::Row::skipped(&trial.plan, 1, disk, reason);
    std::fs::create_dir_all(out.join("crash/dirops")).unwrap();
    let rows = serde_json::to_string(&[row]).unwrap();
    std::fs::write(out.join("crash/dirops/crash.json"), rows).unwrap();
    std::fs::create_dir(out.join("crash/dirops/findings")).unwrap();
    std::fs::write(out.join("crash/dirops/findings/classic-0001.json"), "{}").unwrap();
    // A failed trial that a later one supersedes does not count.
    let stored = out.join("as-it-stands/once/trials.ndjson");
    let text = std::fs::read_to_string(&stored).unwrap();
    let first =
        text.lines().next().unwrap().replacen("\"outcome\":\"ok\"", "\"outcome\":\"failed\"", 1);
    std::fs::write(&stored, format!("{first}\n{text}")).unwrap();
}

/// Returns the paths of all files below a folder, relative to it.
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
    let run_ok = |words: &str| {
        let output = run(path, words);
        assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
        output
    };
    let whole = study(path, STUDY, "--out out --repeat 2");
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
    put_sidecars(&path.join("out"));
    let printed = stderr(&run_ok("report out --archive kept"));
    assert!(printed.contains("archive: kept (") && printed.contains(" in 9 files)"), "{printed}");
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
        let report_of = |folder: &str| stdout(&run_ok(&format!("report {folder} {words}")));
        assert_eq!(report_of("kept"), report_of("out"), "{words}");
        let report_of =
            |folder: &str| stdout(&run_ok(&format!("report {folder}/then/curve {words}")));
        assert_eq!(report_of("kept"), report_of("out"), "{words}");
    }
    let text = stdout(&run_ok("report kept"));
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
    // An archive is only read; no command resumes or overwrites it.
    for (words, expected) in [
        ("study ./my.toml --out kept", "is an archive (report --archive), which is read-only"),
        ("report out --archive kept", "'kept' is not empty; give a new folder with --archive"),
        ("report out --archive out/x/y", "'out/x/y' is in the study's own folder 'out'"),
        ("report out/then/curve --archive other", "--archive is for the folder of a study"),
    ] {
        let output = run(path, words);
        assert_eq!(code(&output), 2, "{words}");
        assert!(stderr(&output).contains(expected), "{words}: {}", stderr(&output));
    }
    let hidden = run(path, "run dirops --on model --fs classic-ext2 --out kept/then/curve");
    assert!(stderr(&hidden).contains("which is read-only"), "{}", stderr(&hidden));
    // The verdicts do not depend on sidecar files.
    for sidecar in ["then/curve/why.ndjson", "crash/dirops/crash.json"] {
        std::fs::write(path.join("out").join(sidecar), "broken\n{}\n").unwrap();
        let printed = stderr(&run_ok("report out --html page.html"));
        assert!(printed.contains("omitted: ") && printed.contains(sidecar), "{printed}");
    }
    let cut = path.join("kept/then/curve/trials.ndjson.zst");
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let output = run(path, "report kept");
    assert_eq!(code(&output), 2);
    let message = "kept/then/curve/trials.ndjson.zst: it is damaged or truncated";
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}

#[test]
fn numbers_of_study_runs_are_separate_and_missing_files_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let dry = study(path, STUDY, "--out out --dry-run --only once");
    assert!(stdout(&dry).contains(" in 1 run\n"), "{}", stdout(&dry));
    assert_eq!(code(&study(path, STUDY, "--out out")), 0);
    put_sidecars(&path.join("out"));
    let shown = |words: &str| stdout(&run(path, &format!("report out {words}")));
    let text = shown("");
    assert!(text.contains("Why (curve as then): dirops on classic, seed 1"), "{text}");
    let study_runs = [("curve", "then"), ("curve", "today"), ("once", "as-it-stands")];
    let printed: serde_json::Value = serde_json::from_str(&shown("--format statistics")).unwrap();
    let runs_in = |what: &str| -> Vec<(String, String)> {
        let word = |it: &serde_json::Value| it.as_str().unwrap().to_string();
        let all = printed[what].as_array().unwrap().iter();
        let mut all: Vec<_> = all.map(|row| (word(&row["run"]), word(&row["as"]))).collect();
        all.dedup();
        all
    };
    let study_runs = study_runs.map(|(run, variant)| (run.to_string(), variant.to_string()));
    assert_eq!(
        (runs_in("rows"), runs_in("exponents")),
        (study_runs.to_vec(), study_runs[..2].to_vec())
    );
    let table = shown("--format csv");
    assert!(table.contains(",run,as,period,cacheable,unsafe,"), "{table}");
    for (run, variant) in &study_runs {
        assert!(table.contains(&format!(",{run},{variant},,,,")), "{table}");
    }
    std::fs::remove_dir_all(path.join("out/today")).unwrap();
    let text = shown("");
    assert!(text.contains("\nas today: not run. No trials are stored: "), "{text}");
    let printed: serde_json::Value = serde_json::from_str(&shown("--format json")).unwrap();
    assert_eq!(printed["not_run"][0]["conditions"], "as today");
    // Records in the folder of another run would be judged as records of that run.
    let records_path = path.join("out/then/curve/trials.ndjson");
    let records = std::fs::read_to_string(&records_path).unwrap();
    for (was, is) in [("\"dirops\"", "\"maildir\""), ("\"classic\"", "\"other\"")] {
        std::fs::write(&records_path, records.replace(was, is)).unwrap();
        let refused = run(path, "report out");
        assert_eq!(code(&refused), 2);
        let expected =
            "and run curve as then is of dirops on classic, indexed; move the records to";
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
        let before_work = study(path, STUDY, "--out out --as today --repeat 2");
        assert!(stderr(&before_work).contains(expected), "{}", stderr(&before_work));
        assert!(!stderr(&before_work).contains("run 1 of"), "{}", stderr(&before_work));
    }
    std::fs::write(&records_path, records).unwrap();
    std::fs::remove_file(path.join("out/study.toml")).unwrap();
    let incomplete = run(path, "report out");
    assert_eq!(code(&incomplete), 2);
    for part in ["its study.toml is missing; restore it", "fsdyno report out/then/curve"] {
        assert!(stderr(&incomplete).contains(part), "{}", stderr(&incomplete));
    }
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
    let users_study = STUDY.replace("It is fun", "It is mine");
    std::fs::write(path.join("mine/study.toml"), &users_study).unwrap();
    let refused = study(path, STUDY, "--out mine --only once");
    assert_eq!(code(&refused), 2);
    assert!(
        stderr(&refused).contains("a different study.toml and no results"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(std::fs::read_to_string(path.join("mine/study.toml")).unwrap(), users_study);
    let same = study(path, &users_study, "--out mine --only once");
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
    let printed = stderr(&output);
    assert!(printed.contains("resume with:\n  fsdyno study ./my.toml"), "{printed}");
    assert!(
        stdout(&output).contains("as then: "),
        "stored results are printed: {}",
        stdout(&output)
    );
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
    for study_run in ["then/curve", "today/curve"] {
        let all = |results: &str| trials(&folder.path().join(results).join(study_run));
        assert_eq!(all("whole"), all("parts"), "{study_run}");
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
    let (exit, text, message) = check("kept --check 5");
    assert!(message.contains("repeating the shortest 2 trials of 2, which took "), "{message}");
    let each: BTreeSet<&str> = text.lines().collect();
    let line_of = |row: &str| format!("once as it stands, {row}, seed 1: bit-identical");
    assert_eq!(
        (exit, each),
        (0, BTreeSet::from([&*line_of("classic"), &*line_of("indexed")])),
        "{message}"
    );
    assert_eq!(check("kept --check 1 --fs indexed").1, format!("{}\n", line_of("indexed")));

    let stored = path.join("out/as-it-stands/once/trials.ndjson");
    let original = std::fs::read_to_string(&stored).unwrap();
    let changed = original.replace("\"count\":300,", "\"count\":301,");
    assert_ne!(original, changed);
    std::fs::write(&stored, &changed).unwrap();
    let (exit, text, message) = check("out --check 1");
    let how = "DIFFERENT under one lab identity: phase create: 300 calls of create, and 301 in the stored trial\n";
    assert!(exit == 4 && text.ends_with(how), "{text}{message}");
    // A record as another program would have stored it.
    let trial: serde_json::Value = serde_json::from_str(original.lines().next().unwrap()).unwrap();
    let program = trial["lab"]["program"].as_str().unwrap();
    let lab = trial["lab_id"].as_str().unwrap();
    let other = |text: &str| text.replace(program, &"0".repeat(64)).replace(lab, &"1".repeat(64));
    std::fs::write(&stored, other(&original)).unwrap();
    let (exit, text, message) = check("out --check 1");
    assert!(
        text.contains("bit-identical; lab identity differs in program (stored by fsdyno "),
        "{text}"
    );
    assert_eq!(exit, 0, "{message}");
    std::fs::write(&stored, other(&changed)).unwrap();
    let (exit, text, message) = check("out --check 1");
    let how = ": DIFFERENT: phase create: 300 calls of create, and 301 in the stored trial; lab identity differs in program";
    assert!(exit == 1 && text.contains(how), "{text}{message}");

    for (words, expected) in [
        ("kept", "'kept' is the folder of a study; to report it: fsdyno report kept"),
        (
            "./my.toml --check 1",
            "'./my.toml' has no study.toml; --check needs the folder of a study",
        ),
        ("kept --check 1 --only twice", "--only twice: the study has no such run"),
        ("kept --check 1 --repeat 2", "cannot be used with"),
        ("kept --check 1 --fs other", "'kept' has no selected trial"),
    ] {
        let (exit, _, message) = check(words);
        assert!(exit == 2 && message.contains(expected), "{words}: {message}");
    }
}
