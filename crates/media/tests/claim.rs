//! Claimed drives: no other process can take one, mkfs cannot reach the mark, and the leftovers of a killed
//! run are reused.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod fixture;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fixture::{LoopDevices, MIB, has, put, skip_reason, succeeds, tool};
use fsdyno_media::block::{Claim, check_drive, find_leftover_drives};

/// The environment variable that passes device, image and mkfs to the process that will be killed.
const HOLD_ARGS: &str = "FSDYNO_TEST_HOLD";

/// The offset of the mark, as documented.
const MARK: u64 = 4096;

fn claim(device: &str, image: &Path) -> Claim {
    let confirmed_serial = image.to_str();
    check_drive(Path::new(device), confirmed_serial).unwrap().claim().unwrap()
}

fn path(claim: &Claim) -> String {
    claim.device().unwrap().path.to_string_lossy().into_owned()
}

fn read(path: &Path, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    std::fs::File::open(path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

fn has_partitions(device: &str) -> bool {
    PathBuf::from(format!("{device}p1")).exists() || PathBuf::from(format!("{device}p2")).exists()
}

#[test]
fn a_claimed_drive_accepts_a_file_system_and_no_other_user() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(128);
    let claim = claim(&device, &image);
    let part = claim.device().unwrap();
    assert_eq!((part.size.0, part.path.clone()), (126 * MIB, format!("{device}p1").into()));
    assert_eq!(part.what, format!("loop over {}", image.display()));
    drop(part);
    let part = path(&claim);
    let at = fixture.folder("at").to_string_lossy().into_owned();
    for argv in [&["mke2fs", "-q", "-t", "ext4"][..], &["mkfs.btrfs", "-q"]] {
        if !has(argv[0]) {
            println!("skipped: no {}", argv[0]);
            continue;
        }
        claim.clear(&[]).unwrap();
        tool(argv[0], &[&argv[1..], &[&part]].concat());
        tool("mount", &[&part, &at]);
        std::fs::write(Path::new(&at).join("file"), "x").unwrap();
        assert!(claim.clear(&[]).is_err(), "a mounted file system was cleared");
        tool("umount", &[&at]);
        for argv in [
            &["mke2fs", "-q", "-F", "-t", "ext4", &device][..],
            &["mkfs.btrfs", "-q", "-f", &device],
            &["mount", "-t", "ext4", "-o", "offset=0", &device, &at],
            &["mkswap", "--force", &device],
            &["swapon", &device],
        ] {
            assert!(!succeeds(argv[0], &argv[1..]), "{argv:?} succeeded on the claimed drive");
        }
    }
    claim.release().unwrap();
    assert!(!has_partitions(&device));
    // The end, and the first mebibyte except the mark, are unchanged.
    assert!(read(&image, 127 * MIB, MIB as usize).iter().all(|byte| *byte == 0));
    let mut head = read(&image, 0, MIB as usize);
    head[MARK as usize..][..4096].fill(0);
    assert!(head.iter().all(|byte| *byte == 0));
}

#[test]
fn no_write_to_the_data_part_reaches_the_mark() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(24);
    let claim = claim(&device, &image);
    let part = path(&claim);
    let mark = read(&image, MARK, 4096);
    assert!(mark.starts_with(b"fsdyno may erase this drive\n"));
    // Write the part from its first byte to its last, then discard all of it.
    let all = vec![0xff; 22 * MIB as usize];
    put(&part, 0, &all);
    let file = std::fs::File::options().write(true).open(&part).unwrap();
    assert!(file.write_at(&[1], 22 * MIB).is_err(), "the part ends at the wrong offset");
    tool("blkdiscard", &["--force", &part]);
    assert_eq!(read(&image, MARK, 4096), mark);
    assert!(read(&image, 23 * MIB, MIB as usize).iter().all(|byte| *byte == 0));
}

#[test]
fn a_drive_that_fsdyno_used_is_claimed_again_and_its_contents_are_cleared() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(128);
    for _ in 0..2 {
        let claim = claim(&device, &image);
        claim.clear(&[]).unwrap();
        // Without -F, mke2fs would prompt, and fail, if it found a file system.
        tool("mke2fs", &["-q", "-t", "ext4", &path(&claim)]);
        claim.release().unwrap();
    }
}

#[test]
fn clearing_waits_for_a_short_exclusive_open() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(24);
    let claim = claim(&device, &image);
    let mut options = std::fs::File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_EXCL);
    let holder = options.read(true).open(path(&claim)).unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(holder);
    });
    claim.clear(&[]).unwrap();
    release.join().unwrap();
}

#[test]
fn dropping_a_claim_releases_the_drive() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(24);
    drop(claim(&device, &image));
    assert!(!has_partitions(&device));
    assert!(
        check_drive(Path::new(&device), None).unwrap_err().to_string().contains("used it before")
    );
    assert!(succeeds("mke2fs", &["-q", "-t", "ext4", &device]));
}

