//! Building answers.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

const PARTIAL: HeaderName = HeaderName::from_static("codeq-partial");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Compact JSON.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    with_type(status, JSON, encode(value))
}

pub fn encode<T: Serialize>(value: &T) -> Bytes {
    let mut text = Vec::with_capacity(512);
    serde_json::to_writer(&mut text, value).expect("wire types have string keys and no failing serialisers");
    Bytes::from(text)
}

pub fn ok<T: Serialize>(value: &T) -> Response {
    json(StatusCode::OK, value)
}

/// Says which shards did not answer, if any.
pub fn partial(mut response: Response, missing: &[String]) -> Response {
    // Names of shards are plain.
    if let Some(names) = HeaderValue::from_str(&missing.join(",")).ok().filter(|_| !missing.is_empty()) {
        response.headers_mut().insert(PARTIAL, names);
    }
    response
}

pub fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub fn with_type(status: StatusCode, content_type: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
