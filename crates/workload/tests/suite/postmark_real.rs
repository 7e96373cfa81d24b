//! Comparison of the model with the real PostMark: the same configuration file, the same report, the same
//! calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_record::seed::{SplitMix64, stream};
use fsdyno_workload::{Call, Op, OpenFlags, Setting, Share, Workload, workloads};

const POSTMARK: &str = "/usr/bin/postmark";
const STRACE: &str = "/usr/bin/strace";
const CASES: u64 = 48;

/// A folder of this process, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fsdyno-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reports a missing program; returns true if it is missing.
fn is_missing(program: &str) -> bool {
    let missing = !Path::new(program).exists();
    if missing {
        eprintln!("skipped: {program} is not installed (apt-get install postmark strace)");
    }
    missing
}

/// A configuration of a few files, drawn at random, and its number of locations; they are below
/// `folder`.
fn configuration(draws: &mut SplitMix64, folder: &Path) -> (String, usize) {
    let mut draw = |from: u64, to: u64| from + draws.draw() % (to - from + 1);
    let low = draw(1, 9000);
    let high = low + [0, 1, 700, 20_000][draw(0, 3) as usize];
    let mut text = format!(
        "set size {low} {high}\nset number {}\nset transactions {}\nset seed {}\n",
        draw(10, 60),
        draw(10, 90),
        draw(1, 99_999)
    );
    let locations = [1, 1, 2, 3][draw(0, 3) as usize];
    for location in 0..locations {
        let path = if locations == 1 { "l".to_string() } else { format!("l{location}") };
        let (plus, weight) = (if location > 0 { "+" } else { "" }, draw(1, 4));
        text += &format!("set location {plus}{}/data/{path} {weight}\n", folder.display());
    }
    if draw(0, 1) == 1 {
        text += &format!("set subdirectories {}\n", draw(1, 5));
    }
    let mut biased = || [-1, 0, 3, 5, 5, 8, 10][draw(0, 6) as usize];
    text += &format!("set bias read {}\nset bias create {}\n", biased(), biased());
    let blocks = [64, 512, 1000, 4096, 5000, 8192, 10_000];
    let mut block = || blocks[draw(0, 6) as usize];
    text += &format!("set read {}\nset write {}\n", block(), block());
    text += &format!("set buffering {}\n", draw(0, 1) == 1);
    (text, locations)
}

/// Runs the real program under strace in fresh directories: returns its output and its calls.
fn run_real(folder: &Path, text: &str, locations: usize) -> (String, Vec<String>) {
    let (config, trace) = (folder.join("config"), folder.join("trace"));
    std::fs::write(&config, format!("{text}run\nquit\n")).unwrap();
    let data = folder.join("data");
    let names = match locations {
        1 => vec!["l".to_string()],
        _ => (0..locations).map(|index| format!("l{index}")).collect(),
    };
    names.iter().for_each(|name| std::fs::create_dir_all(data.join(name)).unwrap());
    let output = Command::new(STRACE)
        .args(["-s", "0", "-e"])
        .arg("trace=openat,read,write,close,newfstatat,fstat,unlink,mkdir,rmdir")
        .arg("-o")
        .args([&trace, Path::new(POSTMARK), &config])
        .output()
        .unwrap();
    let trace = std::fs::read_to_string(trace).unwrap();
    // The removal succeeds only if the program left nothing behind.
    names.iter().for_each(|name| std::fs::remove_dir(data.join(name)).unwrap());
    let prefix = match locations {
        1 => format!("{}/l/", data.display()),
        _ => format!("{}/", data.display()),
    };
    (String::from_utf8(output.stdout).unwrap(), calls_of_trace(&trace, &prefix))
}

/// The calls on files in the locations: `read 4096`, `unlink s1/7`.
fn calls_of_trace(trace: &str, prefix: &str) -> Vec<String> {
    let mut calls = Vec::new();
    let mut file = None;
    for line in trace.lines() {
        let Some((call, rest)) = line.split_once('(') else { continue };
        let (arguments, result) = rest.rsplit_once(" = ").unwrap();
        let arguments = arguments.trim_end().strip_suffix(')').unwrap();
        let path = || {
            let (_, from) = arguments.split_once(prefix)?;
            from.split_once('"').map(|(path, rest)| (path.to_string(), rest.to_string()))
        };
        let first = arguments.split(',').next().unwrap();
        let length = arguments.rsplit(", ").next().unwrap();
        match (call, path()) {
            ("openat", Some((path, flags))) => {
                file = Some(result.to_string());
                calls.push(format!("openat {path}{flags}"));
            }
            ("unlink" | "mkdir" | "rmdir", Some((path, mode))) => {
                calls.push(format!("{call} {path}{mode}"));
            }
            ("read" | "write", _) if file.as_deref() == Some(first) => {
                calls.push(format!("{call} {length}"));
            }
            ("newfstatat" | "fstat", _) if file.as_deref() == Some(first) => {
                calls.push("fstat".to_string());
            }
            ("close", _) if file.as_deref() == Some(first) => {
                file = None;
                calls.push("close".to_string());
            }
            _ => {}
        }
    }
    calls
}

