//! Compares the generated parts of docs/ with the program: its help, and the verdicts of the studies in results/.
//! `make docs` writes both.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::{Path, PathBuf};

use crate::common::{code, fsdyno, run, stderr, stdout};
use serde_json::{Value, json};

const COMMANDS: &[&str] = &[
    "",
    "demo",
    "advise",
    "run",
    "merge",
    "report",
    "compare",
    "crash",
    "study",
    "tune",
    "why",
    "record",
    "import",
    "mark",
    "list",
    "show",
    "fit",
    "kernel",
    "kernel build reiser4",
    "kernel build zfs",
    "doctor",
    "completions",
    "man",
];

#[test]
fn the_reference_is_the_programs_own_help() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from(
        "# The command line\n\nThe output of `--help`, written by `make docs`; a test compares the two.\n",
    );
    for command in COMMANDS {
        let output = run(folder.path(), &format!("{command} --help"));
        assert_eq!(code(&output), 0);
        let help = stdout(&output);
        assert!(command.is_empty() || help.contains("Examples:"), "{command} has no example");
        let title = format!("fsdyno {command}");
        text.push_str(&format!("\n## {}\n\n```text\n{}\n```\n", title.trim(), help.trim_end()));
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("FSDYNO_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "docs/cli.md is not what --help prints; run: make docs");
}

#[test]
fn the_example_for_ci_measures_three_operations_with_five_seeds() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workflow = std::fs::read_to_string(root.join("examples/ci/fsdyno.yml")).unwrap();
    let words = workflow.lines().find_map(|line| line.trim().strip_prefix("RUN: ")).unwrap();
    let readme = std::fs::read_to_string(root.join("examples/ci/README.md")).unwrap();
    assert!(readme.contains(&format!("fsdyno run {words} --kernel BASE --out base\n")), "{words}");
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &format!("run {words} --dry-run --format json"));
    // A host without the lab prints the plan, too.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    let plan: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<&str> = plan["cells"][0]["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["create", "stat", "delete"]);
    assert_eq!(plan["trials"].as_array().unwrap().len(), 5);
}

#[test]
fn the_published_schemas_are_those_of_the_program() {
    let nowhere = tempfile::tempdir().unwrap();
    let list = stdout(&run(nowhere.path(), "list schemas --format json"));
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let names: Vec<&str> = list.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let path = |name: &str| folder.join(format!("{name}.schema.json"));
    for name in &names {
        let output = run(nowhere.path(), &format!("show schema {name}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        if std::env::var_os("FSDYNO_WRITE_DOCS").is_some() {
            std::fs::write(path(name), stdout(&output)).unwrap();
        }
        let stored = std::fs::read_to_string(path(name)).unwrap_or_default();
        assert!(
            stored == stdout(&output),
            "{} is not current; run: make docs",
            path(name).display()
        );
    }
    for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        // The schema of study files is written by hand; the tests of their reader check it.
        let by_hand = entry == path("study");
        let known = by_hand || names.iter().any(|name| path(name) == entry);
        assert!(known, "{} has no type", entry.display());
    }
}

#[test]
fn the_limits_of_files_are_stated() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/safety.md");
    let text = std::fs::read_to_string(path).unwrap();
    for limit in fsdyno_record::bounded::ALL {
        let line = limit.max_line.map_or(String::new(), |line| format!("{line} "));
        let end = format!("| {} | {line}|", limit.max_size);
        let row =
            |row: &&str| row.starts_with(&format!("| {}", limit.content)) && row.ends_with(&end);
        assert!(text.lines().any(|line| row(&line)), "docs/safety.md: {} {end}", limit.content);
    }
}

/// Returns the study that a result folder archives: phillips-2001 for `2026-11-22-phillips-2001`.
fn study_of(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    folder.join("study.toml").exists().then(|| name.splitn(4, '-').last().map(str::to_string))?
}

