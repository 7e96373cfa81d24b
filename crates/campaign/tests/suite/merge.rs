//! Tests of merges: shares that are refused, duplicates, and conflicts.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fsdyno_campaign::{
    Cell, DEFAULT_DEADLINE, MergeError, Shard, ShareError, ShareFile, Slot, Store, merge, schedule,
};
use fsdyno_record::plan::{
    DiskPlan, IssuerPlan, LabPlan, MediumPlan, VenuePlan, VerifyMode, WorkloadPlan,
};
use fsdyno_record::series::{PhaseSeries, Series};
use fsdyno_record::trial::{Outcome, Phase, Trial, trial_id};
use fsdyno_record::{Bytes, Nanos, Plan, SCHEMA};

const SEEDS: u32 = 4;

fn cell(label: &str, (medium, venue): (MediumPlan, VenuePlan)) -> Cell {
    let plan = Plan {
        label: label.into(),
        workload: WorkloadPlan { name: "dirops".into(), params: Default::default(), input: None },
        filesystem: None,
        medium,
        venue,
        threads: 1,
        issuer: IssuerPlan::Sync,
        verify: VerifyMode::Full,
        sysctls: Default::default(),
        hash: String::new(),
    };
    let (needs, phases) = (Default::default(), Vec::new());
    Cell { row: 0, plan: plan.with_hash(), needs, phases, skip: None, deadline: DEFAULT_DEADLINE }
}

fn lab(spec: &str) -> (MediumPlan, VenuePlan) {
    let disk = DiskPlan { name: "d".into(), spec: spec.into() };
    let lab = LabPlan::new("6.1", Bytes(1 << 30));
    (MediumPlan::Modelled(disk.into()), VenuePlan::Lab(lab))
}

fn cells() -> Vec<Cell> {
    vec![cell("a", lab("1")), cell("b", lab("2"))]
}

fn host_cells() -> Vec<Cell> {
    vec![cell("here", (MediumPlan::Directory { path: "/srv".into() }, VenuePlan::Host))]
}

/// Returns the trial of a cell and seed, the same wherever it runs.
fn trial(cells: &[Cell], slot: &Slot) -> Trial {
    let plan = cells[slot.cell].plan.clone();
    let returned_ns = Nanos(1000 * slot.seed + slot.cell as u64);
    let mut trial = Trial {
        schema: SCHEMA,
        trial_id: trial_id(&plan, slot.seed),
        lab_id: None,
        lab: Default::default(),
        seed: slot.seed,
        repeats: None,
        version: "1".into(),
        row: None,
        deadline_ns: None,
        outcome: Outcome::Ok,
        reason: None,
        plan,
        conditions: Default::default(),
        measured: Default::default(),
        host: Default::default(),
    };
    if trial.plan.in_lab() {
        trial.lab_id = Some(format!("lab of cell {}", slot.cell));
        trial.lab =
            [("agent", "one"), ("qemu", "7.2")].map(|(a, b)| (a.to_string(), b.to_string())).into();
    } else {
        trial.conditions.mount = "ext4 rw".into();
    }
    trial.measured.phases = vec![Phase { name: "create".into(), returned_ns, ..Phase::default() }];
    trial
}

/// Returns the time series of a trial, different from that of any other; `None` if the trial failed.
fn series(trial: &Trial) -> Option<Series> {
    let phase = PhaseSeries {
        name: "create".into(),
        interval_ns: Nanos(10_000_000),
        length_ns: Nanos(20_000_000),
        ops: vec![trial.seed, trial.measured.phases.first()?.returned_ns.0],
        ..PhaseSeries::default()
    };
    let series = Series::new(trial, vec![phase]);
    series.filter(|_| trial.outcome == Outcome::Ok)
}

struct Cluster {
    base: tempfile::TempDir,
    cells: Vec<Cell>,
}

impl Cluster {
    fn new(cells: Vec<Cell>) -> Cluster {
        Cluster { base: tempfile::tempdir().unwrap(), cells }
    }

