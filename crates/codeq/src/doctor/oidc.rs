//! Can people sign in to the dashboard? The page finds out for itself; here it is told before somebody stands in front
//! of it.

use super::report::Report;
use crate::client::{answer, http_client};
use codeq_server::config::{Config, Oidc};
use reqwest::Url;
use serde_json::Value;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

pub async fn check(report: &mut Report, config: &Config) {
    let Some(oidc) = &config.oidc else { return };
    match discovered(oidc).await {
        Ok(found) => endpoints(report, oidc, &found),
        Err(cause) => {
            let text = format!("{}: {cause}", oidc.issuer);
            report.warn("dashboard", text, "correct dashboard.oidc.issuer; until then people paste a token");
        }
    }
}

async fn discovered(oidc: &Oidc) -> Result<Value, String> {
    let url = format!("{}/.well-known/openid-configuration", oidc.issuer);
    let client = http_client(&url).map_err(|error| format!("{error:#}"))?;
    let answered = answer(client.get(&url).timeout(TIMEOUT)).await;
    match answered.map_err(|error| format!("{error:#}"))? {
        (200, body) => {
            serde_json::from_str(&body).map_err(|_| "its discovery document is not JSON".to_owned())
        }
        (status, _) => Err(format!("its discovery document answers {status}")),
    }
}

/// The page refuses an issuer that says that it is another one, and may reach the hosts that it was told of only.
fn endpoints(report: &mut Report, oidc: &Oidc, found: &Value) {
    let told = found["issuer"].as_str().unwrap_or_default();
    if told.trim_end_matches('/') != oidc.issuer {
        let next = "set dashboard.oidc.issuer to exactly that";
        return report.warn("dashboard", format!("{} says that it is {told:?}", oidc.issuer), next);
    }
    let token = found["token_endpoint"].as_str().unwrap_or_default();
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    if oidc.token_url.is_none() && origin(token) != origin(&oidc.issuer) {
        let text = format!("the token endpoint {token} is at another host than the issuer");
        return report.warn("dashboard", text, format!("set dashboard.oidc.tokenUrl: {token}"));
    }
    report.ok("dashboard", format!("people sign in at {}", oidc.issuer));
}
