//! Data written by earlier builds can be read. `examples/make_fixture.rs` made it.

use codeq_queue::store::{Health, Wait};
use codeq_queue::{
    AttemptOutcome, CatalogueStore, DeliveryState, FailureReason, OperatorStore, State, Status, Store, Task,
    TaskId, TaskStore, Time,
};
use codeq_queue::{Delivery, QueueKey, ResultRecord, subscription::DeliveryMode};
use codeq_store::local::{self, LocalOptions, LocalStore, verify};
use codeq_store::testing::exam::START;
use codeq_store::{ManualClock, Rules};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const FAR: Duration = Duration::from_secs(3_000_000_000);

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let entries = std::fs::read_dir(from).unwrap().map(Result::unwrap);
    // Git keeps no empty directories; these files hold their place.
    for entry in entries.filter(|entry| entry.file_name() != ".gitkeep") {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

pub fn fixture(name: &str) -> (tempfile::TempDir, BTreeMap<String, TaskId>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let directory = tempfile::tempdir().unwrap();
    copy(&path, directory.path());
    let ids = std::fs::read_to_string(path.with_extension("ids")).unwrap();
    let ids = ids.lines().map(|line| {
        let (name, id) = line.split_once(' ').unwrap();
        (name.to_owned(), TaskId::parse(id).unwrap())
    });
    (directory, ids.collect())
}

/// The part of the fixture that was made at `at`.
struct Part<'a> {
    store: &'a LocalStore,
    ids: &'a BTreeMap<String, TaskId>,
    name: &'static str,
    at: Time,
}

