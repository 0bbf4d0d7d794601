//! Addresses to listen on.

use std::fmt;
use std::net::IpAddr;

/// Where to listen. Without a host: on all interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenAddress {
    /// An IP address (IPv6 without brackets) or a host name.
    pub host: Option<String>,
    /// 0 lets the system pick.
    pub port: u16,
}

impl ListenAddress {
    /// Reads `host:port`, `[ipv6]:port` or `:port`.
    pub fn parse(text: &str) -> Option<ListenAddress> {
        let (host, port) = text.trim().rsplit_once(':')?;
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let bracketed = host.starts_with('[');
        if host.contains(':') && !bracketed {
            return None;
        }
        Some(ListenAddress { host: parse_host(host)?, port: port.parse().ok()? })
    }
}

/// Reads an IP address, with or without brackets, or a host name. Empty means all interfaces.
pub(super) fn parse_host(text: &str) -> Option<Option<String>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(None);
    }
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inside.parse::<std::net::Ipv6Addr>().ok().map(|ip| Some(ip.to_string()));
    }
    match text.parse::<IpAddr>() {
        Ok(ip) => Some(Some(ip.to_string())),
        Err(_) => is_host_name(text).then(|| Some(text.to_string())),
    }
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // Only digits and dots is an address that was mistyped, such as 127.0.0.256.
    text.len() <= 253
        && text.split('.').all(is_label)
        && text.bytes().any(|byte| !byte.is_ascii_digit() && byte != b'.')
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, ":{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_form() {
        for (text, shown) in [
            (":9091", Some(":9091")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            (" localhost:80 ", Some("localhost:80")),
            ("[::1]:90", Some("[::1]:90")),
            ("0.0.0.0:65535", Some("0.0.0.0:65535")),
            ("queue-1.example.com:1", Some("queue-1.example.com:1")),
            ("9091", None),
            ("host:", None),
            ("host:65536", None),
            ("host:+1", None),
            ("::1:90", None),
            ("[::1]", None),
            ("a b:1", None),
            ("127.0.0.256:1", None),
            ("http://host:1", None),
        ] {
            let parsed = ListenAddress::parse(text).map(|address| address.to_string());
            assert_eq!(parsed.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn hosts_in_every_form() {
        for (text, host) in [
            ("", Some(None)),
            ("0.0.0.0", Some(Some("0.0.0.0"))),
            ("[::]", Some(Some("::"))),
            ("::1", Some(Some("::1"))),
            ("localhost", Some(Some("localhost"))),
            ("127.0.0.1:8080", None),
            ("-x", None),
            ("1.2.3", None),
        ] {
            let expected = host.map(|host| host.map(str::to_string));
            assert_eq!(parse_host(text), expected, "{text}");
        }
    }
}
