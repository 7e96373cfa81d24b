//! Records for tests: three file systems, two workloads, three seeds, every field in use.

use std::collections::BTreeMap;

use fsdyno_record::age::Aged;
use fsdyno_record::plan::{
    BelowPlan, DiskPlan, EphemeralPlan, FilesystemPlan, IssuerPlan, LabPlan, MediumPlan,
    ModelledPlan, Plan, Target, VenuePlan, VerifyMode, WorkloadPlan,
};
use fsdyno_record::seed::{SplitMix64, stream, uuid};
use fsdyno_record::series::{PhaseSeries, Series};
use fsdyno_record::trial::{
    Capacity, CheckReport, Conditions, Device, DiskConditions, DiskRole, Gap, Host, Instrument,
    Measured, OpStats, Outcome, Phase, Setup, Split, VerifyReport, trial_id,
};
use fsdyno_record::{Build, Bytes, Histogram, Nanos, OpKind, Trial};

/// Label, kind, spec, and the time of a create and of an unlink in microseconds.
const FILESYSTEMS: [(&str, &str, &str, u64, u64); 3] = [
    ("ext4", "ext4", "ext4", 110, 38),
    ("xfs", "xfs", "xfs", 82, 71),
    ("far", "ext4", "ext4 -J device={journal}", 112, 36),
];

/// Workload, phase, its main op and the number of such ops, and whether the phase creates files.
const PHASES: [(&str, &str, OpKind, u64, bool); 4] = [
    ("dirops", "create", OpKind::Create, 10_000, true),
    ("dirops", "delete", OpKind::Unlink, 10_000, false),
    ("tarball", "extract", OpKind::Create, 20_000, true),
    ("tarball", "remove", OpKind::Unlink, 20_000, false),
];

/// Successful trials, interleaved as a study runs them.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for workload in ["dirops", "tarball"] {
        for seed in 1..=3 {
            trials.extend(FILESYSTEMS.map(|filesystem| trial(workload, seed, filesystem)));
        }
    }
    trials
}

/// Points of a curve: ext4 with linear times, and a file system with quadratic times.
pub fn curve() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (label, power) in [("ext4", 1), ("linear", 2)] {
        for files in [1000u64, 2000, 4000, 8000] {
            let mut trial = trial("dirops", 1, (label, "ext4", "ext4", 110, 38));
            let params = &mut trial.plan.workload.params;
            params.insert("files".into(), files.to_string());
            params.insert("curve".into(), "1000..8000x2".into());
            for (phase, slow) in trial.measured.phases.iter_mut().zip([100_000, 40_000]) {
                // Varied by a tenth of a percent, so that there is a spread.
                let noise = if files == 2000 { 1001 } else { 1000 };
                phase.returned_ns = Nanos(files.pow(power) * slow * noise / 1000);
                phase.durable_ns = Some(Nanos(phase.returned_ns.0 + 1_000_000));
            }
            trial.plan = trial.plan.with_hash();
            trial.trial_id = trial_id(&trial.plan, trial.seed);
            trials.push(trial);
        }
    }
    trials
}

/// The trials of one seed.
pub fn single() -> Vec<Trial> {
    trials().into_iter().filter(|trial| trial.seed == 1).collect()
}

/// The successful trials, one failed and one skipped trial.
pub fn with_failures() -> Vec<Trial> {
    let mut trials = trials();
    let mut failed = trials[0].clone();
    failed.outcome = Outcome::Failed;
    failed.reason = Some("fsck.ext4 exited with 4:\nGroup 3: bad block bitmap".into());
    failed.measured.check.as_mut().unwrap().clean = false;
    let mut skipped = trials[1].clone();
    skipped.plan.label = "reiserfs".into();
    skipped.plan.filesystem.as_mut().unwrap().spec = "reiserfs".into();
    skipped.outcome = Outcome::Skipped;
    skipped.reason = Some("kernel 6.12 has no module reiserfs".into());
    skipped.measured = Measured::default();
    trials.extend([failed, skipped]);
    trials
}

/// Trials on a directory of a host: no lab, no device counters, nothing durable.
pub fn on_a_host() -> Vec<Trial> {
    let mut trials = trials();
    for trial in &mut trials {
        trial.lab_id = None;
        trial.lab.clear();
        trial.plan.medium = MediumPlan::Directory { path: "/srv/scratch".into() };
        trial.plan.venue = VenuePlan::Host;
        trial.plan.filesystem = None;
        trial.conditions.venue = "host".into();
        trial.conditions.mount = "xfs rw,relatime".into();
        trial.conditions.device = "/dev/sda2".into();
        for phase in &mut trial.measured.phases {
            phase.durable_ns = None;
            phase.device = None;
        }
    }
    trials
}

