//! Makes a small data directory with a record of every kind, twice: once in the tables and once only in the
//! journal, as a kill leaves it. `cargo run -p codeq-store --example make_fixture -- <directory>`
//!
//! Frozen copies of what this made are in `tests/fixtures`; `tests/it/fixture.rs` knows what is in them. Run
//! it only for a new format, into a new directory: an old fixture proves that old data can still be read.
//! Before it is frozen: delete segments without frames.

use codeq_queue::delivery::DeliveryReport;
use codeq_queue::store::Submit;
use codeq_queue::subscription::{DeliveryMode, NewSubscription};
use codeq_queue::topic::Policy;
use codeq_queue::{Artifact, Outcome, Owner, Store, Task, Time};
use codeq_store::local::{self, LocalOptions, LocalStore};
use codeq_store::testing::exam::bench::{Bench, plain_rules};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::exam::{Candidate, START};
use codeq_store::{ManualClock, Rules};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Almost a century.
const FAR: Duration = Duration::from_secs(3_000_000_000);

struct Seat {
    store: Arc<LocalStore>,
    clock: Arc<ManualClock>,
    rules: Rules,
}

impl Candidate for Seat {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> Arc<ManualClock> {
        self.clock.clone()
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn keeps_on_reopen(&self) -> bool {
        false
    }

    fn reopen(&self) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let path = PathBuf::from(std::env::args().nth(1).expect("where to"));
    let bench = open(&path);
    let mut ids = String::new();
    part(&bench, "old", &mut ids).await;
    // Everything so far goes to the tables.
    bench.store().close().await.expect("the store closes");
    drop(bench);
    let bench = open_at(&path, START.plus_seconds(10));
    part(&bench, "new", &mut ids).await;
    std::fs::write(path.with_extension("ids"), ids).expect("the ids are written");
    // As a kill would leave it: nothing is closed.
    std::process::exit(0);
}

fn open(path: &PathBuf) -> Bench {
    open_at(path, START)
}

fn open_at(path: &PathBuf, at: Time) -> Bench {
    let rules = Rules { retention: FAR, dead_retention: Some(FAR), ..plain_rules() };
    let clock = Arc::new(ManualClock::at(at));
    let options = LocalOptions {
        rules: rules.clone(),
        clock: clock.clone(),
        segment_bytes: 32 << 10,
        ..LocalOptions::new(path)
    };
    let store = local::open(options).expect("the store opens");
    let owner = Arc::new(Owner::new("subject", "worker"));
    Bench { candidate: Arc::new(Seat { store, clock, rules }), tenant: "acme".into(), owner }
}

/// One record of every kind. Ten seconds pass.
async fn part(bench: &Bench, part: &str, ids: &mut String) {
    let name = |kind: &str| format!("{part}-{kind}");
    let mut note = |task: &Task| writeln!(ids, "{} {}", task.body.command, task.id).expect("memory");
    let revived = bench.dead(&name("revived")).await;
    let removed = bench.dead(&name("removed")).await;
    // Together, so that both act on the same tables.
    let (requeue, remove) = tokio::join!(bench.requeue(revived.id, Some(9)), bench.remove(removed.id));
    requeue.expect("a dead letter is requeued");
    remove.expect("a dead letter is removed");
    for task in [&revived, &removed] {
        note(task);
    }
    note(&bench.make(full(&name("ready"), part)).await.task);
    note(&bench.make(New::of(&name("large")).payload(&large())).await.task);
    note(&bench.make(New::of(&name("delayed")).delayed_ms(3_600_000)).await.task);
    note(&bench.dead(&name("dead")).await);
    let running = bench.create_and_take(New::of(&name("running"))).await;
    bench.heartbeat(bench.report(&running), Duration::from_secs(40_000)).await.expect("a heartbeat");
    note(&running);
    let nacked = bench.create_and_take(New::of(&name("nacked"))).await;
    bench.nack(&nacked, 5, "try again, š").await.expect("a nack");
    note(&nacked);
    for kind in ["completed", "failed", "called", "uncalled"] {
        note(&finish(bench, &name(kind), kind).await);
    }
    let cancelled = bench.create(&name("cancelled")).await;
    bench.cancel(cancelled.id).await.expect("a cancel");
    note(&cancelled);
    bench.pause(&name("paused")).await;
    catalogue(bench, &name("topic")).await;
    deliver(bench).await;
    bench.advance(10);
    bench.settle().await;
}

fn large() -> String {
    format!("{{\"large\":\"{}\"}}", "é".repeat(2500))
}

fn full(command: &str, part: &str) -> New {
    New::of(command)
        .payload("{ \"text\": \"žluťoučký 🐎\", \"n\": 1.0 }")
        .priority(7)
        .max_attempts(3)
        .key(&format!("{part}-key-é"))
        .webhook("https://example.org/done?x=1")
        .header("x-id", "42")
        .header("note", "čau")
        .trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=value")
}

async fn finish(bench: &Bench, command: &str, kind: &str) -> Task {
    let task = bench.create_and_take(New::of(command).webhook("https://example.org/hook").key(command)).await;
    let artifact = Artifact { name: "log.txt".into(), url: "https://example.org/log".into(), stored: None };
    let outcome = match kind {
        "failed" => Outcome::failed("no such file: ů"),
        _ => Outcome { artifacts: vec![artifact], ..Outcome::completed("{ \"ok\" : \"ž\" }") },
    };
    let submit = Submit { report: bench.fenced(&task), outcome };
    let done = bench.ask("submit", bench.store().submit(vec![submit])).await;
    assert!(done.iter().all(Result::is_ok));
    task
}

async fn catalogue(bench: &Bench, name: &str) {
    let policy = Policy {
        priority_tiers: vec![0, 5, 9],
        max_attempts: 3,
        dead_letter_topic: "dead".into(),
        retention_seconds: Some(60),
        max_consumers: None,
    };
    bench.ask("put_topic", bench.store().put_topic(bench.tenant.clone(), name.to_owned(), policy)).await;
    let subscription = NewSubscription {
        tenant: bench.tenant.clone(),
        callback_url: format!("https://example.org/{name}"),
        event_types: vec!["Render".into(), "*".into()],
        mode: DeliveryMode::Group,
        group: Some("group-ž".into()),
        ttl_seconds: 3_000_000_000,
        min_interval: Duration::from_millis(1500),
    };
    bench.ask("subscribe", bench.store().subscribe(subscription)).await.expect("a subscription");
}

/// Of the callbacks that are due one is delivered, one has failed for good, the others wait.
async fn deliver(bench: &Bench) {
    for delivery in bench.ask("take", bench.store().take_deliveries(10, Duration::from_secs(30))).await {
        let task = bench.get(delivery.task_id).await;
        let report = match task.body.command.rsplit('-').next() {
            Some("called") => DeliveryReport::Delivered,
            Some("uncalled") => DeliveryReport::Failed { error: "410 Gone".into() },
            _ => continue,
        };
        let reported = bench.ask("report", bench.store().report_delivery(delivery.id, report)).await;
        reported.expect("a report");
    }
}
