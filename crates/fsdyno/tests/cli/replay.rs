//! Replays in a directory, through the command line.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::path::Path;
use std::process::Output;

use fsdyno_trace::{At, Builder, Call, Item, Kind, Name, StatKind, Target, XattrName};
use serde_json::Value;

use crate::common::lab::trials;
use crate::common::{code, fsdyno, run, stderr};

/// O_WRONLY and O_CREAT.
const CREATE: u32 = 0o101;

/// A folder with the trace it.trace and an empty folder `on`.
fn folder(trace: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("on")).unwrap();
    std::fs::write(folder.path().join("it.trace"), trace).unwrap();
    folder
}

fn replay(folder: &Path) -> Output {
    run(folder, "run replay --set trace=it.trace --on on --out out")
}

/// Returns all notes of the only trial.
fn notes(folder: &Path) -> String {
    trials(&folder.join("out")).remove(0)["conditions"]["notes"].to_string()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Every path below a folder.
fn paths_below(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        all.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            all.extend(paths_below(&entry.path()));
        }
    }
    all.sort();
    all
}

/// A script whose processes create files.
const SCRIPT: &str = "mkdir d; (echo one >d/a; cat d/a >d/b) & (echo two >d/c; mv d/c d/e) & wait; \
                      ln d/a d/hard; ls d; rm d/b";

#[test]
fn a_recorded_script_is_replayed_in_a_directory_with_every_result_compared() {
    record_and_replay("auto");
}

#[test]
fn a_script_recorded_by_bpf_is_replayed_in_a_directory_with_every_result_compared() {
    if has_bpf() {
        record_and_replay("bpf");
    }
}

/// Returns true if this host can record by BPF; otherwise prints the reason.
fn has_bpf() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "record --how bpf -o it.trace -- true");
    if code(&output) != 0 {
        eprintln!("skipped: {}", stderr(&output));
    }
    code(&output) == 0
}

fn record_and_replay(how: &str) {
    let folder = folder(b"");
    std::fs::remove_file(folder.path().join("it.trace")).unwrap();
    let args = ["record", "--how", how, "-o", "../it.trace", "--", "sh", "-c", SCRIPT];
    let recorded = fsdyno(&folder.path().join("on")).args(args).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", stderr(&recorded));
    std::fs::remove_dir_all(folder.path().join("on/d")).unwrap();
    let output = replay(folder.path());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial: Value = trials(&folder.path().join("out")).remove(0);
    let ops = &trial["measured"]["phases"][0]["ops"];
    assert_eq!((&ops["mkdir"]["count"], &ops["link"]["count"]), (&1.into(), &1.into()), "{ops}");
    let notes = notes(folder.path());
    assert!(notes.contains("every replayed call had the recorded result"), "{notes}");
    assert_eq!(paths_below(&folder.path().join("on")), [""; 0]);
}

#[test]
fn a_process_that_already_runs_is_recorded_and_replayed() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    if !has_bpf() {
        return;
    }
    let folder = folder(b"");
    let on = folder.path().join("on");
    let mut shell = Command::new("sh")
        .current_dir(&on)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    writeln!(&input, "mkdir old; echo 12345 >old/file; exec 7>>old/file; echo ready").unwrap();
    assert_eq!(output.next().unwrap().unwrap(), "ready");
    let pid = shell.id().to_string();
    let mut recorder = fsdyno(folder.path());
    recorder.args(["record", "--pid", &pid, "--seconds", "5", "-o", "it.trace"]);
    let mut recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    let printed = BufReader::new(recorder.stderr.take().unwrap());
    let mut printed = printed.lines();
    assert_eq!(
        printed.next().unwrap().unwrap(),
        format!("fsdyno: recording process {pid}; Ctrl-C ends the recording")
    );
    writeln!(&input, "echo more >&7; {SCRIPT}; cat old/file >new; echo done").unwrap();
    assert!(output.any(|line| line.unwrap() == "done"));
    let printed: Vec<String> = printed.map(Result::unwrap).collect();
    assert!(recorder.wait().unwrap().success(), "{printed:?}");
    drop(input);
    assert!(shell.wait().unwrap().success());
    std::fs::remove_dir_all(&on).unwrap();
    std::fs::create_dir(&on).unwrap();
    let output = replay(folder.path());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let notes = notes(folder.path());
    assert!(notes.contains("every replayed call had the recorded result"), "{notes}");
    let trial: Value = trials(&folder.path().join("out")).remove(0);
    let ops = &trial["measured"]["phases"][0]["ops"];
    assert_eq!((&ops["mkdir"]["count"], &ops["link"]["count"]), (&1.into(), &1.into()), "{ops}");
}

