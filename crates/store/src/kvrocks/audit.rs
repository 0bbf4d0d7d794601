//! What operators did: a sorted set by time, of texts that begin with an id.

use super::connection::Command;
use super::reply::{found, list};
use super::store::Keeper;
use codeq_queue::audit::{EXAMINED, KEPT};
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

impl Keeper {
    /// Since when records are kept.
    fn audited_since(&self, now: Time) -> i64 {
        now.millis().saturating_sub(i64::try_from(self.rules.audit_retention.as_millis()).unwrap_or(i64::MAX))
    }

    pub async fn put_audit(self: Arc<Self>, entry: AuditEntry) -> Result<(), Failure> {
        self.enter().await?;
        let key = self.home().keys.of("audit");
        let at = entry.at.millis().to_string();
        self.home().read_one(Command::new("ZADD").arg(&*key).arg(at).arg(text_of(&entry))).await?;
        let over = format!("({}", self.audited_since(entry.at));
        self.home().read_one(Command::new("ZREMRANGEBYSCORE").arg(&*key).arg("-inf").arg(over)).await?;
        let most = format!("-{}", KEPT + 1);
        self.home().read_one(Command::new("ZREMRANGEBYRANK").arg(&*key).arg("0").arg(most)).await?;
        Ok(())
    }

    pub async fn audit(self: Arc<Self>, page: AuditPage) -> Result<Audited, Failure> {
        let now = self.enter().await?;
        let newest = page.cursor.map_or_else(|| "+inf".to_owned(), |(at, _)| at.millis().to_string());
        let oldest = self.audited_since(now).to_string();
        let command = Command::new("ZREVRANGEBYSCORE").arg(self.home().keys.of("audit")).arg(newest);
        let command = command.arg(oldest).arg("LIMIT").arg("0").arg((EXAMINED + 1).to_string());
        let texts = list(self.home().read_one(command).await?);
        let entries: Vec<AuditEntry> =
            texts.into_iter().filter_map(found).filter_map(|text| parse(&text)).collect();
        Ok(page.take(entries.iter().filter(|entry| page.cursor.is_none_or(|cursor| entry.place() < cursor))))
    }
}
