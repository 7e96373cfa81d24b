//! Bad input fails before any work, with a one-line message that names the accepted input.

use crate::common::{code, fsdyno, run, stderr, stdout};

/// Arguments, the exit code, and a part of the one-line message.
pub(crate) const CASES: &[(&str, i32, &str)] = &[
    ("run dirop", 2, "no workload 'dirop'; did you mean 'dirops'?"),
    ("run dirops dirops", 2, "named twice"),
    ("run dirops --fs ext5", 2, "did you mean 'ext4'?"),
    ("run dirops --fs ext4,noatime", 2, "mount options go after @, as in 'ext4 @ noatime'"),
    ("run dirops --fs ext4,xfs,ext9", 2, "there is no file system 'ext9'"),
    ("run dirops --fs ntfs", 2, "use FUSE: --fs 'fuse: mkfs.ntfs"),
    ("run dirops --fs apfs", 2, "fsdyno cannot make apfs; --on DIR runs on a mounted one"),
    ("show filesystem ntfs", 2, "use FUSE: --fs"),
    ("kernel build zfs --kernel ./none", 2, "build zfs for ./none: only modules for Debian's"),
    ("kernel build zfs --kernel all", 2, "it takes one kernel at a time, such as 6.12"),
    ("kernel build zfs --kernel 7.0.0-14-generic", 2, "--kernel 7.0.0-14-generic --fs zfs"),
    ("kernel build reiser4 --reiser4 ./none", 2, "use the source ./none: No such file"),
    ("kernel build reiser4 --reiser4 .", 2, "it has no super_ops.c"),
    ("kernel build reiser4 --reiser4 a-file", 2, "it is neither a folder nor a tar file"),
    ("run dirops --on lab --on lab", 2, "--on lab is given more than once; give it once"),
    (
        "run dirops --on lab --on . --disk instant",
        2,
        "--disk works only in the lab or on a model, but --on . is a directory",
    ),
    ("run dirops --period 2008 --period 2008", 2, "--period names 2008 twice"),
    ("run dirops --period 2008 --on loop:1G", 2, "--period works only in the lab"),
    ("run dirops --fs ext4 --fs ext4", 2, "two file systems are called 'ext4'"),
    ("run dirops --disk hdd-720", 2, "did you mean 'hdd-7200'?"),
    ("run tarball --set archive=a-file", 2, "--set archive=a-file: is not a tar archive"),
    ("run tarball --set archive=nowhere", 2, "--set archive=nowhere: cannot be read"),
    ("run tarball --set archive=a-file --set files=5", 2, "files=5 is for a generated archive"),
    ("run dirops --set fils=5", 2, "did you mean 'files'?"),
    ("run dirops --set files=many", 2, "files=many is invalid"),
    ("run dirops --set files=many", 2, "write one such as 20000, 20k, 1.5M or 1_000_000"),
    ("run dirops --set files=1e6", 2, "write one such as 20000, 20k, 1.5M or 1_000_000"),
    ("run dirops --set files=1G", 2, "files takes a whole number from 1 to 100,000,000"),
    ("run tarball --threads 4", 2, "leave it at 1, or use one of: dirops, many-files, "),
    ("run dirops --issuer io_uring:32", 2, "the lab does not run io_uring yet; add --on DIRECTORY"),
    ("run sleep", 2, "'sleep' is a command; fsdyno runs its own workloads"),
    ("run ./build.sh", 2, "there is no workload './build.sh'"),
    ("run dirops --period 2012", 2, "there is no period '2012'; there are: 2001, 2004, 2006, 2008"),
    ("run dirops --disk ssd", 2, "did you mean 'ssd-sata'?"),
    ("run dirops --disk nvme", 2, "did you mean 'nvme-datacenter'?"),
    ("run dirops --set files", 2, "has no value"),
    ("run dirops --set tarball.files=5", 2, "for workload 'tarball', which is not run"),
    ("run dirops --scheduler mq-dedline", 2, "did you mean 'mq-deadline'?"),
    ("run dirops --ram 10M", 2, "--ram"),
    ("run dirops --dry-run --ram 900T", 2, "--ram 900 TiB is more than this host has: "),
    ("run dirops --size 1K", 2, "too small for ext4"),
    ("run dirops --size 1000T", 2, "more than disk"),
    ("run dirops --sysctl dirty", 2, "vm.dirty_ratio=10"),
    ("run dirops --sysctl vm.foo=1 --dry-run", 2, "no kernel has a sysctl 'vm.foo'"),
    ("run dirops --kernel 6.12..6.1 --dry-run", 2, "the older series comes first"),
    ("run dirops --kernel six..7.3 --dry-run", 2, "'six' is not a kernel series"),
    ("study guenter-2008 --kernel 7.3..5.10 --dry-run", 2, "the range 7.3..5.10 is empty"),
    ("list disks --available", 2, "--available is for 'fsdyno list kernels'"),
    ("run dirops --sysctl vm.dirty_rato=1", 2, "did you mean 'dirty_ratio'?"),
    ("run dirops --size 64M --set files=1000000 --dry-run", 2, "has 1000001 files and directories"),
    ("run dirops --on loop:64M --set files=1000000 --dry-run", 2, "a larger loop:SIZE"),
    ("run dirops --on . --out /proc/x --dry-run", 2, "no file can be created on proc"),
    ("run dirops --on . --out /sys/kernel/x/y", 2, "no file can be created on sysfs"),
    ("run dirops --on /proc --dry-run", 2, "no file can be created on proc"),
    ("run dirops --on loop:4", 2, "whole mebibytes, such as loop:4G"),
    ("run dirops --on ram:", 2, "whole mebibytes, such as ram:4G"),
    ("run dirops --on loop:4G --jobs 2", 2, "systems of one seed would have the same UUID"),
    ("run dirops --on loop:4G --size 2G", 2, "the size is part of --on"),
    (
        "run dirops --on loop:4G --scheduler bfq",
        2,
        "records the settings of this host but does not change them",
    ),
    (
        "run dirops --on ram:4G --sysctl vm.swappiness=1",
        2,
        "records the settings of this host but does not change them",
    ),
    ("run dirops --on loop:4G --disk instant", 2, "--on loop:4G is a device of this host"),
    ("run dirops --on loop:8M --fs xfs --dry-run", 2, "too small for xfs"),
    ("run dirops --on loop:4G --journal-size 1G --dry-run", 2, "names {journal}, and none does"),
    ("run dirops --on loop:1T --set files=9 --fs ext5 --dry-run", 2, "did you mean 'ext"),
    ("run dirops --on /dev/null", 2, "is not a block device; name a whole drive"),
    ("run dirops --on /dev/null --erase S3RIAL", 2, "is not a block device; name a whole drive"),
    ("run dirops --on /dev/nowhere", 2, "does not exist; lsblk"),
    ("run dirops --on /dev/nowhere --disk instant", 2, "--disk works only in the lab"),
    ("run dirops --on /dev/nowhere --jobs 2", 2, "trials would share the drive"),
    ("run dirops --on . --erase S3RIAL", 2, "--erase is for a drive"),
    ("run dirops --erase S3RIAL", 2, "--erase is for a drive"),
    ("run dirops --on nowhere", 2, "--on nowhere: no such medium or directory"),
    ("run dirops --on ./nowhere", 2, "mkdir -p"),
    ("run dirops --on a-file", 2, "not a directory"),
    ("run dirops --on . --fs ext4", 2, "leave --fs out"),
    ("run dirops --on . --disk instant", 2, "--disk works only in the lab"),
    ("run dirops --on . --set files=99999999999", 2, "is invalid"),
    ("run dirops --on . --out a-file", 2, "is not a folder"),
    ("run dirops --on . --out .", 2, "holds no trials.ndjson"),
    ("run dirops --on . --out /proc/fsdyno", 2, "/proc/fsdyno"),
    ("run dirops --on . --dry-run --format csv", 2, "text or json"),
    ("show workload dirop", 2, "did you mean 'dirops'?"),
    ("show filesystem riserfs", 2, "did you mean 'reiserfs'?"),
    (
        "run dirops --machine pc-2010",
        2,
        "--machine pc-2010: there is no machine with this name; did you mean 'pc-2001'?",
    ),
    ("run dirops --machine nowhere.toml", 2, "--machine nowhere.toml: cannot be read: "),
    ("run dirops --machine ./a-file", 2, "a machine file has the keys about, disk, cpu and ram"),
    ("run dirops --machine pc-2001 --machine pc-2001", 2, "given twice; give it once"),
    ("run dirops --machine pc-2001 --size 100G", 2, "more than disk 'ide-2001' can hold"),
    ("run dirops --on . --machine pc-2001", 2, "--machine works only in the lab"),
    ("crash dirops --machine pc-2010 --dry-run", 2, "did you mean 'pc-2001'?"),
    ("show machine pc", 2, "did you mean 'pc-2001'?"),
    ("show disk hdd", 2, "did you mean 'hdd-7200'?"),
    ("show fs ext5", 2, "did you mean 'ext4'?"),
    ("show disk ./nowhere.toml", 2, "failed to read the disk in ./nowhere.toml"),
    ("report nowhere", 2, "nowhere"),
    ("doctor --clean nowhere", 2, "does not exist"),
    ("run dirops --disk nowhere.toml", 2, "read the disk in nowhere.toml: No such file"),
    ("run dirops --disk ./", 2, "read the disk in ./: it is a folder"),
    ("run dirops --disk /dev/zero", 2, "read the disk in /dev/zero: it is a device"),
    ("run dirops --disk ./a-file", 2, "read the disk in ./a-file: line 1, column "),
    ("merge whole nowhere", 2, "nowhere"),
    ("merge whole .", 2, "trials.ndjson"),
    ("run dirops --cacheable 1M", 2, "it must be at least 32 MiB"),
    ("run dirops --cacheable 4G", 2, "--cacheable 4 GiB is not possible with --ram 1 GiB"),
    ("run dirops --journal-disk hdd-7200", 2, "names {journal}, and none does; write --fs"),
    ("run dirops --journal-disk hdd-720", 2, "did you mean 'hdd-7200'?"),
    ("run dirops --journal-size 1G", 2, "names {journal}, and none does; write --fs"),
    ("run dirops --raid 5x3 --disk instant", 2, "use a disk with a model: --disk hdd-7200"),
    ("run dirops --on . --raid 5x3", 2, "--raid works only in the lab"),
    ("run dirops --on . --journal-disk instant", 2, "--journal-disk works only in the lab"),
    ("run dirops --on . --journal-size 1G", 2, "--journal-size works only in the lab"),
    ("run dirops --on . --cacheable 64M", 2, "--cacheable works only in the lab"),
    ("run dirops --on . --cpu 1/2", 2, "--cpu works only in the lab"),
    ("run dirops --on . --boot snapshot", 2, "--boot works only in the lab"),
    (
        "run dirops --on . --keep-log",
        2,
        "--keep-log works only in the lab, but --on . is a directory",
    ),
    ("run dirops --on . --scheduler none", 2, "--scheduler works only in the lab"),
    ("show log nowhere", 2, "nowhere"),
    ("show log a-file", 2, "a-file"),
    ("fit /dev/null", 2, "is not a block device"),
    ("fit .", 2, "is not a block device"),
    ("fit nowhere", 2, "does not exist; lsblk"),
    ("fit a-file", 2, "'a-file'"),
    ("fit cpu --seconds 30", 2, "--seconds is for the fit of a disk"),
    ("fit cpu --rpm 7200", 2, "--rpm is for the fit of a disk"),
    ("fit a-file --kernel 6.1", 2, "--kernel is for 'fsdyno fit cpu'"),
    ("fit /dev/null --out disk", 2, "does not end in .toml"),
    ("fit /dev/null --out nowhere/disk.toml", 2, "no folder 'nowhere'"),
];

