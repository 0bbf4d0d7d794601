//! Data of the original server, adopted at the first opening.

use super::ground::{open, options};
use super::server::Server;
use super::verbs::{claim, create, done};
use codeq_queue::store::{ResultLookup, TaskRef, Wait};
use codeq_queue::{OperatorStore, Place, QueueKey, Store, Task, TaskId, TaskStore};
use codeq_store::kvrocks::{Backend, KvrocksOptions, KvrocksStore, Timing};
use std::sync::Arc;
use std::time::Duration;

fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// A record as the original server wrote them.
fn record(n: u32, command: &str, status: &str, more: &str) -> String {
    format!(
        "{{\"id\":\"{}\",\"command\":\"{command}\",\"payload\":\"{{\\\"n\\\":[]}}\",\"priority\":2,\
         \"status\":\"{status}\",\"createdAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\",\
         \"zz\":{{\"kept\":[]}}{more}}}",
        id(n)
    )
}

fn keep(server: &Server, n: u32, command: &str, status: &str, more: &str) {
    let text = record(n, command, status, more).replace('\\', "\\\\").replace('"', "\\\"");
    assert!(server.say(&format!("HSET codeq:tasks {} \"{text}\"", id(n))).starts_with(':'));
}

fn say(server: &Server, command: &str) {
    assert!(!server.say(command).starts_with('-'), "{command}");
}

/// One task in every place, in a queue whose command has a colon.
fn original() -> Server {
    let server = Server::start(&[]);
    let tenant = ",\"tenantId\":\"t\"";
    keep(&server, 1, "a:B", "PENDING", tenant);
    say(&server, &format!("LPUSH codeq:q:a:b:t:pending:2 {}", id(1)));
    keep(&server, 2, "a:B", "PENDING", &format!("{tenant},\"lastKnownLocation\":\"PENDING_LIST\""));
    say(&server, &format!("ZADD codeq:q:a:b:t:delayed 1000 {}", id(2)));
    keep(&server, 3, "a:B", "IN_PROGRESS", &format!("{tenant},\"workerId\":\"w\",\"attempts\":1"));
    say(&server, &format!("RPUSH codeq:q:a:b:t:inprog {}", id(3)));
    say(&server, &format!("SET codeq:lease:{} w PX 600000", id(3)));
    keep(&server, 4, "a:B", "IN_PROGRESS", &format!("{tenant},\"workerId\":\"w\",\"attempts\":5"));
    say(&server, &format!("RPUSH codeq:q:a:b:t:inprog {}", id(4)));
    keep(&server, 5, "a:B", "FAILED", &format!("{tenant},\"lastKnownLocation\":\"DLQ_SET\""));
    say(&server, &format!("RPUSH codeq:q:a:b:t:dlq {}", id(5)));
    keep(&server, 6, "plain", "PENDING", "");
    say(&server, &format!("LPUSH codeq:q:plain:pending:2 {}", id(6)));
    say(&server, &format!("SET codeq:idempo:old-key {}", id(1)));
    server
}

fn adopt(server: &Server, adopter: Option<&str>) -> Arc<KvrocksStore> {
    let backend = Backend { address: server.address(), ..Backend::default() };
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    let untenanted_tenant = adopter.map(str::to_owned);
    open(KvrocksOptions { untenanted_tenant, timing, ..options(backend) })
}

async fn get(store: &KvrocksStore, n: u32) -> Option<Task> {
    let named = TaskRef { tenant: "t".into(), id: TaskId::parse(&id(n)).unwrap() };
    store.get(vec![named]).await.unwrap().remove(0)
}

#[tokio::test]
async fn every_task_of_the_original_is_found_where_it_was() {
    let server = original();
    let store = adopt(&server, None);
    assert_eq!(server.say("GET codeq:schema"), "$1");
    assert_eq!(server.say("EXISTS codeq:q:a:b:t:pending:2"), ":0", "colons of commands are escaped");
    assert_eq!(server.say("TYPE codeq:q:a%3ab:t:dlq"), "+set");
    let dead = get(&store, 5).await.unwrap();
    assert_eq!((dead.state.place(), dead.max_attempts), (Place::DeadLetterSet, 5));
    let named = TaskRef { tenant: "t".into(), id: dead.id };
    let ResultLookup::Done { record, .. } = store.result(named.clone(), Wait::No).await.unwrap() else {
        panic!("a dead letter has a result")
    };
    assert_eq!((record.error.as_deref(), record.completed_at), (Some("MAX_ATTEMPTS"), dead.updated_at));
    // The delay is long over, one lease is alive, the other has no key and spent its attempts.
    let mut lent: Vec<Task> = claim(&*store, "a:b", 9).await;
    lent.sort_by_key(|task| task.id);
    assert_eq!(lent.iter().map(|task| task.id.to_string()).collect::<Vec<_>>(), [id(1), id(2)]);
    assert_eq!(&*lent[0].body.payload, "{\"n\":[]}");
    assert_eq!(get(&store, 3).await.unwrap().state.place(), Place::InProgressSet);
    assert_eq!(get(&store, 4).await.unwrap().state.place(), Place::DeadLetterSet);
    assert_eq!(store.queue(QueueKey::new("t", "a:b")).await.unwrap().dead, 2);
    assert!(store.submit(vec![done(&lent[0])]).await.unwrap()[0].is_ok());
    let kept = server.say(&format!("HSTRLEN codeq:tasks {}", id(1)));
    assert_ne!(kept, ":0");
    assert!(store.requeue(vec![named], None).await.unwrap()[0].is_ok());
    assert_eq!(get(&store, 6).await, None, "without a tenant it is no one's");
}

#[tokio::test]
async fn an_old_key_is_honoured_for_its_tenant_and_command() {
    let server = original();
    let store = adopt(&server, None);
    let keyed = |command: &str| {
        let mut task = super::verbs::new(command);
        let body = codeq_queue::Body { idempotency_key: Some("old-key".into()), ..(*task.body).clone() };
        task.body = Arc::new(body);
        task
    };
    let replay = store.create(vec![keyed("A:b")]).await.unwrap().remove(0).unwrap();
    assert_eq!((replay.is_replay, replay.task.id.to_string()), (true, id(1)));
    assert!(!store.create(vec![keyed("other")]).await.unwrap().remove(0).unwrap().is_replay);
}

#[tokio::test]
async fn what_has_no_tenant_can_be_adopted_and_a_second_opening_changes_nothing() {
    let server = original();
    let store = adopt(&server, Some("t"));
    assert_eq!(claim(&*store, "plain", 1).await[0].id.to_string(), id(6));
    store.clone().close().await.unwrap();
    let again = adopt(&server, Some("t"));
    assert_eq!(get(&again, 6).await.unwrap().state.place(), Place::InProgressSet);
    create(&*again, "plain").await.unwrap();
    assert_eq!(claim(&*again, "plain", 9).await.len(), 1);
}
