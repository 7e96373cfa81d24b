//! Dangerous requests: each request is refused with its reason, and no byte of any device changes.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

#[path = "fixture/dangers.rs"]
mod dangers;
mod fixture;

use std::path::{Path, PathBuf};

use dangers::{Case, Prepared, Request, add_partition, ext2, formatted, map, needs, plain};
use fixture::{LoopDevices, MIB, feed, md_superblock, put, skip_reason, tool};
use fsdyno_media::block::{BlockError, check_drive};

const CASES: &[Case] = &[
    ("swap not in use", swap_off, "signatures that are not fsdyno's: swap"),
    ("a member of LVM", lvm, "LVM2_member"),
    ("a device-mapper volume", mapping, "is a device-mapper volume"),
    ("an md member with its superblock in front", md_front, "linux_raid_member"),
    ("an md member with its superblock at the end", md_end, "linux_raid_member"),
    ("an encrypted drive", luks, "crypto_LUKS"),
    ("a GPT", gpt, "signatures that are not fsdyno's: gpt"),
    ("a GPT of which only the backup is left", gpt_backup, "signatures that are not fsdyno's: gpt"),
    ("an MBR", mbr, "signatures that are not fsdyno's: dos"),
    ("partitions only in the kernel's table", kernel_parts, "it has partitions: loop"),
    (
        "an ext4",
        |fixture| formatted(fixture, 24, &["mke2fs", "-q", "-t", "ext4"]),
        "not fsdyno's: ext4",
    ),
    ("an xfs", |fixture| formatted(fixture, 320, &["mkfs.xfs", "-q"]), "not fsdyno's: xfs"),
    ("a btrfs", |fixture| formatted(fixture, 128, &["mkfs.btrfs", "-q"]), "not fsdyno's: btrfs"),
    (
        "a file system whose partition table is lost",
        |fixture| lost(fixture, 2048),
        "begins at byte 1048576",
    ),
    ("the same at DOS's second track", |fixture| lost(fixture, 63), "begins at byte 32256"),
    ("the same at a GPT's first sector", |fixture| lost(fixture, 34), "begins at byte 17408"),
    ("the same at 2 MiB", |fixture| lost(fixture, 4096), "begins at byte 2097152"),
    ("the same at 4 MiB", |fixture| lost(fixture, 8192), "begins at byte 4194304"),
    ("a partition", partition, "is a partition, and fsdyno uses whole drives only"),
    ("a link that changes", link, "; nothing was written"),
    ("a reused device number", number, "; nothing was written"),
    ("mkfs between inspection and claim", mkfs_between, "not fsdyno's: ext4"),
    ("a read-only drive", read_only, "it is read-only"),
    ("a drive too small", too_small, "it has 8 MiB; at least 16 MiB are needed"),
    ("no --erase", no_erase, "to confirm, add --erase /"),
    ("the wrong serial number", wrong_erase, "--erase S3RIAL is not the path of its backing file"),
    (
        "a serial number that is only the beginning",
        short_erase,
        "is not the path of its backing file",
    ),
    ("a loop device over a drive", over_device, "is a loop device over another block device"),
    (
        "a copy of a drive used by fsdyno",
        copied,
        "begins at byte 1048576, where a first partition may begin",
    ),
    ("a drive used by fsdyno with a later file system", taken, "not what fsdyno left there"),
    ("a drive used by fsdyno with a later table", later_table, "not fsdyno's: dos"),
    ("a file", |_| plain("/proc/self/exe"), "is not a block device"),
    ("a character device", |_| plain("/dev/null"), "is not a block device"),
    ("nothing", |_| plain("/dev/nowhere"), "does not exist"),
    ("a drive without a serial number", no_serial, "it has no serial number"),
];

#[test]
fn dangerous_requests_are_refused_with_their_reason_and_change_nothing() {
    dangers::assert_refused(CASES, 15);
}

fn swap_off(fixture: &mut LoopDevices) -> Prepared {
    formatted(fixture, 24, &["mkswap"])
}

fn lvm(fixture: &mut LoopDevices) -> Prepared {
    formatted(fixture, 24, &["pvcreate", "--quiet", "--yes"])
}

fn mapping(fixture: &mut LoopDevices) -> Prepared {
    let (device, _) = fixture.device(24);
    plain(&map(fixture, &device)?)
}

fn md_front(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    put(&device, 4096, &md_superblock(4096));
    Ok(Request::confirmed(&device, &image))
}

fn md_end(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let at = 24 * MIB - 8192;
    put(&device, at, &md_superblock(at));
    Ok(Request::confirmed(&device, &image))
}

fn luks(fixture: &mut LoopDevices) -> Prepared {
    needs(&["cryptsetup"])?;
    let (device, image) = fixture.device(24);
    let args =
        ["luksFormat", "--batch-mode", "--type", "luks1", "--pbkdf-force-iterations", "1000"];
    feed("cryptsetup", &[&args[..], &[&device, "-"]].concat(), "secret");
    Ok(Request::confirmed(&device, &image))
}

