//! Prepared images: formatted and optionally aged disks, made by one guest and cached for others.
//!
//! An image is one sparse file: 1 MiB with the report of the job that made the disks, followed by the regions of
//! the disks in their final state. Each trial gets its own copy. Regions are small, because a disk's store omits blocks
//! that were never written or repeat one byte; for a disk without a store, blocks of zeros are omitted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use fsdyno_record::trial::{AgentReport, Outcome};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::digest;
use crate::error::RunError;
use crate::file_cache::FileCache;
use crate::finished::Finished;

/// The limit on the total size of all images on the host, in bytes; the least recently used are removed first. A
/// formatted disk takes 0.2 to 5 MB, an aged one about as much as its file system's metadata.
const LIMIT: u64 = 4 << 30;

/// The offset of the regions.
const HEAD: u64 = 1 << 20;

/// The size of the blocks that are omitted if they are zeros.
const BLOCK: usize = 4096;

/// The size of one read.
const PART: usize = 1 << 20;

/// Disks prepared by a guest.
#[derive(Debug)]
pub struct Image {
    file: File,
    report: AgentReport,
    /// The size of each region, in bytes.
    sizes: Vec<u64>,
    /// Host time taken to make the disks; `None` if they were cached.
    took: Option<Duration>,
}

/// The result of a job that makes disks.
#[derive(Debug)]
pub enum ImageResult {
    /// The prepared disks.
    Image(Arc<Image>),
    /// The failed run; its report has the reason.
    Failed(Box<Finished>),
}

impl Image {
    /// Returns the report of the agent that made the disks.
    pub fn report(&self) -> &AgentReport {
        &self.report
    }

    /// Returns the host time taken to make the disks; `None` if they were cached.
    pub fn took(&self) -> Option<Duration> {
        self.took
    }

    /// Copies the disks' contents into empty files, one for each disk.
    ///
    /// # Errors
    /// The machine has different disks, or an I/O error occurred on the host.
    pub fn copy_to(&self, disks: &[File]) -> io::Result<()> {
        let lengths: Vec<u64> =
            disks.iter().map(|disk| Ok(disk.metadata()?.len())).collect::<io::Result<_>>()?;
        if lengths != self.sizes {
            return Err(io::Error::other("the machine's disks differ from those of the image"));
        }
        let mut at = HEAD;
        for (disk, length) in disks.iter().zip(&self.sizes) {
            copy(&self.file, at, disk, 0, *length)?;
            at += length;
        }
        Ok(())
    }
}

/// Returns the cache of images.
pub fn file_cache(cache: &Cache) -> FileCache {
    FileCache::new(cache, "images", LIMIT, digest::of_file)
}

/// Returns the image under `key`; if it is missing, `run` makes its disks.
///
/// # Errors
/// Errors from `run` and from the host.
pub fn get(
    files: &FileCache,
    key: &str,
    go_on: &mut dyn FnMut() -> bool,
    run: &mut dyn FnMut() -> Result<Finished, RunError>,
) -> Result<ImageResult, RunError> {
    let mut took = None;
    let found = files.get(key, go_on, &mut |file| {
        let finished = run()?;
        took = Some(finished.elapsed);
        let report: AgentReport =
            serde_json::from_slice(&finished.report).map_err(|error| damaged(error.into()))?;
        if report.outcome != Outcome::Ok {
            return Err(NotCached::Failed(Box::new(finished)));
        }
        write(file, &finished)
            .map_err(|error| RunError::Host { action: "store the disks of a guest", error })?;
        Ok(())
    });
    let (file, _) = match found {
        Ok(found) => found,
        Err(NotCached::Failed(finished)) => return Ok(ImageResult::Failed(finished)),
        Err(NotCached::Error(error)) => return Err(error),
    };
    let (report, sizes) = read(&file).map_err(damaged)?;
    Ok(ImageResult::Image(Arc::new(Image { file, report, sizes, took })))
}

/// The reason why no disks were cached.
#[derive(Debug)]
enum NotCached {
    /// The job failed; its report has the reason.
    Failed(Box<Finished>),
    /// The run did not complete.
    Error(RunError),
}

impl From<RunError> for NotCached {
    fn from(error: RunError) -> NotCached {
        NotCached::Error(error)
    }
}

fn damaged(error: io::Error) -> RunError {
    RunError::Host { action: "read the disks that a guest made", error }
}

/// Writes the final disks of a guest into an empty file.
fn write(file: &File, finished: &Finished) -> io::Result<()> {
    let sizes = finished.disks.iter().map(|disk| Ok(disk.metadata()?.len()));
    let sizes: Vec<u64> = sizes.collect::<io::Result<_>>()?;
    let report: Value = serde_json::from_slice(&finished.report)?;
    let head = serde_json::to_vec(&json!({ "report": report, "sizes": sizes }))?;
    if head.len() as u64 > HEAD {
        return Err(io::Error::other("the report is too long"));
    }
    file.set_len(HEAD + sizes.iter().sum::<u64>())?;
    file.write_all_at(&head, 0)?;
    let mut at = HEAD;
    for (disk, length) in finished.disks.iter().zip(&sizes) {
        copy(disk, 0, file, at, *length)?;
        at += length;
    }
    Ok(())
}

