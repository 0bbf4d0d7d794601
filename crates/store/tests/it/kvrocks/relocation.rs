//! Moving a command to another shard, on another server or the same.

use super::ground::{open, options};
use super::server::Server;
use super::verbs::{claim, create, done, named, new, report};
use codeq_queue::store::Nack;
use codeq_queue::{Body, Delay, OperatorStore, QueueKey, TaskStore};
use codeq_store::kvrocks::{
    Backend, Immovable, KvrocksOptions, KvrocksStore, Places, Relocation, Sharding, Timing,
};
use std::sync::Arc;
use std::time::Duration;

fn store(one: &Server, two: &Server, mapped: &str) -> Arc<KvrocksStore> {
    over([one.address(), two.address()], mapped)
}

fn over([one, two]: [String; 2], mapped: &str) -> Arc<KvrocksStore> {
    let backend = |address: &str| Backend { address: address.into(), ..Backend::default() };
    let sharding = Sharding {
        default_shard: "one".into(),
        command_mappings: [("render".to_owned(), mapped.to_owned())].into(),
        backends: [("one".to_owned(), backend(&one)), ("two".to_owned(), backend(&two))].into(),
        ..Sharding::default()
    };
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    open(KvrocksOptions { sharding, timing, ..options(backend(&one)) })
}

fn relocation() -> Relocation {
    Relocation { command: "Render".into(), tenant: None, from: "one".into(), to: "two".into(), batch: 3 }
}

#[tokio::test]
async fn a_command_moves_with_everything_and_in_order() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let before = store(&one, &two, "one");
    let dying = codeq_queue::NewTask { max_attempts: 1, ..new("render") };
    before.create(vec![dying]).await.unwrap();
    let dead = claim(&*before, "render", 1).await.remove(0);
    let nack = Nack::new(report(&dead), 0, None);
    before.nack(vec![nack]).await.unwrap().remove(0).unwrap();
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(create(&*before, "render").await.unwrap().task);
    }
    let mut keyed = new("render");
    keyed.body = Arc::new(Body { idempotency_key: Some("k".into()), ..(*keyed.body).clone() });
    made.push(before.create(vec![keyed.clone()]).await.unwrap().remove(0).unwrap().task);
    let later = codeq_queue::NewTask { delay: Delay::For(Duration::from_secs(600)), ..new("render") };
    before.create(vec![later; 2]).await.unwrap();
    create(&*before, "other").await.unwrap();

    let running = {
        create(&*before, "render").await.unwrap();
        claim(&*before, "render", 1).await.remove(0)
    };
    before.submit(vec![done(&running)]).await.unwrap().remove(0).unwrap();
    assert_eq!(running.id, made.remove(0).id);
    let there = Places { pending: 9, delayed: 2, dead: 1, ..Places::default() };
    assert_eq!(before.places(&relocation(), "one").await.unwrap(), there);
    assert_eq!(before.relocate(&relocation()).await.unwrap(), there);
    assert_eq!(before.relocate(&relocation()).await.unwrap(), Places::default(), "there is nothing left");

    let after = store(&one, &two, "two");
    assert_eq!(after.places(&relocation(), "two").await.unwrap(), there);
    assert_eq!(two.say("HLEN codeq:tasks"), ":12");
    let replay = after.create(vec![keyed]).await.unwrap().remove(0).unwrap();
    assert!(replay.is_replay, "the key has moved with its task");
    let lent: Vec<_> = claim(&*after, "render", 8).await.iter().map(|task| task.id).collect();
    assert_eq!(lent, made.iter().map(|task| task.id).collect::<Vec<_>>());
    assert!(after.requeue(vec![named(&dead)], None).await.unwrap()[0].is_ok());
    assert_eq!(after.queue(QueueKey::new("t", "other")).await.unwrap().ready_total(), 1);
}

