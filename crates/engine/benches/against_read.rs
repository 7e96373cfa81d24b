//! Full verification against a plain read of the same files, on a tmpfs with a warm cache.
//!
//! The plain reader walks the directory and opens, reads and closes every file in the same order,
//! without comparing bytes. Both run in turn in one process; a figure is the median over the rounds of
//! the ratio of the two times of one round, with its 95 % interval.

#![allow(clippy::unwrap_used, reason = "a bench reports errors by panicking")]

#[allow(dead_code, reason = "not every bench uses all of it")]
mod calls;
#[allow(dead_code, reason = "not every bench uses all of it")]
mod ratio;

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use fsdyno_engine::issue::sync::SyncIssuer;
use fsdyno_engine::scan::Directory;
use fsdyno_engine::{Recorder, run_phase, verify};
use fsdyno_record::plan::VerifyMode;
use fsdyno_workload::{Contents, Share};

const FILES: u64 = 100_000;
const ROUNDS: usize = 15;

/// The promised maximum ratio to the time of the plain read.
const MAX_RATIO: f64 = 2.0;

fn main() {
    let folder = ratio::scratch();
    let rounds = ratio::rounds(ROUNDS);
    println!("full verification against a plain read, {FILES} files, {rounds} rounds");
    for size in ["0", "100", "4096"] {
        let target = folder.join(size);
        std::fs::create_dir(&target).unwrap();
        let work = calls::dirops(FILES, size).unwrap();
        let contents = Arc::new(Contents::new(1));
        let root: OwnedFd = std::fs::File::open(&target).unwrap().into();
        let mut issuer = SyncIssuer::new(root.try_clone().unwrap(), Arc::clone(&contents));
        let mut ops = work.ops(0, Share::WHOLE);
        run_phase(ops.as_mut(), &mut issuer, &mut Recorder::new(), &mut |_| {}).unwrap();
        let tree = work.tree(0);
        let mut buffer = vec![0; 1 << 20];
        let bytes = FILES * size.parse::<u64>().unwrap();
        let pairs = ratio::interleave(
            rounds,
            || {
                let start = Instant::now();
                assert_eq!(read_all(root.as_raw_fd(), c"d", &mut buffer), (FILES, bytes));
                start.elapsed().as_secs_f64()
            },
            || {
                let start = Instant::now();
                let (root, tree) = (root.as_fd(), tree.as_ref());
                let report =
                    verify(root, tree, &contents, VerifyMode::Full, 1, &mut |_| {}).unwrap();
                let time = start.elapsed().as_secs_f64();
                assert_eq!((report.problems, report.bytes.0), (0, bytes));
                time
            },
        );
        let plain = pairs.iter().map(|(plain, _)| plain * 1e9 / FILES as f64);
        println!("{size} bytes: plain read {:.0} ns a file", ratio::median(plain.collect()).0);
        ratio::report(
            &format!("verification of files of {size} bytes, times a plain read"),
            pairs.iter().map(|(plain, verified)| verified / plain).collect(),
            ratio::Limit::AtMost(MAX_RATIO),
        );
        std::fs::remove_dir_all(&target).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Reads every file of a directory to its end; returns the number of files and bytes.
fn read_all(parent: RawFd, name: &CStr, buffer: &mut [u8]) -> (u64, u64) {
    let mut directory = Directory::open(parent, name, 0).unwrap();
    let (mut files, mut bytes) = (0, 0);
    while directory.fill().unwrap() {
        let fd = directory.fd();
        while let Some(entry) = directory.entry() {
            files += 1;
            // SAFETY: the name ends in NUL; the descriptor is new and owned by no one else.
            let file = unsafe {
                let file = libc::openat(fd, entry.name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                assert!(file >= 0);
                OwnedFd::from_raw_fd(file)
            };
            loop {
                // SAFETY: the buffer is valid for writes of its whole length.
                let length = unsafe {
                    libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len())
                };
                assert!(length >= 0);
                bytes += length as u64;
                if length == 0 {
                    break;
                }
            }
        }
    }
    (files, bytes)
}
