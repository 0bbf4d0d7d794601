//! `codeq token`: an issuer for teams without an identity provider.
//!
//! A key in a file, tokens signed by it, and its public half for the server to check them with.

mod jwks;
mod lifetime;
mod mint;

use crate::issuer::Issuer;
use crate::{say, tag};
use anyhow::{Context, bail};
use clap::Subcommand;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const KEY_FILE: &str = "codeq-key.pem";

/// Issue tokens without an identity provider.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  codeq token keygen\n  \
    codeq token mint --producer --tenant acme\n  codeq token mint --worker --tenant acme --command demo --ttl 30d\n  \
    codeq token jwks --serve 127.0.0.1:9400\n\n\
    The server trusts these tokens with\n  identityJwksUrl: http://127.0.0.1:9400/jwks.json\n  \
    identityIssuer: codeq-local\n  identityAudience: codeq-producer\n  \
    workerJwksUrl: http://127.0.0.1:9400/jwks.json\n  workerIssuer: codeq-local"
)]
pub struct Token {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Keygen(Keygen),
    Mint(mint::Mint),
    Jwks(jwks::Jwks),
}

/// Generate a signing key.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq token keygen\n  codeq token keygen --alg EdDSA --out issuer.pem")]
struct Keygen {
    /// Algorithm: RS256 or EdDSA.
    #[arg(long, default_value = "RS256")]
    alg: String,
    /// File to write the private key to; it must not exist.
    #[arg(long, default_value = KEY_FILE, value_name = "FILE")]
    out: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Token {
    pub fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Keygen(keygen) => keygen.run(),
            Verb::Mint(mint) => mint.run(),
            Verb::Jwks(jwks) => jwks.run(),
        }
    }
}

impl Keygen {
    fn run(self) -> anyhow::Result<()> {
        let issuer = Issuer::generate_for(&self.alg)?;
        let file = std::fs::File::options().create_new(true).write(true).mode(0o600).open(&self.out);
        let mut file = match file {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!(
                    "{} exists already; choose another file with --out, because an overwritten key is lost",
                    self.out.display()
                )
            }
            other => other.with_context(|| format!("cannot write {}", self.out.display()))?,
        };
        file.write_all(issuer.pem()?.as_bytes())?;
        file.sync_all()?;
        let (kid, file) = (issuer.kid(), self.out.display());
        match self.json {
            true => say!("{}", serde_json::json!({"file": self.out, "alg": self.alg, "kid": kid})),
            false => say!("{} {} key written to {file} (kid {kid})", tag::ok(), self.alg),
        }
        Ok(())
    }
}

fn read(file: &Path) -> anyhow::Result<Issuer> {
    let pem = std::fs::read_to_string(file);
    let pem = pem.with_context(|| format!("cannot read {} (see `codeq token keygen`)", file.display()))?;
    Issuer::read(&pem).with_context(|| file.display().to_string())
}
