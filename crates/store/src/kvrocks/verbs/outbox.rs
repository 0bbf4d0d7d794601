//! Result callbacks that wait to be delivered.

use crate::kvrocks::format::outcome::parse_delivery;
use crate::kvrocks::format::record::tenant_text;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, found, list, string, text};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::delivery::DeliveryReport;
use codeq_queue::{Delivery, DeliveryState, Failure, Refusal, Time};
use std::sync::Arc;
use std::time::Duration;

/// Callbacks that are read together.
const TOGETHER: usize = 50;
/// No more are taken together once they have so many bytes.
const TAKEN_BYTES: usize = 8 << 20;

impl StoreContext {
    pub async fn take_deliveries(
        self: Arc<Self>,
        limit: usize,
        hold: Duration,
    ) -> Result<Vec<Delivery>, Failure> {
        let now = self.enter().await?;
        let due = now.plus(hold);
        let mut taken = Vec::new();
        for at in self.keyspaces.iter().map(|shards| &self.shards[shards[0]]) {
            let left = limit - taken.len();
            if left == 0 {
                break;
            }
            let call = Call::new(Script::OutboxTake, vec![at.keys.of("outbox"), at.keys.of("outbox:due")])
                .number(now.millis())
                .number(due.millis())
                .number(left)
                .number(TAKEN_BYTES);
            let settle = move |replies: Vec<Reply>| {
                let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
                let state = DeliveryState::Pending { due };
                let found = answer.list().into_iter().filter_map(|reply| parse_delivery(&text(reply), state));
                let found = found.map(Delivery::light);
                Ok((found.collect::<Vec<_>>(), Vec::new()))
            };
            match at.writer.run(vec![call], settle).await {
                Err(_) if at.server.gate.away().is_some() && self.keyspaces.len() > 1 => {}
                more => taken.extend(more?),
            }
        }
        Ok(taken)
    }

    pub async fn delivery_body(self: Arc<Self>, id: u128) -> Result<Option<Arc<str>>, Failure> {
        self.enter().await?;
        let mut away = None;
        for at in self.keyspaces.iter().map(|shards| &self.shards[shards[0]]) {
            let read = Command::new("HGET").arg(at.keys.of("outbox")).arg(format!("{id:032x}"));
            match at.read_one(read).await {
                Ok(reply) => {
                    let state = DeliveryState::Pending { due: Time::ZERO };
                    if let Some(delivery) = found(reply).and_then(|text| parse_delivery(&text, state)) {
                        return Ok(Some(delivery.body));
                    }
                }
                Err(failure) => away = Some(failure),
            }
        }
        away.map_or(Ok(None), Err)
    }

    pub async fn report_delivery(
        self: Arc<Self>,
        id: u128,
        report: DeliveryReport,
    ) -> Result<Result<(), Refusal>, Failure> {
        let now = self.enter().await?;
        for shard in self.keyspaces.iter().map(|shards| shards[0]) {
            let call = self.delivery_call(shard, id, &report, now);
            if self.move_delivery(shard, call).await?.is_some() {
                return Ok(Ok(()));
            }
        }
        Ok(Err(Refusal::DeliveryNotFound))
    }

    fn delivery_call(&self, shard: usize, id: u128, report: &DeliveryReport, now: Time) -> Call {
        let keys = &self.shards[shard].keys;
        let (outbox, due, failed) = (keys.of("outbox"), keys.of("outbox:due"), keys.of("outbox:failed"));
        let id = format!("{id:032x}");
        match report {
            DeliveryReport::Delivered => Call::new(Script::OutboxDone, vec![outbox, due]).arg(id),
            DeliveryReport::Retry { due: at, error } => {
                let call = Call::new(Script::OutboxMove, vec![outbox, due.clone(), due]).arg(id);
                call.number(at.millis()).arg(error.as_str()).arg("count").arg("")
            }
            DeliveryReport::Failed { error } => {
                let call = Call::new(Script::OutboxMove, vec![outbox, due, failed]).arg(id);
                call.number(now.millis()).arg(error.as_str()).arg("count").arg("")
            }
        }
    }

