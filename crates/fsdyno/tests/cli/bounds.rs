//! Files from other users, of any size and kind: read within their limits, or refused at once.

#![allow(clippy::unwrap_used, reason = "a test panics if a result is not as expected")]

use crate::common;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A limit on memory: more than any command here needs, and less than the size of the files.
const MAX_MEMORY: u64 = 256 << 20;

/// A time limit that no command reaches, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

struct Finished {
    code: Option<i32>,
    message: String,
    /// The peak memory use in bytes.
    memory: u64,
}

/// Runs fsdyno and waits for its end; panics after [`TIMEOUT`].
#[allow(clippy::zombie_processes, reason = "wait4 waits for the child and returns its memory use")]
fn fsdyno(folder: &Path, args: &[&str]) -> Finished {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut child = common::fsdyno(folder)
        .args(args)
        .stdout(Stdio::null())
        .stderr(log.reopen().unwrap())
        .spawn()
        .unwrap();
    let (start, pid) = (Instant::now(), i32::try_from(child.id()).unwrap());
    let mut status = 0;
    // SAFETY: rusage is plain data; the child is ours, and nothing else waits for it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) == 0 {
            if start.elapsed() > TIMEOUT {
                child.kill().unwrap();
                panic!("fsdyno {} did not end within {TIMEOUT:?}", args.join(" "));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        usage
    };
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let memory = u64::try_from(usage.ru_maxrss).unwrap() << 10;
    Finished { code, message: fs::read_to_string(log.path()).unwrap(), memory }
}

/// Asserts that a command is refused with this message and little memory.
fn assert_refused(folder: &Path, args: &[&str], expected: &str) {
    let finished = fsdyno(folder, args);
    let args = args.join(" ");
    assert_eq!(finished.code, Some(2), "fsdyno {args}: {}", finished.message);
    assert!(finished.message.contains(expected), "fsdyno {args}: {}", finished.message);
    assert!(finished.memory < MAX_MEMORY, "fsdyno {args} took {} MiB", finished.memory >> 20);
}

/// Creates a sparse file that begins with `start` and continues with zeros.
fn make_sparse_file(path: &Path, start: &[u8], size: u64) {
    let mut file = File::create(path).unwrap();
    file.write_all(start).unwrap();
    file.set_len(size).unwrap();
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Each command that reads a file given by its path or by its folder, with the path of the file.
const READERS: &[(&str, &[&str])] = &[
    ("r/trials.ndjson", &["report", "r"]),
    ("r/trials.ndjson", &["report", "r/trials.ndjson"]),
    ("r/trials.ndjson", &["compare", "r", "r"]),
    ("r/trials.ndjson", &["why", "r"]),
    ("r/trials.ndjson", &["show", "series", "r"]),
    ("r/trials.ndjson", &["run", "dirops", "--on", ".", "--out", "r"]),
    ("r/crash.json", &["report", "r"]),
    ("r/crash.json", &["report", "r/crash.json"]),
    ("r/x.json", &["crash", "--replay", "r/x.json"]),
    ("r/study.toml", &["study", "r/study.toml"]),
    ("r/study.toml", &["report", "r"]),
    ("r/disk.toml", &["run", "dirops", "--dry-run", "--disk", "r/disk.toml"]),
    ("r/pm", &["run", "postmark", "--dry-run", "--set", "config=r/pm"]),
    ("r/x.log", &["show", "log", "r/x.log"]),
];

/// Files that may be absent from a result folder.
const OPTIONAL: &[&str] = &["r/crash.json", "r/study.toml"];

/// Readers of sidecar files.
const SIDECARS: &[(&str, &[&str])] = &[
    ("r/series.ndjson", &["show", "series", "r"]),
    ("r/series.ndjson", &["run", "dirops", "--on", ".", "--out", "r"]),
    ("r/why.ndjson", &["report", "r", "--html", "page.html"]),
    ("r/schedule.json", &["run", "dirops", "--on", ".", "--out", "r"]),
];

/// Readers of a shard's files.
const SHARD_FILES: &[(&str, &[&str])] = &[
    ("r/schedule.json", &["merge", "out", "r"]),
    ("r/series.ndjson", &["merge", "out", "r"]),
    ("r/trials.ndjson", &["merge", "out", "r"]),
];

/// Creates a folder with an empty result folder `r`.
fn make_folders() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("r")).unwrap();
    let path = folder.path().to_path_buf();
    (folder, path)
}

/// Asserts that each reader of sidecar files refuses a result in which `put` has replaced the file.
fn check_sidecars(put: impl Fn(&Path), expected: impl Fn(&str) -> String) {
    let plain = ["run", "dirops", "--on", ".", "--set", "files=5", "--out", "r"];
    let shard = [&plain[..], &["--shard", "1/1"]].concat();
    for (command, readers) in [(&plain[..], SIDECARS), (&shard, SHARD_FILES)] {
        let (_kept, folder) = make_folders();
        let finished = fsdyno(&folder, command);
        assert_eq!(finished.code, Some(0), "{}", finished.message);
        for (file, args) in readers {
            let (path, aside) = (folder.join(file), folder.join("aside"));
            let renamed = fs::rename(&path, &aside);
            put(&path);
            assert_refused(&folder, args, &expected(file));
            fs::remove_file(&path).unwrap();
            renamed.and_then(|()| fs::rename(&aside, &path)).unwrap_or_default();
        }
    }
}

