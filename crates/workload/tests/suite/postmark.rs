//! PostMark's published and observed numbers, and the parser of its configuration files.

use std::collections::BTreeMap;
use std::path::Path;

use crate::memory::{build, check_workload};
use fsdyno_workload::{Setting, WorkUnits, Workload, workloads};
use proptest::prelude::*;

/// Work units of all phases.
fn units(work: &dyn Workload) -> WorkUnits {
    let mut totals = WorkUnits::new();
    for phase in 0..work.phases().len() {
        for (unit, count) in work.work_units(phase) {
            *totals.entry(unit).or_default() += count;
        }
    }
    totals
}

fn refusal(set: &[(&str, &str)]) -> String {
    let kind = workloads::find("postmark").unwrap();
    let error = kind
        .resolve(set)
        .and_then(|map| kind.build(&map, &Setting::default()).map(drop))
        .unwrap_err();
    error.to_string()
}

fn config(text: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let read = |name: &str| match name {
        "pm" => Ok(text.to_vec()),
        _ => Err("there is no such file".to_string()),
    };
    (workloads::find("postmark").unwrap().config.unwrap())("pm", &read)
}

#[test]
fn the_default_configuration_has_the_counts_that_postmark_reports() {
    let work = build("postmark", &[], &Setting::default());
    let expected = WorkUnits::from([
        ("files created alone", 500),
        ("files created mixed", 264),
        ("files read", 243),
        ("files appended", 257),
        ("files deleted alone", 528),
        ("files deleted mixed", 236),
        ("read bytes", 1_430_770),
        ("written bytes", 4_662_068),
        ("transactions", 500),
    ]);
    assert_eq!(units(work.as_ref()), expected);
    let memory = check_workload("postmark", &[], 1, 1);
    assert_eq!((memory.read, memory.written), (1_430_770, 4_662_068));
}

#[test]
fn another_seed_with_subdirectories_has_the_counts_that_postmark_reports() {
    let set =
        [("number", "1000"), ("transactions", "2000"), ("seed", "7"), ("subdirectories", "10")];
    let units = units(build("postmark", &set, &Setting::default()).as_ref());
    assert_eq!(units["files created alone"] + units["files created mixed"], 1997);
    assert_eq!((units["files read"], units["files appended"]), (985, 1015));
    assert_eq!(units["files deleted alone"], 994);
    assert_eq!((units["read bytes"], units["written bytes"]), (6_068_951, 12_624_965));
}

#[test]
fn the_configuration_of_linuxinsight_has_the_derived_counts() {
    let set = [
        ("size-low", "500"),
        ("size-high", "500000"),
        ("number", "5000"),
        ("transactions", "10000"),
        ("read", "4096"),
        ("write", "4096"),
    ];
    let work = build("postmark", &set, &Setting::default());
    let expected = WorkUnits::from([
        ("files created alone", 5000),
        ("files created mixed", 4950),
        ("files read", 5026),
        ("files appended", 4974),
        ("files deleted alone", 4900),
        ("files deleted mixed", 5050),
        ("read bytes", 1_464_452_340),
        ("written bytes", 3_000_020_798),
        ("transactions", 10_000),
    ]);
    assert_eq!(units(work.as_ref()), expected);
    assert_eq!(work.work_units(0)["written bytes"], 1_249_675_699);
}

#[test]
fn the_trials_seed_and_the_number_of_threads_change_nothing() {
    let ops = |seed| {
        let work = build("postmark", &[("number", "50")], &Setting::seed(seed));
        (0..3).map(|phase| (work.counts(phase, 8), work.work_units(phase))).collect::<Vec<_>>()
    };
    assert_eq!(ops(1), ops(2));
    check_workload("postmark", &[("number", "50")], 1, 3);
}

#[test]
fn configurations_that_end_the_original_without_a_report_are_refused() {
    assert!(refusal(&[("transactions", "9")]).contains("set 10 or more"));
    let text = refusal(&[("number", "5"), ("transactions", "20"), ("bias-create", "0")]);
    assert!(text.contains("runs out of files"), "{text}");
    assert!(refusal(&[("size-low", "10001")]).contains("size-high=10000 is below"));
    let large = [("size-high", "1G"), ("transactions", "100000000"), ("subdirectories", "300")];
    // 31 bits for a size of 2^30, 27 for 100,000,500 files, 9 for 300 directories.
    assert!(refusal(&large).contains("take 3 bits more"), "{}", refusal(&large));
}

