//! The honest tenant: a light and steady load.

use super::super::http::client::{Client, string_of};
use super::super::meter::{histogram, record};
use super::HONEST;
use hdrhistogram::Histogram;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Connections, and how long each rests between two tasks.
pub const LANES: usize = 4;
const REST: Duration = Duration::from_millis(10);

pub struct Seen {
    /// Of creates and claims.
    pub latencies: Histogram<u64>,
    /// Answers that were not the right ones.
    pub failed: u64,
}

/// Creates, claims and finishes tasks for so long.
pub async fn work(address: SocketAddr, time: Duration) -> anyhow::Result<Seen> {
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        lanes.spawn(lane(address, number, Instant::now() + time));
    }
    let mut all = Seen { latencies: histogram(), failed: 0 };
    while let Some(lane) = lanes.join_next().await {
        let seen = lane??;
        all.latencies.add(seen.latencies)?;
        all.failed += seen.failed;
    }
    Ok(all)
}

async fn lane(address: SocketAddr, number: usize, until: Instant) -> anyhow::Result<Seen> {
    let mut client = Client::connect(address).await?;
    let mut seen = Seen { latencies: histogram(), failed: 0 };
    let create = format!("{{\"command\":\"honest-{number}\",\"payload\":{{\"n\":{number}}}}}");
    let claim = format!("{{\"commands\":[\"honest-{number}\"]}}");
    let result: &[u8] = br#"{"status":"COMPLETED","result":{"ok":true}}"#;
    while Instant::now() < until {
        let mut id = None;
        for (path, body, wanted) in
            [("/v1/codeq/tasks", create.as_bytes(), 202), ("/v1/codeq/tasks/claim", claim.as_bytes(), 200)]
        {
            let at = Instant::now();
            let response = client.post(path, HONEST, body).await?;
            record(&mut seen.latencies, at.elapsed());
            match response.status == wanted {
                true => id = string_of(response.body, "id").map(str::to_owned),
                false => seen.failed += 1,
            }
        }
        if let Some(id) = id {
            let finished = client.post(&format!("/v1/codeq/tasks/{id}/result"), HONEST, result).await?;
            seen.failed += u64::from(finished.status != 200);
        }
        tokio::time::sleep(REST).await;
    }
    Ok(seen)
}
