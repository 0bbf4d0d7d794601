//! The verbs of a store in their shortest form, for tests by the wall clock.

use codeq_queue::create::CreateRequest;
use codeq_queue::store::{Claim, Created, Report, Submit, TaskRef, Wait};
use codeq_queue::{Body, Commands, Failure, NewTask, Outcome, Owner, Store, Task, Time};
use codeq_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;

pub fn now() -> Time {
    SystemClock.now()
}

pub fn new(command: &str) -> NewTask {
    let request = CreateRequest {
        tenant: "t".into(),
        command: command.into(),
        payload: "{}".into(),
        ..CreateRequest::default()
    };
    request.check(5, 1000, now()).unwrap()
}

pub async fn create(store: &dyn Store, command: &str) -> Result<Created, Failure> {
    Ok(store.create(vec![new(command)]).await?.remove(0).unwrap())
}

pub fn wish(commands: Commands, count: usize, wait: Wait) -> Claim {
    let owner = Arc::new(Owner::new("s", "w"));
    Claim {
        tenant: "t".into(),
        commands,
        owner,
        lease: Duration::from_secs(60),
        is_default_lease: false,
        count,
        wait,
    }
}

pub async fn claim(store: &dyn Store, command: &str, count: usize) -> Vec<Task> {
    store.claim(wish(Commands::these([command]), count, Wait::No)).await.unwrap()
}

pub fn report(task: &Task) -> Report {
    let owner = Arc::new(Owner::new("s", "w"));
    Report { tenant: "t".into(), id: task.id, owner, attempt: Some(task.attempts) }
}

pub fn done(task: &Task) -> Submit {
    Submit { report: report(task), outcome: Outcome::completed("{}") }
}

pub fn named(task: &Task) -> TaskRef {
    TaskRef { tenant: "t".into(), id: task.id }
}

pub fn wish_for(command: &str) -> Claim {
    wish(Commands::these([command]), 1, Wait::No)
}

pub fn keyed(command: &str, key: &str) -> NewTask {
    let task = new(command);
    let body = Body { idempotency_key: Some(key.into()), ..(*task.body).clone() };
    NewTask { body: Arc::new(body), ..task }
}