/// Keys that the original server wrote were looked up on the present shard alone, and stayed behind in a move: the same
/// order made a second task.
#[tokio::test]
async fn a_key_of_the_original_server_is_found_on_every_shard_and_moves() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let id = "00000000-0000-4000-8000-000000000001";
    let record = format!(
        "{{\"id\":\"{id}\",\"command\":\"render\",\"payload\":\"1\",\"priority\":2,\"status\":\"PENDING\",\
         \"tenantId\":\"t\",\"createdAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\"}}"
    );
    one.say(&format!("HSET codeq:tasks {id} \"{}\"", record.replace('"', "\\\"")));
    one.say(&format!("LPUSH codeq:q:render:t:s:one:pending:2 {id}"));
    one.say(&format!("SET codeq:idempo:order-7 {id}"));
    let mut keyed = new("render");
    keyed.body = Arc::new(Body { idempotency_key: Some("order-7".into()), ..(*keyed.body).clone() });
    let again = async |store: &KvrocksStore| {
        let created = store.create(vec![keyed.clone()]).await.unwrap().remove(0).unwrap();
        (created.is_replay, created.task.id.to_string())
    };
    let before = store(&one, &two, "one");
    assert_eq!(again(&before).await, (true, id.to_owned()));
    let mapped_elsewhere = store(&one, &two, "two");
    assert_eq!(again(&mapped_elsewhere).await, (true, id.to_owned()), "it has not moved yet");
    assert_eq!(before.relocate(&relocation()).await.unwrap().total(), 1);
    let after = store(&one, &two, "two");
    assert_eq!(again(&after).await, (true, id.to_owned()));
    assert_eq!(claim(&*after, "render", 9).await.len(), 1, "there is one task");
}

/// The same server under two names would have been copied onto itself and then deleted.
#[tokio::test]
async fn two_names_of_one_server_are_seen_through() {
    let server = Server::start(&[]);
    let names = [server.address(), format!("localhost:{}", server.port)];
    let before = over(names.clone(), "one");
    let made = before.create(vec![new("render"); 7]).await.unwrap();
    let made: Vec<_> = made.into_iter().map(|made| made.unwrap().task.id).collect();
    let later = codeq_queue::NewTask { delay: Delay::For(Duration::from_secs(600)), ..new("render") };
    let later = before.create(vec![later]).await.unwrap().remove(0).unwrap().task;
    let there = Places { pending: 7, delayed: 1, ..Places::default() };
    assert_eq!(before.relocate(&relocation()).await.unwrap(), there);
    assert_eq!(before.relocate(&relocation()).await.unwrap(), Places::default());
    assert_eq!(server.say("HLEN codeq:tasks"), ":8");
    assert_eq!(server.say("LLEN codeq:q:render:t:s:two:pending:0"), ":7");
    assert_eq!(server.say("EXISTS codeq:relocating codeq:q:render:t:s:one:pending:0"), ":0");
    let itself = Relocation { to: "one".into(), ..relocation() };
    assert!(matches!(before.relocate(&itself).await, Err(Immovable::SameShard)));
    let after = over(names, "two");
    let lent: Vec<_> = claim(&*after, "render", 9).await.iter().map(|task| task.id).collect();
    assert_eq!(lent, made, "in order");
    assert!(after.cancel(vec![codeq_queue::store::Cancel::now(named(&later))]).await.unwrap()[0].is_ok());
    assert_eq!(server.say("ZCARD codeq:q:render:t:s:two:delayed"), ":0");
}

#[tokio::test]
async fn a_process_that_remembers_where_a_task_was_finds_it_where_it_is() {
    let (one, two) = (Server::start(&[]), Server::start(&[]));
    let (witness, operator) = (store(&one, &two, "one"), store(&one, &two, "one"));
    let task = create(&*witness, "render").await.unwrap().task;
    assert_eq!(operator.relocate(&relocation()).await.unwrap().total(), 1);
    let found = async {
        while witness.get(vec![named(&task)]).await.unwrap()[0].is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("it is told that tasks have moved");
    assert!(witness.cancel(vec![codeq_queue::store::Cancel::now(named(&task))]).await.unwrap()[0].is_ok());
    let counts = operator.places(&relocation(), "two").await.unwrap();
    assert_eq!(counts, Places::default());
}
