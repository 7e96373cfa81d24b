//! Drives in use: each request is refused with its reason, and no byte of any device changes.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "fixture/dangers.rs"]
mod dangers;
mod fixture;

use std::path::Path;
use std::process::Command;

use dangers::{Case, Prepared, Request, add_partition, ext2, map, mapper, needs};
use fixture::{LoopDevices, MIB, command, put, quiet, skip_reason, succeeds, tool};
use fsdyno_media::block::check_drive;

const CASES: &[Case] = &[
    ("a mounted drive", mounted, "is mounted at /"),
    ("a drive with a mounted partition", mounted_partition, "p1 is mounted at /"),
    (
        "a drive mounted in another namespace",
        mounted_elsewhere,
        "in the mount namespace of process",
    ),
    (
        "a drive mounted in a namespace without processes",
        mounted_nowhere,
        "the kernel reports that it is in use",
    ),
    ("a drive mounted read-only", mounted_read_only, "is mounted at /"),
    ("the drive under /", root, "is mounted at /"),
    ("one of the drives of a mounted btrfs", btrfs_member, "is in use by the mounted btrfs"),
    ("the journal of a mounted ext4", journal, "jbd"),
    ("swap in use", swap, "is in use as swap"),
    ("an active volume group", lvm_active, "is in use by the LVM volume"),
    ("a drive under device-mapper", mapped, "is in use by the device-mapper volume"),
    ("a drive in a running md array", md_running, "is in use by the md array"),
    ("mount between inspection and claim", mount_between, "the kernel reports that it is in use"),
    ("a drive under a loop device", under_loop, "is in use by the loop device loop"),
    ("a file of which another loop is mounted", same_file, "is over the same file"),
    ("a file of which another loop uses a part", same_bytes, "is over the same file"),
    (
        "a file that a process writes, as a virtual machine does",
        file_written,
        "is open for writing in process",
    ),
    ("a part of a swap file", file_swap, "is in use as swap"),
    ("a drive that a process writes", written, "is open for writing in process"),
    ("a drive that is open exclusively", held, "the kernel reports that it is in use"),
    ("a locked drive", locked, "another program has locked it"),
    ("a drive claimed by another fsdyno", claimed, "another fsdyno is using it"),
];

#[test]
fn drives_in_use_are_refused_with_the_reason_and_do_not_change() {
    dangers::assert_refused(CASES, 10);
}

#[test]
fn another_part_of_the_same_file_is_another_drive() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let mut fixture = LoopDevices::new();
    let image = fixture.image(64);
    let mine = fixture.attach(&image, &["--sizelimit", "33554432"]);
    let other = fixture.attach(&image, &["--offset", "33554432"]);
    tool("mke2fs", &["-q", "-t", "ext4", &other]);
    fixture.mount(&other, &[]);
    check_drive(Path::new(&mine), Some(&image.to_string_lossy())).unwrap();
}

fn mounted(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    ext2(&device);
    fixture.mount(&device, &[]);
    Ok(Request::confirmed(&device, &image))
}

fn mounted_read_only(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    ext2(&device);
    fixture.mount(&device, &["-o", "ro"]);
    Ok(Request::confirmed(&device, &image))
}

fn mounted_partition(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let partition = add_partition(fixture, &device);
    ext2(&partition);
    fixture.mount(&partition, &[]);
    Ok(Request::confirmed(&device, &image))
}

/// Returns a shell in its own mount namespace, where it mounts the device.
fn mount_apart(device: &str, at: &Path, more: &[&str], then: &str) -> Command {
    // Read-only, because otherwise the superblock is written some time after the mount.
    let script = format!("mount -o ro {device} {} && {then}", at.display());
    command("unshare", &[more, &["sh", "-c", &script]].concat())
}

fn mounted_elsewhere(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    ext2(&device);
    let at = fixture.folder("at");
    let then = "echo ready && exec sleep 1000";
    fixture.process(&mut mount_apart(&device, &at, &["--mount"], then));
    Ok(Request::confirmed(&device, &image))
}

/// Mounts in a namespace held only by a file. The superblock is overwritten, so that only the kernel's claim shows it.
fn mounted_nowhere(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    ext2(&device);
    let (at, outer) = (fixture.folder("at"), fixture.folder("outer"));
    // The file works only on a mount that does not propagate.
    let path = outer.to_string_lossy().into_owned();
    tool("mount", &["-t", "tmpfs", "none", &path]);
    fixture.undo(move || quiet("umount", &[&path]));
    let path = outer.to_string_lossy().into_owned();
    tool("mount", &["--make-private", &path]);
    let file = outer.join("namespace");
    std::fs::write(&file, "").unwrap();
    let option = format!("--mount={}", file.display());
    assert!(mount_apart(&device, &at, &[&option], "true").status().unwrap().success());
    fixture.undo(move || quiet("umount", &[&file.to_string_lossy()]));
    put(&image, 0, &[0; 64 << 10]);
    quiet("blockdev", &["--flushbufs", &device]);
    Ok(Request::confirmed(&device, &image))
}

