//! `codeq top`: queues on the whole screen, with keys to act on them.
//!
//! Drawn by hand: one table, one header and one footer need no library, and the table is that of `queue watch`.

mod picture;
mod screen;

use crate::client::{Api, Connection, block_on, path};
use crate::dlq::Ended;
use crate::queue::{Rates, views};
use crate::worker::{self, Interrupts};
use anyhow::bail;
use codeq_api::admin::QueueView;
use picture::Picture;
use screen::{Key, Screen};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Seconds between refreshes: the least and the most.
const INTERVAL_SECONDS: (f64, f64) = (0.2, 60.0);

/// Show queues, workers and throughput live on the whole screen.
///
/// Keys: up and down select a queue, s sorts, p pauses or resumes it, enter shows its dead letters and failed tasks
/// by cause, r replays the dead letters, f the failed tasks, w lists the workers, esc goes back, q quits. Pausing and
/// replaying ask first.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq top\n  codeq top --interval 0.5")]
pub struct Top {
    /// Seconds between refreshes.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    interval: f64,
    /// Queues of this tenant, or '*' for all (operators only).
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// The order of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    Name,
    Ready,
    Dead,
    Oldest,
}

/// What a key has asked for and `y` would do.
#[derive(Clone, PartialEq, Eq)]
pub enum Question {
    Pause(String),
    Resume(String),
    Replay(Ended, String, u64),
}

/// Everything that is on the screen.
#[derive(Default)]
pub struct Shown {
    pub queues: Vec<QueueView<'static>>,
    pub rates: Rates,
    pub order: Order,
    /// The command of the selected queue, which stays selected wherever it moves.
    pub selected: String,
    pub question: Option<Question>,
    /// What was done last, or what went wrong.
    pub message: String,
    /// What has failed in the selected queue by cause, while it is inspected: dead letters, failed tasks.
    pub causes: Option<[Vec<Value>; 2]>,
    /// Those heard of within the last five minutes.
    pub workers: Vec<Value>,
    /// Whether they are listed.
    pub lists_workers: bool,
}

impl Top {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
            bail!("codeq top needs a terminal; in a pipe use `codeq queue watch`");
        }
        let api = self.connection.or(front).settings()?.producer()?;
        let seconds = self.interval.clamp(INTERVAL_SECONDS.0, INTERVAL_SECONDS.1);
        block_on(async {
            // A server that is away or refuses is told before the screen is taken.
            views(&api, self.tenant.as_deref()).await?;
            watch(&api, Duration::from_secs_f64(seconds), self.tenant.as_deref()).await
        })
    }
}

async fn watch(api: &Api, interval: Duration, tenant: Option<&str>) -> anyhow::Result<()> {
    let mut interrupts = Interrupts::new()?;
    let (screen, mut keys) = Screen::take()?;
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shown = Shown::default();
    loop {
        tokio::select! {
            () = interrupts.next() => return Ok(()),
            _ = ticks.tick() => refresh(api, tenant, &mut shown).await,
            key = keys.recv() => match key {
                None | Some(Key::Quit) => return Ok(()),
                Some(key) => pressed(api, key, &mut shown).await,
            },
        }
        screen.draw(&Picture::of(&shown, api.base()));
    }
}

/// While the server is unreachable, the footer says so and the last figures stay.
async fn refresh(api: &Api, tenant: Option<&str>, shown: &mut Shown) {
    shown.rates.read(api).await;
    match views(api, tenant).await {
        Ok(queues) => shown.queues = queues,
        Err(error) => shown.message = format!("{error:#}"),
    }
    match worker::seen(api, tenant).await {
        Ok(workers) => shown.workers = workers,
        Err(error) => shown.message = format!("{error:#}"),
    }
    sort(shown);
    if !shown.queues.iter().any(|queue| *queue.stats.command == shown.selected) {
        shown.selected =
            shown.queues.first().map(|queue| queue.stats.command.to_string()).unwrap_or_default();
    }
    if shown.causes.is_some() {
        inspect(api, shown).await;
    }
}

fn sort(shown: &mut Shown) {
    shown.queues.sort_by_key(|queue| {
        let stats = &queue.stats;
        let first = match shown.order {
            Order::Name => 0,
            Order::Ready => stats.ready,
            Order::Dead => stats.dlq,
            Order::Oldest => {
                if stats.ready > 0 {
                    queue.oldest_ready_age_seconds
                } else {
                    0
                }
            }
        };
        (std::cmp::Reverse(first), stats.command.to_string())
    });
}

