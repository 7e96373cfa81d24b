//! `fsdyno report` and `fsdyno compare` on results that are damaged, hostile, too few or very many: the message names
//! the error, its position, and the remedy.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::fs;
use std::path::Path;

use crate::common::{code, crashed, full, run, stderr, stdout};
use serde_json::Value;

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J|x\n\"'";

/// A result of the model, two file systems with three seeds.
fn measured(folder: &Path) -> Vec<String> {
    let args = "run dirops --on model --fs cached-ext2 --fs indexed-ext2 --set files=200 --repeat 3 --out base";
    let done = run(folder, args);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let text = fs::read_to_string(folder.join("base/trials.ndjson")).unwrap();
    text.lines().map(String::from).collect()
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::create_dir(folder.join(name)).unwrap();
    fs::write(folder.join(name).join("trials.ndjson"), text).unwrap();
}

/// Applies a change to each record; the schema version remains the first key.
fn with_changes(lines: &[String], change: impl Fn(usize, &mut Value)) -> String {
    let line = |(at, line): (usize, &String)| {
        let mut trial: Value = serde_json::from_str(line).unwrap();
        change(at, &mut trial);
        let text = trial.to_string();
        let rest = text.replacen("\"schema\":2,", "", 1).replacen(",\"schema\":2", "", 1);
        rest.replacen('{', "{\"schema\":2,", 1) + "\n"
    };
    lines.iter().enumerate().map(line).collect()
}

fn phases(trial: &mut Value) -> impl Iterator<Item = &mut Value> {
    trial["measured"]["phases"].as_array_mut().unwrap().iter_mut()
}

#[test]
fn a_dash_is_standard_output_for_html_but_not_a_folder_and_the_least_difference_can_be_set() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    measured(folder);
    let page = run(folder, "report base --html -");
    assert_eq!(code(&page), 0, "{}", stderr(&page));
    assert!(stdout(&page).to_lowercase().starts_with("<!doctype html>"));
    assert!(stdout(&page).ends_with("</html>\n"), "a page and nothing else");
    for args in ["report base --charts -", "report base --archive -", "run dirops --out -"] {
        let refused = run(folder, args);
        assert_eq!(code(&refused), 2, "{args}");
        assert!(stderr(&refused).contains("for a folder with this name, write ./-"), "{args}");
    }
    assert!(!folder.join("-").exists());
    for (args, least) in [("", "1 %"), ("--least-difference 99.5%", "99.5 %")] {
        let message = stdout(&run(folder, &format!("report base {args}")));
        assert!(
            message.contains(&format!("No difference above {least} in dirops create")),
            "{message}"
        );
    }
}

#[test]
fn damaged_records_are_refused_with_their_line_and_an_incomplete_last_one_is_omitted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    let half = &lines[1][..lines[1].len() / 2];
    let newer = lines[1].replacen("\"schema\":2", "\"schema\":3", 1);
    write(folder, "torn", &format!("{}\n{half}", lines[0]));
    write(folder, "middle", &format!("{}\n{half}\n{}\n", lines[0], lines[2]));
    write(folder, "newer", &format!("{}\n{newer}\n", lines[0]));
    write(folder, "nothing", "");
    for (name, expected) in [
        ("middle", "trials.ndjson:2: "),
        ("newer", "its schema is 3, but this fsdyno knows schemas up to 2; use the newer fsdyno"),
        ("missing", "name a result folder or its trials.ndjson"),
    ] {
        for args in [format!("report {name}"), format!("compare base {name}")] {
            let refused = run(folder, &args);
            assert_eq!(code(&refused), 2, "{args}: {}", stderr(&refused));
            assert!(stderr(&refused).contains(expected), "{args}: {}", stderr(&refused));
            assert!(stdout(&refused).is_empty());
        }
    }
    for args in ["report torn", "compare base torn"] {
        let done = run(folder, args);
        assert_eq!(code(&done), 0, "{args}: {}", stderr(&done));
        assert!(stderr(&done).contains(":2: the last line is truncated"), "{}", stderr(&done));
    }
    assert!(stdout(&run(folder, "report nothing")).contains("No trial succeeded"));
    let none = run(folder, "compare base nothing");
    assert!(code(&none) == 2 && stderr(&none).contains("NEW has no trial"), "{}", stderr(&none));
}

