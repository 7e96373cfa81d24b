//! Lets ranks find each other: rank 0 listens on a TCP port and publishes its addresses and the run's secret in the
//! launcher's key-value store, or, if there is none, in a file in the shared directory that only its user can read.

use std::io::Read;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_media::Note;

use crate::address;
use crate::launcher::{Kind, Position};
use crate::pmi::Pmi;
use crate::secret::Secret;

/// The address at which the ranks of a run connect to rank 0, and the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Names or addresses of rank 0's host.
    pub hosts: Vec<String>,
    /// The port.
    pub port: u16,
    /// The secret of the run.
    pub secret: Secret,
    /// The boot ID of that host: ranks on it use the loopback interface.
    pub boot: String,
}

/// The environment variable with the address to connect to, as `HOST:PORT`; the secret is then in [`SECRET`].
const MEET: &str = "FSDYNO_MEET";

/// The environment variable of the secret.
const SECRET: &str = "FSDYNO_SECRET";

/// The key of the address in the launcher's store.
const KEY: &str = "fsdyno-meet";

/// The text that replaces the address if rank 0 refuses the run.
const REFUSED: &str = "refused";

/// Maximum number of published addresses: a value in a launcher's store has fewer than 1,024 bytes.
const MAX_HOSTS: usize = 12;

/// Interval at which a rank looks for the file.
const LOOK: Duration = Duration::from_millis(25);

/// Returns true if the address of rank 0 is prescribed, so that other ranks may know it before rank 0 listens.
pub(crate) fn is_prescribed() -> bool {
    std::env::var_os(MEET).is_some()
}

/// Time for which rank 0 shows in the file that the run is refused. A script starts all ranks at almost the same time.
const REFUSAL: Duration = Duration::from_secs(1);

impl Meeting {
    /// Converts to a string without blanks: `PORT;SECRET;BOOT;HOST,HOST`.
    pub fn to_text(&self) -> String {
        format!("{};{};{};{}", self.port, self.secret.text(), self.boot, self.hosts.join(","))
    }

    /// Parses the result of [`Meeting::to_text`].
    ///
    /// # Errors
    /// The text has a different form.
    pub fn parse(text: &str) -> Result<Meeting, String> {
        let mut parts = text.trim_end().splitn(4, ';');
        let mut part = || parts.next().ok_or("a part is missing");
        let port = part()?.parse().map_err(|_| "its port is not a number")?;
        let secret = Secret::parse(part()?)?;
        let boot = part()?.to_string();
        let hosts = part()?.split(',').map(String::from).collect();
        Ok(Meeting { hosts, port, secret, boot })
    }
}

/// Returns the boot ID of this host.
pub fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_string()
}

/// Returns the name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Rank 0's side: listens, and publishes the address. If a file with the address (the note) in the shared directory is
/// needed, it is removed when the note is dropped.
///
/// # Errors
/// The port cannot be opened, or the directory cannot be written.
pub fn open(
    position: &Position,
    folder: &Path,
) -> Result<(TcpListener, Meeting, Option<Note>), String> {
    if let Some((_, port, secret)) = read_environment()? {
        let (listener, _) = listen(port)?;
        let (hosts, boot) = (vec![host_name()], boot());
        return Ok((listener, Meeting { hosts, port, secret, boot }, None));
    }
    let (listener, port) = listen(0)?;
    let mut hosts = vec![host_name()];
    hosts.extend(address::of_host().iter().map(ToString::to_string));
    hosts.truncate(MAX_HOSTS);
    let secret = Secret::draw().map_err(|error| format!("failed to draw a secret: {error}"))?;
    let meeting = Meeting { hosts, port, secret, boot: boot() };
    let note = match position.pmi {
        Some(fd) => {
            use_store(fd, |pmi| pmi.put(KEY, &meeting.to_text()))?;
            None
        }
        // The address is passed through ssh.
        None if position.kind == Kind::Ssh => None,
        None => {
            let note = Note::create(folder, &note_name(position)?, meeting.to_text().as_bytes());
            Some(note.map_err(|error| error.to_string())?)
        }
    };
    Ok((listener, meeting, note))
}

fn listen(port: u16) -> Result<(TcpListener, u16), String> {
    // An IPv6 socket also accepts IPv4 connections; IPv4 only if the kernel has no IPv6.
    let any = TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
    let listener = any.map_err(|error| format!("failed to listen on a TCP port: {error}"))?;
    let port = listener
        .local_addr()
        .map_err(|error| format!("failed to listen on a TCP port: {error}"))?;
    Ok((listener, port.port()))
}