/// A trial in a model that filled its file system, with the fields that only such trials have.
pub fn in_a_model() -> Trial {
    let mut trial = trials().remove(0);
    if let Some(modelled) = trial.plan.medium.modelled_mut() {
        modelled.size = Some(Bytes(1 << 30));
    }
    trial.plan.venue = VenuePlan::Model { block_size: 4096 };
    trial.conditions.venue = "model".into();
    trial.measured.capacity = Some(Default::default());
    trial
}

/// Trials that filled their file systems: 1,000 files and a few more.
pub fn filled() -> Vec<Trial> {
    let mut trials = trials();
    for trial in &mut trials {
        let files = 1000 + trial.seed + trial.plan.label.len() as u64;
        let held = Capacity { device: Some(Bytes(1 << 30)), files, ..Capacity::default() };
        trial.measured.capacity = Some(held);
    }
    trials
}

/// Trials on a loop device of a host, with a device for the journal.
pub fn on_a_loop() -> Vec<Trial> {
    let mut trials = on_a_host();
    for trial in &mut trials {
        let (size, journal_size) = (Bytes(8 << 30), Some(Bytes(256 << 20)));
        trial.plan.medium = MediumPlan::Loop(EphemeralPlan { size, raid: None, journal_size });
        trial.conditions.device = "loop over a file on ext4".into();
    }
    trials
}

/// Puts a trial on a device of this host: `loop:8G`, `ram:1G` or the path of a drive.
pub fn put_on(trial: &mut Trial, on: &str) {
    trial.plan.medium = match Target::parse(on) {
        Ok(Target::Ephemeral(device)) => device.into(),
        _ => MediumPlan::Drive { path: on.into() },
    };
    trial.plan.venue = VenuePlan::Host;
}

/// Puts a trial on an array of loop devices with one more for the journal.
pub fn put_on_an_array(trial: &mut Trial) {
    let (size, journal_size) = (Bytes(8 << 30), Some(Bytes(64 << 20)));
    let raid = "5x3".parse().ok();
    trial.plan.medium = MediumPlan::Loop(EphemeralPlan { size, raid, journal_size });
    trial.plan.venue = VenuePlan::Host;
}

/// Puts a trial on a different disk and updates its hash and id.
pub fn set_disk(trial: &mut Trial, name: &str) {
    if let Some(modelled) = trial.plan.medium.modelled_mut() {
        modelled.disk.name = name.into();
    }
    trial.plan = trial.plan.clone().with_hash();
    trial.trial_id = trial_id(&trial.plan, trial.seed);
}

/// Names the machine of a trial.
pub fn set_machine(trial: &mut Trial, name: &str) {
    if let Some(lab) = trial.plan.lab_mut() {
        lab.machine = Some(name.into());
    }
}

fn trial(workload: &str, seed: u64, filesystem: (&str, &str, &str, u64, u64)) -> Trial {
    let (label, kind, spec, create_us, unlink_us) = filesystem;
    let plan = plan(workload, label, kind, spec);
    let phases: Vec<Phase> = PHASES
        .iter()
        .filter(|phase| phase.0 == workload)
        .map(|(_, name, op, count, creating)| {
            let mut draws = stream(seed, &format!("{workload} {name} {label}"));
            let us = if *creating { create_us } else { unlink_us };
            phase(name, *op, *count, us, *creating, &mut draws)
        })
        .collect();
    Trial {
        schema: fsdyno_record::SCHEMA,
        trial_id: trial_id(&plan, seed),
        lab_id: Some("7d0c5b1e9a44f3c2".repeat(4)),
        lab: [("qemu", "7.2.22"), ("kernel", "6.1.0-44-amd64"), ("agent", "sha256:51ab")]
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .into(),
        seed,
        repeats: None,
        version: "0.1.0".into(),
        row: None,
        deadline_ns: None,
        outcome: Outcome::Ok,
        reason: None,
        conditions: conditions(&plan, seed),
        measured: measured(phases),
        plan,
        host: Host {
            started: format!("2026-11-20T23:0{seed}:00Z"),
            build: Some(Build { commit: "7d48d33aa10c".into(), dirty: false }),
            elapsed_ns: Nanos(31_400_000_000),
            first_op_ns: Some(Nanos(8_100_000_000)),
            cpu_ns: Some(Nanos(30_200_000_000)),
            memory: Some(Bytes(1200 << 20)),
            check_ns: Some(Nanos(301_000_000)),
            log: Some("logs/0123456789abcdef-7.log".into()),
            log_note: None,
            stages: [("boot".to_string(), Nanos(2_100_000_000))].into(),
            stored: Some(Bytes(48 << 20)),
        },
    }
}

