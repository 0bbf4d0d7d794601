//! Finding the master: a fixed address, the holder of a slot of a cluster, or whom the Sentinels name.

use crate::kvrocks::redis::connection::{Command, Reply, Target, ask_once};
use crate::kvrocks::redis::reply::string;
use crate::kvrocks::store::options::{Backend, Sentinel};
use futures_util::future::join_all;

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
    let backend =
        Backend { password: sentinel.password.clone(), db: 0, sentinel: None, ..target.backend.clone() };
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
        (Some(ip), Some(port)) if ip.contains(':') => Ok((epoch, format!("[{ip}]:{port}"))),
        (Some(ip), Some(port)) => Ok((epoch, format!("{ip}:{port}"))),
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
}
