//! A guest whose power is cut: flushed data is on the medium, other data is not, and the file system recovers by its
//! journal. Where the lab cannot run, the test is skipped with the reason; with CI set in the environment, that is a
//! failure.
#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsdyno_campaign::{LabPlace, MatrixRequest, Place, Size, matrix};
use fsdyno_lab::{Cache, Lab, LabOptions};
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::plan::LabPlan;
use fsdyno_record::trial::trial_id;
use fsdyno_record::{Bytes, Job};
use fsdyno_venue::LabVenue;

/// Deliveries of 500 messages as qmail makes them: each is fsynced before it is in `new`.
fn job(kernel: &str) -> Job {
    let parameters = ["deliverers=1", "ops=500", "protocol=qmail"];
    let matrix_request = MatrixRequest {
        deadline: fsdyno_campaign::DEFAULT_DEADLINE,
        workloads: vec!["maildir".into()],
        filesystems: vec!["ext4".into()],
        parameters: parameters.map(String::from).to_vec(),
        threads: 1,
        ..MatrixRequest::default()
    };
    let lab = LabPlace {
        guest: LabPlan::new("", Bytes(512 << 20)),
        size: Size::Exactly(Bytes(512 << 20)),
        ..LabPlace::with_defaults("hdd-7200", kernel)
    };
    let cell = matrix(&matrix_request, &Place::Lab(lab)).unwrap().remove(0);
    let seed = 11;
    let (trial_id, task) = (trial_id(&cell.plan, seed), Default::default());
    Job { trial_id, seed, plan: cell.plan, deadline: cell.deadline, task }
}

/// Runs a tool of e2fsprogs on an image, whose path is the last argument.
fn tool(args: &[&str], image: &File) -> Output {
    let image = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let path = "/sbin:/usr/sbin:/bin:/usr/bin";
    Command::new(args[0]).args(&args[1..]).arg(image).env("PATH", path).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Returns the messages below a folder, in `new` or `cur` of any maildir.
fn messages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(messages(&path));
        } else if folder.ends_with("new") || folder.ends_with("cur") {
            found.push(path);
        }
    }
    found
}

/// Returns the first position at which two images differ outside the volatile ranges.
fn differ_elsewhere(medium: &File, visible: &File, volatile: &[(u64, u64)]) -> Option<u64> {
    let length = medium.metadata().unwrap().len();
    let (mut one, mut other) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..length).step_by(1 << 20) {
        let take = (length - at).min(1 << 20) as usize;
        medium.read_exact_at(&mut one[..take], at).unwrap();
        visible.read_exact_at(&mut other[..take], at).unwrap();
        if one[..take] == other[..take] {
            continue;
        }
        for sector in (0..take).step_by(512) {
            let place = at + sector as u64;
            let listed =
                volatile.iter().any(|(first, length)| (*first..first + length).contains(&place));
            if !listed && one[sector..sector + 512] != other[sector..sector + 512] {
                return Some(place);
            }
        }
    }
    None
}

#[test]
fn ext4_recovers_by_its_journal_with_all_fsynced_messages() {
    let options =
        LabOptions { kernel: None, qemu: None, cache: Cache::of_user().unwrap(), offline: false };
    let lab = match Lab::find(&options, &|_| {}) {
        Ok(lab) => lab,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI has to run the lab: {error}");
            let _ = writeln!(std::io::stderr(), "skipped: the lab cannot run here: {error}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let job = job(lab.kernel_release());
    let venue = LabVenue::new(
        vec![lab],
        common::lab::agent(),
        folder.path().into(),
        fsdyno_lab::Cache::of_user().unwrap(),
    );
    let mut now = |progress: &Progress| {
        progress.stage == Stage::Running && progress.phase == 1 && progress.ops_done > 4_000
    };
    let left = venue.cut(&job, &mut now).unwrap();
    assert_eq!(left.progress.stage, Stage::Running, "the cut came too late");
    // The list may be empty, as it is right after a flush.
    let bytes: u64 = left.volatile.iter().map(|(_, length)| length).sum();
    assert!(bytes < 64 << 20, "{bytes} bytes volatile, and the cache holds 32 MiB");
    assert_eq!(differ_elsewhere(&left.medium, &left.visible, &left.volatile), None);

    let header = text(&tool(&["dumpe2fs", "-h"], &left.medium));
    assert!(header.contains("needs_recovery"), "it was unmounted: {header}");
    let checked = tool(&["e2fsck", "-fy"], &left.medium);
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{}", text(&checked));
    assert!(text(&checked).contains("recovering journal"), "{}", text(&checked));
    // Nothing remains to be repaired: e2fsck only replayed the journal.
    let again = tool(&["e2fsck", "-fn"], &left.medium);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));

    // The content that the drive had accepted has every message that was fsynced.
    let accepted = tool(&["e2fsck", "-fy"], &left.visible);
    assert!(matches!(accepted.status.code(), Some(0 | 1)), "{}", text(&accepted));
    let dumped = |name: &str, image: &File| {
        let out = folder.path().join(name);
        std::fs::create_dir(&out).unwrap();
        let args = format!("rdump /trial {}", out.display());
        let dumped = tool(&["debugfs", "-R", &args], image);
        assert!(dumped.status.success(), "{}", text(&dumped));
        messages(&out)
    };
    let (visible, messages) = (dumped("visible", &left.visible), dumped("medium", &left.medium));
    // A delivery and its retrieval take 24 calls on average, and 25 for the first messages.
    let delivered = (left.progress.ops_done - 400) / 27;
    assert!(visible.len() as u64 >= delivered, "{} of {delivered} messages", visible.len());
    // One message may be in flight.
    assert!(messages.len() + 1 >= visible.len(), "{} of {}", messages.len(), visible.len());
    for message in &messages {
        let bytes = std::fs::read(message).unwrap();
        assert!(bytes.iter().any(|byte| *byte != 0), "{} is empty", message.display());
    }
}
