//! Bad files are refused before any work: archives that lead out of their folder, and disk profiles.

use crate::common;
use crate::common::{code, run, stderr};

/// Archives of the workload's corpus that would write outside their folder or are malformed, with the expected message
/// about a member.
const HOSTILE: &[(&str, &str)] = &[
    ("dot-dot.tar", "'a/../../b' (at byte 0): has '..' in its path"),
    ("pax-dot-dot.tar", "has '..' in its path"),
    ("global-pax-dot-dot.tar", "'../passwd' (at byte 1024): has '..' in its path"),
    ("absolute.tar", "'/etc/passwd' (at byte 0): has an absolute path"),
    ("pax-absolute.tar", "has an absolute path"),
    ("below-symlink.tar", "'s/passwd' (at byte 512): lies below 's', which is a symbolic link"),
    ("below-symlink-loop.tar", "'a/f' (at byte 1024): lies below 'a', which is a symbolic link"),
    ("below-placeholder.tar", "'s/d' (at byte 512): lies below 's', which is a symbolic link"),
    ("below-file.tar", "which is a file"),
    ("hard-link-out.tar", "'h' (at byte 0): has '..' in its path"),
    ("hard-link-to-absolute.tar", "'h' (at byte 0): has an absolute path"),
    ("hard-link-to-symlink.tar", "is a hard link to 's', which is not an earlier file"),
    ("over-link-that-leads-out.tar", "would replace a symbolic link that leads out"),
    ("file-directory-file.tar", "'x' (at byte 1024): would replace a directory"),
    ("long-name-in-message.tar", "has a name of 3000 bytes; at most 255 are allowed"),
    ("long-path.tar", "has a path of 1093 bytes"),
    ("line-end-in-parent.tar", r"lies below 'a\nb', which is a symbolic link"),
    (
        "huge-size.tar",
        "at byte 1024: it declares 16777216 TiB of data; the maximum size of an archive",
    ),
    ("cut-in-data.tar", "the archive is truncated"),
    ("block-device.tar", "'sda' (at byte 0): is a block device"),
];

#[test]
fn an_archive_that_leads_out_of_its_folder_is_refused_with_the_member_before_any_work() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/tests/corpus/tar");
    let folder = tempfile::tempdir().unwrap();
    for (name, part) in HOSTILE {
        let words = format!("run tarball --set archive={corpus}/{name} --on .");
        let output = run(folder.path(), &words);
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{name}: {message}");
        assert!(message.contains(part) && message.contains(name), "{name}: {message}");
        assert_eq!(message.lines().count(), 1, "{name}: {message}");
        assert!(output.stdout.is_empty(), "{name}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name} left something");
    }
}

/// A disk profile with one line changed, and a part of the message.
const DISKS: &[(&str, &str, &str)] = &[
    ("rpm = 7200", "", "rpm"),
    ("rpm = 7200", "rpm = -5", "-5"),
    ("rpm = 7200", "rpm = 5", "model.rpm is 5, but must be 600 to 60000"),
    ("rpm = 7200", "rpm = 5400.5", "5400.5"),
    ("heads = 2", "heads = 0", "model.heads is 0, but must be 1 to 64"),
    ("zones = 24", "zones = 24\nzoned = 3", "zoned"),
    ("inner_rate_kb = 102000", "inner_rate_kb = 900000", "model.inner_rate_kb is 900000"),
    ("capacity = 1000204886016", "capacity = 512", "capacity is 512, but must be 1048576"),
    (
        "scheduler = \"mq-deadline\"",
        "scheduler = \"cfq\"",
        "queue.scheduler is cfq, but must be none, mq-deadline, bfq, kyber",
    ),
    ("law = \"hdd\"", "law = \"had\"", "had"),
];

#[test]
fn a_bad_disk_profile_is_refused_in_one_line_with_file_and_parameter() {
    let folder = tempfile::tempdir().unwrap();
    let valid = fsdyno_disk::catalog::text("hdd-7200").unwrap();
    let file = folder.path().join("mine.toml");
    for (line, replacement, part) in DISKS {
        assert!(valid.contains(line), "the disk has no line {line}");
        std::fs::write(&file, valid.replacen(line, replacement, 1)).unwrap();
        let output = run(folder.path(), "run dirops --disk mine.toml --dry-run");
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{replacement}: {message}");
        assert!(
            message.contains("mine.toml") && message.contains(part),
            "{replacement}: {message}"
        );
        assert_eq!(message.lines().count(), 1, "{replacement}: {message}");
    }
    std::fs::write(&file, valid).unwrap();
    let output = run(folder.path(), "run dirops --disk mine.toml --dry-run");
    // This host may lack QEMU or a kernel; the disk is right.
    assert!([0, 3].contains(&code(&output)), "{}", stderr(&output));
    assert!(common::stdout(&output).contains("on mine.toml"), "{}", common::stdout(&output));
}

#[test]
fn a_disk_too_small_for_the_file_system_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = fsdyno_disk::catalog::text("instant").unwrap().replacen(
        "capacity = 8589934592",
        "capacity = 1048576",
        1,
    );
    std::fs::write(folder.path().join("tiny.toml"), tiny).unwrap();
    for kind in ["ext4", "xfs"] {
        let words = format!("run dirops --fs {kind} --disk tiny.toml --dry-run");
        let output = run(folder.path(), &words);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        let message =
            format!("disk 'tiny.toml' is too small for {kind}: it holds 1 MiB, and {kind}");
        assert!(stderr(&output).contains(&message), "{}", stderr(&output));
    }
}
