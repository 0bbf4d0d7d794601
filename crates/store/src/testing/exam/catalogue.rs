//! Topics and subscriptions: small things kept per tenant.

use super::bench::Bench;
use super::candidate::Open;
use codeq_queue::subscription::{DeliveryMode, NewSubscription, Subscription};
use codeq_queue::topic::{Policy, Topic, TopicPut};
use codeq_queue::{Refusal, limits};
use std::time::Duration;

pub fn policy(max_attempts: i64) -> Policy {
    Policy {
        priority_tiers: vec![0, 5, 9],
        max_attempts,
        dead_letter_topic: "dead".into(),
        retention_seconds: Some(60),
        max_consumers: None,
    }
}

pub fn subscription(bench: &Bench, ttl_seconds: i64) -> NewSubscription {
    NewSubscription {
        tenant: bench.tenant.clone(),
        callback_url: "https://example.org/hook".into(),
        event_types: vec!["Render".into(), "*".into()],
        mode: DeliveryMode::Group,
        group: Some("g".into()),
        ttl_seconds,
        min_interval: Duration::from_secs(3),
    }
}

pub async fn put(bench: &Bench, name: &str, policy: Policy) -> (Topic, TopicPut) {
    bench.ask("put_topic", bench.store().put_topic(bench.tenant.clone(), name.into(), policy)).await
}

pub async fn topic(bench: &Bench, name: &str) -> Option<Topic> {
    bench.ask("topic", bench.store().topic(bench.tenant.clone(), name.into())).await
}

async fn delete(bench: &Bench, name: &str) -> bool {
    bench.ask("delete_topic", bench.store().delete_topic(bench.tenant.clone(), name.into())).await
}

pub async fn subscribe(bench: &Bench, ttl_seconds: i64) -> Subscription {
    let answer = bench.ask("subscribe", bench.store().subscribe(subscription(bench, ttl_seconds))).await;
    answer.expect("the subscription is well formed")
}

pub async fn list(bench: &Bench) -> Vec<Subscription> {
    bench.ask("subscriptions", bench.store().subscriptions()).await
}

async fn renew(bench: &Bench, id: u128, ttl_seconds: i64) -> Result<Subscription, Refusal> {
    bench.ask("renew", bench.store().renew(bench.tenant.clone(), id, ttl_seconds)).await
}

pub async fn a_topic_is_put_read_and_deleted(open: Open) {
    let bench = Bench::new(&open);
    assert_eq!(topic(&bench, "video").await, None);
    assert!(!delete(&bench, "video").await);
    let (made, did) = put(&bench, "video", policy(3)).await;
    assert_eq!((made.version, did), (1, TopicPut::Created));
    assert_eq!((&*made.name, &made.policy, &made.tenant), ("video", &policy(3), &bench.tenant));
    assert_eq!((made.created_at, made.updated_at), (bench.now(), bench.now()));
    assert_eq!(topic(&bench, "video").await, Some(made));
    assert!(delete(&bench, "video").await);
    assert_eq!(topic(&bench, "video").await, None);
    let (again, did) = put(&bench, "video", policy(3)).await;
    assert_eq!((again.version, did), (1, TopicPut::Created));
}

pub async fn a_put_that_changes_nothing_counts_no_version(open: Open) {
    let bench = Bench::new(&open);
    let (made, _) = put(&bench, "video", policy(3)).await;
    bench.advance(1);
    assert_eq!(put(&bench, "video", policy(3)).await, (made.clone(), TopicPut::Same));
    let (changed, did) = put(&bench, "video", policy(4)).await;
    assert_eq!((changed.version, did), (2, TopicPut::Changed));
    assert_eq!((changed.created_at, changed.updated_at), (made.created_at, bench.now()));
    assert_eq!(topic(&bench, "video").await, Some(changed));
}

pub async fn topics_belong_to_one_tenant(open: Open) {
    let bench = Bench::new(&open);
    let umbrella = bench.tenant("umbrella");
    put(&bench, "video", policy(3)).await;
    assert_eq!(topic(&umbrella, "video").await, None);
    assert!(!delete(&umbrella, "video").await);
    assert_eq!(put(&umbrella, "video", policy(4)).await.1, TopicPut::Created);
    assert_eq!(topic(&bench, "video").await.map(|topic| topic.policy), Some(policy(3)));
}

