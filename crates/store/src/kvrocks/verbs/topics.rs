//! Topics: small records on the default shard, replaced only if they are still what was read.

use crate::kvrocks::format::record::instant;
use crate::kvrocks::redis::connection::{Command, Reply};
use crate::kvrocks::redis::reply::{Answered, found};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::topic::{self, Policy, Topic, TopicPut};
use codeq_queue::{Failure, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Attempts to replace what others replace too.
const TRIES: usize = 64;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyText {
    priority_tiers: Vec<i64>,
    max_attempts: i64,
    #[serde(default)]
    dead_letter_topic_ref: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retention_seconds: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_consumers: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicText {
    topic_id: String,
    tenant_id: String,
    topic_name: String,
    policy: PolicyText,
    version: u64,
    created_at: String,
    updated_at: String,
}

fn text_of(topic: &Topic) -> String {
    let policy = &topic.policy;
    let text = TopicText {
        topic_id: topic::id(&topic.tenant, &topic.name),
        tenant_id: topic.tenant.to_string(),
        topic_name: topic.name.to_string(),
        policy: PolicyText {
            priority_tiers: policy.priority_tiers.clone(),
            max_attempts: policy.max_attempts,
            dead_letter_topic_ref: policy.dead_letter_topic.clone(),
            retention_seconds: policy.retention_seconds,
            max_consumers: policy.max_consumers,
        },
        version: topic.version,
        created_at: topic.created_at.to_utc(),
        updated_at: topic.updated_at.to_utc(),
    };
    serde_json::to_string(&text).expect("texts and numbers can be written")
}

fn parse(text: &[u8]) -> Option<Topic> {
    let text: TopicText = serde_json::from_slice(text).ok()?;
    Some(Topic {
        tenant: text.tenant_id.into(),
        name: text.topic_name.into(),
        policy: Policy {
            priority_tiers: text.policy.priority_tiers,
            max_attempts: text.policy.max_attempts,
            dead_letter_topic: text.policy.dead_letter_topic_ref,
            retention_seconds: text.policy.retention_seconds,
            max_consumers: text.policy.max_consumers,
        },
        version: text.version,
        created_at: instant(&text.created_at).unwrap_or(Time::ZERO),
        updated_at: instant(&text.updated_at).unwrap_or(Time::ZERO),
    })
}

impl StoreContext {
    pub async fn put_topic(
        self: Arc<Self>,
        tenant: Arc<str>,
        name: String,
        policy: Policy,
    ) -> Result<(Topic, TopicPut), Failure> {
        let now = self.enter().await?;
        for _ in 0..TRIES {
            let read = self.topic_text(&tenant, &name).await?;
            let current = read.as_deref().and_then(parse);
            let (topic, did) = topic::put(current.as_ref(), &tenant, &name, policy.clone(), now);
            if did == TopicPut::Same || self.replace_topic(&tenant, &name, read, &text_of(&topic)).await? {
                return Ok((topic, did));
            }
        }
        Err(Failure::unavailable("the topic is being changed by others"))
    }

    pub async fn topic(self: Arc<Self>, tenant: Arc<str>, name: String) -> Result<Option<Topic>, Failure> {
        self.enter().await?;
        Ok(self.topic_text(&tenant, &name).await?.as_deref().and_then(parse))
    }

    pub async fn delete_topic(self: Arc<Self>, tenant: Arc<str>, name: String) -> Result<bool, Failure> {
        self.enter().await?;
        for _ in 0..TRIES {
            let read = self.topic_text(&tenant, &name).await?;
            if read.is_none() {
                return Ok(false);
            }
            if self.replace_topic(&tenant, &name, read, "").await? {
                return Ok(true);
            }
        }
        Err(Failure::unavailable("the topic is being changed by others"))
    }

    fn topic_key(&self, tenant: &str, name: &str) -> String {
        self.home().keys.of(&format!("admin:topic:{}", topic::id(tenant, name)))
    }

    async fn topic_text(&self, tenant: &str, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let get = Command::new("GET").arg(self.topic_key(tenant, name));
        Ok(found(self.home().read_one(get).await?))
    }

    /// False if it is not what was read any more.
    async fn replace_topic(
        &self,
        tenant: &str,
        name: &str,
        read: Option<Vec<u8>>,
        text: &str,
    ) -> Result<bool, Failure> {
        let keys = vec![self.topic_key(tenant, name), self.home().keys.of("admin:topics")];
        let call = Call::new(Script::TopicPut, keys)
            .arg(read.unwrap_or_default())
            .arg(text)
            .arg(topic::id(tenant, name));
        self.compare_and_set(call).await
    }

    /// Whether a script on the default shard found what it compares with.
    pub async fn compare_and_set(&self, call: Call) -> Result<bool, Failure> {
        Ok(self.change(call).await? == "OK")
    }

    /// The word that a script answers with.
    pub async fn change(&self, call: Call) -> Result<String, Failure> {
        let settle = |replies: Vec<Reply>| {
            let answer = Answered::of(replies.into_iter().next().unwrap_or(Reply::Nil))?;
            Ok((answer.word.to_string(), Vec::new()))
        };
        let call = self.noted(self.default_shard, call);
        self.home().writer.run(vec![call], settle).await
    }
}
