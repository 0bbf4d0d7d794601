//! Every kind of token, and what each kind of route has to say to it: auth.md §1, §3, §4, §6.

use super::super::issuer::{Issuer, WORKER_SCOPES, claims, now, unsigned, worker_claims};
use serde_json::{Value, json};

pub struct Token {
    pub name: String,
    /// `Authorization` as producers and as workers send it.
    producer: Option<String>,
    worker: Option<String>,
    kind: Kind,
}

enum Kind {
    /// No header at all.
    Missing,
    /// Not to be believed, for this reason.
    Flawed(String),
    /// Its claims name no tenant, or two.
    Stateless,
    Producer,
    /// May read, and nothing else.
    Observer,
    Admin,
    Operator,
    /// With these scopes.
    Worker(String),
    NoEventTypes,
    /// In order, of another tenant.
    ForeignAdmin,
    ForeignOperator,
    ForeignWorker,
}

pub enum Expect {
    Allowed,
    /// Allowed, in another tenant than that of the thing.
    Foreign,
    Refused(u16, &'static str, String),
}

fn refused(status: u16, code: &'static str, text: &str) -> Expect {
    Expect::Refused(status, code, text.to_owned())
}

impl Token {
    /// The headers to try on a route of this right: both where both sides are heard.
    pub fn for_route(&self, right: &str) -> Vec<Option<&str>> {
        let (producer, worker) = (self.producer.as_deref(), self.worker.as_deref());
        match right {
            "any" | "none" if producer != worker => vec![producer, worker],
            right if right.starts_with("codeq:") => vec![worker],
            _ => vec![producer],
        }
    }

    /// What the header `Codeq-Access` of an answer says.
    pub fn access(&self, right: &str) -> &'static str {
        if matches!(self.kind, Kind::Observer) && right != "none" { "read" } else { "" }
    }

    pub fn expect(&self, method: &str, right: &str) -> Expect {
        match right {
            "none" => Expect::Allowed,
            "any" => self.expect_any(),
            "producer" | "admin" if matches!(self.kind, Kind::Observer) && method == "GET" => Expect::Allowed,
            "producer" | "admin" | "operator" => self.expect_producer(right),
            scope => self.expect_worker(scope),
        }
    }

    fn expect_any(&self) -> Expect {
        match &self.kind {
            Kind::Missing | Kind::Flawed(_) | Kind::NoEventTypes => {
                refused(401, "invalid_token", "invalid token")
            }
            Kind::Stateless => refused(403, "invalid_tenant", "invalid tenant claims"),
            Kind::ForeignAdmin | Kind::ForeignOperator | Kind::ForeignWorker => Expect::Foreign,
            Kind::Producer | Kind::Observer | Kind::Admin | Kind::Operator | Kind::Worker(_) => {
                Expect::Allowed
            }
        }
    }

    fn expect_producer(&self, right: &str) -> Expect {
        let admin_only = || refused(403, "admin_only", "unauthorized. Admin only");
        match &self.kind {
            Kind::Missing => refused(401, "missing_authorization", "missing Authorization header"),
            Kind::Flawed(text) => refused(401, "invalid_token", text),
            Kind::Stateless => refused(403, "invalid_tenant", "invalid tenant claims"),
            Kind::Worker(_) | Kind::NoEventTypes | Kind::ForeignWorker => {
                refused(401, "invalid_token", "invalid audience: [codeq-worker]")
            }
            Kind::Observer => refused(403, "missing_scope", "missing scope"),
            Kind::Producer if right != "producer" => admin_only(),
            Kind::Admin | Kind::ForeignAdmin if right == "operator" => admin_only(),
            // A backup is of every tenant, whoever may take it.
            Kind::ForeignOperator if right == "operator" => Expect::Allowed,
            Kind::ForeignAdmin | Kind::ForeignOperator => Expect::Foreign,
            Kind::Producer | Kind::Admin | Kind::Operator => Expect::Allowed,
        }
    }

    fn expect_worker(&self, scope: &str) -> Expect {
        match &self.kind {
            Kind::Missing => refused(401, "missing_authorization", "missing Authorization header"),
            Kind::Flawed(text) => refused(401, "invalid_token", text),
            Kind::Stateless => refused(403, "invalid_tenant", "invalid tenant claims"),
            Kind::Producer
            | Kind::Observer
            | Kind::Admin
            | Kind::Operator
            | Kind::ForeignAdmin
            | Kind::ForeignOperator => refused(401, "invalid_token", "invalid audience: [codeq-producer]"),
            Kind::NoEventTypes => refused(401, "missing_event_types", "missing eventTypes"),
            Kind::Worker(scopes) if scopes.is_empty() => refused(401, "missing_scope", "missing scope"),
            Kind::Worker(scopes) if !scopes.split(' ').any(|has| has == scope) => {
                refused(403, "missing_scope", "missing scope")
            }
            Kind::Worker(_) => Expect::Allowed,
            Kind::ForeignWorker => Expect::Foreign,
        }
    }
}