#[test]
fn damaged_explanations_are_refused_with_their_line_and_an_incomplete_last_one_is_omitted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    let page = |name: &str, why: &str| {
        write(folder, name, &format!("{}\n", lines[0]));
        fs::write(folder.join(name).join("why.ndjson"), why).unwrap();
        run(folder, &format!("report {name} --html {name}.html"))
    };
    for (name, why, expected) in [
        ("broken", "{\"schema\":2,\"it\":7}\n", "why.ndjson:1: "),
        ("newer", "{\"schema\":3}\n", "its schema is 3, but this fsdyno knows schemas up to 2"),
    ] {
        let refused = page(name, why);
        assert_eq!(code(&refused), 2, "{name}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(expected), "{name}: {}", stderr(&refused));
    }
    let torn = page("torn", "{\"schema\":2,\"it\":{\"lab");
    assert_eq!(code(&torn), 0, "{}", stderr(&torn));
    assert!(
        stderr(&torn).contains("why.ndjson:1: the last line is truncated"),
        "{}",
        stderr(&torn)
    );
}

#[test]
fn errors_of_why_do_not_pass_control_characters_of_names_to_the_terminal() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let hostile = with_changes(&measured(folder), |at, trial| {
        trial["plan"]["label"] = format!("{HOSTILE}{}", at % 2).into();
    });
    write(folder, "hostile", &hostile);
    for (args, expected) in [
        ("why hostile", "did not run in the lab"),
        ("why hostile --fs nothing", "has no configuration 'nothing': there are: "),
        ("why hostile --baseline nothing", "cannot be explained"),
        ("why torn-away", "name a result folder"),
    ] {
        let refused = run(folder, args);
        assert_eq!(code(&refused), 2, "{args}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(expected), "{args}: {}", stderr(&refused));
        assert!(!stderr(&refused).contains('\u{1b}') && stdout(&refused).is_empty(), "{args}");
    }
}

#[test]
fn results_without_a_common_cell_are_refused_with_the_cells_of_each() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    write(
        folder,
        "cached",
        &lines
            .iter()
            .filter(|l| l.contains("\"cached-ext2\""))
            .map(|l| format!("{l}\n"))
            .collect::<String>(),
    );
    write(
        folder,
        "indexed",
        &lines
            .iter()
            .filter(|l| !l.contains("\"cached-ext2\""))
            .map(|l| format!("{l}\n"))
            .collect::<String>(),
    );
    let refused = run(folder, "compare cached indexed");
    assert_eq!(code(&refused), 2);
    let message = stderr(&refused);
    assert!(message.contains("BASE has dirops") && message.contains("cached-ext2"), "{message}");
    assert!(message.contains("NEW has dirops") && message.contains("indexed-ext2"), "{message}");
    // Along the axis in which they differ they are compared as if one run had measured both.
    let [both, base] =
        ["cached indexed", "base"].map(|of| run(folder, &format!("compare {of} --by fs")));
    assert_eq!(code(&both), code(&base), "{}", stderr(&both));
    assert!([0, 1].contains(&code(&both)) && stdout(&both) == stdout(&base), "{}", stdout(&both));
    let ranks = run(folder, "compare cached indexed --by ranks");
    assert_eq!(code(&ranks), 2);
    assert!(stderr(&ranks).contains("fsdyno show ranks cached indexed"), "{}", stderr(&ranks));
}

#[test]
fn along_an_axis_a_trial_in_two_results_counts_once_and_a_failure_in_one_remains() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    let base = stdout(&run(folder, "compare base --by fs"));
    write(folder, "part", &with_changes(&lines[..2], |_, _| {}));
    let overlapping = run(folder, "compare base part --by fs");
    assert_eq!(stdout(&overlapping), base, "{}", stderr(&overlapping));
    let same = run(folder, "compare base ./base --by fs");
    assert_eq!(code(&same), 2, "{}", stdout(&same));
    assert!(stderr(&same).contains("fsdyno compare base --by fs"), "{}", stderr(&same));
    // On a host, a success with the same trial id in the other result is that of another run.
    let host = run(folder, "run dirops --on . --set files=50 --repeat 2 --out host");
    assert_eq!(code(&host), 0, "{}", stderr(&host));
    let text = fs::read_to_string(folder.join("host/trials.ndjson")).unwrap();
    let lines: Vec<String> = text.lines().map(String::from).collect();
    let failure = |at: usize, trial: &mut Value| {
        trial["conditions"]["kernel"] = "9.9.9".into();
        trial["host"]["started"] = "2026-01-01T00:00:00Z".into();
        if at == 0 {
            trial["outcome"] = "failed".into();
            trial["reason"] = "no space".into();
        }
    };
    write(folder, "failed", &with_changes(&lines, failure));
    let failed = run(folder, "compare host failed --by kernel");
    let text = stdout(&failed);
    // The name of this host's file system is between the two.
    for part in ["failed with 9.9.9: dirops on ", ", seed 1: no space"] {
        assert!(text.contains(part), "{text}{}", stderr(&failed));
    }
}

