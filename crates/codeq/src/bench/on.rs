//! Which store the server under test stands on.

use anyhow::{Context, ensure};
use codeq_store::kvrocks::{Backend, KvrocksOptions};
use reqwest::Url;
use serde_json::{Value, json};
use std::str::FromStr;

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum StoreKind {
    Embedded,
    Kvrocks,
}

#[derive(clap::Args)]
pub struct On {
    /// The store of the server that is started.
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,
    /// Where Kvrocks or Redis is: redis://[:PASSWORD@]HOST[:PORT][/DB], rediss:// with TLS.
    #[arg(long, required_if_eq("store", "kvrocks"))]
    redis_url: Option<RedisUrl>,
}

impl On {
    /// `None`: the embedded store.
    pub fn kvrocks(&self) -> anyhow::Result<Option<&RedisUrl>> {
        match self.store {
            StoreKind::Kvrocks => {
                self.redis_url.as_ref().context("--store kvrocks needs --redis-url").map(Some)
            }
            StoreKind::Embedded => {
                ensure!(self.redis_url.is_none(), "--redis-url needs --store kvrocks");
                Ok(None)
            }
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct RedisUrl(Backend);

impl FromStr for RedisUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<RedisUrl> {
        let url: Url = text.parse().context("not a URL")?;
        ensure!(matches!(url.scheme(), "redis" | "rediss"), "it has to begin with redis:// or rediss://");
        let host = url.host_str().filter(|host| !host.is_empty()).context("it names no host")?;
        let db = url.path().trim_matches('/');
        Ok(RedisUrl(Backend {
            address: format!("{host}:{}", url.port().unwrap_or(6379)),
            password: url.password().unwrap_or_default().into(),
            db: if db.is_empty() {
                0
            } else {
                db.parse().context("its path has to be a database's number")?
            },
            tls: url.scheme() == "rediss",
            ..Backend::default()
        }))
    }
}

impl RedisUrl {
    /// The part of a server's configuration that leads here.
    pub fn configure(&self, config: &mut Value) {
        let RedisUrl(backend) = self;
        config["persistenceProvider"] = "kvrocks".into();
        config["persistenceConfig"] = json!({
            "addr": backend.address, "password": backend.password, "db": backend.db, "tls": backend.tls,
        });
    }

    pub fn backend(&self) -> Backend {
        self.0.clone()
    }

    pub fn options(&self) -> KvrocksOptions {
        KvrocksOptions { backend: self.0.clone(), ..KvrocksOptions::new("") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_everything_that_leads_to_a_server() {
        let RedisUrl(plain) = "redis://localhost".parse().unwrap();
        assert_eq!(plain.address, "localhost:6379");
        assert!(plain.password.is_empty() && plain.db == 0 && !plain.tls);
        let RedisUrl(full) = "rediss://:geheim@[::1]:6666/3".parse().unwrap();
        assert_eq!((full.address.as_str(), full.password.as_str(), full.db), ("[::1]:6666", "geheim", 3));
        assert!(full.tls);
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for text in ["localhost:6379", "http://localhost", "redis://", "redis://host/x", "redis://host:99999"]
        {
            assert!(text.parse::<RedisUrl>().is_err(), "{text}");
        }
    }
}
