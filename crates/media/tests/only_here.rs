//! Only this crate can open a block device for writing: all other source files that open anything for
//! writing are listed here, with the reason why it cannot be a drive.

use std::path::{Path, PathBuf};

/// Code that opens a file for writing, with the standard library, rustix or libc.
const WORDS: &[&str] = &[
    ".write(true)",
    ".append(true)",
    ".create(true)",
    "File::create(",
    "File::create_new(",
    "fs::write(",
    "fs::copy(",
    "OFlags::RDWR",
    "OFlags::WRONLY",
    "OFlags::CREATE",
    "libc::O_RDWR",
    "libc::O_WRONLY",
    "libc::O_CREAT",
    "BLKDISCARD",
    "BLKZEROOUT",
    "BLKPG",
];

/// The files outside this crate that may contain it, and why they cannot open a user's drive.
const LISTED: &[(&str, &str)] = &[
    ("agent/src/age.rs", "below the trial's root, by its descriptor; it must be new"),
    ("agent/src/block_queue.rs", "settings of a device below /sys"),
    ("agent/src/entropy.rs", "/dev/random, as PID 1 of a guest"),
    ("agent/src/guest.rs", "/dev/port, as PID 1 of a guest"),
    ("agent/src/machine.rs", "sysctls below /proc/sys"),
    ("agent/src/memory.rs", "a guest's PCI region below /sys"),
    ("agent/src/process.rs", "/proc/self/oom_score_adj"),
    ("agent/src/serve_disk/device.rs", "an nbd of a guest, for its ioctls, and /proc/sys"),
    ("agent/src/shared/mod.rs", "servers and settings of a guest's kernel below /proc and /sys"),
    ("agent/src/target/directory.rs", "/proc/sys/vm/drop_caches"),
    ("agent/src/target/formatted.rs", "/proc/sys/vm/drop_caches"),
    ("campaign/src/recording/import.rs", "opens nothing: `TraceFile::create`"),
    ("campaign/src/recording/record.rs", "opens nothing: `TraceFile::create`"),
    ("campaign/src/recording/trace_file.rs", "a trace, after a check that it is not a drive"),
    ("engine/src/issue/lane.rs", "below the trial's root, by its descriptor"),
    ("engine/src/issue/raw.rs", "the trial's own device, created by media or the lab"),
    ("engine/src/issue/sync.rs", "below the trial's root, by its descriptor"),
    ("engine/src/tree/calls.rs", "below the trial's root, by its descriptor"),
    ("fit/src/cpu/check.rs", "the built-in recording, in a temporary folder"),
    ("lab/src/apt.rs", "the log of a build in fsdyno's cache"),
    ("lab/src/build/linux.rs", "the unpacked source in fsdyno's cache"),
    ("lab/src/build/mod.rs", "the unpacked source, its lock and log in fsdyno's cache"),
    ("lab/src/build/reiser4.rs", "the unpacked source in fsdyno's cache"),
    ("lab/src/build/stored.rs", "names of fsdyno in its cache"),
    ("lab/src/download.rs", "names of fsdyno in its cache"),
    ("lab/src/file_cache.rs", "names of fsdyno in its cache"),
    ("lab/src/kvm.rs", "/dev/kvm, for its ioctls"),
    ("ranks/src/worker/trial.rs", "/proc/sys/vm/drop_caches"),
    ("recorder/build.rs", "the folder of the build"),
    ("recorder/src/decode_names.rs", "opens nothing: flags of recorded calls"),
    ("recorder/src/finish.rs", "opens nothing: flags of recorded calls"),
    ("recorder/src/import/calls.rs", "opens nothing: flags of recorded calls"),
    ("recorder/src/import/names.rs", "opens nothing: flags of recorded calls"),
    ("recorder/src/inject.rs", "the memory of a traced process below /proc; flags of its calls"),
];

#[test]
fn all_other_files_that_open_for_writing_are_listed_with_a_reason() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from);
    let crates = crates.unwrap_or_default();
    let mut found = Vec::new();
    sources(&crates, &mut found);
    let mut writing: Vec<String> = found.iter().filter_map(|path| opens(&crates, path)).collect();
    writing.sort();
    let listed: Vec<&str> = LISTED.iter().map(|(path, _)| *path).collect();
    assert!(found.len() > 100, "{} files", found.len());
    assert_eq!(
        writing, listed,
        "a file that opens something for writing must be in this list, with the reason why it is no \
         drive; code that writes to a drive belongs in crates/media"
    );
}

/// Returns the file's path in crates/, if it contains one of the words outside its tests.
fn opens(crates: &Path, path: &Path) -> Option<String> {
    let name = path.strip_prefix(crates).ok()?.to_str()?.to_string();
    let text = std::fs::read_to_string(path).ok()?;
    // Tests are last in a file.
    let tests = ["mod tests {", "pub(crate) mod tests {"];
    let end = tests.iter().filter_map(|tests| text.find(&format!("\n#[cfg(test)]\n{tests}"))).min();
    let code = text.get(..end.unwrap_or(text.len()))?;
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let opens = lines.into_iter().any(|line| WORDS.iter().any(|word| line.contains(word)));
    opens.then_some(name)
}

/// Collects the sources of all other crates, without test code.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let excluded = ["media", "tests", "benches", "fuzz", "examples"];
        if path.is_dir() && !excluded.contains(&name.as_str()) {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}
