//! Tables with a damaged block, under a store that runs: the task whose block it is is told as damaged, and everything
//! else goes on.

use super::corners::{reopened, stopped_at};
use super::{Ground, feed};
use codeq_queue::store::Health;
use codeq_queue::{Filter, Outcome, Page, Refusal, State, Task};
use codeq_store::Rules;
use codeq_store::local::files::Files;
use codeq_store::testing::exam::bench::{Bench, eventually, plain_rules};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::forgetful::ForgetfulDisk;
use rand::SeedableRng;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::SmallRng;
use std::sync::Arc;
use std::time::Duration;

/// Larger than a block, so that it has one of its own, and not to be compressed, so that it can be found.
fn payload(seed: u64) -> String {
    let text = Alphanumeric.sample_string(&mut SmallRng::seed_from_u64(seed), 20_000);
    format!("{{\"fill\":\"{text}\"}}")
}

/// Flips a bit in every table that has a piece of this text. Gives how many there were.
fn damage(disk: &ForgetfulDisk, text: &str) -> usize {
    let names: Vec<_> = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".tab")).collect();
    let is_damaged = |name: &String| {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        let pieces = text.as_bytes().windows(24).skip(1000).step_by(100);
        let at = pieces.filter_map(|piece| bytes.windows(24).position(|found| found == piece)).next();
        at.inspect(|at| disk.corrupt(name, *at as u64, 1)).is_some()
    };
    names.iter().filter(|name| is_damaged(name)).count()
}

/// A store whose tables have two tasks that are ready, the body of the first one damaged.
async fn one_damaged_of_two(ground: &mut Ground) -> (Bench, Task, Task) {
    let bench = ground.bench();
    let spoiled = bench.make(New::of("render").payload(&payload(1)).key("k")).await.task;
    let sound = bench.make(New::of("render").payload(&payload(2))).await.task;
    bench.store().close().await.expect("the store closes");
    drop(bench);
    assert_eq!(damage(&ground.disk, &payload(1)), 1, "it lies in one table");
    (ground.bench(), spoiled, sound)
}

async fn assert_kept_without_body(bench: &Bench, spoiled: &Task, state: State) {
    let kept = bench.get(spoiled.id).await;
    assert_eq!((&kept.state, &*kept.body.payload), (&state, "null"));
    assert_eq!(
        (&kept.body.command, &kept.body.idempotency_key),
        (&spoiled.body.command, &spoiled.body.idempotency_key)
    );
    assert_eq!(kept.body.headers[0].0, "codeq-body-lost");
}

/// The feeder needed the body for the record of the end, tried for ever, and the shard took no writes any more.
#[tokio::test]
async fn a_task_with_a_damaged_body_ends_and_the_shard_goes_on() {
    let mut ground = Ground::busy();
    let (bench, spoiled, sound) = one_damaged_of_two(&mut ground).await;
    assert!(matches!(bench.get(spoiled.id).await.state, State::Ready { .. }));
    bench.cancel(spoiled.id).await.expect("a ready task can be cancelled");
    feed(&bench).await;
    assert_kept_without_body(&bench, &spoiled, State::Cancelled).await;
    let claimed = bench.take("render").await;
    assert_eq!((claimed.id, &claimed.body), (sound.id, &sound.body));
    bench.complete(&claimed).await;
    let bench = reopened(&mut ground, bench).await;
    assert_eq!(bench.store().health(), Health::Ready);
    assert_kept_without_body(&bench, &spoiled, State::Cancelled).await;
    bench.create("other").await;
}

/// Whoever claimed got an error, and what was lent together with it waited for the end of its lease, again and again, until
/// all were dead letters.
#[tokio::test]
async fn a_claim_gets_what_is_sound_and_the_damaged_one_becomes_a_dead_letter() {
    let mut ground = Ground::busy();
    let (bench, spoiled, sound) = one_damaged_of_two(&mut ground).await;
    let claimed = bench.claim_any(10).await;
    assert_eq!(claimed.iter().map(|task| task.id).collect::<Vec<_>>(), [sound.id]);
    assert_eq!(claimed[0].body, sound.body);
    eventually("it is a dead letter", || async { bench.stats("render").await.dead == 1 }).await;
    bench.complete(&claimed[0]).await;
    feed(&bench).await;
    assert_kept_without_body(&bench, &spoiled, State::Dead).await;
    let error = bench.record(spoiled.id).await.error.expect("an error");
    assert!(error.contains("damaged"), "{error}");
    assert_eq!(
        bench.requeue(spoiled.id, None).await,
        Err(Refusal::InvalidBody),
        "there is nothing to work on"
    );
    let bench = reopened(&mut ground, bench).await;
    assert_kept_without_body(&bench, &spoiled, State::Dead).await;
    assert_eq!(bench.get(sound.id).await.state, State::Completed);
    assert!(bench.make(New::of("render").key("k")).await.is_replay, "its key is its own");
    bench.remove(spoiled.id).await.expect("a dead letter can be removed");
}

