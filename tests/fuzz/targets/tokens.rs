//! Tokens at the gate, against keys of every kind.
//!
//! The first byte of an input says what the rest is: a whole `Authorization` header; or header, claims and
//! signature of a token, a line each, under a signature that is not theirs; or the same, signed anew.
//! Demanded: of the first two nothing is accepted but a token that was issued; of the third nothing that
//! another issuer meant, or for somebody else, or that is over.

#[path = "../../../crates/server/src/auth/tests/issuer.rs"]
mod issuer;

use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codeq_server::auth::{Access, Gate, GateOptions, ProviderConfig, Scope};
use codeq_store::SystemClock;
use issuer::{Signer, b64, unsigned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

const ISSUER: &str = "https://id.example.com";
const AUDIENCES: [&str; 2] = ["codeq-producer", "codeq-worker"];
const SKEW: Duration = Duration::from_secs(60);
/// What an input is.
const HEADER: u8 = b'h';
const FOREIGN: u8 = b'f';
const SIGNED: u8 = b's';

pub struct Office {
    runtime: Runtime,
    gate: Gate,
    signers: Vec<Signer>,
    /// Tokens that are in order.
    issued: Vec<String>,
}

impl Office {
    pub fn open() -> Office {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime needs only memory");
        let signers = vec![Signer::ed25519(), Signer::rsa(), Signer::p256(), Signer::p384()];
        let keys: Vec<Value> = (0..).zip(&signers).map(|(n, signer)| signer.jwk(&format!("k{n}"))).collect();
        let url = publish(json!({"keys": keys}).to_string());
        let side = |audience: &str| {
            let config = json!({"jwksUrl": url, "issuer": ISSUER, "audience": audience});
            Some(ProviderConfig { kind: "jwks".to_owned(), config })
        };
        let gate = Gate::new(GateOptions {
            producer: side(AUDIENCES[0]),
            worker: side(AUDIENCES[1]),
            allow_producer_as_worker: false,
            admins_operate: false,
            clock_skew: SKEW,
            clock: Arc::new(SystemClock),
        });
        let gate = gate.expect("a good configuration");
        let issued = (0..).zip(&signers).flat_map(|(n, signer)| {
            AUDIENCES.map(|audience| signer.token_of(&format!("k{n}"), &claims(audience)))
        });
        let issued: Vec<String> = issued.collect();
        for token in &issued {
            let authorization = format!("Bearer {token}");
            assert!(is_accepted(&runtime, &gate, authorization.as_bytes()), "a token in order passes");
        }
        Office { runtime, gate, signers, issued }
    }

    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let claims = claims(AUDIENCES[0]);
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": "k0"});
        let mut corpus: Vec<Vec<u8>> =
            self.issued.iter().map(|token| format!("hBearer {token}").into_bytes()).collect();
        for kind in [FOREIGN, SIGNED] {
            corpus.push([&[kind], format!("{header}\n{claims}\nsignature").as_bytes()].concat());
        }
        let mut foreign = |header: Value, claims: &Value, signature: &[u8]| {
            let token = format!("{}.{}", unsigned(&header, claims), b64(signature));
            corpus.push(format!("hBearer {token}").into_bytes());
        };
        foreign(json!({"alg": "none"}), &claims, b"");
        for signer in &self.signers {
            let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &signer.public_der());
            let header = json!({"alg": "HS256", "kid": "k1"});
            let tag = aws_lc_rs::hmac::sign(&secret, unsigned(&header, &claims).as_bytes());
            foreign(header, &claims, tag.as_ref());
        }
        let mut over = claims;
        over["exp"] = json!(1);
        corpus.push(format!("hBearer {}", self.signers[1].token(&over)).into_bytes());
        corpus
    }

    pub fn read(&self, input: &[u8]) {
        let Some((kind, rest)) = input.split_first() else { return };
        match *kind {
            FOREIGN => self.foreign(rest),
            SIGNED => self.signed(rest),
            HEADER => self.header(rest),
            _ => self.header(input),
        }
    }

    fn header(&self, authorization: &[u8]) {
        // What a parser of HTTP would not let through never reaches the gate.
        if HeaderValue::from_bytes(authorization).is_ok() && self.accepts(authorization) {
            let text = String::from_utf8_lossy(authorization);
            let is_issued = self.issued.iter().any(|token| text.trim().ends_with(&**token));
            assert!(is_issued, "accepted: {text}");
        }
    }

    fn foreign(&self, rest: &[u8]) {
        let mut parts = rest.splitn(3, |byte| *byte == b'\n').map(b64);
        let mut next = || parts.next().unwrap_or_default();
        self.header(format!("Bearer {}.{}.{}", next(), next(), next()).as_bytes());
    }

    fn signed(&self, rest: &[u8]) {
        let mut parts = rest.splitn(3, |byte| *byte == b'\n');
        let (Some(header), Some(claims)) = (parts.next(), parts.next()) else { return };
        let message = format!("{}.{}", b64(header), b64(claims));
        let token = format!("{message}.{}", self.sign(&message));
        if self.accepts(format!("Bearer {token}").as_bytes()) {
            let claims: Value = serde_json::from_slice(claims).expect("what was accepted is JSON");
            assert!(is_ours(&claims), "accepted: {claims}");
        }
    }

    /// With the first key.
    fn sign(&self, message: &str) -> String {
        let Signer::Ed25519(pair) = &self.signers[0] else { unreachable!("the first key is of this kind") };
        URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes()))
    }

    fn accepts(&self, authorization: &[u8]) -> bool {
        is_accepted(&self.runtime, &self.gate, authorization)
    }
}

/// On any kind of route.
fn is_accepted(runtime: &Runtime, gate: &Gate, authorization: &[u8]) -> bool {
    let header = Some(authorization);
    runtime.block_on(async {
        gate.producer(header, Access::Read).await.is_ok()
            || gate.worker(header, Scope::Claim).await.is_ok()
            || gate.any(header).await.is_ok()
            || gate.operator(header).await.is_ok()
    })
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

fn claims(audience: &str) -> Value {
    json!({
        "iss": ISSUER, "aud": audience, "sub": "someone", "tid": "acme", "role": "ADMIN",
        "iat": 1_700_000_000, "exp": now().floor() + 86_400.0,
        "eventTypes": ["*"], "scope": "codeq:claim codeq:result",
    })
}

/// Whether claims are for us and not over, read in the plainest way.
fn is_ours(claims: &Value) -> bool {
    let is_audience = |value: &Value| value.as_str().is_some_and(|text| AUDIENCES.contains(&text));
    let audience = &claims["aud"];
    let has_audience =
        is_audience(audience) || audience.as_array().is_some_and(|all| all.iter().any(is_audience));
    let leeway = SKEW.as_secs_f64() + 1.0;
    let at = |name: &str| claims[name].as_f64();
    claims["iss"] == ISSUER
        && has_audience
        && at("exp").is_some_and(|end| end > now() - leeway)
        && at("nbf").is_none_or(|from| from < now() + leeway)
}

/// Serves one JSON text to whoever asks, for as long as this process lives; its URL.
fn publish(text: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/jwks.json", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
            let _ = write!(stream, "{head}: {}\r\n\r\n{text}", text.len());
        }
    });
    url
}
