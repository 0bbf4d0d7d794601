//! `codeq task create`.

use crate::client::Settings;
use crate::{filter, say, tag};
use anyhow::{Context, bail};
use codeq_api::task::{CreateBody, Headers};
use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Create a task.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq task create --event demo --payload '{\"n\":1}'\n  \
    codeq task create --event report --payload '[]' --delay-seconds 60 --max-attempts 3\n  \
    codeq task create --event bill --payload '{\"order\":77}' --idempotency-key order-77")]
pub struct Create {
    /// The command of the task.
    #[arg(long, value_name = "COMMAND")]
    event: Option<String>,
    /// The payload, any JSON; sent as given.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// 0 to 9; 9 is served first.
    #[arg(long)]
    priority: Option<i64>,
    /// URL that is told the result.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Deliveries before the task becomes a dead letter.
    #[arg(long, value_name = "N")]
    max_attempts: Option<i64>,
    /// Creates with the same key make one task.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Not before this instant (RFC 3339).
    #[arg(long, value_name = "TIME")]
    run_at: Option<String>,
    /// Not before so many seconds have passed.
    #[arg(long, value_name = "N")]
    delay_seconds: Option<i64>,
    /// Small metadata that travels with the task; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

impl Create {
    pub async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let Some(command) = given(&self.event) else { bail!("event is required") };
        let Some(payload) = given(&self.payload) else { bail!("payload is required") };
        let payload: &RawValue = serde_json::from_str(&payload).context("invalid payload JSON")?;
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
        };
        let request = settings.producer()?.request(Method::POST, "/tasks");
        let answer = crate::client::text(request.body(serde_json::to_string(&body)?)).await?;
        let Created { id } = crate::client::read(&answer)?;
        say!("{} Task created: {id}", tag::ok());
        Ok(())
    }
}
