//! A data directory of the present format with a row of every kind that flow has: lanes, policies and what they have used
//! up, schedules, batches, tasks that wait for others, unique keys, checkpoints, cancels that were asked for, requeues,
//! imports, operations and audits. Half of it lies in the tables and half in the journal, as a kill leaves it.
//!
//! `CODEQ_MAKE_FIXTURE=<directory> cargo test -p codeq-store --test it flow_fixture` writes a new one. Do so only for a new
//! format: the old one proves that old data can still be read.

use crate::candidates::Seat;
use crate::fixture::{copy, fixture};
use codeq_queue::batch::BatchState;
use codeq_queue::store::{Cancel, Heartbeat, Import, Nack};
use codeq_queue::{
    AuditEntry, AuditPage, Filter, OnConflict, Operation, OperationKind, OperationState, Outcome, State,
    Task, TaskId, Time, UniqueUntil,
};
use codeq_store::local::{self, LocalOptions, verify};
use codeq_store::testing::exam::START;
use codeq_store::testing::exam::bench::{Bench, one, plain_rules};
use codeq_store::testing::exam::request::New;
use codeq_store::testing::exam::{grouping, schedules};
use codeq_store::{ManualClock, Rules};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MAKE: &str = "CODEQ_MAKE_FIXTURE";
const NAME: &str = "format-2-flow";
/// Almost a century.
const FAR: Duration = Duration::from_secs(3_000_000_000);
const POLICY: &str =
    r#"{"rate":{"limit":2,"periodSeconds":86400,"burst":2},"lanes":{"ordered":true},"concurrency":9}"#;
const PARTS: [(&str, u64); 2] = [("old", 0), ("new", 10)];

type Ids = BTreeMap<String, TaskId>;

fn open(path: &Path, after_seconds: u64) -> Bench {
    let rules = Rules { retention: FAR, dead_retention: Some(FAR), ..plain_rules() };
    let clock = Arc::new(ManualClock::at(START.plus_seconds(after_seconds)));
    let options = LocalOptions {
        rules: rules.clone(),
        clock: clock.clone(),
        segment_bytes: 32 << 10,
        ..LocalOptions::new(path)
    };
    let store = local::open(options).expect("the store opens");
    let owner = Arc::new(codeq_queue::Owner::new("subject", "worker"));
    Bench { candidate: Arc::new(Seat { store, clock, rules }), tenant: "acme".into(), owner }
}

/// One part of the directory, with the names of its tasks.
struct Part<'a> {
    bench: &'a Bench,
    name: &'static str,
    ids: &'a mut Ids,
}

