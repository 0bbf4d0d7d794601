//! The way out: spans in batches to the collector, and what it says.

use crate::config::Tracing;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Spans of one message.
const BATCH: usize = 512;
/// How long an ended span may wait for company.
const DELAY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two complaints about the collector.
const COMPLAINTS: Duration = Duration::from_secs(60);

pub fn provider(config: &Tracing) -> Result<SdkTracerProvider, String> {
    let scheme = if config.otlp_insecure { "http" } else { "https" };
    let exporter = Otlp::builder()
        .with_tonic()
        .with_endpoint(format!("{scheme}://{}", config.otlp_endpoint))
        .with_timeout(TIMEOUT);
    let exporter = match config.otlp_insecure {
        true => exporter,
        false => exporter.with_tls_config(ClientTlsConfig::new().with_native_roots()),
    };
    let exporter =
        Told { exporter: exporter.build().map_err(|error| error.to_string())?, told: Mutex::new(None) };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(super::QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let resource = Resource::builder_empty()
        .with_service_name(config.service_name.clone())
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
        // Spans of traces that are not kept are never made, see `On::begin`.
        .with_sampler(Sampler::AlwaysOn)
        .with_resource(resource)
        .build())
}

/// An exporter whose failures are logged, once a minute at most. The spans of a failed message are lost.
#[derive(Debug)]
struct Told {
    exporter: Otlp,
    told: Mutex<Option<Instant>>,
}

impl SpanExporter for Told {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported {
            self.complain(count, &error.to_string());
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl Told {
    fn complain(&self, spans: usize, err: &str) {
        let mut told = self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= COMPLAINTS) {
            *told = Some(Instant::now());
            tracing::warn!(spans, err, "trace export failed");
        }
    }
}