/// The ops of the model in the same notation, without the directories of several locations: they are fsdyno's own.
fn calls_of_ops(work: &dyn Workload, locations: usize) -> Vec<String> {
    let mut calls = Vec::new();
    for phase in 0..work.phases().len() {
        let mut ops = work.ops(phase, Share::WHOLE);
        let mut op = Op::default();
        while ops.next(&mut op) {
            let name = op.name.display();
            let is_own = locations > 1 && !name.contains('/');
            calls.push(match op.call {
                Call::Mkdir { .. } | Call::Rmdir { .. } if is_own => continue,
                Call::Mkdir { mode, .. } => format!("mkdir {name}, 0{mode:o}"),
                Call::Rmdir { .. } => format!("rmdir {name}"),
                Call::Unlink { .. } => format!("unlink {name}"),
                Call::Create { flags, mode, .. } => {
                    format!("openat {name}, {}, 0{mode:o}", flag_names(flags, true))
                }
                Call::Open { flags, .. } if flags.create => {
                    format!("openat {name}, {}, 0666", flag_names(flags, true))
                }
                Call::Open { flags, .. } => format!("openat {name}, {}", flag_names(flags, false)),
                Call::Write { payload, .. } | Call::Append { payload, .. } => {
                    format!("write {}", payload.length)
                }
                Call::Read { length, .. } => format!("read {length}"),
                Call::StatFile { .. } => "fstat".to_string(),
                Call::Close { .. } => "close".to_string(),
                call => panic!("{call:?}"),
            });
        }
    }
    calls
}

fn flag_names(flags: OpenFlags, create: bool) -> String {
    let access = match (flags.read, flags.write) {
        (true, true) => "O_RDWR",
        (false, true) => "O_WRONLY",
        _ => "O_RDONLY",
    };
    [(create, "|O_CREAT"), (flags.truncate, "|O_TRUNC"), (flags.append, "|O_APPEND")]
        .iter()
        .filter(|(set, _)| *set)
        .fold(access.to_string(), |words, (_, word)| words + word)
}

/// Bytes as the report prints them.
fn bytes(bytes: u64) -> String {
    match bytes {
        0 => "0.000000 bytes".to_string(),
        1..=1_048_576 => format!("{:.2} kilobytes", bytes as f32 / 1024.0),
        _ => format!("{:.2} megabytes", bytes as f32 / 1_048_576.0),
    }
}

#[test]
fn random_configurations_have_the_report_and_calls_of_the_real_program() {
    if is_missing(POSTMARK) || is_missing(STRACE) {
        return;
    }
    let folder = Folder::new("postmark");
    let kind = workloads::find("postmark").unwrap();
    let mut draws = stream(1, "postmark configurations");
    let (mut reported, mut ran_out, mut seen) = (0, 0, BTreeMap::<String, u64>::new());
    let is_full = std::env::var("FSDYNO_TEST").is_ok_and(|it| it == "full");
    let cases = if is_full { CASES } else { CASES / 2 };
    for case in 0..cases {
        let (text, locations) = configuration(&mut draws, &folder.0);
        let (report, calls) = run_real(&folder.0, &text, locations);
        let map = kind.config.unwrap()("config", &|_| Ok(text.clone().into_bytes())).unwrap();
        let set: Vec<(&str, &str)> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let built = kind.build(&kind.resolve(&set).unwrap(), &Setting::default());
        if report.contains("out of files!") {
            assert!(built.err().unwrap().to_string().contains("runs out of files"), "{text}");
            ran_out += 1;
            continue;
        }
        let work = built.unwrap();
        let mut units = BTreeMap::new();
        for phase in 0..work.phases().len() {
            work.work_units(phase)
                .iter()
                .for_each(|(unit, n)| *units.entry(*unit).or_insert(0) += n);
        }
        let (alone, mixed) = (units["files created alone"], units["files created mixed"]);
        let (last, deleted) = (units["files deleted alone"], units["files deleted mixed"]);
        for line in [
            format!("\t{} created (", alone + mixed),
            format!("\t\tCreation alone: {alone} files ("),
            format!("\t\tMixed with transactions: {mixed} files ("),
            format!("\t{} read (", units["files read"]),
            format!("\t{} appended (", units["files appended"]),
            format!("\t{} deleted (", last + deleted),
            format!("\t\tDeletion alone: {last} files ("),
            format!("\t\tMixed with transactions: {deleted} files ("),
            format!("\t{} read (", bytes(units["read bytes"])),
            format!("\t{} written (", bytes(units["written bytes"])),
        ] {
            assert!(report.contains(&line), "no '{line}'\n{text}{report}");
        }
        let model_calls = calls_of_ops(work.as_ref(), locations);
        let differs =
            model_calls.iter().zip(&calls).position(|(model_calls, real)| model_calls != real);
        if let Some(index) = differs {
            let around = |calls: &[String]| {
                calls[index.saturating_sub(3)..calls.len().min(index + 3)].to_vec()
            };
            panic!("case {case}\n{text}ours {:?}\nreal {:?}", around(&model_calls), around(&calls));
        }
        assert_eq!(model_calls.len(), calls.len(), "{text}");
        for call in calls {
            *seen.entry(call.split(' ').next().unwrap().to_string()).or_default() += 1;
        }
        reported += 1;
    }
    eprintln!("{reported} equal runs, {ran_out} runs out of files in both; calls {seen:?}");
    assert!(
        reported * 12 >= cases * 5 && ran_out > 0,
        "{reported} reports, {ran_out} ran out of files"
    );
    assert_eq!(seen.len(), 8, "each call was seen: {seen:?}");
}