#[test]
fn every_mistake_gets_a_one_line_message_and_its_exit_code_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a-file"), "mine").unwrap();
    for (words, exit, part) in CASES {
        let output = run(folder.path(), words);
        let message = stderr(&output);
        assert_eq!(code(&output), *exit, "fsdyno {words}: {message}");
        assert!(message.contains(part), "fsdyno {words}: {message}");
        assert_eq!(message.lines().count(), 1, "fsdyno {words}: {message}");
        assert!(output.stdout.is_empty(), "fsdyno {words}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Invalid numbers, each with a part of clap's multi-line message.
const NUMBERS: &[(&str, &str)] = &[
    ("run dirops --repeat 0", "expected a whole number from 1 to 10,000"),
    ("run dirops --repeat -1", "'-1' is not a whole number: write one"),
    ("run dirops --repeat abc", "'abc' is not a whole number: write one such as 20000, 20k"),
    ("run dirops --threads 0", "expected a whole number from 1 to 512"),
    ("run dirops --threads abc", "'abc' is not a whole number: write one"),
    ("run dirops --jobs 1k", "expected a whole number from 1 to 512"),
    ("run dirops --seed 1.5", "'1.5' is not a whole number"),
    ("run dirops --width 0", "expected a percentage from 0.0001% to 100%"),
    ("run dirops --width 0.02", "ambiguous: 0.02% or 2%; write the percent sign"),
    ("run dirops --ram -1G", "'-1G' is not a size: write a number with K, M, G or T"),
    ("compare a b --threshold -1%", "expected a percentage from 0% to 100%, such as 3% or 0.5%"),
    ("crash dirops --cuts 0", "expected a whole number from 1 to 100,000"),
    ("study guenter-2008 --check 0", "expected a whole number from 1 to 10,000"),
];

#[test]
fn an_invalid_number_gets_the_same_message_from_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for (words, part) in NUMBERS {
        let output = run(folder.path(), words);
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "fsdyno {words}: {message}");
        assert!(message.starts_with("error: invalid value '"), "fsdyno {words}: {message}");
        assert!(message.contains(part), "fsdyno {words}: {message}");
    }
}