/// Returns the counts, the claims with verdicts, and the explanations of a study's output, without the published
/// tables.
fn verdicts(end: &str) -> String {
    let mut kept = String::new();
    let mut claims = true;
    for line in end.lines() {
        claims = match line {
            heading if heading.starts_with('#') => true,
            table if table.starts_with("**") => false,
            _ => claims,
        };
        if claims && !(line.is_empty() && (kept.is_empty() || kept.ends_with("\n\n"))) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.trim_end().to_string()
}

/// Compares the built-in full-scale verdicts with the archives.
#[test]
fn the_table_of_full_scale_verdicts_is_that_of_the_records() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root.join("results"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    let mut lines = Vec::new();
    for folder in folders.iter().filter(|folder| study_of(folder).is_some()) {
        let nowhere = tempfile::tempdir().unwrap();
        let mut report = fsdyno(nowhere.path());
        let end = report.arg("report").arg(folder).args(["--format", "json"]).output().unwrap();
        assert_eq!(code(&end), 0, "{}: {}", folder.display(), stderr(&end));
        let end: Value = serde_json::from_str(&stdout(&end)).unwrap();
        for variant in end["variants"].as_array().unwrap().iter().filter(|it| it["scale"] == 1) {
            let judged = |claim: &&Value| {
                !["not testable here", "not run yet"].contains(&claim["verdict"].as_str().unwrap())
            };
            for claim in variant["claims"].as_array().unwrap().iter().filter(judged) {
                let line = json!({
                    "study": end["title"], "conditions": variant["conditions"], "id": claim["id"],
                    "text": claim["text"],
                    "full_scale": {
                        "result": folder.file_name().unwrap().to_str().unwrap(),
                        "kernels": variant["kernels"], "verdict": claim["verdict"],
                        "one_seed": claim["one_seed"], "measured": claim["measured"],
                    },
                });
                lines.push(line.to_string());
            }
        }
    }
    let table = format!("[\n{}\n]\n", lines.join(",\n"));
    let path = root.join("catalog/full-scale.json");
    if std::env::var_os("FSDYNO_WRITE_DOCS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(stored == table, "catalog/full-scale.json is not what results/ has; run: make docs");
}

#[test]
fn the_verdicts_in_a_studys_document_are_those_of_the_records() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let results =
        std::fs::read_dir(root.join("results")).unwrap().map(|entry| entry.unwrap().path());
    let archives = results.filter_map(|folder| Some((study_of(&folder)?, folder)));
    // A study without claims ends with factors; its document contains no verdicts.
    let claims = |folder: &Path| {
        std::fs::read_to_string(folder.join("study.toml")).unwrap().contains("\n[[claim")
    };
    for (study, folder) in archives.filter(|(_, folder)| claims(folder)) {
        let nowhere = tempfile::tempdir().unwrap();
        let mut report = fsdyno(nowhere.path());
        let end =
            report.arg("report").arg(&folder).args(["--format", "markdown"]).output().unwrap();
        assert_eq!(code(&end), 0, "{}: {}", folder.display(), stderr(&end));
        let start_marker = format!(
            "<!-- the verdicts of {}: make docs -->",
            folder.file_name().unwrap().display()
        );
        let end_marker = "<!-- the end of them -->";
        let page = root.join(format!("docs/studies/{study}.md"));
        let text = std::fs::read_to_string(&page).unwrap();
        let parts = text
            .split_once(&start_marker)
            .and_then(|(before, rest)| Some((before, rest.split_once(end_marker)?)));
        let Some((before, (stored, after))) = parts else {
            panic!(
                "{} has no place for its verdicts: {start_marker} and {end_marker}",
                page.display()
            )
        };
        let by_records = format!("\n\n{}\n\n", verdicts(&stdout(&end)));
        if std::env::var_os("FSDYNO_WRITE_DOCS").is_some() {
            std::fs::write(&page, format!("{before}{start_marker}{by_records}{end_marker}{after}"))
                .unwrap();
        } else {
            assert!(
                stored == by_records,
                "{} and {} differ; run: make docs",
                page.display(),
                folder.display()
            );
        }
    }
}

/// Returns the folders at and below a path that have records.
fn with_records(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if fsdyno_report::compressed::find(&path.join(fsdyno_record::lines::FILE)).is_some() {
        found.push(path.to_path_buf());
    }
    for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(with_records(&entry));
        }
    }
    found
}

#[test]
fn every_stored_record_names_its_program_or_the_table_of_builds_does() {
    let results = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let table = std::fs::read_to_string(results.join("BUILDS.md")).unwrap();
    let folders = with_records(&results);
    assert!(folders.len() > 9, "{folders:?}");
    for folder in folders {
        let trials = fsdyno_report::load([&folder]).unwrap().trials;
        for trial in trials.iter().filter(|trial| trial.host.build.is_none()) {
            let program = trial.lab.get("agent").or_else(|| trial.lab.get("program"));
            let program = program.map(|hash| hash.trim_start_matches("sha256:"));
            let known = program.is_none_or(|program| table.contains(program));
            assert!(known, "{}: {program:?} is not in results/BUILDS.md", folder.display());
        }
    }
}
