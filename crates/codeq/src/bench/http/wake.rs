//! Waiting claims: how soon one is answered, and what ten thousand of them cost.

use super::super::meter::{Reading, Used, histogram, record, sync_median};
use super::super::report::Row;
use super::client::Client;
use super::load::expect;
use super::target::Target;
use anyhow::Context;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 300;
const HOLD: &[u8] = br#"{"commands":["wake"],"waitSeconds":30}"#;
const CREATE: &[u8] = br#"{"command":"wake","payload":{"n":1}}"#;

/// From sending a create to the answer of a claim that was held, on a server that does nothing else.
pub async fn wake(target: &Target, directory: &Path) -> anyhow::Result<Row> {
    let mut waiting = Client::connect(target.address).await?;
    let mut creating = Client::connect(target.address).await?;
    let mut latencies = histogram();
    let started = Reading::take();
    for _ in 0..ROUNDS {
        let held = waiting.post("/v1/codeq/tasks/claim", &target.worker, HOLD);
        tokio::pin!(held);
        // The claim is on the server and waits before the create is sent.
        let _ = tokio::time::timeout(Duration::from_millis(5), held.as_mut()).await;
        let at = Instant::now();
        let create = creating.post("/v1/codeq/tasks", &target.producer, CREATE);
        let (created, claimed) = tokio::join!(create, async {
            let claimed = held.await;
            record(&mut latencies, at.elapsed());
            claimed
        });
        expect(202, "create", created?.status)?;
        expect(200, "held claim", claimed?.status)?;
    }
    let used = started.used();
    let row = Row::new("wake", 1, ROUNDS, &Used { cpu: Duration::ZERO, written: 0, ..used }, &latencies);
    let rss_mb = target.process.as_ref().map_or(0.0, |process| process.rss_mb().round());
    Ok(Row { rss_mb, sync_p50_us: Some(sync_median(directory)?), ..row })
}

/// Holds many claims at once: measures the server's memory, and checks that every claim is answered.
pub async fn held(target: &Target, count: usize) -> anyhow::Result<Row> {
    let lanes = tokio::task::LocalSet::new();
    let started = Reading::take();
    // Each asks as soon as it is connected: a server does not wait long for a head.
    let handles: Vec<_> = (0..count)
        .map(|_| {
            let (address, token) = (target.address, target.worker.clone());
            lanes.spawn_local(async move {
                let mut client = Client::connect(address).await?;
                let status = client.post("/v1/codeq/tasks/claim", &token, HOLD).await?.status;
                anyhow::Ok((status, Instant::now()))
            })
        })
        .collect();
    let (woken_from, rss_mb) = lanes
        .run_until(async {
            // Long enough that all of them have arrived, well before the first one's time is over.
            tokio::time::sleep(Duration::from_secs(8)).await;
            let rss_mb = target.process.as_ref().map_or(0.0, |process| process.rss_mb().round());
            let mut creating = Client::connect(target.address).await?;
            let at = Instant::now();
            let batch = vec![std::str::from_utf8(CREATE)?; 100].join(",");
            let batch = format!("{{\"tasks\":[{batch}]}}");
            for _ in 0..count.div_ceil(100) {
                let created =
                    creating.post("/v1/codeq/tasks/batch", &target.producer, batch.as_bytes()).await?;
                expect(200, "batch create", created.status)?;
            }
            anyhow::Ok((at, rss_mb))
        })
        .await?;
    lanes.await;
    let mut latencies = histogram();
    for handle in handles {
        let (status, at) = handle.await??;
        expect(200, "held claim", status)?;
        record(&mut latencies, at.checked_duration_since(woken_from).context("woken before the create")?);
    }
    let used = Used { cpu: Duration::ZERO, written: 0, ..started.used() };
    Ok(Row { rss_mb, ..Row::new("held", count, count as u64, &used, &latencies) })
}
