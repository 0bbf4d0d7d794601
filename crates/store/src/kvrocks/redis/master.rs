//! Finding the master: a fixed address, the holder of a slot of a cluster, or whom the Sentinels name.

use crate::kvrocks::redis::connection::{Command, Reply, Target, ask_once, listen};
use crate::kvrocks::redis::gate::Gate;
use crate::kvrocks::redis::reply::string;
use crate::kvrocks::store::options::{Backend, Sentinel};
use futures_util::future::join_all;
use std::sync::Weak;
use std::time::Duration;

/// What Sentinels call a switch.
const SWITCHED: &str = "+switch-master";
/// Before a broken subscription is tried again, and between two looks whether anybody still wants to know.
const PAUSE: Duration = Duration::from_secs(1);

/// Follows what the Sentinels tell of switches, as long as somebody else holds the gate.
pub async fn follow_switches(gate: Weak<Gate>, target: Target) {
    let Some(sentinel) = target.backend.sentinel.clone() else { return };
    let is_over = async {
        while gate.strong_count() > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let heard = sentinel.addresses.iter().map(|address| {
        let at = Target {
            backend: at_sentinel(&target.backend, sentinel.password.clone(), address),
            slot: None,
            expected: None,
            ..target.clone()
        };
        let (gate, target, master) = (&gate, &target, &sentinel.master);
        async move {
            loop {
                let follow = |message: &[u8]| {
                    if let (Some(address), Some(gate)) = (switched(message, master), gate.upgrade()) {
                        gate.follow(target, &address);
                    }
                };
                let reason = listen(&at, SWITCHED, follow).await;
                tracing::debug!(err = reason, "a Sentinel is not heard");
                tokio::time::sleep(PAUSE).await;
            }
        }
    });
    tokio::select! {
        _ = join_all(heard) => {}
        () = is_over => {}
    }
}

/// The new address in `<master> <old host> <old port> <new host> <new port>`.
fn switched(message: &[u8], master: &str) -> Option<String> {
    let text = std::str::from_utf8(message).ok()?.strip_prefix(master)?.strip_prefix(' ')?;
    match text.split(' ').collect::<Vec<_>>().as_slice() {
        [_, _, host, port] => Some(joined(host, port)),
        _ => None,
    }
}

fn joined(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A Sentinel speaks as the servers do, with a password of its own.
fn at_sentinel(backend: &Backend, password: String, address: &str) -> Backend {
    Backend { address: address.into(), password, db: 0, sentinel: None, ..backend.clone() }
}

/// The address to dial.
pub async fn locate(target: &Target) -> Result<String, String> {
    match (target.slot, &target.backend.sentinel) {
        (Some(slot), _) => crate::kvrocks::redis::cluster::locate(target, slot).await,
        (None, Some(sentinel)) => ask_sentinels(target, sentinel).await,
        (None, None) => Ok(target.backend.address.clone()),
    }
}

/// All Sentinels are asked; the highest epoch counts, and none below one that was followed already.
async fn ask_sentinels(target: &Target, sentinel: &Sentinel) -> Result<String, String> {
    let command = Command::new("SENTINEL").arg("MASTER").arg(sentinel.master.as_str());
    let backend = at_sentinel(&target.backend, sentinel.password.clone(), "");
    let timeout = target.timeout.min(target.silence);
    let asked = sentinel.addresses.iter().map(|address| {
        let (backend, command) = (&backend, &command);
        async move {
            let reply = Box::pin(ask_once(backend, address, timeout, command)).await;
            reply.and_then(|reply| named(&reply)).map_err(|reason| format!("{address}: {reason}"))
        }
    });
    let (told, reasons): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().partition(Result::is_ok);
    let newest = told.into_iter().flatten().max_by_key(|(epoch, _)| *epoch);
    let Some((epoch, address)) = newest else {
        let reasons: Vec<String> = reasons.into_iter().filter_map(Result::err).collect();
        let master = &sentinel.master;
        return Err(format!("no Sentinel names a master called {master:?}: {}", reasons.join("; ")));
    };
    let followed = sentinel.followed(epoch);
    match epoch < followed {
        true => Err(format!("the Sentinels that answer know epoch {epoch}, {followed} was followed")),
        false => Ok(address),
    }
}

/// The epoch and the address in an answer of SENTINEL MASTER, which is a list of names and values.
fn named(reply: &Reply) -> Result<(u64, String), String> {
    let fields = match reply {
        Reply::List(fields) => fields,
        Reply::Error(text) => return Err(text.clone()),
        other => return Err(format!("unexpected answer {other:?}")),
    };
    let field = |name: &str| {
        let pair = fields.chunks_exact(2).find(|pair| string(pair[0].clone()) == name)?;
        Some(string(pair[1].clone()))
    };
    let epoch = field("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    match (field("ip"), field("port")) {
        (Some(ip), Some(port)) => Ok((epoch, joined(&ip, &port))),
        _ => Err("the answer names no address".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_sentinel_is_read() {
        let text = |text: &str| Reply::Text(text.into());
        let answer = ["name", "codeq", "ip", "10.0.0.2", "port", "6666", "config-epoch", "7"].map(text);
        assert_eq!(named(&Reply::List(answer.to_vec())), Ok((7, "10.0.0.2:6666".into())));
        assert!(named(&Reply::Error("ERR No such master with that name".into())).is_err());
    }

    #[test]
    fn a_switch_names_the_new_master() {
        let told = |text: &str| switched(text.as_bytes(), "codeq");
        assert_eq!(told("codeq 10.0.0.1 6666 10.0.0.2 6667"), Some("10.0.0.2:6667".into()));
        assert_eq!(told("codeq fe80::1 6666 fe80::2 6667"), Some("[fe80::2]:6667".into()));
        assert_eq!((told("codeq-2 10.0.0.1 6666 10.0.0.2 6667"), told("")), (None, None));
    }
}
