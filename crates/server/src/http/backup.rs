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
const FILE: HeaderValue = HeaderValue::from_static("attachment; filename=\"codeq.backup\"");

/// Every tenant is in it.
pub async fn backup(call: Call, _: Operator) -> Result<Response, Error> {
    let asked = call.query("mbPerSecond").and_then(|rate| rate.parse().ok());
    let rate = asked.filter(|rate| *rate > 0.0).unwrap_or(RATE) * 1e6;
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

struct Reading {
    pieces: Pieces,
    /// Bytes a second.
    rate: f64,
    sent: f64,
    since: Instant,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(Bytes, Reading)>, Failure> {
        let due = self.since + Duration::from_secs_f64(self.sent / self.rate);
        tokio::time::sleep_until(due).await;
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