impl Part<'_> {
    fn command(&self, kind: &str) -> String {
        format!("{}-{kind}", self.name)
    }

    async fn make(&mut self, kind: &str, change: impl FnOnce(New) -> New) -> Task {
        let task = self.bench.make(change(New::of(&self.command(kind)))).await.task;
        self.ids.insert(self.command(kind), task.id);
        task
    }

    async fn start(&mut self, kind: &str, change: impl FnOnce(New) -> New) -> Task {
        self.make(kind, change).await;
        self.bench.take(&self.command(kind)).await
    }

    async fn fill(&mut self) {
        self.fill_flow().await;
        self.fill_links().await;
        self.fill_attempts().await;
        self.fill_records().await;
        self.bench.advance(10);
        self.bench.settle().await;
    }

    async fn fill_flow(&mut self) {
        let (bench, store) = (self.bench, self.bench.store());
        let policies = store.policing().expect("the store keeps policies");
        let queue = bench.key(&self.command("limited"));
        bench.ask("put", policies.put_policy(queue, POLICY.into())).await.expect("a sound policy");
        for lane in ["a", "a", "b", "b"] {
            self.make("limited", |new| new.lane(lane)).await;
        }
        bench.take(&self.command("limited")).await;
        let plan = schedules::every_ten(|request| request.task.command = self.command("planned"));
        schedules::put(bench, &self.command("plan"), plan).await.expect("a sound schedule");
        let unique = |until, on| move |new: New| new.unique("k", until, on);
        let kept = self.start("kept", unique(UniqueUntil::For(FAR), OnConflict::Keep)).await;
        bench.complete(&kept).await;
        self.make("unique", unique(UniqueUntil::Ended, OnConflict::Replace)).await;
        let replaced = unique(UniqueUntil::Ended, OnConflict::Replace);
        self.make("unique", |new| replaced(new).payload("{\"later\":true}")).await;
        self.start("started", unique(UniqueUntil::Started, OnConflict::Keep)).await;
        self.make("expiring", |new| new.expires_at(START.plus_seconds(1_000_000))).await;
    }

    async fn fill_links(&mut self) {
        let open = grouping::make(self.bench).await;
        let member = self.start("member", |new| new.batch(open)).await;
        self.make("waiting", |new| new.after(&[member.id, open])).await;
        let done = self.start("member-done", |new| new.batch(open)).await;
        self.bench.complete(&done).await;
        let closed = grouping::make(self.bench).await;
        let last = self.start("last", |new| new.batch(closed)).await;
        grouping::close(self.bench, closed).await.expect("an open batch");
        self.bench.complete(&last).await;
        for (kind, id) in [("open", open), ("closed", closed)] {
            self.ids.insert(self.command(kind), id);
        }
    }

    async fn fill_attempts(&mut self) {
        let bench = self.bench;
        let task = self.start("checkpoint", |new| new).await;
        let mut nack = Nack::new(bench.report(&task), 5, Some("later".into()));
        nack.checkpoint = Some("half of it".into());
        one(bench.ask("nack", bench.store().nack(vec![nack])).await).expect("the owner may nack");
        let task = self.start("stopping", |new| new).await;
        bench
            .beat(Heartbeat::new(bench.report(&task), Duration::from_secs(40_000)))
            .await
            .expect("its lease");
        let grace = Duration::from_secs(3600);
        let cancel = Cancel { task: bench.named(task.id), grace, reason: Some("not needed".into()) };
        one(bench.ask("cancel", bench.store().cancel(vec![cancel])).await).expect("it lives");
        let task = self.start("failed-again", |new| new).await;
        bench.submit(&task, Outcome::failed("broken")).await.expect("the owner may fail its task");
        bench.requeue(task.id, Some(7)).await.expect("it has failed");
        let task = self.start("dead-again", |new| new.max_attempts(1)).await;
        bench.nack(&task, 0, "broken").await.expect("the owner may nack");
        bench.requeue(task.id, Some(8)).await.expect("it is dead");
    }

    async fn fill_records(&mut self) {
        let bench = self.bench;
        let model = self.make("imported-model", |new| new).await;
        let id =
            TaskId::from_bits(0xfeed_0000_0001 + self.name.len() as u128 + u128::from(self.name == "old"));
        let mut body = (*model.body).clone();
        body.command = self.command("imported").into();
        let task = Task { id, body: Arc::new(body), attempts: 2, error: Some("before".into()), ..model };
        let import = Import { task, record: None };
        assert_eq!(bench.ask("import", bench.store().import(vec![import])).await, [Ok(true)]);
        self.ids.insert(self.command("imported"), id);
        assert!(bench.ask("operation", bench.store().put_operation(self.operation())).await);
        bench.ask("audit", bench.store().put_audit(self.audit())).await;
    }

    fn number(&self) -> u64 {
        if self.name == "old" { 1 } else { 2 }
    }

    fn began(&self) -> Time {
        START.plus_seconds(if self.name == "old" { 0 } else { 10 })
    }

    fn operation(&self) -> Operation {
        Operation {
            id: u128::from(self.number()),
            tenant: Some("acme".into()),
            kind: OperationKind::Requeue,
            filter: Filter { error: Some("time".into()), ..Filter::default() },
            max_attempts: Some(3),
            rate_per_second: 10,
            state: OperationState::Running,
            matched: Some(5),
            processed: 2,
            failed: 1,
            created_at: self.began(),
            updated_at: self.began(),
            error: None,
            cursor: Some("here".into()),
            step: None,
            version: 1,
            holder: 9,
            held_until: self.began(),
            by: Some("ann".into()),
            cause: Some("timeout after <n> s".into()),
        }
    }

    fn audit(&self) -> AuditEntry {
        AuditEntry {
            at: self.began(),
            id: self.number(),
            who: "ann".into(),
            tenant: "acme".into(),
            verb: "pause".into(),
            target: "queues/render".into(),
            count: Some(12),
            request_id: "r-1".into(),
        }
    }

    fn id(&self, kind: &str) -> TaskId {
        self.ids[&self.command(kind)]
    }

    async fn task(&self, kind: &str) -> Task {
        self.bench.get(self.id(kind)).await
    }

    async fn check(&self) {
        self.check_flow().await;
        self.check_links().await;
        self.check_attempts().await;
        self.check_records().await;
    }

    async fn check_flow(&self) {
        let (bench, store) = (self.bench, self.bench.store());
        let policies = store.policing().expect("the store keeps policies");
        let limited = self.command("limited");
        let found = bench.ask("policy", policies.policy(bench.key(&limited))).await.expect("a policy");
        assert_eq!((&*found.text, found.version, found.updated_at), (POLICY, 1, self.began()));
        let claimed = bench.claim(&[&limited], 10).await;
        let lanes: Vec<_> = claimed.iter().map(|task| task.body.lane()).collect();
        assert_eq!(lanes, [Some("b")], "one start is left, and lane a waits for its first task");
        let plan = schedules::find(bench, &self.command("plan")).await.expect("a schedule");
        assert!(plan.progress.last_at.is_some() && plan.progress.next_at > plan.progress.last_at);
        let last = plan.progress.last_task.expect("a tick made a task");
        assert_eq!(&*bench.get(last).await.body.command, self.command("planned"));
        for (kind, until) in [("kept", UniqueUntil::For(FAR)), ("unique", UniqueUntil::Ended)] {
            let again = New::of(&self.command(kind)).unique("k", until, OnConflict::Keep);
            let again = bench.make(again).await;
            assert_eq!((again.is_duplicate, again.task.id), (true, self.id(kind)), "{kind}");
        }
        assert_eq!(&*self.task("unique").await.body.payload, "{\"later\":true}");
        let started = New::of(&self.command("started")).unique("k", UniqueUntil::Started, OnConflict::Keep);
        assert!(!bench.make(started).await.is_duplicate, "its time was over with the claim");
        let expiring = self.task("expiring").await.body.options.clone().expect("options");
        assert_eq!(expiring.expires_at, Some(START.plus_seconds(1_000_000)));
    }

    async fn check_links(&self) {
        let batch = grouping::find(self.bench, self.id("open")).await.expect("a batch");
        let counts = batch.counts();
        assert_eq!((batch.state(), counts.live, counts.completed), (BatchState::Open, 1, 1));
        let batch = grouping::find(self.bench, self.id("closed")).await.expect("a batch");
        assert_eq!((batch.state(), batch.counts().completed), (BatchState::Completed, 1));
        let waiting = self.task("waiting").await;
        assert_eq!(waiting.state.held().map(|held| held.open.len()), Some(2), "{:?}", waiting.state);
        assert!(self.task("member").await.state.lease().is_some());
    }

    async fn check_attempts(&self) {
        let task = self.task("checkpoint").await;
        assert_eq!((task.attempts, task.checkpoint.as_deref()), (1, Some("half of it")));
        let task = self.task("stopping").await;
        let cancel = task.state.lease().and_then(|lease| lease.cancel.clone()).expect("it is to stop");
        assert_eq!(cancel.reason.as_deref(), Some("not needed"));
        for (kind, max_attempts) in [("failed-again", 7), ("dead-again", 8)] {
            let task = self.task(kind).await;
            assert!(matches!(task.state, State::Ready { .. }), "{kind}: {:?}", task.state);
            assert_eq!((task.attempts, task.refunds, task.max_attempts), (1, 1, max_attempts), "{kind}");
            assert_eq!(task.error.as_deref(), Some("broken"), "{kind}");
        }
    }

    async fn check_records(&self) {
        let task = self.task("imported").await;
        assert_eq!((task.attempts, task.error.as_deref()), (2, Some("before")));
        let store = self.bench.store();
        let operations = self.bench.ask("operations", store.operations()).await;
        assert!(operations.contains(&self.operation()), "{operations:?}");
        let page = AuditPage { limit: 10, ..AuditPage::default() };
        let audits = self.bench.ask("audit", store.audit(page)).await.entries;
        assert!(audits.contains(&self.audit()), "{audits:?}");
    }
}

