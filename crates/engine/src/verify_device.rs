//! Reads back a device that replaced a file, and compares it with the workload's expectation.

use std::fs::File;
use std::io::{self, Read};

use fsdyno_record::plan::VerifyMode;
use fsdyno_record::trial::VerifyReport;
use fsdyno_workload::contents::MAX_SLICE;
use fsdyno_workload::{Contents, ExpectedKind, Tree};

use crate::clock;

/// Compares the first bytes of `device` with the file at `path` of `tree`; nothing is compared for a
/// deleted file. [`VerifyMode::Sampled`] compares the one file as a whole.
///
/// # Errors
/// An error from reading the device.
pub fn verify_device(
    mut device: File,
    tree: &dyn Tree,
    path: &[u8],
    contents: &Contents,
    mode: VerifyMode,
) -> io::Result<VerifyReport> {
    let started = clock::now();
    let mut report = VerifyReport { mode, ..VerifyReport::default() };
    let size = match tree.lookup(path).map(|expected| expected.kind) {
        Some(ExpectedKind::Pieces(size)) => size,
        _ => 0,
    };
    report.files = u64::from(size > 0);
    let mut buffer = vec![0; MAX_SLICE];
    let mut done = 0;
    while done < size && mode != VerifyMode::Names {
        let chunk = ((size - done) as usize).min(buffer.len());
        device.read_exact(&mut buffer[..chunk])?;
        let mut checked = 0;
        while checked < chunk {
            let piece = tree.piece(path, done + checked as u64).filter(|piece| piece.length > 0);
            let part_length = piece.map_or(0, |piece| (piece.length as usize).min(chunk - checked));
            let difference = piece
                .map(|piece| contents.difference(piece, &buffer[checked..checked + part_length]));
            match difference {
                Some(None) => checked += part_length,
                Some(Some(offset)) => {
                    return Ok(with_problem(report, done + checked as u64 + offset, started));
                }
                None => return Ok(with_problem(report, done + checked as u64, started)),
            }
        }
        done += chunk as u64;
        report.bytes.0 += chunk as u64;
    }
    report.elapsed_ns = clock::now().since(started);
    Ok(report)
}

fn with_problem(
    mut report: VerifyReport,
    offset: u64,
    started: fsdyno_record::Nanos,
) -> VerifyReport {
    report.problems = 1;
    report.examples.push(format!("the device: byte {offset} is not what was written"));
    report.elapsed_ns = clock::now().since(started);
    report
}