#[test]
fn phases_can_be_compared_alone_and_decide_the_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    // Creating takes three times as long, and deleting as long as before.
    let slower = |_: usize, trial: &mut Value| {
        let create = &mut trial["measured"]["phases"][0];
        assert_eq!(create["name"], "create");
        for key in ["returned_ns", "durable_ns"] {
            if let Some(time) = create[key].as_u64() {
                create[key] = (3 * time).into();
            }
        }
    };
    write(folder, "slower", &with_changes(&lines, slower));
    for (phases, expected) in [
        ("", 1),
        ("--phase create", 1),
        ("--phase delete", 0),
        ("--phase unlink", 0),
        ("--phase remove,create", 1),
        ("--phase delete,create", 1),
    ] {
        let compared = run(folder, &format!("compare base slower {phases}"));
        assert_eq!(code(&compared), expected, "{phases}: {}", stderr(&compared));
        let has_row = |name: &str| stdout(&compared).lines().any(|line| line.starts_with(name));
        assert_eq!(
            has_row("create "),
            !["--phase delete", "--phase unlink"].contains(&phases),
            "{}",
            stdout(&compared)
        );
        assert_eq!(has_row("delete "), phases != "--phase create", "{}", stdout(&compared));
    }
    let unknown = run(folder, "compare base slower --phase mkdir");
    assert_eq!(code(&unknown), 2);
    assert!(stderr(&unknown).contains("'mkdir' is not a phase"), "{}", stderr(&unknown));
    assert!(stderr(&unknown).contains("dirops has create, delete"), "{}", stderr(&unknown));
}

#[test]
fn a_single_result_gets_the_axes_along_which_its_trials_can_be_compared() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    let one = run(folder, "compare base");
    assert_eq!(code(&one), 2, "{}", stderr(&one));
    assert!(stderr(&one).contains("within it: fsdyno compare base --by fs"), "{}", stderr(&one));
    write(folder, "one", &with_changes(&lines[..1], |_, _| {}));
    let one = run(folder, "compare one");
    assert!(stderr(&one).contains("fsdyno compare one NEW"), "{}", stderr(&one));
    assert_eq!(code(&run(folder, "compare one --bisect")), 125);
    let both = run(folder, "compare base --by fs --bisect");
    assert_eq!(code(&both), 125, "{}", stderr(&both));
    assert!(stderr(&both).contains("fsdyno compare BASE NEW --bisect"), "{}", stderr(&both));
}

#[test]
fn single_trials_and_times_of_zero_give_no_verdict_but_a_reason() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    write(folder, "one", &with_changes(&lines[..1], |_, _| {}));
    let zero = |_: usize, trial: &mut Value| {
        phases(trial).for_each(|phase| {
            phase["returned_ns"] = 0.into();
            phase["durable_ns"] = 0.into();
        });
    };
    write(folder, "zero", &with_changes(&lines, zero));
    let one = run(folder, "compare one one --verbose");
    assert_eq!(code(&one), 0, "{}", stderr(&one));
    assert!(stdout(&one).contains("the spread is unknown"), "{}", stdout(&one));
    assert_eq!(code(&run(folder, "compare one one --bisect")), 125);
    for args in ["compare base zero", "compare zero base"] {
        let done = run(folder, &format!("{args} --verbose"));
        assert_eq!(code(&done), 0, "{args}: {}", stderr(&done));
        assert!(stdout(&done).contains("no ratio: a value is zero"), "{}", stdout(&done));
    }
    for format in ["text", "mail", "markdown", "csv", "json", "statistics", "statistics-csv"] {
        for name in ["one", "zero"] {
            let done = run(folder, &format!("report {name} --format {format}"));
            assert_eq!(code(&done), 0, "{name} {format}: {}", stderr(&done));
            let text = stdout(&done);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{name} {format}: {text}");
        }
    }
}

#[test]
fn hostile_names_are_escaped_in_every_format() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    let hostile = |at: usize, trial: &mut Value| {
        trial["plan"]["label"] = format!("{HOSTILE}{}", at % 2).into();
        trial["plan"]["workload"]["params"]["files"] = HOSTILE.into();
        trial["conditions"]["kernel"] = HOSTILE.into();
        trial["conditions"]["notes"] = vec![HOSTILE].into();
        phases(trial).for_each(|phase| phase["name"] = HOSTILE.into());
        if at == 0 {
            trial["outcome"] = "failed".into();
            trial["reason"] = HOSTILE.into();
        }
    };
    write(folder, "hostile", &with_changes(&lines, hostile));
    for format in ["text", "mail", "markdown", "statistics-csv"] {
        for args in [format!("report hostile --format {format}"), "compare hostile hostile".into()]
        {
            let done = run(folder, &args);
            assert!([0, 4].contains(&code(&done)), "{args}: {}", stderr(&done));
            let text = stdout(&done);
            assert!(!text.contains('\u{1b}'), "{args}: {text}");
            assert!(
                format != "markdown" || !text.contains("<script>") || args.starts_with("compare"),
                "{text}"
            );
        }
    }
    for format in ["statistics", "json"] {
        let text = stdout(&run(folder, &format!("report hostile --format {format}")));
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{format}");
    }
    let compared = stdout(&run(folder, "compare hostile hostile --format markdown"));
    assert!(!compared.contains("<script>") && !compared.contains('\u{1b}'), "{compared}");
    let junit = stdout(&run(folder, "compare hostile hostile --format junit"));
    assert!(!junit.contains("<script>") && !junit.contains('\u{1b}'), "{junit}");
    assert_eq!(code(&run(folder, "report hostile --html hostile.html")), 0);
    let page = fs::read_to_string(folder.join("hostile.html")).unwrap();
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;"));
}

