//! `codeq schedule`: tasks that are made by the clock.

use crate::client::{Api, Connection, NO_PAYLOAD, block_on, path, query};
use crate::operation::Operation;
use crate::table::Table;
use crate::{filter, say, tag, terminal};
use anyhow::{Context, bail};
use clap::Subcommand;
use codeq_api::schedule::ScheduleBody;
use codeq_api::task::{CreateBody, Headers};
use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// List, put, pause, trigger and backfill schedules.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin --command report --payload '{}'\n  \
    codeq schedule next nightly\n  codeq schedule list"
)]
pub struct Schedule {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List schedules with their next and last ticks.
    #[command(after_help = "Examples:\n  codeq schedule list\n  codeq schedule list --json")]
    List {
        /// Maximum number of schedules to list.
        #[arg(long, default_value_t = 1000, value_name = "N")]
        limit: usize,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show one schedule as JSON.
    #[command(after_help = "Example:\n  codeq schedule get nightly")]
    Get(One),
    Put(Box<Put>),
    /// Delete a schedule; the tasks it has made stay.
    #[command(after_help = "Example:\n  codeq schedule delete nightly")]
    Delete(One),
    /// Stop a schedule; ticks until it resumes are not missed.
    #[command(after_help = "Example:\n  codeq schedule pause nightly --note 'database upgrade'")]
    Pause {
        #[command(flatten)]
        one: One,
        /// Why it is paused.
        #[arg(long)]
        note: Option<String>,
    },
    /// Resume a paused schedule.
    #[command(after_help = "Example:\n  codeq schedule resume nightly")]
    Resume(One),
    /// Make one task now, in addition to the plan.
    #[command(after_help = "Example:\n  codeq schedule trigger nightly")]
    Trigger(One),
    /// Print the next ticks.
    #[command(after_help = "Example:\n  codeq schedule next nightly --count 3")]
    Next {
        #[command(flatten)]
        one: One,
        /// How many.
        #[arg(long, default_value_t = 10, value_name = "N")]
        count: usize,
    },
    /// Make the tasks of ticks that have passed, at most 10,000.
    #[command(
        after_help = "Example:\n  codeq schedule backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z"
    )]
    Backfill {
        #[command(flatten)]
        one: One,
        /// The first instant (RFC 3339).
        #[arg(long, value_name = "TIME")]
        from: String,
        /// The end, not included (RFC 3339).
        #[arg(long, value_name = "TIME")]
        to: String,
    },
}

/// One schedule.
#[derive(clap::Args)]
struct One {
    /// Name of the schedule.
    name: String,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Create or replace a schedule.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  codeq schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin --command report --payload '{}'\n  \
    codeq schedule put poll --every-seconds 30 --overlap allow --command poll --payload '{\"n\":1}'\n  \
    codeq schedule put nightly --file nightly.json"
)]
struct Put {
    #[command(flatten)]
    one: One,
    /// The whole schedule as a JSON file, instead of the other flags.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cron", "every_seconds", "command", "payload"])]
    file: Option<String>,
    /// Five fields, or six with seconds in front; or @hourly, @daily, @weekly, @monthly, @yearly.
    #[arg(long, conflicts_with = "every_seconds")]
    cron: Option<String>,
    /// Interval in seconds.
    #[arg(long, value_name = "N")]
    every_seconds: Option<i64>,
    /// An instant at which the interval ticks (RFC 3339).
    #[arg(long, value_name = "TIME", requires = "every_seconds")]
    anchor: Option<String>,
    /// IANA name of a time zone; UTC unless given.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Command of the tasks.
    #[arg(long)]
    command: Option<String>,
    /// Payload of the tasks: any JSON.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Priority of the tasks, from 0 to 9.
    #[arg(long)]
    priority: Option<i64>,
    /// Number of deliveries before a task becomes a dead letter.
    #[arg(long, value_name = "N")]
    max_attempts: Option<i64>,
    /// Metadata that travels with the tasks; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// What a tick does while the task of the previous tick has not ended.
    #[arg(long, value_parser = ["skip", "allow", "cancel"])]
    overlap: Option<String>,
    /// Which of the ticks that fell due while no server ran still fire.
    #[arg(long, value_parser = ["none", "one", "all"])]
    catch_up: Option<String>,
    /// How far back --catch-up goes, in seconds.
    #[arg(long, value_name = "N")]
    catch_up_window_seconds: Option<i64>,
    /// Delay each task by up to N seconds; the same tick always gets the same delay.
    #[arg(long, value_name = "N")]
    jitter_seconds: Option<i64>,
    /// No tick before this (RFC 3339).
    #[arg(long, value_name = "TIME")]
    start_at: Option<String>,
    /// No tick at or after this (RFC 3339).
    #[arg(long, value_name = "TIME")]
    end_at: Option<String>,
    /// Create it paused.
    #[arg(long)]
    paused: bool,
}

