//! Subscriptions to availability notifications.

use super::{Broker, Error};
use crate::auth::{Caller, EventTypes};
use codeq_queue::subscription::{DeliveryMode, NewSubscription, Subscription};
use codeq_queue::{Failure, Refusal};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct SubscribeRequest {
    pub callback_url: String,
    pub event_types: Option<Vec<String>>,
    pub delivery_mode: Option<String>,
    pub group_id: Option<String>,
    pub ttl_seconds: i64,
    pub min_interval_seconds: Option<i64>,
}

impl Broker {
    pub async fn subscribe(&self, caller: &Caller, request: SubscribeRequest) -> Result<Subscription, Error> {
        let min_interval = match request.min_interval_seconds.map(u64::try_from) {
            None => self.settings.subscription_min_interval,
            Some(Ok(seconds)) => Duration::from_secs(seconds),
            Some(Err(_)) => {
                let text = "invalid 'minIntervalSeconds' (must be >= 0)";
                return Err(Refusal::InvalidSubscription(text).into());
            }
        };
        let subscription = NewSubscription {
            tenant: caller.tenant.clone(),
            event_types: event_types(&caller.event_types, request.event_types)?,
            mode: mode(caller, request.delivery_mode.as_deref())?,
            group: group(caller, request.group_id)?,
            callback_url: request.callback_url,
            ttl_seconds: request.ttl_seconds,
            min_interval,
        };
        let made = self.store.subscribe(subscription).await??;
        self.subscriptions_changed();
        Ok(made)
    }

    /// Every subscription that has not expired.
    pub async fn subscriptions(&self) -> Result<Vec<Subscription>, Failure> {
        self.store.subscriptions().await
    }

    /// Moves the end of a living subscription to `ttl_seconds` from now.
    pub async fn renew(&self, tenant: Arc<str>, id: &str, ttl_seconds: i64) -> Result<Subscription, Error> {
        let id = codeq_queue::TaskId::parse(id).ok_or(Refusal::SubscriptionNotFound)?;
        let id = u128::from_be_bytes(*id.as_bytes());
        let renewed = self.store.renew(tenant, id, ttl_seconds).await??;
        self.subscriptions_changed();
        Ok(renewed)
    }
}

fn event_types(token: &EventTypes, asked: Option<Vec<String>>) -> Result<Vec<String>, Refusal> {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
        return Ok(match token {
            EventTypes::All => vec!["*".to_owned()],
            EventTypes::These(own) => own.iter().map(|event| event.to_string()).collect(),
        });
    };
    let is_allowed = |event: &String| match event.trim() {
        "*" => *token == EventTypes::All,
        event => token.is_allowed(event),
    };
    match asked.iter().all(is_allowed) {
        true => Ok(asked.iter().map(|event| event.trim().to_owned()).collect()),
        false => Err(Refusal::EventTypeNotAllowed),
    }
}

fn mode(caller: &Caller, asked: Option<&str>) -> Result<DeliveryMode, Refusal> {
    match asked.map(str::trim).filter(|mode| !mode.is_empty()) {
        Some(mode) => DeliveryMode::parse(mode),
        None if caller.worker_group.is_some() => Ok(DeliveryMode::Group),
        None => Ok(DeliveryMode::Fanout),
    }
}

fn group(caller: &Caller, asked: Option<String>) -> Result<Option<String>, Refusal> {
    let asked = asked.filter(|group| !group.trim().is_empty());
    match (&caller.worker_group, asked) {
        (Some(own), Some(asked)) if **own != *asked => Err(Refusal::GroupNotAllowed),
        (Some(own), _) => Ok(Some(own.to_string())),
        (None, asked) => Ok(asked),
    }
}
