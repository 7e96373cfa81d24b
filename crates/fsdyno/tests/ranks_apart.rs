//! Processes that share a trial as if on several hosts: with another clock, and on a network that fails.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{PROGRAM, code, fsdyno, full, records, skipped, stderr, stdout};
use serde_json::Value;

/// Seconds by which the clock of the last rank is ahead.
const AHEAD: i64 = 1_000_000;

fn can_unshare(what: &[&str]) -> bool {
    let result = Command::new("unshare").args(what).arg("true").stderr(Stdio::null()).status();
    let can = result.is_ok_and(|status| status.success());
    if !can {
        skipped(&format!("'unshare {}' is not possible here", what.join(" ")));
    }
    can
}

#[test]
fn the_clock_of_a_rank_is_measured_and_all_times_are_by_the_clock_of_rank_0() {
    let ahead = AHEAD.to_string();
    let apart =
        ["--time", "--monotonic", &ahead, "--boottime", &ahead, "--fork", "--kill-child", "--"];
    if !can_unshare(&apart) {
        return;
    }
    let (on, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = |rank: u32| {
        // The environment and the folder of the tests' usual runs.
        let template = fsdyno(out.path());
        let mut command = Command::new(if rank == 2 { "unshare" } else { PROGRAM });
        if rank == 2 {
            command.args(apart).arg(PROGRAM);
        }
        for (name, value) in template.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.args(["run", "dirops", "--set", "files=900", "--ranks", "--out", "r", "--on"]);
        command.arg(on.path()).current_dir(out.path()).stdin(Stdio::null());
        command.env("FSDYNO_RANK", rank.to_string()).env("FSDYNO_RANKS", "3");
        command.env("FSDYNO_RUN", "test").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..3).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let trial = records(&out.path().join("r")).remove(0);
    for phase in trial["measured"]["ranks"]["phases"].as_array().unwrap() {
        let value_of = |rank: usize, key: &str| phase["ranks"][rank][key].as_i64().unwrap();
        for rank in [0, 1] {
            assert_eq!(
                [value_of(rank, "clock_offset_ns"), value_of(rank, "clock_uncertainty_ns")],
                [0, 0]
            );
        }
        let uncertainty = value_of(2, "clock_uncertainty_ns");
        let error = value_of(2, "clock_offset_ns") - AHEAD * 1_000_000_000;
        assert!(0 < uncertainty && error.abs() <= uncertainty, "{error} ± {uncertainty}");
        // A time by the wrong clock would be off by days.
        for key in ["skew_ns", "last_done_ns"] {
            assert!(phase[key].as_i64().unwrap() < 600_000_000_000, "{phase}");
        }
    }
    assert!(is_empty(on.path()));
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() == 0
}

/// A script of two ranks in separate network namespaces, whose link is cut while they work. It prints their exit codes.
const CUT: &str = r#"
unshare --net sleep 300 & peer=$!
trap 'kill $peer' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link set lo up
ip link add one type veth peer name two netns $peer
ip address add 10.9.0.1/24 dev one
ip link set one up
nsenter --net=/proc/$peer/ns/net sh -euc 'ip address add 10.9.0.2/24 dev two; ip link set two up'
FSDYNO_RANK=0 "$@" >first.out 2>first.err & first=$!
FSDYNO_RANK=1 nsenter --net=/proc/$peer/ns/net "$@" >second.out 2>second.err & second=$!
tries=0
until ls -d "$ON"/.fsdyno-*/root/d >/dev/null 2>&1; do
    tries=$((tries + 1)); [ $tries -lt 1200 ]; sleep 0.05
done
sleep 1
ip link set one down
wait $first || echo "first $?"
wait $second || echo "second $?"
"#;

#[test]
fn when_the_network_fails_both_sides_end_and_name_the_other_and_nothing_is_left() {
    if !full() {
        skipped("it waits for half a minute; FSDYNO_TEST=full runs it");
        return;
    }
    if !can_unshare(&["--net"]) {
        return;
    }
    let (on, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let template = fsdyno(out.path());
    let mut command = Command::new("timeout");
    command.args(["200", "unshare", "--net", "sh", "-euc", CUT, "sh", PROGRAM, "run", "dirops"]);
    for (name, value) in template.get_envs() {
        value.map(|value| command.env(name, value));
    }
    command.args(["--set", "files=3000000", "--ranks", "--out", "r", "--on"]).arg(on.path());
    command.env("ON", on.path()).env("FSDYNO_RANKS", "2").env("FSDYNO_RUN", "test");
    let started = Instant::now();
    let output: Output = command.current_dir(out.path()).stdin(Stdio::null()).output().unwrap();
    let text = |name: &str| {
        let text = std::fs::read_to_string(out.path().join(name)).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let [first, second] =
        ["first", "second"].map(|who| text(&format!("{who}.out")) + &text(&format!("{who}.err")));
    let exit_codes = stdout(&output);
    assert!(
        exit_codes.ends_with("first 4\nsecond 4\n"),
        "{exit_codes} {}: {first}; {second}",
        stderr(&output)
    );
    assert!(first.contains("rank 1 on") && first.contains("no sign of life for 10 s"), "{first}");
    assert!(second.contains("rank 0 on") && second.contains("network is down"), "{second}");
    assert!(started.elapsed() < Duration::from_secs(150));
    assert!(is_empty(on.path()));
    let trial: Value = records(&out.path().join("r")).remove(0);
    assert_eq!(trial["outcome"], "failed", "{trial}");
}
