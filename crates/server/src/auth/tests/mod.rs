//! The gate as a whole, before a real key endpoint on the loopback.

mod config;
mod endpoint;
mod forged;
mod issuer;
mod keyring;
mod outage;
mod routes;
mod texts;
mod warm;

use super::{Access, Caller, Denied, Gate, GateOptions, ProviderConfig, Scope};
use codeq_queue::Time;
use codeq_store::ManualClock;
use endpoint::Endpoint;
use issuer::Signer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const START: Time = Time::from_millis(1_800_000_000_000);
const START_SECONDS: i64 = 1_800_000_000;
const ISSUER: &str = "https://id.example.com";

/// A gate on a clock that stands still.
struct Bench {
    gate: Gate,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new(producer: Option<ProviderConfig>, worker: Option<ProviderConfig>, allow: bool) -> Bench {
        let clock = Arc::new(ManualClock::at(START));
        let gate = open(producer, worker, allow, clock.clone()).expect("a good configuration");
        Bench { gate, clock }
    }

    /// A gate with a producer side of one endpoint.
    fn producer(endpoint: &Endpoint) -> Bench {
        Bench::new(Some(jwks(endpoint, "codeq-producer")), None, false)
    }

    async fn call(&self, token: &str) -> Result<Arc<Caller>, Denied> {
        self.gate.producer(Some(&bearer(token)), Access::Change).await.map(|producer| producer.0)
    }

    /// `ok`, or status and text.
    async fn outcome(&self, token: &str) -> String {
        tell(self.call(token).await)
    }

    async fn worker(&self, token: &str, scope: Scope) -> String {
        tell(self.gate.worker(Some(&bearer(token)), scope).await.map(|worker| worker.0))
    }

    async fn any(&self, token: &str) -> String {
        tell(self.gate.any(Some(&bearer(token))).await.map(|reader| reader.0))
    }

    async fn admin(&self, token: &str) -> String {
        tell(self.gate.admin(Some(&bearer(token)), Access::Change).await.map(|admin| admin.0))
    }
}

fn open(
    producer: Option<ProviderConfig>,
    worker: Option<ProviderConfig>,
    allow: bool,
    clock: Arc<ManualClock>,
) -> Result<Gate, String> {
    let clock_skew = Duration::from_secs(60);
    Gate::new(GateOptions {
        producer,
        worker,
        allow_producer_as_worker: allow,
        admins_operate: false,
        clock_skew,
        clock,
    })
}

fn tell(outcome: Result<Arc<Caller>, Denied>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(denied) => format!("{} {denied}", denied.status()),
    }
}

fn bearer(token: &str) -> Vec<u8> {
    format!("Bearer {token}").into_bytes()
}

fn provider(kind: &str, config: Value) -> ProviderConfig {
    ProviderConfig { kind: kind.to_owned(), config }
}

fn jwks(endpoint: &Endpoint, audience: &str) -> ProviderConfig {
    provider("jwks", json!({"jwksUrl": endpoint.url(), "issuer": ISSUER, "audience": audience}))
}

fn fixed(token: &str, more: Value) -> ProviderConfig {
    provider("static", with(json!({"token": token}), more))
}

/// The members of `more` over those of `base`.
fn with(mut base: Value, more: Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        base[name] = value.clone();
    }
    base
}

/// Claims of a producer that are in order for ten minutes.
fn claims(more: Value) -> Value {
    let base = json!({
        "iss": ISSUER, "aud": "codeq-producer", "sub": "someone", "tid": "acme",
        "iat": START_SECONDS, "exp": START_SECONDS + 600,
    });
    with(base, more)
}

/// Claims of a worker that are in order for ten minutes.
fn worker_claims(more: Value) -> Value {
    let worker = json!({"aud": "codeq-worker", "eventTypes": ["render"], "scope": "codeq:claim"});
    claims(with(worker, more))
}

/// A token of a new P-256 key, published under the `kid` "k1".
async fn one_key() -> (Endpoint, Signer) {
    let signer = Signer::p256();
    let endpoint = Endpoint::serving(&[signer.jwk("k1")]).await;
    (endpoint, signer)
}