#[test]
fn a_damaged_or_truncated_trace_is_refused_with_its_offset_before_any_work() {
    let mut trace = Builder::new();
    let main = Builder::MAIN;
    for at in 0..200 {
        let (_, file) = trace.create(main, Builder::ROOT, &format!("file{at}"), CREATE);
        trace.write(main, file, 1000 + at);
        trace.close(main, file);
    }
    let whole = trace.finish().unwrap();
    let (mut version, mut damaged) = (whole.clone(), whole.clone());
    version[8] = 77;
    damaged[whole.len() / 2] ^= 0x10;
    for (bytes, message) in [
        (&b"this is some text"[..], "at byte 0: this is not a trace of fsdyno"),
        (b"", "at byte 0: this is not a trace of fsdyno"),
        (&version, "at byte 0: the trace has version 77 of the format"),
        (&whole[..whole.len() - 10], ": the trace is truncated; the "),
        (&damaged, ": the checksum does not match: the trace is damaged"),
    ] {
        let folder = folder(bytes);
        let output = replay(folder.path());
        let printed = stderr(&output);
        assert_eq!(code(&output), 2, "{printed}");
        assert!(
            printed.contains("--set trace=it.trace: at byte ") && printed.contains(message),
            "{printed}"
        );
        assert_eq!(paths_below(&folder.path().join("on")), [""; 0]);
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn no_path_of_a_trace_leads_out_of_the_directory_of_the_trial() {
    // A name of two bytes that does not recur in such a short trace, so that it is not compressed.
    let mut trace = Builder::new();
    let (_, file) = trace.create(Builder::MAIN, Builder::ROOT, "Qz", CREATE);
    trace.close(Builder::MAIN, file);
    for outside in ["..", "./", "/e"] {
        let bytes = with_name(&trace.finish().unwrap(), b"Qz", outside.as_bytes());
        let folder = folder(&bytes);
        let output = replay(folder.path());
        let printed = stderr(&output);
        assert_eq!(code(&output), 2, "{outside}: {printed}");
        assert!(printed.contains("at byte ") && printed.contains("invalid name"), "{printed}");
    }
}

/// Returns the trace with one name replaced by another of equal length, and the checksum of its frame corrected
/// (docs/trace-format.md).
fn with_name(trace: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = trace.to_vec();
    let mut at = 12;
    let mut changed = 0;
    while at < bytes.len() {
        let stored = u32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
        let (head, body) = (at, at + 13..at + 13 + stored);
        let found = bytes[body.clone()].windows(old.len()).position(|it| it == old);
        if let Some(found) = found {
            bytes[body.start + found..][..new.len()].copy_from_slice(new);
            let summed = [&bytes[head..head + 9], &bytes[body.clone()]].concat();
            bytes[head + 9..head + 13].copy_from_slice(&crc32(&summed).to_le_bytes());
            changed += 1;
        }
        at = body.end;
    }
    assert_eq!(changed, 1);
    bytes
}

/// CRC-32 of ISO-HDLC, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 }
        })
    })
}

#[test]
fn a_symbolic_link_of_a_trace_leads_nowhere_and_is_not_a_directory() {
    let (root, main) = (Builder::ROOT, Builder::MAIN);
    let with_link = || {
        let mut trace = Builder::new();
        let link = trace.entry(root, "link", Kind::Symlink, 40);
        (trace, link)
    };
    let (mut through, link) = with_link();
    through.create(main, link, "file", CREATE);
    let refused = folder(&through.finish().unwrap());
    let printed = stderr(&replay(refused.path()));
    assert!(
        printed.contains("at byte ") && printed.contains("used as a directory but is not one"),
        "{printed}"
    );

    // Whatever the recorded target was, the link that the replay creates points to a name that does not exist.
    let (mut followed, link) = with_link();
    let at = At::new(root, name("link"), Some(link));
    let stat = Call::Stat { target: Target::At(at), stat: StatKind::Stat };
    followed.call(main, stat, -2);
    let folder = folder(&followed.finish().unwrap());
    let output = replay(folder.path());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let notes = notes(folder.path());
    assert!(notes.contains("1 of 1 recorded calls are replayed"), "{notes}");
    assert!(notes.contains("every replayed call had the recorded result"), "{notes}");
}

#[test]
fn on_the_file_system_of_the_recording_another_result_fails_the_trial_and_elsewhere_it_is_listed() {
    let made = |file_system: &str| {
        let mut trace = Builder::new();
        if let Some(Item::Root(root)) = trace.items().first_mut() {
            root.file_system = file_system.into();
        }
        let node = trace.file(Builder::ROOT, "old", 100);
        let target = || Target::At(At::new(Builder::ROOT, name("old"), Some(node)));
        // The attribute is set, but the recorded program did not find it.
        let text: XattrName = b"user.a"[..].into();
        let set = Call::Setxattr { target: target(), name: text.clone(), size: 4, flags: 0 };
        trace.call(Builder::MAIN, set, 0);
        trace.call(Builder::MAIN, Call::Getxattr { target: target(), name: text, size: 0 }, -61);
        folder(&trace.finish().unwrap())
    };
    let elsewhere = made("no-such-fs");
    let output = replay(elsewhere.path());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let trial = trials(&elsewhere.path().join("out")).remove(0);
    let listed = trial["conditions"]["notes"].to_string();
    assert!(listed.contains("the recording is from another file system"), "{listed}");
    let mount = trial["conditions"]["mount"].as_str().unwrap();
    let same = made(mount.split(' ').next().unwrap());
    let output = replay(same.path());
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(
        printed.contains("returned a result other than the recorded one; 1 getxattr calls"),
        "{printed}"
    );
}
