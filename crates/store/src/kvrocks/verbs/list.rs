//! Listing tasks in the order of their creation, over all shards.
//!
//! `codeq:created` orders ids by (creation, id), and so does a cursor: `<ms>-<id>`, the last task looked at. A server
//! that does not answer is passed over; the cursor then has the place of its keyspace, `~<shard>:<ms>-<id>`, from
//! where a later page goes on. So every task comes once, though those of such a server come late.

use crate::kvrocks::format::record;
use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::patience::ask_all;
use crate::kvrocks::redis::reply::{list, string};
use crate::kvrocks::store::StoreContext;
use codeq_queue::{Failure, Listed, Page, Refusal, Task, TaskId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Records that one page examines at most.
const EXAMINED: usize = 50_000;
/// Records read from a shard at once.
const TOGETHER: usize = 500;

/// A place in the order of creation.
type Place = (i64, String);

fn parse_place(text: &str) -> Option<Place> {
    let (ms, id) = text.split_once('-')?;
    TaskId::parse(id)?;
    Some((ms.parse().ok()?, id.to_owned()))
}

/// How far a listing has come.
#[derive(Clone, Default)]
struct Progress {
    /// The last task looked at; `None` before the first.
    place: Option<Place>,
    /// Keyspaces that are behind, because their server did not answer, and how far each of them is.
    behind: BTreeMap<usize, Option<Place>>,
}

impl Progress {
    fn of(&self, keyspace: usize) -> Option<&Place> {
        self.behind.get(&keyspace).map_or(self.place.as_ref(), Option::as_ref)
    }

    /// A task of a keyspace was looked at.
    fn pass(&mut self, keyspace: usize, at: Place, newest_first: bool) {
        let Some(behind) = self.behind.get_mut(&keyspace) else {
            self.place = Some(at);
            return;
        };
        let has_caught_up = self.place.as_ref().is_some_and(|place| !is_before(&at, place, newest_first));
        match has_caught_up {
            false => *behind = Some(at),
            // From here on it goes with the others, and this task must not come again.
            true => {
                self.behind.remove(&keyspace);
                self.place = Some(at);
            }
        }
    }
}

impl StoreContext {
    pub async fn list(self: Arc<Self>, page: Page) -> Result<Result<Listed, Refusal>, Failure> {
        self.enter().await?;
        let mut progress = match page.cursor.as_deref().map(|cursor| self.parse_cursor(cursor)) {
            Some(None) => return Ok(Err(Refusal::InvalidCursor)),
            Some(Some(progress)) => progress,
            None => Progress::default(),
        };
        let (mut tasks, mut missing, mut examined) = (Vec::new(), BTreeSet::new(), 0);
        while examined < EXAMINED && tasks.len() < page.limit {
            let step = self.step(&mut progress, &mut missing, page.is_newest_first).await?;
            for (at, keyspace, task) in step.looked_at {
                examined += 1;
                progress.pass(keyspace, at, page.is_newest_first);
                let Some(task) = task else { continue };
                let is_own = page.tenant.as_ref().is_none_or(|tenant| task.body.tenant == *tenant);
                if is_own && page.filter.matches(&task) {
                    tasks.push(task);
                }
                if tasks.len() >= page.limit {
                    break;
                }
            }
            if step.is_last && tasks.len() < page.limit {
                let next = (!missing.is_empty()).then(|| self.cursor(&progress));
                return Ok(Ok(Listed { tasks, next, missing: self.names_of(&missing) }));
            }
        }
        let next = Some(self.cursor(&progress));
        Ok(Ok(Listed { tasks, next, missing: self.names_of(&missing) }))
    }

    /// The next tasks of all shards that answer, merged up to where all of them have been read. Those that do not
    /// answer stay where they are.
    async fn step(
        &self,
        progress: &mut Progress,
        missing: &mut BTreeSet<usize>,
        newest_first: bool,
    ) -> Result<Step, Failure> {
        let (mut all, mut horizon, mut failure) = (Vec::new(), None::<Place>, None);
        // What did not answer once is left to the next page, so that one page has one order.
        let asked: Vec<usize> =
            (0..self.keyspaces.len()).filter(|keyspace| !missing.contains(keyspace)).collect();
        let reads =
            asked.iter().map(|keyspace| self.read_portion(*keyspace, progress.of(*keyspace), newest_first));
        let reads = ask_all(reads).await;
        for (keyspace, read) in asked.into_iter().zip(reads) {
            let portion = match read {
                Ok(portion) => portion,
                Err(away @ Failure::Unavailable { .. }) => {
                    missing.insert(keyspace);
                    let at = progress.of(keyspace).cloned();
                    progress.behind.insert(keyspace, at);
                    failure = Some(away);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            match portion.looked_at.last().filter(|_| !portion.is_end) {
                Some((last, _)) => {
                    let is_nearer = horizon.as_ref().is_none_or(|held| is_before(last, held, newest_first));
                    horizon = if is_nearer { Some(last.clone()) } else { horizon };
                }
                None if portion.looked_at.is_empty() => drop(progress.behind.remove(&keyspace)),
                None => {}
            }
            all.extend(portion.looked_at.into_iter().map(|(place, task)| (place, keyspace, task)));
        }
        match failure {
            Some(failure) if missing.len() == self.keyspaces.len() => return Err(failure),
            _ => {}
        }
        all.sort_by(|a, b| if newest_first { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) });
        all.dedup_by(|a, b| a.0 == b.0);
        if let Some(horizon) = &horizon {
            all.retain(|(place, ..)| !is_before(horizon, place, newest_first));
        }
        Ok(Step { looked_at: all, is_last: horizon.is_none() })
    }

    async fn read_portion(
        &self,
        keyspace: usize,
        after: Option<&Place>,
        newest_first: bool,
    ) -> Result<Portion, Failure> {
        let shard = self.keyspaces[keyspace][0];
        let (places, is_end) = self.places(shard, after, newest_first).await?;
        let ids: Vec<String> = places.iter().map(|(_, id)| id.clone()).collect();
        let texts = self.records_on(shard, &ids).await?;
        let read = |text: Option<Vec<u8>>| record::parse(&text?);
        let looked_at = places.into_iter().zip(texts.into_iter().map(read)).collect();
        Ok(Portion { looked_at, is_end })
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
                    (crate::kvrocks::verbs::read::millis(score).millis(), string(pair[0].clone()))
                })
                .filter(|place| after.is_none_or(|after| is_before(after, place, newest_first)))
                .collect();
            if !places.is_empty() || read < TOGETHER {
                return Ok((places, read < TOGETHER));
            }
            skipped += read;
        }
    }

    /// `<place>~<shard>:<place>..`; a place is empty before the first task.
    fn cursor(&self, progress: &Progress) -> String {
        let text = |place: Option<&Place>| place.map(place_text).unwrap_or_default();
        let mut cursor = text(progress.place.as_ref());
        for (keyspace, place) in &progress.behind {
            let name = &self.shards[self.keyspaces[*keyspace][0]].name;
            cursor.push_str(&format!("~{name}:{}", text(place.as_ref())));
        }
        cursor
    }

    fn parse_cursor(&self, cursor: &str) -> Option<Progress> {
        let place = |text: &str| match text {
            "" => Some(None),
            text => parse_place(text).map(Some),
        };
        let mut parts = cursor.split('~');
        let mut progress = Progress { place: place(parts.next()?)?, behind: BTreeMap::new() };
        for part in parts {
            let (name, at) = part.split_once(':')?;
            let shard = self.shards.iter().position(|shard| *shard.name == *name)?;
            progress.behind.insert(self.keyspace_of(shard), place(at)?);
        }
        Some(progress)
    }

    /// The names of all shards of these keyspaces.
    pub fn names_of(&self, keyspaces: &BTreeSet<usize>) -> Vec<String> {
        let shards = keyspaces.iter().flat_map(|keyspace| &self.keyspaces[*keyspace]);
        shards.filter(|at| self.is_in_use(**at)).map(|shard| self.shards[*shard].name.to_string()).collect()
    }
}

/// Tasks of one keyspace behind a place.
struct Portion {
    looked_at: Vec<(Place, Option<Task>)>,
    is_end: bool,
}

struct Step {
    looked_at: Vec<(Place, usize, Option<Task>)>,
    is_last: bool,
}

fn is_before(a: &Place, b: &Place, newest_first: bool) -> bool {
    if newest_first { a > b } else { a < b }
}

fn place_text((ms, id): &Place) -> String {
    format!("{}-{id}", Time::from_millis(*ms).millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A keyspace that had been behind brought its last task twice, because the others were not moved along.
    #[test]
    fn what_catches_up_is_not_looked_at_again() {
        let at = |ms: i64| (ms, "id".to_owned());
        let mut progress = Progress { place: Some(at(5)), behind: BTreeMap::from([(1, Some(at(2)))]) };
        progress.pass(1, at(3), false);
        assert_eq!((progress.of(1), progress.of(0)), (Some(&at(3)), Some(&at(5))));
        progress.pass(1, at(7), false);
        assert!(progress.behind.is_empty());
        assert_eq!((progress.of(1), progress.of(0)), (Some(&at(7)), Some(&at(7))));
    }
}
