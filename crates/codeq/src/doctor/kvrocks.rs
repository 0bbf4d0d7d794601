//! Does Kvrocks answer?

use super::report::Report;
use codeq_server::config::Kvrocks;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub async fn check(report: &mut Report, kvrocks: &Kvrocks) {
    let sharding = kvrocks.sharding.iter().flat_map(|sharding| sharding.backends.values());
    let shards = sharding.map(|backend| backend.address.clone());
    let plain = kvrocks.addr.split(',').map(|address| address.trim().to_owned());
    let addresses: BTreeSet<String> = match kvrocks.sharding {
        Some(_) => shards.collect(),
        None => plain.collect(),
    };
    for address in addresses {
        match ping(&address, kvrocks.tls, kvrocks.timeout).await {
            Ok(text) => report.ok("store", format!("kvrocks at {address}: {text}")),
            Err(text) => {
                let next = "start Kvrocks, open the way to it, or correct persistenceConfig.addr";
                report.error("store", format!("kvrocks at {address}: {text}"), next);
            }
        }
    }
}

async fn ping(address: &str, is_tls: bool, patience: Duration) -> Result<&'static str, String> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        if is_tls {
            return Ok("accepts connections");
        }
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; 64];
        let count = stream.read(&mut answer).await?;
        match &answer[..count] {
            [b'+', b'P', ..] => Ok("answers"),
            [b'-', b'N', b'O', ..] => Ok("answers, with a password"),
            _ => Err(std::io::Error::other("answers, but not like Kvrocks")),
        }
    };
    match timeout(patience, asked).await {
        Ok(answer) => answer.map_err(|error: std::io::Error| error.to_string()),
        Err(_) => Err("does not answer in time".into()),
    }
}
