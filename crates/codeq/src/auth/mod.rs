//! `codeq auth`: who we are to the server.

mod login;
mod show;
mod template;

use crate::client::Connection;
use crate::client::profile::Profile;
use crate::{say, tag};
use anyhow::bail;
use clap::Subcommand;

/// Sign in, and manage the tokens of a profile.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
    codeq auth login --email you@example.com\n  codeq auth set --worker-token TOKEN\n  codeq auth show"
)]
pub struct Auth {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Login(Box<login::Login>),
    /// Save tokens that you already have.
    ///
    /// Pass them with --producer-token and --worker-token; a single token is used for both sides.
    #[command(after_help = "Example:\n  codeq auth set --producer-token TOKEN --worker-token TOKEN")]
    Set,
    /// Show the profile; secrets are shortened.
    #[command(after_help = "Examples:\n  codeq auth show --profile staging\n  codeq auth show --json")]
    Show {
        /// Print one JSON object instead of text; secrets are shortened too.
        #[arg(long)]
        json: bool,
    },
    Clear(Clear),
}

/// Remove tokens from a profile; all of them by default.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq auth clear\n  codeq auth clear --worker")]
struct Clear {
    /// Remove the producer token.
    #[arg(long)]
    producer: bool,
    /// Remove the worker token.
    #[arg(long)]
    worker: bool,
    /// Remove all tokens.
    #[arg(long)]
    all: bool,
}

impl Auth {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let connection = self.connection.or(front);
        match self.verb {
            Verb::Login(login) => login.run(connection),
            Verb::Set => set(connection),
            Verb::Show { json } => show::run(connection, json),
            Verb::Clear(clear) => clear.run(connection),
        }
    }
}

/// Takes flags only: a token that lives in the environment stays there.
fn set(connection: Connection) -> anyhow::Result<()> {
    let Connection { producer_token, worker_token, admin, .. } = connection.clone();
    let settings = connection.settings()?;
    let mut profile = settings.profile();
    match (producer_token, worker_token) {
        (None, None) if !admin => bail!("provide --producer-token and/or --worker-token (or --admin)"),
        (None, None) => {}
        (Some(producer), Some(worker)) => {
            profile.producer_token = producer;
            profile.worker_token = worker;
        }
        (Some(producer), None) => {
            profile.token.clone_from(&producer);
            profile.producer_token = producer;
        }
        (None, Some(worker)) => {
            profile.token.clone_from(&worker);
            profile.worker_token = worker;
        }
    }
    profile.admin |= admin;
    settings.profiles.keep(&settings.name, profile)?;
    say!("{} Credentials updated for '{}'", tag::ok(), settings.name);
    Ok(())
}

impl Clear {
    fn run(self, connection: Connection) -> anyhow::Result<()> {
        let settings = connection.settings()?;
        let mut profile = settings.profile();
        let is_all = self.all || !(self.producer || self.worker);
        if self.producer || is_all {
            forget(&mut profile, |profile| &mut profile.producer_token);
        }
        if self.worker || is_all {
            forget(&mut profile, |profile| &mut profile.worker_token);
        }
        if is_all {
            profile.token.clear();
        }
        settings.profiles.keep(&settings.name, profile)?;
        say!("{} Tokens cleared for '{}'", tag::ok(), settings.name);
        Ok(())
    }
}

/// `token` may be a copy of the one that is forgotten, and would go on being used.
fn forget(profile: &mut Profile, field: fn(&mut Profile) -> &mut String) {
    let forgotten = std::mem::take(field(profile));
    if profile.token == forgotten {
        profile.token.clear();
    }
}