/// Starts a process that claims the drive, and kills it once it has claimed the drive and run `mkfs`, if any.
fn kill_while_claimed(device: &str, image: &Path, mkfs: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold", "--ignored", "--nocapture"])
        .env(HOLD_ARGS, format!("{device}={}={mkfs}", image.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("at work") {
        line.clear();
        assert!(
            std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0,
            "the process ended before it printed 'at work'"
        );
    }
    let refusal = check_drive(Path::new(device), image.to_str()).unwrap_err().to_string();
    assert!(refusal.contains("another fsdyno"), "{refusal}");
    assert!(
        find_leftover_drives().iter().all(|drive| drive.path != Path::new(device)),
        "a process has it open"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(has_partitions(device), "the partitions vanished with the process");
}

const UUID: &str = "0f5d1e1a-7a0e-4b8e-9d0a-5f3c2b1a0099";

#[test]
fn a_drive_is_reused_only_if_all_its_contents_are_of_a_killed_run() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(24);
    let part = format!("{device}p1");
    let leftover =
        || find_leftover_drives().into_iter().find(|drive| drive.path == Path::new(&device));
    let confirmed_serial = image.to_str();
    let refusal = || check_drive(Path::new(&device), confirmed_serial).unwrap_err().to_string();
    // One run is killed before mkfs wrote (no UUID is recorded), one after it (the UUID is recorded).
    for mkfs in ["", &format!("mke2fs -q -t ext4 -U {UUID}")] {
        kill_while_claimed(&device, &image, mkfs);
        let found = leftover().unwrap();
        assert_eq!(found.serial, image.to_string_lossy());
        let before = std::fs::read(&image).unwrap();
        found.clear().unwrap();
        assert!(!has_partitions(&device) && leftover().is_none());
        assert!(
            std::fs::read(&image).unwrap() == before,
            "removing the partitions wrote to the drive"
        );
        claim(&device, &image).release().unwrap();
        assert!(!has_partitions(&device));
    }
    // A file system that a user created on a leftover partition belongs to the user, mounted or not, and still does
    // after the partition is removed. Partitions that give access to such a file system are kept, even if it was
    // created after fsdyno had found them.
    kill_while_claimed(&device, &image, &format!("mke2fs -q -t ext4 -U {UUID}"));
    let found = leftover().unwrap();
    assert_eq!(found.foreign, None);
    tool("mke2fs", &["-q", "-F", "-t", "ext4", &part]);
    let at = fixture.mount(&part, &[]);
    std::fs::write(at.join("thesis"), "years of work").unwrap();
    let text = refusal();
    assert!(text.contains(&format!("is mounted at {}", at.display())), "{text}");
    assert!(leftover().is_none());
    let mount = at.to_string_lossy().into_owned();
    tool("umount", &[&mount]);
    assert!(refusal().contains("do not include this one"), "{}", refusal());
    let before = std::fs::read(&image).unwrap();
    let again = leftover().unwrap();
    assert!(again.foreign.as_ref().is_some_and(|signature| signature.kind == "ext4"), "{again:?}");
    for leftover in [&found, &again] {
        let output = leftover.clear().unwrap_err().to_string();
        assert!(output.contains(&format!("{part} holds ext4 ")), "{output}");
        assert!(
            output.contains(&format!("wipefs --all {part}, then fsdyno doctor --clean")),
            "{output}"
        );
        assert!(has_partitions(&device) && std::fs::read(&image).unwrap() == before);
    }
    tool("mount", &["-o", "ro", &part, &mount]);
    assert_eq!(std::fs::read_to_string(at.join("thesis")).unwrap(), "years of work");
    tool("umount", &[&mount]);
    // The suggested commands: remove only the partitions, or discard the contents.
    tool("delpart", &[&device, "1"]);
    tool("delpart", &[&device, "2"]);
    assert!(leftover().is_none() && !has_partitions(&device));
    assert!(refusal().contains("do not include this one"), "{}", refusal());
    tool("addpart", &[&device, "1", "2048", "45056"]);
    tool("addpart", &[&device, "2", "0", "2048"]);
    assert!(leftover().unwrap().foreign.is_some());
    tool("wipefs", &["--quiet", "--all", &part]);
    leftover().unwrap().clear().unwrap();
    assert!(!has_partitions(&device));
    // An older copy of fsdyno's own data part, restored by hand, is not reused either.
    let other = UUID.replace("0099", "0098");
    tool(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", "-U", &other, "-E", "offset=1048576", &device, "20M"],
    );
    assert!(
        refusal().contains(&other) && refusal().contains("do not include this one"),
        "{}",
        refusal()
    );
    // The recorded file system is accepted, and so is a part that was cleared by hand.
    tool("mke2fs", &["-q", "-F", "-t", "ext4", "-U", UUID, "-E", "offset=1048576", &device, "20M"]);
    assert!(check_drive(Path::new(&device), confirmed_serial).is_ok());
    put(&device, MIB, &[0; MIB as usize]);
    claim(&device, &image).release().unwrap();
    assert!(!has_partitions(&device));
}

#[test]
fn a_run_killed_between_two_file_systems_has_recorded_the_first() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut fixture = LoopDevices::new();
    let (device, image) = fixture.device(24);
    let first = claim(&device, &image);
    first.clear(&[UUID.into()]).unwrap();
    tool("mke2fs", &["-q", "-t", "ext4", "-U", UUID, &path(&first)]);
    first.release().unwrap();
    // Claimed, and killed before anything was cleared.
    kill_while_claimed(&device, &image, "");
    assert!(check_drive(Path::new(&device), image.to_str()).is_ok());
    claim(&device, &image).release().unwrap();
}

#[test]
#[ignore = "started and killed by the tests above"]
fn hold() {
    let Ok(text) = std::env::var(HOLD_ARGS) else { return };
    let mut fields = text.splitn(3, '=');
    let (device, image, mkfs) =
        (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
    let claim = claim(device, Path::new(image));
    if !mkfs.is_empty() {
        let mut argv: Vec<String> = mkfs.split(' ').map(String::from).collect();
        argv.push(path(&claim));
        claim.clear(&argv).unwrap();
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        tool(argv[0], &argv[1..]);
    }
    println!("at work");
    std::thread::sleep(std::time::Duration::from_secs(120));
    drop(claim);
}
