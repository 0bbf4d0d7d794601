//! Metrics of the process rather than of queues: requests, streams, the build.

use super::register;
use prometheus::{HistogramOpts, HistogramVec, IntGauge, IntGaugeVec, Opts, Registry};
use std::time::Duration;

const REQUESTS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0, 30.0];
/// The commit that this was built from, if the build says so.
const REVISION: Option<&str> = option_env!("CODEQ_REVISION");

pub struct ProcessMetrics {
    requests: HistogramVec,
    streams: IntGaugeVec,
}

/// One more, as long as it lives.
pub struct Counted(IntGauge);

impl Counted {
    pub fn new(gauge: IntGauge) -> Counted {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ProcessMetrics {
    pub fn new(registry: &Registry) -> ProcessMetrics {
        let requests = HistogramOpts::new(
            "codeq_http_request_seconds",
            "From the head of a request to its answer; waits that were asked for included.",
        );
        let requests = HistogramVec::new(requests.buckets(REQUESTS.to_vec()), &["route", "status"]);
        let streams = Opts::new("codeq_grpc_streams", "Open gRPC streams.");
        let build = Opts::new("codeq_build_info", "Always 1; what runs is in the labels.");
        let build = register(registry, IntGaugeVec::new(build, &["version", "revision"]));
        build.with_label_values(&[env!("CARGO_PKG_VERSION"), REVISION.unwrap_or("unknown")]).set(1);
        let streams = register(registry, IntGaugeVec::new(streams, &["service"]));
        for service in ["producer", "worker"] {
            streams.with_label_values(&[service]).set(0);
        }
        ProcessMetrics { requests: register(registry, requests), streams }
    }

    pub fn request(&self, route: &str, status: u16, took: Duration) {
        let mut digits = [0; 3];
        let status = digits_of(status, &mut digits);
        self.requests.with_label_values(&[route, status]).observe(took.as_secs_f64());
    }

    /// `service` is the full name of a gRPC service of ours.
    pub fn streams(&self, service: &str) -> IntGauge {
        let side = if service.starts_with("producer") { "producer" } else { "worker" };
        self.streams.with_label_values(&[side])
    }
}

/// Without asking for memory: this is on the way of every answer.
fn digits_of(status: u16, digits: &mut [u8; 3]) -> &str {
    let status = status.min(999);
    for (place, unit) in [100, 10, 1].into_iter().enumerate() {
        digits[place] = b'0' + u8::try_from(status / unit % 10).unwrap_or(0);
    }
    std::str::from_utf8(digits).unwrap_or_default()
}
