//! Sends requests to the kernel through netlink(7), and configures links, addresses and queues of a network namespace
//! through rtnetlink(7).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use fsdyno_record::Nanos;

/// Constants from linux/if_link.h, linux/if_addr.h, linux/neighbour.h, linux/veth.h and linux/pkt_sched.h.
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TC_H_ROOT: u32 = u32::MAX;
const NLMSG_ERROR: u16 = 2;
const NESTED: u16 = 1 << 15;

/// The length of a message's header.
const HEADER: usize = 16;

/// The maximum size of an answer: an acknowledgement repeats the request.
const MAX_ANSWER: usize = 4096;

/// The hardware address of an interface.
pub type HardwareAddress = [u8; 6];

/// One end of a link.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Its name in its namespace.
    pub name: &'a str,
    /// Its hardware address.
    pub address: HardwareAddress,
}

/// A netem queue: packets leave it at a fixed rate and arrive after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Bytes per second.
    pub bytes_per_second: u64,
    /// The delay after a packet has left.
    pub delay: Nanos,
    /// The maximum number of packets that wait or are in transit; further ones are dropped.
    pub limit: u32,
}

/// A socket for requests to the kernel, for the network namespace in which it was opened.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket for rtnetlink in the namespace of the caller.
    pub fn open() -> io::Result<Netlink> {
        Netlink::open_for(libc::NETLINK_ROUTE)
    }

    /// Opens a socket for a protocol in the namespace of the caller.
    pub fn open_for(protocol: i32) -> io::Result<Netlink> {
        // SAFETY: takes only numbers.
        let socket = unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol)
        };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, without any other owner.
        Ok(Netlink { socket: unsafe { OwnedFd::from_raw_fd(socket) }, sequence: 0 })
    }

    /// Adds a pair of connected interfaces: one in this namespace, the other in `peer_namespace`.
    pub fn add_pair(
        &mut self,
        own_end: End<'_>,
        peer: End<'_>,
        peer_namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut body = Body::of_link(0, 0, 0);
        body.end_of_link(own_end);
        body.nest(IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "veth");
            info.nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |link| {
                    link.0.extend(Body::of_link(0, 0, 0).0);
                    link.end_of_link(peer);
                    link.word(IFLA_NET_NS_FD, peer_namespace.as_raw_fd() as u32);
                });
            });
        });
        self.create(libc::RTM_NEWLINK, body)
    }

    /// Adds a bridge.
    pub fn add_bridge(&mut self, end: End<'_>) -> io::Result<()> {
        let mut body = Body::of_link(0, 0, 0);
        body.end_of_link(end);
        body.nest(IFLA_LINKINFO, |info| info.text(IFLA_INFO_KIND, "bridge"));
        self.create(libc::RTM_NEWLINK, body)
    }

    /// Adds an interface to a bridge as a port.
    pub fn join(&mut self, name: &str, bridge: &str) -> io::Result<()> {
        let mut body = Body::of_link(index(name)?, 0, 0);
        body.word(IFLA_MASTER, index(bridge)? as u32);
        self.request(libc::RTM_NEWLINK, 0, body)
    }

    /// Activates an interface.
    pub fn bring_up(&mut self, name: &str) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        self.request(libc::RTM_NEWLINK, 0, Body::of_link(index(name)?, up, up))
    }

    /// Assigns an interface an address in a network with a prefix of `bits` bits.
    pub fn add_address(&mut self, name: &str, address: Ipv4Addr, bits: u8) -> io::Result<()> {
        let mut body = Body::default();
        body.0.extend([libc::AF_INET as u8, bits, 0, 0]);
        body.0.extend((index(name)? as u32).to_ne_bytes());
        body.attribute(IFA_LOCAL, &address.octets());
        body.attribute(IFA_ADDRESS, &address.octets());
        self.create(libc::RTM_NEWADDR, body)
    }

    /// Sets the hardware address of a neighbour, so that no ARP request for it is sent.
    pub fn add_neighbour(
        &mut self,
        name: &str,
        address: Ipv4Addr,
        hardware: HardwareAddress,
    ) -> io::Result<()> {
        let mut body = Body::default();
        body.0.extend([libc::AF_INET as u8, 0, 0, 0]);
        body.0.extend((index(name)? as u32).to_ne_bytes());
        body.0.extend(NUD_PERMANENT.to_ne_bytes());
        body.0.extend([0, 0]);
        body.attribute(NDA_DST, &address.octets());
        body.attribute(NDA_LLADDR, &hardware);
        self.create(libc::RTM_NEWNEIGH, body)
    }

    /// Sets the queue of an interface.
    pub fn set_queue(&mut self, name: &str, queue: Queue) -> io::Result<()> {
        let mut body = Body::default();
        body.0.extend([0; 4]);
        for word in [index(name)? as u32, 1 << 16, TC_H_ROOT, 0] {
            body.0.extend(word.to_ne_bytes());
        }
        body.text(TCA_KIND, "netem");
        let Queue { bytes_per_second, delay, limit } = queue;
        let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
        body.attribute_of(TCA_OPTIONS, |options| {
            // struct tc_netem_qopt: latency (below, in nanoseconds), limit, loss, gap, duplicate, jitter.
            for word in [0, limit, 0, 0, 0, 0] {
                options.0.extend(u32::to_ne_bytes(word));
            }
            options.attribute(TCA_NETEM_LATENCY64, &delay.0.to_ne_bytes());
            // struct tc_netem_rate: rate, and the overhead per packet and cell.
            let rates: Vec<u8> =
                [rate, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
            options.attribute(TCA_NETEM_RATE, &rates);
            if rate == u32::MAX {
                options.attribute(TCA_NETEM_RATE64, &bytes_per_second.to_ne_bytes());
            }
        });
        self.create(libc::RTM_NEWQDISC, body)
    }

    fn create(&mut self, kind: u16, body: Body) -> io::Result<()> {
        self.request(kind, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16, body)
    }

    /// Sends a request and waits for its acknowledgement.
    pub fn request(&mut self, kind: u16, flags: u16, body: Body) -> io::Result<()> {
        self.send(kind, flags | libc::NLM_F_ACK as u16, body)?;
        match self.receive(&mut [0; MAX_ANSWER])? {
            Some(_) => Err(io::Error::other("unexpected reply from the kernel")),
            None => Ok(()),
        }
    }

    /// Sends a request.
    pub fn send(&mut self, kind: u16, flags: u16, body: Body) -> io::Result<()> {
        self.sequence += 1;
        let flags = flags | libc::NLM_F_REQUEST as u16;
        let mut message = (HEADER as u32 + body.0.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body.0);
        // SAFETY: takes memory of ours and its length.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits for a message and returns what follows its header; `None` for an acknowledgement.
    ///
    /// # Errors
    /// Errors from the kernel, and the error that the kernel reports for a request.
    pub fn receive<'a>(&self, memory: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        // SAFETY: takes memory of ours and its length.
        let length = unsafe {
            libc::recv(self.socket.as_raw_fd(), memory.as_mut_ptr().cast(), memory.len(), 0)
        };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        let word = |at: usize| {
            let bytes = memory.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_ne_bytes(bytes.unwrap_or_default())
        };
        if length < HEADER + 4 {
            return Err(io::Error::other("a message from the kernel is too short"));
        }
        match (word(4) as u16, word(HEADER) as i32) {
            (NLMSG_ERROR, 0) => Ok(None),
            (NLMSG_ERROR, error) => Err(io::Error::from_raw_os_error(-error)),
            _ => Ok(Some(&memory[HEADER..length])),
        }
    }
}