/// Makes a directory as a kill leaves it.
async fn make(path: &Path) -> Ids {
    let (mut ids, living) = (Ids::new(), tempfile::tempdir().unwrap());
    for (name, seconds) in PARTS {
        let bench = open(living.path(), seconds);
        Part { bench: &bench, name, ids: &mut ids }.fill().await;
        if name == "new" {
            copy(living.path(), path);
        }
        bench.store().close().await.expect("the store closes");
    }
    ids
}

/// Opens the directory, again and again, and checks everything that is in it.
async fn check(path: &Path, mut ids: Ids) {
    for _ in 0..2 {
        let directory = tempfile::tempdir().unwrap();
        copy(path, directory.path());
        let bench = open(directory.path(), 20);
        for (name, _) in PARTS {
            Part { bench: &bench, name, ids: &mut ids }.check().await;
        }
        bench.store().close().await.expect("the store closes");
        assert_eq!(verify(directory.path()).expect("it can be checked").problems, [""; 0]);
        // Once more, all of it from the tables.
        let bench = open(path, 20);
        bench.store().close().await.expect("the store closes");
    }
}

#[tokio::test]
async fn everything_of_flow_is_read_from_the_frozen_directory() {
    let (directory, ids) = fixture(NAME);
    check(directory.path(), ids).await;
}

/// The same directory made now: what the frozen one lacks because it was forgotten here is not missed otherwise.
#[tokio::test]
async fn everything_of_flow_is_read_from_a_new_directory() {
    let directory = tempfile::tempdir().unwrap();
    let ids = make(directory.path()).await;
    if let Some(to) = std::env::var_os(MAKE) {
        let mut lines = String::new();
        ids.iter().for_each(|(name, id)| writeln!(lines, "{name} {id}").expect("memory"));
        copy(directory.path(), &Path::new(&to).join(NAME));
        std::fs::write(Path::new(&to).join(NAME).with_extension("ids"), lines).expect("it is written");
    }
    check(directory.path(), ids).await;
}
