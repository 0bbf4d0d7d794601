//! What a watching process is told, and in which order.

use crate::kvrocks::ground;
use codeq_queue::create::CreateRequest;
use codeq_queue::event::{Event, What};
use codeq_queue::store::{Abandon, Claim, Heartbeat, Nack, Report, Submit, TaskRef, Wait};
use codeq_queue::{
    AttemptOutcome, Commands, Observer, Outcome, Owner, QueueKey, State, Store, Task, TaskId, Time,
};
use codeq_store::kvrocks::{KvrocksOptions, Timing};
use codeq_store::local::{self, LocalOptions};
use codeq_store::memory::{self, MemoryOptions};
use codeq_store::{ManualClock, Rules};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const START: Time = Time::from_millis(1_772_366_400_000);

struct Watched {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    events: Receiver<Event>,
}

fn watch(open: impl FnOnce(Arc<ManualClock>, Observer) -> Arc<dyn Store>) -> Watched {
    let (told, events) = channel();
    let told = Mutex::new(told);
    let observer: Observer = Arc::new(move |events: &[Event]| {
        let told = told.lock().unwrap();
        events.iter().for_each(|event| told.send(event.clone()).unwrap());
    });
    let clock = Arc::new(ManualClock::at(START));
    Watched { store: open(clock.clone(), observer), clock, events }
}

impl Watched {
    fn next(&self) -> Event {
        self.events.recv_timeout(Duration::from_secs(10)).expect("an event")
    }

    async fn create(&self, delay_seconds: i64, max_attempts: i64) -> TaskId {
        let request = CreateRequest {
            tenant: "t".into(),
            command: "Render".into(),
            payload: "1".into(),
            delay_seconds,
            max_attempts,
            ..CreateRequest::default()
        };
        let task = request.check(5, 100, START).unwrap();
        self.store.create(vec![task]).await.unwrap().remove(0).unwrap().task.id
    }

    async fn claim(&self) -> Task {
        let claim = Claim {
            tenant: "t".into(),
            commands: Commands::Any,
            owner: Arc::new(Owner::new("s", "w")),
            lease: Duration::from_secs(10),
            is_default_lease: false,
            count: 1,
            wait: Wait::No,
        };
        self.store.claim(claim).await.unwrap().remove(0)
    }
}

fn report(task: &Task) -> Report {
    let owner = Arc::new(Owner::new("s", "w"));
    Report { tenant: "t".into(), id: task.id, owner, attempt: Some(task.attempts) }
}

