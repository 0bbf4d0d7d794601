//! The published description of the API, and a page that shows it. Nothing comes from another host.

use super::call::Call;
use super::error::Error;
use super::reply;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

pub async fn openapi(_: Call) -> Result<Response, Error> {
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    Ok(reply::with_type(StatusCode::OK, json, codeq_api::OPENAPI))
}

pub async fn page(_: Call) -> Result<Response, Error> {
    Ok(asset("text/html; charset=utf-8", include_str!("docs.html")))
}

pub async fn style(_: Call) -> Result<Response, Error> {
    Ok(asset("text/css; charset=utf-8", include_str!("docs.css")))
}

pub async fn script(_: Call) -> Result<Response, Error> {
    Ok(asset("text/javascript; charset=utf-8", include_str!("docs.js")))
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    let mut response = reply::with_type(StatusCode::OK, HeaderValue::from_static(content_type), text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
