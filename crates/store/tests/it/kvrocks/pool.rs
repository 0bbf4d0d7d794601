//! How many connections a process makes, and when.

use super::ground::{open, options};
use super::server::Server;
use super::verbs::{create, named};
use codeq_queue::TaskStore;
use codeq_store::ManualClock;
use codeq_store::kvrocks::{Backend, KvrocksOptions, Timing};
use futures_util::future::try_join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Every store has a connection to publish, one to hear, one to write and one that asks whether the server is
/// there; and whoever counts is one, too.
const BESIDES: usize = 5;

fn connections(server: &Server) -> usize {
    let list = server.ask("CLIENT LIST");
    list.lines().count()
}

/// The connections of a store with this pool, in quiet times and while many read at once.
async fn counted(pool_size: u32) -> (usize, usize) {
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), pool_size, ..Backend::default() };
    let timing = Timing::Running { sweep_interval: Duration::from_secs(3600) };
    let store = open(KvrocksOptions { timing, ..options(backend) });
    super::round_trips::settled(&store).await;
    let task = create(&*store, "render").await.unwrap().task;
    for _ in 0..20 {
        store.get(vec![named(&task)]).await.unwrap();
    }
    let quiet = connections(&server);
    let reads = (0..200).map(|_| store.get(vec![named(&task)]));
    assert!(try_join_all(reads).await.unwrap().iter().all(|found| found[0].is_some()));
    (quiet, connections(&server))
}

#[tokio::test]
async fn a_process_reads_over_as_many_connections_as_its_pool_has() {
    assert_eq!(counted(1).await, (BESIDES + 1, BESIDES + 1), "there is always one to read");
    assert_eq!(counted(5).await, (BESIDES + 1, BESIDES + 4), "one of five writes, and none is made in vain");
}

/// A store by a clock that is moved by hand was never let go of: it went on asking its servers how they are, and after a
/// few dozen reopenings over 64 shards of a cluster these had time for nothing else.
#[tokio::test]
async fn a_store_that_is_closed_leaves_no_connection() {
    let server = Server::start(&[]);
    let backend = Backend { address: server.address(), ..Backend::default() };
    let running = Timing::Running { sweep_interval: Duration::from_millis(50) };
    for timing in [Timing::Stepped, running] {
        let mut options = KvrocksOptions { timing, ..options(backend.clone()) };
        if timing == Timing::Stepped {
            options.clock = Arc::new(ManualClock::at(codeq_store::testing::exam::START));
        }
        let store = open(options);
        create(&*store, "render").await.unwrap();
        assert!(connections(&server) > 1);
        drop(store);
        let deadline = Instant::now() + Duration::from_secs(30);
        while connections(&server) > 1 {
            assert!(Instant::now() < deadline, "{timing:?}:\n{}", server.ask("CLIENT LIST"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
