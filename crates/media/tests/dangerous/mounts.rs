//! Drives that are mounted, or hold a part of something mounted, or swap.

use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, command, put, quiet, succeeds, tool};
use crate::tables::add_partition;
use crate::{Made, Request, ext2, made, needs};

pub fn mounted(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    ext2(&device);
    bench.mount(&device, &[]);
    Ok(Request::confirmed(&device, &image))
}

pub fn mounted_read_only(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    ext2(&device);
    bench.mount(&device, &["-o", "ro"]);
    Ok(Request::confirmed(&device, &image))
}

pub fn mounted_partition(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    let partition = add_partition(bench, &device);
    ext2(&partition);
    bench.mount(&partition, &[]);
    Ok(Request::confirmed(&device, &image))
}

/// Returns a shell in its own mount namespace, where it mounts the device.
fn mount_apart(device: &str, at: &Path, more: &[&str], then: &str) -> Command {
    // Read-only, because else the superblock is written some time after the mount.
    let script = format!("mount -o ro {device} {} && {then}", at.display());
    command("unshare", &[more, &["sh", "-c", &script]].concat())
}

pub fn mounted_elsewhere(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    ext2(&device);
    let at = bench.folder("at");
    let then = "echo ready && exec sleep 1000";
    bench.process(&mut mount_apart(&device, &at, &["--mount"], then));
    Ok(Request::confirmed(&device, &image))
}

/// Mounts in a namespace held only by a file. The superblock is overwritten, so that only the kernel knows.
pub fn mounted_nowhere(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    ext2(&device);
    let (at, outer) = (bench.folder("at"), bench.folder("outer"));
    // The file works only on a mount that does not propagate.
    let path = outer.to_string_lossy().into_owned();
    tool("mount", &["-t", "tmpfs", "none", &path]);
    bench.undo(move || quiet("umount", &[&path]));
    let path = outer.to_string_lossy().into_owned();
    tool("mount", &["--make-private", &path]);
    let file = outer.join("namespace");
    std::fs::write(&file, "").unwrap();
    let option = format!("--mount={}", file.display());
    assert!(mount_apart(&device, &at, &[&option], "true").status().unwrap().success());
    bench.undo(move || quiet("umount", &[&file.to_string_lossy()]));
    put(&image, 0, &[0; 64 << 10]);
    quiet("blockdev", &["--flushbufs", &device]);
    Ok(Request::confirmed(&device, &image))
}

pub fn root(_: &mut Bench) -> Made {
    let status = rustix::fs::stat("/").unwrap();
    let (major, minor) = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
    let folder = folder.map_err(|_| "/ is on no block device")?;
    let partition = folder.join("partition").exists();
    let whole = if partition { folder.parent().unwrap() } else { &folder };
    let path = Path::new("/dev").join(whole.file_name().unwrap());
    if !path.exists() {
        return Err(format!("no node {}", path.display()));
    }
    // Never give a serial number here, in case the tested code is wrong.
    Ok(Request { path, erase: None, between: None })
}

pub fn btrfs_member(bench: &mut Bench) -> Made {
    needs(&["mkfs.btrfs"])?;
    let ((first, _), (second, image)) = (bench.device(128), bench.device(128));
    tool("mkfs.btrfs", &["-q", "-d", "single", "-m", "single", &first, &second]);
    tool("btrfs", &["device", "scan", &first, &second]);
    // Read-only, because else the file system writes at any time.
    bench.mount(&first, &["-t", "btrfs", "-o", "ro"]);
    Ok(Request::confirmed(&second, &image))
}

pub fn journal(bench: &mut Bench) -> Made {
    let ((device, _), (journal, image)) = (bench.device(24), bench.device(24));
    tool("mke2fs", &["-q", "-b", "4096", "-O", "journal_dev", &journal]);
    let option = format!("device={journal}");
    tool("mke2fs", &["-q", "-b", "4096", "-t", "ext4", "-J", &option, &device]);
    bench.mount(&device, &["-o", "ro"]);
    Ok(Request::confirmed(&journal, &image))
}

pub fn swap(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    tool("mkswap", &[&device]);
    if !succeeds("swapon", &[&device]) {
        return Err("swapon is refused here".into());
    }
    let off = device.clone();
    bench.undo(move || quiet("swapoff", &[&off]));
    Ok(Request::confirmed(&device, &image))
}

pub fn swap_off(bench: &mut Bench) -> Made {
    made(bench, 24, &["mkswap"])
}
