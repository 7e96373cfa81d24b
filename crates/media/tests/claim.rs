//! A drive that is claimed: nobody else gets it, mkfs cannot reach the mark, and what a killed run left
//! is taken up again.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod bench;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::{Bench, MIB, has, put, succeeds, tool, unable};
use fsdyno_media::block::{Claim, left_drives, look};

/// The path of a drive for the process that is to be killed with it.
const HOLD: &str = "FSDYNO_TEST_HOLD";

/// Where the mark is, by the module's own words.
const MARK: u64 = 4096;

fn claim(device: &str, image: &Path) -> Claim {
    let erase = image.to_str();
    look(Path::new(device), erase).unwrap().claim().unwrap()
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
fn a_claimed_drive_takes_a_file_system_and_nobody_else() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(128);
    let claim = claim(&device, &image);
    let given = claim.device().unwrap();
    assert_eq!((given.size.0, given.path.clone()), (126 * MIB, format!("{device}p1").into()));
    assert_eq!(given.what, format!("loop over {}", image.display()));
    drop(given);
    let part = path(&claim);
    let at = bench.folder("at").to_string_lossy().into_owned();
    for argv in [&["mke2fs", "-q", "-t", "ext4"][..], &["mkfs.btrfs", "-q"]] {
        if !has(argv[0]) {
            println!("skipped: no {}", argv[0]);
            continue;
        }
        claim.blank().unwrap();
        tool(argv[0], &[&argv[1..], &[&part]].concat());
        tool("mount", &[&part, &at]);
        std::fs::write(Path::new(&at).join("file"), "x").unwrap();
        assert!(claim.blank().is_err(), "a mounted file system was cleared");
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
    // The end and all of the first mebibyte but the mark are as they were.
    assert!(read(&image, 127 * MIB, MIB as usize).iter().all(|byte| *byte == 0));
    let mut head = read(&image, 0, MIB as usize);
    head[MARK as usize..][..4096].fill(0);
    assert!(head.iter().all(|byte| *byte == 0));
}

#[test]
fn nothing_that_is_written_to_the_part_reaches_the_mark() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    let claim = claim(&device, &image);
    let part = path(&claim);
    let mark = read(&image, MARK, 4096);
    assert!(mark.starts_with(b"fsdyno may erase this drive\n"));
    // From its first byte to its last, and a discard of all of it.
    let all = vec![0xff; 22 * MIB as usize];
    put(&part, 0, &all);
    let file = std::fs::File::options().write(true).open(&part).unwrap();
    assert!(file.write_at(&[1], 22 * MIB).is_err(), "the part does not end where it should");
    tool("blkdiscard", &["--force", &part]);
    assert_eq!(read(&image, MARK, 4096), mark);
    assert!(read(&image, 23 * MIB, MIB as usize).iter().all(|byte| *byte == 0));
}

#[test]
fn a_drive_of_fsdynos_is_taken_again_and_what_was_left_there_is_cleared() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(128);
    for _ in 0..2 {
        let claim = claim(&device, &image);
        claim.blank().unwrap();
        // Without -F mke2fs would ask, and end, if it saw a file system.
        tool("mke2fs", &["-q", "-t", "ext4", &path(&claim)]);
        claim.release().unwrap();
    }
}

#[test]
fn a_mount_that_goes_in_a_moment_is_waited_for() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    let claim = claim(&device, &image);
    let mut options = std::fs::File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_EXCL);
    let taken = options.read(true).open(path(&claim)).unwrap();
    let going = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(taken);
    });
    claim.blank().unwrap();
    going.join().unwrap();
}

#[test]
fn a_claim_that_is_dropped_gives_the_drive_back() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    drop(claim(&device, &image));
    assert!(!parts(&device));
    assert!(look(Path::new(&device), None).unwrap_err().to_string().contains("used it before"));
    assert!(succeeds("mke2fs", &["-q", "-t", "ext4", &device]));
}

#[test]
fn what_a_killed_run_left_is_taken_up_and_nothing_else_is() {
    if let Some(why) = unable() {
        return println!("skipped: {why}");
    }
    let mut bench = Bench::new();
    let (device, image) = bench.device(24);
    for finished in [false, true] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hold", "--ignored", "--nocapture"])
            .env(HOLD, format!("{device}={}", image.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let part = format!("{device}p1");
        let begin = std::time::Instant::now();
        while read(&image, MIB, 4096).iter().all(|byte| *byte == 0) {
            assert!(begin.elapsed().as_secs() < 60, "the child made nothing");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let refusal = look(Path::new(&device), image.to_str()).unwrap_err().to_string();
        assert!(refusal.contains("another fsdyno"), "{refusal}");
        let left = || left_drives().into_iter().find(|it| it.path == Path::new(&device));
        assert_eq!(left(), None, "somebody is at work there");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(parts(&device), "the kernel keeps the parts of the dead");
        let found = left().unwrap();
        assert_eq!(found.serial, image.to_string_lossy());
        // A file system that somebody mounted on the part that was left is his.
        if finished {
            put(&part, 0, &[0; MIB as usize]);
            tool("mke2fs", &["-q", "-t", "ext2", &part]);
            let at = bench.mount(&part, &["-o", "ro"]);
            let refusal = look(Path::new(&device), image.to_str()).unwrap_err().to_string();
            assert!(refusal.contains(&format!("is mounted at {}", at.display())), "{refusal}");
            assert!(left().is_none() && found.clear().is_err() && parts(&device));
            tool("umount", &[&at.to_string_lossy()]);
        }
        let before = std::fs::read(&image).unwrap();
        found.clear().unwrap();
        assert!(!parts(&device) && left().is_none());
        assert!(std::fs::read(&image).unwrap() == before, "nothing is written for that");
        claim(&device, &image).release().unwrap();
        assert!(!parts(&device));
        put(&image, MIB, &[0; MIB as usize]);
        tool("blockdev", &["--flushbufs", &device]);
    }
}

#[test]
#[ignore = "what the test above starts and kills"]
fn hold() {
    let Ok(text) = std::env::var(HOLD) else { return };
    let (device, image) = text.split_once('=').unwrap();
    let claim = claim(device, Path::new(image));
    put(path(&claim), 0, &[0xff; 4096]);
    std::thread::sleep(std::time::Duration::from_secs(120));
    drop(claim);
}
