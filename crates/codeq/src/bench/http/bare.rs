//! The ceiling of a server over Kvrocks: as many connections as callers, one exchange per task.

use super::super::meter::{histogram, record};
use super::super::store::new_task;
use super::load::Tally;
use anyhow::anyhow;
use codeq_store::kvrocks::{Bare, KvrocksOptions};
use std::time::{Duration, Instant};

pub async fn run(
    options: &KvrocksOptions,
    connections: usize,
    seconds: f64,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut lines = Vec::with_capacity(connections);
    for _ in 0..connections {
        lines.push(Bare::connect(options).await.map_err(|reason| anyhow!(reason))?);
    }
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(seconds);
    let lanes = lines.into_iter().map(|line| {
        tokio::spawn(async move {
            let (mut latencies, mut count) = (histogram(), 0);
            while Instant::now() < end {
                let at = Instant::now();
                line.create(new_task()).await.map_err(|reason| anyhow!(reason))?;
                record(&mut latencies, at.elapsed());
                count += 1;
            }
            Ok((latencies, count))
        })
    });
    let lanes = lanes.collect();
    tally.gather(lanes).await?;
    tally.elapsed += started.elapsed();
    Ok(())
}
