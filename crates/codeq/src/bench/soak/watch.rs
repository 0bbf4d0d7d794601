//! What is seen of the server, second by second.

use super::super::meter::{Disk, histogram};
use super::super::trend::{Trend, median};
use super::crowd::{Crowd, count};
use super::server::Server;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
pub struct Sample {
    /// Seconds since the load began.
    pub at: f64,
    pub rss_mb: f64,
    pub handles: f64,
    pub disk: Disk,
    /// Tasks that ended.
    pub per_second: f64,
    pub p99_ms: f64,
}

pub struct Watch<'a> {
    server: &'a Server,
    crowd: &'a Crowd,
    begun: Instant,
    pub samples: Vec<Sample>,
    /// Of all seconds since [`Watch::new`].
    pub latencies: Histogram<u64>,
}

impl<'a> Watch<'a> {
    pub fn new(server: &'a Server, crowd: &'a Crowd) -> Watch<'a> {
        drop(crowd.take_latencies());
        Watch { server, crowd, begun: Instant::now(), samples: Vec::new(), latencies: histogram() }
    }

    /// Waits for a second and looks.
    pub async fn second(&mut self) -> anyhow::Result<Sample> {
        let (before, from) = (count(&self.crowd.ended), Instant::now());
        tokio::time::sleep(SECOND).await;
        let ended = count(&self.crowd.ended) - before;
        let latencies = self.crowd.take_latencies();
        self.latencies.add(&latencies)?;
        let sample = Sample {
            at: self.begun.elapsed().as_secs_f64(),
            rss_mb: self.server.process.rss_mb(),
            handles: self.server.process.handles() as f64,
            disk: Disk::of(&self.server.data),
            per_second: ended as f64 / from.elapsed().as_secs_f64(),
            p99_ms: latencies.value_at_quantile(0.99) as f64 / 1000.0,
        };
        self.samples.push(sample);
        Ok(sample)
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The trend of one figure over the samples from `settled` on; growth within `share` of its size, or
/// within `least`, is none.
pub fn trend(
    samples: &[Sample],
    settled: f64,
    figure: impl Fn(&Sample) -> f64,
    share: f64,
    least: f64,
) -> Option<Trend> {
    let taken = samples.iter().filter(|sample| sample.at >= settled);
    let points: Vec<(f64, f64)> = taken.map(|sample| (sample.at, figure(sample))).collect();
    let size = median(points.iter().map(|point| point.1).collect())?;
    Trend::of(&points, (size * share).max(least))
}
