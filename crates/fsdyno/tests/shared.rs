//! Shared file systems of this host (GlusterFS, MooseFS, sshfs), each mounted four times in separate namespaces by the
//! example of the documents, with eight ranks that MPICH starts. With FSDYNO_TEST=full, as root, where they are
//! installed.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{PROGRAM, code, full, is_installed, records, skipped, stderr, stdout, wait_until};
use serde_json::Value;

/// The example of the documents.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shared");

/// The variable by which the processes of a test are found; the daemons inherit it.
const MARK: &str = "FSDYNO_TEST_OF_SHARED";

/// One file system at a time: together they would need more memory and time than a small machine has.
static ONE: Mutex<()> = Mutex::new(());

/// Returns the programs of a file system, with their packages.
fn programs(kind: &str) -> &'static [(&'static str, &'static str)] {
    match kind {
        "gluster" => &[("glusterd", "glusterfs-server"), ("glusterfs", "glusterfs-client")],
        "moosefs" => &[
            ("mfsmaster", "moosefs-master"),
            ("mfschunkserver", "moosefs-chunkserver"),
            ("mfsmount", "moosefs-client"),
        ],
        _ => &[("sshfs", "sshfs"), ("sshd", "openssh-server")],
    }
}

/// Reserves the machine for a test; otherwise prints why the test does not run.
fn reserve_machine(kind: &str) -> Option<MutexGuard<'static, ()>> {
    if !full() {
        skipped("a long test; FSDYNO_TEST=full runs it");
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        skipped("file systems are mounted as root");
        return None;
    }
    let launcher = ("mpiexec.mpich", "mpich");
    let needed = programs(kind).iter().copied().chain([launcher, ("ip", "iproute2")]);
    for (program, package) in needed {
        if !is_installed(program) {
            skipped(&format!("{program} is not installed ({package})"));
            return None;
        }
    }
    Some(ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A result folder, and the word that marks the processes of its test.
struct Place {
    out: tempfile::TempDir,
    mark: String,
}

impl Place {
    fn new() -> Place {
        let out = tempfile::tempdir().unwrap();
        let mark = out.path().file_name().unwrap().to_string_lossy().into_owned();
        Place { out, mark }
    }

    /// Starts a script of sh(1) with the file system mounted four times.
    fn start(&self, kind: &str, script: &str) -> Child {
        Command::new(Path::new(EXAMPLE).join("mounts.sh"))
            .args([kind, "4", "sh", "-euc", script])
            .env(MARK, &self.mark)
            .env("COLUMNS", "100")
            .current_dir(self.out.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, kind: &str, script: &str) -> Output {
        let output = self.start(kind, script).wait_with_output().unwrap();
        self.wait_for_the_end();
        output
    }

    /// Returns the only trial.
    fn trial(&self) -> Value {
        let trials = records(&self.out.path().join("r"));
        assert_eq!(trials.len(), 1);
        trials[0].clone()
    }

    /// Returns the processes of the test on this host.
    fn processes(&self) -> Vec<String> {
        let word = format!("{MARK}={}", self.mark);
        let has_word = |folder: &Path| {
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
        };
        let folders = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let names = folders.filter(|folder| has_word(folder));
        let name = |folder: std::path::PathBuf| fs::read_to_string(folder.join("comm"));
        names.filter_map(|folder| name(folder).ok()).map(|name| name.trim().into()).collect()
    }

    /// Waits until no process is left; the mounts end with the namespace of the processes.
    fn wait_for_the_end(&self) {
        wait_until(&format!("the end of {:?}", self.processes()), || self.processes().is_empty());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains("/run/shared"), "{mounts}");
    }
}

/// Returns the command of a run of eight ranks, with the result in `r`.
fn ranks(args: &str) -> String {
    format!("mpiexec.mpich -n 8 '{EXAMPLE}/rank.sh' '{PROGRAM}' run {args} --out r --ranks")
}

/// Asserts that all ranks, on four clients, saw the changes of the others, and that every count is exact.
fn check(trial: &Value, files: u64) {
    assert_eq!(trial["outcome"], "ok", "{}", trial["reason"]);
    let measured = &trial["measured"];
    let members = measured["ranks"]["members"].as_array().unwrap();
    let clients: Vec<u64> = members.iter().map(|one| one["client"].as_u64().unwrap()).collect();
    assert_eq!(clients, [0, 1, 2, 3, 0, 1, 2, 3]);
    for (phase, kind) in ["create", "stat", "unlink"].iter().enumerate() {
        assert_eq!(measured["phases"][phase]["ops"][kind]["count"], files, "{kind}");
    }
    let phases = measured["ranks"]["phases"].as_array().unwrap();
    for phase in phases.iter().filter(|phase| phase["name"] != "stat") {
        let views = phase["views"].as_array().unwrap();
        assert_eq!(views.len(), 4, "a client did not read the tree: {phase}");
        let created = if phase["name"] == "create" { files } else { 0 };
        for view in views {
            assert_eq!(view["files"], created, "{phase}");
            let differences =
                ["missing", "extra", "wrong"].map(|key| view[key].as_u64().unwrap_or(0));
            assert_eq!(differences, [0; 3], "{phase}");
        }
    }
}

/// Runs a trial in which one client creates files, the next looks them up and a third removes them; all four verify
/// them.
fn assert_clients_share(kind: &str) {
    let Some(_machine) = reserve_machine(kind) else { return };
    let place = Place::new();
    let args = "dirops --set files=803 --set size=300 --set stat=yes --shift 1";
    let output = place.run(kind, &(ranks(args) + "\nls -A /run/shared/mnt.1"));
    assert_eq!(code(&output), 0, "{} {}", stdout(&output), stderr(&output));
    check(&place.trial(), 803);
    assert!(!stdout(&output).contains(".fsdyno-"), "{}", stdout(&output));
}

#[test]
fn on_gluster_each_client_sees_the_changes_of_the_others() {
    assert_clients_share("gluster");
}

#[test]
fn on_moosefs_each_client_sees_the_changes_of_the_others() {
    assert_clients_share("moosefs");
}

#[test]
fn on_sshfs_each_client_sees_the_changes_of_the_others() {
    assert_clients_share("sshfs");
}

/// A long workload with few files, so that its directory is removed quickly.
const LONG: &str = "churn --set files=400 --set directories=8 --set rate=400 --set ops=10000000";

/// Returns a script that starts a long run, executes `then` once the ranks churn (the phase before makes no file whose
/// name ends with 1), and waits for its end with a generous limit.
fn disturbing_script(then: &str) -> String {
    format!(
        "{} & run=$!\n\
         daemon() {{ pgrep -f \"(sshfs|glusterfs|mfsmount) .*mnt[.]$1\"; }}\n\
         worker() {{ for one in $(pgrep -f rank-worker); do\n\
         if tr '\\0' '\\n' </proc/$one/environ | grep -qx \"PMI_RANK=$1\"; then echo $one; fi; done; }}\n\
         until ls /run/shared/mnt.0/.fsdyno-*/root/d*/f*.1 >/dev/null 2>&1; do kill -0 $run; sleep 0.2; done\n\
         {then}\n\
         timeout 400 tail --pid=$run -f /dev/null || {{ echo 'the run does not end' >&2; exit 99; }}\n\
         code=0; wait $run || code=$?\n\
         ls -A /run/shared/mnt.2\nexit $code",
        ranks(LONG)
    )
}

#[test]
fn a_file_system_that_is_killed_during_a_run_leaves_no_process_and_no_mount() {
    let Some(_machine) = reserve_machine("gluster") else { return };
    let place = Place::new();
    let mut child = place.start("gluster", &disturbing_script("touch working"));
    wait_until("files", || place.out.path().join("working").exists());
    let processes = place.processes();
    for name in ["glusterd", "glusterfsd", "fsdyno"] {
        assert!(processes.iter().any(|one| one.starts_with(name)), "{name}: {processes:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.wait_for_the_end();
}

/// Disturbs a run on `kind`. Returns its output, and whether its directory is removed.
fn run_disturbed(kind: &str, then: &str) -> Option<(String, bool)> {
    let _machine = reserve_machine(kind)?;
    let place = Place::new();
    let output = place.run(kind, &disturbing_script(then));
    let printed = stdout(&output) + &stderr(&output);
    assert_eq!(code(&output), 4, "{printed}");
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let removed = !stdout(&output).lines().any(|line| line.starts_with(".fsdyno-"));
    Some((printed, removed))
}

/// Returns true if a message has the error of a call on a FUSE mount whose daemon is gone, for a call in progress or a
/// later one.
fn is_gone(printed: &str) -> bool {
    ["Software caused connection abort", "Transport endpoint is not connected"]
        .iter()
        .any(|error| printed.contains(error))
}

#[test]
fn a_mount_whose_daemon_is_killed_ends_the_run_with_rank_call_and_error() {
    let Some((printed, removed)) = run_disturbed("gluster", "kill -9 $(daemon 1)") else { return };
    let named = printed.contains("rank 1 on localhost") || printed.contains("rank 5 on localhost");
    assert!(named && is_gone(&printed), "{printed}");
    assert!(removed, "{printed}");
}

#[test]
fn without_the_mount_of_rank_0_the_run_reports_what_remains_and_how_to_remove_it() {
    let Some((printed, removed)) = run_disturbed("sshfs", "kill -9 $(daemon 0)") else { return };
    assert!(is_gone(&printed), "{printed}");
    assert!(!removed && printed.contains("fsdyno doctor --clean /run/shared/mnt.0"), "{printed}");
}

#[test]
fn a_worker_that_is_stopped_ends_the_run_and_its_own_process_and_is_named() {
    let Some((printed, removed)) = run_disturbed("sshfs", "kill -STOP $(worker 3)") else { return };
    assert!(printed.contains("rank 3 on localhost"), "{printed}");
    assert!(printed.contains("no sign of life for 10 s") && removed, "{printed}");
}

#[test]
fn a_mount_that_hangs_ends_the_run_after_two_minutes_and_a_rank_on_it_is_named() {
    let Some((printed, removed)) = run_disturbed("sshfs", "kill -STOP $(daemon 1)") else { return };
    let named = printed.contains("rank 1 on localhost") || printed.contains("rank 5 on localhost");
    assert!(named && printed.contains("has completed nothing for 120 s"), "{printed}");
    assert!(removed, "{printed}");
}
