//! Claimed drives: no other process can take one, mkfs cannot reach the mark, and the leftovers of a killed
//! run are reused.
#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod bench;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::{Bench, MIB, has, put, skip_reason, succeeds, tool};
use fsdyno_media::block::{Claim, check_drive, find_leftover_drives};

/// The variable with the drive's path for the process that will be killed.
const HOLD: &str = "FSDYNO_TEST_HOLD";

/// The offset of the mark, as documented.
const MARK: u64 = 4096;

fn claim(device: &str, image: &Path) -> Claim {
    let erase = image.to_str();
    check_drive(Path::new(device), erase).unwrap().claim().unwrap()
}

fn path(claim: &Claim) -> String {
    claim.device().unwrap().path.to_string_lossy().into_owned()
}

fn read(path: &Path, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    std::fs::File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn parts(device: &str) -> bool {
    PathBuf::from(format!("{device}p1")).exists() || PathBuf::from(format!("{device}p2")).exists()
}

#[test]
fn a_claimed_drive_accepts_a_file_system_and_no_other_user() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(128);
    let claim = claim(&device, &image);
    let part = claim.device().unwrap();
    assert_eq!((part.size.0, part.path.clone()), (126 * MIB, format!("{device}p1").into()));
    assert_eq!(part.what, format!("loop over {}", image.display()));
    drop(part);
    let part = path(&claim);
    let at = bench.folder("at").to_string_lossy().into_owned();
    for argv in [&["mke2fs", "-q", "-t", "ext4"][..], &["mkfs.btrfs", "-q"]] {
        if !has(argv[0]) {
            println!("skipped: no {}", argv[0]);
            continue;
        }
        claim.blank(&[]).unwrap();
        tool(argv[0], &[&argv[1..], &[&part]].concat());
        tool("mount", &[&part, &at]);
        std::fs::write(Path::new(&at).join("file"), "x").unwrap();
        assert!(claim.blank(&[]).is_err(), "a mounted file system was cleared");
        tool("umount", &[&at]);
        for words in [
            &["mke2fs", "-q", "-F", "-t", "ext4", &device][..],
            &["mkfs.btrfs", "-q", "-f", &device],
            &["mount", "-t", "ext4", "-o", "offset=0", &device, &at],
            &["mkswap", "--force", &device],
            &["swapon", &device],
        ] {
            assert!(!succeeds(words[0], &words[1..]), "{words:?} got the claimed drive");
        }
    }
    claim.release().unwrap();
    assert!(!parts(&device));
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
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    let claim = claim(&device, &image);
    let part = path(&claim);
    let mark = read(&image, MARK, 4096);
    assert!(mark.starts_with(b"fsdyno may erase this drive\n"));
    // From the first byte of the part to its last, and a discard of the whole part.
    let all = vec![0xff; 22 * MIB as usize];
    put(&part, 0, &all);
    let file = std::fs::File::options().write(true).open(&part).unwrap();
    assert!(file.write_at(&[1], 22 * MIB).is_err(), "the part has the wrong end");
    tool("blkdiscard", &["--force", &part]);
    assert_eq!(read(&image, MARK, 4096), mark);
    assert!(read(&image, 23 * MIB, MIB as usize).iter().all(|byte| *byte == 0));
}

#[test]
fn a_drive_that_fsdyno_used_is_claimed_again_and_its_contents_are_cleared() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(128);
    for _ in 0..2 {
        let claim = claim(&device, &image);
        claim.blank(&[]).unwrap();
        // Without -F mke2fs would ask, and fail, if it found a file system.
        tool("mke2fs", &["-q", "-t", "ext4", &path(&claim)]);
        claim.release().unwrap();
    }
}

#[test]
fn a_mount_that_ends_soon_is_waited_for() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    let claim = claim(&device, &image);
    let mut options = std::fs::File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_EXCL);
    let holder = options.read(true).open(path(&claim)).unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(holder);
    });
    claim.blank(&[]).unwrap();
    release.join().unwrap();
}

#[test]
fn dropping_a_claim_releases_the_drive() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    drop(claim(&device, &image));
    assert!(!parts(&device));
    assert!(
        check_drive(Path::new(&device), None).unwrap_err().to_string().contains("used it before")
    );
    assert!(succeeds("mke2fs", &["-q", "-t", "ext4", &device]));
}

