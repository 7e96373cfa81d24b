//! Dangerous requests: each is refused with its reason, and no byte of any device changes.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

#[path = "../bench/mod.rs"]
mod bench;
mod changes;
mod layers;
mod mounts;
mod tables;

use std::path::{Path, PathBuf};

use bench::{Bench, has, md_superblock, put, tool, unable};
use changes::{
    claimed, copied, link, locked, mkfs_between, mount_between, number, table_by_now, taken,
};
use fsdyno_media::block::{BlockError, check_drive};
use layers::{
    file_swap, file_written, held, luks, lvm, lvm_active, mapped, mapping, md_end, md_front,
    md_running, over_device, same_bytes, same_file, under_loop, written,
};
use mounts::{
    btrfs_member, journal, mounted, mounted_elsewhere, mounted_nowhere, mounted_partition,
    mounted_read_only, root, swap, swap_off,
};
use tables::{gpt, gpt_backup, kernel_parts, lost, mbr, partition};

/// The requested device, and the action between look and claim.
struct Request {
    path: PathBuf,
    erase: Option<String>,
    between: Option<Between>,
}

impl Request {
    /// Confirms with the right serial number, so that only the danger can be the reason to refuse.
    fn confirmed(device: &str, image: &Path) -> Request {
        let erase = Some(image.to_string_lossy().into_owned());
        Request { path: device.into(), erase, between: None }
    }

    fn then(self, between: impl FnOnce(&mut Bench) + 'static) -> Request {
        Request { between: Some(Box::new(between)), ..self }
    }
}

type Between = Box<dyn FnOnce(&mut Bench)>;

/// A request, or the reason why it cannot be prepared here.
type Made = Result<Request, String>;

/// A danger, its preparation, and a part of the expected reason.
type Case = (&'static str, fn(&mut Bench) -> Made, &'static str);

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
    ("swap not in use", swap_off, "signatures that are not fsdyno's: swap"),
    ("a member of LVM", lvm, "LVM2_member"),
    ("an active volume group", lvm_active, "is in use by the LVM volume"),
    ("a drive under device-mapper", mapped, "is in use by the device-mapper volume"),
    ("a device-mapper volume", mapping, "is a device-mapper volume"),
    ("an md member with its superblock in front", md_front, "linux_raid_member"),
    ("an md member with its superblock at the end", md_end, "linux_raid_member"),
    ("a drive in a running md array", md_running, "is in use by the md array"),
    ("an encrypted drive", luks, "crypto_LUKS"),
    ("a GPT", gpt, "signatures that are not fsdyno's: gpt"),
    ("a GPT of which only the backup is left", gpt_backup, "signatures that are not fsdyno's: gpt"),
    ("an MBR", mbr, "signatures that are not fsdyno's: dos"),
    ("partitions that only the kernel knows", kernel_parts, "it has partitions: loop"),
    ("an ext4", |bench| made(bench, 24, &["mke2fs", "-q", "-t", "ext4"]), "not fsdyno's: ext4"),
    ("an xfs", |bench| made(bench, 320, &["mkfs.xfs", "-q"]), "not fsdyno's: xfs"),
    ("a btrfs", |bench| made(bench, 128, &["mkfs.btrfs", "-q"]), "not fsdyno's: btrfs"),
    (
        "a file system whose partition table is lost",
        |bench| lost(bench, 2048),
        "begins at byte 1048576",
    ),
    ("the same at DOS's second track", |bench| lost(bench, 63), "begins at byte 32256"),
    ("the same at a GPT's first sector", |bench| lost(bench, 34), "begins at byte 17408"),
    ("the same at 2 MiB", |bench| lost(bench, 4096), "begins at byte 2097152"),
    ("the same at 4 MiB", |bench| lost(bench, 8192), "begins at byte 4194304"),
    ("a partition", partition, "is a partition, and fsdyno uses whole drives only"),
    ("a link that changes", link, "; nothing was written"),
    ("a reused device number", number, "; nothing was written"),
    ("mkfs between look and claim", mkfs_between, "not fsdyno's: ext4"),
    ("mount between look and claim", mount_between, "the kernel reports that it is in use"),
    ("a read-only drive", read_only, "it is read-only"),
    ("a drive too small", too_small, "it has 8 MiB; at least 16 MiB are needed"),
    ("no --erase", no_erase, "to confirm, add --erase /"),
    ("the wrong serial number", wrong_erase, "--erase S3RIAL is not the path of its backing file"),
    (
        "a serial number that is only the beginning",
        short_erase,
        "is not the path of its backing file",
    ),
    ("a drive under a loop device", under_loop, "is in use by the loop device loop"),
    ("a loop device over a drive", over_device, "is a loop device over another block device"),
    ("a file of which another loop is mounted", same_file, "is over the same file"),
    ("a file that another loop has a part of", same_bytes, "is over the same file"),
    (
        "a file that a process writes, as a virtual machine does",
        file_written,
        "is open for writing in process",
    ),
    ("a file that is swap further on", file_swap, "is in use as swap"),
    ("a drive that a process writes", written, "is open for writing in process"),
    ("a drive that is open exclusively", held, "the kernel reports that it is in use"),
    ("a locked drive", locked, "another program has locked it"),
    ("a drive claimed by another fsdyno", claimed, "another fsdyno is using it"),
    (
        "a copy of a drive of fsdyno's",
        copied,
        "begins at byte 1048576, where a first partition may begin",
    ),
    ("a drive of fsdyno's with a later file system", taken, "not what fsdyno left there"),
    ("a drive of fsdyno's with a later table", table_by_now, "not fsdyno's: dos"),
    ("a file", |_| plain("/proc/self/exe"), "is not a block device"),
    ("a character device", |_| plain("/dev/null"), "is not a block device"),
    ("nothing", |_| plain("/dev/nowhere"), "does not exist"),
    ("a drive without a serial number", no_serial, "it has no serial number"),
];