fn plan(workload: &str, label: &str, kind: &str, spec: &str) -> Plan {
    let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    Plan {
        label: label.into(),
        workload: WorkloadPlan {
            name: workload.into(),
            params: [("files".to_string(), "10000".to_string())].into(),
            input: None,
        },
        filesystem: Some(FilesystemPlan {
            kind: kind.into(),
            spec: spec.into(),
            mkfs: words(&format!("mkfs.{kind} -q {{device}}")),
            env: [("E2FSPROGS_FAKE_TIME".to_string(), "1577836800".to_string())].into(),
            mount_type: kind.into(),
            mount_options: "noatime".into(),
            check: words(&format!("fsck.{kind} -fn {{device}}")),
            check_clean: vec![0],
            features: words("dumpe2fs -h {device}"),
            feature_keys: vec!["Filesystem features".into()],
            modules: vec![kind.into()],
            journal: None,
            feature_words: vec![],
            journal_bytes: vec![],
            period: None,
            mount_command: Vec::new(),
            pool: None,
            below: None,
            settles: false,
            age: None,
        }),
        medium: MediumPlan::Modelled(ModelledPlan {
            size: Some(Bytes(8 << 30)),
            ..DiskPlan {
                name: "hdd-7200".into(),
                spec: serde_json::json!({"model": "hdd", "rpm": 7200}).into(),
            }
            .into()
        }),
        venue: VenuePlan::Lab(LabPlan {
            scheduler: Some("mq-deadline".into()),
            ..LabPlan::new("6.1.0-44-amd64", Bytes(1 << 30))
        }),
        threads: 1,
        issuer: IssuerPlan::Sync,
        verify: VerifyMode::Full,
        sysctls: [("vm.dirty_ratio".to_string(), "20".to_string())].into(),
        hash: String::new(),
    }
    .with_hash()
}

/// The first trial, on an aged file system.
pub fn on_an_aged_one() -> Trial {
    let mut trial = trials().swap_remove(0);
    if let Some(filesystem) = &mut trial.plan.filesystem {
        filesystem.age = "fill=80%,churn=2,seed=1".parse().ok();
    }
    trial.conditions.aged = Some(Aged {
        files: 30_000,
        directories: 118,
        bytes: Bytes(6_500 << 20),
        removed: 60_001,
        used: Bytes(6_551 << 20),
        size: Bytes(8 << 30),
    });
    trial
}

/// Every trial on a fresh file system and on an aged one, which takes longer.
pub fn young_and_aged() -> Vec<Trial> {
    let mut trials = trials();
    let mut aged = trials.clone();
    for trial in &mut aged {
        if let Some(filesystem) = &mut trial.plan.filesystem {
            filesystem.age = "fill=80%,churn=2,seed=1".parse().ok();
        }
        for phase in &mut trial.measured.phases {
            let longer = phase.durable_ns.unwrap_or_default().0 / 100 * (25 + trial.seed);
            phase.durable_ns = phase.durable_ns.map(|ns| ns + Nanos(longer));
        }
        trial.plan = trial.plan.clone().with_hash();
        trial.trial_id = trial_id(&trial.plan, trial.seed);
    }
    trials.append(&mut aged);
    trials
}

