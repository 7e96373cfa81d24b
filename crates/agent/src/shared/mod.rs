//! Shares a file system over a modelled network: a server of the kernel and its clients in one guest, each client in
//! its own network namespace.

mod netlink;
mod network;
mod nfs;
mod smb;

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_filesystem::{mount, shared};
use fsdyno_record::plan::{FilesystemPlan, FlatLab, NFS, NetworkPlan, SMB};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use netlink::Queue;
use network::{Host, Network};

/// The maximum number of attempts to unmount the served file system: the kernel releases it shortly after the server
/// has ended.
const MAX_TRIES: u32 = 500;

/// The folder of a trial below the root of the served file system.
const TRIAL: &str = "trial";

/// A protocol by which clients share a folder of a server.
trait Protocol {
    /// Prepares the server's host, once, when the network exists.
    fn prepare(&mut self) -> io::Result<()>;

    /// Starts the server of a folder for hosts from 1 to `hosts`.
    fn start(&mut self, folder: &Path, hosts: u16) -> io::Result<()>;

    /// Stops the server, after all clients have unmounted the folder; it then holds no reference to the folder.
    fn stop(&mut self) -> io::Result<()>;

    /// Returns the source of a client's mount, and the options that come before those of the spec.
    fn client(&self, client: Host) -> ClientMount;

    /// Returns the options that the additional client has, which mounts the folder only to examine it.
    fn observer_options(&self) -> &'static str;
}

/// The arguments of a client's mount that do not come from the spec.
struct ClientMount {
    source: String,
    options: String,
}

/// The network of the server and its clients, and their mounts.
pub struct Shared {
    clients: u16,
    queue: Queue,
    protocol: Box<dyn Protocol>,
    /// The type of a client's mount.
    kind: String,
    /// The options in the spec that belong to a client's mount.
    options: Vec<String>,
    /// The folder that contains the mount point of each client.
    base: PathBuf,
    network: Option<Network>,
    roots: Vec<OwnedFd>,
}

impl Shared {
    /// Takes the clients and the network from a plan of the lab, and the protocol with its options from the plan of the
    /// file system.
    ///
    /// # Errors
    /// A plan without clients or network, or with an unknown protocol.
    pub fn of(lab: &FlatLab, filesystem: &FilesystemPlan, base: &Path) -> io::Result<Shared> {
        let (Some(clients), Some(network)) = (lab.clients, &lab.network) else {
            return Err(io::Error::other("the plan has no clients and no network"));
        };
        let clients = u16::try_from(clients).map_err(io::Error::other)?;
        let options = match filesystem.mount_options.as_str() {
            "" => Vec::new(),
            options => mount::items(options).map_err(io::Error::other)?,
        };
        let unknown = || io::Error::other(format!("unknown protocol {}", filesystem.kind));
        let table = shared::protocol(&filesystem.kind).ok_or_else(unknown)?;
        let protocol: Box<dyn Protocol> = match table.name {
            NFS => Box::new(nfs::Nfs::from_options(&options)),
            SMB => Box::new(smb::Smb::from_options(&options)),
            _ => return Err(unknown()),
        };
        let options = options.into_iter().filter(|option| !table.is_for_server(option)).collect();
        Ok(Shared {
            clients,
            queue: queue(network),
            protocol,
            kind: filesystem.mount_type.clone(),
            options,
            base: base.to_path_buf(),
            network: None,
            roots: Vec::new(),
        })
    }