#[test]
fn numbers_with_suffixes_and_file_systems_with_commas_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let planned = |words: &str| {
        let words = format!("run dirops --on model --dry-run --format json {words}");
        let output = run(folder.path(), &words);
        assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
        stdout(&output)
    };
    let one = planned("--fs cached-ext2 --fs indexed-ext2 --set files=1000 --repeat 20");
    for same in ["1k", "1_000"] {
        let fs = "--fs cached-ext2,indexed-ext2";
        assert_eq!(planned(&format!("{fs} --set files={same} --repeat 2_0")), one);
    }
    let width = |width: &str| planned(&format!("--set files=100 --width {width}"));
    assert_eq!(width("2"), width("2%"));
}

#[test]
fn several_words_given_as_one_argument_get_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = fsdyno(folder.path());
    let output = program.args(["run", "git clone https://example.org/x"]).output().unwrap();
    assert_eq!(code(&output), 2);
    let message = stderr(&output);
    assert!(message.contains("'git clone https://example.org/x' is a command"), "{message}");
    assert!(message.contains("tarball --set archive=FOLDER"), "{message}");
    for spec in ["ext4 xfs", "ext4 -o noatime"] {
        let mut program = fsdyno(folder.path());
        let output = program.args(["run", "dirops", "--dry-run", "--fs", spec]).output().unwrap();
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{message}");
        assert!(
            message.contains("give --fs once for each") || message.contains("write '@ noatime'"),
            "{message}"
        );
    }
}

