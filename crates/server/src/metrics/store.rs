//! What the stores have measured, read when the page is requested.

use codeq_store::kvrocks;
use codeq_store::local::{Meters, Reading};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Histogram, Metric, MetricFamily, MetricType};
use std::collections::HashMap;
use std::sync::Arc;

const SYNC: (&str, &str) = ("codeq_store_sync_seconds", "How long each sync of the journal took.");
const WAIT: (&str, &str) =
    ("codeq_store_wait_seconds", "How long each group of writes to Kvrocks waited for replicas.");
const GROUP: (&str, &str) = ("codeq_store_group_size", "Transitions that one commit made durable.");
const DAMAGE: (&str, &str) =
    ("codeq_store_damage_total", "Tasks met of which something is damaged on the disk.");

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
        let descriptions = [SYNC, GROUP, WAIT, DAMAGE].map(describe).to_vec();
        StoreMetrics { meters, kvrocks, descriptions }
    }
}

impl Collector for StoreMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let waits = measured(WAIT, self.kvrocks.waits());
        let damage = counted(DAMAGE, self.meters.damaged());
        vec![measured(SYNC, self.meters.sync()), measured(GROUP, self.meters.group()), waits, damage]
    }
}

fn counted(name: (&str, &str), count: u64) -> MetricFamily {
    let mut counter = Counter::default();
    // Exact: nobody counts to 2^52 here.
    counter.set_value(count as f64);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    family(name, MetricType::COUNTER, metric)
}

fn measured(name: (&str, &str), reading: Reading) -> MetricFamily {
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
    family(name, MetricType::HISTOGRAM, metric)
}

fn family((name, help): (&str, &str), kind: MetricType, metric: Metric) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.into());
    family.set_help(help.into());
    family.set_field_type(kind);
    family.set_metric(vec![metric]);
    family
}
