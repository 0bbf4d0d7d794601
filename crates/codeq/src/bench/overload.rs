//! `codeq bench overload`: far more load than the server can take, and how quickly it recovers.

use super::grpc::Target;
use super::grpc::load::{self, Shape, Tally};
use super::http::client::{Client, Response, string_of};
use super::meter::{Used, histogram, record};
use super::report::{self, Output, Row};
use super::soak::server::{Server, TOKEN};
use super::trend::Trend;
use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections that keep the server busy; more only wait.
const FULL: usize = 64;
const TIMES: usize = 10;
/// Streams of an overload, and messages in flight on each; a tenth of them would be plenty.
const STREAMS: usize = 8;
const STREAM_FLIGHT: usize = 64 * TIMES;
/// Connections of the light load, and how long each rests between two cycles.
const LIGHT: usize = 4;
const REST: Duration = Duration::from_millis(20);
/// Within this the server has to be as quick as before.
const RECOVERY: Duration = Duration::from_secs(10);
/// Recovered: the p99 is at most this many times what it was, or below what scheduling adds.
const AS_QUICK: u64 = 2;
const SCHEDULING_US: u64 = 5000;
/// Growth of memory below this share is none.
const RSS_SHARE: f64 = 0.1;

/// Ten times the connections that keep the server busy, and as much over streams, without pause: answers may
/// become slow or be refusals that say when to come back, memory must not grow, and within ten seconds
/// afterwards a light load is as quick as before. Only answers with the right status count.
///
/// Examples:
///   codeq bench overload --json
///   codeq bench overload --seconds 300
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct OverloadBench {
    /// How long the overload lasts.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    #[command(flatten)]
    output: Output,
}

/// What one phase measured.
struct Phase {
    latencies: Histogram<u64>,
    requests: u64,
    refused: u64,
    used: Used,
    rss: Vec<(f64, f64)>,
}

impl Phase {
    fn row(&self, name: &str, in_flight: usize, server: &Server) -> Row {
        Row {
            rss_mb: server.process.rss_mb().round(),
            refused: Some(self.refused),
            ..Row::new(name, in_flight, self.requests, &self.used, &self.latencies)
        }
    }
}

impl OverloadBench {
    pub fn run(self) -> anyhow::Result<()> {
        codeq_server::raise_file_limit();
        let root = self.output.root()?;
        let server = Server::start(root.path(), Duration::from_secs(5))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let rows = runtime.block_on(self.rows(server))?;
        self.output.print(&rows, &root)
    }

    async fn rows(&self, server: Server) -> anyhow::Result<Vec<Row>> {
        let side = Duration::from_secs_f64((self.seconds / 6.0).clamp(1.0, 10.0));
        report::progress("before");
        let before = phase(&server, LIGHT, Some(REST), side).await?;
        let mut rows = vec![before.row("before", LIGHT, &server)];
        report::progress("full load");
        let full = phase(&server, FULL, None, side).await?;
        rows.push(full.row("full", FULL, &server));
        report::progress("overload");
        rows.extend(self.overload(&server).await?);
        rows.push(after(&server, rows[0].p99_us).await?);
        Ok(rows)
    }

    async fn overload(&self, server: &Server) -> anyhow::Result<Vec<Row>> {
        let time = Duration::from_secs_f64(self.seconds.max(1.0));
        let target = Target {
            name: "overload".into(),
            producer: server.producer()?,
            worker: server.worker()?,
            token: TOKEN.into(),
            process: None,
        };
        let shape = Shape { is_batch: false, create: 1, claim: 1, in_flight: STREAM_FLIGHT };
        let mut tally = Tally::default();
        let streaming = load::cycles(&target, STREAMS, shape, time, &mut tally);
        let (over, streamed) = tokio::join!(phase(server, FULL * TIMES, None, time), streaming);
        streamed?;
        let over = over?;
        let settled = time.as_secs_f64() / 4.0;
        let samples: Vec<(f64, f64)> =
            over.rss.iter().copied().filter(|sample| sample.0 >= settled).collect();
        let tolerance = samples.first().map_or(0.0, |first| first.1 * RSS_SHARE);
        let http =
            Row { rss_trend: Trend::of(&samples, tolerance), ..over.row("overload", FULL * TIMES, server) };
        let grpc = tally.row("overload", shape, STREAMS * STREAM_FLIGHT, 0.0, Some(&server.process));
        Ok(vec![http, Row { name: "streams".into(), ..grpc }])
    }
}

