//! A receiver of webhooks that trusts nobody without a signature.
//!
//! `cargo run --example receiver -- 9090 my-secret`, with `webhookHmacSecret: my-secret` in the server's
//! configuration. It checks both signatures as any receiver could check either, and forgets nothing it has
//! seen: a callback may come twice.

use aws_lc_rs::hmac;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A larger body is not for us.
const BODY_BYTES: usize = 32 * 1024 * 1024;
/// Seconds that the clocks may differ.
const TOLERANCE: u64 = 300;

struct Receiver {
    secret: String,
    seen: Mutex<HashSet<String>>,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(9090);
    let secret = arguments.next().unwrap_or_default();
    let receiver = Arc::new(Receiver { secret, seen: Mutex::default() });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("[OK] receiving webhooks on http://{}/", listener.local_addr()?);
    let router =
        Router::new().route("/", post(receive)).route("/{*path}", post(receive)).with_state(receiver);
    axum::serve(listener, router).await
}

async fn receive(State(receiver): State<Arc<Receiver>>, request: Request) -> (StatusCode, String) {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "too large".into());
    };
    // The raw bytes are what was signed: verify first, parse later.
    if let Err(why) = verify(&receiver.secret, &head.headers, &body, now()) {
        println!("[!] refused: {why}");
        return (StatusCode::UNAUTHORIZED, why.into());
    }
    let id = text(&head.headers, "webhook-id").to_owned();
    let is_new = receiver.seen.lock().is_ok_and(|mut seen| seen.insert(id.clone()));
    let what = if is_new { "[OK]" } else { "[i] again:" };
    println!("{what} {id} {}", String::from_utf8_lossy(&body));
    (StatusCode::NO_CONTENT, String::new())
}

/// Both schemes. One would do; they are over the same bytes.
fn verify(secret: &str, headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), &'static str> {
    let timestamp = text(headers, "webhook-timestamp");
    let sent: u64 = timestamp.parse().map_err(|_| "no timestamp")?;
    if now.abs_diff(sent) > TOLERANCE {
        return Err("too old, or from the future");
    }
    let own = decode_hex(text(headers, "x-codeq-signature")).ok_or("no X-CodeQ-Signature")?;
    let signed = [timestamp.as_bytes(), b".", body].concat();
    check(secret.as_bytes(), &signed, &own).map_err(|_| "X-CodeQ-Signature is wrong")?;

    let standard = text(headers, "webhook-signature").strip_prefix("v1,").ok_or("no webhook-signature")?;
    let standard = STANDARD.decode(standard).map_err(|_| "no webhook-signature")?;
    let signed = [text(headers, "webhook-id").as_bytes(), b".", &signed].concat();
    let key = match secret.strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| "our own secret is not base64")?,
        None => secret.as_bytes().to_vec(),
    };
    check(&key, &signed, &standard).map_err(|_| "webhook-signature is wrong")
}

/// In constant time.
fn check(key: &[u8], signed: &[u8], signature: &[u8]) -> Result<(), aws_lc_rs::error::Unspecified> {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), signed, signature)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    (0..64).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "{\"taskId\":\"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\",\"eventType\":\"render_video\",\
        \"status\":\"COMPLETED\",\"result\":{\"ok\":true},\"error\":\"\",\"artifacts\":[],\
        \"completedAt\":\"2026-03-01T12:00:05.25Z\"}";

    fn headers(own: &str) -> HeaderMap {
        let pairs = [
            ("x-codeq-signature", own),
            ("webhook-id", "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
            ("webhook-timestamp", "1772366405"),
            ("webhook-signature", "v1,HMByih2xZo7UhiZ1GDTJOMfQknnhIDElUta2wE0aNP4="),
        ];
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_worked_example_is_accepted_and_nothing_else() {
        let plain = headers("54cc4d3832250c0c402f7dba237dd14bb8f09295882368299df9126f78f49617");
        let encoded = headers("b1e4b1a154a559aa388db90e91d946137ae36212275d00c6eeff799656284861");
        let body = BODY.as_bytes();
        assert_eq!(verify("s3cr3t-for-docs", &plain, body, 1772366405), Ok(()));
        assert_eq!(verify("whsec_czNjcjN0LWZvci1kb2Nz", &encoded, body, 1772366405), Ok(()));
        assert!(verify("s3cr3t-for-docs", &plain, body, 1772366706).is_err());
        assert!(verify("s3cr3t-for-docs", &plain, &body[1..], 1772366405).is_err());
        assert!(verify("other", &plain, body, 1772366405).is_err());
        assert!(verify("s3cr3t-for-docs", &encoded, body, 1772366405).is_err());
    }
}