pub async fn a_subscription_is_kept_as_asked(open: Open) {
    let bench = Bench::new(&open);
    let made = subscribe(&bench, 60).await;
    assert_eq!((made.created_at, made.expires_at), (bench.now(), bench.now().plus_seconds(60)));
    assert_eq!((&*made.callback_url, made.mode), ("https://example.org/hook", DeliveryMode::Group));
    let events: Vec<&str> = made.event_types.iter().map(|event| &**event).collect();
    assert_eq!(events, ["render", "*"]);
    assert_eq!((made.group.as_deref(), made.min_interval), (Some("g"), Duration::from_secs(3)));
    assert_eq!(list(&bench).await, [made]);
    let lasting = subscribe(&bench, 0).await;
    assert_eq!(lasting.expires_at, bench.now().plus_seconds(300), "five minutes unless asked otherwise");
}

pub async fn a_malformed_subscription_is_refused(open: Open) {
    let bench = Bench::new(&open);
    let bad = NewSubscription { group: None, ..subscription(&bench, 60) };
    let refused = bench.ask("subscribe", bench.store().subscribe(bad)).await;
    assert_eq!(refused, Err(Refusal::InvalidSubscription("groupId is required")));
    assert!(list(&bench).await.is_empty());
}

pub async fn a_tenant_has_a_bounded_number_of_subscriptions(open: Open) {
    let bench = Bench::new(&open);
    let first = subscribe(&bench, 10).await;
    for _ in 1..limits::SUBSCRIPTIONS {
        subscribe(&bench, 60).await;
    }
    let ask = || bench.store().subscribe(subscription(&bench, 60));
    let refused = bench.ask("subscribe", ask()).await;
    assert_eq!(refused, Err(Refusal::TooManySubscriptions(limits::SUBSCRIPTIONS)));
    assert_eq!(renew(&bench, first.id, 10).await.map(|renewed| renewed.id), Ok(first.id));
    subscribe(&bench.tenant("umbrella"), 60).await;
    bench.advance(11);
    assert!(bench.ask("subscribe", ask()).await.is_ok(), "one that has expired does not count");
}

pub async fn subscriptions_of_all_tenants_are_listed_in_creation_order(open: Open) {
    let bench = Bench::new(&open);
    let mut made = Vec::new();
    for tenant in ["acme", "umbrella", "acme", "initech"] {
        made.push(subscribe(&bench.tenant(tenant), 60).await);
    }
    bench.advance_ms(1);
    made.push(subscribe(&bench, 60).await);
    assert_eq!(list(&bench).await, made);
}

pub async fn an_expired_subscription_is_gone_and_cannot_be_renewed(open: Open) {
    let bench = Bench::new(&open);
    let short = subscribe(&bench, 10).await;
    let long = subscribe(&bench, 20).await;
    bench.advance_ms(9_999);
    assert_eq!(list(&bench).await, [short.clone(), long.clone()]);
    bench.advance_ms(1);
    assert_eq!(list(&bench).await, [long]);
    assert_eq!(renew(&bench, short.id, 60).await, Err(Refusal::SubscriptionNotFound));
    assert_eq!(bench.ask("expire", bench.store().expire_subscriptions()).await, 1);
    assert_eq!(bench.ask("expire", bench.store().expire_subscriptions()).await, 0);
    assert_eq!(renew(&bench, short.id, 60).await, Err(Refusal::SubscriptionNotFound));
}

pub async fn a_renewal_counts_from_now(open: Open) {
    let bench = Bench::new(&open);
    let made = subscribe(&bench, 10).await;
    bench.advance(9);
    let renewed = renew(&bench, made.id, 30).await.expect("a living subscription can be renewed");
    assert_eq!((renewed.created_at, renewed.expires_at), (made.created_at, bench.now().plus_seconds(30)));
    bench.advance(29);
    assert_eq!(list(&bench).await, [renewed]);
    bench.advance(1);
    assert!(list(&bench).await.is_empty());
}

pub async fn a_subscription_of_another_tenant_cannot_be_renewed(open: Open) {
    let bench = Bench::new(&open);
    let made = subscribe(&bench, 10).await;
    let refused = renew(&bench.tenant("umbrella"), made.id, 60).await;
    assert_eq!(refused, Err(Refusal::SubscriptionNotFound));
    assert_eq!(renew(&bench, made.id + 1, 60).await, Err(Refusal::SubscriptionNotFound));
    assert_eq!(list(&bench).await, [made]);
}
