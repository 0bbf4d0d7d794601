//! Listing tasks in the order of their creation, over all shards.
//!
//! `codeq:created` orders ids by (creation, id), and so does a cursor: `<ms>-<id>`, the last task looked at.

use super::connection::Command;
use super::record;
use super::reply::{list, string};
use super::store::Keeper;
use codeq_queue::{Failure, Listed, Page, Refusal, Task, TaskId, Time};
use std::sync::Arc;

/// Records that one page examines at most.
const EXAMINED: usize = 50_000;
/// Records read from a shard at once.
const TOGETHER: usize = 500;

/// A place in the order of creation.
type Place = (i64, String);

fn parse_cursor(cursor: &str) -> Option<Place> {
    let (ms, id) = cursor.split_once('-')?;
    TaskId::parse(id)?;
    Some((ms.parse().ok()?, id.to_owned()))
}

impl Keeper {
    pub async fn list(self: Arc<Self>, page: Page) -> Result<Result<Listed, Refusal>, Failure> {
        self.enter().await?;
        let mut place = match page.cursor.as_deref().map(parse_cursor) {
            Some(None) => return Ok(Err(Refusal::InvalidCursor)),
            Some(place) => place,
            None => None,
        };
        let (mut tasks, mut examined) = (Vec::new(), 0);
        while examined < EXAMINED {
            let step = self.step(place.as_ref(), page.is_newest_first).await?;
            for (at, task) in step.looked_at {
                examined += 1;
                place = Some(at.clone());
                let Some(task) = task else { continue };
                let is_own = page.tenant.as_ref().is_none_or(|tenant| task.body.tenant == *tenant);
                if is_own && page.filter.matches(&task) {
                    tasks.push(task);
                }
                if tasks.len() >= page.limit {
                    return Ok(Ok(Listed { tasks, next: place.map(cursor) }));
                }
            }
            if step.is_last {
                return Ok(Ok(Listed { tasks, next: None }));
            }
        }
        Ok(Ok(Listed { tasks, next: place.map(cursor) }))
    }

    /// The next tasks of all shards, merged up to where all of them have been read.
    async fn step(&self, after: Option<&Place>, newest_first: bool) -> Result<Step, Failure> {
        let (mut all, mut horizon) = (Vec::new(), None::<Place>);
        for shard in self.keyspaces.iter().map(|shards| shards[0]) {
            let (places, is_end) = self.places(shard, after, newest_first).await?;
            if let Some(last) = places.last().filter(|_| !is_end).cloned() {
                horizon = Some(match horizon {
                    Some(held) if is_before(&held, &last, newest_first) => held,
                    _ => last,
                });
            }
            let ids: Vec<String> = places.iter().map(|(_, id)| id.clone()).collect();
            let texts = self.records_on(shard, &ids).await?;
            let read = |text: Option<Vec<u8>>| record::parse(&text?);
            all.extend(places.into_iter().zip(texts.into_iter().map(read)));
        }
        all.sort_by(|a, b| if newest_first { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) });
        all.dedup_by(|a, b| a.0 == b.0);
        if let Some(horizon) = &horizon {
            all.retain(|(place, _)| !is_before(horizon, place, newest_first));
        }
        Ok(Step { looked_at: all, is_last: horizon.is_none() })
    }

    /// Up to so many places of a shard behind the given one, and whether they are the last.
    async fn places(
        &self,
        shard: usize,
        after: Option<&Place>,
        newest_first: bool,
    ) -> Result<(Vec<Place>, bool), Failure> {
        let at = &self.shards[shard];
        let (name, end) = if newest_first { ("ZREVRANGEBYSCORE", "-inf") } else { ("ZRANGEBYSCORE", "+inf") };
        let start = match after {
            Some((ms, _)) => ms.to_string(),
            None if newest_first => "+inf".into(),
            None => "-inf".into(),
        };
        let mut skipped = 0;
        loop {
            let range = Command::new(name).arg(at.keys.of("created")).args([
                start.as_str(),
                end,
                "WITHSCORES",
                "LIMIT",
                &skipped.to_string(),
                &TOGETHER.to_string(),
            ]);
            let pairs = list(at.read_one(range).await?);
            let read = pairs.len() / 2;
            let places: Vec<Place> = pairs
                .chunks_exact(2)
                .map(|pair| {
                    let score = string(pair[1].clone()).parse().unwrap_or(0.0);
                    (super::read::millis(score).millis(), string(pair[0].clone()))
                })
                .filter(|place| after.is_none_or(|after| is_before(after, place, newest_first)))
                .collect();
            if !places.is_empty() || read < TOGETHER {
                return Ok((places, read < TOGETHER));
            }
            skipped += read;
        }
    }
}

struct Step {
    looked_at: Vec<(Place, Option<Task>)>,
    is_last: bool,
}

fn is_before(a: &Place, b: &Place, newest_first: bool) -> bool {
    if newest_first { a > b } else { a < b }
}

fn cursor((ms, id): Place) -> String {
    format!("{}-{id}", Time::from_millis(ms).millis())
}
