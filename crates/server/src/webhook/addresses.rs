//! Which addresses are not ours to call: this machine, the networks behind it, and no one in particular.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address leads inside. Forms of IPv6 that carry an IPv4 address are judged by what they carry.
pub fn is_refused(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_refused_v4(address),
        IpAddr::V6(address) => is_refused_v6(address),
    }
}

fn is_refused_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_this_network = a == 0;
    let is_shared = a == 100 && b & 0xc0 == 64;
    let is_protocol = (a, b, c) == (192, 0, 0);
    let is_reserved = a >= 240;
    is_this_network
        || is_shared
        || is_protocol
        || is_reserved
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
}

fn is_refused_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let is_unique_local = a & 0xfe00 == 0xfc00;
    // Link-local, and the site-local addresses that came before the unique local ones.
    let is_local = a & 0xff80 == 0xfe80;
    // What a tunnel (Teredo) or a translator of this site (64:ff9b:1::/48) hides is not looked into.
    let is_tunnel = (a, b) == (0x2001, 0) || address.segments()[..3] == [0x64, 0xff9b, 1];
    is_unique_local
        || is_local
        || is_tunnel
        || address.is_multicast()
        || address.is_unspecified()
        || address.is_loopback()
        || carried(address).is_some_and(is_refused_v4)
}

/// The IPv4 address inside: compatible, mapped, translated (SIIT), NAT64 and 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let (high, low) = match segments {
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_inside_are_refused() {
        for inside in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.170",
            "192.168.1.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:100.64.0.1",
            "::ffff:0:192.168.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "2001::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(is_refused(inside.parse().unwrap()), "{inside}");
        }
    }

    #[test]
    fn public_addresses_are_not() {
        for outside in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:4860:4860::8888",
        ] {
            assert!(!is_refused(outside.parse().unwrap()), "{outside}");
        }
    }
}
