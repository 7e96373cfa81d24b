//! The addresses of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the addresses at which other hosts may reach this one, IPv4 first, excluding loopback and link-local ones.
pub fn of_host() -> Vec<IpAddr> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is valid for writes; on success it is a list, which freeifaddrs(3) frees below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is intact until freeifaddrs(3); each entry points to the next or is the last.
        let entry = unsafe { &*next };
        found.extend(usable_address(entry.ifa_addr));
        next = entry.ifa_next;
    }
    // SAFETY: this is the list from above; no reference to it is left.
    unsafe { libc::freeifaddrs(first) };
    found.sort_by_key(|address| address.is_ipv6());
    found.dedup();
    found
}

fn usable_address(from: *const libc::sockaddr) -> Option<IpAddr> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and every address begins with its family.
    let address = match i32::from(unsafe { (*from).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family indicates that it is a sockaddr_in.
            let number = unsafe { (*from.cast::<libc::sockaddr_in>()).sin_addr.s_addr };
            IpAddr::V4(Ipv4Addr::from(u32::from_be(number)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family indicates that it is a sockaddr_in6.
            let bytes = unsafe { (*from.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr };
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => (address.segments()[0] & 0xffc0) == 0xfe80,
    };
    (!address.is_loopback() && !is_link_local).then_some(address)
}
