//! Sets a block queue's parameters as the disk profile specifies, and reads them back for the conditions.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_disk::Queue;

/// The settings that are read back.
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
    "optimal_io_size",
    "discard_max_bytes",
    "add_random",
    "iostats",
];

/// The maximum number of requests that nbd can have in flight (linux/drivers/block/nbd.c, `queue_depth`).
const NBD_TAGS: u32 = 128;

/// Returns the sysfs folder of a device's queue. A partition shares the queue of its drive.
fn folder(name: &str) -> PathBuf {
    let device = sysfs_folder(name);
    let drive = device.canonicalize().ok().filter(|device| device.join("partition").exists());
    let drive = drive.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    drive.unwrap_or(device).join("queue")
}

/// Returns the sysfs folder of a drive or a partition.
pub fn sysfs_folder(name: &str) -> PathBuf {
    Path::new("/sys/class/block").join(name)
}

/// Returns the settings that make a queue behave like the modelled disk's, in the order in which they are written.
///
/// The driver's tags, [`NBD_TAGS`], are first reduced to the disk's queue depth while no scheduler is attached: a
/// scheduler has its own requests, so once it is attached, `nr_requests` no longer limits the number of requests in
/// flight (linux/block/blk-mq.c, `blk_mq_update_nr_requests`). Read-ahead is set last: since Linux 6.11, any other
/// setting makes the kernel recompute it as twice the driver's optimal size (linux/block/blk-settings.c,
/// `blk_apply_bdi_limits`).
fn settings(queue: &Queue, scheduler: Option<&str>, has_wbt: bool) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("scheduler", "none".into()),
        ("nr_requests", queue.depth.min(NBD_TAGS).to_string()),
        ("rotational", u8::from(queue.rotational).to_string()),
        ("add_random", "0".into()),
        ("max_sectors_kb", queue.max_sectors_kb.to_string()),
        ("write_cache", queue.write_cache.name().into()),
    ];
    let scheduler = scheduler.unwrap_or(&queue.scheduler);
    if scheduler != "none" {
        settings.push(("scheduler", scheduler.into()));
        settings.push(("nr_requests", queue.nr_requests.to_string()));
    }
    if has_wbt {
        settings.push(("wbt_lat_usec", queue.wbt_lat_usec.to_string()));
    }
    settings.push(("read_ahead_kb", queue.read_ahead_kb.to_string()));
    settings
}

fn settings_of(name: &str, queue: &Queue, scheduler: Option<&str>) -> Vec<(&'static str, String)> {
    settings(queue, scheduler, folder(name).join("wbt_lat_usec").exists())
}

/// Makes the queue of `/dev/NAME` behave like that of the modelled disk.
///
/// # Errors
/// A setting that the kernel refuses, with its name and value; errors from [`check`].
pub fn set(name: &str, queue: &Queue, scheduler: Option<&str>) -> io::Result<()> {
    for (key, value) in settings_of(name, queue, scheduler) {
        fs::write(folder(name).join(key), &value).map_err(|error| {
            io::Error::new(error.kind(), format!("set {key} of {name} to {value}: {error}"))
        })?;
    }
    check(name, queue, scheduler)
}

/// Checks that all settings are in effect.
///
/// # Errors
/// The first setting that is not in effect, with its value.
pub fn check(name: &str, queue: &Queue, scheduler: Option<&str>) -> io::Result<()> {
    match first_unmet(&settings_of(name, queue, scheduler), &read_back(name)) {
        Some(what) => Err(io::Error::other(format!("the queue of {name}: {what}"))),
        None => Ok(()),
    }
}

