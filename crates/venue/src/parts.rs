//! The parts of a guest for a plan: modules, tools and files.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_disk::{Attach, DiskSpec};
use fsdyno_filesystem::{array as md, catalog};
use fsdyno_lab::Parts;
use fsdyno_record::Plan;
use fsdyno_record::plan::RaidPlan;

use crate::commands::Commands;
use crate::error::VenueError;
use crate::lab_plan::{disk_of, not_a_lab};

/// Returns a key that identifies a file system and the programs that its guest needs.
pub fn programs_of(filesystem: &Commands) -> String {
    let programs = [filesystem.mkfs.first(), filesystem.mount_command.first()];
    let programs: Vec<&str> = programs.into_iter().flatten().map(String::as_str).collect();
    format!("{}:{} {}", filesystem.kind, filesystem.made_kind(), programs.join(" "))
}

/// The properties of the disks that determine the parts of a guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hardware {
    /// For each disk, in order: true for an NVDIMM.
    pub pmem: Vec<bool>,
    /// The I/O schedulers of the disks' queues.
    pub schedulers: BTreeSet<String>,
    /// The array that the disks form, if any.
    pub raid: Option<String>,
}

/// Returns the hardware properties of a plan's disks.
pub fn hardware(plan: &Plan) -> Result<Hardware, VenueError> {
    let (lab, medium) = (plan.lab().ok_or_else(not_a_lab)?, &plan.medium);
    let mut disks = Vec::new();
    if let Some(disk) = medium.disk() {
        disks.resize(medium.data_disks() as usize, disk_of(disk)?);
    }
    disks.extend(medium.journal().map(disk_of).transpose()?);
    let scheduler =
        |disk: &DiskSpec| lab.scheduler.clone().unwrap_or_else(|| disk.queue.scheduler.clone());
    Ok(Hardware {
        pmem: disks.iter().map(|disk| disk.attach == Attach::Pmem).collect(),
        schedulers: disks.iter().map(scheduler).collect(),
        raid: medium.raid().map(|raid| raid.to_string()),
    })
}

/// Returns the parts of a guest for a file system on such disks.
pub fn parts(
    agent: &Path,
    filesystem: Option<&Commands>,
    raid: Option<RaidPlan>,
    hardware: &Hardware,
) -> Result<Parts, VenueError> {
    let mut parts = Parts { agent: agent.to_path_buf(), ..Parts::default() };
    if hardware.pmem.contains(&false) {
        // Exactly one device per disk, because each device costs boot time.
        parts.modules.push(format!("nbd nbds_max={}", hardware.pmem.len()));
    }
    if hardware.pmem.contains(&true) {
        parts.modules.extend(["nfit", "nd_pmem"].map(String::from));
    }
    // The other schedulers are built in.
    let module = |scheduler: &String| match scheduler.as_str() {
        "bfq" => Some("bfq".to_string()),
        "kyber" => Some("kyber-iosched".to_string()),
        _ => None,
    };
    parts.modules.extend(hardware.schedulers.iter().filter_map(module));
    if let Some(raid) = raid {
        parts.modules.push(md::module(raid).to_string());
        parts.tools.push(md::TOOL.to_string());
    }
    let Some(filesystem) = filesystem else { return Ok(parts) };
    parts.modules.extend(filesystem.modules.iter().cloned());
    let kind = catalog::get(filesystem.made_kind())
        .map_err(|error| VenueError::Failed(error.to_string()))?;
    // The check runs on the host, so its tool is not part of the guest; if it is missing, this must be reported before
    // the first trial.
    parts.host_tools.extend(filesystem.check.first().cloned());
    let journal = filesystem.journal.iter().flat_map(|plan| [&plan.make, &plan.features]);
    let commands = [&filesystem.mkfs, &filesystem.features, &filesystem.mount_command];
    let pool = filesystem.pool.iter().flat_map(|pool| [&pool.import, &pool.export]);
    for argv in commands.into_iter().chain(journal).chain(pool) {
        let tool = argv.first().filter(|tool| !parts.tools.contains(tool)).cloned();
        parts.tools.extend(tool);
    }
    for path in &kind.files {
        // A file that does not exist on the host is not needed in the guest either.
        if let Ok(contents) = std::fs::read(path) {
            parts.files.push((path.clone(), contents));
        }
    }
    let own_files = kind.own_files.iter();
    parts.files.extend(own_files.map(|(path, text)| (path.clone(), text.clone().into_bytes())));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware(raid: Option<&str>) -> Hardware {
        Hardware {
            pmem: vec![false; raid.map_or(1, |_| 3)],
            schedulers: ["bfq".to_string()].into(),
            raid: raid.map(String::from),
        }
    }

    #[test]
    fn an_array_needs_its_module_its_tool_and_a_device_for_each_disk() {
        let raid = Some("5x3".parse().unwrap());
        let guest = parts(Path::new("/x"), None, raid, &hardware(Some("5x3"))).unwrap();
        assert_eq!(guest.modules, ["nbd nbds_max=3", "bfq", "raid456"]);
        assert_eq!(guest.tools, ["mdadm"]);
    }

    #[test]
    fn a_guest_gets_the_tools_modules_and_files_of_its_file_system() {
        let spec = fsdyno_filesystem::Spec::parse("ext4").unwrap();
        let kind = catalog::get("ext4").unwrap();
        let plan = kind.plan(&spec, fsdyno_filesystem::Context::Lab, None).unwrap();
        let parts = parts(Path::new("/x"), Some(&Commands::unchecked(plan)), None, &hardware(None))
            .unwrap();
        assert_eq!(parts.modules, ["nbd nbds_max=1", "bfq", "ext4"]);
        assert!(parts.tools.contains(&"mke2fs".to_string()));
        assert_eq!(parts.host_tools, ["e2fsck"]);
        assert!(!parts.tools.contains(&"e2fsck".to_string()), "{parts:?}");
        let exists = std::path::Path::new("/etc/mke2fs.conf").exists();
        assert_eq!(parts.files.iter().any(|(path, _)| path == "/etc/mke2fs.conf"), exists);
    }
}
