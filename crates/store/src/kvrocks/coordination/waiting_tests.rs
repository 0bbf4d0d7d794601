use super::*;
use codeq_queue::{Commands, Owner};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const PATIENCE: Duration = Duration::from_secs(30);

/// Has nothing for anybody, and does not answer about some commands.
#[derive(Default)]
struct Counter {
    silent: BTreeSet<&'static str>,
    /// Commands of the claims, one after the other, and how many were made together.
    asked: Mutex<Vec<(String, usize)>>,
    glances: AtomicUsize,
    /// Lets one be answered after all.
    free: Notify,
}

impl Counter {
    fn is_silent(&self, command: &str) -> bool {
        self.silent.contains(command)
    }

    fn asked(&self, command: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(asked, _)| asked == command).count()
    }
}

impl ClaimSource for Counter {
    fn claim(&self, claims: Vec<Claim>) -> BoxFuture<'_, Result<Vec<Vec<Task>>, Failure>> {
        let Commands::These(commands) = &claims[0].commands else { unreachable!("all name a command") };
        let command = commands[0].to_string();
        self.asked.lock().unwrap().push((command.clone(), claims.len()));
        Box::pin(async move {
            if self.is_silent(&command) {
                self.free.notified().await;
            }
            Ok(claims.iter().map(|_| Vec::new()).collect())
        })
    }

    fn glance(&self, queues: Vec<QueueKey>) -> BoxFuture<'_, Vec<QueueKey>> {
        self.glances.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { queues.into_iter().filter(|queue| self.is_silent(&queue.command)).collect() })
    }

    fn take_back(&self, _: Claim, _: Vec<Task>) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn now(&self) -> Time {
        Time::from_millis(i64::try_from(begun().elapsed().as_millis()).unwrap())
    }

    fn is_running(&self) -> bool {
        true
    }
}

fn begun() -> Instant {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    *BEGUN.get_or_init(Instant::now)
}

fn claim(command: &str, wait: Wait) -> Claim {
    Claim {
        tenant: "t".into(),
        commands: Commands::these([command]),
        owner: Arc::new(Owner::new("s", "w")),
        lease: Duration::from_secs(60),
        is_default_lease: false,
        count: 1,
        wait,
    }
}

async fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < deadline, "it does not happen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn open(silent: &[&'static str]) -> (Arc<WaitingClaims>, Arc<Counter>) {
    let silent = silent.iter().copied().collect();
    let (claims, counter) =
        (Arc::new(WaitingClaims::default()), Arc::new(Counter { silent, ..Counter::default() }));
    let (serving, source) = (claims.clone(), counter.clone());
    tokio::spawn(async move { serving.serve(source).await });
    (claims, counter)
}

/// While one server did not answer nobody was served who waited for something on another one.
#[tokio::test]
async fn who_waits_is_served_although_another_one_is_not_answered() {
    let (claims, counter) = open(&["far"]);
    let far = claims.join(claim("far", Wait::Forever));
    until(|| counter.asked("far") == 1).await;
    let end = counter.now().plus_seconds(2);
    let near = claims.join(claim("near", Wait::Until(end)));
    until(|| counter.asked("near") == 1).await;
    claims.ring(&QueueKey::new("t", "near"));
    until(|| counter.asked("near") == 2).await;
    assert!(counter.now() < end, "rung, so it was looked at");
    assert_eq!(near.await.unwrap().unwrap(), [], "its time is up");
    assert!(counter.now() >= end, "not before");
    assert_eq!(counter.asked("far"), 1, "one question at a time");
    drop(far);
}

/// What is heard of a queue while those who want it are being served is not forgotten.
#[tokio::test]
async fn a_ring_in_the_middle_of_serving_serves_once_more() {
    let (claims, counter) = open(&["far"]);
    let far = claims.join(claim("far", Wait::Forever));
    until(|| counter.asked("far") == 1).await;
    claims.ring(&QueueKey::new("t", "far"));
    // Whoever comes later has been seen together with the ring.
    let _near = claims.join(claim("near", Wait::Forever));
    until(|| counter.asked("near") == 1).await;
    counter.free.notify_one();
    until(|| counter.asked("far") == 2).await;
    drop(far);
}

#[tokio::test]
async fn whom_nothing_calls_is_looked_after_without_claims_of_his_own() {
    let (claims, counter) = open(&[]);
    let waiting: Vec<_> = (0..100).map(|n| claims.join(claim(&format!("c{n}"), Wait::Forever))).collect();
    until(|| counter.asked.lock().unwrap().len() == 100).await;
    until(|| counter.glances.load(Ordering::Relaxed) == 2).await;
    assert_eq!(counter.asked.lock().unwrap().len(), 100, "each was tried once");
    drop(waiting);
}

#[tokio::test]
async fn a_line_that_closes_answers_everybody_empty() {
    let (claims, counter) = open(&[]);
    let waiting = claims.join(claim("near", Wait::Forever));
    until(|| counter.asked("near") == 1).await;
    claims.close();
    assert_eq!(waiting.await.unwrap().unwrap(), []);
    assert_eq!(claims.join(claim("near", Wait::Forever)).await.unwrap().unwrap(), []);
}
