//! Every parameter of every workload with garbage values: each is accepted, or refused in one line
//! that gives the correction, immediately, and none causes a panic or an overflow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fsdyno_record::seed;
use fsdyno_workload::workloads::{self, Kind};
use fsdyno_workload::{Domain, Input, Param, ParamError, Setting, Workload};

/// Values that are invalid for most parameters.
const GARBAGE: &[&str] = &[
    "",
    " ",
    "0",
    "-0",
    "-1",
    "+1",
    "1 ",
    " 1",
    "1.5",
    "1e3",
    "0x10",
    "٣",
    "١٢",
    "NaN",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "16777216T",
    "9E",
    "-",
    ",",
    ",,",
    "1,",
    "/",
    "//",
    "1//2",
    "0/0",
    "..",
    "1..",
    "..2",
    "1..2",
    "1..2/0",
    "1..2x0",
    "1..9x1",
    "9..1/1",
    "1..18446744073709551615x2",
    "1-",
    "-2",
    "0-0",
    "5-4",
    "1K-2",
    ":",
    "a:b",
    "create:0",
    "create:1,create:1",
    "create:18446744073709551616",
    "lognormal:",
    "lognormal:0:1",
    "lognormal:8K:NaN",
    "lognormal:8K:inf",
    "lognormal:8K:-1",
    "lognormal:8K:1e999",
    "lognormal:1:",
    "../x",
    "/etc/passwd",
    "a\nb",
    "a\r\x1b[2Jb",
    "a\0b",
    "\u{202e}",
    "none ",
    "NONE",
    "auto,auto",
];

/// Parameters of the amount of work, which are slow to count: their largest values are only
/// resolved, not built.
const SLOW_TO_COUNT: &[(&str, &[&str])] = &[
    ("calls", &["files"]),
    ("tarball", &["files"]),
    ("source-tree", &["files", "directories"]),
    ("maildir", &["ops", "store", "read-store", "size", "fill", "maildirs"]),
    ("maildir-read", &["reads", "read-store", "size"]),
    ("postmark", &["number", "transactions", "subdirectories", "size-low", "size-high"]),
    ("bonnie", &["files"]),
    ("churn", &["files", "ops", "seconds"]),
    ("everyday", &["documents", "songs", "films"]),
    ("capacity", &["most"]),
];

/// The parameters that make a workload small while one of its parameters is tested.
const SMALL: &[(&str, &[(&str, &str)])] = &[
    ("replay", &[]),
    ("command", &[("command", "true")]),
    ("calls", &[("files", "20")]),
    ("dirops", &[("files", "20")]),
    ("tarball", &[("files", "20")]),
    ("source-tree", &[("files", "20"), ("directories", "5")]),
    ("maildir", &[("ops", "20"), ("maildirs", "3"), ("store", "20"), ("read-store", "5")]),
    ("maildir-read", &[("reads", "20"), ("read-store", "5")]),
    ("fdtree", &[("levels", "2"), ("dirs", "2"), ("files", "2")]),
    ("bonnie", &[("file-size", "1M"), ("char", "4K"), ("seeks", "20"), ("files", "1")]),
    ("many-files", &[("widths", "3/2"), ("files", "2")]),
    ("postmark", &[("number", "20"), ("transactions", "20")]),
    ("churn", &[("files", "20"), ("ops", "20")]),
    ("everyday", &[("documents", "20"), ("songs", "2")]),
    ("bigfile", &[("size", "1M"), ("reads", "20"), ("writes", "20")]),
    ("tenant", &[("files", "20"), ("rounds", "20"), ("stream", "4M")]),
    ("capacity", &[("most", "20")]),
];

/// A user would mistake a longer wait for a hang; debug builds are about ten times slower.
const TIME_LIMIT: Duration = Duration::from_secs(1);

fn row<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

/// Returns true if the largest value of a parameter is slow to count.
fn is_slow_to_count(kind: &Kind, param: &Param) -> bool {
    row(SLOW_TO_COUNT, kind.name).is_some_and(|names| names.contains(&param.name))
}

/// The minimum and maximum of a domain as text, and their neighbours outside.
fn bounds(domain: &Domain) -> (Vec<String>, Vec<String>) {
    let (min, max) = match domain {
        Domain::Whole { min, max }
        | Domain::Size { min, max }
        | Domain::Curve { min, max }
        | Domain::WholeNumbers { min, max, .. } => (*min, *max),
        Domain::Or(_, other) => return bounds(other),
        _ => return (Vec::new(), Vec::new()),
    };
    let outside = [min.checked_sub(1), max.checked_add(1)];
    let outside = outside.into_iter().flatten().map(|number| number.to_string());
    (vec![min.to_string(), max.to_string()], outside.collect())
}

