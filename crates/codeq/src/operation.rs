//! Changing many tasks at once: count, ask, start, follow to the end.
//!
//! The server does the work and remembers how far it is; whoever stops watching stops nothing.

use crate::client::{Api, Refused, path};
use crate::{say, tag, terminal};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a server may be away while we watch; the operation goes on when it is back.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args, Clone)]
pub struct Care {
    /// Only say how many it would be.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
    /// Print the operation as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Words for what is done.
pub struct Deed {
    /// `requeue`
    pub verb: &'static str,
    /// `Requeued`
    pub done: &'static str,
    /// `dead letters of demo`
    pub what: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub id: String,
    pub kind: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    pub processed: u64,
    pub failed: u64,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Deserialize)]
pub struct Matched {
    pub matched: u64,
}

/// Asks, and does it. `start` is not called unless it is to be done.
pub async fn perform(
    api: &Api,
    care: &Care,
    deed: Deed,
    matched: u64,
    start: impl AsyncFnOnce() -> anyhow::Result<Operation>,
) -> anyhow::Result<()> {
    let Deed { verb, what, .. } = &deed;
    if care.dry_run {
        match care.json {
            true => say!("{}", serde_json::json!({"matched": matched})),
            false => say!("{} Would {verb} {matched} {what}", tag::info()),
        }
        return Ok(());
    }
    if matched > 0 {
        terminal::confirm(&format!("{verb} {matched} {what}"), care.yes)?;
    }
    let started = start().await?;
    conclude(follow(api, started, matched).await?, &deed, care.json)
}

/// Says how it ended.
fn conclude(operation: Operation, deed: &Deed, json: bool) -> anyhow::Result<()> {
    if json {
        say!("{}", serde_json::to_string(&operation)?);
    }
    if operation.state != "done" {
        bail!("operation {} {}: {}", operation.id, operation.state, operation.error.unwrap_or_default());
    }
    if !json {
        say!("{} {} {} {}", tag::ok(), deed.done, operation.processed, deed.what);
    }
    match operation.failed {
        0 => Ok(()),
        failed => bail!("{failed} could not be changed (operation {})", operation.id),
    }
}

/// Watches until it has ended.
async fn follow(api: &Api, mut operation: Operation, expected: u64) -> anyhow::Result<Operation> {
    let bar = bar(&operation, expected);
    let path = path(&["admin", "operations", &operation.id]);
    let mut seen = Instant::now();
    while operation.state == "running" {
        tokio::time::sleep(LOOK_EVERY).await;
        match api.get(&path).await {
            Ok(now) => {
                operation = now;
                seen = Instant::now();
            }
            Err(error) if is_final(&error) || seen.elapsed() > PATIENCE => return Err(error),
            Err(_) => {}
        }
        if let Some(matched) = operation.matched {
            bar.set_length(matched);
        }
        bar.set_position(operation.processed + operation.failed);
    }
    bar.finish_and_clear();
    Ok(operation)
}

/// Whether asking again is of no use.
fn is_final(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.status < 500 && refused.status != 429)
}

/// Drawn on a terminal only.
fn bar(operation: &Operation, expected: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(expected), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} eta {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(format!("operation {}", operation.id));
    bar
}