fn read(file: &File) -> io::Result<(AgentReport, Vec<u64>)> {
    let mut head = vec![0; HEAD as usize];
    file.read_exact_at(&mut head, 0)?;
    let end = head.iter().position(|byte| *byte == 0).unwrap_or(head.len());
    let mut head: Value = serde_json::from_slice(&head[..end])?;
    let [report, sizes] = ["report", "sizes"].map(|key| head[key].take());
    Ok((serde_json::from_value(report)?, serde_json::from_value(sizes)?))
}

/// Copies the blocks that are not zeros from one sparse file into a hole in another.
fn copy(from: &File, from_offset: u64, to: &File, to_offset: u64, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; PART];
    let (mut at, end) = (from_offset, from_offset + length);
    while at < end {
        at = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(from, SeekFrom::Hole(at))?.min(end);
        while at < hole {
            let part = &mut buffer[..PART.min((hole - at) as usize)];
            from.read_exact_at(part, at)?;
            copy_blocks(part, to, to_offset + (at - from_offset))?;
            at += part.len() as u64;
        }
    }
    Ok(())
}

/// Writes the blocks that are not zeros, adjacent ones in one call.
fn copy_blocks(bytes: &[u8], to: &File, to_offset: u64) -> io::Result<()> {
    let mut run = 0..0;
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        let at = index * BLOCK;
        if block.iter().all(|byte| *byte == 0) {
            to.write_all_at(&bytes[run.clone()], to_offset + run.start as u64)?;
            run = at + block.len()..at + block.len();
        } else {
            run.end = at + block.len();
        }
    }
    to.write_all_at(&bytes[run.clone()], to_offset + run.start as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(disk: File, outcome: Outcome) -> Finished {
        let report = AgentReport { outcome, ..AgentReport::default() };
        Finished {
            report: serde_json::to_vec(&report).unwrap(),
            elapsed: Duration::from_secs(1),
            first_op: None,
            stages: Default::default(),
            cpu: None,
            memory: None,
            stored: fsdyno_record::Bytes(0),
            progress: crate::guest::NOTHING_YET,
            disks: vec![disk],
            log: None,
            console: Vec::new(),
        }
    }

    /// Returns a disk of 64 MiB with data at its beginning, after a gap and at its end, and a range of written zeros.
    fn disk() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file.write_all_at(&vec![0; 3 << 20], 8 << 20).unwrap();
        file.write_all_at(&vec![7; 3 << 20], (20 << 20) + 4096).unwrap();
        file.write_all_at(b"last", (64 << 20) - 4).unwrap();
        file
    }

    fn bytes(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_disk_is_made_once_and_copied_to_others_without_its_zeros() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&Cache::at(folder.path()).unwrap());
        let mut make = || Ok(finished(disk(), Outcome::Ok));
        let mut never = || panic!("it was created again");
        for run in [&mut make as &mut dyn FnMut() -> Result<Finished, RunError>, &mut never] {
            let result = get(&files, "key", &mut || true, run).unwrap();
            let ImageResult::Image(image) = result else { panic!("no image") };
            let copy = tempfile::tempfile().unwrap();
            copy.set_len(64 << 20).unwrap();
            image.copy_to(std::slice::from_ref(&copy)).unwrap();
            assert!(bytes(&copy) == bytes(&disk()));
            assert!(copy.metadata().unwrap().blocks() * 512 < 4 << 20);
            assert_eq!(image.report().outcome, Outcome::Ok);
        }
        assert!(files.used("images").unwrap().bytes.0 < 5 << 20);
    }

    #[test]
    fn a_failure_returns_its_report_and_is_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let files = file_cache(&Cache::at(folder.path()).unwrap());
        let mut make = || Ok(finished(disk(), Outcome::Failed));
        let result = get(&files, "key", &mut || true, &mut make).unwrap();
        assert!(matches!(result, ImageResult::Failed(_)));
        assert_eq!(files.used("images").unwrap().files, 0);
    }

    #[test]
    fn an_image_of_another_disk_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut make = || Ok(finished(disk(), Outcome::Ok));
        let result =
            get(&file_cache(&Cache::at(folder.path()).unwrap()), "key", &mut || true, &mut make)
                .unwrap();
        let ImageResult::Image(image) = result else { panic!("no image") };
        let other = tempfile::tempfile().unwrap();
        assert!(image.copy_to(&[other]).is_err());
    }
}