#[test]
fn dangerous_requests_are_refused_with_their_reason_and_change_nothing() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let (mut refused, mut skipped) = (0, Vec::new());
    for (name, make, reason) in CASES {
        let mut bench = Bench::new();
        let request = match make(&mut bench) {
            Ok(request) => request,
            Err(why) => {
                skipped.push(format!("{name} ({why})"));
                continue;
            }
        };
        let before = bench.hashes();
        let looked = check_drive(&request.path, request.erase.as_deref());
        assert_eq!(bench.hashes(), before, "{name}: looking changed a byte");
        let error = match (looked, request.between) {
            (Err(error), _) => error,
            (Ok(seen), Some(between)) => {
                between(&mut bench);
                let before = bench.hashes();
                let error = seen.claim().map(drop).expect_err(name);
                assert_eq!(bench.hashes(), before, "{name}: claiming changed a byte");
                error
            }
            (Ok(_), None) => panic!("{name}: was taken"),
        };
        let text = error.to_string();
        assert!(text.contains(reason), "{name}: {text}");
        assert!(!text.contains('\n'), "{name}: {text}");
        println!("refused: {name}: {text}");
        refused += 1;
    }
    println!("{refused} refused, {} skipped: {}", skipped.len(), skipped.join(", "));
    assert!(refused >= 25, "{refused} of {} could be tested here", CASES.len());
}

#[test]
fn another_part_of_the_same_file_is_another_drive() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let image = bench.image(64);
    let mine = bench.attach(&image, &["--sizelimit", "33554432"]);
    let other = bench.attach(&image, &["--offset", "33554432"]);
    tool("mke2fs", &["-q", "-t", "ext4", &other]);
    bench.mount(&other, &[]);
    check_drive(Path::new(&mine), Some(&image.to_string_lossy())).unwrap();
}

fn needs(tools: &[&str]) -> Result<(), String> {
    match tools.iter().find(|tool| !has(tool)) {
        Some(tool) => Err(format!("no {tool} here")),
        None => Ok(()),
    }
}

/// Makes a file system that writes nothing later by itself.
fn ext2(device: &str) {
    tool("mke2fs", &["-q", "-F", "-t", "ext2", device]);
}

fn plain(path: &str) -> Made {
    Ok(Request { path: path.into(), erase: None, between: None })
}

fn made(bench: &mut Bench, mebibytes: u64, argv: &[&str]) -> Made {
    let (Some(name), Some(words)) = (argv.first(), argv.get(1..)) else { return plain("") };
    needs(&[name])?;
    let (device, image) = bench.device(mebibytes);
    tool(name, &[words, &[&device]].concat());
    Ok(Request::confirmed(&device, &image))
}

fn read_only(bench: &mut Bench) -> Made {
    let image = bench.image(24);
    let device = bench.attach(&image, &["--read-only"]);
    Ok(Request::confirmed(&device, &image))
}

fn too_small(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(8);
    Ok(Request::confirmed(&device, &image))
}

fn no_erase(bench: &mut Bench) -> Made {
    plain(&bench.device(24).0)
}

fn wrong_erase(bench: &mut Bench) -> Made {
    Ok(Request::confirmed(&bench.device(24).0, Path::new("S3RIAL")))
}

fn short_erase(bench: &mut Bench) -> Made {
    let (device, image) = bench.device(24);
    Ok(Request::confirmed(&device, image.parent().unwrap()))
}

fn no_serial(_: &mut Bench) -> Made {
    let names = ["/dev/zram0", "/dev/ram0"];
    let found = names.iter().find(|name| Path::new(name).exists());
    plain(found.ok_or("neither zram nor ram disk here")?)
}

#[test]
fn all_reasons_are_reported_at_once() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let image = bench.image(24);
    let device = bench.attach(&image, &["--read-only"]);
    put(&image, 4096, &md_superblock(4096));
    let Err(BlockError::Refused { reasons, .. }) = check_drive(Path::new(&device), None) else {
        panic!("was taken")
    };
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}
