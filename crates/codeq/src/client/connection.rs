//! Flags, environment, profile, defaults: the first that says something counts.

use super::profile::{Profile, Profiles};
use super::{Api, profile};
use anyhow::bail;

pub const DEFAULT_BASE_URL: &str = "http://localhost:8080";
const NO_TOKEN: &str = "token is required (run `codeq auth login` or set token)";

/// The flags that all client commands share. They may stand before or after the command.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// Where the server is [env: CODEQ_BASE_URL] [default: http://localhost:8080].
    #[arg(long, global = true, value_name = "URL")]
    pub base_url: Option<String>,
    /// Token of a producer or administrator [env: CODEQ_PRODUCER_TOKEN].
    #[arg(long, global = true, value_name = "TOKEN")]
    pub producer_token: Option<String>,
    /// Token of a worker [env: CODEQ_WORKER_TOKEN].
    #[arg(long, global = true, value_name = "TOKEN")]
    pub worker_token: Option<String>,
    /// Which profile of the profile file [env: CODEQ_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// Where the identity provider is [env: CODEQ_IAM_BASE_URL].
    #[arg(long, global = true, value_name = "URL")]
    pub iam_base_url: Option<String>,
    /// API key of the identity provider [env: CODEQ_IAM_API_KEY].
    #[arg(long, global = true, value_name = "KEY")]
    pub iam_api_key: Option<String>,
    /// Accepted and kept; what you may do is in the token [env: CODEQ_ADMIN].
    #[arg(long, global = true)]
    pub admin: bool,
}

/// The names of the flags in [`Connection`].
pub const FLAGS: [&str; 7] =
    ["base_url", "producer_token", "worker_token", "profile", "iam_base_url", "iam_api_key", "admin"];

impl Connection {
    /// What stands in front of the command counts where nothing stands behind it.
    pub fn or(self, front: &Connection) -> Connection {
        Connection {
            base_url: self.base_url.or_else(|| front.base_url.clone()),
            producer_token: self.producer_token.or_else(|| front.producer_token.clone()),
            worker_token: self.worker_token.or_else(|| front.worker_token.clone()),
            profile: self.profile.or_else(|| front.profile.clone()),
            iam_base_url: self.iam_base_url.or_else(|| front.iam_base_url.clone()),
            iam_api_key: self.iam_api_key.or_else(|| front.iam_api_key.clone()),
            admin: self.admin || front.admin,
        }
    }

    /// Flags and environment; blank means not given.
    fn given(self) -> Connection {
        let or = |flag: Option<String>, name: &str| {
            let is_given = |text: &String| !text.trim().is_empty();
            flag.filter(is_given).or_else(|| std::env::var(name).ok().filter(is_given))
        };
        let admin = std::env::var("CODEQ_ADMIN").unwrap_or_default().to_ascii_lowercase();
        Connection {
            base_url: or(self.base_url, "CODEQ_BASE_URL"),
            producer_token: or(self.producer_token, "CODEQ_PRODUCER_TOKEN"),
            worker_token: or(self.worker_token, "CODEQ_WORKER_TOKEN"),
            profile: or(self.profile, "CODEQ_PROFILE"),
            iam_base_url: or(self.iam_base_url, "CODEQ_IAM_BASE_URL"),
            iam_api_key: or(self.iam_api_key, "CODEQ_IAM_API_KEY"),
            admin: self.admin || matches!(&*admin, "true" | "yes" | "1"),
        }
    }

    pub fn settings(self) -> anyhow::Result<Settings> {
        let given = self.given();
        let profiles = profile::read()?;
        let name = given.profile.clone().unwrap_or_else(|| profiles.current().to_owned());
        Ok(Settings { given, name, profiles })
    }
}

/// Everything a client command can know before it asks the server.
pub struct Settings {
    /// What flags and environment say.
    pub given: Connection,
    /// The name of the profile in use.
    pub name: String,
    pub profiles: Profiles,
}

impl Settings {
    pub fn profile(&self) -> Profile {
        self.profiles.profiles.get(&self.name).cloned().unwrap_or_default()
    }

    pub fn base_url(&self) -> String {
        let profile = self.profile().base_url;
        let base = self.given.base_url.clone().or(Some(profile).filter(|url| !url.is_empty()));
        base.unwrap_or_else(|| DEFAULT_BASE_URL.to_owned()).trim_end_matches('/').to_owned()
    }

    fn producer_token(&self) -> Option<String> {
        let Profile { producer_token, token, .. } = self.profile();
        first([self.given.producer_token.clone().unwrap_or_default(), producer_token, token])
    }

    fn worker_token(&self) -> Option<String> {
        let Profile { worker_token, token, .. } = self.profile();
        first([self.given.worker_token.clone().unwrap_or_default(), worker_token, token])
    }

    /// The token that `codeq dev` takes, for a server on this machine.
    fn dev_token(&self) -> Option<String> {
        let url = reqwest::Url::parse(&self.base_url()).ok()?;
        let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1"));
        is_local.then(|| codeq_server::config::DEV_TOKEN.to_owned())
    }

    /// As a producer, or as a worker if that is all we are.
    pub fn producer(&self) -> anyhow::Result<Api> {
        let token = self.producer_token().or_else(|| self.worker_token()).or_else(|| self.dev_token());
        let Some(token) = token else { bail!(NO_TOKEN) };
        Api::new(&self.base_url(), &token)
    }

    /// As a worker, or as a producer if that is all we are; which of them.
    pub fn worker(&self) -> anyhow::Result<(String, &'static str)> {
        let worker = self.worker_token().map(|token| (token, "worker"));
        let producer = || self.producer_token().map(|token| (token, "producer"));
        let dev = || self.dev_token().map(|token| (token, "worker"));
        let Some(found) = worker.or_else(producer).or_else(dev) else { bail!(NO_TOKEN) };
        Ok(found)
    }
}

fn first<const N: usize>(tokens: [String; N]) -> Option<String> {
    tokens.into_iter().map(|token| token.trim().to_owned()).find(|token| !token.is_empty())
}