/// Returns the index of an interface in the caller's namespace.
fn index(name: &str) -> io::Result<i32> {
    let text = std::ffi::CString::new(name).map_err(io::Error::other)?;
    // SAFETY: takes a NUL-terminated string.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(io::Error::other(format!("there is no interface {name}"))),
        index => Ok(index as i32),
    }
}

/// The part of a request after its header: a fixed part and attributes.
#[derive(Default)]
pub struct Body(pub Vec<u8>);

impl Body {
    /// Creates a body that starts with a struct ifinfomsg.
    fn of_link(index: i32, flags: u32, changed: u32) -> Body {
        let mut body = Body(vec![0; 4]);
        body.0.extend(index.to_ne_bytes());
        body.0.extend(flags.to_ne_bytes());
        body.0.extend(changed.to_ne_bytes());
        body
    }

    fn end_of_link(&mut self, end: End<'_>) {
        self.text(IFLA_IFNAME, end.name);
        self.attribute(IFLA_ADDRESS, &end.address);
    }

    /// Adds an attribute with a NUL-terminated text.
    pub fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat());
    }

    fn word(&mut self, kind: u16, word: u32) {
        self.attribute(kind, &word.to_ne_bytes());
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.attribute_of(kind, |body| body.0.extend(value));
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Body)) {
        self.attribute_of(kind | NESTED, fill);
    }

    fn attribute_of(&mut self, kind: u16, fill: impl FnOnce(&mut Body)) {
        let mut inner = Body::default();
        fill(&mut inner);
        self.0.extend((4 + inner.0.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(inner.0);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}