/// Starts a process that claims the drive, and kills it when the data part has contents.
fn kill_at_work(device: &str, image: &Path, mkfs: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold", "--ignored", "--nocapture"])
        .env(HOLD, format!("{device}={}={mkfs}", image.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("at work") {
        line.clear();
        assert!(
            std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0,
            "the process printed nothing"
        );
    }
    let refusal = check_drive(Path::new(device), image.to_str()).unwrap_err().to_string();
    assert!(refusal.contains("another fsdyno"), "{refusal}");
    assert!(
        find_leftover_drives().iter().all(|it| it.path != Path::new(device)),
        "a process has it open"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(parts(device), "the kernel keeps the partitions of a dead process");
}

const UUID: &str = "0f5d1e1a-7a0e-4b8e-9d0a-5f3c2b1a0099";

#[test]
fn the_contents_of_a_killed_run_are_reused_and_no_others() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    let part = format!("{device}p1");
    let leftover = || find_leftover_drives().into_iter().find(|it| it.path == Path::new(&device));
    let erase = image.to_str();
    let refusal = || check_drive(Path::new(&device), erase).unwrap_err().to_string();
    // Killed before its mkfs had written, and after it: with the recorded UUID, and without one.
    for mkfs in ["", &format!("mke2fs -q -t ext4 -U {UUID}")] {
        kill_at_work(&device, &image, mkfs);
        let found = leftover().unwrap();
        assert_eq!(found.serial, image.to_string_lossy());
        let before = std::fs::read(&image).unwrap();
        found.clear().unwrap();
        assert!(!parts(&device) && leftover().is_none());
        assert!(std::fs::read(&image).unwrap() == before, "removing the partitions writes nothing");
        claim(&device, &image).release().unwrap();
        assert!(!parts(&device));
    }
    // A file system that a user created on a leftover partition belongs to the user, mounted or not, and so does one at
    // the same offset of the drive after the partition was removed. The partitions stay, because they give access to
    // it, even if it was created after they were found.
    kill_at_work(&device, &image, &format!("mke2fs -q -t ext4 -U {UUID}"));
    let found = leftover().unwrap();
    assert_eq!(found.foreign, None);
    tool("mke2fs", &["-q", "-F", "-t", "ext4", &part]);
    let at = bench.mount(&part, &[]);
    std::fs::write(at.join("thesis"), "years of work").unwrap();
    let text = refusal();
    assert!(text.contains(&format!("is mounted at {}", at.display())), "{text}");
    assert!(leftover().is_none());
    let mount = at.to_string_lossy().into_owned();
    tool("umount", &[&mount]);
    assert!(refusal().contains("do not include this one"), "{}", refusal());
    let before = std::fs::read(&image).unwrap();
    let again = leftover().unwrap();
    assert!(again.foreign.as_ref().is_some_and(|it| it.kind == "ext4"), "{again:?}");
    for left in [&found, &again] {
        let output = left.clear().unwrap_err().to_string();
        assert!(output.contains(&format!("{part} holds ext4 ")), "{output}");
        assert!(
            output.contains(&format!("wipefs --all {part}, then fsdyno doctor --clean")),
            "{output}"
        );
        assert!(parts(&device) && std::fs::read(&image).unwrap() == before);
    }
    tool("mount", &["-o", "ro", &part, &mount]);
    assert_eq!(std::fs::read_to_string(at.join("thesis")).unwrap(), "years of work");
    tool("umount", &[&mount]);
    // The suggested commands: remove only the partitions, or give up the contents.
    tool("delpart", &[&device, "1"]);
    tool("delpart", &[&device, "2"]);
    assert!(leftover().is_none() && !parts(&device));
    assert!(refusal().contains("do not include this one"), "{}", refusal());
    tool("addpart", &[&device, "1", "2048", "45056"]);
    tool("addpart", &[&device, "2", "0", "2048"]);
    assert!(leftover().unwrap().foreign.is_some());
    tool("wipefs", &["--quiet", "--all", &part]);
    leftover().unwrap().clear().unwrap();
    assert!(!parts(&device));
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
    assert!(check_drive(Path::new(&device), erase).is_ok());
    put(&device, MIB, &[0; MIB as usize]);
    claim(&device, &image).release().unwrap();
    assert!(!parts(&device));
}

#[test]
fn a_run_killed_between_two_file_systems_has_recorded_the_first() {
    if let Some(reason) = skip_reason() {
        return println!("skipped: {reason}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    let first = claim(&device, &image);
    first.blank(&[UUID.into()]).unwrap();
    tool("mke2fs", &["-q", "-t", "ext4", "-U", UUID, &path(&first)]);
    first.release().unwrap();
    // Claimed, and killed before anything was cleared.
    kill_at_work(&device, &image, "");
    assert!(check_drive(Path::new(&device), image.to_str()).is_ok());
    claim(&device, &image).release().unwrap();
}

#[test]
#[ignore = "started and killed by the tests above"]
fn hold() {
    let Ok(text) = std::env::var(HOLD) else { return };
    let mut words = text.splitn(3, '=');
    let (device, image, mkfs) =
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let claim = claim(device, Path::new(image));
    if !mkfs.is_empty() {
        let mut argv: Vec<String> = mkfs.split(' ').map(String::from).collect();
        argv.push(path(&claim));
        claim.blank(&argv).unwrap();
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        tool(words[0], &words[1..]);
    }
    println!("at work");
    std::thread::sleep(std::time::Duration::from_secs(120));
    drop(claim);
}
