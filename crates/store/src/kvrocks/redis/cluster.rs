//! Finding the server of a shard in a cluster: all keys of one shard share a hash tag, hence a slot, hence a
//! server.

use crate::kvrocks::redis::connection::{Command, Reply, Target, ask_once};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;
use tokio::time::Instant;

pub const SLOTS: u16 = 16_384;

/// How long the others are waited for when a seed has answered.
const OTHERS: Duration = Duration::from_millis(50);

/// The address of the master of a slot, as most of the seeds that answer know it: one that was cut off from the others may
/// still believe to be the master.
pub async fn locate(target: &Target, slot: u16) -> Result<String, String> {
    let command = Command::new("CLUSTER").arg("SLOTS");
    let seeds: Vec<&str> = target.backend.address.split(',').map(str::trim).collect();
    let timeout = target.timeout.min(target.silence);
    // A seed is asked without a slot, so this goes no deeper.
    let ask = |seed: &'_ str| {
        let (seed, command) = (seed.to_owned(), command.clone());
        Box::pin(async move {
            let reply = ask_once(&target.backend, &seed, timeout, &command).await?;
            let master = master_of(&reply, slot, &seed);
            master.ok_or_else(|| format!("{seed}: no server holds slot {slot}: {reply:?}"))
        })
    };
    let mut asked: FuturesUnordered<_> = seeds.into_iter().map(ask).collect();
    let (mut reasons, mut told) = (Vec::new(), Vec::<(usize, String)>::new());
    let mut until = None;
    loop {
        let next = match until {
            None => asked.next().await,
            Some(until) => tokio::time::timeout_at(until, asked.next()).await.unwrap_or(None),
        };
        match next {
            None => break,
            Some(Err(reason)) => reasons.push(reason),
            Some(Ok(address)) => {
                until = until.or(Some(Instant::now() + OTHERS));
                match told.iter_mut().find(|(_, known)| *known == address) {
                    Some((count, _)) => *count += 1,
                    None => told.push((1, address)),
                }
            }
        }
    }
    most_named(told).ok_or_else(|| reasons.join("; "))
}

/// Of those that are named as often the one that was named first.
fn most_named(told: Vec<(usize, String)>) -> Option<String> {
    told.into_iter().rev().max_by_key(|(count, _)| *count).map(|(_, address)| address)
}

/// Each row is (first slot, last slot, (host, port, ..) of the master, ..).
fn master_of(reply: &Reply, slot: u16, seed: &str) -> Option<String> {
    let Reply::List(rows) = reply else { return None };
    rows.iter().find_map(|row| {
        let Reply::List(row) = row else { return None };
        let [Reply::Int(first), Reply::Int(last), Reply::List(master), ..] = row.as_slice() else {
            return None;
        };
        if !(*first..=*last).contains(&i64::from(slot)) {
            return None;
        }
        let [Reply::Text(host), Reply::Int(port), ..] = master.as_slice() else { return None };
        let host = match host.is_empty() {
            true => seed.rsplit_once(':').map_or(seed, |(host, _)| host).to_owned(),
            false => String::from_utf8_lossy(host).into_owned(),
        };
        Some(format!("{host}:{port}"))
    })
}

/// The slot of a hash tag: CRC-16/XMODEM.
pub fn slot_of(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
    }

    #[test]
    fn what_most_seeds_say_counts() {
        let told = |told: &[(usize, &str)]| {
            most_named(told.iter().map(|(count, address)| (*count, (*address).to_owned())).collect())
        };
        assert_eq!(told(&[(1, "old"), (2, "new")]), Some("new".into()), "one that was cut off");
        assert_eq!(told(&[(1, "first"), (1, "second")]), Some("first".into()));
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn the_master_of_a_slot_is_found() {
        let text = |text: &str| Reply::Text(text.into());
        let node = |host: &str, port| Reply::List(vec![text(host), Reply::Int(port), text("id")]);
        let row = |first, last, master| Reply::List(vec![Reply::Int(first), Reply::Int(last), master]);
        let rows = Reply::List(vec![row(0, 99, node("10.0.0.1", 7)), row(100, 16_383, node("", 8))]);
        assert_eq!(master_of(&rows, 5, "h:1"), Some("10.0.0.1:7".into()));
        assert_eq!(master_of(&rows, 500, "h:1"), Some("h:8".into()), "an unnamed host is the one asked");
    }
}
