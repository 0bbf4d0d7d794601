//! Producers and workers over HTTP.

use super::super::http::client::{Client, Response, string_of};
use super::super::store::PAYLOAD_BYTES;
use super::crowd::{COMMAND, Crowd, Deed, Dice, LEASE_SECONDS, Pace, Wish, add};
use super::server::TOKEN;
use anyhow::{Context, bail};
use std::sync::Arc;
use std::time::Instant;

pub async fn produce(crowd: Arc<Crowd>, number: u64) -> anyhow::Result<()> {
    let mut client = Client::connect(crowd.http).await?;
    let (mut dice, mut pace) = (Dice::new(number), Pace::new());
    let mut keys = 0;
    while !crowd.is_over.is_cancelled() {
        pace.wait(&crowd).await;
        let extra = match dice.wish() {
            Wish::Plain => String::new(),
            Wish::Delayed => ",\"delaySeconds\":1".into(),
            Wish::Keyed => {
                keys += 1;
                format!(",\"idempotencyKey\":\"{number}-{keys}\"")
            }
            Wish::Repeated => format!(",\"idempotencyKey\":\"{number}-{keys}\""),
        };
        let payload = "p".repeat(PAYLOAD_BYTES - 2);
        let body = format!("{{\"command\":\"{COMMAND}\",\"payload\":\"{payload}\"{extra}}}");
        let at = Instant::now();
        let response = client.post("/v1/codeq/tasks", TOKEN, body.as_bytes()).await?;
        match response.status {
            202 if response.header("idempotent-replayed").is_some() => add(&crowd.replayed, 1),
            202 => add(&crowd.created, 1),
            _ => refuse(&crowd, "a create", &response)?,
        }
        crowd.record(at.elapsed());
    }
    Ok(())
}

/// A refusal has to say when to come back; any other answer is a fault.
fn refuse(crowd: &Crowd, what: &str, response: &Response<'_>) -> anyhow::Result<()> {
    match response.status {
        429 | 503 if response.header("retry-after").is_some() => add(&crowd.refused, 1),
        status => bail!("{what} answered {status}: {}", String::from_utf8_lossy(response.body)),
    }
    Ok(())
}

pub async fn work(crowd: Arc<Crowd>, number: u64) -> anyhow::Result<()> {
    let mut client = Client::connect(crowd.http).await?;
    let mut dice = Dice::new(1000 + number);
    while !crowd.is_done.is_cancelled() {
        let Some((id, attempt)) = claim(&mut client, &crowd).await? else { continue };
        let deed = dice.deed();
        if matches!(deed, Deed::Die) {
            add(&crowd.died, 1);
            client = Client::connect(crowd.http).await?;
            continue;
        }
        let at = Instant::now();
        report(&mut client, &crowd, &id, attempt, &deed).await?;
        crowd.record(at.elapsed());
    }
    Ok(())
}

async fn claim(client: &mut Client, crowd: &Crowd) -> anyhow::Result<Option<(String, u64)>> {
    let body = format!("{{\"commands\":[\"{COMMAND}\"],\"leaseSeconds\":{LEASE_SECONDS},\"waitSeconds\":1}}");
    let response = client.post("/v1/codeq/tasks/claim", TOKEN, body.as_bytes()).await?;
    match response.status {
        204 => return Ok(None),
        200 => {}
        _ => {
            refuse(crowd, "a claim", &response)?;
            return Ok(None);
        }
    }
    let id = string_of(response.body, "id").context("a claim without an id")?.to_owned();
    let task: serde_json::Value = serde_json::from_slice(response.body)?;
    Ok(Some((id, task["attempts"].as_u64().context("a claim without an attempt")?)))
}

async fn report(
    client: &mut Client,
    crowd: &Crowd,
    id: &str,
    attempt: u64,
    deed: &Deed,
) -> anyhow::Result<()> {
    let (verb, fields) = match deed {
        Deed::Complete => ("result", r#""status":"COMPLETED","result":{"ok":true}"#),
        Deed::Fail => ("result", r#""status":"FAILED","error":"it did not work out""#),
        Deed::Nack => ("nack", r#""delaySeconds":1,"reason":"not now""#),
        Deed::Abandon | Deed::Die => ("abandon", r#""refund":false"#),
    };
    let path = format!("/v1/codeq/tasks/{id}/{verb}");
    let body = format!("{{{fields},\"attempt\":{attempt}}}");
    let response = client.post(&path, TOKEN, body.as_bytes()).await?;
    match response.status {
        200 if verb == "result" => add(&crowd.ended, 1),
        200 => {}
        409 => add(&crowd.late, 1),
        _ => refuse(crowd, verb, &response)?,
    }
    Ok(())
}
