//! What workers report of tasks they hold: results, nacks, heartbeats, abandons.

use super::desk::Desk;
use super::texts;
use super::work::{Reporter, WorkerAnswer, Working};
use crate::broker::{AbandonRequest, BeatRequest, Items, NackRequest, SubmitRequest};
use crate::stamp::utc_seconds;
use codeq_api::grpc::worker::{
    Abandon, AbandonAck, Cancel, Heartbeat, HeartbeatAck, Nack, NackAck, Result as Report, ResultAck,
    ResultAckBatch,
};
use codeq_api::json;
use codeq_queue::store::Returned;
use codeq_queue::{CancelRequest, Refusal, Time, limits};
use prost::Message;
use std::sync::Arc;

const INVALID_RESULT: &str = "invalid result_json";
const INVALID_PROGRESS: &str = "invalid progress";
const INVALID_CHECKPOINT: &str = "invalid checkpoint";
/// Bytes that a report is reckoned to take besides its result.
const REPORT_BYTES: usize = 256;

impl Working {
    /// Everything that was gathered, one call for each kind.
    pub(super) fn report(&mut self, desk: &mut Desk<WorkerAnswer>) {
        let gathered = &mut self.gathered;
        let (results, nacks) = (std::mem::take(&mut gathered.results), std::mem::take(&mut gathered.nacks));
        let heartbeats = std::mem::take(&mut gathered.heartbeats);
        let abandons = std::mem::take(&mut gathered.abandons);
        let by = &self.reporter;
        if !results.is_empty() {
            let (events, bytes) = (results.len(), size(&results));
            let submitted = submit(by.clone(), results);
            desk.call(events, bytes, async move { each(submitted.await, WorkerAnswer::Result) });
        }
        if !nacks.is_empty() {
            let events = nacks.len();
            let bytes = nacks.iter().map(Message::encoded_len).sum();
            let nacked = nack(by.clone(), nacks);
            desk.call(events, bytes, async move { each(nacked.await, WorkerAnswer::Nack) });
        }
        if !heartbeats.is_empty() {
            let (events, bytes) = (heartbeats.len(), heartbeats.iter().map(Message::encoded_len).sum());
            let beaten = heartbeat(by.clone(), heartbeats);
            desk.call(events, bytes, async move { each(beaten.await, WorkerAnswer::Heartbeat) });
        }
        if !abandons.is_empty() {
            let (events, bytes) = (abandons.len(), abandons.iter().map(Message::encoded_len).sum());
            let abandoned = abandon(by.clone(), abandons);
            desk.call(events, bytes, async move { each(abandoned.await, WorkerAnswer::Abandon) });
        }
    }

    pub(super) fn result_batch(&self, results: Vec<Report>, desk: &mut Desk<WorkerAnswer>) -> usize {
        let (events, bytes) = (results.len(), size(&results));
        if events > limits::STREAM_BATCH {
            let text = Refusal::BatchTooLarge(limits::STREAM_BATCH).to_string();
            let refuse = |report: Report| result_ack(report.task_id, Some(text.clone().into()));
            let acks = results.into_iter().map(refuse).collect();
            desk.answer_many(WorkerAnswer::Results(ResultAckBatch { acks }), events);
        } else if events > 0 {
            let submitted = submit(self.reporter.clone(), results);
            desk.call(events, bytes, async move {
                let acks = submitted.await;
                vec![(WorkerAnswer::Results(ResultAckBatch { acks }), events)]
            });
        }
        bytes
    }
}

fn size(results: &[Report]) -> usize {
    let size = |report: &Report| report.result_json.len() + report.error.len() + report.task_id.len();
    results.iter().map(|report| size(report) + REPORT_BYTES).sum()
}

/// An answer for every ack, each of one event.
fn each<T>(acks: Vec<T>, say: fn(T) -> WorkerAnswer) -> Vec<(WorkerAnswer, usize)> {
    acks.into_iter().map(|ack| (say(ack), 1)).collect()
}