    fn slots(&self) -> Vec<Slot> {
        schedule(self.cells.len(), SEEDS, 1)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Writes the folder of a share, whose trials `change` may modify or omit.
    fn share(
        &self,
        name: &str,
        shard: &str,
        change: impl Fn(usize, Trial) -> Option<Trial>,
    ) -> PathBuf {
        let folder = self.path(name);
        let shard: Shard = shard.parse().unwrap();
        let mut store = Store::open(&folder).unwrap();
        let share = ShareFile::new(shard, &self.slots(), &self.cells, format!("run {shard}"), None);
        share.claim(&store).unwrap();
        // The last trial ends first, as may happen with several workers.
        for (index, slot) in shard.of(&self.slots()).iter().enumerate().rev() {
            let mut trial = trial(&self.cells, slot);
            trial.host.started = format!("on the machine of {name}");
            if let Some(trial) = change(index, trial) {
                let series = series(&trial);
                store.append(trial, series).unwrap();
            }
        }
        folder
    }

    fn complete_share(&self, name: &str, shard: &str) -> PathBuf {
        self.share(name, shard, |_, trial| Some(trial))
    }

    fn complete(&self) -> Vec<Trial> {
        let row = |slot: &Slot| u32::try_from(slot.cell).ok();
        let trial = |slot: &Slot| Trial { row: row(slot), ..trial(&self.cells, slot) };
        self.slots().iter().map(trial).collect()
    }
}

fn without_host(trials: &[Trial]) -> Vec<Trial> {
    trials.iter().map(|trial| Trial { host: Default::default(), ..trial.clone() }).collect()
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn shares_in_any_order_merge_to_all_trials_in_the_order_of_the_schedule() {
    let cluster = Cluster::new(cells());
    let shares: Vec<PathBuf> = (1..=3)
        .map(|index| cluster.complete_share(&format!("s{index}"), &format!("{index}/3")))
        .collect();
    let out = cluster.path("out");
    let merged = merge(&out, &shares, false).unwrap();
    assert_eq!(without_host(&merged.trials), cluster.complete());
    assert_eq!((merged.missing.as_str(), merged.twice), ("", 0));
    let rows = merged.trials.iter().map(|trial| (trial.row, trial.plan.label.as_str()));
    let rows: BTreeSet<(Option<u32>, &str)> = rows.collect();
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), [(Some(0), "a"), (Some(1), "b")]);
    let stored = Store::open(&out).unwrap();
    assert_eq!(stored.trials(), merged.trials);
    let over_time: Vec<Series> = merged.trials.iter().filter_map(series).collect();
    assert_eq!(stored.series().unwrap(), over_time);
    assert_eq!(over_time.len(), merged.trials.len());
    let backwards: Vec<PathBuf> = shares.iter().rev().cloned().collect();
    merge(&cluster.path("other"), &backwards, false).unwrap();
    assert_eq!(files(&out), files(&cluster.path("other")));
}

#[test]
fn a_repeated_merge_changes_nothing_and_a_partial_one_can_be_continued() {
    let cluster = Cluster::new(cells());
    let (first, out) = (cluster.complete_share("s1", "1/2"), cluster.path("out"));
    let error = merge(&out, std::slice::from_ref(&first), false).unwrap_err().to_string();
    assert!(error.contains("share 2/2 (4 trials)"), "{error}");
    assert!(!out.exists(), "a merge that failed left a folder");
    let merged = merge(&out, &[first], true).unwrap();
    assert_eq!((merged.trials.len(), merged.missing.as_str()), (4, "share 2/2 (4 trials)"));
    let second = cluster.complete_share("s2", "2/2");
    let merged = merge(&out, std::slice::from_ref(&second), false).unwrap();
    assert_eq!(without_host(&merged.trials), cluster.complete());
    let before = files(&out);
    assert_eq!(merge(&out, &[second], false).unwrap().twice, 0);
    assert_eq!(files(&out), before);
}

