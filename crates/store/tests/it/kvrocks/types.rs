//! Something else uses our keys: the call fails, says which key, and changes nothing.

use super::faults::quiet;
use super::ground::open;
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, create, done, keyed, named, report};
use codeq_queue::store::{Abandon, Heartbeat, Nack};
use codeq_queue::{Delay, Failure, Store, Task, TaskStore};
use codeq_store::kvrocks::Backend;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Create,
    Claim,
    Heartbeat,
    Submit,
    Nack,
    Abandon,
    Cancel,
    Requeue,
    RunNow,
}

const VERBS: [Verb; 9] = [
    Verb::Create,
    Verb::Claim,
    Verb::Heartbeat,
    Verb::Submit,
    Verb::Nack,
    Verb::Abandon,
    Verb::Cancel,
    Verb::Requeue,
    Verb::RunNow,
];

/// Our keys, and the verbs that must notice that one is misused. A verb that is not named succeeds, because it has
/// nothing to do with the key.
const KEYS: [(&str, &[Verb]); 15] = [
    ("codeq:tasks", &VERBS),
    (
        "codeq:tasks:ttl",
        &[Verb::Create, Verb::Submit, Verb::Nack, Verb::Abandon, Verb::Cancel, Verb::Requeue],
    ),
    ("codeq:results", &[Verb::Submit, Verb::Nack, Verb::Abandon, Verb::Cancel, Verb::Requeue]),
    ("codeq:history", &[Verb::Submit, Verb::Nack, Verb::Abandon, Verb::Cancel]),
    ("codeq:outbox", &[]),
    ("codeq:outbox:due", &[]),
    ("codeq:queues", &[Verb::Create, Verb::Requeue]),
    ("codeq:created", &[Verb::Create]),
    ("codeq:paused", &[Verb::Claim]),
    ("codeq:timers", &[Verb::Claim, Verb::Heartbeat]),
    ("codeq:q:render:t:pending:0", &[Verb::Create, Verb::Claim, Verb::Requeue, Verb::RunNow]),
    ("codeq:q:render:t:inprog", &[Verb::Claim, Verb::Submit, Verb::Nack, Verb::Abandon, Verb::Cancel]),
    (
        "codeq:q:render:t:leases",
        &[Verb::Claim, Verb::Heartbeat, Verb::Submit, Verb::Nack, Verb::Abandon, Verb::Cancel],
    ),
    ("codeq:q:render:t:delayed", &[Verb::Claim, Verb::RunNow]),
    ("codeq:q:render:t:dlq", &[Verb::Nack, Verb::Abandon, Verb::Requeue]),
];

impl Verb {
    async fn prepare(self, store: &dyn Store) -> Option<Task> {
        if self == Verb::Create {
            return None;
        }
        let delay = if self == Verb::RunNow { Delay::For(Duration::from_secs(600)) } else { Delay::None };
        let new = codeq_queue::NewTask { max_attempts: 1, delay, ..super::verbs::new("render") };
        let made = store.create(vec![new]).await.unwrap().remove(0).unwrap().task;
        if self == Verb::RunNow {
            return Some(made);
        }
        if self == Verb::Claim {
            return None;
        }
        let task = claim(store, "render", 1).await.remove(0);
        if self == Verb::Requeue {
            store.nack(vec![nack(&task)]).await.unwrap().remove(0).unwrap();
        }
        Some(task)
    }

    async fn act(self, store: &dyn Store, task: Option<&Task>) -> Result<(), Failure> {
        let Some(task) = task else {
            return match self {
                Verb::Create => store.create(vec![keyed("render", "k")]).await.map(|_| ()),
                _ => store.claim(super::verbs::wish_for("render")).await.map(|_| ()),
            };
        };
        let extend = Duration::from_secs(9);
        match self {
            Verb::Heartbeat => store.heartbeat(vec![Heartbeat::new(report(task), extend)]).await.map(|_| ()),
            Verb::Submit => store.submit(vec![done(task)]).await.map(|_| ()),
            Verb::Nack => store.nack(vec![nack(task)]).await.map(|_| ()),
            Verb::Abandon => store.abandon(vec![Abandon::new(report(task), false)]).await.map(|_| ()),
            Verb::Cancel => {
                store.cancel(vec![codeq_queue::store::Cancel::now(named(task))]).await.map(|_| ())
            }
            Verb::Requeue => store.requeue(vec![named(task)], None).await.map(|_| ()),
            Verb::RunNow => store.run_now(vec![named(task)]).await.map(|_| ()),
            Verb::Create | Verb::Claim => unreachable!("they are about no task"),
        }
    }
}

fn nack(task: &Task) -> Nack {
    Nack::new(report(task), 1, None)
}

#[tokio::test]
async fn a_key_of_another_type_fails_the_call_and_changes_nothing() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    settled(&store).await;
    // Of a server without a layout nobody would take anything.
    let id = server.ask("HGET codeq:layout deployment");
    let empty = format!("MULTI\r\nFLUSHALL\r\nHSET codeq:layout deployment {id}\r\nEXEC");
    for (key, noticing) in KEYS {
        for verb in VERBS {
            assert_eq!(server.say(&empty), "+OK");
            let task = verb.prepare(&*store).await;
            assert_eq!(server.say(&format!("SET {key} x")), "+OK");
            let before = server.say("DEBUG DIGEST");
            let outcome = verb.act(&*store, task.as_ref()).await;
            let is_noticed = noticing.contains(&verb);
            assert_eq!(outcome.is_err(), is_noticed, "{verb:?} on {key}: {outcome:?}");
            let Err(failed) = outcome else { continue };
            let is_told = matches!(&failed, Failure::Internal(text)
                if text.contains(key) || text.contains("WRONGTYPE"));
            assert!(is_told, "{verb:?} on {key}: {failed}");
            assert_eq!(server.say("DEBUG DIGEST"), before, "{verb:?} on {key}");
        }
    }
    server.say(&empty);
    create(&*store, "render").await.expect("the keys are ours again");
}

/// A key of idempotency is a string; whoever makes a list of it is told so.
#[tokio::test]
async fn an_idempotency_key_of_another_type_fails_the_create() {
    let server = Server::start(&[]);
    let store = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    assert_eq!(server.say("RPUSH codeq:idem:render:t:k x"), ":1");
    let failed = store.create(vec![keyed("render", "k")]).await.expect_err("the key is a list");
    assert!(matches!(&failed, Failure::Internal(text) if text.contains("WRONGTYPE")), "{failed}");
    assert_eq!(server.say("EXISTS codeq:tasks"), ":0");
}