/// Refuses the run before the ranks connect: with PMI-1, the other ranks would otherwise wait in the launcher forever.
/// Without PMI-1, rank 0 shows the refusal in the shared directory, if it is known; ranks that start later time out.
pub fn refuse(position: &Position, folder: Option<&Path>) {
    let Some(fd) = position.pmi else {
        folder.iter().for_each(|folder| show_refusal(position, folder));
        return;
    };
    let refused = |pmi: &mut Pmi| match position.rank {
        0 => pmi.put(KEY, REFUSED),
        _ => Ok(()),
    };
    // The launcher may have ended; the caller reports the reason for the refusal.
    let _ = use_store(fd, refused);
}

/// Tells the ranks that wait for the address of rank 0 that there is no run, by a note that exists for a short time.
pub fn show_refusal(position: &Position, folder: &Path) {
    let is_met_otherwise = position.pmi.is_some() || is_prescribed();
    if position.rank > 0 || position.ranks < 2 || is_met_otherwise {
        return;
    }
    let Ok(name) = note_name(position) else { return };
    // If this fails, the ranks time out; the caller reports the reason for the refusal.
    if let Ok(_note) = Note::create(folder, &name, REFUSED.as_bytes()) {
        std::thread::sleep(REFUSAL);
    }
}

/// The other ranks' side: waits until rank 0 has published the address; None if rank 0 has refused the run.
///
/// # Errors
/// The address is not published in time, or is incomplete.
pub fn find(
    position: &Position,
    folder: &Path,
    patience: Duration,
) -> Result<Option<Meeting>, String> {
    if let Some((host, port, secret)) = read_environment()? {
        return Ok(Some(Meeting { hosts: vec![host], port, secret, boot: String::new() }));
    }
    if let Some(fd) = position.pmi {
        let found = use_store(fd, |_| Ok(()))?.get(KEY).map_err(|error| {
            format!("failed to read the launcher's key-value store (PMI-1): {error}")
        })?;
        let text = found.ok_or("rank 0 has not given its address to the launcher")?;
        return (text != REFUSED).then(|| Meeting::parse(&text)).transpose();
    }
    let (name, begin) = (note_name(position)?, Instant::now());
    if !folder.is_dir() {
        return Err(format!("'{}' is not a directory on this host", folder.display()));
    }
    loop {
        let last = match read_note(&folder.join(&name)) {
            Ok(text) if text == REFUSED => return Ok(None),
            Ok(text) => match Meeting::parse(&text) {
                Ok(meeting) => return Ok(Some(meeting)),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if begin.elapsed() > patience {
            return Err(format!(
                "rank 0 has not written its address to '{}' within {} s ({last}); check that rank 0 runs, and that the \
                 directory is on the same file system on all hosts",
                folder.join(&name).display(),
                patience.as_secs()
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the address and the secret that the user's environment sets.
fn read_environment() -> Result<Option<(String, u16, Secret)>, String> {
    let Ok(place) = std::env::var(MEET) else { return Ok(None) };
    let invalid = || format!("{MEET} is '{place}'; it must be HOST:PORT, such as job-0.job:4711");
    let (host, port) = place.rsplit_once(':').ok_or_else(invalid)?;
    let port = port.parse().map_err(|_| invalid())?;
    let secret = std::env::var(SECRET).map_err(|_| {
        format!(
            "{MEET} is set but {SECRET} is not, so anyone could connect; set {SECRET} to a random word, the same for all \
             ranks"
        )
    })?;
    let secret =
        Secret::parse(&secret).map_err(|error| format!("{SECRET} is not valid: {error}"))?;
    Ok(Some((host.trim_matches(['[', ']']).to_string(), port, secret)))
}

/// Calls `put` on the launcher's store, then waits for all ranks. The connection ends when the result is dropped.
fn use_store(
    fd: i32,
    put: impl FnOnce(&mut Pmi) -> std::io::Result<()>,
) -> Result<Conversation, String> {
    let failed = |error: std::io::Error| {
        format!("failed to use the launcher's key-value store (PMI-1): {error}")
    };
    let mut pmi = Pmi::open(fd).map_err(failed)?;
    put(&mut pmi).map_err(failed)?;
    pmi.barrier().map_err(failed)?;
    Ok(Conversation(pmi))
}

/// A connection with the launcher that is finalized when dropped: otherwise the launcher would end all processes.
struct Conversation(Pmi);

impl Conversation {
    fn get(&mut self, key: &str) -> std::io::Result<Option<String>> {
        self.0.get(key)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // The launcher may be gone; then nothing can be reported.
        let _ = self.0.finalize();
    }
}

/// Returns the name of the note of this run.
fn note_name(position: &Position) -> Result<String, String> {
    let run = position.run.as_ref().ok_or_else(|| {
        format!(
            "the launcher ({}) does not identify the run to its ranks; set FSDYNO_RUN to a word that is new for each \
             run, such as the name of the job",
            position.kind
        )
    })?;
    Ok(format!(".fsdyno-meet-{}-{run}", position.kind))
}

/// Removes the note of a run whose rank 0 is gone, if there is one.
pub(crate) fn forget(position: &Position, folder: &Path, meeting: &Meeting) {
    let Ok(name) = note_name(position) else { return };
    let path = folder.join(name);
    let found = read_note(&path).and_then(|text| Meeting::parse(&text));
    if found.is_ok_and(|found| found == *meeting) {
        // If this fails, the next run with this name replaces the note.
        let _ = std::fs::remove_file(path);
    }
}

/// Reads a note, if this user owns it and no other user can read it.
fn read_note(path: &Path) -> Result<String, String> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let meta = file.metadata().map_err(|error| error.to_string())?;
    let is_private = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0;
    if !is_private || !meta.is_file() {
        return Err("it belongs to another user, or others can read it".into());
    }
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Returns the socket addresses to try, the nearest first.
pub(crate) fn addresses(meeting: &Meeting) -> Vec<std::net::SocketAddr> {
    let is_same_host = meeting.boot == boot();
    let loopback = ["127.0.0.1".to_string(), "::1".to_string()];
    let hosts = loopback.iter().filter(|_| is_same_host).chain(&meeting.hosts);
    let mut all = Vec::new();
    for host in hosts {
        for address in (host.as_str(), meeting.port).to_socket_addrs().into_iter().flatten() {
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn position(rank: u32, run: Option<&str>) -> Position {
        let run = run.map(String::from);
        Position { kind: Kind::Environment, rank, ranks: 2, run, pmi: None }
    }

    #[test]
    fn ranks_without_a_store_meet_by_a_note_that_is_removed_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let (_listener, meeting, note) = open(&position(0, Some("a")), folder.path()).unwrap();
        let found =
            find(&position(1, Some("a")), folder.path(), Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!(found, meeting);
        assert!(!addresses(&found).is_empty());
        drop(note);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let late = find(&position(1, Some("a")), folder.path(), Duration::ZERO).unwrap_err();
        assert!(late.contains("check that rank 0 runs"), "{late}");
    }

    #[test]
    fn a_rank_learns_at_once_that_rank_0_refuses_the_run_and_no_note_remains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let waiting = std::thread::spawn(move || {
            find(&position(1, Some("a")), &path, Duration::from_secs(60))
        });
        refuse(&position(0, Some("a")), Some(folder.path()));
        assert_eq!(waiting.join().unwrap(), Ok(None));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_rank_does_not_wait_in_a_directory_that_does_not_exist() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("shraed");
        let error = find(&position(1, Some("a")), &nowhere, Duration::from_secs(60)).unwrap_err();
        assert!(error.ends_with("shraed' is not a directory on this host"), "{error}");
    }

    #[test]
    fn a_note_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (_listener, _, note) = open(&position(0, Some("a")), folder.path()).unwrap();
        let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = find(&position(1, Some("a")), folder.path(), Duration::ZERO).unwrap_err();
        assert!(error.contains("others can read it"), "{error}");
        drop(note);
    }

    #[test]
    fn a_launcher_that_does_not_identify_the_run_is_refused() {
        let error = open(&position(0, None), Path::new("/tmp")).unwrap_err();
        assert!(error.contains("FSDYNO_RUN"), "{error}");
    }

    #[test]
    fn an_address_is_parsed_as_it_was_written() {
        let secret = Secret::draw().unwrap();
        let hosts = vec!["a".to_string(), "fe80::1".to_string()];
        let meeting = Meeting { hosts, port: 7, secret, boot: "b".into() };
        assert_eq!(Meeting::parse(&meeting.to_text()).unwrap(), meeting);
        for wrong in ["", "7", "7;short;b;a", "x;0123456789abcdef;b;a"] {
            assert!(Meeting::parse(wrong).is_err(), "{wrong}");
        }
    }
}