    /// Returns the root of the trial's tree as each client sees it.
    pub fn roots(&self) -> Vec<BorrowedFd<'_>> {
        self.roots.iter().map(AsFd::as_fd).collect()
    }

    /// Returns the mount point of the first client.
    pub fn first_mount_point(&self) -> PathBuf {
        self.mount_point_of(1)
    }

    fn mount_point_of(&self, client: u16) -> PathBuf {
        self.base.join(format!("client{client}"))
    }

    /// Returns the number of the host that mounts the file system only to examine it.
    fn observer(&self) -> u16 {
        self.clients + 1
    }

    /// Serves a folder and mounts it for each client.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn mount(&mut self, folder: &Path) -> io::Result<()> {
        if self.network.is_none() {
            self.network = Some(Network::build(self.observer(), self.queue)?);
            self.protocol.prepare()?;
        }
        let trial = folder.join(TRIAL);
        if !trial.is_dir() {
            fs::create_dir(&trial)?;
        }
        self.protocol.start(folder, self.observer())?;
        self.roots = (1..=self.clients)
            .map(|client| self.mount_for(client, ""))
            .collect::<io::Result<_>>()?;
        Ok(())
    }

    /// Mounts the served folder for one client, with options in addition to those of all clients, and opens the trial's
    /// folder.
    fn mount_for(&self, client: u16, additional_options: &str) -> io::Result<OwnedFd> {
        let mount_point = self.mount_point_of(client);
        fs::create_dir_all(&mount_point)?;
        let (flags, data) = mount::split(&self.options.join(",")).map_err(io::Error::other)?;
        let bits = MountFlags::from_bits_retain(mount::bits(&flags) as u32);
        let ClientMount { source, mut options } = self.protocol.client(Host(client));
        // The protocol writes the version, in the form that mount(2) takes.
        let spec_options = data.split(',').chain([additional_options]);
        let spec_options =
            spec_options.filter(|option| !option.is_empty() && !option.contains("vers="));
        spec_options.for_each(|option| options.push_str(&format!(",{option}")));
        let text = CString::new(options.as_str()).map_err(io::Error::other)?;
        let network = self.network.as_ref();
        let namespace = network.and_then(|network| network.clients.get(usize::from(client) - 1));
        let namespace = namespace.ok_or_else(|| io::Error::other("a client without a network"))?;
        let kind = self.kind.as_str();
        let mounted = namespace.run(|| {
            Ok(rustix::mount::mount(
                source.as_str(),
                &mount_point,
                kind,
                bits,
                Some(text.as_c_str()),
            )?)
        });
        mounted.map_err(|error| {
            io::Error::other(format!(
                "mount -t {kind} -o '{options}' {source} (client {client}): {error}{}",
                crate::kernel_log::hint()
            ))
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(mount_point.join(TRIAL), flags, Mode::empty())?)
    }

    /// Unmounts the folder for all clients, stops the server and unmounts the served file system.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn unmount(&mut self, folder: &Path) -> io::Result<()> {
        self.roots.clear();
        for client in 1..=self.clients {
            rustix::mount::unmount(self.mount_point_of(client), UnmountFlags::empty())?;
        }
        self.protocol.stop()?;
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

    /// Mounts the folder for one more client, whose cache is empty, and calls `examine` with the trial's folder.
    ///
    /// # Errors
    /// Errors from the kernel or `examine`.
    pub fn with_observer<T>(
        &self,
        examine: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let root = self.mount_for(self.observer(), self.protocol.observer_options())?;
        let result = examine(root.as_fd());
        drop(root);
        rustix::mount::unmount(self.mount_point_of(self.observer()), UnmountFlags::empty())?;
        result
    }
}

/// Writes to a kernel file.
fn write(path: &str, text: &str) -> io::Result<()> {
    let file = fs::File::options().write(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        io::Error::new(error.kind(), format!("write '{}' to {path}: {error}", text.trim_end()))
    })
}

/// Writes to a kernel file if this kernel has it.
fn write_if_exists(path: &str, text: &str) -> io::Result<()> {
    match write(path, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn queue(network: &NetworkPlan) -> Queue {
    let NetworkPlan { bits_per_second, delay_ns, limit, .. } = network;
    Queue { bytes_per_second: bits_per_second / 8, delay: *delay_ns, limit: *limit }
}