async fn submit(by: Reporter, results: Vec<Report>) -> Vec<ResultAck> {
    let mut asked = Vec::with_capacity(results.len());
    let mut requests = Vec::with_capacity(results.len());
    for report in results {
        let result = object(&report.result_json);
        asked.push((report.task_id.clone(), report.status.clone(), result.is_none()));
        requests.push(result.ok_or(Refusal::InvalidBody).map(|result| SubmitRequest {
            report: by.report(report.task_id, report.attempt),
            status: report.status,
            result: Some(result),
            error: (!report.error.is_empty()).then_some(report.error),
            artifacts: Vec::new(),
        }));
    }
    let submitted = by.broker.submit(&by.tenant, requests).await;
    texts::log_failure(&submitted);
    let answered = asked.into_iter().zip(submitted);
    let acks = answered.map(|((id, status, is_invalid), submitted)| {
        let text = match submitted {
            Ok(_) => None,
            Err(_) if is_invalid => Some(INVALID_RESULT.into()),
            Err(error) => Some(texts::result(&error, &status)),
        };
        result_ack(id, text)
    });
    acks.collect()
}

/// The text of a JSON object; nothing is `{}`.
fn object(bytes: &[u8]) -> Option<Arc<str>> {
    let text = std::str::from_utf8(bytes).ok()?.trim_ascii();
    match text {
        "" if bytes.is_empty() => Some("{}".into()),
        "{}" => Some(text.into()),
        _ if text.starts_with('{') && json::check(text).is_ok() => Some(text.into()),
        _ => None,
    }
}

fn result_ack(task_id: String, text: Option<texts::Text>) -> ResultAck {
    let ok = text.is_none();
    ResultAck { task_id, ok, error_message: text.map(Into::into).unwrap_or_default() }
}

async fn nack(by: Reporter, nacks: Vec<Nack>) -> Vec<NackAck> {
    let (mut asked, mut sound) = (Vec::with_capacity(nacks.len()), Vec::with_capacity(nacks.len()));
    for nack in nacks {
        let checkpoint = json_text(&nack.checkpoint, INVALID_CHECKPOINT);
        asked.push((nack.task_id.clone(), checkpoint.as_ref().err().copied()));
        let Ok(checkpoint) = checkpoint else { continue };
        sound.push(NackRequest {
            report: by.report(nack.task_id, nack.attempt),
            delay_seconds: nack.delay_seconds.into(),
            reason: (!nack.reason.is_empty()).then_some(nack.reason),
            refund: nack.refund,
            hold: Some(nack.hold),
            checkpoint,
        });
    }
    let returned = by.broker.nack(&by.tenant, sound).await;
    let acks = told(asked, returned).map(|(task_id, returned)| match returned {
        Ok(Returned::Requeued { delay_seconds }) => {
            let applied_delay_seconds = i32::try_from(delay_seconds).unwrap_or(i32::MAX);
            NackAck { task_id, ok: true, applied_delay_seconds, ..NackAck::default() }
        }
        Ok(Returned::Dead) => NackAck { task_id, ok: true, dlq: true, ..NackAck::default() },
        Ok(Returned::Cancelled) => NackAck { task_id, ok: true, ..NackAck::default() },
        Err(error_message) => NackAck { task_id, error_message, ..NackAck::default() },
    });
    acks.collect()
}

