//! Rows of topics and subscriptions.

use crate::local::format::codec::{Corrupt, Reader, Writer};
use crate::local::format::records::{SUBSCRIPTION, TOPIC};
use codeq_queue::subscription::{DeliveryMode, Subscription};
use codeq_queue::topic::{Policy, Topic};
use std::sync::Arc;
use std::time::Duration;

pub fn topic_key(tenant: &str, name: &str) -> Vec<u8> {
    let mut key = vec![TOPIC];
    key.extend_from_slice(tenant.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

pub fn read_topic_key(key: &[u8]) -> Option<(Arc<str>, Box<str>)> {
    let (tenant, name) = std::str::from_utf8(key.get(1..)?).ok()?.split_once('\0')?;
    Some((tenant.into(), name.into()))
}

pub fn subscription_key(id: u128) -> Vec<u8> {
    let mut key = vec![SUBSCRIPTION];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

fn write_signed(w: &mut Writer, value: i64) {
    w.fixed(value as u64);
}

fn read_signed(r: &mut Reader) -> Result<i64, Corrupt> {
    Ok(r.fixed()? as i64)
}

pub fn write_topic(topic: &Topic) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.text(&topic.tenant);
    w.text(&topic.name);
    w.number(topic.version);
    w.time(topic.created_at);
    w.time(topic.updated_at);
    let policy = &topic.policy;
    w.number(policy.priority_tiers.len() as u64);
    for tier in &policy.priority_tiers {
        write_signed(w, *tier);
    }
    write_signed(w, policy.max_attempts);
    w.text(&policy.dead_letter_topic);
    w.option(policy.retention_seconds.as_ref(), |w, seconds| write_signed(w, *seconds));
    w.option(policy.max_consumers.as_ref(), |w, count| write_signed(w, *count));
    bytes
}

pub fn read_topic(bytes: &[u8]) -> Result<Topic, Corrupt> {
    let r = &mut Reader(bytes);
    let (tenant, name) = (r.text()?.into(), r.text()?.into());
    let version = r.number()?;
    let (created_at, updated_at) = (r.time()?, r.time()?);
    let count = r.small()?;
    let priority_tiers = (0..count).map(|_| read_signed(r)).collect::<Result<_, _>>()?;
    let policy = Policy {
        priority_tiers,
        max_attempts: read_signed(r)?,
        dead_letter_topic: r.text()?.to_owned(),
        retention_seconds: r.option(read_signed)?,
        max_consumers: r.option(read_signed)?,
    };
    Ok(Topic { tenant, name, policy, version, created_at, updated_at })
}

/// `order` grows with every subscription made.
pub fn write_subscription(order: u64, subscription: &Subscription) -> Vec<u8> {
    let mut bytes = Vec::new();
    let w = &mut Writer(&mut bytes);
    w.number(order);
    w.wide(subscription.id);
    w.text(&subscription.tenant);
    w.text(&subscription.callback_url);
    w.number(subscription.event_types.len() as u64);
    for event_type in &subscription.event_types {
        w.text(event_type);
    }
    w.text(subscription.mode.word());
    w.optional_text(subscription.group.as_deref());
    w.number(u64::try_from(subscription.min_interval.as_millis()).unwrap_or(u64::MAX));
    w.time(subscription.created_at);
    w.time(subscription.expires_at);
    bytes
}

pub fn read_subscription(bytes: &[u8]) -> Result<(u64, Subscription), Corrupt> {
    let r = &mut Reader(bytes);
    let order = r.number()?;
    let id = r.wide()?;
    let (tenant, callback_url) = (r.text()?.into(), r.text()?.into());
    let count = r.small()?;
    let event_types = (0..count).map(|_| Ok(r.text()?.into())).collect::<Result<_, Corrupt>>()?;
    let subscription = Subscription {
        id,
        tenant,
        callback_url,
        event_types,
        mode: DeliveryMode::parse(r.text()?).map_err(|_| Corrupt("unknown delivery mode"))?,
        group: r.optional_boxed()?,
        min_interval: Duration::from_millis(r.number()?),
        created_at: r.time()?,
        expires_at: r.time()?,
    };
    Ok((order, subscription))
}
