//! `codeq token jwks`: the public keys.

use super::KEY_FILE;
use crate::worker::Interrupts;
use crate::{client, say, tag};
use anyhow::Context;
use axum::http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Print the public keys as a JWKS, or serve them.
///
/// To rotate keys, serve the old and the new one, mint with the new one, and drop the old one once its tokens
/// have expired.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq token jwks > jwks.json\n  \
    codeq token jwks --key old.pem --key new.pem --serve 127.0.0.1:9400")]
pub struct Jwks {
    /// File with a private key; may be repeated.
    #[arg(long, default_value = KEY_FILE, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Address to serve the keys at, under every path.
    #[arg(long, value_name = "ADDR")]
    serve: Option<String>,
}

impl Jwks {
    pub fn run(self) -> anyhow::Result<()> {
        let keys = self.key.iter().map(|file| Ok(super::read(file)?.jwk()));
        let set = json!({"keys": keys.collect::<anyhow::Result<Vec<Value>>>()?});
        match self.serve {
            None => say!("{}", serde_json::to_string_pretty(&set)?),
            Some(address) => client::block_on(serve(&address, set.to_string()))?,
        }
        Ok(())
    }
}

async fn serve(address: &str, set: String) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    say!("{} serving keys on http://{}/jwks.json", tag::ok(), listener.local_addr()?);
    let answer = move || async move { ([(CONTENT_TYPE, "application/json")], set) };
    let mut interrupts = Interrupts::new()?;
    let stop = async move { interrupts.next().await };
    Ok(axum::serve(listener, axum::Router::new().fallback(answer)).with_graceful_shutdown(stop).await?)
}
