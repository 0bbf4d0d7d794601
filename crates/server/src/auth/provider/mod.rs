//! Who vouches for a token: a set of public keys, one fixed token, or several of these.

mod duration;
mod fields;
mod fixed;
mod multi;

use super::claims::Identity;
use super::denied::Denied;
use super::jwks::{Jwks, JwksOptions};
use super::known::Standing;
use codeq_store::Clock;
use fields::Fields;
use fixed::FixedToken;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Longer tokens are refused unread, by the gate.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// A provider as it is configured.
#[derive(Clone)]
pub struct ProviderConfig {
    /// `jwks`, `static` or `multi`.
    pub kind: String,
    /// A map, or text that holds one as JSON; for `static` also the bare token.
    pub config: Value,
}

/// What the parts of a provider need from outside.
#[derive(Clone)]
pub struct Setting {
    /// Leeway of a provider that names none.
    pub clock_skew: Duration,
    pub clock: Arc<dyn Clock>,
}

/// A token some provider accepted.
pub struct Verified {
    pub identity: Identity,
    pub standing: Standing,
}

/// A provider that asks no other.
pub enum Single {
    Jwks(Jwks),
    Fixed(FixedToken),
}

pub enum Provider {
    Single(Single),
    Multi(Vec<Single>),
}

impl Provider {
    /// The error is a start-up text.
    pub fn new(config: &ProviderConfig, setting: &Setting) -> Result<Provider, String> {
        match config.kind.as_str() {
            "multi" => multi::providers(&config.config, setting)
                .map(Provider::Multi)
                .map_err(|text| format!("multi auth: {text}")),
            _ => Single::new(config, setting).map(Provider::Single),
        }
    }

    /// Refuses with `InvalidToken` or `Unavailable`.
    pub async fn verify(&self, token: &str) -> Result<Verified, Denied> {
        match self {
            Provider::Single(single) => single.verify(token).await,
            Provider::Multi(singles) => multi::verify(singles, token).await,
        }
    }

    #[cfg(test)]
    pub async fn settled(&self) {
        if let Provider::Single(Single::Jwks(jwks)) = self {
            jwks.settled().await;
        }
    }
}

impl Single {
    fn new(config: &ProviderConfig, setting: &Setting) -> Result<Single, String> {
        match config.kind.as_str() {
            "jwks" => jwks(&config.config, setting).map(Single::Jwks),
            "static" => FixedToken::new(&config.config, setting.clock.clone()).map(Single::Fixed),
            other => Err(format!("unknown auth provider type: {other}")),
        }
    }

    async fn verify(&self, token: &str) -> Result<Verified, Denied> {
        match self {
            Single::Jwks(jwks) => jwks.verify(token).await,
            Single::Fixed(fixed) => fixed.verify(token),
        }
    }
}

const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

fn jwks(config: &Value, setting: &Setting) -> Result<Jwks, String> {
    let mut fields = Fields::new("jwks", config)?;
    let options = JwksOptions {
        url: fields.required("jwksUrl", "jwksURL")?,
        issuer: fields.required("issuer", "issuer")?,
        audience: fields.required("audience", "audience")?,
        leeway: fields.duration("clockSkew")?.unwrap_or(setting.clock_skew),
        http_timeout: fields.duration("httpTimeout")?.filter(|t| !t.is_zero()).unwrap_or(HTTP_TIMEOUT),
    };
    fields.finish()?;
    Jwks::new(options, setting.clock.clone())
}
