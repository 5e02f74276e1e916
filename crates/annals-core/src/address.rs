//! Which internet addresses and host names are public.
//!
//! IPv4 is public unless a registry entry says otherwise; IPv6 is private unless it is global unicast. Addresses
//! that carry another one inside are judged by what they carry, or refused when a router elsewhere would unpack
//! them. Pure functions: nothing is resolved here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of IPv4: first address, prefix length, what it is for.
type Range4 = (Ipv4Addr, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// IANA's special-purpose registry, multicast, and what clouds answer on.
const NOT_PUBLIC_V4: &[Range4] = &[
    (v4(0, 0, 0, 0), 8, "this host"),
    (v4(10, 0, 0, 0), 8, "private network"),
    (v4(100, 64, 0, 0), 10, "carrier network"),
    (v4(127, 0, 0, 0), 8, "loopback"),
    (v4(168, 63, 129, 16), 32, "cloud metadata"),
    (v4(169, 254, 0, 0), 16, "link-local, cloud metadata"),
    (v4(172, 16, 0, 0), 12, "private network"),
    (v4(192, 0, 0, 0), 24, "protocol assignments"),
    (v4(192, 0, 2, 0), 24, "documentation"),
    (v4(192, 88, 99, 0), 24, "6to4 relay"),
    (v4(192, 168, 0, 0), 16, "private network"),
    (v4(198, 18, 0, 0), 15, "benchmarking"),
    (v4(198, 51, 100, 0), 24, "documentation"),
    (v4(203, 0, 113, 0), 24, "documentation"),
    (v4(224, 0, 0, 0), 4, "multicast"),
    (v4(240, 0, 0, 0), 4, "reserved"),
];

/// A range of IPv6: the leading 64 bits, prefix length, what it is for.
type Range6 = (u64, u32, &'static str);

/// What is not public within global unicast (`2000::/3`).
const NOT_PUBLIC_V6: &[Range6] = &[
    (0x2001_0000_0000_0000, 32, "Teredo tunnel"),
    (0x2001_0000_0000_0000, 23, "protocol assignments"),
    (0x2001_0db8_0000_0000, 32, "documentation"),
    (0x2002_0000_0000_0000, 16, "6to4 tunnel"),
    (0x3fff_0000_0000_0000, 20, "documentation"),
];

/// Names that mean this machine or this network wherever they are asked.
const NOT_PUBLIC_NAMES: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home.arpa",
    "localdomain",
];

/// Whether an address is on the public internet; else what it is instead.
pub fn public(address: IpAddr) -> Result<(), &'static str> {
    match address {
        IpAddr::V4(address) => public_v4(address),
        IpAddr::V6(address) => public_v6(address),
    }
}

fn public_v4(address: Ipv4Addr) -> Result<(), &'static str> {
    let bits = address.to_bits();
    let within = |range: &&Range4| (bits ^ range.0.to_bits()) >> (32 - range.1) == 0;
    NOT_PUBLIC_V4
        .iter()
        .find(within)
        .map_or(Ok(()), |range| Err(range.2))
}

fn public_v6(address: Ipv6Addr) -> Result<(), &'static str> {
    let segments = address.segments();
    match segments {
        // IPv4-mapped: the kernel connects to the IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, ..] => return public_v4(embedded(address)),
        // NAT64 by its well-known prefix: how networks without IPv4 reach the rest of the web.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => return public_v4(embedded(address)),
        [0, 0, 0, 0, 0, 0, 0, 0] => return Err("this host"),
        [0, 0, 0, 0, 0, 0, 0, 1] => return Err("loopback"),
        _ => {}
    }
    match segments[0] {
        0xfe80..=0xfebf => return Err("link-local"),
        0xfec0..=0xfeff => return Err("site-local"),
        0xfc00..=0xfdff => return Err("private network"),
        0xff00..=0xffff => return Err("multicast"),
        0x2000..=0x3fff => {}
        _ => return Err("not global unicast"),
    }
    let bits = (address.to_bits() >> 64) as u64;
    let within = |range: &&Range6| (bits ^ range.0) >> (64 - range.1) == 0;
    NOT_PUBLIC_V6
        .iter()
        .find(within)
        .map_or(Ok(()), |range| Err(range.2))
}

/// The IPv4 address in the last 32 bits.
fn embedded(address: Ipv6Addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() as u32)
}

/// Whether a name may be asked for at all. What it resolves to is judged again.
pub fn public_name(name: &str) -> Result<(), &'static str> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_below = |parent: &str| {
        name.strip_suffix(parent)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if NOT_PUBLIC_NAMES.iter().any(|parent| is_below(parent)) {
        return Err("a name of this machine or network");
    }
    // Search domains would complete it to a name of the local network.
    if name.contains('.') {
        Ok(())
    } else {
        Err("a name without a domain")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_private_range_ends_where_it_should() {
        let edges = [
            ("9.255.255.255", true),
            ("10.0.0.0", false),
            ("10.255.255.255", false),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("100.64.0.0", false),
            ("100.127.255.255", false),
            ("100.128.0.0", true),
            ("126.255.255.255", true),
            ("127.255.255.255", false),
            ("168.63.129.15", true),
            ("168.63.129.16", false),
            ("169.253.255.255", true),
            ("169.254.169.254", false),
            ("172.15.255.255", true),
            ("172.31.255.255", false),
            ("172.32.0.0", true),
            ("192.0.1.0", true),
            ("198.17.255.255", true),
            ("198.19.255.255", false),
            ("198.20.0.0", true),
            ("223.255.255.255", true),
            ("239.255.255.255", false),
            ("255.255.255.255", false),
            ("1fff::1", false),
            ("2001:1ff::1", false),
            ("2001:200::1", true),
            ("2001:db8::1", false),
            ("2001:db9::1", true),
            ("2606:4700::1111", true),
            ("2002::1", false),
            ("2003::1", true),
            ("3fff:fff::1", false),
            ("4000::1", false),
            ("::ffff:8.8.8.8", true),
            ("::ffff:10.0.0.1", false),
            ("64:ff9b::8.8.8.8", true),
            ("64:ff9b::169.254.169.254", false),
            ("64:ff9b:1::8.8.8.8", false),
            ("::8.8.8.8", false),
        ];
        for (text, expected) in edges {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(public(address).is_ok(), expected, "{text}: {:?}", public(address));
        }
    }

    #[test]
    fn names_of_the_local_network_are_known_by_their_ending() {
        for name in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "router",
        ] {
            assert!(public_name(name).is_err(), "{name}");
        }
        for name in [
            "example.com",
            "local.example",
            "localhost.example.com",
            "mylocal.org",
        ] {
            assert!(public_name(name).is_ok(), "{name}");
        }
    }
}
