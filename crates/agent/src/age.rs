//! Ages a file system before the first phase: fills it, then replaces its files.
//!
//! Files of random sizes are written until the file system reaches the requested fill. Rounds follow: each removes a
//! twentieth of the files, chosen at random over all directories, and writes others, of other sizes, until the file
//! system is as full as before. Free space is thus fragmented among the remaining files, as after years of use.
//! Names, sizes and order depend only on a seed.
//!
//! The files hold zeros: only their location matters, and the lab does not store zeros. They stay next to the trial's
//! own tree, together with a census that they are compared with at the end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fsdyno_record::Bytes;
use fsdyno_record::age::{AgePlan, Aged};
use fsdyno_record::seed::{self, SplitMix64};
use fsdyno_workload::sizes::Sizes;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

/// The folder of the aged files, next to the root of the trial.
const FOLDER: &str = "aged";

/// The file in it that records the expected counts.
const CENSUS: &str = "census";

/// Number of files in a directory: small enough for a file system whose directories are linear lists.
const FILES_IN_DIRECTORY: usize = 256;

/// Number of rounds in which as many files are removed in total as the file system holds.
const ROUNDS: usize = 20;

/// Maximum number of passes in one round: each writes most of what is still missing, so that they converge on the
/// target.
const MAX_PASSES: usize = 40;

/// Size of one write call in bytes.
const CHUNK: usize = 1 << 20;

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// Ages the file system of `root`, a directory below that file system's top directory. `on_progress` is called with
/// the bytes written so far and the bytes expected in total.
///
/// # Errors
/// Errors from the kernel; an error if the file system does not reach the requested fill.
pub fn age(
    plan: &AgePlan,
    seed: u64,
    root: BorrowedFd<'_>,
    on_progress: &mut dyn FnMut(u64, u64),
) -> io::Result<Aged> {
    let invalid =
        || io::Error::other(format!("'{}' is not a distribution of file sizes", plan.files));
    let sizes: Sizes = plan.files.parse().map_err(|()| invalid())?;
    let top = parent_of(root)?;
    rustix::fs::mkdirat(&top, FOLDER, Mode::from_raw_mode(0o755))?;
    let folder = open_directory(top.as_fd(), FOLDER)?;
    let seed = plan.seed.unwrap_or(seed);
    let space = Space::read(folder.as_fd())?;
    let target = space.total / 100 * u64::from(plan.fill);
    let mut tree = Tree {
        folder,
        sizes,
        largest: (space.total / 100).max(4096),
        size_seed: seed::stream(seed, "aged sizes").draw(),
        choices: seed::stream(seed, "aged files"),
        slots: Vec::new(),
        free: Vec::new(),
        aged: Aged::default(),
        written: 0,
        expected_written: target.saturating_sub(space.used) * u64::from(plan.churn + 1),
        on_progress,
    };
    tree.fill(target)?;
    for _ in 0..plan.churn as usize * ROUNDS {
        tree.thin_out()?;
        tree.fill(target)?;
    }
    tree.end()
}