#[test]
fn a_pipe_or_a_device_in_the_place_of_a_file_is_refused_at_once() {
    for (file, args) in READERS {
        let (_kept, folder) = make_folders();
        let path = folder.join(file);
        let refusal = |kind: &str| format!("it is {kind}; give the path of a file");
        // In a given folder, an optional file that is not a regular file counts as absent.
        let expected =
            |kind: &str| if OPTIONAL.contains(file) { String::new() } else { refusal(kind) };
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_refused(&folder, args, &expected("a device"));
        fs::remove_file(&path).unwrap();
        make_pipe(&path);
        assert_refused(&folder, args, &expected("a pipe"));
    }
    check_sidecars(make_pipe, |_| "it is a pipe; give the path of a file".into());
}

#[test]
fn a_file_beyond_its_limit_is_refused_with_the_limit() {
    let limit = |file: &str| match file {
        file if file.contains("ndjson") => "longer than 32 MiB, the limit for lines of records",
        file if file.ends_with("json") => {
            "larger than 256 MiB, and results in JSON are 256 MiB at most"
        }
        file if file.ends_with("log") => {
            "larger than 1 GiB, and logs of requests are 1 GiB at most"
        }
        _ => "larger than 1 MiB, and studies, disk profiles and configurations are 1 MiB at most",
    };
    let start = b"{\"schema\":2,\"trial_id\":\"";
    for (file, args) in READERS {
        let (_kept, folder) = make_folders();
        make_sparse_file(&folder.join(file), start, 3 << 30);
        assert_refused(&folder, args, limit(file));
    }
    check_sidecars(|path| make_sparse_file(path, start, 3 << 30), |file| limit(file).into());
    // Its compressed size is 200 KB.
    let (_kept, folder) = make_folders();
    let zeros = std::io::Read::take(std::io::repeat(0), 4 << 30);
    let zeros = std::io::Read::chain(&start[..], zeros);
    zstd::stream::copy_encode(zeros, File::create(folder.join("r/trials.ndjson.zst")).unwrap(), 1)
        .unwrap();
    assert_refused(&folder, &["report", "r"], limit("ndjson"));
}

#[test]
fn the_input_of_a_workload_is_never_read_into_memory_as_a_whole() {
    let (_kept, folder) = make_folders();
    // A folder above the size limit is refused before any of it is copied.
    make_sparse_file(&folder.join("r/large"), b"", 80 << 30);
    let args = ["run", "tarball", "--on", ".", "--dry-run", "--set", "archive=r"];
    assert_refused(&folder, &args, "is a folder of 80 GiB");
    // Much larger than this program: Linux also counts the memory of the process before exec(2).
    make_sparse_file(&folder.join("r/large"), b"mail", 800 << 20);
    let finished = fsdyno(&folder, &args);
    assert_eq!(finished.code, Some(0), "{}", finished.message);
    assert!(finished.memory < 600 << 20, "it took {} MiB", finished.memory >> 20);
    let args = ["run", "tarball", "--dry-run", "--set", "archive=/dev/zero"];
    assert_refused(&folder, &args, "it is a device");
    make_pipe(&folder.join("pipe"));
    assert_refused(
        &folder,
        &["run", "tarball", "--dry-run", "--set", "archive=pipe"],
        "it is a pipe",
    );
    // The first block shows that the file is not an archive.
    let zeros = std::io::Read::take(std::io::repeat(b'x'), 3 << 30);
    zstd::stream::copy_encode(zeros, File::create(folder.join("bomb")).unwrap(), 1).unwrap();
    let args = ["run", "tarball", "--dry-run", "--set", "archive=bomb"];
    assert_refused(&folder, &args, "is not a tar archive");
}

#[test]
fn no_message_shows_the_content_of_a_file_that_is_not_fsdynos() {
    let (_kept, folder) = make_folders();
    for text in [
        "root:$y$SECRET:19000:0:99999:7:::\n",
        "PASSWORD=SECRET\n",
        "PASSWORD = \"SECRET\"\n",
        "# SECRET\n",
        "!SECRET\n",
        "exit SECRET\n",
        "[PASSWORD]\nis = \"SECRET\"\n",
        "{\"password\":\"SECRET\"}\n",
    ] {
        for (file, args) in READERS {
            fs::write(folder.join(file), text).unwrap();
            let finished = fsdyno(&folder, args);
            assert_ne!(finished.code, Some(0), "fsdyno {}", args.join(" "));
            let message = &finished.message;
            assert!(!message.contains("SECRET"), "fsdyno {}: {message}", args.join(" "));
            fs::remove_file(folder.join(file)).unwrap();
        }
        let pm = "set number 10\nload other\n";
        fs::write(folder.join("r/pm"), pm).unwrap();
        fs::write(folder.join("r/other"), text).unwrap();
        let args = ["run", "postmark", "--dry-run", "--set", "config=r/pm"];
        let finished = fsdyno(&folder, &args);
        assert!(
            finished.code == Some(2) && finished.message.contains("config 'r/other' line 1: "),
            "{}",
            finished.message
        );
        assert!(!finished.message.contains("SECRET"), "{}", finished.message);
        fs::remove_file(folder.join("r/pm")).unwrap();
    }
}