async fn tells_of_progress(watched: &Watched, task: &Task) {
    let beat = Heartbeat::new(report(task), Duration::from_secs(10));
    let told = Heartbeat { progress: Some(r#"{"percent":40}"#.into()), ..beat.clone() };
    assert!(watched.store.heartbeat(vec![beat, told]).await.unwrap().iter().all(Result::is_ok));
    let told = watched.next();
    assert_eq!(
        (told.task, told.has_filled),
        (Some(task.id), false),
        "a heartbeat without progress tells nothing"
    );
    let What::Progress { attempt, owner, progress } = told.what else { panic!("{told:?}") };
    assert_eq!((attempt, &*owner.unwrap().worker_id, &*progress), (1, "w", r#"{"percent":40}"#));
}

async fn tells_a_whole_life(watched: Watched) {
    let store = &watched.store;
    let id = watched.create(0, 3).await;
    let told = watched.next();
    assert_eq!((&*told.command, told.queue.clone()), ("Render", QueueKey::new("t", "render")));
    assert_eq!((told.task, told.what, told.has_filled), (Some(id), What::Created, true));

    let other = watched.create(0, 3).await;
    let told = watched.next();
    assert_eq!((told.task, told.has_filled), (Some(other), false), "the queue was not empty");
    store
        .cancel(vec![codeq_queue::store::Cancel::now(TaskRef { tenant: "t".into(), id: other })])
        .await
        .unwrap();
    let told = watched.next();
    let What::Ended { state, outcome, owner, .. } = told.what else { panic!("{told:?}") };
    assert_eq!((state, outcome, owner), (State::Cancelled, None, None));

    let task = watched.claim().await;
    let told = watched.next();
    let claimed_at = told.at;
    let What::Claimed { owner, attempt, ready_at } = told.what else { panic!("{told:?}") };
    assert_eq!((&*owner.worker_id, attempt), ("w", 1));
    assert_eq!(ready_at, task.created_at, "it could be claimed since it was created");
    assert!(ready_at <= claimed_at);

    tells_of_progress(&watched, &task).await;
    let nack = Nack::new(report(&task), 5, Some("later".into()));
    store.nack(vec![nack]).await.unwrap().remove(0).unwrap();
    let told = watched.next();
    let What::Returned { outcome, attempt, error, .. } = told.what else { panic!("{told:?}") };
    assert_eq!((outcome, attempt, error.as_deref()), (AttemptOutcome::Nack, 1, Some("later")));
    assert!(!told.has_filled, "it is delayed");

    watched.clock.advance(Duration::from_secs(6));
    let told = watched.next();
    assert_eq!((told.what, told.has_filled), (What::Promoted, true));
    let promoted_at = told.at;

    let task = watched.claim().await;
    let What::Claimed { ready_at, .. } = watched.next().what else { panic!("a claim was expected") };
    assert_eq!(ready_at, promoted_at, "the wait of a delayed task begins when the delay is over");
    store.abandon(vec![Abandon::new(report(&task), true)]).await.unwrap().remove(0).unwrap();
    let told = watched.next();
    assert!(matches!(told.what, What::Returned { outcome: AttemptOutcome::Refunded, .. }) && told.has_filled);

    let task = watched.claim().await;
    watched.next();
    let submit = Submit { report: report(&task), outcome: Outcome::completed("{}") };
    store.submit(vec![submit]).await.unwrap().remove(0).unwrap();
    let told = watched.next();
    let What::Ended { state, outcome, attempt, owner, created_at, .. } = told.what else { panic!() };
    assert_eq!((state, outcome, attempt), (State::Completed, Some(AttemptOutcome::Completed), 3));
    assert_eq!((&*owner.unwrap().worker_id, created_at), ("w", task.created_at));
}

async fn tells_of_expiry_death_and_return(watched: Watched) {
    let id = watched.create(0, 1).await;
    watched.claim().await;
    watched.clock.advance(Duration::from_secs(11));
    let events: Vec<What> = (0..3).map(|_| watched.next().what).collect();
    let What::Ended { state, outcome, error, .. } = &events[2] else { panic!("{events:?}") };
    assert_eq!((state, outcome), (&State::Dead, &Some(AttemptOutcome::LeaseExpired)));
    assert_eq!(error.as_deref(), Some("LEASE_EXPIRED"));
    let tasks = vec![TaskRef { tenant: "t".into(), id }];
    watched.store.requeue(tasks, None).await.unwrap().remove(0).unwrap();
    let told = watched.next();
    assert_eq!((told.task, told.what, told.has_filled), (Some(id), What::Reopened, true));
    let queue = QueueKey::new("t", "render");
    watched.store.pause(queue.clone()).await.unwrap();
    watched.store.resume(queue).await.unwrap();
    assert_eq!((watched.next().what, watched.next().what), (What::Paused, What::Resumed));
}

fn in_memory() -> Watched {
    watch(|clock, observer| {
        let options = MemoryOptions { rules: Rules::default(), shards: 1, clock, observer: Some(observer) };
        memory::open(options).unwrap()
    })
}

fn on_disk(path: &std::path::Path) -> Watched {
    watch(|clock, observer| {
        local::open(LocalOptions { clock, observer: Some(observer), ..LocalOptions::new(path) }).unwrap()
    })
}

fn on_a_server() -> Watched {
    watch(|clock, observer| {
        let backend = ground::keyspace();
        let timing = Timing::Stepped;
        ground::open(KvrocksOptions { clock, observer: Some(observer), timing, ..ground::options(backend) })
    })
}

#[tokio::test]
async fn every_transition_is_told_once_and_in_order() {
    tells_a_whole_life(on_a_server()).await;
    tells_a_whole_life(in_memory()).await;
    tells_a_whole_life(on_disk(tempfile::tempdir().unwrap().path())).await;
}

#[tokio::test]
async fn what_timers_and_operators_do_is_told_too() {
    tells_of_expiry_death_and_return(on_a_server()).await;
    tells_of_expiry_death_and_return(in_memory()).await;
    tells_of_expiry_death_and_return(on_disk(tempfile::tempdir().unwrap().path())).await;
}

#[tokio::test]
async fn nothing_is_told_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = on_disk(directory.path());
    first.create(0, 1).await;
    first.next();
    first.store.clone().close().await.unwrap();
    drop(first);
    let second = on_disk(directory.path());
    second.claim().await;
    assert!(matches!(second.next().what, What::Claimed { .. }));
}
