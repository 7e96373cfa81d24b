//! Creates and describes the md array under a file system.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use fsdyno_filesystem::{Devices, array, fill};
use fsdyno_record::plan::RaidPlan;
use fsdyno_record::trial::Conditions;

use crate::tool;

/// The kernel's name of the array in a guest.
pub const NAME: &str = "md0";

/// Settings of the array itself that affect its speed, if its level has them.
const SETTINGS: &[&str] = &["stripe_cache_size", "preread_bypass_threshold", "group_thread_cnt"];

/// Assembles the array as `/dev/NAME`, and adds the commands and the outcome to the conditions. Everything arbitrary is
/// drawn from the seed, except UUIDs, which are drawn from `uuids` if given.
///
/// # Errors
/// Errors from mdadm; an array that does not appear.
pub fn create(
    name: &str,
    raid: RaidPlan,
    disks: &[String],
    (seed, uuids): (u64, Option<u64>),
    conditions: &mut Conditions,
) -> io::Result<()> {
    let device = format!("/dev/{name}");
    let devices = Devices { device: &device, journal: None, uuids };
    let argv = fill(&array::create(raid, disks), devices, seed);
    tool::run(&argv, &array::env())?.check(&argv)?;
    conditions.before_mkfs.push(argv);
    conditions.array = describe(name)?;
    Ok(())
}

fn describe(name: &str) -> io::Result<BTreeMap<String, String>> {
    let argv = array::detail(&format!("/dev/{name}"));
    let result = tool::run(&argv, &array::env())?;
    result.check(&argv)?;
    let mut details = array::parse_detail(&result.output);
    let folder = Path::new("/sys/block").join(name).join("md");
    for key in SETTINGS {
        if let Ok(text) = fs::read_to_string(folder.join(key)) {
            details.insert(key.to_string(), text.trim().to_string());
        }
    }
    let state = fs::read_to_string("/proc/mdstat")?;
    let line = state.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix(':'));
    let line = line.ok_or_else(|| io::Error::other("the array is not in /proc/mdstat"))?;
    details.insert("mdstat".into(), line.trim().to_string());
    Ok(details)
}
