//! Subscriptions: records on the default shard that expire.

use crate::kvrocks::format::record::instant;
use crate::kvrocks::redis::connection::Command;
use crate::kvrocks::redis::reply::{found, list};
use crate::kvrocks::redis::script::{Call, Script};
use crate::kvrocks::store::StoreContext;
use codeq_queue::subscription::{DeliveryMode, NewSubscription, Subscription, check_count, ttl};
use codeq_queue::{Failure, QueueKey, Refusal, Time, limits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Attempts to change what others change too.
const TRIES: usize = 16;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionText {
    id: String,
    #[serde(default)]
    tenant_id: String,
    callback_url: String,
    #[serde(default)]
    event_types: Vec<String>,
    #[serde(default)]
    delivery_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group_id: Option<String>,
    #[serde(default)]
    min_interval_seconds: u64,
    expires_at: String,
    #[serde(default)]
    created_at: String,
}

fn text_of(subscription: &Subscription) -> String {
    let text = SubscriptionText {
        id: format!("{:032x}", subscription.id),
        tenant_id: subscription.tenant.to_string(),
        callback_url: subscription.callback_url.to_string(),
        event_types: subscription.event_types.iter().map(|event| event.to_string()).collect(),
        delivery_mode: subscription.mode.word().into(),
        group_id: subscription.group.as_deref().map(Into::into),
        min_interval_seconds: subscription.min_interval.as_secs(),
        expires_at: subscription.expires_at.to_utc(),
        created_at: subscription.created_at.to_utc(),
    };
    serde_json::to_string(&text).expect("texts and numbers can be written")
}

/// `None` for those of the original server, which had no tenant: they lapse.
fn parse(text: &[u8]) -> Option<Subscription> {
    let text: SubscriptionText = serde_json::from_slice(text).ok()?;
    if text.tenant_id.is_empty() {
        return None;
    }
    Some(Subscription {
        id: u128::from_str_radix(&text.id, 16).ok()?,
        tenant: text.tenant_id.into(),
        callback_url: text.callback_url.into(),
        event_types: text.event_types.into_iter().map(Into::into).collect(),
        mode: DeliveryMode::parse(&text.delivery_mode).unwrap_or(DeliveryMode::Fanout),
        group: text.group_id.map(Into::into),
        min_interval: Duration::from_secs(text.min_interval_seconds),
        created_at: instant(&text.created_at).unwrap_or(Time::ZERO),
        expires_at: instant(&text.expires_at)?,
    })
}

impl StoreContext {
    pub async fn subscribe(
        self: Arc<Self>,
        new: NewSubscription,
    ) -> Result<Result<Subscription, Refusal>, Failure> {
        let now = self.enter().await?;
        let subscription = match new.accept(self.subscription_id(), now) {
            Ok(subscription) => subscription,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match &*self.put_subscription(&subscription, Vec::new(), now).await? {
            "OK" => Ok(Ok(subscription)),
            "FULL" => Ok(Err(check_count(limits::SUBSCRIPTIONS).expect_err("as many as there may be"))),
            _ => Err(Failure::Internal("a new subscription has a known id".into())),
        }
    }

    /// Grows with every subscription of this process, so that ids tell the order of creation.
    fn subscription_id(&self) -> u128 {
        (u128::from(self.now.numbers(1)) << 64) | u128::from(rand::random::<u64>())
    }

    async fn put_subscription(
        &self,
        subscription: &Subscription,
        read: Vec<u8>,
        now: Time,
    ) -> Result<String, Failure> {
        let mut names = vec![self.home().keys.of("subs")];
        names.extend(self.index_keys(subscription));
        let call = Call::new(Script::SubscriptionPut, names)
            .arg(format!("{:032x}", subscription.id))
            .arg(read)
            .arg(text_of(subscription))
            .arg(crate::kvrocks::verbs::create::seconds(subscription.expires_at))
            .arg(crate::kvrocks::verbs::create::seconds(now))
            .arg(limits::SUBSCRIPTIONS.to_string());
        self.change(call).await
    }

    /// By event type, and last by tenant.
    fn index_keys(&self, subscription: &Subscription) -> Vec<String> {
        let keys = &self.home().keys;
        let events = subscription.event_types.iter();
        events
            .map(|event| keys.subscriptions_of(&QueueKey::new(&subscription.tenant, event)))
            .chain([keys.subscriptions_of_tenant(&subscription.tenant)])
            .collect()
    }

    pub async fn renew(
        self: Arc<Self>,
        tenant: Arc<str>,
        id: u128,
        ttl_seconds: i64,
    ) -> Result<Result<Subscription, Refusal>, Failure> {
        let now = self.enter().await?;
        for _ in 0..TRIES {
            let get = Command::new("HGET").arg(self.home().keys.of("subs")).arg(format!("{id:032x}"));
            let text = found(self.home().read_one(get).await?).unwrap_or_default();
            let living = parse(&text).filter(|found| found.tenant == tenant && found.expires_at > now);
            let Some(mut subscription) = living else { return Ok(Err(Refusal::SubscriptionNotFound)) };
            subscription.expires_at = now.plus(ttl(ttl_seconds));
            if self.put_subscription(&subscription, text, now).await? == "OK" {
                return Ok(Ok(subscription));
            }
        }
        Err(Failure::unavailable("the subscription is being changed by others"))
    }

    async fn all_subscriptions(&self) -> Result<Vec<(Subscription, Vec<u8>)>, Failure> {
        let texts = list(self.home().read_one(Command::new("HVALS").arg(self.home().keys.of("subs"))).await?);
        let read = |text: Vec<u8>| Some((parse(&text)?, text));
        let mut all: Vec<_> = texts.into_iter().filter_map(found).filter_map(read).collect();
        all.sort_by_key(|(subscription, _)| (subscription.created_at, subscription.id));
        Ok(all)
    }

    pub async fn subscriptions(self: Arc<Self>) -> Result<Vec<Subscription>, Failure> {
        let now = self.enter().await?;
        let all = self.all_subscriptions().await?.into_iter().map(|(subscription, _)| subscription);
        Ok(all.filter(|subscription| subscription.expires_at > now).collect())
    }

    pub async fn expire_subscriptions(self: Arc<Self>) -> Result<u64, Failure> {
        let now = self.enter().await?;
        let mut removed = 0;
        for (subscription, text) in self.all_subscriptions().await? {
            if subscription.expires_at > now {
                continue;
            }
            let id = format!("{:032x}", subscription.id);
            let keys = &self.home().keys;
            let mut names = vec![keys.of("subs"), keys.last_told(subscription.id)];
            names.extend(self.index_keys(&subscription));
            let call = Call::new(Script::SubscriptionRemove, names).arg(id).arg(text);
            removed += u64::from(self.compare_and_set(call).await?);
        }
        Ok(removed)
    }
}