/// Returns the first setting whose value differs from the one last written for it.
fn first_unmet(
    settings: &[(&'static str, String)],
    in_effect: &BTreeMap<String, String>,
) -> Option<String> {
    let expected: BTreeMap<&str, &String> =
        settings.iter().map(|(key, value)| (*key, value)).collect();
    expected.into_iter().find_map(|(key, value)| {
        let actual = in_effect.get(key).map_or("", String::as_str);
        // If there are several words, the one in brackets is in effect: `[mq-deadline] none`.
        let chosen = actual.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let actual = chosen.map_or(actual, |(chosen, _)| chosen);
        (actual != value).then(|| format!("{key} was set to {value} and is {actual}"))
    })
}

/// Makes the kernel count the requests to a device without a request queue, which it does not do by default; without
/// these counts, a result looks as if nothing had ever reached the device.
///
/// # Errors
/// A kernel that cannot do it.
pub fn count_requests(name: &str) -> io::Result<()> {
    fs::write(folder(name).join("iostats"), "1")
}

/// Describes, in sentences, what cannot be set in the driver: nbd's physical blocks, for example, are always as large
/// as its logical ones.
pub fn differences(expected: &Queue, in_effect: &BTreeMap<String, String>) -> Vec<String> {
    let expected = [
        ("rotational", u64::from(expected.rotational)),
        ("read_ahead_kb", u64::from(expected.read_ahead_kb)),
        ("logical_block_size", u64::from(expected.logical_block_size)),
        ("physical_block_size", u64::from(expected.physical_block_size)),
        // None of our drives has an optimal size. nbd has reported 128 KiB since Linux 6.10, and mkfs may lay out its
        // file system accordingly.
        ("optimal_io_size", 0),
    ];
    expected
        .iter()
        .filter_map(|(key, value)| {
            let actual = in_effect.get(*key)?;
            (*actual != value.to_string()).then(|| {
                format!("the disk's {key} is {value}, and the guest's driver has {actual}")
            })
        })
        .collect()
}

/// Returns the size of a device in bytes.
///
/// # Errors
/// A device that does not exist.
pub fn size(name: &str) -> io::Result<u64> {
    // The unit is 512-byte sectors, whatever the device's own sector size
    // (Documentation/ABI/stable/sysfs-block).
    let sectors = fs::read_to_string(sysfs_folder(name).join("size"))?;
    Ok(sectors.trim().parse::<u64>().map_err(io::Error::other)? * 512)
}

/// Returns the settings in effect.
pub fn read_back(name: &str) -> BTreeMap<String, String> {
    KEYS.iter()
        .filter_map(|key| {
            let text = fs::read_to_string(folder(name).join(key)).ok()?;
            Some((key.to_string(), text.trim().to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        fsdyno_disk::catalog::get("hdd-7200").unwrap().queue
    }

    fn to_map(settings: &[(&'static str, String)]) -> BTreeMap<String, String> {
        settings.iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    }

    #[test]
    fn read_ahead_is_set_after_every_setting_that_changes_it() {
        for scheduler in ["none", "bfq"] {
            let settings = settings(&queue(), Some(scheduler), true);
            assert_eq!(settings.last().unwrap(), &("read_ahead_kb", "128".into()));
            assert_eq!(
                settings[..2],
                [("scheduler", "none".into()), ("nr_requests", queue().depth.to_string())]
            );
        }
    }

    #[test]
    fn a_queue_deeper_than_that_of_the_driver_uses_all_tags_of_the_driver() {
        let queue = fsdyno_disk::catalog::get("nvme-datacenter").unwrap().queue;
        assert_eq!((queue.depth, queue.scheduler.as_str()), (1023, "none"));
        let settings = settings(&queue, None, true);
        let last = |key| settings.iter().rfind(|(other, _)| *other == key).map(|(_, value)| value);
        assert_eq!(last("nr_requests").unwrap(), "128");
        assert_eq!(last("rotational").unwrap(), "0");
        assert_eq!(last("write_cache").unwrap(), "write through");
    }

    #[test]
    fn a_setting_that_differs_from_its_last_written_value_is_found() {
        let settings = settings(&queue(), Some("mq-deadline"), true);
        let mut in_effect = to_map(&settings);
        in_effect.insert("scheduler".into(), "none [mq-deadline] kyber".into());
        assert_eq!(first_unmet(&settings, &in_effect), None);
        in_effect.insert("read_ahead_kb".into(), "256".into());
        let message = first_unmet(&settings, &in_effect).unwrap();
        assert_eq!(message, "read_ahead_kb was set to 128 and is 256");
        in_effect.insert("scheduler".into(), "[none] mq-deadline".into());
        in_effect.insert("read_ahead_kb".into(), "128".into());
        assert!(
            first_unmet(&settings, &in_effect)
                .unwrap()
                .starts_with("scheduler was set to mq-deadline")
        );
    }

    #[test]
    fn a_limit_of_the_driver_that_differs_from_the_disk_is_reported() {
        let mut in_effect =
            to_map(&[("physical_block_size", "4096".into()), ("optimal_io_size", "0".into())]);
        assert_eq!(differences(&queue(), &in_effect), [""; 0]);
        in_effect.insert("optimal_io_size".into(), "131072".into());
        assert_eq!(
            differences(&queue(), &in_effect),
            ["the disk's optimal_io_size is 0, and the guest's driver has 131072"]
        );
    }
}
