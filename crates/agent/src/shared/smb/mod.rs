//! SMB: the kernel's server (ksmbd), whose requests this program answers in place of a daemon, and its clients (cifs).

mod ipc;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_engine::clock;
use fsdyno_filesystem::shared::smb;
use fsdyno_record::Nanos;

use super::network::Host;
use super::{ClientMount, Protocol, write};
use crate::process;
use ipc::{Daemon, PASSWORD, SHARE, USER};

/// The folder of the kernel's control files for its server.
const CONTROL: &str = "/sys/class/ksmbd-control";

/// The port of the server, as /proc/net/tcp writes it: 445.
const PORT: &str = "01BD";

/// States in /proc/net/tcp of a connection whose server has not closed it: TCP_ESTABLISHED and TCP_CLOSE_WAIT.
const OPEN_STATES: &[&str] = &["01", "08"];

/// The maximum time to wait for the start of the server, and for the end of its clients' connections.
const MAX_WAIT: Nanos = Nanos(60_000_000_000);

/// An SMB server and the mounts of its clients.
pub struct Smb {
    version: String,
    settings: smb::Server,
    daemon: Option<Daemon>,
}

impl Smb {
    /// Takes the version and the settings of the server from the options of a spec.
    pub fn from_options(options: &[String]) -> Smb {
        let version = smb::version(options.iter().map(String::as_str)).to_string();
        Smb { version, settings: smb::Server::of(options), daemon: None }
    }
}

impl Protocol for Smb {
    /// Does nothing: the process that answers the server's requests is forked at the first start of the server.
    fn prepare(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn start(&mut self, folder: &Path, _hosts: u16) -> io::Result<()> {
        let daemon = match &mut self.daemon {
            Some(daemon) => daemon,
            none => {
                let mut daemon = Daemon::open(folder.to_path_buf(), self.settings)?;
                process::fork(|| daemon.answer_all())?;
                none.insert(daemon)
            }
        };
        daemon.start_server()?;
        let stats: PathBuf = Path::new(CONTROL).join("stats");
        wait_until("the SMB server does not start", || {
            Ok(fs::read_to_string(&stats)?.split(' ').nth(1) == Some("running"))
        })
    }

    /// Waits for the end of the connections first: a client that delays the close of a file keeps its connection after
    /// umount(2) has returned.
    fn stop(&mut self) -> io::Result<()> {
        wait_until("a client of the SMB server does not close its connection", || {
            Ok(open_connections()? == 0)
        })?;
        write(&format!("{CONTROL}/kill_server"), "hard\n")
    }

    fn client(&self, _client: Host) -> ClientMount {
        let server = Host::SERVER.address();
        let version = &self.version;
        ClientMount {
            source: format!("//{server}/{SHARE}"),
            options: format!(
                "vers={version},ip={server},user={USER},pass={PASSWORD},iocharset=utf8"
            ),
        }
    }

    /// Options with which an observer closes files immediately, and therefore its connection at umount(2), so the next
    /// observer reuses nothing. It also queries the server at each stat(2): otherwise, a client reports a link count of
    /// one for a file that it has listed or opened, until its next query.
    /// `actimeo=0` would be ignored after an `actimeo` of the spec.
    fn observer_options(&self) -> &'static str {
        "closetimeo=0,acregmax=0,acdirmax=0"
    }
}

fn wait_until(failed: &str, is_done: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let end = clock::now() + MAX_WAIT;
    while !is_done()? {
        if clock::now() > end {
            return Err(io::Error::other(format!("{failed}{}", crate::kernel_log::hint())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the number of connections that the server has not closed.
fn open_connections() -> io::Result<usize> {
    let mut count = 0;
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_to_string(table) {
            Ok(text) => count += text.lines().filter(|line| is_open(line)).count(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Reports whether a line of /proc/net/tcp is an open connection of the server.
fn is_open(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let (local, state) = (words.next(), words.nth(1));
    let port = local.and_then(|local| local.rsplit_once(':')).map(|(_, port)| port);
    port == Some(PORT) && state.is_some_and(|state| OPEN_STATES.contains(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_open_until_the_server_has_closed_it() {
        let line = |local: &str, state: &str| {
            format!("   1: {local} 0000000000000000FFFF00000200000A:8A52 {state} 00000000:00000000")
        };
        let of_server = "0000000000000000FFFF00000100000A:01BD";
        for (line, open) in [
            (line(of_server, "01"), true),
            (line(of_server, "08"), true),
            // Listening, and closed by both sides.
            (line(of_server, "0A"), false),
            (line(of_server, "06"), false),
            (line("0100000A:01BC", "01"), false),
            ("  sl  local_address remote_address st tx_queue rx_queue".into(), false),
        ] {
            assert_eq!(is_open(&line), open, "{line}");
        }
    }
}