fn over(mut base: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        base[name] = value.clone();
    }
    base
}

pub fn all(issuer: &Issuer) -> Vec<Token> {
    let mut tokens =
        vec![Token { name: "nothing".into(), producer: None, worker: None, kind: Kind::Missing }];
    tokens.extend(flawed(issuer));
    let signed = |claims: Value| issuer.token("k1", &claims);
    let mut add = |name: &str, claims: Value, kind: Kind| {
        let authorization = Some(format!("Bearer {}", signed(claims)));
        tokens.push(Token {
            name: name.into(),
            producer: authorization.clone(),
            worker: authorization,
            kind,
        });
    };
    let plain = json!({"role": "USER", "scope": "codeq:claim openid"});
    add("producer", claims(plain), Kind::Producer);
    let observer = json!({"role": "USER", "scope": "codeq:observe codeq:claim"});
    add("observer", claims(observer), Kind::Observer);
    add("admin by role", claims(json!({"role": "admin"})), Kind::Admin);
    add("admin by scope", claims(json!({"role": null, "scope": "codeq:admin"})), Kind::Admin);
    add("operator", claims(json!({"role": null, "scope": "codeq:operator"})), Kind::Operator);
    add("admin of globex", claims(json!({"tid": "globex"})), Kind::ForeignAdmin);
    let operator = json!({"tid": "globex", "scope": "codeq:operator"});
    add("operator of globex", claims(operator), Kind::ForeignOperator);
    let worker = |more: Value| over(worker_claims(), &more);
    add("worker", worker(json!({})), Kind::Worker(WORKER_SCOPES.into()));
    add("worker of globex", worker(json!({"tid": "globex"})), Kind::ForeignWorker);
    add("worker without events", worker(json!({"eventTypes": [" "]})), Kind::NoEventTypes);
    // What a producer's token may hold does not help a worker's.
    let none = worker(json!({"scope": "", "role": "ADMIN"}));
    add("worker without scopes", none, Kind::Worker(String::new()));
    let other = worker(json!({"scope": "codeq:admin codeq:operator"}));
    add("worker with other scopes", other, Kind::Worker("codeq:admin".into()));
    for scope in WORKER_SCOPES.split(' ') {
        add(&format!("worker with {scope}"), worker(json!({"scope": scope})), Kind::Worker(scope.into()));
        let others: Vec<&str> = WORKER_SCOPES.split(' ').filter(|other| *other != scope).collect();
        let others = others.join(" ");
        add(
            &format!("worker without {scope}"),
            worker(json!({"scope": others})),
            Kind::Worker(others.clone()),
        );
    }
    tokens
}

/// Each as a producer and as a worker would have it.
fn flawed(issuer: &Issuer) -> Vec<Token> {
    let stranger = Issuer::generate();
    let pair = |name: &str, kind: Kind, make: &dyn Fn(&Value) -> String| {
        let authorization = |claims: Value| Some(format!("Bearer {}", make(&claims)));
        let (producer, worker) = (authorization(claims(json!({}))), authorization(worker_claims()));
        Token { name: name.into(), producer, worker, kind }
    };
    let with = |name: &str, more: Value, kind: Kind| {
        pair(name, kind, &|claims| issuer.token("k1", &over(claims.clone(), &more)))
    };
    let flaw = |text: &str| Kind::Flawed(text.to_owned());
    let time = |text: &str| flaw(&format!("token has invalid claims: {text}"));
    let no_one = || flaw("token signature is invalid");
    vec![
        pair("garbage", flaw("token is malformed"), &|_| "garbage".into()),
        pair("a stranger's token", no_one(), &|claims| stranger.token("k1", claims)),
        pair("alg none", flaw("unexpected signing method: none"), &|claims| {
            format!("{}.", unsigned(&json!({"alg": "none", "kid": "k1"}), claims))
        }),
        pair("HS256 with the public key", flaw("unexpected signing method: HS256"), &|claims| {
            issuer.signed_with_the_public_key(claims).swap_remove(0)
        }),
        pair("claims of another token", no_one(), &|claims| {
            let good = issuer.token("k1", claims);
            let signature = good.rsplit('.').next().unwrap_or_default();
            let more = over(claims.clone(), &json!({"tid": "globex"}));
            format!("{}.{signature}", unsigned(&json!({"alg": "RS256", "kid": "k1"}), &more))
        }),
        with("expired", json!({"exp": now() - 3600}), time("token is expired")),
        with("without an end", json!({"exp": null}), time("exp is required")),
        with("not yet", json!({"nbf": now() + 3600}), time("token is not valid yet")),
        with(
            "wrong issuer",
            json!({"iss": "https://evil.example.com"}),
            flaw("invalid issuer: https://evil.example.com"),
        ),
        with("wrong audience", json!({"aud": "codeq-else"}), flaw("invalid audience: [codeq-else]")),
        with("no tenant", json!({"tid": "Acme"}), Kind::Stateless),
        with("two tenants", json!({"tenantId": "globex"}), Kind::Stateless),
    ]
}