#[test]
fn quiet_prints_only_results_and_errors_and_verbose_adds_commands() {
    let folder = tempfile::tempdir().unwrap();
    let words = "run dirops --on model --fs cached-ext2 --set files=50 --out";
    let plain = run(folder.path(), &format!("{words} a"));
    let quiet = run(folder.path(), &format!("-q {words} b"));
    assert_eq!((code(&quiet), stderr(&quiet).as_str()), (0, ""));
    assert_eq!(stdout(&quiet), stdout(&plain));
    assert!(stderr(&plain).contains("report: a/report.html"), "{}", stderr(&plain));
    let verbose = run(folder.path(), &format!("{words} c --verbose"));
    // The tables are the same, and notes explain them.
    assert!(stdout(&plain).contains("--verbose explains"), "{}", stdout(&plain));
    assert!(stdout(&verbose).contains("returned: until the last call returned"));
    let tables = |text: String| text.lines().filter(|it| it.contains("-ext2  1 ")).count();
    assert_eq!(tables(stdout(&verbose)), tables(stdout(&plain)));
    let version = env!("CARGO_PKG_VERSION");
    assert!(stderr(&verbose).starts_with(&format!("fsdyno: {version}")), "{}", stderr(&verbose));
    assert!(!stderr(&plain).contains(version), "{}", stderr(&plain));
    let missing = run(folder.path(), "report nowhere --quiet");
    assert_eq!(code(&missing), 2);
    assert!(
        stderr(&missing).contains("failed to find the result 'nowhere'"),
        "{}",
        stderr(&missing)
    );
    assert_eq!(code(&run(folder.path(), "report a -q --verbose")), 2);
    let parent = run(folder.path(), "report .");
    assert!(stderr(&parent).contains("those below it: ./a, ./b, ./c"), "{}", stderr(&parent));
}