impl Schedule {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let api = self.connection.or(front).settings()?.producer()?;
        block_on(async {
            match self.verb {
                Verb::List { limit, json } => list(&api, limit, json).await,
                Verb::Get(one) => {
                    let schedule: Value = api.get(&path(&["schedules", &one.name])).await?;
                    match one.json {
                        true => say!("{schedule}"),
                        false => say!("{schedule:#}"),
                    }
                    Ok(())
                }
                Verb::Put(put) => put.run(&api).await,
                Verb::Delete(one) => {
                    api.text(api.request(Method::DELETE, &path(&["schedules", &one.name]))).await?;
                    match one.json {
                        true => say!("{}", json!({"deleted": one.name})),
                        false => say!("{} Deleted {}", tag::ok(), one.name),
                    }
                    Ok(())
                }
                Verb::Pause { one, note } => {
                    let body = note.map_or_else(|| json!({}), |note| json!({"note": note}));
                    verb(&api, &one, "pause", &body, |_| format!("Paused {}", one.name)).await
                }
                Verb::Resume(one) => {
                    let said = |answer: &Value| format!("Resumed {}: {}", one.name, next_of(answer));
                    verb(&api, &one, "resume", &json!({}), said).await
                }
                Verb::Trigger(one) => {
                    let said = |task: &Value| format!("Task created: {}", text(task, "id"));
                    verb(&api, &one, "trigger", &json!({}), said).await
                }
                Verb::Next { one, count } => next(&api, &one, count).await,
                Verb::Backfill { one, from, to } => {
                    let body = json!({"from": from, "to": to});
                    let begun: Operation =
                        api.post(&path(&["schedules", &one.name, "backfill"]), &body).await?;
                    match one.json {
                        true => say!("{}", serde_json::to_string(&begun)?),
                        false => {
                            let count = begun.matched.unwrap_or(0);
                            say!("{} Backfilling {count} ticks: operation {}", tag::ok(), begun.id);
                        }
                    }
                    Ok(())
                }
            }
        })
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn next_of(schedule: &Value) -> String {
    match schedule["nextAt"].as_str() {
        Some(at) => format!("next tick {at}"),
        None => "no tick ahead".to_owned(),
    }
}

async fn verb(
    api: &Api,
    one: &One,
    verb: &str,
    body: &Value,
    said: impl FnOnce(&Value) -> String,
) -> anyhow::Result<()> {
    let answer: Value = api.post(&path(&["schedules", &one.name, verb]), body).await?;
    match one.json {
        true => say!("{answer}"),
        false => say!("{} {}", tag::ok(), said(&answer)),
    }
    Ok(())
}

async fn next(api: &Api, one: &One, count: usize) -> anyhow::Result<()> {
    let asked = query(&[("count".to_owned(), count.to_string())]);
    let ticks: Value = api.get(&format!("{}{asked}", path(&["schedules", &one.name, "next"]))).await?;
    if one.json {
        say!("{}", ticks["items"]);
        return Ok(());
    }
    for tick in ticks["items"].as_array().into_iter().flatten() {
        say!("{}", tick.as_str().unwrap_or_default());
    }
    Ok(())
}

async fn list(api: &Api, limit: usize, json: bool) -> anyhow::Result<()> {
    let mut all = Vec::new();
    api.list("/schedules", &[], limit, |items| all.extend(items)).await?;
    if json {
        say!("{}", Value::from(all));
        return Ok(());
    }
    if all.is_empty() {
        say!("no schedules");
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "COMMAND", "PLAN", "NEXT", "LAST", "MISSED", "SKIPPED"]);
    for schedule in &all {
        let plan = match schedule["everySeconds"].as_u64() {
            Some(seconds) => format!("every {seconds} s"),
            None => format!("{} ({})", text(schedule, "cron"), text(schedule, "timezone")),
        };
        let next = match schedule["paused"].as_bool() {
            Some(true) => "paused".to_owned(),
            _ => text(schedule, "nextAt").to_owned(),
        };
        table.row(vec![
            text(schedule, "name").to_owned(),
            text(&schedule["task"], "command").to_owned(),
            plan,
            next,
            text(schedule, "lastAt").to_owned(),
            schedule["missed"].to_string(),
            schedule["skipped"].to_string(),
        ]);
    }
    terminal::print(&table.to_string());
    Ok(())
}

impl Put {
    async fn run(self, api: &Api) -> anyhow::Result<()> {
        let body = match &self.file {
            Some(file) => {
                let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
                let _: Value = serde_json::from_str(&text).with_context(|| format!("{file} is not JSON"))?;
                text
            }
            None => self.body()?,
        };
        let request = api.request(Method::PUT, &path(&["schedules", &self.one.name])).body(body);
        let answer = api.text(request).await?;
        let schedule: Value = crate::client::read(&answer)?;
        match self.one.json {
            true => say!("{answer}"),
            false => say!("{} Schedule {}: {}", tag::ok(), self.one.name, next_of(&schedule)),
        }
        Ok(())
    }

    fn body(&self) -> anyhow::Result<String> {
        let Some(command) = &self.command else { bail!("--command is required, or --file") };
        let Some(payload) = &self.payload else { bail!("--payload is required, or --file") };
        let payload: &RawValue = serde_json::from_str(payload.trim()).context(NO_PAYLOAD)?;
        let headers = self.header.iter().map(|header| filter::pair(header));
        let headers = Headers(headers.collect::<anyhow::Result<_>>()?);
        let task = CreateBody {
            command: Some(command.clone()),
            payload: Some(payload),
            priority: self.priority,
            headers: Some(headers).filter(|headers| !headers.is_empty()),
            max_attempts: self.max_attempts,
            ..CreateBody::default()
        };
        let task = serde_json::value::to_raw_value(&task)?;
        let body = ScheduleBody {
            cron: self.cron.clone(),
            every_seconds: self.every_seconds,
            anchor: self.anchor.clone(),
            timezone: self.timezone.clone(),
            task: Some(&task),
            overlap: self.overlap.clone(),
            catch_up: self.catch_up.clone(),
            catch_up_window_seconds: self.catch_up_window_seconds,
            jitter_seconds: self.jitter_seconds,
            start_at: self.start_at.clone(),
            end_at: self.end_at.clone(),
            paused: self.paused.then_some(true),
        };
        Ok(serde_json::to_string(&body)?)
    }
}