impl Part<'_> {
    fn named(&self, kind: &str) -> codeq_queue::store::TaskRef {
        let id = self.ids[&format!("{}-{kind}", self.name)];
        codeq_queue::store::TaskRef { tenant: "acme".into(), id }
    }

    async fn find(&self, kind: &str) -> Option<Task> {
        self.store.get(vec![self.named(kind)]).await.unwrap().remove(0)
    }

    /// A task, with everything checked that is the same for all.
    async fn task(&self, kind: &str) -> Task {
        let task = self.find(kind).await.unwrap_or_else(|| panic!("{}-{kind}", self.name));
        assert_eq!(task.id, self.named(kind).id);
        assert_eq!((&*task.body.tenant, &*task.body.command), ("acme", &*format!("{}-{kind}", self.name)));
        assert_eq!(task.created_at, self.at);
        task
    }

    async fn record(&self, kind: &str) -> ResultRecord {
        match self.store.result(self.named(kind), Wait::No).await.unwrap() {
            codeq_queue::store::ResultLookup::Done { record, .. } => record,
            other => panic!("{kind}: {other:?}"),
        }
    }

    async fn outcomes(&self, kind: &str) -> Vec<Option<AttemptOutcome>> {
        let attempts = self.store.attempts(self.named(kind)).await.unwrap().unwrap();
        for (number, attempt) in (1..).zip(&attempts) {
            assert_eq!(
                (attempt.attempt, &*attempt.worker_id, attempt.claimed_at),
                (number, "worker", self.at)
            );
        }
        attempts.into_iter().map(|attempt| attempt.end.map(|end| end.outcome)).collect()
    }

    async fn check_waiting(&self) {
        let ready = self.task("ready").await;
        let body = &ready.body;
        assert_eq!(&*body.payload, "{ \"text\": \"žluťoučký 🐎\", \"n\": 1.0 }");
        assert_eq!(body.webhook.as_deref(), Some("https://example.org/done?x=1"));
        let headers: Vec<_> = body.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(headers, [("x-id", "42"), ("note", "čau")]);
        assert_eq!(body.idempotency_key.as_deref(), Some(&*format!("{}-key-é", self.name)));
        assert_eq!(
            body.trace_parent.as_deref(),
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        );
        assert_eq!(body.trace_state.as_deref(), Some("vendor=value"));
        assert_eq!((ready.priority, ready.max_attempts, ready.attempts, ready.refunds), (7, 3, 0, 0));
        assert!(matches!(ready.state, State::Ready { .. }));
        assert_eq!(ready.updated_at, self.at);
        let large = self.task("large").await;
        assert_eq!(&*large.body.payload, format!("{{\"large\":\"{}\"}}", "é".repeat(2500)));
        let delayed = self.task("delayed").await;
        assert_eq!(delayed.state, State::Delayed { until: self.at.plus_seconds(3600) });
        let nacked = self.task("nacked").await;
        assert!(matches!(nacked.state, State::Ready { .. }), "its five seconds are over: {:?}", nacked.state);
        assert_eq!((nacked.attempts, nacked.error.as_deref()), (1, Some("try again, š")));
        assert_eq!(self.outcomes("nacked").await, [Some(AttemptOutcome::Nack)]);
        let running = self.task("running").await;
        let lease = running.state.lease().expect("it runs");
        assert_eq!((&*lease.owner.subject, &*lease.owner.worker_id), ("subject", "worker"));
        assert_eq!((lease.claimed_at, lease.until), (self.at, self.at.plus_seconds(40_000)));
        assert_eq!(self.outcomes("running").await, [None]);
    }

    async fn check_dead(&self) {
        let dead = self.task("dead").await;
        assert_eq!((dead.state, dead.attempts, dead.max_attempts), (State::Dead, 1, 1));
        let record = self.record("dead").await;
        assert_eq!(
            (record.status, record.failure_reason),
            (Status::Failed, Some(FailureReason::MaxAttempts))
        );
        assert_eq!(record.error.as_deref(), Some("broken"));
        assert_eq!(self.outcomes("dead").await, [Some(AttemptOutcome::Nack)]);
        let revived = self.task("revived").await;
        assert!(matches!(revived.state, State::Ready { .. }));
        assert_eq!((revived.attempts, revived.refunds, revived.max_attempts), (1, 1, 9));
        assert_eq!(self.outcomes("revived").await, [Some(AttemptOutcome::Nack)]);
        assert_eq!(self.find("removed").await, None);
        let stats = self.store.queue(QueueKey::new("acme", &format!("{}-dead", self.name)));
        assert_eq!(stats.await.unwrap().dead, 1);
    }

    async fn check_finished(&self) {
        for kind in ["completed", "called", "uncalled"] {
            assert_eq!(self.task(kind).await.state, State::Completed);
            let record = self.record(kind).await;
            assert_eq!((record.status, record.error.as_deref()), (Status::Completed, None));
            assert_eq!(record.result.as_deref(), Some("{ \"ok\" : \"ž\" }"));
            assert_eq!(record.completed_at, self.at);
            let artifact = &record.artifacts[0];
            assert_eq!((&*artifact.name, &*artifact.url), ("log.txt", "https://example.org/log"));
            assert_eq!(self.outcomes(kind).await, [Some(AttemptOutcome::Completed)]);
        }
        assert_eq!(self.task("failed").await.state, State::Failed);
        let record = self.record("failed").await;
        assert_eq!((record.status, record.error.as_deref()), (Status::Failed, Some("no such file: ů")));
        assert_eq!(self.task("cancelled").await.state, State::Cancelled);
        assert_eq!(self.record("cancelled").await.failure_reason, Some(FailureReason::Cancelled));
        assert_eq!(self.outcomes("cancelled").await, []);
    }

    async fn check_catalogue(&self) {
        let name = format!("{}-topic", self.name);
        let topic = self.store.topic("acme".into(), name.clone()).await.unwrap().expect("a topic");
        assert_eq!((topic.version, topic.created_at, topic.updated_at), (1, self.at, self.at));
        assert_eq!(topic.policy.priority_tiers, [0, 5, 9]);
        assert_eq!((topic.policy.max_attempts, &*topic.policy.dead_letter_topic), (3, "dead"));
        assert_eq!((topic.policy.retention_seconds, topic.policy.max_consumers), (Some(60), None));
        let url = format!("https://example.org/{name}");
        let all = self.store.subscriptions().await.unwrap();
        assert_eq!(all.len(), 2);
        let subscription = all.iter().find(|found| *found.callback_url == *url).expect("a subscription");
        let events: Vec<&str> = subscription.event_types.iter().map(|event| &**event).collect();
        assert_eq!(events, ["render", "*"]);
        assert_eq!(
            (subscription.mode, subscription.group.as_deref()),
            (DeliveryMode::Group, Some("group-ž"))
        );
        assert_eq!(subscription.min_interval, Duration::from_millis(1500));
        assert_eq!(subscription.created_at, self.at);
        // Earlier builds took any time to live.
        let expiries = [self.at.plus(FAR), self.at.plus_seconds(31_622_400)];
        assert!(expiries.contains(&subscription.expires_at), "{:?}", subscription.expires_at);
        let paused = QueueKey::new("acme", &format!("{}-paused", self.name));
        assert!(self.store.queue(paused).await.unwrap().is_paused);
    }

    async fn delivery(&self, kind: &str, failed: bool) -> Option<Delivery> {
        let all = self.store.deliveries(Some("acme".into()), failed, 0, 100).await.unwrap();
        all.into_iter().find(|delivery| delivery.task_id == self.named(kind).id)
    }

    async fn check_callbacks(&self) {
        let pending = self.delivery("completed", false).await.expect("a callback");
        assert_eq!(pending.state, DeliveryState::Pending { due: self.at.plus_seconds(30) });
        assert_eq!(
            (pending.attempts, pending.last_error, &*pending.url),
            (0, None, "https://example.org/hook")
        );
        let id = self.named("completed").id;
        assert!(pending.body.starts_with(&format!("{{\"taskId\":\"{id}\",")), "{}", pending.body);
        assert!(pending.body.contains("\"result\":{ \"ok\" : \"ž\" }"), "{}", pending.body);
        assert_eq!(self.delivery("called", false).await, None);
        assert_eq!(self.delivery("called", true).await, None);
        let failed = self.delivery("uncalled", true).await.expect("a callback that failed");
        assert_eq!((failed.state, failed.attempts), (DeliveryState::Failed { at: self.at }, 1));
        assert_eq!(failed.last_error.as_deref(), Some("410 Gone"));
    }
}

