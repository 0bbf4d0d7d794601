//! Whom a request is for.
//!
//! `codeq dev` tells its token to everyone who can reach it, which is meant to be this machine. A page of
//! another site can point its own name at 127.0.0.1 and let a browser ask us in that name; so names other than
//! our own are refused.

use super::error::Error;
use axum::extract::Request;
use axum::http::header::HOST;

/// Names of this machine that nobody else can give themselves.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Refuses what is meant for another host. A request that names none, or names it elsewhere than in the header,
/// is not from a browser.
pub fn check(request: &Request) -> Result<(), Error> {
    match request.headers().get_all(HOST).iter().all(|host| is_own(host.as_bytes())) {
        true => Ok(()),
        false => Err(Error::host_not_allowed()),
    }
}

fn is_own(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    OWN_NAMES.iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_with_any_port_and_nothing_else() {
        for own in ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8080"] {
            assert!(is_own(own.as_bytes()), "{own}");
        }
        let others = ["evil.example", "localhost.evil.example", "127.0.0.1.evil", "::1", "0.0.0.0:80", ""];
        for other in others.into_iter().chain(["user@localhost", "localhost:x", "127.0.0.1:80:80", "[::1"]) {
            assert!(!is_own(other.as_bytes()), "{other}");
        }
    }
}
