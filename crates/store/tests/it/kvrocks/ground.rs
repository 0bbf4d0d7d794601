//! Where stores stand in tests: one server and one cluster for all of them, each store in a keyspace of its
//! own, everything that runs by itself on one runtime that outlives the tests.

use super::server::Server;
use codeq_queue::Store;
use codeq_store::kvrocks::{self, Backend, KvrocksOptions, KvrocksStore, Sharding, Timing};
use codeq_store::testing::exam::bench::PATIENCE;
use codeq_store::testing::exam::{Candidate, Open, START};
use codeq_store::{ManualClock, Rules};
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});
static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start(&[]));
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Waits on a thread of its own, because the caller may be inside a runtime that must not block.
pub fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(|| RUNTIME.block_on(future)).join().expect("what is waited for does not panic")
    })
}

pub fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An empty keyspace on the shared server.
pub fn keyspace() -> Backend {
    Backend { address: SERVER.address(), db: next(), ..Backend::default() }
}

pub fn options(backend: Backend) -> KvrocksOptions {
    KvrocksOptions { backend, ..KvrocksOptions::new("") }
}

pub fn open(options: KvrocksOptions) -> Arc<KvrocksStore> {
    wait(kvrocks::open(options)).expect("the store opens")
}

/// How a candidate is opened, the first time and again.
type Opener = Arc<dyn Fn(Rules, Arc<ManualClock>) -> KvrocksOptions + Send + Sync>;

/// One shard on the shared server.
pub fn standalone() -> Open {
    candidate(|| {
        let backend = keyspace();
        Arc::new(move |rules, clock| KvrocksOptions {
            rules,
            clock,
            timing: Timing::Stepped,
            silence: PATIENCE,
            ..options(backend.clone())
        })
    })
}

/// The spread shards of the shared server.
pub fn spread() -> Open {
    candidate(|| {
        let backend = keyspace();
        Arc::new(move |rules, clock| KvrocksOptions {
            rules,
            clock,
            timing: Timing::Stepped,
            silence: PATIENCE,
            sharding: Sharding { spread: true, ..Sharding::default() },
            ..options(backend.clone())
        })
    })
}

pub fn candidate(place: impl Fn() -> Opener + Send + Sync + 'static) -> Open {
    Arc::new(move |rules: Rules| {
        let (opener, clock) = (place(), Arc::new(ManualClock::at(START)));
        let store = open(opener(rules.clone(), clock.clone()));
        Arc::new(OnServer { store: Mutex::new(store), opener, rules, clock })
    })
}

struct OnServer {
    store: Mutex<Arc<KvrocksStore>>,
    opener: Opener,
    rules: Rules,
    clock: Arc<ManualClock>,
}

impl OnServer {
    fn open_again(&self) {
        let store = open((self.opener)(self.rules.clone(), self.clock.clone()));
        *self.store.lock().expect("no one panics holding the store") = store;
    }
}

impl Candidate for OnServer {
    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().expect("no one panics holding the store").clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) {
        wait(self.store().close()).expect("the store closes");
        self.open_again();
    }

    /// The process is gone; the server has everything that was acknowledged.
    fn crash(&self) -> bool {
        self.open_again();
        true
    }
}