#[test]
fn results_of_crash_are_reported_again_and_damaged_ones_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    measured(folder);
    let rows = crashed(folder, "base", HOSTILE, "crash");
    for format in ["text", "mail", "markdown", "csv"] {
        let done = run(folder, &format!("report crash --format {format}"));
        assert_eq!(code(&done), 0, "{format}: {}", stderr(&done));
        let text = stdout(&done);
        assert!(text.contains("48.0") && text.contains("ext4"), "{format}: {text}");
        assert!(format == "csv" || !text.contains('\u{1b}'), "{format}: {text}");
        assert!(format != "markdown" || !text.contains("<script>"), "{text}");
    }
    let json = run(folder, "report crash/crash.json --format json");
    let shown: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(
        (shown[1]["label"].as_str(), shown[0]["tried"][0]["cut"]["number"].as_u64()),
        (Some(HOSTILE), Some(0))
    );
    assert_eq!(code(&run(folder, "report crash --html crash.html")), 0);
    let page = fs::read_to_string(folder.join("crash.html")).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    let text = rows.to_string();
    let newer = text.replacen("\"crash\":1", "\"crash\":2", 1);
    for (name, text, expected) in [
        (
            "torn",
            &text[..text.len() / 2],
            "torn/crash.json' as a result of fsdyno crash: it is truncated: ",
        ),
        ("newer", &newer, "it has version 2, but this fsdyno reads version 1"),
        ("other", "[{\"label\":3}]", "invalid type: integer `3`"),
    ] {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("crash.json"), text).unwrap();
        let refused = run(folder, &format!("report {name}"));
        assert_eq!(code(&refused), 2, "{name}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(expected), "{name}: {}", stderr(&refused));
        assert!(stdout(&refused).is_empty(), "{name}");
    }
    for (args, expected) in [
        ("report crash base", "separately"),
        ("report crash --format original", "use one of text, mail, markdown, html, csv, json"),
        (
            "report crash --charts charts",
            "--charts, --baseline and --least-difference do not apply to results of fsdyno crash",
        ),
    ] {
        let refused = run(folder, args);
        assert_eq!(code(&refused), 2, "{args}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(expected), "{args}: {}", stderr(&refused));
    }
}

#[test]
fn thousands_of_trials_are_a_table_a_comparison_and_statistics() {
    let rounds = if full() { 5000 } else { 1000 };
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let lines = measured(folder);
    let write_trials = |name: &str, millionths: u64| {
        let mut text = String::new();
        for round in 0..rounds {
            text += &with_changes(&lines[..2], |_, trial| {
                trial["seed"] = (round + 1).into();
                let plan = trial["trial_id"].as_str().unwrap().split('-').next().unwrap();
                trial["trial_id"] = format!("{plan}-{}", round + 1).into();
                phases(trial).for_each(|phase| {
                    let ns = 1_000_000_000 + round * 997 % 1009 * 100_000;
                    phase["returned_ns"] = (ns + ns / 1_000_000 * millionths).into();
                    phase["durable_ns"] = (ns + ns / 1_000_000 * millionths).into();
                });
            });
        }
        write(folder, name, &text);
    };
    write_trials("many", 0);
    write_trials("more", 10_000);
    let table = run(folder, "report many");
    assert_eq!(code(&table), 0, "{}", stderr(&table));
    assert!(stdout(&table).contains(&format!("  {rounds}  ")), "{}", stdout(&table));
    let compared = run(folder, "compare many more --threshold 0.5%");
    assert_eq!(code(&compared), 1, "{}", stderr(&compared));
    assert!(stdout(&compared).contains("+1.0"), "{}", stdout(&compared));
    let statistics = stdout(&run(folder, "report many --format statistics-csv"));
    assert!(statistics.lines().nth(1).unwrap().contains(&format!(",{rounds},")), "{statistics}");
}
