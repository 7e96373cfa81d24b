//! Helpers of the model's tests: a volume, and runs of dirops on it.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;

use fsdyno_disk::{DiskSpec, partition};
use fsdyno_ext2dir::device::Device;
use fsdyno_ext2dir::ext2::Ext2;
use fsdyno_ext2dir::find;
use fsdyno_ext2dir::trial::{self, Setting};
use fsdyno_ext2dir::volume::{Layout, ROOT};
use fsdyno_record::plan::{DiskPlan, MediumPlan, VenuePlan, WorkloadPlan};
use fsdyno_record::trial::{AgentReport, Phase};
use fsdyno_record::{Bytes, Job, Nanos, Plan};
use fsdyno_workload::workloads;

pub fn disk(name: &str) -> DiskSpec {
    fsdyno_disk::catalog::get(name).unwrap()
}

/// Returns a new volume of `mib` MiB.
pub fn volume(variant: &str, block_size: u64, mib: u64) -> Ext2 {
    let spec = disk("instant");
    let partition = partition::place(&spec, Some(Bytes(mib << 20)), 1).unwrap();
    let device = Device::new(&spec, 1, partition, block_size);
    let variant = find::by_name(variant).unwrap();
    Ext2::new(variant, Layout::new(block_size, mib << 20), [7, 11, 13, 17], device, Nanos(0))
}

/// Creates a directory `d` with `n` files; returns its inode.
pub fn filled(ext2: &mut Ext2, n: u32) -> u32 {
    let dir = ext2.mkdir(ROOT, b"d").unwrap();
    for number in 0..n {
        ext2.create(dir, name(number).as_bytes(), false).unwrap();
    }
    dir
}

pub fn name(number: u32) -> String {
    format!("f{number:07}")
}

/// Runs a trial of dirops on a disk.
pub fn dirops(variant: &str, disk_name: &str, sets: &[(&str, &str)], seed: u64) -> AgentReport {
    let sets = sets.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    let params: BTreeMap<String, String> = sets.collect();
    let kind = workloads::find("dirops").unwrap();
    let workload = kind.build(&params, &fsdyno_workload::Setting { seed, input: None }).unwrap();
    let spec = disk(disk_name);
    let plan = Plan {
        label: variant.into(),
        workload: WorkloadPlan { name: "dirops".into(), params, input: None },
        filesystem: None,
        medium: MediumPlan::Modelled(
            DiskPlan { name: disk_name.into(), spec: Default::default() }.into(),
        ),
        venue: VenuePlan::Model { block_size: 4096 },
        threads: 1,
        issuer: Default::default(),
        verify: Default::default(),
        sysctls: BTreeMap::new(),
        hash: String::new(),
    };
    let job = Job {
        trial_id: "t".into(),
        seed,
        plan: plan.with_hash(),
        deadline: Nanos(u64::MAX),
        task: Default::default(),
    };
    let partition = partition::place(&spec, Some(Bytes(1 << 30)), seed).unwrap();
    let variant = find::by_name(variant).unwrap();
    let setting = Setting { variant, disk: &spec, partition, block_size: 4096 };
    trial::run(&job, workload.as_ref(), setting, &mut |_, _| true).unwrap()
}

pub fn phase<'a>(report: &'a AgentReport, name: &str) -> &'a Phase {
    assert_eq!(report.reason, None);
    report.measured.phases.iter().find(|phase| phase.name == name).unwrap()
}
