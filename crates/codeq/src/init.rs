//! `codeq init`: the first profile.

use crate::client::profile::Profile;
use crate::client::{Connection, Settings};
use crate::{say, tag, terminal};

/// Create a profile: the URL of the server and how to sign in.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq init\n  \
    codeq init --base-url https://codeq.example.com --producer-token TOKEN --no-prompt\n  \
    codeq init --profile staging --base-url https://codeq.staging.example.com")]
pub struct Init {
    /// Do not prompt; settings that are not given keep their value or their default.
    #[arg(long)]
    no_prompt: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Init {
    pub fn run(self, front: &Connection) -> anyhow::Result<()> {
        let settings = self.connection.or(front).settings()?;
        let mut profile = taken(&settings);
        if !self.no_prompt {
            complete(&mut profile)?;
        }
        let name = settings.name;
        let path = settings.profiles.keep(&name, profile)?;
        say!("{} Initialized profile '{name}' at {}", tag::ok(), path.display());
        Ok(())
    }
}

/// The profile with what flags and environment say.
fn taken(settings: &Settings) -> Profile {
    let mut profile = settings.profile();
    profile.base_url = settings.base_url();
    let given = settings.given.clone();
    let mut take = |field: fn(&mut Profile) -> &mut String, value: Option<String>| {
        if let Some(value) = value {
            *field(&mut profile) = value;
        }
    };
    take(|profile| &mut profile.iam_base_url, given.iam_base_url);
    take(|profile| &mut profile.iam_api_key, given.iam_api_key);
    take(|profile| &mut profile.producer_token, given.producer_token);
    take(|profile| &mut profile.worker_token, given.worker_token);
    profile.admin |= given.admin;
    profile
}

fn complete(profile: &mut Profile) -> anyhow::Result<()> {
    profile.base_url = terminal::ask("Base URL of codeQ", &profile.base_url)?;
    profile.iam_base_url = terminal::ask("Base URL of the identity provider", &profile.iam_base_url)?;
    if !profile.iam_base_url.is_empty() {
        profile.iam_api_key = terminal::ask("API key of the identity provider", &profile.iam_api_key)?;
    }
    Ok(())
}
