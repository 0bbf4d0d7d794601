//! Addresses of webhooks: whatever an address looks like, one that leads inside is recognised.
//!
//! An input is taken as a URL as it is, and as numbers that choose an inner address and a way to write it.
//! Demanded: what was judged is what the connector dials, and no inner address passes in any spelling.

use axum::http::Uri;
use codeq_server::{Aim, aim};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Url;

/// Networks that nobody is sent to, as the documentation of the registries has them.
const INSIDE_V4: [(&str, u32); 11] = [
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.0.0.0", 24),
    ("192.168.0.0", 16),
    ("224.0.0.0", 4),
    ("240.0.0.0", 4),
    ("255.255.255.255", 32),
];
const INSIDE_V6: [(&str, u32); 8] = [
    ("::", 128),
    ("::1", 128),
    ("64:ff9b:1::", 48),
    ("2001::", 32),
    ("fc00::", 7),
    ("fe80::", 10),
    ("fec0::", 10),
    ("ff00::", 8),
];
/// Where an IPv4 address is carried: the network, and the bit at which it ends.
const CARRIERS: [(&str, u32, u32); 5] = [
    ("::", 96, 128),
    ("::ffff:0:0", 96, 128),
    ("::ffff:0:0:0", 96, 128),
    ("64:ff9b::", 96, 128),
    ("2002::", 16, 48),
];

pub fn read(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    judge(&text);
    // As what they are called without a scheme, too.
    judge(&format!("http://{text}/"));
    let mut numbers = Numbers(input);
    let address = inner(&mut numbers);
    let url = format!("{}{}{}", prefix(&mut numbers), spelled(address, &mut numbers), suffix(&mut numbers));
    if let Ok(parsed) = Url::parse(&url) {
        assert!(aim(&parsed).is_refused(), "{url} leads to {address}");
        judge(&url);
    }
}

pub fn corpus() -> Vec<Vec<u8>> {
    let urls = [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::ffff:10.0.0.1]:8080/x",
        "http://[fe80::1]/",
        "https://user@example.org:8443/done?x=1#y",
        "http://example.org@127.0.0.1/",
        "http://127.0.0.1.nip.io./",
        "http://[::127.0.0.1]/",
        "http://0177.0.0.01/",
        "http://[64:ff9b::169.254.169.254]/",
        "HTTP:\\\\127.1\\x",
    ];
    urls.iter().map(|url| url.as_bytes().to_vec()).collect()
}

/// The judgement on a URL against what is dialled, and against the tables above.
fn judge(text: &str) {
    let Ok(url) = Url::parse(text) else { return };
    if !matches!(url.scheme(), "http" | "https") {
        return;
    }
    let judged = aim(&url);
    if let Some(dialled) = dialled(&url) {
        assert_eq!(judged, Aim::Address(dialled), "{text}");
    }
    if let Aim::Address(address) = judged {
        assert_eq!(judged.is_refused(), is_inside(address), "{text} leads to {address}");
    }
}

/// The address that a connector sees in a URL without asking a resolver: it reads the URL anew.
fn dialled(url: &Url) -> Option<IpAddr> {
    let uri = Uri::try_from(url.as_str()).ok()?;
    let host = uri.host()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let within = |(net, bits): &(&str, u32)| {
                let net: Ipv4Addr = net.parse().expect("the table holds addresses");
                (address.to_bits() ^ net.to_bits()).leading_zeros() >= *bits
            };
            INSIDE_V4.iter().any(within)
        }
        IpAddr::V6(address) => {
            let within = |net: &str, bits: u32| {
                let net: Ipv6Addr = net.parse().expect("the table holds addresses");
                (address.to_bits() ^ net.to_bits()).leading_zeros() >= bits
            };
            let carried = |end: u32| Ipv4Addr::from_bits((address.to_bits() >> (128 - end)) as u32);
            let carries =
                |(net, bits, end): &(&str, u32, u32)| within(net, *bits) && is_inside(carried(*end).into());
            INSIDE_V6.iter().any(|(net, bits)| within(net, *bits)) || CARRIERS.iter().any(carries)
        }
    }
}

/// The bytes of an input, one after the other, then zeros.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.next()) % all.len()]
    }
}

/// Some address of some inner network.
fn inner(numbers: &mut Numbers<'_>) -> Ipv4Addr {
    let (net, bits) = numbers.pick(&INSIDE_V4);
    let net: Ipv4Addr = net.parse().expect("the table holds addresses");
    let any = u32::from_be_bytes([numbers.next(), numbers.next(), numbers.next(), numbers.next()]);
    let host = if bits == 32 { 0 } else { u32::MAX >> bits };
    Ipv4Addr::from_bits(net.to_bits() | any & host)
}

fn prefix(numbers: &mut Numbers<'_>) -> &'static str {
    numbers.pick(&[
        "http://",
        "https://",
        "HTTP:\\\\",
        "http:////",
        " http://",
        "ht\ttp://",
        "http://example.org@",
        "http://user:1.1.1.1@",
        "https:",
    ])
}

fn suffix(numbers: &mut Numbers<'_>) -> &'static str {
    numbers.pick(&["", "/", ":8080/", ":0", "?@example.org", "#@example.org", "\\@example.org", "/..", "\n"])
}

/// One of the ways to write an address.
fn spelled(address: Ipv4Addr, numbers: &mut Numbers<'_>) -> String {
    let (bits, [a, b, c, d]) = (address.to_bits(), address.octets());
    let (high, low) = (bits >> 16, bits & 0xffff);
    let part = |number: u32, how: u8| match how % 4 {
        0 => number.to_string(),
        1 => format!("0x{number:x}"),
        2 => format!("0{number:o}"),
        _ => format!("0X{number:08X}"),
    };
    let how = numbers.next();
    let dot = numbers.pick(&[".", ".", "%2e", "\u{3002}", "\u{ff0e}"]);
    let plain = match how % 12 {
        0 => part(bits, how >> 4),
        1 => [part(a.into(), how >> 4), part(bits & 0xff_ffff, how >> 6)].join(dot),
        2 => [part(a.into(), 1), part(b.into(), how >> 4), part(low, how >> 6)].join(dot),
        3 => [a, b, c, d].map(|octet| part(octet.into(), how >> 4)).join(dot),
        4 => format!("[::ffff:{address}]"),
        5 => format!("[::ffff:{high:x}:{low:X}]"),
        6 => format!("[0:0:0:0:0:FFFF:{high:04x}:{low:04x}]"),
        7 => format!("[64:ff9b::{address}]"),
        8 => format!("[2002:{high:x}:{low:x}::1]"),
        9 => format!("[::ffff:0:{address}]"),
        10 => [a, b, c, d].map(wide).join(dot),
        _ => [a, b, c, d].map(|octet| octet.to_string()).join(dot),
    };
    let tail = if plain.starts_with('[') { "" } else { numbers.pick(&["", "", "."]) };
    plain + tail
}

/// In digits of full width.
fn wide(octet: u8) -> String {
    let digit = |digit: char| char::from_u32(0xff10 + u32::from(digit) - 48).unwrap_or(digit);
    octet.to_string().chars().map(digit).collect()
}
