//! The kernel's NFS server without daemons.
//!
//! The kernel queries daemons for the clients that an address belongs to, the exports that a client may access, and the
//! meaning of a file handle (Documentation/filesystems/nfs/rpc-cache.rst). There is only one export and one kind of
//! client, so all answers are written in advance, and the kernel never needs a daemon.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use fsdyno_engine::clock;
use fsdyno_record::Nanos;

use super::rpc;
use crate::shared::network::Host;
use crate::shared::write;

/// The folder of the kernel's control files for its server.
const NFSD: &str = "/proc/fs/nfsd";

/// The shortest grace period that the kernel accepts, in seconds.
const MIN_GRACE: &str = "10";

/// The maximum time to wait for the end of the grace period.
const MAX_GRACE: Nanos = Nanos(60_000_000_000);

/// The name of the group that all clients belong to.
const DOMAIN: &str = "clients";

/// The expiry time of an answer: the end of the kernel's own 32-bit seconds.
const FOREVER: u32 = i32::MAX as u32;

/// include/uapi/linux/nfsd/export.h.
const GATHERED_WRITES: u32 = 0x20;
const ASYNC: u32 = 0x10;
const NO_SUBTREE_CHECK: u32 = 0x400;
const FSID: u32 = 0x2000;

/// The file handle of the root of an export with fsid 0: version 1, no authentication, a file system by number (1),
/// and its root (0).
pub const ROOT_HANDLE: [u8; 8] = [1, 0, 1, 0, 0, 0, 0, 0];

/// The exported folder and the settings of the server.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// True if the server replies before the changes made by a call are persisted.
    pub is_async: bool,
    /// True if version 3 of the protocol is served.
    pub version_3: bool,
    /// The number of the server's threads.
    pub threads: u32,
    /// The number of clients.
    pub clients: u16,
}

/// Starts the server.
pub fn start(export: &Export<'_>) -> io::Result<()> {
    if !Path::new(NFSD).join("threads").exists() {
        rustix::mount::mount("nfsd", NFSD, "nfsd", rustix::mount::MountFlags::empty(), None)?;
    }
    let version_3 = if export.version_3 { "+3" } else { "-3" };
    control("nfsv4gracetime", MIN_GRACE)?;
    control("versions", &format!("{version_3} +4 +4.1 +4.2"))?;
    control("portlist", "tcp 2049")?;
    answer_in_advance(export)?;
    control("threads", &export.threads.to_string())?;
    wait_for_end_of_grace()
}

/// Waits for the end of the grace period, in which clients of an earlier server could reclaim their open files. The
/// server ends it early only with a daemon that remembers clients.
fn wait_for_end_of_grace() -> io::Result<()> {
    let end = clock::now() + MAX_GRACE;
    while !fs::read_to_string(format!("{NFSD}/v4_end_grace"))?.starts_with('Y') {
        if clock::now() > end {
            return Err(io::Error::other("the NFS server's grace period does not end"));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Stops the server, which then no longer holds any reference to the file system.
pub fn stop() -> io::Result<()> {
    control("threads", "0")?;
    for cache in ["auth.unix.ip", "nfsd.export", "nfsd.fh"] {
        cache_file(cache, "flush", "1\n")?;
    }
    Ok(())
}

fn answer_in_advance(export: &Export<'_>) -> io::Result<()> {
    for client in 1..=export.clients {
        let address = Host(client).address();
        answer("auth.unix.ip", &format!("nfsd {address} {FOREVER} {DOMAIN}"))?;
    }
    // The groups of root are those listed in its call.
    answer("auth.unix.gid", &format!("0 {FOREVER} 0"))?;
    let flags = FSID | NO_SUBTREE_CHECK | if export.is_async { ASYNC } else { GATHERED_WRITES };
    let folder = export.folder.display();
    answer("nfsd.export", &format!("{DOMAIN} {folder} {FOREVER} {flags} 65534 65534 0"))?;
    answer("nfsd.fh", &format!("{DOMAIN} 1 \\x00000000 {FOREVER} {folder}"))
}

/// Answers the calls to rpcbind and MOUNT until it is killed.
pub fn answer_calls(listeners: Vec<std::net::TcpListener>) -> io::Result<()> {
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            std::thread::spawn(move || -> io::Result<()> {
                for stream in listener.incoming() {
                    // A broken connection is reported by the caller.
                    let _ = rpc::answer_all(stream?, &ROOT_HANDLE);
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

fn answer(cache: &str, line: &str) -> io::Result<()> {
    cache_file(cache, "channel", &format!("{line}\n"))
}

fn cache_file(cache: &str, file: &str, line: &str) -> io::Result<()> {
    write(&format!("/proc/net/rpc/{cache}/{file}"), line)
}

fn control(file: &str, text: &str) -> io::Result<()> {
    write(&format!("{NFSD}/{file}"), &format!("{text}\n"))
}
