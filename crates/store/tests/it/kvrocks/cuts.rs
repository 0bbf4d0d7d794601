//! Connections that are cut around an EXEC: of every verb, alone and a hundred at a time, nothing has happened
//! or everything.

use super::faults::{is_unknown, quiet};
use super::ground::open;
use super::proxy::{CUT_BEFORE_EXEC, CUT_BEFORE_REPLY, CUT_MID_REPLY, PASS, Proxy};
use super::round_trips::settled;
use super::server::Server;
use super::verbs::{claim, create, done, named, new, now, report, wish};
use codeq_queue::store::{Abandon, Heartbeat, Nack, Wait};
use codeq_queue::{
    Commands, Delay, Failure, NewTask, QueueKey, Refusal, State, Store, Task, TaskStore, Time,
};
use codeq_store::kvrocks::Backend;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Create,
    Claim,
    Heartbeat,
    Submit,
    Nack,
    LastNack,
    Abandon,
    Cancel,
    CancelRunning,
    Requeue,
    RunNow,
    Remove,
}

const VERBS: [Verb; 12] = [
    Verb::Create,
    Verb::Claim,
    Verb::Heartbeat,
    Verb::Submit,
    Verb::Nack,
    Verb::LastNack,
    Verb::Abandon,
    Verb::Cancel,
    Verb::CancelRunning,
    Verb::Requeue,
    Verb::RunNow,
    Verb::Remove,
];

/// Where the tasks of a queue are: ready, delayed, running, dead.
type Places = [u64; 4];

async fn places(store: &dyn Store, command: &str) -> Places {
    let stats = store.queue(QueueKey::new("t", command)).await.unwrap();
    [stats.ready_total(), stats.delayed, stats.in_progress, stats.dead]
}

impl Verb {
    fn task(self, command: &str) -> NewTask {
        let is_dying = matches!(self, Verb::LastNack | Verb::Requeue | Verb::Remove);
        let delay = if self == Verb::RunNow { Delay::For(Duration::from_secs(600)) } else { Delay::None };
        NewTask { max_attempts: if is_dying { 1 } else { 5 }, delay, ..new(command) }
    }

    /// Makes the tasks that the verb is about.
    async fn prepare(self, store: &dyn Store, command: &str, count: usize) -> Vec<Task> {
        if self == Verb::Create {
            return Vec::new();
        }
        let made = store.create(vec![self.task(command); count]).await.unwrap();
        if matches!(self, Verb::Claim | Verb::Cancel | Verb::RunNow) {
            return made.into_iter().map(|created| created.unwrap().task).collect();
        }
        let tasks = claim(store, command, count).await;
        if matches!(self, Verb::Requeue | Verb::Remove) {
            store.nack(tasks.iter().map(nack).collect()).await.unwrap();
        }
        tasks
    }

    async fn act(
        self,
        store: &dyn Store,
        command: &str,
        tasks: &[Task],
        count: usize,
    ) -> Result<(), Failure> {
        let refs = || -> Vec<codeq_queue::store::TaskRef> { tasks.iter().map(named).collect() };
        match self {
            Verb::Create => all(store.create(vec![self.task(command); count]).await?),
            Verb::Claim => {
                let lent = store.claim(wish(Commands::these([command]), count, Wait::No)).await?;
                assert_eq!(lent.len(), count);
            }
            Verb::Heartbeat => {
                let extend = Duration::from_secs(3600);
                let beat = |task| Heartbeat::new(report(task), extend);
                all(store.heartbeat(tasks.iter().map(beat).collect()).await?);
            }
            Verb::Submit => all(store.submit(tasks.iter().map(done).collect()).await?),
            Verb::Nack | Verb::LastNack => all(store.nack(tasks.iter().map(nack).collect()).await?),
            Verb::Abandon => {
                let abandon = |task| Abandon::new(report(task), false);
                all(store.abandon(tasks.iter().map(abandon).collect()).await?);
            }
            Verb::Cancel | Verb::CancelRunning => {
                all(store.cancel(refs().into_iter().map(codeq_queue::store::Cancel::now).collect()).await?)
            }
            Verb::Requeue => all(store.requeue(refs(), None).await?),
            Verb::RunNow => all(store.run_now(refs()).await?),
            Verb::Remove => all(store.remove(refs()).await?),
        }
        Ok(())
    }