/// Compares the aged files next to `root` with their census.
///
/// # Errors
/// The differences found; errors from the kernel.
pub fn verify_census(root: BorrowedFd<'_>, on_progress: &mut dyn FnMut()) -> io::Result<()> {
    let folder = open_directory(parent_of(root)?.as_fd(), FOLDER)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let census = rustix::fs::openat(&folder, CENSUS, flags, Mode::empty())?;
    let mut text = String::new();
    File::from(census).read_to_string(&mut text)?;
    let census: Aged = serde_json::from_str(&text)?;
    let mut actual = Aged::default();
    for entry in entries(folder.as_fd())? {
        let name = entry?;
        if name == CENSUS {
            continue;
        }
        actual.directories += 1;
        let directory = open_directory(folder.as_fd(), &name)?;
        for entry in entries(directory.as_fd())? {
            let stat = rustix::fs::statat(&directory, entry?.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
            actual.files += 1;
            actual.bytes = actual.bytes + Bytes(stat.st_size as u64);
            if actual.files % 256 == 0 {
                on_progress();
            }
        }
    }
    let counts = |aged: &Aged| (aged.files, aged.directories, aged.bytes);
    if counts(&actual) == counts(&census) {
        return Ok(());
    }
    let describe = |aged: &Aged| {
        format!("{} files of {} in {} directories", aged.files, aged.bytes, aged.directories)
    };
    Err(io::Error::other(format!(
        "the aged files have changed: found {}, expected {}",
        describe(&actual),
        describe(&census)
    )))
}

/// Returns the parent directory of `root`, which must be on the same file system.
fn parent_of(root: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let parent = open_directory(root, "..")?;
    match rustix::fs::fstat(&parent)?.st_dev == rustix::fs::fstat(root)?.st_dev {
        true => Ok(parent),
        false => Err(io::Error::other(
            "the trial's tree has no parent directory on the same file system",
        )),
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Returns the names in a directory except `.` and `..`. Their types are omitted, because some file systems, such as
/// jfs, do not report them.
fn entries(directory: BorrowedFd<'_>) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    let entries = Dir::read_from(directory)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let is_dot_entry = |name: &String| name == "." || name == "..";
    Ok(entries.filter(move |entry| !entry.as_ref().is_ok_and(is_dot_entry)))
}

fn directory_of(slot: usize) -> String {
    format!("d{:05}", slot / FILES_IN_DIRECTORY)
}

struct Space {
    used: u64,
    total: u64,
}

impl Space {
    /// Reads the usage after a sync: without one, some file systems do not count delayed allocations.
    fn read(folder: BorrowedFd<'_>) -> io::Result<Space> {
        rustix::fs::syncfs(folder)?;
        let stat = rustix::fs::fstatvfs(folder)?;
        let used = stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize;
        Ok(Space { used, total: stat.f_blocks * stat.f_frsize })
    }
}

/// A slot for a file: the number of files it has had, and whether it has one now.
#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    live: bool,
}

struct Tree<'a> {
    folder: OwnedFd,
    sizes: Sizes,
    /// Maximum size of a file: a single file must not make up most of the data.
    largest: u64,
    size_seed: u64,
    choices: SplitMix64,
    slots: Vec<Slot>,
    /// Slots without a file, in the order in which their files were removed.
    free: Vec<usize>,
    aged: Aged,
    written: u64,
    expected_written: u64,
    on_progress: &'a mut dyn FnMut(u64, u64),
}

impl Tree<'_> {
    /// Writes files until `target` bytes are in use.
    fn fill(&mut self, target: u64) -> io::Result<()> {
        let mut is_full = false;
        for _ in 0..MAX_PASSES {
            let space = Space::read(self.folder.as_fd())?;
            // The target counts as reached within 1/500 of the total size.
            let missing = target.saturating_sub(space.used);
            if missing <= space.total / 500 {
                return Ok(());
            }
            if is_full {
                break;
            }
            // The space that a file takes in addition to its bytes is not known in advance, so the missing space is not
            // filled all at once.
            is_full = !self.write_about((missing / 10 * 9).max(4096))?;
        }
        let space = Space::read(self.folder.as_fd())?;
        Err(io::Error::other(format!(
            "aging could not fill the file system to {} of {}: it holds {} at most; request \
             less (--age fill=...)",
            Bytes(target),
            Bytes(space.total),
            Bytes(space.used)
        )))
    }

    /// Writes files of about `bytes` in total; returns false if the file system is full.
    fn write_about(&mut self, bytes: u64) -> io::Result<bool> {
        let mut remaining = bytes;
        // The slots that became free first are used first.
        let mut free_slots = std::mem::take(&mut self.free).into_iter();
        let mut fits = true;
        while remaining > 0 && fits {
            let slot = match free_slots.next() {
                Some(slot) => slot,
                None => self.new_slot()?,
            };
            let size = self.size_of(slot);
            fits = self.write(slot, size)?;
            if !fits {
                self.free.push(slot);
            }
            remaining = remaining.saturating_sub(size.next_multiple_of(4096).max(4096));
        }
        self.free.extend(free_slots);
        Ok(fits)
    }

    fn new_slot(&mut self) -> io::Result<usize> {
        let slot = self.slots.len();
        if slot % FILES_IN_DIRECTORY == 0 {
            let mode = Mode::from_raw_mode(0o755);
            rustix::fs::mkdirat(&self.folder, directory_of(slot).as_str(), mode)?;
            self.aged.directories += 1;
        }
        self.slots.push(Slot { generation: 0, live: false });
        Ok(slot)
    }

    /// Returns the size of the file that a slot holds, or will hold next.
    fn size_of(&self, slot: usize) -> u64 {
        let file = ((slot as u64) << 32) | u64::from(self.slots[slot].generation);
        let mut draws = SplitMix64::new(seed::mix(self.size_seed ^ seed::mix(file)));
        self.sizes.draw(&mut draws).min(self.largest)
    }

    /// Returns the path of the file that a slot holds, or will hold next.
    fn path_of(&self, slot: usize) -> String {
        format!("{}/f{slot:08}-{}", directory_of(slot), self.slots[slot].generation)
    }

    fn write(&mut self, slot: usize, size: u64) -> io::Result<bool> {
        let path = self.path_of(slot);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(&self.folder, path.as_str(), flags, Mode::from_raw_mode(0o644));
        let file = match opened {
            Err(Errno::NOSPC | Errno::DQUOT) => return Ok(false),
            result => result?,
        };
        let mut remaining = size;
        while remaining > 0 {
            let length = remaining.min(CHUNK as u64) as usize;
            match rustix::io::write(&file, &ZEROS[..length]) {
                Ok(written) => remaining -= written as u64,
                Err(Errno::NOSPC | Errno::DQUOT) => {
                    drop(file);
                    rustix::fs::unlinkat(&self.folder, path.as_str(), AtFlags::empty())?;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.slots[slot].live = true;
        self.aged.files += 1;
        self.aged.bytes = self.aged.bytes + Bytes(size);
        self.written += size;
        if self.aged.files % 16 == 0 {
            (self.on_progress)(self.written, self.expected_written);
        }
        Ok(true)
    }

    /// Removes a twentieth of the files.
    fn thin_out(&mut self) -> io::Result<()> {
        let live_files = self.aged.files as usize;
        let mut remaining = live_files.div_ceil(ROUNDS).min(live_files);
        while remaining > 0 {
            let slot = self.choices.below(self.slots.len() as u64) as usize;
            if !self.slots[slot].live {
                continue;
            }
            let (path, size) = (self.path_of(slot), self.size_of(slot));
            rustix::fs::unlinkat(&self.folder, path.as_str(), AtFlags::empty())?;
            self.slots[slot] = Slot { generation: self.slots[slot].generation + 1, live: false };
            self.free.push(slot);
            self.aged.files -= 1;
            self.aged.bytes = Bytes(self.aged.bytes.0 - size);
            self.aged.removed += 1;
            remaining -= 1;
            if remaining % 256 == 0 {
                (self.on_progress)(self.written, self.expected_written);
            }
        }
        Ok(())
    }

    fn end(mut self) -> io::Result<Aged> {
        let space = Space::read(self.folder.as_fd())?;
        (self.aged.used, self.aged.size) = (Bytes(space.used), Bytes(space.total));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let census = rustix::fs::openat(&self.folder, CENSUS, flags, Mode::from_raw_mode(0o644))?;
        File::from(census).write_all(&serde_json::to_vec(&self.aged)?)?;
        rustix::fs::syncfs(&self.folder)?;
        Ok(self.aged)
    }
}