fn bias() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["off", "0", "3", "5", "7", "10"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_call_is_legal_and_leaves_the_predicted_tree(
        (number, transactions, seed) in (1u32..60, 10u32..200, 1u32..i32::MAX as u32),
        (low, range) in (1u32..9000, prop::sample::select(vec![0u32, 1, 100, 20_000])),
        (read, write) in (1u32..20_000, 1u32..20_000),
        (subdirectories, locations) in
            (0u32..5, prop::sample::select(vec!["1", "7", "1,1", "5,1,9"])),
        (bias_read, bias_create) in (bias(), bias()),
        (buffering, contents, gap) in (
            prop::sample::select(vec!["yes", "no"]),
            prop::sample::select(vec!["own", "same"]),
            prop::sample::select(vec!["none", "sync", "remount"]),
        ),
    ) {
        // With this many files the pool never runs out of files, for any bias.
        let number = if matches!(bias_create, "0" | "3" | "5") {
            number + transactions
        } else {
            number + 40
        };
        check_workload("postmark", &[
            ("number", &number.to_string()), ("transactions", &transactions.to_string()),
            ("seed", &seed.to_string()),
            ("size-low", &low.to_string()), ("size-high", &(low + range).to_string()),
            ("read", &(read.max(64)).to_string()), ("write", &(write.max(64)).to_string()),
            ("subdirectories", &subdirectories.to_string()), ("locations", locations),
            ("bias-read", bias_read), ("bias-create", bias_create),
            ("buffering", buffering), ("contents", contents), ("gap", gap),
        ], 1, 1 + seed % 3);
    }

    #[test]
    fn any_bytes_are_a_configuration_or_an_error_with_the_line_number(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        check_outcome(config(&bytes))?;
    }

    #[test]
    fn any_text_after_a_command_is_read_or_an_error_with_the_line_number(
        lines in prop::collection::vec((command(), "[ -~\u{e9}\u{0}\r]{0,12}|[ +-]?[0-9]{0,11}"), 0..12),
    ) {
        let text: Vec<String> = lines.iter().map(|(name, rest)| format!("{name}{rest}")).collect();
        check_outcome(config(text.join("\n").as_bytes()))?;
    }
}

fn command() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "set size ",
        "set number ",
        "set seed",
        "set transactions ",
        "set location ",
        "set location +",
        "set location -",
        "set subdirectories ",
        "set read ",
        "set write ",
        "set buffering ",
        "set bias read ",
        "set bias create ",
        "set report ",
        "run",
        "load ",
        "show",
        "help",
        "",
    ])
}

/// Checks that an accepted configuration has all parameters of PostMark, and that an error is one line with the line
/// number.
fn check_outcome(result: Result<BTreeMap<String, String>, String>) -> Result<(), TestCaseError> {
    match result {
        Ok(map) => prop_assert_eq!(map.len(), 13),
        Err(error) => {
            let location = error.strip_prefix("config 'pm' line ").unwrap_or_default();
            let number = location.split(':').next().unwrap_or_default();
            prop_assert!(number.parse::<u32>().is_ok_and(|line| line > 0), "{}", error);
            prop_assert!(!error.chars().any(char::is_control), "{:?}", error);
        }
    }
    Ok(())
}

/// Each invalid file has its message in an `.error` file; a valid one builds.
#[test]
fn the_corpus_is_read_or_refused_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/postmark");
    let kind = workloads::find("postmark").unwrap();
    let mut counts = (0, 0);
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".pm"))
        .collect();
    names.sort();
    for name in names {
        let read = |name: &str| {
            std::fs::read(folder.join(name)).map_err(|_| "there is no such file".to_string())
        };
        let outcome = (kind.config.unwrap())(&name, &read).and_then(|map| {
            let set: Vec<(&str, &str)> =
                map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let built = kind.resolve(&set).and_then(|map| kind.build(&map, &Setting::default()));
            built.map(drop).map_err(|error| error.to_string())
        });
        match std::fs::read_to_string(folder.join(&name).with_extension("error")) {
            Ok(expected) => {
                assert_eq!(outcome.unwrap_err(), expected.trim_end(), "{name}");
                counts.1 += 1;
            }
            Err(_) => {
                assert_eq!(outcome, Ok(()), "{name}");
                counts.0 += 1;
            }
        }
    }
    assert!(counts.0 >= 5 && counts.1 >= 15, "{counts:?}");
}
