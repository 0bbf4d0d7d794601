use super::*;
use std::time::Duration;

const MINUTE: i64 = 60_000;

fn subscription(id: u128, mode: DeliveryMode, group: Option<&str>, interval: u64) -> Subscription {
    Subscription {
        id,
        tenant: "t".into(),
        callback_url: "http://h/".into(),
        event_types: vec!["render".into()],
        mode,
        group: group.map(Into::into),
        min_interval: Duration::from_secs(interval),
        created_at: Time::ZERO,
        expires_at: Time::from_millis(100 * MINUTE),
    }
}

fn told(chooser: &mut Chooser, view: &View, command: &str, now: i64) -> Vec<u128> {
    let now = Time::from_millis(now);
    let queue = QueueKey::new("t", command);
    let chosen = chooser.choose(&view.lots(&queue, now), &queue, now);
    chosen.iter().for_each(|subscription| chooser.told(subscription, now));
    chosen.iter().map(|subscription| subscription.id).collect()
}

#[test]
fn fanout_tells_everyone_who_is_interested_and_rested() {
    let mut any = subscription(3, DeliveryMode::Fanout, None, 5);
    any.event_types = vec!["*".into(), "render".into()];
    let mut other = subscription(4, DeliveryMode::Fanout, None, 0);
    other.event_types = vec!["encode".into()];
    let mut foreign = subscription(5, DeliveryMode::Fanout, None, 0);
    foreign.tenant = "u".into();
    let mut over = subscription(6, DeliveryMode::Fanout, None, 0);
    over.expires_at = Time::from_millis(1);
    let first = subscription(2, DeliveryMode::Fanout, None, 0);
    let view = View::new(vec![first, any, other, foreign, over]);
    let mut chooser = Chooser::default();
    assert_eq!(told(&mut chooser, &view, "RENDER", 1), [2, 3]);
    assert_eq!(told(&mut chooser, &view, "render", 5000), [2]);
    assert_eq!(told(&mut chooser, &view, "render", 5001), [2, 3]);
    assert_eq!(told(&mut chooser, &view, "nobody", 20_000), [3]);
}

#[test]
fn a_group_takes_turns_in_creation_order_and_passes_over_who_rests() {
    let group = |id, group, interval| subscription(id, DeliveryMode::Group, Some(group), interval);
    let view = View::new(vec![group(1, "a", 0), group(2, "a", 0), group(9, "b", 0), group(3, "a", 0)]);
    let mut chooser = Chooser::default();
    let turns: Vec<_> = (0..4).map(|now| told(&mut chooser, &view, "render", now)).collect();
    assert_eq!(turns, [[1, 9], [2, 9], [3, 9], [1, 9]]);
    let resting = View::new(vec![group(1, "a", 10), group(2, "a", 10)]);
    let mut chooser = Chooser::default();
    assert_eq!(told(&mut chooser, &resting, "render", 0), [1]);
    assert_eq!(told(&mut chooser, &resting, "render", 1), [2]);
    assert!(told(&mut chooser, &resting, "render", 2).is_empty());
    assert_eq!(told(&mut chooser, &resting, "render", 10_000), [1]);
}

#[test]
fn the_minute_chooses_among_hash_subscriptions() {
    let hash = |id, interval| subscription(id, DeliveryMode::Hash, None, interval);
    let view = View::new(vec![hash(1, 0), hash(2, 0), hash(3, 0)]);
    let mut chooser = Chooser::default();
    let minutes = [0, 1, 2, 3].map(|minute| told(&mut chooser, &view, "render", minute * MINUTE + 59_999));
    assert_eq!(minutes, [[1], [2], [3], [1]]);
    let resting = View::new(vec![hash(1, 300), hash(2, 0)]);
    let mut chooser = Chooser::default();
    assert_eq!(told(&mut chooser, &resting, "render", 0), [1]);
    assert_eq!(told(&mut chooser, &resting, "render", 1), [2], "only those that may be told are counted");
}

#[test]
fn what_is_gone_is_forgotten() {
    let view = View::new(vec![subscription(1, DeliveryMode::Fanout, None, 5)]);
    let mut chooser = Chooser::default();
    assert_eq!(told(&mut chooser, &view, "render", 0), [1]);
    chooser.keep(&view);
    assert_eq!(chooser.told.len(), 1);
    chooser.keep(&View::default());
    assert!(chooser.told.is_empty());
}
