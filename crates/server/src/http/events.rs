//! The event stream over server-sent events.

use super::call::Call;
use super::error::Error;
use super::reply;
use crate::auth::Reader as AnyCaller;
use crate::events::{KINDS, News, Reader, Wanted};
use crate::shares::Place;
use crate::stamp::WireTime;
use axum::body::Body;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use codeq_api::events::LaggedBody;
use codeq_queue::{Refusal, TaskId};
use futures_util::stream;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
/// A sign of life when nothing happens.
const QUIET: Duration = Duration::from_secs(15);

pub async fn listen(call: Call, caller: AnyCaller) -> Result<Response, Error> {
    // Events are of an open store; while it opens there are none.
    let place = call.broker()?.poll_place(&caller.0.tenant)?;
    let wanted = Wanted {
        tenant: caller.0.tenant.clone(),
        command: call.query("command").filter(|command| !command.is_empty()).map(|c| c.to_ascii_lowercase()),
        task: match call.query("taskId").filter(|id| !id.is_empty()) {
            Some(id) => Some(TaskId::parse(&id).ok_or(Refusal::NotFound)?),
            None => None,
        },
        types: types(call.query("types"))?,
    };
    let last_id = call.header("last-event-id").ok().flatten();
    let reader = call.app.feed.listen(wanted, last_id);
    // The first line tells that we listen; the other processes should know by then.
    call.app.feed.announce().await;
    let teller = Teller {
        _place: place,
        reader,
        stamp: call.app.stamp.clone(),
        draining: call.app.draining(),
        ends: caller.0.ends_at.map(|at| at.since(call.app.now())),
        since: tokio::time::Instant::now(),
    };
    let hello = stream::once(std::future::ready(Ok::<_, std::io::Error>(Bytes::from_static(b": codeq\n\n"))));
    let told = stream::unfold(teller, |mut teller| async move {
        let lines = teller.next().await?;
        Some((Ok(lines), teller))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(hello, told));
    let mut response = reply::with_type(StatusCode::OK, STREAM, body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather answers would hold events back.
    let no_buffering = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(no_buffering, HeaderValue::from_static("no"));
    Ok(response)
}

fn types(given: Option<String>) -> Result<Vec<String>, Refusal> {
    let given = given.unwrap_or_default();
    let words = given.split(',').map(str::trim).filter(|word| !word.is_empty());
    let known = words.map(|word| match KINDS.contains(&word) {
        true => Ok(word.to_owned()),
        false => Err(Refusal::InvalidFilter(format!("unknown event type {word}"))),
    });
    known.collect()
}

struct Teller {
    _place: Place,
    reader: Reader,
    stamp: WireTime,
    draining: CancellationToken,
    /// How long the token is accepted.
    ends: Option<Duration>,
    since: tokio::time::Instant,
}

impl Teller {
    /// The next lines; `None` when the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        let over = async {
            match self.ends {
                Some(ends) => tokio::time::sleep_until(self.since + ends).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.draining.cancelled() => None,
            () = over => None,
            news = self.reader.next() => Some(lines(&news, &self.stamp)),
            () = tokio::time::sleep(QUIET) => Some(Bytes::from_static(b": quiet\n\n")),
        }
    }
}

fn lines(news: &[News], stamp: &WireTime) -> Bytes {
    let mut lines = Vec::with_capacity(news.len() * 256);
    let mut add = |id: Option<&str>, kind: &str, data: Bytes| {
        if let Some(id) = id {
            lines.extend_from_slice(format!("id: {id}\n").as_bytes());
        }
        lines.extend_from_slice(format!("event: {kind}\ndata: ").as_bytes());
        lines.extend_from_slice(&data);
        lines.extend_from_slice(b"\n\n");
    };
    for news in news {
        match news {
            News::Lagged { missed } => {
                add(None, "lagged", reply::encode(&LaggedBody { kind: "lagged".into(), missed: *missed }));
            }
            News::Event { id, notice } => {
                add(Some(id), notice.kind, reply::encode(&notice.body(stamp.text(notice.at))));
            }
        }
    }
    lines.into()
}
