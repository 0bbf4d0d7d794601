//! kill -9 three times under load: the ledger of what was acknowledged is what is completed.

use crate::server::{PATIENCE, Server, until};
use crate::transport::{Running, Transport, run};
use codeq_client::{Job, NewTask, Producer};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

const TASKS: usize = 3000;
const PRODUCERS: usize = 4;
const LEASE: Duration = Duration::from_secs(2);
/// Handler runs after which the server is killed, and how long it is away. The second time all leases end.
const KILLS: [(usize, Duration); 3] =
    [(500, Duration::ZERO), (1300, Duration::from_millis(2500)), (2200, Duration::ZERO)];

/// Every run of a handler: which attempt, and when it began.
type Run = (u32, Instant);

#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, Vec<Run>>>>);

impl Runs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Run>>> {
        self.0.lock().expect("nobody panics with it")
    }

    fn add(&self, job: &Job<usize>) {
        let mut runs = self.lock();
        runs.entry(job.id.clone()).or_default().push((job.attempt, Instant::now()));
    }

    fn count(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// A task runs again only if the server was killed, or the lease was over, since it ran before.
    fn check(&self, kills: &[Instant]) -> usize {
        let mut again = 0;
        for (id, runs) in self.lock().iter() {
            for pair in runs.windows(2) {
                let ((earlier, began), (later, next)) = (pair[0], pair[1]);
                assert!(earlier < later, "{id}: attempt {later} after {earlier}");
                let was_killed = kills.iter().any(|kill| began <= *kill && *kill <= next);
                assert!(was_killed || next - began >= LEASE, "{id}: attempt {later} has no reason");
                again += 1;
            }
        }
        again
    }
}

fn work(server: &Server, transport: Transport, runs: &Runs) -> Running {
    let runs = runs.clone();
    let handler = move |job: Job<usize>| {
        runs.add(&job);
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, String>(json!({"n": job.payload}))
        }
    };
    run(transport.worker(server).concurrency(32).batch_size(8).lease(LEASE).handle("ledger", handler))
}

/// Creates its share in batches of many sizes. Every one is acknowledged in the end.
async fn produce(producer: Producer, share: Vec<usize>) -> Vec<(usize, String)> {
    let mut ledger = Vec::new();
    let mut rest = &share[..];
    for size in [1, 7, 2, 31, 100].into_iter().cycle() {
        let (batch, later) = rest.split_at(size.min(rest.len()));
        let tasks = batch.iter().map(|n| NewTask::new("ledger", n).max_attempts(50));
        for (n, created) in batch.iter().zip(producer.create_all(tasks).await) {
            ledger.push((*n, created.expect("acknowledged").id));
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    ledger
}

async fn check_completed(producer: &Producer, ledger: &[(usize, String)]) {
    assert_eq!(ledger.len(), TASKS);
    assert_eq!(ledger.iter().map(|(_, id)| id).collect::<HashSet<_>>().len(), TASKS, "one task for each");
    for (n, id) in ledger {
        let finished = producer.wait_for_result(id, PATIENCE).await.expect("the task ends");
        assert!(finished.is_completed, "{:?}", finished.task);
        assert_eq!(finished.result.expect("a result").get(), json!({"n": n}).to_string());
    }
}

async fn kill_three_times(transport: Transport) {
    let mut server = Server::start();
    let runs = Runs::default();
    let workers = [work(&server, transport, &runs), work(&server, transport, &runs)];
    let producer = transport.producer(&server);
    let shares = (0..PRODUCERS).map(|first| (first..TASKS).step_by(PRODUCERS).collect());
    let producing: Vec<_> = shares.map(|share| tokio::spawn(produce(producer.clone(), share))).collect();
    let mut kills = Vec::new();
    for (at, away) in KILLS {
        until(async || runs.count() >= at).await;
        server.kill();
        kills.push(Instant::now());
        tokio::time::sleep(away).await;
        server.start_again();
    }
    let mut ledger = Vec::new();
    for share in producing {
        ledger.extend(share.await.expect("a producer does not panic"));
    }
    check_completed(&producer, &ledger).await;
    for worker in workers {
        worker.end().await.expect("a worker ends well");
    }
    let again = runs.check(&kills);
    let stats = server.stats("ledger").await;
    let empty = json!({"command": "ledger", "ready": 0, "delayed": 0, "inProgress": 0, "dlq": 0});
    assert_eq!(stats, empty, "nothing was created twice");
    assert_eq!(runs.lock().len(), TASKS, "nothing ran that is not in the ledger");
    println!("{transport:?}: {TASKS} tasks, {} runs, {again} of them repetitions", runs.count());
}

#[tokio::test(flavor = "multi_thread")]
async fn over_streams_every_acknowledged_task_is_completed_through_three_kills() {
    kill_three_times(Transport::Stream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_every_acknowledged_task_is_completed_through_three_kills() {
    kill_three_times(Transport::Http).await;
}
