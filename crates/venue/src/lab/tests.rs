use fsdyno_filesystem::catalog;
use fsdyno_record::plan::{MediumPlan, VenuePlan, WorkloadPlan};

use super::*;

#[test]
fn the_version_of_mkfs_is_recorded_under_the_name_of_its_program() {
    let Ok(kind) = catalog::get("ext4") else { panic!("no ext4") };
    let spec = fsdyno_filesystem::Spec::parse("ext4").unwrap();
    let plan = Plan {
        label: "ext4".into(),
        workload: WorkloadPlan { name: "dirops".into(), params: Default::default(), input: None },
        filesystem: Some(kind.plan(&spec, fsdyno_filesystem::Context::Lab, None).unwrap()),
        medium: MediumPlan::Directory { path: "/".into() },
        venue: VenuePlan::Host,
        threads: 1,
        issuer: fsdyno_record::plan::IssuerPlan::Sync,
        verify: Default::default(),
        sysctls: Default::default(),
        hash: String::new(),
    };
    if !tools::missing(kind).is_empty() {
        println!("skipped: e2fsprogs is not installed");
        return;
    }
    assert!(tools::of_plan(&plan)["mke2fs"].contains("mke2fs 1."), "{:?}", tools::of_plan(&plan));
    assert!(tools::of_plan(&Plan { filesystem: None, ..plan }).is_empty());
}