/// Series over time of each trial: ops at a steady pace until the last one returned, pages that become dirty
/// meanwhile and are written back at the end.
pub fn series(trials: &[Trial]) -> Vec<Series> {
    let phase = |phase: &Phase| {
        let end = phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns);
        let interval_ns = Nanos(end.0 / 50 + 1);
        let all: u64 = phase.ops.values().map(|stats| stats.count).sum();
        let busy = (phase.returned_ns.0 / interval_ns.0 + 1).min(50);
        let ops = (0..50).map(|at| if at < busy { all / busy + at % 7 } else { 0 }).collect();
        let dirty = |at: u64| if at < busy { (at + 1) << 18 } else { (50 - at) << 16 };
        PhaseSeries {
            name: phase.name.clone(),
            interval_ns,
            length_ns: end,
            ops,
            dirty_bytes: (0..50).map(dirty).collect(),
            writeback_bytes: (0..50).map(|at| if at < busy { 0 } else { 1 << 20 }).collect(),
            device_written_bytes: (0..50).map(|at| (at % 9) << 16).collect(),
        }
    };
    let one = |trial: &Trial| Series::new(trial, trial.measured.phases.iter().map(phase).collect());
    trials.iter().filter_map(one).collect()
}

/// A trial on a RAID of two disks, with its journal on a third.
pub fn on_several_disks() -> Trial {
    let mut trial = trials().swap_remove(0);
    if let Some(modelled) = trial.plan.medium.modelled_mut() {
        modelled.raid = "0x2:64K".parse().ok();
        modelled.journal = Some(modelled.disk.clone());
        modelled.journal_size = Some(Bytes(256 << 20));
    }
    if let Some(filesystem) = &mut trial.plan.filesystem {
        filesystem.journal = Some(Default::default());
    }
    let found = &mut trial.conditions;
    found.before_mkfs = vec![vec!["mdadm".into(), "--create".into()]];
    found.array = [("Raid Level".to_string(), "raid0".to_string())].into();
    let roles = [DiskRole::Member, DiskRole::Member, DiskRole::Journal];
    let disk = |role| DiskConditions {
        disk: "hdd-7200".into(),
        role,
        partition_start: Bytes(1 << 20),
        size: Bytes(4 << 30),
        queue: found.queue.clone(),
    };
    let named = |at: usize| format!("nbd{at}");
    found.disks = roles.iter().enumerate().map(|(at, role)| (named(at), disk(*role))).collect();
    found.partition_start = None;
    for phase in &mut trial.measured.phases {
        let device = phase.device.unwrap_or_default();
        phase.devices = (0..roles.len()).map(|at| (named(at), device)).collect();
    }
    trial
}

/// A trial on a user-space file system above another file system.
pub fn over_another_in_user_space() -> Trial {
    let mut trial = trials().swap_remove(0);
    if let Some(filesystem) = &mut trial.plan.filesystem {
        filesystem.mount_command = vec!["fuse2fs".into(), "{device}".into(), "{mount}".into()];
        filesystem.below = Some(BelowPlan {
            kind: "ext4".into(),
            mount_type: "ext4".into(),
            mount_options: String::new(),
        });
    }
    trial.conditions.below = "ext4 rw,relatime rw".into();
    trial.conditions.userspace = true;
    trial.measured.check = None;
    trial
}

fn conditions(plan: &Plan, seed: u64) -> Conditions {
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    let kind = plan.filesystem.as_ref().unwrap().kind.clone();
    Conditions {
        venue: "lab".into(),
        kernel: "6.1.0-44-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1".into(),
        cpu: "Intel Core i7 9xx (Nehalem Core i7, IBRS update)".into(),
        mkfs: [
            format!("mkfs.{kind}"),
            "-q".into(),
            "-U".into(),
            uuid(seed, "fs"),
            "/dev/nbd0".into(),
        ]
        .into(),
        mkfs_output: vec!["Writing superblocks: done".into()],
        mount: format!("{kind} rw,noatime"),
        features: pairs(&[("Filesystem features", "has_journal dir_index extent 64bit")]),
        tools: pairs(&[("mkfs", "mke2fs 1.47.0 (5-Feb-2023)")]),
        queue: pairs(&[("rotational", "1"), ("scheduler", "[mq-deadline] none")]),
        sysctls: pairs(&[("vm.dirty_ratio", "20"), ("vm.dirty_background_ratio", "10")]),
        partition_start: Some(Bytes(1 << 20)),
        device_size: Some(Bytes(8 << 30)),
        cacheable_memory: Bytes(870 << 20),
        notes: vec!["The split of CPU time is by ticks.".into()],
        ..Conditions::default()
    }
}