const FIXTURES: [&str; 3] = ["format-1", "format-1-newest", "format-2"];

fn options(path: &Path) -> LocalOptions {
    let rules = Rules { retention: FAR, dead_retention: Some(FAR), ..Rules::default() };
    let clock = Arc::new(ManualClock::at(START.plus_seconds(20)));
    LocalOptions { rules, clock, segment_bytes: 32 << 10, ..LocalOptions::new(path) }
}

/// Opens the directory and checks everything that is in it.
async fn check_everything(path: &Path, ids: &BTreeMap<String, TaskId>) {
    let store = local::open(options(path)).expect("the fixture opens");
    for (name, at) in [("old", START), ("new", START.plus_seconds(10))] {
        let part = Part { store: &store, ids, name, at };
        part.check_waiting().await;
        part.check_dead().await;
        part.check_finished().await;
        part.check_catalogue().await;
        part.check_callbacks().await;
    }
    assert_eq!(store.health(), Health::Ready);
    store.close().await.expect("the store closes");
}

#[tokio::test]
async fn every_record_of_every_format_is_read() {
    for name in FIXTURES {
        let (directory, ids) = fixture(name);
        for _ in 0..2 {
            check_everything(directory.path(), &ids).await;
        }
        assert!(!directory.path().join("shard-00/tree").exists(), "nothing of the first format is left");
        let found = verify(directory.path()).expect("the fixture can be checked");
        assert_eq!(found.problems, [""; 0], "{name}");
        assert_eq!((found.shards, found.live, found.ready), (1, 12, 8));
        assert_eq!((found.delayed, found.running, found.dead, found.finished), (2, 2, 2, 10));
        assert_eq!((found.deliveries, found.torn_bytes), (6, 0));
    }
}

#[test]
fn the_fixture_of_format_2_has_no_problems() {
    let (directory, _) = fixture("format-2");
    let found = verify(directory.path()).expect("the fixture can be checked");
    assert_eq!(found.problems, [""; 0]);
    assert_eq!((found.shards, found.live, found.dead, found.finished), (1, 12, 2, 10));
    assert!(found.frames > 10, "{found:?}");
}

/// The moment at which a directory changes its format is the replacement of the manifest. What an interruption leaves
/// before it is removed and made again; what one leaves after it is removed.
#[tokio::test]
async fn a_directory_whose_upgrade_was_interrupted_is_brought_over_all_the_same() {
    let (whole, ids) = fixture("format-1-newest");
    check_everything(whole.path(), &ids).await;
    // Before: the old manifest and tree, and some of the new files, whole or not.
    let shard = whole.path().join("shard-00");
    let made: Vec<_> = std::fs::read_dir(&shard).unwrap().map(|entry| entry.unwrap().path()).collect();
    for count in 0..=made.len() {
        let (directory, ids) = fixture("format-1-newest");
        for file in made.iter().take(count).filter(|file| !file.to_string_lossy().contains("journal")) {
            let bytes = std::fs::read(file).unwrap();
            let part = if count % 2 == 0 { &bytes[..] } else { &bytes[..bytes.len() / 2] };
            std::fs::write(directory.path().join("shard-00").join(file.file_name().unwrap()), part).unwrap();
        }
        check_everything(directory.path(), &ids).await;
    }
    // After: the new manifest and tables, and what is left of the tables.
    let (left, _) = fixture("format-1-newest");
    copy(&left.path().join("shard-00/tree"), &whole.path().join("shard-00/tree"));
    std::fs::remove_file(whole.path().join("shard-00/tree/version")).unwrap();
    check_everything(whole.path(), &ids).await;
    assert!(!whole.path().join("shard-00/tree").exists());
}

/// Checking changes nothing, so a directory of the first format has to be opened first.
#[test]
fn a_directory_of_the_first_format_is_not_checked_but_explained() {
    let (directory, _) = fixture("format-1");
    let refused = verify(directory.path()).expect_err("it is of an earlier format").to_string();
    assert!(refused.contains("has format 1"), "{refused}");
}
