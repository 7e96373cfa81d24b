//! Marker files of fsdyno's subdirectories: they identify the process that uses the subdirectory.
//!
//! A running owner holds a lock on the marker, which the kernel releases however the process ends, and
//! which is valid across containers of one machine. The process ID, PID namespace, start time and boot ID
//! are a second check, for file systems without locks.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::process::{namespace, start_time};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

/// The name of the marker, next to the trial's tree.
pub const NAME: &str = "fsdyno.marker";

/// The name of the trial's tree, next to the marker.
pub const ROOT: &str = "root";

/// The time for which a child that was started just before its owner was killed may hold the lock.
const LOCK_GRACE: Duration = Duration::from_millis(500);

const TITLE: &str = "fsdyno works here; made and removed by it";

/// The owner of a subdirectory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process ID.
    pub pid: i32,
    /// The ID of the boot in which it runs, from /proc.
    pub boot: String,
    /// Its start time, in clock ticks after that boot.
    pub started: u64,
    /// The namespace of the process ID, or `None` in the marker of an older fsdyno.
    pub namespace: Option<u64>,
    /// The name of the machine (uname(2)), or `None` in the marker of an older fsdyno.
    pub node: Option<String>,
}

impl Owner {
    /// Returns this process as an owner.
    pub fn current() -> Owner {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let started = start_time(pid).unwrap_or(0);
        Owner { pid, boot: boot_id(), started, namespace: Some(namespace()), node: Some(node()) }
    }

    /// Reports whether that process is still running; its ID may have been reused. The state of a process in
    /// another container is unknown, so it counts as running until the next boot; so does one on another
    /// machine that shares the directory.
    pub fn is_running(&self) -> bool {
        if self.boot != boot_id() {
            return self.node.as_ref().is_some_and(|name| *name != node());
        }
        let elsewhere = self.namespace.is_some_and(|number| number != namespace());
        elsewhere || start_time(self.pid) == Some(self.started)
    }

    fn to_text(&self) -> String {
        let namespace = self.namespace.map(|number| format!("namespace {number}\n"));
        let node = self.node.as_ref().map(|name| format!("node {name}\n"));
        let (namespace, node) = (namespace.unwrap_or_default(), node.unwrap_or_default());
        let Owner { pid, boot, started, .. } = self;
        format!("{TITLE}\npid {pid}\nboot {boot}\nstarted {started}\n{namespace}{node}")
    }

    /// Parses a marker; returns `None` if it is torn or not a marker at all.
    pub fn parse(text: &str) -> Option<Owner> {
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) || !text.ends_with('\n') {
            return None;
        }
        let mut owner = Owner {
            pid: lines.next()?.strip_prefix("pid ")?.parse().ok()?,
            boot: lines.next()?.strip_prefix("boot ")?.to_string(),
            started: lines.next()?.strip_prefix("started ")?.parse().ok()?,
            namespace: None,
            node: None,
        };
        for line in lines {
            match line.split_once(' ')? {
                ("namespace", number) => owner.namespace = Some(number.parse().ok()?),
                ("node", name) => owner.node = Some(name.to_string()),
                _ => return None,
            }
        }
        Some(owner)
    }
}

/// Creates the marker in a new subdirectory; the returned file holds the lock.
pub fn create(dir: BorrowedFd<'_>) -> Result<File, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(openat(dir, NAME, flags, Mode::from_raw_mode(0o600))?);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Without locks, the second check must suffice.
        Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error),
    }
    let text = Owner::current().to_text();
    file.write_all(text.as_bytes())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(file)
}

/// The state of a subdirectory according to its marker.
#[derive(Debug, PartialEq, Eq)]
pub enum MarkerState {
    /// There is no marker.
    None,
    /// Its owner is running, or holds the lock.
    Living,
    /// Its owner has ended.
    Dead(Owner),
    /// The marker is incomplete and not locked.
    Torn,
}

