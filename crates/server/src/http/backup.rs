//! A backup of the whole store, streamed at a bounded rate.

use super::call::Call;
use super::error::Error;
use super::reply;
use crate::auth::Operator;
use axum::body::Body;
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use codeq_queue::Failure;
use codeq_queue::store::Pieces;
use futures_util::stream;
use std::time::Duration;
use tokio::time::Instant;

/// Megabytes a second when nothing else is asked for: fast enough, and the disk has time for others.
const RATE: f64 = 64.0;
/// As slow as it can be asked for: a backup has an end.
const RATE_LEAST: f64 = 0.01;
const FILE: HeaderValue = HeaderValue::from_static("attachment; filename=\"codeq.backup\"");

/// Every tenant is in it.
pub async fn backup(call: Call, _: Operator) -> Result<Response, Error> {
    let rate = rate(call.query("mbPerSecond").as_deref());
    let pieces = call.broker()?.backup().await?;
    let reading = Reading { pieces, rate, sent: 0.0, since: Instant::now() };
    let body =
        stream::try_unfold(
            reading,
            |reading| async move { reading.next().await.map_err(std::io::Error::other) },
        );
    let octets = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::with_type(StatusCode::OK, octets, Body::from_stream(body));
    response.headers_mut().insert(CONTENT_DISPOSITION, FILE);
    Ok(response)
}

/// Bytes a second; what is no rate is the usual one.
fn rate(asked: Option<&str>) -> f64 {
    let asked = asked.and_then(|text| text.parse().ok()).filter(|rate| *rate > 0.0);
    asked.unwrap_or(RATE).max(RATE_LEAST) * 1e6
}

struct Reading {
    pieces: Pieces,
    /// Bytes a second.
    rate: f64,
    sent: f64,
    since: Instant,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(Bytes, Reading)>, Failure> {
        tokio::time::sleep_until(due(self.since, self.sent, self.rate)).await;
        let mut pieces = self.pieces;
        let read = tokio::task::spawn_blocking(move || (pieces.next(), pieces)).await;
        let (piece, pieces) = read.map_err(|error| Failure::Internal(error.to_string()))?;
        self.pieces = pieces;
        match piece.transpose()? {
            None => Ok(None),
            Some(piece) => {
                self.sent += piece.len() as f64;
                Ok(Some((piece.into(), self)))
            }
        }
    }
}

/// When so many bytes may have been sent.
fn due(since: Instant, sent: f64, rate: f64) -> Instant {
    since + Duration::from_secs_f64(sent / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mbPerSecond=1e-300` was taken as a rate; the time until the second piece was then no time at all
    /// and making it panicked, which tore the connection down in the middle of the backup. A rate has a
    /// lower bound now.
    #[test]
    fn a_rate_of_next_to_nothing_is_a_slow_backup_and_no_panic() {
        let since = Instant::now();
        for text in ["1e-300", "5e-324", "0.000001", "inf", "NaN", "-1", "0", "", "x", "1e308"] {
            let rate = rate(Some(text));
            assert!(rate >= RATE_LEAST * 1e6, "{text}: {rate}");
            assert!(due(since, 1e12, rate) >= since, "{text}");
        }
        assert!((rate(Some("2")) - 2e6).abs() < 1.0 && (rate(None) - 64e6).abs() < 1.0);
    }
}
