//! Everything a store shows, held against the model; and what is allowed to differ.

use super::choice::TENANTS;
use super::driver::{Compared, Driver, same, unnumbered, unnumbered_result};
use super::state::{Entry, Model};
use codeq_queue::store::Wait;
use codeq_queue::{Attempt, Delivery, QueueKey, QueueStats, Time};
use std::collections::{BTreeMap, BTreeSet};

impl Driver {
    pub(super) async fn compare_everything(&mut self) -> Compared {
        self.doing = "compare everything".into();
        let found = self.ask("get", self.store().get(self.known.clone())).await?;
        for (named, found) in self.known.iter().zip(found) {
            let expected = self.model.get(named).map(unnumbered);
            same(&format!("task {}", named.id), &found.map(unnumbered), &expected)?;
            // What is gone is asked for once more only now and then; there is much of it.
            if expected.is_none() && named.id.as_bytes()[0] % 16 != 0 {
                continue;
            }
            let found = self.ask("result", self.store().result(named.clone(), Wait::No)).await?;
            let expected = unnumbered_result(self.model.result(named));
            same(&format!("result of {}", named.id), &unnumbered_result(found), &expected)?;
            let found = self.ask("attempts", self.store().attempts(named.clone())).await?;
            same_history(found, self.model.attempts(named))?;
        }
        for tenant in TENANTS {
            self.compare_queues(tenant).await?;
            self.compare_callbacks(tenant).await?;
        }
        Ok(())
    }

    pub(super) async fn compare_queues(&mut self, tenant: &str) -> Compared {
        self.doing = format!("stats of every queue of {tenant}");
        let found = self.ask("queues", self.store().queues(Some(tenant.into()))).await?;
        let mut listed = BTreeSet::new();
        for stats in &found {
            let key = QueueKey::new(&stats.tenant, &stats.command);
            same_stats(&self.model, stats, &self.model.stats(&key))?;
            same("a queue is listed once", &listed.insert(key), &true)?;
        }
        for key in self.model.keys(Some(tenant)) {
            let stats = self.model.stats(&key);
            let is_empty = stats.ready_total() + stats.delayed + stats.in_progress + stats.dead == 0;
            if !is_empty && !listed.contains(&key) {
                return Err(format!("{key:?} is not listed: {stats:?}"));
            }
        }
        Ok(())
    }

    /// The driver takes no callback, so every one is still pending.
    async fn compare_callbacks(&mut self, tenant: &str) -> Compared {
        let found = self
            .ask("deliveries", self.store().deliveries(Some(tenant.into()), false, 0, usize::MAX))
            .await?;
        same("callbacks come in the order of their ids", &found.is_sorted_by_key(|d| d.id), &true)?;
        let expected = self.model.callbacks.iter().filter(|delivery| *delivery.tenant == *tenant);
        let essence = |d: &Delivery| (d.task_id, d.body.to_string(), d.url.to_string(), d.attempts);
        let mut found: Vec<_> = found.iter().map(essence).collect();
        let mut expected: Vec<_> = expected.map(essence).collect();
        found.sort();
        expected.sort();
        same("callbacks", &found, &expected)
    }
}

/// Spelling and the last claim may be forgotten with the last task of a queue; they are not compared. The
/// oldest ready task may be sought among the heads of the priorities, or of those of each lane.
pub fn same_stats(model: &Model, found: &QueueStats, expected: &QueueStats) -> Compared {
    let counts = |s: &QueueStats| (s.ready, s.delayed, s.in_progress, s.dead, s.is_paused, s.tenant.clone());
    let what = format!("stats of {} {}", expected.tenant, expected.command);
    same(&what, &counts(found), &counts(expected))?;
    same("the command", &found.command.eq_ignore_ascii_case(&expected.command), &true)?;
    let key = QueueKey::new(&expected.tenant, &expected.command);
    let by_priority = oldest_head(model, &key, |_| "");
    let by_lane = oldest_head(model, &key, |entry| entry.task.body.lane().unwrap_or(""));
    match [by_priority, by_lane].contains(&found.oldest_ready) || is_in_lane(model, &key, found.oldest_ready)
    {
        true => Ok(()),
        false => same(&format!("{what}: oldest"), &found.oldest_ready, &expected.oldest_ready),
    }
}

/// Where there are lanes, a store may look at some of them only.
fn is_in_lane(model: &Model, key: &QueueKey, created_at: Option<Time>) -> bool {
    let ready = model.entries.iter().filter(|entry| entry.seq().is_some() && entry.key() == *key);
    let mut laned = ready.filter(|entry| entry.task.body.lane().is_some());
    laned.any(|entry| Some(entry.task.created_at) == created_at)
}

fn oldest_head<'a>(model: &'a Model, key: &QueueKey, lane: fn(&'a Entry) -> &'a str) -> Option<Time> {
    let mut heads: BTreeMap<(&str, u8), &Entry> = BTreeMap::new();
    for entry in model.entries.iter().filter(|entry| entry.seq().is_some() && entry.key() == *key) {
        let head = heads.entry((lane(entry), entry.task.priority)).or_insert(entry);
        if entry.seq() < head.seq() {
            *head = entry;
        }
    }
    heads.values().map(|entry| entry.task.created_at).min()
}

/// The text of an attempt's end is compared where a worker gave one; elsewhere a store may say what it likes.
pub fn same_history(found: Option<Vec<Attempt>>, expected: Option<Vec<Attempt>>) -> Compared {
    let mut found = found;
    let pairs = found.iter_mut().flatten().zip(expected.iter().flatten());
    for (found, expected) in pairs {
        let (Some(found), Some(expected)) = (&mut found.end, &expected.end) else { continue };
        if expected.error.is_none() {
            found.error = None;
        }
    }
    same("attempts", &found, &expected)
}