fn table(fixture: &mut LoopDevices, label: &str) -> Result<(String, PathBuf), String> {
    needs(&["sfdisk"])?;
    let (device, image) = fixture.device(24);
    // No partition in the kernel's table: the table on the drive must be the only reason.
    feed("sfdisk", &["--quiet", "--no-reread", &device], &format!("label: {label}\n"));
    Ok((device, image))
}

fn gpt(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = table(fixture, "gpt")?;
    Ok(Request::confirmed(&device, &image))
}

fn gpt_backup(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = table(fixture, "gpt")?;
    put(&device, 0, &[0; 34 * 512]);
    Ok(Request::confirmed(&device, &image))
}

fn mbr(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = table(fixture, "dos")?;
    Ok(Request::confirmed(&device, &image))
}

fn kernel_parts(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    add_partition(fixture, &device);
    Ok(Request::confirmed(&device, &image))
}

/// Creates a file system that begins at a sector.
fn lost(fixture: &mut LoopDevices, sector: u64) -> Prepared {
    let (device, image) = fixture.device(24);
    let offset = format!("offset={}", sector * 512);
    tool("mke2fs", &["-q", "-t", "ext4", "-E", &offset, &device, "19M"]);
    Ok(Request::confirmed(&device, &image))
}

fn partition(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    Ok(Request::confirmed(&add_partition(fixture, &device), &image))
}

fn link(fixture: &mut LoopDevices) -> Prepared {
    let ((mine, image), (other, _)) = (fixture.device(24), fixture.device(24));
    let link = fixture.path("ata-DISK_S3RIAL");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    let request = Request::confirmed(&link.to_string_lossy(), &image);
    Ok(request.with_action(move |_| {
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
    }))
}

fn number(fixture: &mut LoopDevices) -> Prepared {
    if !Path::new("/sys/block/loop0/diskseq").exists() {
        return Err("this kernel does not number its disks (5.15 does)".into());
    }
    let ((device, image), other) = (fixture.device(24), fixture.image(24));
    let request = Request::confirmed(&device, &image);
    Ok(request.with_action(move |_| {
        tool("losetup", &["--detach", &device]);
        tool("losetup", &[&device, &other.to_string_lossy()]);
    }))
}

fn mkfs_between(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.with_action(move |_| tool("mke2fs", &["-q", "-t", "ext4", &device])))
}

fn read_only(fixture: &mut LoopDevices) -> Prepared {
    let image = fixture.image(24);
    let device = fixture.attach(&image, &["--read-only"]);
    Ok(Request::confirmed(&device, &image))
}

fn too_small(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(8);
    Ok(Request::confirmed(&device, &image))
}

fn no_erase(fixture: &mut LoopDevices) -> Prepared {
    plain(&fixture.device(24).0)
}

fn wrong_erase(fixture: &mut LoopDevices) -> Prepared {
    Ok(Request::confirmed(&fixture.device(24).0, Path::new("S3RIAL")))
}

fn short_erase(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    Ok(Request::confirmed(&device, image.parent().unwrap()))
}

fn over_device(fixture: &mut LoopDevices) -> Prepared {
    let (below, _) = fixture.device(24);
    let device = fixture.attach(Path::new(&below), &[]);
    Ok(Request::confirmed(&device, Path::new(&below)))
}

/// Returns a blank drive that fsdyno has claimed and released.
fn used(fixture: &mut LoopDevices) -> (String, PathBuf) {
    let (device, image) = fixture.device(24);
    let erase = image.to_string_lossy().into_owned();
    let claim = check_drive(Path::new(&device), Some(&erase)).unwrap().claim().unwrap();
    ext2(&claim.device().unwrap().path.to_string_lossy());
    claim.release().unwrap();
    (device, image)
}

fn copied(fixture: &mut LoopDevices) -> Prepared {
    let (_, image) = used(fixture);
    let copy = fixture.image(24);
    std::fs::copy(&image, &copy).unwrap();
    let device = fixture.attach(&copy, &[]);
    Ok(Request::confirmed(&device, &copy))
}

fn taken(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = used(fixture);
    tool("mke2fs", &["-q", "-F", "-t", "ext4", "-E", "offset=1048576", &device, "20M"]);
    Ok(Request::confirmed(&device, &image))
}

fn later_table(fixture: &mut LoopDevices) -> Prepared {
    needs(&["sfdisk"])?;
    let (device, image) = used(fixture);
    feed("sfdisk", &["--quiet", "--no-reread", &device], "label: dos\n");
    Ok(Request::confirmed(&device, &image))
}

fn no_serial(_: &mut LoopDevices) -> Prepared {
    let names = ["/dev/zram0", "/dev/ram0"];
    let found = names.iter().find(|name| Path::new(name).exists());
    plain(found.ok_or("neither zram nor ram disk here")?)
}

#[test]
fn all_reasons_are_reported_at_once() {
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let mut fixture = LoopDevices::new();
    let image = fixture.image(24);
    let device = fixture.attach(&image, &["--read-only"]);
    put(&image, 4096, &md_superblock(4096));
    let Err(BlockError::Refused { reasons, .. }) = check_drive(Path::new(&device), None) else {
        panic!("the drive was accepted")
    };
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}
