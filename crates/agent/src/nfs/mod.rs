//! Shares a file system over a modelled network: the kernel's NFS server and its clients in one guest, each client in
//! its own network namespace.

mod netlink;
mod network;
mod rpc;
mod server;

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_filesystem::{mount, nfs};
use fsdyno_record::plan::{FlatLab, NetworkPlan};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::process;
use netlink::Queue;
use network::{Host, Network};

/// The number of the server's threads: the default of Debian's nfs-kernel-server.
const THREADS: u32 = 8;

/// The maximum number of attempts to unmount the exported file system: the kernel releases it shortly after the server
/// has ended.
const MAX_TRIES: u32 = 500;

/// The folder of a trial below the root of the export.
const TRIAL: &str = "trial";

/// The network of the server and its clients, and their mounts.
pub struct Shared {
    clients: u16,
    queue: Queue,
    /// The options in the spec that belong to NFS and its export.
    options: Vec<String>,
    /// The folder that contains the mount point of each client.
    base: PathBuf,
    network: Option<Network>,
    roots: Vec<OwnedFd>,
}

impl Shared {
    /// Takes the clients and the network from a plan of the lab, and the mount options from its spec.
    ///
    /// # Errors
    /// A plan without clients or network.
    pub fn of(lab: &FlatLab, options: &str, base: &Path) -> io::Result<Shared> {
        let (Some(clients), Some(network)) = (lab.clients, &lab.network) else {
            return Err(io::Error::other("the plan has no clients and no network"));
        };
        let clients = u16::try_from(clients).map_err(io::Error::other)?;
        let options = match options {
            "" => Vec::new(),
            options => mount::items(options).map_err(io::Error::other)?,
        };
        let (queue, base) = (queue(network), base.to_path_buf());
        Ok(Shared { clients, queue, options, base, network: None, roots: Vec::new() })
    }

    /// Returns the root of the trial's tree as each client sees it.
    pub fn roots(&self) -> Vec<BorrowedFd<'_>> {
        self.roots.iter().map(AsFd::as_fd).collect()
    }

    /// Returns the mount point of the first client.
    pub fn first(&self) -> PathBuf {
        self.mount_point_of(1)
    }

    fn mount_point_of(&self, client: u16) -> PathBuf {
        self.base.join(format!("client{client}"))
    }

    /// Returns the number of the host that mounts the file system only to examine it.
    fn observer(&self) -> u16 {
        self.clients + 1
    }

    fn version(&self) -> &str {
        nfs::version(self.options.iter().map(String::as_str))
    }

    /// Exports a folder and mounts it for each client.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn mount(&mut self, folder: &Path) -> io::Result<()> {
        if self.network.is_none() {
            forbid_local_io()?;
            self.network = Some(Network::build(self.observer(), self.queue)?);
            self.answer_calls()?;
        }
        let trial = folder.join(TRIAL);
        if !trial.is_dir() {
            fs::create_dir(&trial)?;
        }
        server::start(&server::Export {
            folder,
            is_async: self.options.iter().any(|option| option == "async"),
            version_3: self.version() == "3",
            threads: THREADS,
            clients: self.observer(),
        })?;
        self.roots =
            (1..=self.clients).map(|client| self.mount_for(client)).collect::<io::Result<_>>()?;
        Ok(())
    }

    /// Starts the process that answers calls to rpcbind and MOUNT, which are made only for NFS version 3.
    fn answer_calls(&self) -> io::Result<()> {
        if self.version() != "3" {
            return Ok(());
        }
        let listeners = vec![
            rpc::listen(Ipv4Addr::LOCALHOST, rpc::RPCBIND_PORT)?,
            rpc::listen(Host::SERVER.address(), rpc::MOUNT_PORT)?,
        ];
        process::fork(|| server::answer_calls(listeners)).map(drop)
    }

    /// Mounts the export for one client, and opens the trial's folder.
    fn mount_for(&self, client: u16) -> io::Result<OwnedFd> {
        let at = self.mount_point_of(client);
        fs::create_dir_all(&at)?;
        let own =
            self.options.iter().filter(|option| !["sync", "async"].contains(&option.as_str()));
        let (flags, data) =
            mount::split(&own.cloned().collect::<Vec<_>>().join(",")).map_err(io::Error::other)?;
        let bits = MountFlags::from_bits_retain(mount::bits(&flags) as u32);
        let server = Host::SERVER.address();
        let mut options = match self.version() {
            "3" => format!(
                "vers=3,port=2049,mountproto=tcp,mountaddr={server},mountport={},nolock",
                rpc::MOUNT_PORT
            ),
            version => format!("vers={version},clientaddr={}", Host(client).address()),
        };
        options.push_str(&format!(",proto=tcp,sec=sys,addr={server}"));
        let own = data.split(',').filter(|option| !option.is_empty() && !option.contains("vers="));
        own.for_each(|option| options.push_str(&format!(",{option}")));
        let text = CString::new(options.as_str()).map_err(io::Error::other)?;
        let source = format!("{server}:/");
        let network = self.network.as_ref().and_then(|it| it.clients.get(usize::from(client) - 1));
        let namespace = network.ok_or_else(|| io::Error::other("a client without a network"))?;
        let mounted = namespace.within(|| {
            Ok(rustix::mount::mount(source.as_str(), &at, "nfs", bits, Some(text.as_c_str()))?)
        });
        mounted.map_err(|error| {
            io::Error::other(format!(
                "mount -t nfs -o '{options}' {source} (client {client}): {error}{}",
                crate::kernel_log::hint()
            ))
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(at.join(TRIAL), flags, Mode::empty())?)
    }

    /// Unmounts the export for all clients, stops the server and unmounts the exported file system.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn unmount(&mut self, folder: &Path) -> io::Result<()> {
        self.roots.clear();
        for client in 1..=self.clients {
            rustix::mount::unmount(self.mount_point_of(client), UnmountFlags::empty())?;
        }
        server::stop()?;
        let mut tries = 0;
        while let Err(error) = rustix::mount::unmount(folder, UnmountFlags::empty()) {
            tries += 1;
            if error != rustix::io::Errno::BUSY || tries > MAX_TRIES {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Syncs the mounts of all clients.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn sync(&self) -> io::Result<()> {
        self.roots.iter().try_for_each(|root| Ok(rustix::fs::syncfs(root)?))
    }

    /// Mounts the export for one more client, which has nothing in its cache, while `look` examines the trial's folder.
    ///
    /// # Errors
    /// Errors from the kernel or `look`.
    pub fn observed<T>(&self, look: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        let root = self.mount_for(self.observer())?;
        let seen = look(root.as_fd());
        drop(root);
        rustix::mount::unmount(self.mount_point_of(self.observer()), UnmountFlags::empty())?;
        seen
    }
}

/// Makes clients use the network: since Linux 6.12, a client whose server is in the same kernel otherwise reads and
/// writes the server's files directly (Documentation/filesystems/nfs/localio.rst).
fn forbid_local_io() -> io::Result<()> {
    write_if_there("/sys/module/nfs/parameters/localio_enabled", "N")
}

/// Writes to a kernel file if this kernel has it.
fn write_if_there(path: &str, text: &str) -> io::Result<()> {
    match fs::File::options().write(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io::Error::other(format!("open {path}: {error}"))),
    }
}

fn queue(network: &NetworkPlan) -> Queue {
    let NetworkPlan { bits_per_second, delay_ns, limit, .. } = network;
    Queue { bytes_per_second: bits_per_second / 8, delay: *delay_ns, limit: *limit }
}
