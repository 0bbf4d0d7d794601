//! `codeq task create`.

use crate::client::{MissingFlag, NO_PAYLOAD, Settings};
use crate::{filter, say, tag};
use anyhow::Context;
use codeq_api::task::{CreateBody, Headers, UniqueBody, UniqueUntil};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::Read;

/// The highest priority; the server takes anything above for this one.
const HIGHEST_PRIORITY: i64 = 9;
/// Bytes of a payload that are read from a file or a pipe at most; the server's own limit is lower.
const PAYLOAD_BYTES: u64 = 256 << 20;

/// Create a task.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task create --command demo --payload '{\"n\":1}'\n  \
    codeq task create --command report --payload @report.json --delay-seconds 60 --max-attempts 3\n  \
    jq -n '{order:77}' | codeq task create --command bill --payload - --idempotency-key order-77\n  \
    codeq task create --command index --payload '{\"doc\":7}' --unique-key doc-7 --on-conflict replace")]
pub struct Create {
    /// Command of the task.
    #[arg(long, alias = "event")]
    command: Option<String>,
    /// Payload: any JSON, '@FILE' to read it from a file, or '-' to read it from standard input.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Priority from 0 to 9; 9 is served first.
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i64>,
    /// URL to notify of the result.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Number of deliveries before the task becomes a dead letter.
    #[arg(long, value_name = "N")]
    max_attempts: Option<i64>,
    /// Creating a task with the same key again returns the first one.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Time at which the task becomes ready (RFC 3339).
    #[arg(long, value_name = "TIME")]
    run_at: Option<String>,
    /// Delay before the task becomes ready, in seconds.
    #[arg(long, value_name = "N")]
    delay_seconds: Option<i64>,
    /// Metadata that travels with the task; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Lane of the task: lanes of one command are served in turn.
    #[arg(long, value_name = "NAME")]
    lane: Option<String>,
    /// Label to filter by; may be repeated.
    #[arg(long)]
    tag: Vec<String>,
    /// Time after which the task fails unless it has been claimed, in seconds.
    #[arg(long, value_name = "N")]
    expire_seconds: Option<i64>,
    /// Maximum duration of an attempt, in seconds, however often its lease is extended.
    #[arg(long, value_name = "N")]
    max_run_seconds: Option<i64>,
    /// Id of a task or batch that has to end before; may be repeated.
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// What happens if one of them does not succeed: 'cancel' the task (the default) or 'run' it.
    #[arg(long, value_name = "ACTION", requires = "after")]
    on_dependency_failure: Option<String>,
    /// Batch that the task joins.
    #[arg(long, value_name = "ID")]
    batch: Option<String>,
    /// Print the task as JSON.
    #[arg(long)]
    json: bool,
    // Last: what follows it would stand under its heading.
    #[command(flatten)]
    unique: Unique,
}

#[derive(clap::Args)]
#[command(next_help_heading = "One task per key")]
struct Unique {
    /// Only one task of the command with this key at a time.
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// When the key is free again: 'started', 'ended' (the default), or after this number of seconds.
    #[arg(long, value_name = "WHEN", requires = "unique_key")]
    unique_until: Option<String>,
    /// What happens if there is such a task: 'keep' it (the default), 'replace' its payload, or 'cancel' it.
    #[arg(long, value_name = "ACTION", requires = "unique_key")]
    on_conflict: Option<String>,
    /// Longest time for which replacing may postpone a delayed task, in seconds.
    #[arg(long, value_name = "N", requires = "unique_key")]
    max_wait_seconds: Option<i64>,
}

impl Unique {
    fn body(self) -> Option<UniqueBody> {
        let until = |text: String| match text.parse() {
            Ok(seconds) => UniqueUntil::Seconds(seconds),
            Err(_) => UniqueUntil::Word(text),
        };
        Some(UniqueBody {
            key: self.unique_key?,
            until: self.unique_until.map(until),
            on_conflict: self.on_conflict,
            max_wait_seconds: self.max_wait_seconds,
        })
    }
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

impl Create {
    pub async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let missing = |text, flag| MissingFlag::new(text, flag);
        let command = given(&self.command).ok_or(missing("event is required", "--command NAME"))?;
        let payload = given(&self.payload).ok_or(missing("payload is required", "--payload JSON"))?;
        let payload = read_payload(payload)?;
        let payload: &RawValue = serde_json::from_str(payload.trim()).context(NO_PAYLOAD)?;
        if let Some(priority) = self.priority.filter(|priority| !(0..=HIGHEST_PRIORITY).contains(priority)) {
            let counts = priority.clamp(0, HIGHEST_PRIORITY);
            eprintln!("{} priority {priority} is outside 0 to 9 and counts as {counts}", tag::warn_aside());
        }
        let headers = self.header.iter().map(|header| filter::pair(header));
        let headers = Headers(headers.collect::<anyhow::Result<_>>()?);
        let body = CreateBody {
            command: Some(command),
            payload: Some(payload),
            priority: self.priority,
            webhook: self.webhook,
            headers: Some(headers).filter(|headers| !headers.is_empty()),
            max_attempts: self.max_attempts,
            idempotency_key: self.idempotency_key,
            run_at: self.run_at,
            delay_seconds: self.delay_seconds,
            lane: self.lane,
            tags: Some(self.tag).filter(|tags| !tags.is_empty()),
            expire_seconds: self.expire_seconds,
            max_run_seconds: self.max_run_seconds,
            unique: self.unique.body(),
            after: Some(self.after).filter(|after| !after.is_empty()),
            on_dependency_failure: self.on_dependency_failure,
            batch_id: self.batch,
            ..CreateBody::default()
        };
        let answer = settings.producer()?.post_text("/tasks", serde_json::to_string(&body)?).await?;
        let Created { id } = crate::client::read(&answer)?;
        match self.json {
            true => say!("{answer}"),
            false => say!("{} Task created: {id}", tag::ok()),
        }
        Ok(())
    }
}

/// No JSON begins with `@` or is a lone `-`, so that these can stand for something else.
pub fn read_payload(given: String) -> anyhow::Result<String> {
    let mut text = String::new();
    match given.trim().strip_prefix('@') {
        Some(file) => {
            let opened = std::fs::File::open(file).with_context(|| format!("cannot read {file}"))?;
            opened
                .take(PAYLOAD_BYTES)
                .read_to_string(&mut text)
                .with_context(|| format!("cannot read {file}"))?;
        }
        None if given.trim() == "-" => {
            let read = std::io::stdin().lock().take(PAYLOAD_BYTES).read_to_string(&mut text);
            read.context("cannot read the payload from standard input")?;
        }
        None => return Ok(given),
    }
    Ok(text)
}
