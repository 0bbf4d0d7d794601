//! Are the addresses free, or are they ours already?

use super::report::Report;
use crate::client::{answer, http_client, unchecked_client};
use codeq_server::config::{Config, ListenAddress};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a codeQ server answers where this one would.
pub async fn is_served(config: &Config) -> bool {
    let listen = &config.listen;
    let host = match listen.host.as_deref() {
        None | Some("0.0.0.0" | "::") => "127.0.0.1".to_owned(),
        Some(host) if host.contains(':') => format!("[{host}]"),
        Some(host) => host.to_owned(),
    };
    let address = format!("{host}:{}/livez", listen.port);
    // The certificate is not made for this address, and nothing is sent that must stay secret.
    let (url, client) = match config.tls {
        Some(_) => (format!("https://{address}"), unchecked_client()),
        None => (format!("http://{address}"), http_client(&format!("http://{address}"))),
    };
    let Ok(client) = client else { return false };
    let answer = answer(client.get(&url).timeout(TIMEOUT)).await;
    answer.is_ok_and(|(status, body)| status == 200 && body == r#"{"status":"ok"}"#)
}

pub fn check(report: &mut Report, config: &Config, is_served: bool) {
    let addresses = [
        ("port", Some(&config.listen)),
        ("metrics port", config.metrics.as_ref()),
        ("worker port", config.streams.worker.as_ref()),
        ("prod. port", config.streams.producer.as_ref()),
    ];
    for (name, address) in addresses {
        if let Some(address) = address {
            one(report, name, address, is_served);
        }
    }
}

fn one(report: &mut Report, name: &'static str, address: &ListenAddress, is_served: bool) {
    let host = address.host.as_deref().unwrap_or("0.0.0.0");
    match TcpListener::bind((host, address.port)) {
        Ok(_) => report.ok(name, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_served => {
            report.ok(name, format!("{address} is in use; a codeQ server is running"));
        }
        Err(error) => {
            let next = match error.kind() {
                ErrorKind::AddrInUse => "stop what listens there (see `ss -ltnp`), or choose another port",
                ErrorKind::PermissionDenied => "choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
                _ => "choose an address of this machine",
            };
            report.error(name, format!("cannot listen on {address}: {error}"), next);
        }
    }
}
