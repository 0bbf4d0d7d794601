//! The account: what a campaign did and what it found, as a table or as JSON.

use super::audit::Found;
use super::books::{Books, Counts};
use super::campaign::Plan;
use super::process::Server;
use super::task_book::Wrong;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

#[derive(Debug)]
pub struct Account {
    pub storage: String,
    pub rounds: u32,
    pub seed: u64,
    pub seconds: f64,
    pub counts: Counts,
    /// Orders of which at least one create was acknowledged.
    pub acknowledged: u64,
    pub found: Found,
    /// Milliseconds until a create was acknowledged after a promotion: the middle one and the longest.
    pub recovered: Option<(u64, u64)>,
    /// Changes to files that losses of power took back.
    pub taken_back: usize,
    pub lost: u64,
    pub doubled: u64,
    pub stuck: u64,
    pub unexpected: u64,
    /// Some of what is wrong, in words.
    pub texts: Vec<String>,
}

impl Account {
    pub fn make(
        plan: &Plan,
        books: &Books,
        found: Found,
        servers: &[Server],
        recovered: &[u64],
        took: Duration,
    ) -> Account {
        let panics: u64 = servers.iter().map(Server::panics).sum();
        let pages = books.pages();
        let mut texts: Vec<String> = Vec::new();
        for (wrong, (_, some)) in &pages.wrongs {
            texts.extend(some.iter().map(|text| format!("{wrong:?}: {text}")));
        }
        if panics > 0 {
            texts.push(format!("Unexpected: servers panicked {panics} times"));
        }
        Account {
            storage: format!("{:?}", plan.storage),
            rounds: plan.rounds,
            seed: plan.seed,
            seconds: took.as_secs_f64(),
            counts: pages.counts,
            acknowledged: pages.orders.values().filter(|book| book.is_acknowledged).count() as u64,
            found,
            recovered: (!recovered.is_empty()).then(|| middle_and_last(recovered)),
            taken_back: servers.iter().map(Server::lost).sum(),
            lost: pages.wrong(Wrong::Lost),
            doubled: pages.wrong(Wrong::Doubled),
            stuck: pages.wrong(Wrong::Stuck),
            unexpected: pages.wrong(Wrong::Unexpected) + panics,
            texts,
        }
    }

    /// Calls that were answered.
    pub fn operations(&self) -> u64 {
        self.counts.creates + self.counts.lent + self.counts.reports + self.counts.refused_reports
    }

    pub fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.stuck + self.unexpected == 0
    }

    fn rows(&self) -> Vec<(&'static str, Value)> {
        let Account { counts, found, .. } = self;
        let mut rows = vec![
            ("storage", json!(self.storage)),
            ("seed", json!(self.seed)),
            ("kill rounds", json!(self.rounds)),
            ("seconds", json!(self.seconds.round())),
            ("seconds to drain", json!((found.drain_seconds * 10.0).round() / 10.0)),
            ("writes taken back", json!(self.taken_back)),
            ("operations answered", json!(self.operations())),
            ("creates acknowledged", json!(self.acknowledged)),
            ("creates of unknown outcome", json!(counts.unknown_creates)),
            ("creates repeated with their key", json!(counts.repeated_creates)),
            ("tasks lent", json!(counts.lent)),
            ("reports acknowledged", json!(counts.reports)),
            ("reports refused", json!(counts.refused_reports)),
            ("reports of unknown outcome", json!(counts.unknown_reports)),
            ("tasks", json!(found.tasks)),
            ("of these never acknowledged", json!(found.unacknowledged)),
            ("completed", json!(found.completed)),
            ("failed", json!(found.failed)),
            ("dead", json!(found.dead)),
            ("lost", json!(self.lost)),
            ("lent twice at once", json!(self.doubled)),
            ("stuck", json!(self.stuck)),
            ("unexpected", json!(self.unexpected)),
        ];
        if let Some((middle, longest)) = self.recovered {
            rows.push(("ms until a create, middle", json!(middle)));
            rows.push(("ms until a create, longest", json!(longest)));
        }
        rows
    }

    pub fn json(&self) -> Value {
        let rows = self.rows().into_iter().map(|(name, value)| (name.replace(' ', "_"), value));
        let mut all: serde_json::Map<String, Value> = rows.collect();
        all.insert("texts".into(), json!(self.texts));
        Value::Object(all)
    }
}

fn middle_and_last(times: &[u64]) -> (u64, u64) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    (sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.rows() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(f, "{name:<32} {value:>12}")?;
        }
        self.texts.iter().try_for_each(|text| writeln!(f, "  {text}"))
    }
}
