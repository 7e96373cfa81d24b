//! The input files of a worker: opened at a process of the same host, or received from rank 0.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use fsdyno_child::Mapped;
use fsdyno_record::Bytes;
use fsdyno_record::canonical::Hash;
use fsdyno_workload::Input;

use super::WorkerError;
use super::link::Link;
use crate::input::{Offer, Place, home};
use crate::messages::FromRank;

/// Number of bytes that are hashed between two signs of progress.
const PART: usize = 4 << 20;

/// The input files that a worker has.
#[derive(Default)]
pub(super) struct HeldInputs(Vec<HeldInput>);

struct HeldInput {
    sha256: String,
    input: Input,
    /// Kept open, because other processes of the host may open it through this process.
    file: File,
}

impl HeldInputs {
    /// Returns the file with this SHA-256.
    pub(super) fn find(&self, sha256: &str) -> Option<Input> {
        self.entry(sha256).map(|held| held.input.clone())
    }

    fn entry(&self, sha256: &str) -> Option<&HeldInput> {
        self.0.iter().find(|held| held.sha256 == sha256)
    }

    /// Obtains an input file as rank 0 offers it.
    pub(super) fn take(&mut self, offer: &Offer, link: &Link) -> Result<FromRank, WorkerError> {
        if let Some(held) = self.entry(&offer.sha256) {
            return Ok(FromRank::HasInput { place: Place::of(&held.file) });
        }
        let held = match open_local(offer, link) {
            Some(held) => held,
            None if offer.fetch => receive(offer, link)?,
            None => return Ok(FromRank::LacksInput { home: home() }),
        };
        let place = Place::of(&held.file);
        self.0.push(held);
        Ok(FromRank::HasInput { place })
    }
}

/// Opens the file of another process of this host; None if that is not possible, or if it is a different file.
fn open_local(offer: &Offer, link: &Link) -> Option<HeldInput> {
    let place = offer.place.as_ref().filter(|place| Some(&place.home) == home().as_ref())?;
    let file = File::open(&place.path).ok()?;
    // The mapping of a shorter file could not be read beyond the end of the file.
    let metadata = file.metadata().ok();
    metadata.filter(|metadata| metadata.is_file() && metadata.len() >= offer.bytes)?;
    verify_file(file, offer, link).ok()
}

/// Receives the file from rank 0.
fn receive(offer: &Offer, link: &Link) -> Result<HeldInput, WorkerError> {
    let folder = std::env::temp_dir();
    let cannot_store = |error: std::io::Error| {
        WorkerError::plain(format!(
            "the input file cannot be stored in '{}': {error}; set TMPDIR to use another folder",
            folder.display()
        ))
    };
    let mut file = tempfile::tempfile().map_err(cannot_store)?;
    check_space(offer.bytes, &file, &folder).map_err(WorkerError::plain)?;
    link.discard_parts();
    let mut length = 0;
    while length < offer.bytes {
        let bytes = link.fetch(length)?;
        length += bytes.len() as u64;
        if bytes.is_empty() || length > offer.bytes {
            return Err(WorkerError::plain(format!(
                "rank 0 sent {length} B of the input file, which has {} B",
                offer.bytes
            )));
        }
        file.write_all(&bytes).map_err(cannot_store)?;
        link.add_read(1);
    }
    file.rewind().map_err(cannot_store)?;
    verify_file(file, offer, link)
}

/// Checks that a file of this size leaves a tenth of the free space.
fn check_space(bytes: u64, file: &File, folder: &Path) -> Result<(), String> {
    let space = rustix::fs::fstatvfs(file)
        .map_err(|error| format!("failed to inspect '{}': {error}", folder.display()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    match bytes <= free / 10 * 9 {
        true => Ok(()),
        false => Err(format!(
            "the input file has {}, and '{}' has {} of free space; set TMPDIR to use another folder",
            Bytes(bytes),
            folder.display(),
            Bytes(free)
        )),
    }
}

/// Maps a file that begins with the bytes of the input file, and compares their hash.
fn verify_file(file: File, offer: &Offer, link: &Link) -> Result<HeldInput, WorkerError> {
    let length =
        usize::try_from(offer.bytes).map_err(|error| WorkerError::plain(error.to_string()))?;
    let mapped = Mapped::new(&file, length)
        .map_err(|error| WorkerError::plain(format!("failed to map the input file: {error}")))?;
    let input = Input::new(mapped);
    let mut hash = Hash::default();
    for part in input.bytes().chunks(PART) {
        if link.is_stopped() {
            return Err(WorkerError::stopped());
        }
        hash.update(part);
        link.add_read(1);
    }
    let found = hash.hex();
    match found == offer.sha256 {
        true => Ok(HeldInput { sha256: found, input, file }),
        false => Err(WorkerError::plain(format!(
            "the input file has the SHA-256 {found} here, and {} at rank 0; it is not used",
            offer.sha256
        ))),
    }
}
