//! What the stores have measured, read when the page is requested.

use codeq_store::kvrocks;
use codeq_store::local::{Meters, Reading};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};
use std::collections::HashMap;
use std::sync::Arc;

const SYNC: (&str, &str) = ("codeq_store_sync_seconds", "How long each sync of the journal took.");
const WAIT: (&str, &str) =
    ("codeq_store_wait_seconds", "How long each group of writes to Kvrocks waited for replicas.");
const GROUP: (&str, &str) = ("codeq_store_group_size", "Transitions that one commit made durable.");

pub struct StoreMetrics {
    meters: Arc<Meters>,
    kvrocks: Arc<kvrocks::Meters>,
    descriptions: Vec<Desc>,
}

impl StoreMetrics {
    pub fn new(meters: Arc<Meters>, kvrocks: Arc<kvrocks::Meters>) -> StoreMetrics {
        let describe = |(name, help): (&str, &str)| {
            Desc::new(name.into(), help.into(), Vec::new(), HashMap::new()).expect("names are sound")
        };
        let descriptions = [SYNC, GROUP, WAIT].map(describe).to_vec();
        StoreMetrics { meters, kvrocks, descriptions }
    }
}

impl Collector for StoreMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let waits = family(WAIT, self.kvrocks.waits());
        vec![family(SYNC, self.meters.sync()), family(GROUP, self.meters.group()), waits]
    }
}

fn family((name, help): (&str, &str), reading: Reading) -> MetricFamily {
    let mut histogram = Histogram::default();
    histogram.set_sample_count(reading.count);
    histogram.set_sample_sum(reading.sum);
    let buckets = reading.up_to.into_iter().map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    let mut family = MetricFamily::default();
    family.set_name(name.into());
    family.set_help(help.into());
    family.set_field_type(MetricType::HISTOGRAM);
    family.set_metric(vec![metric]);
    family
}
