//! Dangerous requests: each is refused with its reason, and no byte of any device changes.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod fixture;

use std::path::{Path, PathBuf};
use std::process::Command;

use fixture::{
    LoopDevices, MIB, command, feed, has, md_superblock, put, quiet, skip_reason, succeeds, tool,
};
use fsdyno_media::block::{BlockError, check_drive};

/// The requested device, and the action between inspection and claim.
struct Request {
    path: PathBuf,
    erase: Option<String>,
    between: Option<Between>,
}

impl Request {
    /// Confirms with the correct serial number, so that only the danger can be the reason to refuse.
    fn confirmed(device: &str, image: &Path) -> Request {
        let erase = Some(image.to_string_lossy().into_owned());
        Request { path: device.into(), erase, between: None }
    }

    fn with_action(self, between: impl FnOnce(&mut LoopDevices) + 'static) -> Request {
        Request { between: Some(Box::new(between)), ..self }
    }
}

type Between = Box<dyn FnOnce(&mut LoopDevices)>;

/// A request, or the reason why it cannot be prepared here.
type Prepared = Result<Request, String>;

/// A danger, its preparation, and a part of the expected reason.
type Case = (&'static str, fn(&mut LoopDevices) -> Prepared, &'static str);

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
    ("mount between inspection and claim", mount_between, "the kernel reports that it is in use"),
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
    if let Some(why) = skip_reason() {
        return println!("skipped: {why}");
    }
    let (mut refused, mut skipped) = (0, Vec::new());
    for (name, make, reason) in CASES {
        let mut fixture = LoopDevices::new();
        let request = match make(&mut fixture) {
            Ok(request) => request,
            Err(why) => {
                skipped.push(format!("{name} ({why})"));
                continue;
            }
        };
        let before = fixture.hashes();
        let inspection = check_drive(&request.path, request.erase.as_deref());
        assert_eq!(fixture.hashes(), before, "{name}: the inspection changed a byte");
        let error = match (inspection, request.between) {
            (Err(error), _) => error,
            (Ok(inspected), Some(between)) => {
                between(&mut fixture);
                let before = fixture.hashes();
                let error = inspected.claim().map(drop).expect_err(name);
                assert_eq!(fixture.hashes(), before, "{name}: the claim changed a byte");
                error
            }
            (Ok(_), None) => panic!("{name}: the drive was accepted"),
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

fn needs(tools: &[&str]) -> Result<(), String> {
    match tools.iter().find(|tool| !has(tool)) {
        Some(tool) => Err(format!("no {tool} here")),
        None => Ok(()),
    }
}

/// Creates a file system that writes nothing later by itself.
fn ext2(device: &str) {
    tool("mke2fs", &["-q", "-F", "-t", "ext2", device]);
}

fn plain(path: &str) -> Prepared {
    Ok(Request { path: path.into(), erase: None, between: None })
}

fn formatted(fixture: &mut LoopDevices, mebibytes: u64, argv: &[&str]) -> Prepared {
    let (Some(name), Some(args)) = (argv.first(), argv.get(1..)) else { return plain("") };
    needs(&[name])?;
    let (device, image) = fixture.device(mebibytes);
    tool(name, &[args, &[&device]].concat());
    Ok(Request::confirmed(&device, &image))
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

/// Adds a partition in the kernel's table only, so that its mount is the only reason.
fn add_partition(fixture: &mut LoopDevices, device: &str) -> String {
    tool("addpart", &[device, "1", "4096", "32768"]);
    let device_name = device.to_string();
    fixture.undo(move || quiet("delpart", &[&device_name, "1"]));
    format!("{device}p1")
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

fn swap_off(fixture: &mut LoopDevices) -> Prepared {
    formatted(fixture, 24, &["mkswap"])
}

fn lvm(fixture: &mut LoopDevices) -> Prepared {
    formatted(fixture, 24, &["pvcreate", "--quiet", "--yes"])
}

fn mapper() -> Result<(), String> {
    needs(&["dmsetup"])?;
    match succeeds("dmsetup", &["targets"]) {
        true => Ok(()),
        false => Err("this kernel has no device-mapper".into()),
    }
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

fn map(fixture: &mut LoopDevices, device: &str) -> Result<String, String> {
    mapper()?;
    let name = format!("fsdyno-{}-{}", std::process::id(), device.replace('/', "-"));
    tool("dmsetup", &["create", &name, "--table", &format!("0 32768 linear {device} 0")]);
    let copy = name.clone();
    fixture.undo(move || quiet("dmsetup", &["remove", &copy]));
    Ok(format!("/dev/mapper/{name}"))
}

fn mapped(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    map(fixture, &device)?;
    Ok(Request::confirmed(&device, &image))
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

fn mount_between(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let request = Request::confirmed(&device, &image);
    Ok(request.with_action(move |fixture| {
        ext2(&device);
        fixture.mount(&device, &[]);
    }))
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

fn under_loop(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    fixture.attach(Path::new(&device), &["--read-only"]);
    Ok(Request::confirmed(&device, &image))
}

fn over_device(fixture: &mut LoopDevices) -> Prepared {
    let (below, _) = fixture.device(24);
    let device = fixture.attach(Path::new(&below), &[]);
    Ok(Request::confirmed(&device, Path::new(&below)))
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

/// Returns a blank drive that fsdyno has claimed and released.
fn used(fixture: &mut LoopDevices) -> (String, PathBuf) {
    let (device, image) = fixture.device(24);
    let erase = image.to_string_lossy().into_owned();
    let claim = check_drive(Path::new(&device), Some(&erase)).unwrap().claim().unwrap();
    ext2(&claim.device().unwrap().path.to_string_lossy());
    claim.release().unwrap();
    (device, image)
}

fn claimed(fixture: &mut LoopDevices) -> Prepared {
    let (device, image) = fixture.device(24);
    let request = Request::confirmed(&device, &image);
    let erase = request.erase.clone();
    let claim = check_drive(Path::new(&device), erase.as_deref()).unwrap().claim().unwrap();
    fixture.undo(move || drop(claim));
    Ok(request)
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
