//! NFS: the kernel's server without daemons, and its clients.

mod rpc;
mod server;

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use fsdyno_filesystem::shared::nfs;

use super::network::Host;
use super::{ClientMount, Protocol, write_if_exists};
use crate::process;

/// The number of the server's threads: the default of Debian's nfs-kernel-server.
const THREADS: u32 = 8;

/// An NFS server and the mounts of its clients.
pub struct Nfs {
    version: String,
    is_async: bool,
}

impl Nfs {
    /// Takes the version and the settings of the export from the options of a spec.
    pub fn from_options(options: &[String]) -> Nfs {
        Nfs {
            version: nfs::version(options.iter().map(String::as_str)).to_string(),
            is_async: options.iter().any(|option| option == "async"),
        }
    }
}

impl Protocol for Nfs {
    /// Makes clients use the network: since Linux 6.12, a client whose server is in the same kernel otherwise reads and
    /// writes the server's files directly (Documentation/filesystems/nfs/localio.rst). For version 3, also starts the
    /// process that answers calls to rpcbind and MOUNT.
    fn prepare(&mut self) -> io::Result<()> {
        write_if_exists("/sys/module/nfs/parameters/localio_enabled", "N")?;
        if self.version != "3" {
            return Ok(());
        }
        let listeners = vec![
            rpc::listen(Ipv4Addr::LOCALHOST, rpc::RPCBIND_PORT)?,
            rpc::listen(Host::SERVER.address(), rpc::MOUNT_PORT)?,
        ];
        process::fork(|| server::answer_calls(listeners)).map(drop)
    }

    fn start(&mut self, folder: &Path, hosts: u16) -> io::Result<()> {
        server::start(&server::Export {
            folder,
            is_async: self.is_async,
            version_3: self.version == "3",
            threads: THREADS,
            clients: hosts,
        })
    }

    fn stop(&mut self) -> io::Result<()> {
        server::stop()
    }

    fn client(&self, client: Host) -> ClientMount {
        let server = Host::SERVER.address();
        let version = match self.version.as_str() {
            "3" => format!(
                "vers=3,port=2049,mountproto=tcp,mountaddr={server},mountport={},nolock",
                rpc::MOUNT_PORT
            ),
            version => format!("vers={version},clientaddr={}", client.address()),
        };
        let options = format!("{version},proto=tcp,sec=sys,addr={server}");
        ClientMount { source: format!("{server}:/"), options }
    }

    fn observer_options(&self) -> &'static str {
        ""
    }
}
