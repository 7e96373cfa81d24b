//! Drives with partition tables, and partitions.

use std::path::PathBuf;

use crate::bench::{Bench, feed, put, quiet, tool};
use crate::{Made, Request, needs};

/// Adds a partition in the kernel's table only, so that its mount is the only reason.
pub fn add_partition(bench: &mut Bench, device: &str) -> String {
    tool("addpart", &[device, "1", "4096", "32768"]);
    let gone = device.to_string();
    bench.undo(move || quiet("delpart", &[&gone, "1"]));
    format!("{device}p1")
}

fn table(bench: &mut Bench, label: &str) -> Result<(String, PathBuf), String> {
    needs(&["sfdisk"])?;
    let (device, image) = bench.device(24);
    // No partition in the kernel's table: the table on the drive must be the only reason.
    feed("sfdisk", &["--quiet", "--no-reread", &device], &format!("label: {label}\n"));
    Ok((device, image))
}

pub fn gpt(bench: &mut Bench) -> Made {
    let (device, image) = table(bench, "gpt")?;
    Ok(Request::confirmed(&device, &image))
}

pub fn gpt_backup(bench: &mut Bench) -> Made {
    let (device, image) = table(bench, "gpt")?;
    put(&device, 0, &[0; 34 * 512]);
    Ok(Request::confirmed(&device, &image))
}

pub fn mbr(bench: &mut Bench) -> Made {
    let (device, image) = table(bench, "dos")?;
    Ok(Request::confirmed(&device, &image))
}

pub fn kernel_parts(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    add_partition(bench, &device);
    Ok(Request::confirmed(&device, &image))
}

/// Makes a file system that begins at a sector.
pub fn lost(bench: &mut Bench, sector: u64) -> Made {
    let (device, image) = bench.device(24);
    let offset = format!("offset={}", sector * 512);
    tool("mke2fs", &["-q", "-t", "ext4", "-E", &offset, &device, "19M"]);
    Ok(Request::confirmed(&device, &image))
}

pub fn partition(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    Ok(Request::confirmed(&add_partition(bench, &device), &image))
}