#[test]
fn an_unfinished_share_is_reported_with_its_missing_trials() {
    let cluster = Cluster::new(cells());
    let first = cluster.complete_share("s1", "1/2");
    let second = cluster.share("s2", "2/2", |index, trial| (index != 1).then_some(trial));
    let error = merge(&cluster.path("out"), &[first, second], false).unwrap_err().to_string();
    assert!(error.contains("share 2/2 (1 of its 4 trials)"), "{error}");
}

#[test]
fn a_bit_identical_duplicate_of_a_share_counts_once() {
    let cluster = Cluster::new(cells());
    let shares = [
        cluster.complete_share("s1", "1/2"),
        cluster.complete_share("s2", "2/2"),
        cluster.complete_share("twin", "2/2"),
    ];
    let merged = merge(&cluster.path("out"), &shares, false).unwrap();
    assert_eq!(merged.twice, 4);
    assert_eq!(without_host(&merged.trials), cluster.complete());
    assert_eq!(merged.trials[1].host.started, "on the machine of s2");
}

#[test]
fn one_nanosecond_between_two_runs_of_a_trial_in_one_lab_is_an_error() {
    let cluster = Cluster::new(cells());
    let shares = [
        cluster.complete_share("s1", "1/2"),
        cluster.complete_share("s2", "2/2"),
        cluster.share("twin", "2/2", |index, mut trial| {
            trial.measured.phases[0].returned_ns.0 += u64::from(index == 2);
            Some(trial)
        }),
    ];
    let out = cluster.path("out");
    let error = merge(&out, &shares, false).unwrap_err();
    assert!(matches!(error, MergeError::Differs { .. }), "{error}");
    let text = error.to_string();
    for part in ["s2'", "twin'", "measured.phases.0.returned_ns", "(30", "DID NOT REPEAT"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!out.exists());
}

#[test]
fn a_success_elsewhere_supersedes_a_failure_of_the_same_trial() {
    let cluster = Cluster::new(cells());
    let failed = cluster.share("s2", "2/2", |_, mut trial| {
        trial.outcome = Outcome::Failed;
        trial.measured = Default::default();
        Some(trial)
    });
    let first = cluster.complete_share("s1", "1/2");
    let merged = merge(&cluster.path("bad"), &[first.clone(), failed.clone()], false).unwrap();
    assert_eq!(merged.trials.iter().filter(|trial| trial.outcome == Outcome::Failed).count(), 4);
    let again = cluster.complete_share("again", "2/2");
    let merged = merge(&cluster.path("good"), &[first, failed, again], false).unwrap();
    assert_eq!(without_host(&merged.trials), cluster.complete());
}

