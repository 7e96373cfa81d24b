//! The settings of a block queue: set from the disk's file, read back into the conditions.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_disk::Queue;

/// What is read back.
const KEYS: &[&str] = &[
    "rotational",
    "scheduler",
    "nr_requests",
    "max_sectors_kb",
    "read_ahead_kb",
    "wbt_lat_usec",
    "write_cache",
    "logical_block_size",
    "physical_block_size",
    "discard_max_bytes",
    "add_random",
    "iostats",
];

/// A partition has the queue of its drive.
fn folder(name: &str) -> PathBuf {
    let own = of_device(name);
    let whole = own.canonicalize().ok().filter(|own| own.join("partition").exists());
    let whole = whole.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    whole.unwrap_or(own).join("queue")
}

/// What the kernel says of a drive or a partition.
pub fn of_device(name: &str) -> PathBuf {
    Path::new("/sys/class/block").join(name)
}

/// Makes the queue of `/dev/NAME` behave as the disk's own would.
///
/// The driver's tags are cut down to the disk's queue depth first, while no scheduler is
/// attached: a scheduler keeps requests of its own, so once it is there `nr_requests` no longer
/// bounds what is in flight (linux/block/blk-mq.c, `blk_mq_update_nr_requests`).
///
/// # Errors
/// A setting that the kernel refuses, by its name and value.
pub fn set(name: &str, queue: &Queue, scheduler: Option<&str>) -> io::Result<()> {
    let write = |key: &str, value: &str| {
        fs::write(folder(name).join(key), value).map_err(|error| {
            io::Error::new(error.kind(), format!("set {key} of {name} to {value}: {error}"))
        })
    };
    write("scheduler", "none")?;
    write("nr_requests", &queue.depth.to_string())?;
    write("rotational", if queue.rotational { "1" } else { "0" })?;
    write("add_random", "0")?;
    write("max_sectors_kb", &queue.max_sectors_kb.to_string())?;
    write("read_ahead_kb", &queue.read_ahead_kb.to_string())?;
    write("write_cache", queue.write_cache.name())?;
    let scheduler = scheduler.unwrap_or(&queue.scheduler);
    if scheduler != "none" {
        write("scheduler", scheduler)?;
        write("nr_requests", &queue.nr_requests.to_string())?;
    }
    if folder(name).join("wbt_lat_usec").exists() {
        write("wbt_lat_usec", &queue.wbt_lat_usec.to_string())?;
    }
    Ok(())
}

/// Has the kernel count the requests of a device without a request queue, which it does not by
/// itself; without counts a result looks as if it had never reached the device.
///
/// # Errors
/// A kernel that cannot.
pub fn count_requests(name: &str) -> io::Result<()> {
    fs::write(folder(name).join("iostats"), "1")
}

/// What the driver does not let itself be told, in sentences: nbd, for one, has physical blocks as
/// large as its logical ones.
pub fn differences(wanted: &Queue, in_effect: &BTreeMap<String, String>) -> Vec<String> {
    let wanted = [
        ("rotational", u64::from(wanted.rotational)),
        ("read_ahead_kb", u64::from(wanted.read_ahead_kb)),
        ("logical_block_size", u64::from(wanted.logical_block_size)),
        ("physical_block_size", u64::from(wanted.physical_block_size)),
    ];
    wanted
        .iter()
        .filter_map(|(key, value)| {
            let found = in_effect.get(*key)?;
            (*found != value.to_string())
                .then(|| format!("the disk's {key} is {value}, and the guest's driver has {found}"))
        })
        .collect()
}

/// How many bytes a device has.
///
/// # Errors
/// A device that is not there.
pub fn size(name: &str) -> io::Result<u64> {
    // In sectors of 512 bytes, whatever the device's own are (Documentation/ABI/stable/sysfs-block).
    let sectors = fs::read_to_string(of_device(name).join("size"))?;
    Ok(sectors.trim().parse::<u64>().map_err(io::Error::other)? * 512)
}

/// The settings in effect.
pub fn read_back(name: &str) -> BTreeMap<String, String> {
    KEYS.iter()
        .filter_map(|key| {
            let text = fs::read_to_string(folder(name).join(key)).ok()?;
            Some((key.to_string(), text.trim().to_string()))
        })
        .collect()
}