fn root(_: &mut LoopDevices) -> Prepared {
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

fn btrfs_member(fixture: &mut LoopDevices) -> Prepared {
    needs(&["mkfs.btrfs"])?;
    let ((first, _), (second, image)) = (fixture.device(128), fixture.device(128));
    tool("mkfs.btrfs", &["-q", "-d", "single", "-m", "single", &first, &second]);
    tool("btrfs", &["device", "scan", &first, &second]);
    // Read-only, because otherwise the file system writes at any time.
    fixture.mount(&first, &["-t", "btrfs", "-o", "ro"]);
    Ok(Request::confirmed(&second, &image))
}

fn journal(fixture: &mut LoopDevices) -> Prepared {
    let ((device, _), (journal, image)) = (fixture.device(24), fixture.device(24));
    tool("mke2fs", &["-q", "-b", "4096", "-O", "journal_dev", &journal]);
    let option = format!("device={journal}");
    tool("mke2fs", &["-q", "-b", "4096", "-t", "ext4", "-J", &option, &device]);
    fixture.mount(&device, &["-o", "ro"]);
    Ok(Request::confirmed(&journal, &image))
}

fn swap(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    tool("mkswap", &[&device]);
    if !succeeds("swapon", &[&device]) {
        return Err("swapon is refused here".into());
    }
    let off = device.clone();
    fixture.undo(move || quiet("swapoff", &[&off]));
    Ok(Request::confirmed(&device, &image))
}

fn lvm_active(fixture: &mut LoopDevices) -> Prepared {
    mapper()?;
    needs(&["vgcreate"])?;
    let (device, image) = fixture.device(32);
    let group = format!("fsdyno{}", std::process::id());
    tool("vgcreate", &["--quiet", "--yes", &group, &device]);
    tool("lvcreate", &["--quiet", "--yes", "--zero", "n", "--extents", "1", "--name", "v", &group]);
    fixture.undo(move || quiet("vgremove", &["--force", "--yes", &group]));
    Ok(Request::confirmed(&device, &image))
}

fn mapped(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    map(fixture, &device)?;
    Ok(Request::confirmed(&device, &image))
}

fn md_running(fixture: &mut LoopDevices) -> Prepared {
    needs(&["mdadm"])?;
    if !Path::new("/proc/mdstat").exists() {
        return Err("this kernel has no md".into());
    }
    let (device, image) = fixture.device(32);
    let name = "/dev/md/fsdyno-test";
    let args = ["--create", name, "--run", "--force", "--level=1", "--raid-devices=2"];
    tool("mdadm", &[&args[..], &[&device, "missing"]].concat());
    fixture.undo(move || quiet("mdadm", &["--stop", name]));
    // The array must be the only reason.
    put(&image, 4096, &[0; 4096]);
    Ok(Request::confirmed(&device, &image))
}

fn mount_between(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.with_action(move |fixture| {
        ext2(&device);
        fixture.mount(&device, &[]);
    }))
}

fn under_loop(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    fixture.attach(Path::new(&device), &["--read-only"]);
    Ok(Request::confirmed(&device, &image))
}

fn same_file(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(100);
    let other = fixture.attach(&image, &["--offset", "73400320"]);
    tool("mke2fs", &["-q", "-t", "ext4", &other]);
    fixture.mount(&other, &[]);
    Ok(Request::confirmed(&device, &image))
}

fn same_bytes(fixture: &mut LoopDevices) -> Prepared {
    let image = fixture.image(48);
    let device = fixture.attach(&image, &["--sizelimit", "33554432"]);
    fixture.attach(&image, &["--offset", "33550336", "--sizelimit", "8192"]);
    Ok(Request::confirmed(&device, &image))
}

fn file_written(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let script = format!("exec 3<>{}; echo ready; exec sleep 1000", image.display());
    fixture.process(&mut command("sh", &["-c", &script]));
    Ok(Request::confirmed(&device, &image))
}

fn file_swap(fixture: &mut LoopDevices) -> Prepared {
    // File systems in memory support no swap files.
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let path = image.to_string_lossy().into_owned();
    std::fs::write(&image, vec![0; 48 * MIB as usize]).unwrap();
    tool("chmod", &["600", &path]);
    tool("mkswap", &[&path]);
    let on = succeeds("swapon", &[&path]);
    fixture.undo(move || {
        quiet("swapoff", &[&path]);
        drop(folder);
    });
    if !on {
        return Err("swapon of a file is refused here".into());
    }
    let device = fixture.attach(&image, &["--offset", "4194304"]);
    Ok(Request::confirmed(&device, &image))
}

fn written(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let script = format!("exec 3<>{device}; echo ready; exec sleep 1000");
    fixture.process(&mut command("sh", &["-c", &script]));
    Ok(Request::confirmed(&device, &image))
}

fn held(fixture: &mut LoopDevices) -> Prepared {
    use std::os::unix::fs::OpenOptionsExt;
    let (device, image) = fixture.device(24);
    let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
    let file = std::fs::File::options().read(true).custom_flags(exclusive).open(&device).unwrap();
    fixture.undo(move || drop(file));
    Ok(Request::confirmed(&device, &image))
}

fn locked(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.with_action(move |fixture| {
        let script = "echo ready; exec sleep 1000";
        fixture.process(&mut command("flock", &["--no-fork", &device, "sh", "-c", script]));
    }))
}

fn claimed(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let request = Request::confirmed(&device, &image);
    let erase = request.erase.clone();
    let claim = check_drive(Path::new(&device), erase.as_deref()).unwrap().claim().unwrap();
    fixture.undo(move || drop(claim));
    Ok(request)
}
