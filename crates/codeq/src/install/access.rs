//! Who may use the server that a bundle starts.

use super::Install;
use anyhow::{anyhow, bail};
use aws_lc_rs::rand;
use serde_json::json;

const TENANT: &str = "default";
const SCOPES: [&str; 6] =
    ["codeq:claim", "codeq:heartbeat", "codeq:abandon", "codeq:nack", "codeq:result", "codeq:subscribe"];

/// Variables of the server, those that are secret apart.
pub struct Access {
    pub env: Vec<(&'static str, String)>,
    pub secrets: Vec<(&'static str, String)>,
    /// Tokens that the bundle makes up, by side.
    pub tokens: Vec<(&'static str, String)>,
    pub warning: Option<String>,
}

impl Access {
    pub fn new(install: &Install) -> anyhow::Result<Access> {
        let secret = match &install.webhook_hmac_secret {
            Some(secret) => secret.clone(),
            None => random()?,
        };
        let mut access = Access {
            env: Vec::new(),
            secrets: vec![("WEBHOOK_HMAC_SECRET", secret)],
            tokens: Vec::new(),
            warning: None,
        };
        if let Some(domain) = &install.domain {
            access.env.push(("CODEQ_PUBLIC_BASE_URL", format!("https://{domain}")));
        }
        access.producer(install)?;
        access.worker(install)?;
        Ok(access)
    }

    fn producer(&mut self, install: &Install) -> anyhow::Result<()> {
        if let Some(url) = &install.identity_service_url {
            self.env.push(("IDENTITY_SERVICE_URL", url.clone()));
            self.env.push(("IDENTITY_AUDIENCE", "codeq-producer".into()));
            return Ok(());
        }
        let token = random()?;
        let raw = json!({"tenantId": TENANT, "role": "ADMIN"});
        let config = json!({"token": token, "subject": "producer", "raw": raw});
        self.env.push(("PRODUCER_AUTH_PROVIDER", "static".into()));
        self.secrets.push(("PRODUCER_AUTH_CONFIG", config.to_string()));
        self.tokens.push(("producer", token));
        Ok(())
    }

    fn worker(&mut self, install: &Install) -> anyhow::Result<()> {
        let has_provider = install.identity_service_url.is_some();
        match &install.worker_jwks_url {
            Some(url) => {
                let Some(issuer) = &install.worker_issuer else {
                    bail!("--worker-issuer is required with --worker-jwks-url");
                };
                self.env.push(("WORKER_JWKS_URL", url.clone()));
                self.env.push(("WORKER_ISSUER", issuer.clone()));
                self.env.push(("WORKER_AUDIENCE", install.worker_audience.clone()));
                if !has_provider {
                    let text =
                        format!("producers are of tenant {TENANT:?}: workers need tokens of that tenant");
                    self.warning = Some(text);
                }
            }
            // Whoever has a token of the provider may be both, and is then in one tenant.
            None if has_provider => self.env.push(("ALLOW_PRODUCER_AS_WORKER", "true".into())),
            None => {
                let token = random()?;
                let raw = json!({"tenantId": TENANT});
                let config = json!({
                    "token": token, "subject": "worker", "eventTypes": ["*"], "scopes": SCOPES, "raw": raw,
                });
                self.env.push(("WORKER_AUTH_PROVIDER", "static".into()));
                self.secrets.push(("WORKER_AUTH_CONFIG", config.to_string()));
                self.tokens.push(("worker", token));
            }
        }
        Ok(())
    }
}

/// 64 hexadecimal digits.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
