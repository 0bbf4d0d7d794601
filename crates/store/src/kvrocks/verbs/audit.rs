//! What operators did: in each keyspace a sorted set by time, of texts that begin with an id. The script of a deed stores
//! its record.

use crate::kvrocks::context::shard::Shard;
use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{found, list};
use crate::kvrocks::redis::script::Call;
use crate::kvrocks::store::StoreContext;
use codeq_queue::audit::{EXAMINED, KEPT, Note};
use codeq_queue::{AuditEntry, AuditPage, Audited, Failure, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryText {
    at: i64,
    who: String,
    tenant: String,
    verb: String,
    target: String,
    count: Option<u64>,
    request_id: String,
}

fn text_of(entry: &AuditEntry) -> String {
    let text = EntryText {
        at: entry.at.millis(),
        who: entry.who.to_string(),
        tenant: entry.tenant.to_string(),
        verb: entry.verb.to_string(),
        target: entry.target.to_string(),
        count: entry.count,
        request_id: entry.request_id.to_string(),
    };
    let text = serde_json::to_string(&text).expect("texts and numbers can be written");
    format!("{:016x} {text}", entry.id)
}

fn parse(text: &[u8]) -> Option<AuditEntry> {
    let (id, text) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let text_of: EntryText = serde_json::from_str(text).ok()?;
    Some(AuditEntry {
        at: Time::from_millis(text_of.at),
        id: u64::from_str_radix(id, 16).ok()?,
        who: text_of.who.into(),
        tenant: text_of.tenant.into(),
        verb: text_of.verb.into(),
        target: text_of.target.into(),
        count: text_of.count,
        request_id: text_of.request_id.into(),
    })
}

impl StoreContext {
    /// Since when records are kept.
    fn audited_since(&self, now: Time) -> i64 {
        now.millis().saturating_sub(i64::try_from(self.rules.audit_retention.as_millis()).unwrap_or(i64::MAX))
    }

    /// A call that takes the record along of the operator who asks for it.
    pub fn noted(&self, shard: usize, call: Call) -> Call {
        let Some(note) = Note::open() else { return call };
        let (mut call, entry) = (call, note.entry());
        call.keys.push(self.shards[shard].keys.of("audit"));
        let call = call.number(entry.at.millis()).arg(text_of(&entry));
        let call = call.arg(format!("({}", self.audited_since(entry.at))).arg(format!("-{}", KEPT + 1));
        Call { note: Some(note), ..call }
    }

    pub async fn put_audit(self: Arc<Self>, entry: AuditEntry) -> Result<(), Failure> {
        self.enter().await?;
        let at = entry.at.millis().to_string();
        let (mut place, mut before) = (self.home(), None);
        for shards in &self.keyspaces {
            let shard = &self.shards[shards[0]];
            if shard.server.gate.away().is_some() {
                continue;
            }
            let of_instant = Command::new("ZRANGEBYSCORE").arg(shard.keys.of("audit")).arg(&*at).arg(&*at);
            let texts = list(shard.read_one(of_instant).await?).into_iter().filter_map(found);
            let is_it = |text: &Vec<u8>| parse(text).is_some_and(|known| known.place() == entry.place());
            if let Some(text) = texts.into_iter().find(is_it) {
                (place, before) = (shard, Some(text));
            }
        }
        let key = place.keys.of("audit");
        let over = format!("({}", self.audited_since(entry.at));
        let most = format!("-{}", KEPT + 1);
        let text = text_of(&entry);
        let before = before.filter(|before| **before != *text.as_bytes());
        let gone = before.map(|before| Command::new("ZREM").arg(&*key).arg(before));
        let commands = [
            Command::new("ZADD").arg(&*key).arg(at).arg(text),
            Command::new("ZREMRANGEBYSCORE").arg(&*key).arg("-inf").arg(over),
            Command::new("ZREMRANGEBYRANK").arg(&*key).arg("0").arg(most),
        ];
        let commands: Vec<Command> = commands.into_iter().chain(gone).collect();
        place.read(&commands).await.map(|_| ())
    }

    /// What a server holds that is away is not told, as long as it is.
    pub async fn audit(self: Arc<Self>, page: AuditPage) -> Result<Audited, Failure> {
        let now = self.enter().await?;
        let mut pages = Vec::with_capacity(self.keyspaces.len());
        for shards in &self.keyspaces {
            let shard = &self.shards[shards[0]];
            match self.audit_on(shard, &page, now).await {
                Err(_) if shard.server.gate.away().is_some() => {}
                audited => pages.push(audited?),
            }
        }
        Ok(Audited::merged(pages, page.limit))
    }

    async fn audit_on(&self, shard: &Shard, page: &AuditPage, now: Time) -> Result<Audited, Failure> {
        let newest = page.cursor.map_or_else(|| "+inf".to_owned(), |(at, _)| at.millis().to_string());
        let oldest = self.audited_since(now).to_string();
        let command = Command::new("ZREVRANGEBYSCORE").arg(shard.keys.of("audit")).arg(newest);
        let command = command.arg(oldest).arg("LIMIT").arg("0").arg((EXAMINED + 1).to_string());
        let texts = list(shard.read_one(command).await?);
        let entries: Vec<AuditEntry> =
            texts.into_iter().filter_map(found).filter_map(|text| parse(&text)).collect();
        Ok(page.take(entries.iter().filter(|entry| page.cursor.is_none_or(|cursor| entry.place() < cursor))))
    }
}