    /// The text of the callback afterwards; `None` if there is none on this shard.
    async fn move_delivery(&self, shard: usize, call: Call) -> Result<Option<Vec<u8>>, Failure> {
        let settle = |replies: Vec<Reply>| {
            let mut answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok(((answer.word == "OK").then(|| answer.text()), Vec::new()))
        };
        self.shards[shard].writer.run(vec![call], settle).await
    }

    pub async fn redeliver(
        self: Arc<Self>,
        tenant: Arc<str>,
        id: u128,
    ) -> Result<Result<Delivery, Refusal>, Failure> {
        let now = self.enter().await?;
        for shard in self.keyspaces.iter().map(|shards| shards[0]) {
            let keys = &self.shards[shard].keys;
            let names = vec![keys.of("outbox"), keys.of("outbox:failed"), keys.of("outbox:due")];
            let call = Call::new(Script::OutboxMove, names)
                .arg(format!("{id:032x}"))
                .number(now.millis())
                .arg("")
                .arg("anew")
                .arg(tenant_text(&tenant));
            let call = self.noted(shard, call);
            if let Some(text) = self.move_delivery(shard, call).await? {
                let delivery = parse_delivery(&text, DeliveryState::Pending { due: now });
                return Ok(delivery.ok_or(Refusal::DeliveryNotFound));
            }
        }
        Ok(Err(Refusal::DeliveryNotFound))
    }

    pub async fn deliveries(
        self: Arc<Self>,
        tenant: Option<Arc<str>>,
        failed: bool,
        after: u128,
        limit: usize,
    ) -> Result<Vec<Delivery>, Failure> {
        self.enter().await?;
        let mut all = Vec::new();
        for shard in self.keyspaces.iter().map(|shards| shards[0]) {
            match self.deliveries_on(shard, tenant.as_deref(), failed, after, limit).await {
                Err(_) if self.shards[shard].server.gate.away().is_some() && self.keyspaces.len() > 1 => {}
                found => all.extend(found?),
            }
        }
        all.sort_by_key(|delivery: &Delivery| delivery.id);
        all.dedup_by_key(|delivery| delivery.id);
        all.truncate(limit);
        Ok(all)
    }

    async fn deliveries_on(
        &self,
        shard: usize,
        tenant: Option<&str>,
        failed: bool,
        after: u128,
        limit: usize,
    ) -> Result<Vec<Delivery>, Failure> {
        let at = &self.shards[shard];
        let set = at.keys.of(if failed { "outbox:failed" } else { "outbox:due" });
        let range = Command::new("ZRANGE").arg(set).args(["0", "-1", "WITHSCORES"]);
        let pairs = list(at.read_one(range).await?);
        let mut ids: Vec<(String, Time)> = pairs
            .chunks_exact(2)
            .map(|pair| {
                let score = string(pair[1].clone()).parse().unwrap_or(0.0);
                (string(pair[0].clone()), crate::kvrocks::verbs::read::millis(score))
            })
            .filter(|(id, _)| u128::from_str_radix(id, 16).is_ok_and(|id| id > after))
            .collect();
        ids.sort();
        let mut found_here = Vec::new();
        for part in ids.chunks(TOGETHER) {
            if found_here.len() >= limit {
                break;
            }
            let names = part.iter().map(|(id, _)| id.as_str());
            let texts = at.read_one(Command::new("HMGET").arg(at.keys.of("outbox")).args(names)).await?;
            let read = list(texts).into_iter().zip(part).filter_map(|(text, (_, score))| {
                let state = match failed {
                    true => DeliveryState::Failed { at: *score },
                    false => DeliveryState::Pending { due: *score },
                };
                parse_delivery(&found(text)?, state).map(Delivery::light)
            });
            found_here.extend(read.filter(|d| tenant.is_none_or(|tenant| *d.tenant == *tenant)));
        }
        Ok(found_here)
    }
}