/// Light load, second by second, until it is as quick as before.
async fn after(server: &Server, before_us: u64) -> anyhow::Result<Row> {
    let from = Instant::now();
    let quick = (before_us * AS_QUICK).max(SCHEDULING_US);
    loop {
        report::progress(&format!("after: {} s", from.elapsed().as_secs()));
        let second = phase(server, LIGHT, Some(REST), Duration::from_secs(1)).await?;
        let is_quick = second.latencies.value_at_quantile(0.99) <= quick;
        if is_quick || from.elapsed() >= RECOVERY {
            let words = if is_quick { "recovered within" } else { "not recovered after" };
            let verdict = format!("{words} {:.0} s", from.elapsed().as_secs_f64());
            return Ok(Row { verdict: Some(verdict), ..second.row("after", LIGHT, server) });
        }
    }
}

/// So many connections that each create, claim and finish one task after another.
async fn phase(
    server: &Server,
    connections: usize,
    rest: Option<Duration>,
    time: Duration,
) -> anyhow::Result<Phase> {
    let refused = Arc::new(AtomicU64::new(0));
    let is_over = CancellationToken::new();
    let before = (server.process.cpu(), server.process.written());
    let started = Instant::now();
    let mut lanes = JoinSet::new();
    for number in 0..connections {
        lanes.spawn(lane(server.http(), number, rest, refused.clone(), is_over.clone()));
    }
    let mut rss = Vec::new();
    while started.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(250).min(time)).await;
        rss.push((started.elapsed().as_secs_f64(), server.process.rss_mb()));
    }
    is_over.cancel();
    let mut latencies = histogram();
    while let Some(lane) = lanes.join_next().await {
        latencies.add(lane??)?;
    }
    let used = Used {
        elapsed: started.elapsed(),
        cpu: server.process.cpu().saturating_sub(before.0),
        written: server.process.written().saturating_sub(before.1),
    };
    let refused = refused.load(Ordering::Relaxed);
    Ok(Phase { requests: latencies.len(), latencies, refused, used, rss })
}

async fn lane(
    address: SocketAddr,
    number: usize,
    rest: Option<Duration>,
    refused: Arc<AtomicU64>,
    is_over: CancellationToken,
) -> anyhow::Result<Histogram<u64>> {
    let mut client = Client::connect(address).await?;
    let mut latencies = histogram();
    // A queue for each, so that a claim finds what was just created.
    let create = format!("{{\"command\":\"overload-{number}\",\"payload\":{{\"n\":{number}}}}}");
    let claim = format!("{{\"commands\":[\"overload-{number}\"]}}");
    let result: &[u8] = br#"{"status":"COMPLETED","result":{"ok":true}}"#;
    while !is_over.is_cancelled() {
        let mut ask = Ask { client: &mut client, latencies: &mut latencies, refused: &refused };
        if ask.post("/v1/codeq/tasks", create.as_bytes(), 202).await?.is_some() {
            // Until it is done: a task that stays would be another lane's burden.
            let id = loop {
                match ask.post("/v1/codeq/tasks/claim", claim.as_bytes(), 200).await? {
                    Some(id) => break id,
                    None => continue,
                }
            };
            let path = format!("/v1/codeq/tasks/{id}/result");
            while ask.post(&path, result, 200).await?.is_none() {}
        }
        if let Some(rest) = rest {
            tokio::time::sleep(rest).await;
        }
    }
    Ok(latencies)
}

struct Ask<'a> {
    client: &'a mut Client,
    latencies: &'a mut Histogram<u64>,
    refused: &'a AtomicU64,
}

impl Ask<'_> {
    /// The id in the answer. `None`: refused for now, and the time to wait for is over.
    async fn post(&mut self, path: &str, body: &[u8], wanted: u16) -> anyhow::Result<Option<String>> {
        let at = Instant::now();
        let response = self.client.post(path, TOKEN, body).await?;
        record(self.latencies, at.elapsed());
        if response.status == wanted {
            let id = string_of(response.body, "id").or_else(|| string_of(response.body, "taskId"));
            return Ok(Some(id.context("an answer without an id")?.to_owned()));
        }
        let wait = retry_after(&response)?;
        self.refused.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(wait).await;
        Ok(None)
    }
}

/// A refusal says when to come back; any other answer is a fault.
fn retry_after(response: &Response<'_>) -> anyhow::Result<Duration> {
    match (response.status, response.header("retry-after").and_then(|text| text.parse().ok())) {
        (429 | 503, Some(seconds)) => Ok(Duration::from_secs(seconds)),
        (status, _) => bail!("unexpected {status}: {}", String::from_utf8_lossy(response.body)),
    }
}
