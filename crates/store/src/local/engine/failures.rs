//! How many tasks of each queue have failed and are kept.
//!
//! Records of failed tasks are not removed one by one: whole buckets of history go when their time is over. So failures
//! are counted by bucket, and a bucket stops counting at its end, up to a sixteenth of the retention after the first
//! of its records.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::{FAILED, Final, bucket_end, idem_key};
use codeq_queue::{QueueKey, State, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Queues in which counts that are over are forgotten when another task fails.
const FORGOTTEN_AT_ONCE: usize = 4;

#[derive(Default)]
pub struct Failures {
    counts: HashMap<QueueKey, Counts>,
    /// When the first bucket of a queue is over.
    ends: BTreeSet<(i64, QueueKey)>,
}

/// By the end of the bucket.
type Counts = BTreeMap<i64, u64>;

/// In which bucket a record counts, if it does.
pub fn bucket(last: &Final) -> Option<i64> {
    (last.sketch.state == State::Failed).then(|| bucket_end(last.sketch.updated_at, last.expires))
}

impl Failures {
    pub fn total(&self, queue: &QueueKey, now: Time) -> u64 {
        let counts = self.counts.get(queue).into_iter();
        counts.flat_map(|counts| counts.range(now.millis() + 1..)).map(|(_, count)| count).sum()
    }

    /// One more in this bucket, or one less. Gives the queues whose counts have changed.
    pub fn count(&mut self, queue: &QueueKey, bucket: i64, is_more: bool, now: Time) -> Vec<QueueKey> {
        self.put(queue, self.counted(queue, bucket, is_more));
        let mut changed = vec![queue.clone()];
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some((_, over)) = self.ends.first().filter(|(end, _)| *end <= now.millis()).cloned() else {
                break;
            };
            let left = self.counts.get(&over).map(|counts| counts.range(now.millis() + 1..));
            let left: Counts = left.into_iter().flatten().map(|(end, count)| (*end, *count)).collect();
            self.put(&over, left);
            changed.push(over);
        }
        changed
    }

    fn counted(&self, queue: &QueueKey, bucket: i64, is_more: bool) -> Counts {
        let mut counts = self.counts.get(queue).cloned().unwrap_or_default();
        let count = counts.get(&bucket).copied().unwrap_or(0);
        match if is_more { count + 1 } else { count.saturating_sub(1) } {
            0 => counts.remove(&bucket),
            count => counts.insert(bucket, count),
        };
        counts
    }

    fn put(&mut self, queue: &QueueKey, counts: Counts) {
        let first = |counts: &Counts| counts.first_key_value().map(|(end, _)| (*end, queue.clone()));
        if let Some(before) = self.counts.remove(queue).as_ref().and_then(first) {
            self.ends.remove(&before);
        }
        self.ends.extend(first(&counts));
        if !counts.is_empty() {
            self.counts.insert(queue.clone(), counts);
        }
    }

    /// The row of a queue; none if nothing is counted.
    pub fn row(&self, queue: &QueueKey) -> Option<Vec<u8>> {
        self.counts.get(queue).and_then(written)
    }

    /// The row of a queue when a record of this bucket has been removed.
    pub fn row_without(&self, queue: &QueueKey, bucket: i64) -> Option<Vec<u8>> {
        written(&self.counted(queue, bucket, false))
    }

    pub fn put_row(&mut self, queue: &QueueKey, row: Option<&[u8]>) -> Result<(), Corrupt> {
        let mut counts = Counts::new();
        if let Some(row) = row {
            let r = &mut Reader(row);
            for _ in 0..r.number()? {
                counts.insert(r.time()?.millis(), r.number()?);
            }
        }
        self.put(queue, counts);
        Ok(())
    }
}

fn written(counts: &Counts) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.number(counts.len() as u64);
    for (end, count) in counts {
        w.time(Time::from_millis(*end));
        w.number(*count);
    }
    (!counts.is_empty()).then_some(bytes)
}

pub fn key(queue: &QueueKey) -> Vec<u8> {
    [&[FAILED], &*idem_key(queue, "")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_until_their_bucket_is_over_and_come_back_as_they_were() {
        let (mut failures, at) = (Failures::default(), Time::from_millis);
        let (mail, other) = (QueueKey::new("acme", "mail"), QueueKey::new("acme", "other"));
        assert_eq!(failures.count(&mail, 100, true, at(1)), std::slice::from_ref(&mail));
        failures.count(&mail, 100, true, at(1));
        failures.count(&mail, 200, true, at(1));
        assert_eq!((failures.total(&mail, at(99)), failures.total(&mail, at(100))), (3, 1));
        failures.count(&mail, 100, false, at(1));
        assert_eq!(failures.total(&mail, at(1)), 2);
        failures.count(&mail, 300, false, at(1));
        assert_eq!(failures.total(&mail, at(1)), 2, "what was not counted is not taken away");

        let mut again = Failures::default();
        again.put_row(&mail, failures.row(&mail).as_deref()).unwrap();
        assert_eq!((again.counts, again.ends), (failures.counts.clone(), failures.ends.clone()));

        assert_eq!(failures.count(&other, 500, true, at(250)), [other.clone(), mail.clone()]);
        assert!(failures.row(&mail).is_none() && failures.counts.len() == 1 && failures.ends.len() == 1);
    }
}