fn measured(phases: Vec<Phase>) -> Measured {
    let gap = |before: &str, ns| Gap {
        before: before.into(),
        wanted: "remount".into(),
        done: "remount".into(),
        elapsed_ns: Nanos(ns),
    };
    let gaps = vec![gap(&phases[1].name, 412_000_000), gap("", 98_000_000)];
    Measured {
        setup: Some(Setup {
            boot_ns: Nanos(310_000_000),
            device_ns: Nanos(95_000_000),
            mkfs_ns: Nanos(160_000_000),
            mount_ns: Nanos(4_000_000),
            age_ns: None,
        }),
        gaps,
        capacity: None,
        tree: None,
        ranks: None,
        instrument: Instrument {
            server_cpu_ns: Nanos(21_000_000),
            driver_cpu_ns: Nanos(9_000_000),
            late_ns: Nanos(12_000),
            engine_ns: Nanos(4_000_000),
            sampler_cpu_ns: Nanos(300_000),
        },
        verify: VerifyReport {
            mode: VerifyMode::Full,
            files: 10_000,
            directories: 1,
            bytes: Bytes(0),
            problems: 0,
            missing: 0,
            extra: 0,
            examples: Vec::new(),
            elapsed_ns: Nanos(212_000_000),
        },
        check: Some(CheckReport {
            argv: vec!["fsck".into(), "-fn".into(), "/dev/nbd0".into()],
            exit: Some(0),
            clean: true,
            output: vec!["11/524288 files, 58127/2097152 blocks".into()],
        }),
        phases,
    }
}

/// Latencies within 2 % of the mean, except one op in 200 that waits for the disk.
fn ops(count: u64, us: u64, draws: &mut SplitMix64) -> OpStats {
    let mut histogram = Histogram::new();
    for index in 0..count {
        let slow = if index % 200 == 199 { 40 } else { 1 };
        histogram.record(us * 980 * slow + draws.below(us * 40));
    }
    OpStats {
        count,
        total_ns: Nanos(histogram.total()),
        p50_ns: Nanos(histogram.percentile(50.0)),
        p90_ns: Nanos(histogram.percentile(90.0)),
        p99_ns: Nanos(histogram.percentile(99.0)),
        p999_ns: Nanos(histogram.percentile(99.9)),
        max_ns: Nanos(histogram.max()),
        histogram: histogram.buckets().into_iter().map(|(ns, n)| (Nanos(ns), n)).collect(),
    }
}

fn phase(
    name: &str,
    op: OpKind,
    count: u64,
    us: u64,
    creating: bool,
    draws: &mut SplitMix64,
) -> Phase {
    let main = ops(count, us, draws);
    let close = ops(if creating { count } else { 1 }, 3, draws);
    let returned = main.total_ns + close.total_ns;
    let debt = 400_000_000 + draws.below(12_000_000);
    let written = if creating { count * 1400 } else { 0 };
    Phase {
        books: BTreeMap::new(),
        think_ns: Nanos::default(),
        limit_ns: None,
        unit: None,
        name: name.into(),
        returned_ns: returned,
        synced_ns: Some(returned + Nanos(debt)),
        durable_ns: Some(returned + Nanos(debt + 9_000_000)),
        cpu_ns: Nanos(returned.0 / 10 * 9),
        user_ns: Nanos(returned.0 / 100 * 6),
        system_ns: Nanos(returned.0 / 100 * 84),
        split: Split::Sampled,
        processor: None,
        kernel_cpu_ns: [
            ("jbd2".to_string(), Nanos(38_000_000)),
            ("kworker".to_string(), Nanos(52_000_000)),
        ]
        .into(),
        ops: [(op, main), (OpKind::Close, close)].into(),
        bytes_written: Bytes(written),
        bytes_read: Bytes(0),
        devices: BTreeMap::new(),
        device: Some(Device {
            reads: 41,
            writes: 800 + draws.below(40),
            flushes: 6,
            discards: 0,
            bytes_read: Bytes(41 * 4096),
            bytes_written: Bytes(written + (9 << 20)),
            seeks: Some(300 + draws.below(30)),
            busy_ns: Some(Nanos(debt)),
            peak_in_flight: Some(32),
        }),
        dirty_bytes: Some(Bytes(written / 2)),
        space_used: Bytes((18 << 20) + written),
        instrument: Instrument {
            server_cpu_ns: Nanos(9_000_000),
            driver_cpu_ns: Nanos(4_000_000),
            late_ns: Nanos(12_000),
            engine_ns: Nanos(2_000_000),
            sampler_cpu_ns: Nanos(150_000),
        },
    }
}