#[tokio::test]
async fn a_list_shows_a_task_with_a_damaged_body_and_all_others() {
    let mut ground = Ground::busy();
    let (bench, spoiled, sound) = one_damaged_of_two(&mut ground).await;
    let filter = Arc::new(Filter::default());
    let page = Page { tenant: None, filter, is_newest_first: false, limit: 10, cursor: None };
    let listed = bench.ask("list", bench.store().list(page)).await.expect("a page").tasks;
    assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), [spoiled.id, sound.id]);
    assert_eq!((&*listed[0].body.payload, &listed[1].body), ("null", &sound.body));
    assert_eq!(listed[0].body.headers[0].0, "codeq-body-lost");
}

/// A task that died, and whose record is damaged, was not to stop the retention of others.
#[tokio::test]
async fn a_damaged_dead_letter_does_not_keep_the_others() {
    let rules = Rules { dead_retention: Some(Duration::from_secs(60)), ..plain_rules() };
    let mut ground = Ground::new(rules, super::SEGMENT_BYTES);
    let bench = ground.bench();
    let mut dead = Vec::new();
    for seed in 1..4 {
        let task = bench.create_and_take(New::of("render").max_attempts(1).payload(&payload(seed))).await;
        bench.nack(&task, 0, "broken").await.expect("the owner may nack");
        dead.push(task.id);
    }
    bench.store().close().await.expect("the store closes");
    drop(bench);
    assert!(damage(&ground.disk, &payload(1)) > 0);
    let bench = ground.bench();
    bench.advance(61);
    feed(&bench).await;
    eventually("the others are gone", || async { bench.stats("render").await.dead == 1 }).await;
    assert_eq!(bench.store().health(), Health::Ready);
}

/// The entry of a requeue named its dead letter only, and replay looked for it in the tables: where those were damaged, a
/// store that had everything in its journal refused to open.
#[tokio::test]
async fn what_was_requeued_is_replayed_without_the_tables() {
    for is_dead in [true, false] {
        let mut ground = Ground::new(plain_rules(), 512 << 10);
        let bench = ground.bench();
        let task = bench.create_and_take(New::of("render").max_attempts(1).payload(&payload(1))).await;
        match is_dead {
            true => drop(bench.nack(&task, 0, "broken").await.expect("the owner may nack")),
            false => drop(bench.submit(&task, Outcome::failed("broken")).await.expect("the owner may fail")),
        }
        let bench = reopened(&mut ground, bench).await;
        let then = ground.copy();
        bench.requeue(task.id, Some(3)).await.expect("a requeue");
        let mut ground = stopped_at(&ground, &then);
        assert!(damage(&ground.disk, &payload(1)) > 0);
        let bench = ground.open_bench().expect("the journal has what is needed");
        let check = async |bench: &Bench| {
            let again = bench.get(task.id).await;
            assert_eq!((&again.body, again.attempts, again.refunds), (&task.body, 1, 1));
            assert!(matches!(again.state, State::Ready { .. }));
            assert_eq!((again.max_attempts, again.error.as_deref()), (3, Some("broken")));
            assert_eq!(bench.attempts(task.id).await.map(|all| all.len()), Some(1));
            assert_eq!((bench.stats("render").await.dead, bench.stats("render").await.ready_total()), (0, 1));
        };
        check(&bench).await;
        // Folded into the tables.
        let bench = reopened(&mut ground, bench).await;
        check(&bench).await;
        assert_eq!(bench.store().health(), Health::Ready);
        let taken = bench.take("render").await;
        bench.complete(&taken).await;
        let bench = reopened(&mut ground, bench).await;
        assert_eq!(bench.get(task.id).await.state, State::Completed);
    }
}