async fn pressed(api: &Api, key: Key, shown: &mut Shown) {
    if let Some(question) = shown.question.take() {
        shown.message = match key {
            Key::Letter('y') => perform(api, &question).await,
            _ => "nothing was changed".into(),
        };
        return;
    }
    shown.message.clear();
    match key {
        Key::Up | Key::Letter('k') => step(shown, -1),
        Key::Down | Key::Letter('j') => step(shown, 1),
        Key::Enter => {
            shown.lists_workers = false;
            inspect(api, shown).await;
        }
        Key::Back => (shown.causes, shown.lists_workers) = (None, false),
        Key::Letter('w') => (shown.causes, shown.lists_workers) = (None, !shown.lists_workers),
        Key::Letter('p') => shown.question = selected(shown).map(pause_question),
        Key::Letter('r') => ask_to_replay(shown, Ended::Dead),
        Key::Letter('f') => ask_to_replay(shown, Ended::Failed),
        Key::Letter('s') => {
            shown.order = match shown.order {
                Order::Name => Order::Ready,
                Order::Ready => Order::Dead,
                Order::Dead => Order::Oldest,
                Order::Oldest => Order::Name,
            };
            sort(shown);
        }
        Key::Letter(_) | Key::Quit => {}
    }
}

pub fn selected(shown: &Shown) -> Option<&QueueView<'static>> {
    shown.queues.iter().find(|queue| *queue.stats.command == shown.selected)
}

fn pause_question(queue: &QueueView<'_>) -> Question {
    let command = queue.stats.command.to_string();
    if queue.paused { Question::Resume(command) } else { Question::Pause(command) }
}

fn ask_to_replay(shown: &mut Shown, of: Ended) {
    let Some(queue) = selected(shown) else { return };
    let count = match of {
        Ended::Dead => queue.stats.dlq,
        Ended::Failed => queue.failed,
    };
    match count {
        0 => shown.message = format!("{} has no {}s", queue.stats.command, of.noun()),
        count => shown.question = Some(Question::Replay(of, queue.stats.command.to_string(), count)),
    }
}

/// Selects the queue above or below; at the ends it stays.
fn step(shown: &mut Shown, by: isize) {
    let at = shown.queues.iter().position(|queue| *queue.stats.command == shown.selected).unwrap_or(0);
    let last = shown.queues.len().saturating_sub(1);
    if let Some(queue) = shown.queues.get(at.saturating_add_signed(by).min(last)) {
        shown.selected = queue.stats.command.to_string();
        shown.causes = None;
    }
}

/// What became of it, in words.
async fn perform(api: &Api, question: &Question) -> String {
    let (path, done) = match question {
        Question::Pause(command) => {
            (path(&["admin", "queues", command, "pause"]), format!("paused {command}"))
        }
        Question::Resume(command) => {
            (path(&["admin", "queues", command, "resume"]), format!("resumed {command}"))
        }
        Question::Replay(of, command, _) => (
            path(&["admin", of.route(), command, "requeue"]),
            format!("replaying the {}s of {command}", of.noun()),
        ),
    };
    match api.post::<Value>(&path, &json!({})).await {
        Ok(_) => done,
        Err(error) => format!("{error:#}"),
    }
}

async fn inspect(api: &Api, shown: &mut Shown) {
    if shown.selected.is_empty() {
        return;
    }
    let causes = async |of: Ended| {
        let answer = api.get::<Value>(&path(&["admin", of.route(), &shown.selected, "groups"])).await?;
        anyhow::Ok(answer["groups"].as_array().cloned().unwrap_or_default())
    };
    match tokio::try_join!(causes(Ended::Dead), causes(Ended::Failed)) {
        Ok((dead, failed)) => shown.causes = Some([dead, failed]),
        Err(error) => shown.message = format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(names: &[(&str, u64)]) -> Shown {
        let queue = |&(name, ready): &(&str, u64)| {
            let stats = json!({"command": name, "ready": ready, "delayed": 0, "inProgress": 0, "dlq": 0,
                "tenantId": "t", "oldestReadyAgeSeconds": ready, "paused": false});
            serde_json::from_value(stats).expect("a queue")
        };
        let queues = names.iter().map(queue).collect();
        Shown { queues, selected: names[0].0.into(), ..Shown::default() }
    }

    #[test]
    fn the_selection_stays_on_its_queue_and_within_the_list() {
        let mut shown = shown(&[("a", 1), ("b", 9), ("c", 5)]);
        step(&mut shown, -1);
        assert_eq!(shown.selected, "a");
        step(&mut shown, 1);
        shown.order = Order::Ready;
        sort(&mut shown);
        let names: Vec<&str> = shown.queues.iter().map(|queue| &*queue.stats.command).collect();
        assert_eq!((names, &*shown.selected), (vec!["b", "c", "a"], "b"));
        step(&mut shown, 1);
        step(&mut shown, 1);
        step(&mut shown, 1);
        assert_eq!(shown.selected, "a");
    }
}
