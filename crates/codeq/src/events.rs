//! `codeq events`: what happens, as it happens.

use crate::client::{Connection, block_on};
use crate::table::one_line;
use crate::worker::Interrupts;
use crate::{say, tag};
use codeq_client::{Event, Events, Happening};
use serde_json::{Value, json};

/// Follow what happens to tasks and queues, until interrupted.
///
/// Needs any valid token; shows the events of its tenant. Events are best effort: a reader that is too slow is
/// told how many it missed.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq events\n  codeq events --command demo --type failed,dead\n  \
    codeq events --task 5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\n  codeq events --json --count 10")]
pub struct Listen {
    /// Only events of this command.
    #[arg(long)]
    command: Option<String>,
    /// Only events of this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only these types, with commas between them: created, claimed, progress, completed, failed, requeued, dead,
    /// cancelled, promoted, released, paused, resumed, ticked, tick_skipped.
    #[arg(long = "type", value_name = "LIST")]
    types: Option<String>,
    /// Stop after this many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Listen {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let settings = self.connection.or(front).settings()?;
        let access = settings.producer_access()?;
        let mut events = Events::http(access.api.base(), access.token);
        if let Some(command) = self.command {
            events = events.command(command);
        }
        if let Some(task) = self.task {
            events = events.task(task);
        }
        if let Some(types) = self.types {
            events = events.types(types);
        }
        let (count, json) = (self.count.unwrap_or(u64::MAX), self.json);
        block_on(async {
            // A server that is away would be waited for without a word.
            access.api.check().await?;
            let mut interrupts = Interrupts::new()?;
            tokio::select! {
                () = interrupts.next() => Ok(()),
                told = tell(events, count, json) => told,
            }
        })
    }
}

async fn tell(mut events: Events, count: u64, json: bool) -> anyhow::Result<()> {
    let mut told = 0;
    while told < count {
        match events.next().await? {
            Event::Happened(happening) if json => say!("{}", as_json(&happening)),
            Event::Happened(happening) => say!("{}", as_text(&happening)),
            Event::Lagged { missed } if json => say!("{}", json!({"type": "lagged", "missed": missed})),
            Event::Lagged { missed } => say!("{} {missed} events were missed", tag::warn()),
        }
        told += 1;
    }
    Ok(())
}

fn as_json(happening: &Happening) -> Value {
    let mut object = json!({"type": happening.kind, "command": happening.command, "at": happening.at});
    for (name, value) in [
        ("taskId", happening.task_id.clone().map(Value::from)),
        ("attempt", happening.attempt.map(Value::from)),
        ("workerId", happening.worker_id.clone().map(Value::from)),
        ("status", happening.status.clone().map(Value::from)),
        ("error", happening.error.clone().map(Value::from)),
        ("progress", happening.progress.clone()),
        ("schedule", happening.schedule.clone().map(Value::from)),
        ("outcome", happening.outcome.clone().map(Value::from)),
        ("scheduledFor", happening.scheduled_for.clone().map(Value::from)),
        ("count", happening.count.map(Value::from)),
    ] {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}

/// `12:00:00.123  completed  demo  5f0c…  attempt 1  by w-1`
fn as_text(happening: &Happening) -> String {
    let time = happening.at.split_once('T').map_or(&*happening.at, |(_, time)| time);
    let time: String =
        time.chars().take_while(|c| c.is_ascii_digit() || matches!(c, ':' | '.')).take(12).collect();
    let mut text = format!("{time:<12}  {:<9}  {}", happening.kind, happening.command);
    if let Some(id) = &happening.task_id {
        text += &format!("  {id}");
    }
    if let Some(attempt) = happening.attempt {
        text += &format!("  attempt {attempt}");
    }
    if let Some(worker) = &happening.worker_id {
        text += &format!("  by {worker}");
    }
    if let Some(schedule) = &happening.schedule {
        text += &format!("  {schedule} {}", happening.outcome.as_deref().unwrap_or_default());
    }
    if let Some(progress) = &happening.progress {
        text += &format!("  {progress}");
    }
    if let Some(error) = &happening.error {
        text += &format!("  {error}");
    }
    one_line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let happening = Happening {
            kind: "dead".into(),
            task_id: Some("id-1".into()),
            command: "demo".into(),
            at: "2026-03-01T12:00:00.1234567Z".into(),
            attempt: Some(2),
            worker_id: Some("w".into()),
            status: None,
            error: Some("a\nb".into()),
            ..Happening::default()
        };
        assert_eq!(as_text(&happening), "12:00:00.123  dead       demo  id-1  attempt 2  by w  a b");
        assert_eq!(as_json(&happening)["error"], "a\nb");
        assert!(as_json(&happening).get("status").is_none());
        let told = Happening { progress: Some(json!({"done": 2})), error: None, ..happening.clone() };
        assert!(as_text(&told).ends_with(r#"by w  {"done":2}"#));
        assert_eq!(as_json(&told)["progress"], json!({"done": 2}));
        let (schedule, outcome) = (Some("nightly".into()), Some("fired".into()));
        let ticked = Happening { schedule, outcome, task_id: None, ..told };
        assert!(as_text(&ticked).contains("  nightly fired"), "{}", as_text(&ticked));
        assert_eq!(as_json(&ticked)["outcome"], "fired");
    }
}
