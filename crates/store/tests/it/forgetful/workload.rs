//! Clients that do random things to a store at the same time and remember what they were told.

use super::facts::{Facts, learn, progress, result_text};
use super::feed;
use codeq_queue::store::{Abandon, Heartbeat, Nack, Returned, Submit};
use codeq_queue::{Outcome, Task, TaskId};
use codeq_store::testing::exam::bench::{Bench, one};
use codeq_store::testing::exam::request::New;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What all clients were told so far, and every id that was ever given out.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<(Facts, BTreeSet<TaskId>)>>);

impl Told {
    pub fn starting_from(facts: Facts) -> Told {
        let ids = facts.keys().copied().collect();
        Told(Arc::new(Mutex::new((facts, ids))))
    }

    pub fn facts(&self) -> Facts {
        self.0.lock().unwrap().0.clone()
    }

    pub fn ids(&self) -> BTreeSet<TaskId> {
        self.0.lock().unwrap().1.clone()
    }

    fn task(&self, task: &Task) {
        let mut told = self.0.lock().unwrap();
        learn(&mut told.0, task.id, &task.body, progress(&task.state, task.attempts), None);
        told.1.insert(task.id);
    }

    fn learn(&self, task: &Task, progress: u64, record: Option<codeq_queue::ResultRecord>) {
        learn(&mut self.0.lock().unwrap().0, task.id, &task.body, progress, record);
    }
}

pub struct Client {
    pub bench: Bench,
    pub told: Told,
    pub rng: SmallRng,
    held: Vec<Task>,
}

/// Lets several clients do `steps` things each, at the same time.
pub async fn run(bench: &Bench, told: &Told, seed: u64, clients: u64, steps: usize) {
    let running: Vec<_> = (0..clients)
        .map(|number| {
            let bench = bench.worker("subject", &format!("worker-{number}"));
            let rng = SmallRng::seed_from_u64(seed * 100 + number);
            let mut client = Client { bench, told: told.clone(), rng, held: Vec::new() };
            tokio::spawn(async move {
                for _ in 0..steps {
                    client.step().await;
                }
            })
        })
        .collect();
    for client in running {
        client.await.expect("a client does not panic");
    }
}

impl Client {
    async fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..35 => self.create().await,
            35..60 => self.claim().await,
            60..75 => self.submit().await,
            75..82 => self.nack().await,
            82..86 => self.abandon().await,
            86..90 => self.heartbeat().await,
            90..93 => self.cancel().await,
            93..96 => self.bench.advance_ms(self.rng.random_range(0..20_000)),
            _ => feed(&self.bench).await,
        }
    }

    fn new_task(&mut self) -> New {
        let n: u32 = self.rng.random();
        // Above the size that the tables keeps apart.
        let long = if n.is_multiple_of(31) { "x".repeat(4200) } else { String::new() };
        let mut new = New::of(["render", "Encode", "mail"][n as usize % 3])
            .payload(&format!("{{\"n\":{n},\"fill\":\"{long}\"}}"))
            .priority((n % 10) as u8)
            .max_attempts(1 + n % 3);
        if n.is_multiple_of(2) {
            new = new.key(&format!("key-{n}"));
        }
        if n.is_multiple_of(3) {
            new = new.webhook("https://example.org/done");
        }
        if n.is_multiple_of(5) {
            new = new.delayed_ms(u64::from(n % 30_000));
        }
        new
    }

    async fn create(&mut self) {
        let count = self.rng.random_range(1..4);
        let tasks = (0..count).map(|_| self.new_task().build(&self.bench.tenant)).collect();
        for made in self.bench.ask("create", self.bench.store().create(tasks)).await {
            self.told.task(&made.expect("a create is not refused").task);
        }
    }

    async fn claim(&mut self) {
        let count = self.rng.random_range(1..4);
        for task in self.bench.claim_any(count).await {
            self.told.task(&task);
            self.held.push(task);
        }
    }

    /// A task this client has claimed; the lease may be over by now.
    fn drop_one(&mut self) -> Option<Task> {
        let index = self.rng.random_range(0..self.held.len().max(1));
        (index < self.held.len()).then(|| self.held.swap_remove(index))
    }

    async fn submit(&mut self) {
        let Some(task) = self.drop_one() else { return };
        let outcome = match self.rng.random_range(0..4) {
            0 => Outcome::failed("no such file"),
            _ => Outcome::completed(&result_text(task.id, task.attempts)),
        };
        let submit = Submit { report: self.bench.fenced(&task), outcome };
        let answer = one(self.bench.ask("submit", self.bench.store().submit(vec![submit])).await);
        if let Ok(record) = answer {
            self.told.learn(&task, u64::MAX, Some(record));
        }
    }

    fn returned(&self, task: &Task, returned: Returned) {
        let progress = match returned {
            Returned::Requeued { .. } => 2 * u64::from(task.attempts),
            Returned::Dead | Returned::Cancelled => u64::MAX,
        };
        self.told.learn(task, progress, None);
    }

    async fn nack(&mut self) {
        let Some(task) = self.drop_one() else { return };
        let nack = Nack::new(self.bench.fenced(&task), 0, Some("busy".into()));
        let answer = one(self.bench.ask("nack", self.bench.store().nack(vec![nack])).await);
        answer.into_iter().for_each(|returned| self.returned(&task, returned));
    }

    async fn abandon(&mut self) {
        let Some(task) = self.drop_one() else { return };
        let abandon = Abandon::new(self.bench.fenced(&task), self.rng.random());
        let answer = one(self.bench.ask("abandon", self.bench.store().abandon(vec![abandon])).await);
        answer.into_iter().for_each(|returned| self.returned(&task, returned));
    }

    async fn heartbeat(&mut self) {
        let Some(task) = self.drop_one() else { return };
        let beat = Heartbeat::new(self.bench.fenced(&task), Duration::from_secs(90));
        let answer = one(self.bench.ask("heartbeat", self.bench.store().heartbeat(vec![beat])).await);
        if answer.is_ok() {
            self.held.push(task);
        }
    }

    async fn cancel(&mut self) {
        let known: Vec<TaskId> = self.told.ids().into_iter().collect();
        if known.is_empty() {
            return;
        }
        let id = known[self.rng.random_range(0..known.len())];
        if let Ok(task) = self.bench.cancel(id).await {
            self.told.learn(&task, u64::MAX, None);
        }
    }
}