/// The accepted values of a domain at its limits.
fn extremes(domain: &Domain) -> Vec<String> {
    match domain {
        Domain::Choice(words) => words.iter().map(ToString::to_string).collect(),
        Domain::YesNo => vec!["yes".into(), "no".into()],
        Domain::Word(longest) => vec!["0".into(), "x".repeat(*longest)],
        Domain::Widths => ["1", "1000000", "1000000/500", "1/1/1/1/1"].map(Into::into).to_vec(),
        Domain::Sizes => ["0", "1G", "0-1G", "lognormal:1:0.1", "mix"].map(Into::into).to_vec(),
        Domain::Weights(words) => words.iter().map(|word| format!("{word}:1000")).collect(),
        Domain::Or(word, other) => [vec![(*word).to_string()], extremes(other)].concat(),
        Domain::Command => vec!["x".into(), "x".repeat(8192)],
        Domain::File | Domain::Trace | Domain::Curve { .. } => Vec::new(),
        other => bounds(other).0,
    }
}

/// Makes every query of a dry run.
fn query(work: &dyn Workload) {
    for (phase, spec) in work.phases().iter().enumerate() {
        for ranks in [1, 512] {
            work.counts(phase, spec.threads.count_of(ranks));
        }
        work.work_units(phase);
        let tree = work.tree(phase);
        assert!(tree.lookup(b"zzz/\xff").is_none());
        let _ = tree.files().checked_add(tree.directories()).unwrap();
    }
    work.needs();
    work.unused_params();
}

/// Checks that a refusal is one line that names the mistake and the correction.
fn check(context: &str, error: &ParamError) {
    let message = error.to_string();
    assert!(!message.is_empty() && message.chars().count() <= 1000, "{context}: {message}");
    assert!(!message.chars().any(char::is_control), "{context}: {message:?}");
    let hints = ["takes ", "; ", ": ", "or more", "omit", "use ", "set "];
    assert!(
        hints.iter().any(|part| message.contains(part)),
        "{context} does not give the correction: {message}"
    );
}

/// Resolves and, with `build`, builds; returns true if it was accepted.
fn attempt(kind: &Kind, set: &BTreeMap<&str, &str>, build: bool) -> bool {
    let context = format!("{} {set:.200?}", kind.name);
    let start = Instant::now();
    let pairs: Vec<(&str, &str)> = set.iter().map(|(key, value)| (*key, *value)).collect();
    let outcome = kind.resolve(&pairs).and_then(|map| {
        if build {
            query(kind.build(&map, &Setting::seed(7))?.as_ref());
        }
        Ok(())
    });
    assert!(start.elapsed() < TIME_LIMIT, "{context} took {:?}", start.elapsed());
    outcome.inspect_err(|error| check(&context, error)).is_ok()
}

#[test]
fn every_parameter_accepts_or_refuses_any_value_at_once_and_in_one_line() {
    let long = "x".repeat(100_000);
    for kind in workloads::ALL {
        let small: BTreeMap<&str, &str> = row(SMALL, kind.name).unwrap().iter().copied().collect();
        for param in kind.params {
            let attempt = |value: &str, build| {
                let mut set = small.clone();
                set.insert(param.name, value);
                attempt(kind, &set, build)
            };
            for value in GARBAGE.iter().chain([&long.as_str()]) {
                attempt(value, true);
            }
            let (accepted, outside) = bounds(&param.domain);
            for value in &outside {
                assert!(!attempt(value, true), "{} {}={value} was accepted", kind.name, param.name);
            }
            for value in accepted.iter().chain(&extremes(&param.domain)) {
                attempt(value, !is_slow_to_count(kind, param));
            }
        }
    }
}

/// Some overflows need extreme values of two parameters; a debug build detects them.
#[test]
fn extremes_of_many_parameters_at_once_are_accepted_or_refused() {
    for kind in workloads::ALL {
        let mut draws = seed::stream(7, kind.name);
        let small = row(SMALL, kind.name).unwrap();
        for _ in 0..400 {
            let mut values: Vec<(&str, String)> = Vec::new();
            for param in kind.params {
                let choices = extremes(&param.domain);
                let small = small.iter().find(|(name, _)| *name == param.name);
                if choices.is_empty() || is_slow_to_count(kind, param) || draws.below(3) == 0 {
                    values.extend(small.map(|(name, value)| (*name, (*value).to_string())));
                    continue;
                }
                let choice = draws.below(choices.len() as u64) as usize;
                values.push((param.name, choices[choice].clone()));
            }
            let set = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
            attempt(kind, &set, true);
        }
    }
}

#[test]
fn a_file_that_is_not_an_archive_is_refused_by_every_workload() {
    let mut count = 0;
    for kind in workloads::ALL {
        for param in kind.params.iter().filter(|param| {
            let is_file = |domain: &Domain| matches!(domain, Domain::File | Domain::Trace);
            matches!(param.domain, Domain::Or(_, other) if is_file(other)) || is_file(&param.domain)
        }) {
            count += 1;
            let map = kind.resolve(&[(param.name, "mine\x1b.tar")]).unwrap();
            for bytes in [Vec::new(), vec![0; 1 << 20], b"no archive".repeat(1000)] {
                let setting = Setting { seed: 7, input: Some(Input::new(bytes)) };
                let error = kind.build(&map, &setting).err().unwrap();
                check(kind.name, &error);
                assert!(error.to_string().contains(&format!("--set {}=mine", param.name)));
            }
        }
    }
    assert!(count >= 4, "tarball, maildir, maildir-read and replay take files");
}
