//! A Slurm cluster with one node, made for the test: ranks started by srun, and the example of shards as a job array.
//! With FSDYNO_TEST=full, as root, where Slurm and munge are installed.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{
    PROGRAM, can_run_the_lab, code, full, is_installed, records, skipped, stderr, stdout,
};

/// The example of the documents.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm");

fn can_run() -> bool {
    if !full() {
        return skipped("a long test; FSDYNO_TEST=full runs it");
    }
    if !rustix::process::geteuid().is_root() {
        return skipped("a cluster is started as root");
    }
    let needed = ["munged", "slurmctld", "slurmd", "srun", "sbatch"];
    match needed.into_iter().find(|program| !is_installed(program)) {
        Some(missing) => skipped(&format!("{missing} is not installed (slurm-wlm, munge)")),
        None => true,
    }
}

/// A cluster on this machine; its daemons end when it is dropped.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in ["state", "spool"] {
            fs::create_dir(at.join(name)).unwrap();
        }
        let mut key = vec![0; 1024];
        rustix::rand::getrandom(&mut key[..256], rustix::rand::GetRandomFlags::empty()).unwrap();
        fs::write(at.join("key"), key).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(at.join("key"), mode).unwrap();
        fs::write(at.join("slurm.conf"), config(at, free_ports())).unwrap();
        let mut cluster = Cluster { folder, daemons: Vec::new() };
        let path = |name: &str| cluster.folder.path().join(name).display().to_string();
        let munged = [
            "--foreground".to_string(),
            "--force".to_string(),
            format!("--socket={}", path("munge.socket")),
            format!("--key-file={}", path("key")),
            format!("--pid-file={}", path("munged.pid")),
            format!("--log-file={}", path("munged.log")),
            format!("--seed-file={}", path("seed")),
        ];
        cluster.daemon("munged", &munged);
        cluster.wait(|cluster| cluster.folder.path().join("munge.socket").exists());
        let foreground = ["-D".to_string(), "-c".to_string()];
        cluster.daemon("slurmctld", &foreground);
        cluster.daemon("slurmd", &foreground);
        cluster.wait(|cluster| {
            let nodes = cluster.command("sinfo").args(["-h", "-o", "%t"]).output().unwrap();
            stdout(&nodes).trim() == "idle"
        });
        cluster
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let folders = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{folders}:/usr/sbin:/sbin"))
            .env("SLURM_CONF", self.folder.path().join("slurm.conf"))
            .env("COLUMNS", "100")
            .stdin(Stdio::null());
        command
    }

    fn daemon(&mut self, program: &str, args: &[String]) {
        let log = fs::File::create(self.folder.path().join(format!("{program}.out"))).unwrap();
        let mut command = self.command(program);
        let command = command.args(args).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    fn wait(&self, condition: impl Fn(&Cluster) -> bool) {
        let started = Instant::now();
        while !condition(self) {
            let log = |name: &str| fs::read_to_string(self.folder.path().join(name));
            let logs = ["munged.out", "slurmctld.out", "slurmd.out"].map(|name| log(name).ok());
            assert!(started.elapsed() < Duration::from_secs(900), "the cluster: {logs:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The node's daemon ends first, because it ends its jobs.
        for daemon in self.daemons.iter_mut().rev() {
            let pid = rustix::process::Pid::from_child(daemon);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let started = Instant::now();
            while daemon.try_wait().is_ok_and(|ended| ended.is_none()) {
                if started.elapsed() > Duration::from_secs(20) {
                    let _ = daemon.kill();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn free_ports() -> [u16; 2] {
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners = [listen(), listen()];
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn config(at: &Path, [control, node]: [u16; 2]) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = name.split('.').next().unwrap_or_default().to_string();
    let cpus = std::thread::available_parallelism().unwrap();
    let at = at.display();
    format!(
        "ClusterName=test\nSlurmctldHost={name}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
         AuthInfo=socket={at}/munge.socket\nCredType=cred/munge\nSlurmctldPort={control}\nSlurmdPort={node}\n\
         SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\nStateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
         ReturnToService=2\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
         AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
         NodeName={name} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 State=UNKNOWN\n\
         SlurmdParameters=config_overrides\n\
         PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP\n"
    )
}

#[test]
fn srun_starts_ranks_that_share_each_trial() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::start();
    let (on, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |mpi: &str| -> Output {
        let mut srun = cluster.command("srun");
        srun.args([
            "-n",
            "4",
            "--overcommit",
            mpi,
            PROGRAM,
            "run",
            "dirops",
            "--set",
            "files=2001",
        ]);
        srun.arg("--on").arg(on.path()).arg("--out").arg(out.path().join("r")).arg("--ranks");
        srun.current_dir(out.path()).output().unwrap()
    };
    for mpi in ["--mpi=none", "--mpi=pmi2"] {
        let output = run(mpi);
        assert_eq!(code(&output), 0, "{mpi}: {}", stderr(&output));
        let trials = records(&out.path().join("r"));
        let ranks = &trials[0]["measured"]["ranks"];
        assert_eq!(ranks["members"].as_array().unwrap().len(), 4);
        assert_eq!(trials[0]["measured"]["phases"][0]["ops"]["create"]["count"], 2001);
        assert_eq!(fs::read_dir(on.path()).unwrap().count(), 0);
        fs::remove_dir_all(out.path().join("r")).unwrap();
    }
}

#[test]
fn the_example_of_shards_runs_as_a_job_array_and_equals_the_whole_run() {
    if !can_run() || !can_run_the_lab() {
        return;
    }
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["share.sh", "merge.sh", "submit.sh"] {
        fs::copy(Path::new(EXAMPLE).join(name), at(name)).unwrap();
    }
    // As the documents describe, only the arguments of the run and the size of the array differ.
    let share = fs::read_to_string(at("share.sh")).unwrap();
    assert!(share.contains("--array=1-8"));
    fs::write(at("share.sh"), share.replace("--array=1-8", "--array=1-3")).unwrap();
    const ARGS: &str = "dirops --fs ext2 --fs ext4 --disk instant --repeat 2 --set files=50";
    let results = at("results");
    let study = format!("FSDYNO='{PROGRAM}'\nRESULTS='{}'\nset -- {ARGS}\n", results.display());
    fs::write(at("study.sh"), study).unwrap();
    let cache = fsdyno_lab::Cache::of_user().unwrap().path().parent().unwrap().to_path_buf();
    let mut submit = cluster.command("sh");
    submit.arg("submit.sh").current_dir(folder.path()).env("XDG_CACHE_HOME", &cache);
    let submitted = submit.output().unwrap();
    assert_eq!(code(&submitted), 0, "{}", stderr(&submitted));
    cluster.wait(|cluster| {
        let jobs = cluster.command("squeue").arg("-h").output().unwrap();
        code(&jobs) == 0 && stdout(&jobs).trim().is_empty()
    });
    let log = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    let logs: Vec<String> = (1..4).map(|share| log(&format!("share-{share}.log"))).collect();
    let merged = records(&results.join("whole"));
    assert_eq!(merged.len(), 4, "{logs:?} {}", log("merge.log"));
    let mut alone = Command::new(PROGRAM);
    alone.args(["run"]).args(ARGS.split_whitespace()).arg("--out").arg(at("alone"));
    alone.current_dir(folder.path()).env("XDG_CACHE_HOME", &cache).stdin(Stdio::null());
    let output = alone.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for (one, other) in merged.iter().zip(records(&at("alone"))) {
        assert_eq!((&one["plan"], &one["measured"]), (&other["plan"], &other["measured"]));
    }
}