#[test]
fn two_labs_are_refused_with_their_differences() {
    let cluster = Cluster::new(cells());
    let first = cluster.complete_share("s1", "1/2");
    // A different QEMU, and only a different initramfs: the same trial would have a different identity.
    for (component, name, text) in
        [(Some("qemu"), "s2", "different: qemu"), (None, "s3", "the initramfs")]
    {
        let second = cluster.share(name, "2/2", |_, mut trial| {
            trial.lab_id = Some("another lab".into());
            component.map(|name: &str| trial.lab.insert(name.into(), "8".into()));
            Some(trial)
        });
        let error = merge(&cluster.path("out"), &[first.clone(), second], false).unwrap_err();
        assert!(matches!(error, MergeError::OtherPlace { .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn two_hosts_are_refused_and_so_is_a_trial_that_a_host_measured_twice() {
    let cluster = Cluster::new(host_cells());
    let first = cluster.complete_share("s1", "1/2");
    let elsewhere = cluster.share("s2", "2/2", |_, mut trial| {
        trial.conditions.mount = "xfs rw".into();
        Some(trial)
    });
    let error = merge(&cluster.path("out"), &[first.clone(), elsewhere], false).unwrap_err();
    assert!(error.to_string().contains("the mount is 'ext4 rw' and 'xfs rw'"), "{error}");
    let second = cluster.complete_share("s3", "2/2");
    let twin = cluster.share("s4", "2/2", |_, mut trial| {
        trial.measured.phases[0].returned_ns.0 += 1;
        Some(trial)
    });
    let shares = [first, second, twin];
    let error = merge(&cluster.path("out"), &shares, false).unwrap_err();
    assert!(matches!(error, MergeError::Twice { .. }), "{error}");
    assert_eq!(merge(&cluster.path("out"), &shares[..2], false).unwrap().trials.len(), 4);
}

#[test]
fn shares_of_two_commands_are_refused_with_their_first_difference() {
    let cluster = Cluster::new(cells());
    let first = cluster.complete_share("s1", "1/2");
    let mut other = Cluster::new(cells());
    other.cells[1] = cell("c", lab("3"));
    let second = other.complete_share("s2", "2/2");
    let error = merge(&cluster.path("out"), &[first, second], false).unwrap_err().to_string();
    assert!(error.contains("not shares of one command: trial "), "{error}");
    assert!(error.contains("run 1/2") && error.contains("run 2/2"), "{error}");
}

#[test]
fn folders_that_are_neither_shares_nor_merges_are_left_unchanged() {
    let cluster = Cluster::new(cells());
    let (first, second) =
        (cluster.complete_share("s1", "1/2"), cluster.complete_share("s2", "2/2"));
    let shares = [first.clone(), second];
    let unshared = cluster.path("unshared");
    Store::open(&unshared)
        .unwrap()
        .append(trial(&cluster.cells, &cluster.slots()[0]), None)
        .unwrap();
    let mine = cluster.path("mine");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("thesis"), "mine").unwrap();
    for folder in [&first, &unshared, &mine] {
        let before = files(folder);
        let error = merge(folder, &shares, false).unwrap_err().to_string();
        assert!(error.contains("new folder"), "{error}");
        assert_eq!(files(folder), before);
    }
    let error = merge(&cluster.path("out"), &[first, unshared], false).unwrap_err();
    assert!(error.to_string().contains("is not a share"), "{error}");
    let error = merge(&cluster.path("out"), &[cluster.path("nowhere")], false).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_running_share_is_refused_and_a_torn_line_is_reported() {
    let cluster = Cluster::new(cells());
    let shares = [cluster.complete_share("s1", "1/2"), cluster.complete_share("s2", "2/2")];
    let running = Store::open(&shares[1]).unwrap();
    let error = merge(&cluster.path("out"), &shares, false).unwrap_err();
    assert!(matches!(error, MergeError::InUse(_)), "{error}");
    drop(running);
    let path = shares[1].join(fsdyno_record::lines::FILE);
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    let merged = merge(&cluster.path("out"), &shares, true).unwrap();
    assert_eq!(merged.torn, [shares[1].clone()]);
    assert_eq!(merged.missing, "share 2/2 (1 of its 4 trials)");
}

#[test]
fn a_folder_stays_the_share_that_it_was_created_as() {
    let cluster = Cluster::new(cells());
    let folder = cluster.complete_share("s1", "1/2");
    let store = Store::open(&folder).unwrap();
    let share = |shard: &str, cells: &[Cell]| {
        ShareFile::new(shard.parse().unwrap(), &cluster.slots(), cells, String::new(), None)
    };
    share("1/2", &cluster.cells).claim(&store).unwrap();
    let text = |claimed: Result<(), ShareError>| claimed.unwrap_err().to_string();
    let error = text(share("2/2", &cluster.cells).claim(&store));
    assert!(error.contains("holds share 1/2, and share 2/2 cannot be stored there"), "{error}");
    let others = [cell("c", lab("3")), cell("d", lab("4"))];
    assert!(text(share("1/2", &others).claim(&store)).contains("of other trials"));
    assert!(text(ShareFile::refuse_share(store.folder())).contains("a run without --shard"));
    drop(store);
    let out = cluster.path("out");
    merge(&out, &[folder], true).unwrap();
    ShareFile::refuse_share(&out).unwrap();
}

/// Writes a share whose trials each have a log that names the trial.
fn share_with_logs(cluster: &Cluster, name: &str, shard: &str) -> PathBuf {
    let logs = cluster.path(name).join("logs");
    cluster.share(name, shard, |_, mut trial| {
        let log = format!("logs/{}.log", trial.trial_id);
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(cluster.path(name).join(&log), format!("of {}", trial.trial_id)).unwrap();
        trial.host.log = Some(log);
        Some(trial)
    })
}

#[test]
fn the_logs_of_shares_are_copied_to_the_merged_folder_and_none_is_overwritten() {
    let cluster = Cluster::new(cells());
    let (one, two) =
        (share_with_logs(&cluster, "one", "1/2"), share_with_logs(&cluster, "two", "2/2"));
    let out = cluster.path("out");
    let shares = [one.clone(), two.clone()];
    // One log was removed after its run: the merged record no longer refers to it.
    let removed = std::fs::read_dir(two.join("logs")).unwrap().next().unwrap().unwrap();
    std::fs::remove_file(removed.path()).unwrap();
    for _ in 0..2 {
        let merged = merge(&out, &shares, false).unwrap();
        let with_log =
            merged.trials.iter().filter_map(|trial| Some((trial, trial.host.log.as_ref()?)));
        let with_log: Vec<_> = with_log.collect();
        assert_eq!(with_log.len(), cluster.complete().len() - 1);
        for (trial, log) in with_log {
            let text = std::fs::read_to_string(out.join(log)).unwrap();
            assert_eq!(text, format!("of {}", trial.trial_id));
        }
        assert_eq!(files(&out.join("logs")).len(), cluster.complete().len() - 1);
    }
    // The log of another trial blocks the continued merge, and remains.
    let other = cluster.path("other");
    merge(&other, &shares[..1], true).unwrap();
    let blocking_log = other.join("logs").join(files(&two.join("logs"))[0].0.clone());
    std::fs::write(&blocking_log, "another").unwrap();
    let refused = merge(&other, &shares, false).unwrap_err();
    assert!(matches!(refused, MergeError::OtherLog { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(&blocking_log).unwrap(), "another");
}

#[test]
fn a_log_is_copied_only_into_the_merged_folder_whatever_the_name_of_its_trial() {
    let cluster = Cluster::new(cells());
    let folder = cluster.complete_share("s1", "1/1");
    // A malicious share: the first trial is named by a path, in both files, and has a log there.
    let id = cluster.complete()[0].trial_id.clone();
    for name in ["trials.ndjson", "schedule.json"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let text = text.replace(&id, "../../sub/evil");
        let text = text.replace("\"host\":{", "\"host\":{\"log\":\"logs/x.log\",");
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::create_dir_all(folder.join("logs")).unwrap();
    std::fs::create_dir_all(cluster.path("sub")).unwrap();
    std::fs::write(cluster.path("sub/evil.log"), "evil").unwrap();
    let out = cluster.path("in/out");
    std::fs::create_dir_all(cluster.path("in")).unwrap();
    merge(&out, &[folder], true).unwrap();
    assert!(!cluster.path("in/sub/evil.log").exists());
}

#[test]
fn series_that_differ_between_two_runs_of_a_trial_in_one_lab_are_an_error() {
    let cluster = Cluster::new(cells());
    let shares = [cluster.complete_share("s1", "1/1"), cluster.complete_share("s2", "1/1")];
    let file = shares[1].join(fsdyno_record::series::FILE);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"ops\":[1,", "\"ops\":[2,")).unwrap();
    let error = merge(&cluster.path("out"), &shares, false).unwrap_err().to_string();
    assert!(error.contains("THE LAB DID NOT REPEAT"), "{error}");
    assert!(error.contains("their lines of series.ndjson"), "{error}");
}
