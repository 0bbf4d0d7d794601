//! Tokens signed by an issuer that publishes its keys (JWKS): any OpenID-style access token.
//!
//! A token is read (`token.rs`), its key is found (`keyring.rs`, `keys.rs`), its signature checked,
//! and last its claims (`validity.rs`). The first thing wrong is what the caller is told.

mod fetch;
mod keyring;
mod keys;
mod token;
mod validity;

use super::claims::Identity;
use super::denied::Denied;
use super::known::Standing;
use super::provider::Verified;
use codeq_store::Clock;
use fetch::Source;
use keyring::Keyring;
use keys::{Key, KeySet, Pick};
use std::sync::Arc;
use std::time::Duration;
use token::Token;
use validity::Expected;

pub struct JwksOptions {
    pub url: String,
    pub issuer: String,
    pub audience: String,
    /// On `exp`, `nbf` and `iat`.
    pub leeway: Duration,
    pub http_timeout: Duration,
}

pub struct Jwks {
    expected: Expected,
    ring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
}

impl Jwks {
    /// The error is a start-up text.
    pub fn new(options: JwksOptions, clock: Arc<dyn Clock>) -> Result<Jwks, String> {
        let JwksOptions { url, issuer, audience, leeway, http_timeout } = options;
        let source = Source::new(&url, http_timeout)?;
        let ring = Arc::new(Keyring::new(source, clock.clone()));
        Ok(Jwks { expected: Expected { issuer, audience, leeway }, ring, clock })
    }

    pub async fn verify(&self, token: &str) -> Result<Verified, Denied> {
        let token = Token::read(token)?;
        let set = self.keys_for(&token).await?;
        token.check_signature(chosen(&set, &token)?)?;
        let now = self.clock.now();
        let lifetime = validity::check(&token.claims, &self.expected, now)?;
        let standing = Standing::new(now)
            .until(lifetime.ends_at)
            .until(self.ring.end_of(&set))
            .proven_by(self.ring.proof(&set));
        let identity = Identity::from_claims(token.claims, Some(lifetime.expires_at), Some(lifetime.ends_at));
        Ok(Verified { identity, standing })
    }

    /// Waits for the fetch under way, if there is one.
    #[cfg(test)]
    pub async fn settled(&self) {
        self.ring.settled().await;
    }

    /// A `kid` that is not in the set may be a new key: then the set is fetched once more.
    async fn keys_for(&self, token: &Token<'_>) -> Result<Arc<KeySet>, Denied> {
        let (set, is_new) = self.ring.current().await?;
        if !is_new && set.pick(token.kid.as_deref(), token.algorithm) == Pick::Unknown {
            return self.ring.look_again().await;
        }
        Ok(set)
    }
}

fn chosen<'a>(set: &'a KeySet, token: &Token<'_>) -> Result<&'a Key, Denied> {
    let kid = token.kid.as_deref();
    Err(Denied::InvalidToken(match set.pick(kid, token.algorithm) {
        Pick::Key(key) => return Ok(key),
        Pick::Ambiguous => "missing kid in token header".to_owned(),
        Pick::Unknown => format!("key {} not found in JWKS", shown(kid.unwrap_or_default())),
        Pick::Misfit => format!("unexpected signing method: {:?}", token.algorithm),
    }))
}

/// A stranger's text as an answer may carry it: short and on one line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