/// Reads the marker of a subdirectory.
pub fn read(dir: BorrowedFd<'_>) -> Result<MarkerState, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match openat(dir, NAME, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(MarkerState::None),
        Err(error) => return Err(error),
    };
    if !rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file() {
        return Ok(MarkerState::None);
    }
    let start = Instant::now();
    while flock(file.as_fd(), FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        let owner = read_text(&file).and_then(|text| Owner::parse(&text));
        if owner.is_none_or(|owner| owner.is_running()) || start.elapsed() > LOCK_GRACE {
            return Ok(MarkerState::Living);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Some(text) = read_text(&file) else { return Ok(MarkerState::None) };
    Ok(match Owner::parse(&text) {
        Some(owner) if owner.is_running() => MarkerState::Living,
        Some(owner) => MarkerState::Dead(owner),
        None if TITLE.starts_with(&text) || text.starts_with(TITLE) => MarkerState::Torn,
        None => MarkerState::None,
    })
}

/// Reads the text of a marker, up to a length that no marker exceeds.
fn read_text(file: &File) -> Option<String> {
    let mut bytes = [0; 4096];
    let length = file.read_at(&mut bytes, 0).ok()?;
    String::from_utf8(bytes[..length].to_vec()).ok()
}

/// Returns the process ID in a subdirectory's name, `.fsdyno-<pid>-<random>`.
pub fn pid_of_name(name: &OsStr) -> Option<i32> {
    let (pid, random) = name.to_str()?.strip_prefix(".fsdyno-")?.split_once('-')?;
    let is_hex = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    pid.parse().ok().filter(|pid| is_hex && *pid > 0)
}

/// Returns the name of this machine, without control characters.
fn node() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_owner_parses_to_itself_and_this_process_is_running() {
        let current = Owner::current();
        assert_eq!(Owner::parse(&current.to_text()), Some(current.clone()));
        assert!(current.is_running());
    }

    #[test]
    fn a_process_that_has_ended_has_no_start_even_before_its_parent_waits_for_it() {
        let mut child = std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(start_time(pid).is_some());
        child.kill().unwrap();
        let start = Instant::now();
        while start_time(pid).is_some() {
            assert!(start.elapsed() < Duration::from_secs(60), "it is still running");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
    }

    #[test]
    fn the_owner_with_a_reused_process_id_or_of_another_boot_is_dead() {
        let current = Owner::current();
        assert!(!Owner { started: current.started + 1, ..current.clone() }.is_running());
        assert!(!Owner { boot: "another".into(), ..current }.is_running());
    }

    #[test]
    fn an_owner_in_another_container_counts_as_running_until_the_next_boot() {
        let current = Owner::current();
        let gone = Owner { pid: 4_194_305, ..current.clone() };
        assert!(!gone.is_running());
        let elsewhere = Owner { namespace: Some(1), ..gone.clone() };
        assert!(elsewhere.is_running());
        assert!(!Owner { boot: "another".into(), ..elsewhere }.is_running());
        let older = Owner { namespace: None, node: None, ..gone };
        assert_eq!(Owner::parse(&older.to_text()), Some(older.clone()));
        assert!(!older.is_running());
    }

    #[test]
    fn an_owner_on_another_machine_counts_as_running_and_one_of_an_earlier_boot_does_not() {
        let before = Owner { boot: "another".into(), ..Owner::current() };
        assert!(!before.is_running());
        let elsewhere =
            Owner { node: Some("a machine that does not exist".into()), ..before.clone() };
        assert!(elsewhere.is_running());
        assert_eq!(Owner::parse(&elsewhere.to_text()), Some(elsewhere));
        assert!(!Owner { node: None, ..before }.is_running(), "an older fsdyno's");
    }

    #[test]
    fn the_lock_of_a_child_that_outlives_its_owner_is_waited_for_briefly() {
        let folder = tempfile::tempdir().unwrap();
        let dir = File::open(folder.path()).unwrap();
        let mut held = create(dir.as_fd()).unwrap();
        assert_eq!(read(dir.as_fd()).unwrap(), MarkerState::Living);
        let gone = Owner { pid: 4_194_305, ..Owner::current() };
        held.set_len(0).unwrap();
        std::io::Seek::rewind(&mut held).unwrap();
        held.write_all(gone.to_text().as_bytes()).unwrap();
        assert_eq!(read(dir.as_fd()).unwrap(), MarkerState::Living, "the lock is still held");
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        assert_eq!(read(dir.as_fd()).unwrap(), MarkerState::Dead(gone));
        child.join().unwrap();
    }

    #[test]
    fn text_that_is_not_a_marker_is_refused() {
        for bad in ["", "pid 1\n", "fsdyno works here; made and removed by it\npid x\n"] {
            assert_eq!(Owner::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_names_with_the_pattern_of_fsdyno_are_recognised() {
        assert_eq!(pid_of_name(OsStr::new(".fsdyno-12-0123456789abcdef")), Some(12));
        for bad in [".fsdyno-12", ".fsdyno-x-0123456789abcdef", ".fsdyno-12-zz", "fsdyno-1-00"] {
            assert_eq!(pid_of_name(OsStr::new(bad)), None, "{bad}");
        }
    }
}
