//! Flags, environment, profile, defaults: the first that says something counts.

use super::advice::NoToken;
use super::profile::{Profile, Profiles};
use super::{Api, http_client, profile};
use anyhow::bail;

pub const DEFAULT_BASE_URL: &str = "http://localhost:8080";

/// The flags that all client commands share. They may stand before or after the command.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Connection (see `codeq help connection`)")]
pub struct Connection {
    /// URL of the server [env: CODEQ_BASE_URL] [default: http://localhost:8080].
    #[arg(long, global = true, value_name = "URL")]
    pub base_url: Option<String>,
    /// Token of a producer or administrator [env: CODEQ_PRODUCER_TOKEN].
    #[arg(long, global = true, value_name = "TOKEN")]
    pub producer_token: Option<String>,
    /// Token of a worker [env: CODEQ_WORKER_TOKEN].
    #[arg(long, global = true, value_name = "TOKEN")]
    pub worker_token: Option<String>,
    /// Profile to use from the profile file [env: CODEQ_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// URL of the identity provider, for `codeq auth login` [env: CODEQ_IAM_BASE_URL].
    #[arg(long, global = true, value_name = "URL")]
    pub iam_base_url: Option<String>,
    /// API key of the identity provider [env: CODEQ_IAM_API_KEY].
    #[arg(long, global = true, value_name = "KEY")]
    pub iam_api_key: Option<String>,
    /// Accepted for compatibility; has no effect, because rights come from the token [env: CODEQ_ADMIN].
    #[arg(long, global = true)]
    pub admin: bool,
}

/// Connect to a server: flags, environment variables and profiles.
///
/// Every command that talks to a server takes these flags, before or after the command. A flag wins over its
/// environment variable, which wins over the profile, which wins over the default.
///
///   --base-url URL          CODEQ_BASE_URL         URL of the server (default http://localhost:8080)
///   --producer-token TOKEN  CODEQ_PRODUCER_TOKEN   token of a producer or administrator
///   --worker-token TOKEN    CODEQ_WORKER_TOKEN     token of a worker
///   --profile NAME          CODEQ_PROFILE          profile to use (default: the current one)
///   --iam-base-url URL      CODEQ_IAM_BASE_URL     URL of the identity provider, for `codeq auth login`
///   --iam-api-key KEY       CODEQ_IAM_API_KEY      API key of the identity provider
///   --admin                 CODEQ_ADMIN            accepted for compatibility; has no effect
///
/// Profiles are kept in ~/.codeq/config.yaml, or in the directory CODEQ_CONFIG_DIR, and are written by
/// `codeq init`, `codeq auth login` and `codeq auth set`. Commands for producers and operators send the producer
/// token, or the worker token if there is no other; `codeq worker` does the reverse. For a server on this machine
/// the token of `codeq dev` is the default.
///
/// Other variables: NO_COLOR turns colours off; CODEQ_CONFIG_PATH names the file of `codeq serve`. Over https,
/// SSL_CERT_FILE names the authorities to trust instead of the system's, and CODEQ_CLIENT_CERTIFICATE a PEM file
/// with your certificate and its key, if the server asks callers for one.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  codeq --base-url https://codeq.example.com --producer-token TOKEN queue list\n  \
    CODEQ_BASE_URL=https://codeq.example.com codeq queue list\n  \
    codeq init --profile staging --base-url https://codeq.staging.example.com --producer-token TOKEN\n  \
    codeq --profile staging queue list"
)]
pub struct ConnectionPage {}

/// `codeq connection` shows the page that `codeq help connection` shows.
pub fn page(mut command: clap::Command) -> anyhow::Result<()> {
    command.build();
    let Some(page) = command.find_subcommand_mut("connection") else { bail!("there is no such page") };
    crate::terminal::print(&page.render_long_help().to_string());
    Ok(())
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
        let base = base.unwrap_or_else(|| DEFAULT_BASE_URL.to_owned());
        with_scheme(base.trim().trim_end_matches('/'))
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
        Ok(self.producer_access()?.api)
    }

    pub fn producer_access(&self) -> anyhow::Result<Access> {
        let producer = self.producer_token().map(|token| (token, "producer"));
        self.access(producer.or_else(|| self.worker_token().map(|token| (token, "worker"))))
    }

    /// As a worker, or as a producer if that is all we are.
    pub fn worker(&self) -> anyhow::Result<Access> {
        let worker = self.worker_token().map(|token| (token, "worker"));
        self.access(worker.or_else(|| self.producer_token().map(|token| (token, "producer"))))
    }

    fn access(&self, given: Option<(String, &'static str)>) -> anyhow::Result<Access> {
        let base = self.checked_base()?;
        let is_guessed = given.is_none();
        let dev = || self.dev_token().map(|token| (token, "worker"));
        let Some((token, kind)) = given.or_else(dev) else { bail!(NoToken { base }) };
        Ok(Access { api: Api::new(&base, &token, is_guessed)?, token, kind })
    }

    /// An address that cannot be one is told before a missing token.
    fn checked_base(&self) -> anyhow::Result<String> {
        let base = self.base_url();
        http_client(&base)?;
        Ok(base)
    }
}

/// What a command talks to a server with.
pub struct Access {
    pub api: Api,
    pub token: String,
    /// Whose token it is: `worker` or `producer`.
    pub kind: &'static str,
}

/// `localhost:8080` means `http://localhost:8080`. A name elsewhere is left alone: a token must not go out in
/// clear because somebody left out `https://`.
fn with_scheme(base: &str) -> String {
    let host = base.split(['/', ':']).next().unwrap_or_default();
    let is_local = matches!(host, "localhost" | "127.0.0.1") || base.starts_with("[::1]");
    match is_local && !base.contains("://") {
        true => format!("http://{base}"),
        false => base.to_owned(),
    }
}

fn first<const N: usize>(tokens: [String; N]) -> Option<String> {
    tokens.into_iter().map(|token| token.trim().to_owned()).find(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_address_needs_no_scheme_and_a_remote_one_does() {
        for (given, meant) in [
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1", "http://127.0.0.1"),
            ("[::1]:9", "http://[::1]:9"),
            ("https://a.example", "https://a.example"),
            ("a.example:443", "a.example:443"),
        ] {
            assert_eq!(with_scheme(given), meant);
        }
        assert!(http_client("a.example:443").is_err());
    }
}