    /// Where the tasks stand when everything has happened.
    fn after(self, count: u64) -> Places {
        match self {
            Verb::Create | Verb::Abandon | Verb::Requeue | Verb::RunNow => [count, 0, 0, 0],
            Verb::Claim | Verb::Heartbeat => [0, 0, count, 0],
            Verb::Nack => [0, count, 0, 0],
            Verb::LastNack => [0, 0, 0, count],
            Verb::Submit | Verb::Cancel | Verb::CancelRunning | Verb::Remove => [0; 4],
        }
    }

    /// Whether the record says the same.
    fn has_happened(self, task: Option<&Task>, until: Time) -> bool {
        let Some(task) = task else { return self == Verb::Remove };
        match self {
            Verb::Create | Verb::Abandon | Verb::Requeue | Verb::RunNow => {
                matches!(task.state, State::Ready { .. })
            }
            Verb::Claim => matches!(task.state, State::Running(_)) && task.attempts == 1,
            Verb::Heartbeat => matches!(&task.state, State::Running(lease) if lease.until > until),
            Verb::Nack => matches!(task.state, State::Delayed { .. }),
            Verb::LastNack => task.state == State::Dead,
            Verb::Submit => task.state == State::Completed,
            Verb::Cancel | Verb::CancelRunning => task.state == State::Cancelled,
            Verb::Remove => false,
        }
    }
}

fn nack(task: &Task) -> Nack {
    Nack::new(report(task), 600, None)
}

fn all<T: std::fmt::Debug>(answers: Vec<Result<T, Refusal>>) {
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn a_connection_cut_around_exec_leaves_nothing_or_everything() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let proxy = Proxy::start(server.address());
    let store = open(quiet(Backend { address: proxy.address.clone(), ..Backend::default() }));
    let witness = open(quiet(Backend { address: server.address(), ..Backend::default() }));
    settled(&store).await;
    settled(&witness).await;
    let cuts = [CUT_BEFORE_EXEC, CUT_BEFORE_REPLY, CUT_MID_REPLY];
    for (n, verb) in VERBS.into_iter().enumerate() {
        for (count, cut) in [1, 100].into_iter().flat_map(|count| cuts.map(|cut| (count, cut))) {
            let case = format!("{verb:?} of {count}, cut {cut}");
            let command = format!("c{n}:{count}.{cut}");
            let tasks = verb.prepare(&*witness, &command, count).await;
            let (before, stood) = (server.say("DEBUG DIGEST"), places(&*witness, &command).await);
            let soon = now().plus_seconds(600);
            proxy.mode.store(cut, Ordering::Release);
            let failed = verb.act(&*store, &command, &tasks, count).await.expect_err(&case);
            assert!(is_unknown(&failed), "{case}: {failed}");
            assert_eq!(proxy.mode.load(Ordering::Acquire), PASS, "{case}: it was cut at an EXEC");
            if cut == CUT_BEFORE_EXEC {
                assert_eq!(server.say("DEBUG DIGEST"), before, "{case}");
                assert_eq!(places(&*witness, &command).await, stood, "{case}");
                continue;
            }
            assert_eq!(places(&*witness, &command).await, verb.after(count as u64), "{case}");
            let found = witness.get(tasks.iter().map(named).collect()).await.unwrap();
            let has_happened = |task: &Option<Task>| verb.has_happened(task.as_ref(), soon);
            assert!(found.iter().all(has_happened), "{case}: {found:?}");
        }
    }
    create(&*store, "last").await.expect("the store has dialled again");
}