async fn heartbeat(by: Reporter, beats: Vec<Heartbeat>) -> Vec<HeartbeatAck> {
    let (mut asked, mut sound) = (Vec::with_capacity(beats.len()), Vec::with_capacity(beats.len()));
    for beat in beats {
        let texts = json_text(&beat.progress, INVALID_PROGRESS)
            .and_then(|progress| Ok((progress, json_text(&beat.checkpoint, INVALID_CHECKPOINT)?)));
        asked.push((beat.task_id.clone(), texts.as_ref().err().copied()));
        let Ok((progress, checkpoint)) = texts else { continue };
        sound.push(BeatRequest {
            report: by.report(beat.task_id, beat.attempt),
            extend_seconds: beat.extend_seconds.into(),
            progress,
            checkpoint,
        });
    }
    let extended = by.broker.heartbeat(&by.tenant, sound).await;
    let acks = told(asked, extended).map(|(task_id, extended)| match extended {
        Ok(beat) => {
            let cancel = beat.cancel.as_deref().map(|asked| cancel(task_id.clone(), 0, asked));
            let lease_until = utc_seconds(beat.lease_until);
            HeartbeatAck { task_id, ok: true, lease_until, cancel, ..HeartbeatAck::default() }
        }
        Err(error_message) => HeartbeatAck { task_id, error_message, ..HeartbeatAck::default() },
    });
    acks.collect()
}

async fn abandon(by: Reporter, abandons: Vec<Abandon>) -> Vec<AbandonAck> {
    let (mut asked, mut sound) = (Vec::with_capacity(abandons.len()), Vec::with_capacity(abandons.len()));
    for abandon in abandons {
        let checkpoint = json_text(&abandon.checkpoint, INVALID_CHECKPOINT);
        asked.push((abandon.task_id.clone(), checkpoint.as_ref().err().copied()));
        let Ok(checkpoint) = checkpoint else { continue };
        let report = by.report(abandon.task_id, abandon.attempt);
        sound.push(AbandonRequest { report, refund: abandon.refund, checkpoint });
    }
    let returned = by.broker.abandon(&by.tenant, sound).await;
    let acks = told(asked, returned).map(|(task_id, returned)| match returned {
        Ok(returned) => {
            AbandonAck { task_id, ok: true, dlq: returned == Returned::Dead, ..AbandonAck::default() }
        }
        Err(error_message) => AbandonAck { task_id, error_message, ..AbandonAck::default() },
    });
    acks.collect()
}

/// JSON that a worker sent beside its report, or what is wrong with it. Nothing is none.
fn json_text(bytes: &[u8], fault: &'static str) -> Result<Option<String>, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| fault)?.trim_ascii();
    match text.is_empty() || json::check(text).is_ok() {
        true => Ok((!text.is_empty()).then(|| text.to_owned())),
        false => Err(fault),
    }
}

/// The attempt is zero where the caller knows which one it is about.
pub(super) fn cancel(task_id: String, attempt: u32, asked: &CancelRequest) -> Cancel {
    Cancel {
        task_id,
        attempt: i32::try_from(attempt).unwrap_or(i32::MAX),
        reason: asked.reason.as_deref().unwrap_or_default().to_owned(),
        deadline: Some(stamp(asked.deadline)),
    }
}

fn stamp(time: Time) -> prost_types::Timestamp {
    let millis = time.millis();
    let nanos = i32::try_from(millis.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

/// Each id with its answer, refusals in words. The answers are those of reports that could be read.
fn told<T>(
    asked: Vec<(String, Option<&'static str>)>,
    items: Items<T>,
) -> impl Iterator<Item = (String, Result<T, String>)> {
    texts::log_failure(&items);
    let mut items = items.into_iter();
    asked.into_iter().map(move |(id, fault)| {
        let answer = match fault {
            Some(fault) => Err(fault.to_owned()),
            None => {
                let item = items.next().expect("an answer for every report");
                item.map_err(|error| texts::plain(&error).into_owned())
            }
        };
        (id, answer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_an_object_or_nothing() {
        assert_eq!(object(b"").as_deref(), Some("{}"));
        assert_eq!(object(b" {\"a\": [1]} ").as_deref(), Some("{\"a\": [1]}"));
        for bad in [&b" "[..], b"1", b"null", b"[]", b"{", b"{}{}", b"{\"a\":1,\"a\":2}", b"\xff"] {
            assert_eq!(object(bad), None, "{bad:?}");
        }
    }
}
