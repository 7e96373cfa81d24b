//! The modelled network: a switch with one link to the server and one to each client; each link has a netem queue at
//! either end.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use super::netlink::{End, HardwareAddress, Netlink, Queue};

/// The length of the network's prefix in bits.
const PREFIX_LENGTH: u8 = 16;

/// The name of the host's end of a link.
pub const HOST_END: &str = "net0";

/// The name of the switch.
const BRIDGE: &str = "switch";

/// A host: the server is number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(pub u16);

impl Host {
    /// The server.
    pub const SERVER: Host = Host(0);

    /// Returns its address in the modelled network.
    pub fn address(self) -> Ipv4Addr {
        let [high, low] = (self.0 + 1).to_be_bytes();
        Ipv4Addr::new(10, 0, high, low)
    }

    /// Returns the hardware address of the host's end of the link, locally administered.
    fn hardware_address(self) -> HardwareAddress {
        let [high, low] = self.0.to_be_bytes();
        [2, 0, 0, 0, high, low]
    }

    fn name(self) -> String {
        match self {
            Host::SERVER => "server".into(),
            Host(number) => format!("client{number}"),
        }
    }
}

/// The two namespaces of a host: its network and its host name.
pub struct HostNamespaces {
    network: File,
    name: File,
}

impl HostNamespaces {
    /// Returns the namespaces of this thread.
    pub fn current() -> io::Result<HostNamespaces> {
        let open = |what: &str| File::open(format!("/proc/thread-self/ns/{what}"));
        Ok(HostNamespaces { network: open("net")?, name: open("uts")? })
    }

    /// Creates new namespaces. The kernel's NFS client identifies itself to the server by the host name.
    fn new(name: &str) -> io::Result<HostNamespaces> {
        let own = HostNamespaces::current()?;
        // SAFETY: takes only a number.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWUTS) })?;
        let namespaces = set_host_name(name).and_then(|()| HostNamespaces::current());
        own.enter()?;
        namespaces
    }

    fn enter(&self) -> io::Result<()> {
        for (file, kind) in [(&self.network, libc::CLONE_NEWNET), (&self.name, libc::CLONE_NEWUTS)]
        {
            // SAFETY: takes a descriptor of ours and a number.
            check(unsafe { libc::setns(file.as_raw_fd(), kind) })?;
        }
        Ok(())
    }

    /// Runs `work` in these namespaces.
    pub fn run<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let own = HostNamespaces::current()?;
        self.enter()?;
        let result = work();
        own.enter()?;
        result
    }
}

/// The hosts of a network; the server is in the namespaces of this process.
pub struct Network {
    /// The clients, starting with host 1.
    pub clients: Vec<HostNamespaces>,
    /// Keeps the switch alive.
    _switch: HostNamespaces,
}

impl Network {
    /// Builds a network of a server and `clients` clients.
    pub fn build(clients: u16, queue: Queue) -> io::Result<Network> {
        let server = HostNamespaces::current()?;
        set_host_name(&Host::SERVER.name())?;
        let switch = HostNamespaces::new(BRIDGE)?;
        let hosts: Vec<Host> = (0..=clients).map(Host).collect();
        switch.run(|| {
            disable_ipv6()?;
            let mut netlink = Netlink::open()?;
            netlink.add_bridge(End { name: BRIDGE, address: [2, 0, 0, 2, 0, 0] })?;
            netlink.bring_up(BRIDGE)
        })?;
        let mut namespaces = Vec::new();
        for host in &hosts {
            let namespace = match *host {
                Host::SERVER => None,
                Host(_) => Some(HostNamespaces::new(&host.name())?),
            };
            namespace.as_ref().unwrap_or(&server).run(|| {
                disable_ipv6()?;
                Netlink::open()?.bring_up("lo")
            })?;
            connect(*host, namespace.as_ref().unwrap_or(&server), &switch, queue)?;
            namespaces.extend(namespace);
        }
        for host in &hosts {
            let namespace = match host.0.checked_sub(1) {
                None => &server,
                Some(client) => &namespaces[usize::from(client)],
            };
            namespace.run(|| add_neighbours(*host, &hosts))?;
        }
        Ok(Network { clients: namespaces, _switch: switch })
    }
}

/// Connects a host to the switch.
fn connect(
    host: Host,
    namespace: &HostNamespaces,
    switch: &HostNamespaces,
    queue: Queue,
) -> io::Result<()> {
    let port = format!("port{}", host.0);
    let [high, low] = host.0.to_be_bytes();
    switch.run(|| {
        let mut netlink = Netlink::open()?;
        let switch_end = End { name: &port, address: [2, 0, 0, 1, high, low] };
        let host_end = End { name: HOST_END, address: host.hardware_address() };
        netlink.add_pair(switch_end, host_end, namespace.network.as_fd())?;
        netlink.join(&port, BRIDGE)?;
        netlink.set_queue(&port, queue)?;
        netlink.bring_up(&port)
    })?;
    namespace.run(|| {
        let mut netlink = Netlink::open()?;
        netlink.set_queue(HOST_END, queue)?;
        netlink.add_address(HOST_END, host.address(), PREFIX_LENGTH)?;
        netlink.bring_up(HOST_END)
    })
}

/// Sets the hardware addresses of neighbours: the server's on a client, all clients' on the server.
fn add_neighbours(host: Host, hosts: &[Host]) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    for other in hosts.iter().filter(|other| **other != host) {
        if host == Host::SERVER || *other == Host::SERVER {
            netlink.add_neighbour(HOST_END, other.address(), other.hardware_address())?;
        }
    }
    Ok(())
}

/// Prevents the kernel's own traffic: IPv6 solicits routers and reports its addresses.
fn disable_ipv6() -> io::Result<()> {
    for which in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        super::write_if_exists(&path, "1")?;
    }
    Ok(())
}

fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: takes a string and its length.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