#[test]
fn any_bad_setting_gets_one_short_line() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(100_000);
    for setting in [
        format!("files={long}"),
        format!("{long}=1"),
        long.clone(),
        "files=1\n2".to_string(),
        "fi\nles=1".to_string(),
        "\u{1b}[2J.files=1".to_string(),
        "files=".to_string(),
        "=".to_string(),
    ] {
        let output = fsdyno(folder.path())
            .args(["run", "dirops", "--on", ".", "--dry-run", "--set", &setting])
            .output()
            .unwrap();
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{setting:.40}: {message:.200}");
        assert_eq!(message.lines().count(), 1, "{setting:.40}: {message:.200}");
        assert!(
            message.len() <= 1000 && !message.contains('\u{1b}'),
            "{setting:.40}: {message:.1000?}"
        );
    }
    let output = run(folder.path(), "run tarball --set archive=/dev/zero --on . --dry-run");
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("it is a device; give the path of a file"),
        "{}",
        stderr(&output)
    );
}

/// Invalid values: the option, the value, and a part of the message.
const VALUES: &[(&str, &str, &str)] = &[
    ("--raid", "5", "'5' is not a RAID layout; write LEVELxDISKS, such as 5x3"),
    ("--raid", "x3", "'x3' is not a RAID"),
    ("--raid", "7x3", "RAID 7 is not supported; use 0, 1, 5 or 10"),
    ("--raid", "5x2", "RAID 5 takes 3 to 8 disks, not 2"),
    ("--raid", "0x1", "RAID 0 takes 2 to 8 disks, not 1"),
    ("--raid", "10x99", "RAID 10 takes 2 to 8 disks, not 99"),
    ("--raid", "5x3:64Q", "5x3:64Q"),
    ("--raid", "5x3:5K", "5x3:5K"),
    ("--cpu", "0", "it must be a power of two in instructions per nanosecond, from 1/64 to 8"),
    ("--cpu", "3", "from 1/64 to 8"),
    ("--cpu", "1/3", "from 1/64 to 8"),
    ("--cpu", "1/128", "from 1/64 to 8"),
    ("--cpu", "fast", "'fast' is not a valid speed for the lab's CPU"),
    ("--cacheable", "lots", "'lots' is not a size: write a number with K, M, G or T"),
    ("--journal-size", "big", "'big' is not a size"),
    ("--boot", "warm", "possible values: cold, snapshot"),
    ("--shard", "0/2", "'0/2' is not a shard; write I/N with I from 1 to N, such as 2/8"),
    ("--shard", "3/2", "'3/2' is not a shard"),
    ("--shard", "a/b", "'a/b' is not a shard"),
    ("--shard", "1", "'1' is not a shard"),
];

#[test]
fn a_bad_value_is_refused_with_the_accepted_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value, part) in VALUES {
        let output = run(folder.path(), &format!("run dirops --dry-run {option} {value}"));
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{option} {value}: {message}");
        assert!(message.contains(option) && message.contains(part), "{option} {value}: {message}");
        assert!(output.stdout.is_empty(), "{option} {value}");
    }
}

#[test]
fn an_external_journal_with_an_invalid_disk_or_size_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (words, part) in [
        ("--journal-disk nowhere", "failed to find a disk called 'nowhere': there are: instant"),
        ("--journal-disk nowhere.toml", "read the disk in nowhere.toml"),
        ("--journal-size 1K", "--journal-size 1 KiB is not valid: it must be in whole mebibytes"),
        ("--journal-size 900T", "has room for"),
    ] {
        let output = fsdyno(folder.path())
            .args(["run", "dirops", "--dry-run", "--fs", "ext4 -J device={journal}"])
            .args(words.split(' '))
            .output()
            .unwrap();
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{words}: {message}");
        assert!(message.contains(part) && message.lines().count() == 1, "{words}: {message}");
    }
}

#[test]
fn invalid_use_has_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        "",
        "runn",
        "run",
        "run dirops --jobs 0",
        "run dirops --repeat 0",
        "run dirops --seed 9223372036854775808 --dry-run",
        "run dirops --kernel= --dry-run",
        "run dirops --shard 0/2",
        "run dirops --shard 3/2",
        "run dirops --shard 2",
        "merge",
        "merge whole",
        "fit",
        "fit /dev/null --seconds 0",
        "list all",
    ] {
        let output = run(folder.path(), words);
        assert_eq!(code(&output), 2, "fsdyno {words}");
    }
}

#[test]
fn a_missing_qemu_is_named_with_the_command_that_installs_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = fsdyno(folder.path())
        .args(["run", "dirops", "--fs", "ext4"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    if std::path::Path::new("/usr/sbin/qemu-system-x86_64").exists() {
        println!("skipped: this host has QEMU where it is found without PATH");
        return;
    }
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("apt-get install qemu-system-x86"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
