//! `codeq token mint`.

use super::{KEY_FILE, lifetime};
use crate::client::MissingFlag;
use crate::say;
use anyhow::bail;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const WORKER_SCOPES: [&str; 6] =
    ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result", "codeq:subscribe"];

/// Sign a token and print it.
///
/// Roles can be combined. An administrator can use the admin routes of its tenant, an operator those of all tenants.
/// An observer may read what its tenant has, the admin routes included, and change nothing.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq token mint --producer --tenant acme\n  \
    codeq token mint --worker --tenant acme --command render_video,mail --subject worker-1 --ttl 30d\n  \
    codeq token mint --admin --tenant acme --ttl 8h\n  codeq token mint --operator --tenant ops\n  \
    codeq token mint --observer --tenant acme --subject wall-screen")]
pub struct Mint {
    /// Allow creating tasks (the default role).
    #[arg(long)]
    producer: bool,
    /// Allow claiming tasks.
    #[arg(long)]
    worker: bool,
    /// Allow creating tasks and administering the tenant.
    #[arg(long)]
    admin: bool,
    /// Allow creating tasks and administering all tenants.
    #[arg(long)]
    operator: bool,
    /// Allow reading everything of the tenant, and nothing else: for people who only look at the dashboard.
    #[arg(long, conflicts_with_all = ["producer", "worker", "admin", "operator"])]
    observer: bool,
    /// Tenant of the token (required).
    #[arg(long)]
    tenant: Option<String>,
    /// Subject of the token [default: producer, worker, admin, operator or observer].
    #[arg(long)]
    subject: Option<String>,
    /// Commands that a worker may claim, with commas between them.
    #[arg(long = "command", aliases = ["events", "event"], default_value = "*", value_name = "LIST")]
    commands: String,
    /// Scopes to use instead of those of the roles, with commas between them.
    #[arg(long, value_name = "LIST")]
    scopes: Option<String>,
    /// Lifetime: 90s, 15m, 12h, 30d.
    #[arg(long, default_value = "24h")]
    ttl: String,
    /// Issuer that the server expects.
    #[arg(long, default_value = "codeq-local")]
    issuer: String,
    /// Audience of the token; may be repeated [default: codeq-producer, codeq-worker or both, by role].
    #[arg(long)]
    audience: Vec<String>,
    /// File with the private key.
    #[arg(long, default_value = KEY_FILE, value_name = "FILE")]
    key: PathBuf,
    /// Print the token and its claims as JSON.
    #[arg(long)]
    json: bool,
}

impl Mint {
    pub fn run(self) -> anyhow::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = self.claims(now)?;
        let token = super::read(&self.key)?.mint(&claims)?;
        match self.json {
            true => say!("{}", json!({"token": token, "claims": claims})),
            false => say!("{token}"),
        }
        Ok(())
    }

    fn claims(&self, now: u64) -> anyhow::Result<Value> {
        let Some(tenant) = &self.tenant else {
            bail!(MissingFlag::new("tenant is required", "--tenant NAME"))
        };
        if !codeq_server::auth::is_tenant(tenant) {
            bail!("tenant must match ^[a-z][a-z0-9-]{{1,62}}$");
        }
        let subject = self.subject.clone().unwrap_or_else(|| self.role().to_owned());
        let mut claims = json!({
            "iss": self.issuer, "sub": subject, "aud": self.audiences(), "tenantId": tenant,
            "iat": now, "exp": now + lifetime::read(&self.ttl)?, "scope": self.scopes().join(" "),
        });
        if self.worker {
            claims["eventTypes"] = json!(words(&self.commands));
        }
        Ok(claims)
    }

    fn role(&self) -> &'static str {
        match (self.operator, self.admin, self.worker && !self.producer) {
            _ if self.observer => "observer",
            (true, _, _) => "operator",
            (_, true, _) => "admin",
            (_, _, true) => "worker",
            _ => "producer",
        }
    }

    fn audiences(&self) -> Vec<String> {
        if !self.audience.is_empty() {
            return self.audience.clone();
        }
        let is_producer = self.producer || self.admin || self.operator || !self.worker;
        let sides = [(is_producer, "codeq-producer"), (self.worker, "codeq-worker")];
        sides.into_iter().filter(|(is_side, _)| *is_side).map(|(_, side)| side.to_owned()).collect()
    }

    fn scopes(&self) -> Vec<String> {
        if let Some(scopes) = &self.scopes {
            return words(scopes);
        }
        let worker = WORKER_SCOPES.into_iter().filter(|_| self.worker);
        let admin = Some("codeq:admin").filter(|_| self.admin);
        let operator = Some("codeq:operator").filter(|_| self.operator);
        let observer = Some("codeq:observe").filter(|_| self.observer);
        worker.chain(admin).chain(operator).chain(observer).map(str::to_owned).collect()
    }
}

fn words(list: &str) -> Vec<String> {
    list.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
