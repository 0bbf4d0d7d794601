//! `codeq auth login`: a password becomes a token of the identity provider, and that a token for codeQ.

use super::template::{Known, at};
use crate::client::profile::{Exchange, Profile};
use crate::client::{Connection, Settings, answer, http_client};
use crate::{say, tag, terminal};
use anyhow::{Context, anyhow, bail};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LOGIN: &str = "{{iamBaseUrl}}/signInWithPassword?key={{apiKey}}";
pub(super) const EXCHANGE: &str = "{{iamBaseUrl}}/token/exchange?key={{apiKey}}";
const LOGIN_BODY: &str = r#"{"email":"{{email}}","password":"{{password}}"}"#;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sign in with e-mail and password, and save the token.
///
/// URLs, bodies and headers may name {{email}}, {{password}}, {{apiKey}} and {{iamBaseUrl}}.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  codeq auth login --email you@example.com\n  \
    codeq auth login --email ci@example.com --password \"$PASSWORD\" --no-prompt --tenant-id acme")]
pub struct Login {
    /// E-mail address to sign in with.
    #[arg(long)]
    email: Option<String>,
    /// Password; prompted for, or read from a pipe, if not given.
    #[arg(long)]
    password: Option<String>,
    /// Template of the URL to sign in at.
    #[arg(long, value_name = "URL")]
    login_url: Option<String>,
    /// Method of the sign-in [default: POST].
    #[arg(long)]
    method: Option<String>,
    /// Content type of the sign-in [default: application/json].
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Template of the body of the sign-in.
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// File with the template of the body of the sign-in.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// Path of the token in the answer, with dots between names [default: idToken].
    #[arg(long, value_name = "PATH")]
    token_path: Option<String>,
    /// Header of the sign-in, `Name: value`; may be repeated.
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// Template of the URL of the exchange.
    #[arg(long, value_name = "URL")]
    exchange_url: Option<String>,
    /// Method of the exchange [default: POST].
    #[arg(long, value_name = "METHOD")]
    exchange_method: Option<String>,
    /// Content type of the exchange [default: application/json].
    #[arg(long, value_name = "TYPE")]
    exchange_content_type: Option<String>,
    /// Path of the token in the answer of the exchange [default: accessToken].
    #[arg(long, value_name = "PATH")]
    exchange_token_path: Option<String>,
    /// Audience of the token [default: codeq-producer].
    #[arg(long)]
    audience: Option<String>,
    /// Tenant to request a token for.
    #[arg(long, value_name = "TENANT")]
    tenant_id: Option<String>,
    /// Scope to request; may be repeated.
    #[arg(long)]
    scope: Vec<String>,
    /// Header of the exchange, `Name: value`; may be repeated.
    #[arg(long, value_name = "HEADER")]
    exchange_header: Vec<String>,
    /// Use the token of the sign-in as it is.
    #[arg(long)]
    no_exchange: bool,
    /// Save the token; with --save=false it is printed instead.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
          default_missing_value = "true", require_equals = true)]
    save: bool,
    /// Do not prompt; use defaults for what is not given.
    #[arg(long)]
    no_prompt: bool,
}

impl Login {
    pub fn run(mut self, connection: Connection) -> anyhow::Result<()> {
        let settings = connection.settings()?;
        let (email, password) = self.credentials()?;
        let name = settings.given.profile.clone().unwrap_or_else(|| profile_name(&email));
        let mut profile = self.profile(&settings, &name)?;
        let known = Known {
            email: &email,
            password: &password,
            api_key: &profile.iam_api_key,
            iam_base_url: &profile.iam_base_url,
        };
        let token = crate::client::block_on(token(&profile, &known, self.no_exchange))?;
        if !self.save {
            say!("{token}");
            return Ok(());
        }
        profile.token.clone_from(&token);
        profile.producer_token = token;
        settings.profiles.keep(&name, profile)?;
        say!("{} Logged in. Token stored for '{name}'", tag::ok());
        Ok(())
    }

    fn credentials(&mut self) -> anyhow::Result<(String, String)> {
        let may_ask = !self.no_prompt;
        let email = match self.email.take().filter(|email| !email.trim().is_empty()) {
            Some(email) => email.trim().to_owned(),
            None if may_ask => terminal::ask("E-mail", "")?,
            None => String::new(),
        };
        if email.is_empty() {
            bail!("email is required");
        }
        let password = match self.password.take().filter(|password| !password.is_empty()) {
            Some(password) => password,
            None if may_ask => terminal::ask_secret("Password")?,
            None => String::new(),
        };
        if password.is_empty() {
            bail!("password is required");
        }
        Ok((email, password))
    }

    /// The profile to be kept, with what the flags say. A new one begins as a copy of the one in use.
    fn profile(&self, settings: &Settings, name: &str) -> anyhow::Result<Profile> {
        let profiles = &settings.profiles;
        let found = [name, profiles.current()].iter().find_map(|name| profiles.profiles.get(*name)).cloned();
        let mut profile = found.unwrap_or_default();
        if settings.given.base_url.is_some() || profile.base_url.is_empty() {
            profile.base_url = settings.base_url();
        }
        set(&mut profile.iam_base_url, &settings.given.iam_base_url);
        set(&mut profile.iam_api_key, &settings.given.iam_api_key);
        profile.admin |= settings.given.admin;
        self.login(&mut profile)?;
        self.exchange(&mut profile.auth.exchange)?;
        if profile.iam_base_url.is_empty() && profile.auth.login.url_template.is_empty() {
            bail!("iam base url is required (set --iam-base-url or --login-url)");
        }
        Ok(profile)
    }

    fn login(&self, profile: &mut Profile) -> anyhow::Result<()> {
        let login = &mut profile.auth.login;
        set(&mut login.url_template, &self.login_url);
        set(&mut login.method, &self.method);
        set(&mut login.content_type, &self.content_type);
        set(&mut login.body_template, &self.payload);
        if let Some(file) = &self.payload_file {
            let text = std::fs::read_to_string(file);
            login.body_template = text.with_context(|| format!("cannot read {}", file.display()))?;
        }
        set(&mut login.token_path, &self.token_path);
        login.headers.extend(headers(&self.header)?);
        Ok(())
    }

    fn exchange(&self, exchange: &mut Exchange) -> anyhow::Result<()> {
        set(&mut exchange.url_template, &self.exchange_url);
        set(&mut exchange.method, &self.exchange_method);
        set(&mut exchange.content_type, &self.exchange_content_type);
        set(&mut exchange.token_path, &self.exchange_token_path);
        set(&mut exchange.audience, &self.audience);
        set(&mut exchange.tenant_id, &self.tenant_id);
        if !self.scope.is_empty() {
            exchange.scopes.clone_from(&self.scope);
        }
        exchange.headers.extend(headers(&self.exchange_header)?);
        Ok(())
    }
}

fn set(field: &mut String, flag: &Option<String>) {
    if let Some(value) = flag {
        field.clone_from(value);
    }
}

fn headers(given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |header: &String| {
        let (name, value) = header
            .split_once([':', '='])
            .ok_or_else(|| anyhow!("{header:?} is not a header (use 'Name: value')"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    given.iter().map(pair).collect()
}

fn profile_name(email: &str) -> String {
    email.to_lowercase().replace(['@', '.'], "_")
}

async fn token(profile: &Profile, known: &Known<'_>, no_exchange: bool) -> anyhow::Result<String> {
    let login = &profile.auth.login;
    let body = if login.body_template.is_empty() { LOGIN_BODY } else { &login.body_template };
    let call = Call {
        url: known.url(or(&login.url_template, LOGIN)),
        method: &login.method,
        content_type: &login.content_type,
        headers: login.headers.iter().map(|(name, value)| (name.clone(), known.header(value))).collect(),
        body: known.body(body, &login.content_type),
    };
    let id_token = call.token("login", &login.token_path).await?;
    if no_exchange {
        return Ok(id_token);
    }
    exchanged(&profile.auth.exchange, known, id_token).await
}

async fn exchanged(exchange: &Exchange, known: &Known<'_>, id_token: String) -> anyhow::Result<String> {
    let mut body = json!({"idToken": id_token, "audience": exchange.audience});
    if !exchange.tenant_id.is_empty() {
        body["tenantId"] = json!(exchange.tenant_id);
    }
    if !exchange.scopes.is_empty() {
        body["scopes"] = json!(exchange.scopes);
    }
    let call = Call {
        url: known.url(or(&exchange.url_template, EXCHANGE)),
        method: &exchange.method,
        content_type: &exchange.content_type,
        headers: exchange.headers.iter().map(|(name, value)| (name.clone(), known.header(value))).collect(),
        body: body.to_string(),
    };
    call.token("token exchange", &exchange.token_path).await
}

fn or<'a>(template: &'a str, default: &'a str) -> &'a str {
    if template.is_empty() { default } else { template }
}

struct Call<'a> {
    url: String,
    method: &'a str,
    content_type: &'a str,
    headers: Vec<(String, String)>,
    body: String,
}

impl Call<'_> {
    /// The token in the answer. `what` names the call in its failures.
    async fn token(self, what: &str, path: &str) -> anyhow::Result<String> {
        let method = Method::from_bytes(self.method.to_uppercase().as_bytes());
        let method = method.with_context(|| format!("{} is not a method", self.method))?;
        let mut request = http_client(&self.url)?.request(method, &self.url).timeout(TIMEOUT);
        request = request.header("Content-Type", self.content_type).body(self.body);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let (status, body) = answer(request).await.with_context(|| format!("{what} failed"))?;
        if !(200..300).contains(&status) {
            bail!("{what} failed ({status}): {body}");
        }
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        at(&answer, path).map(str::to_owned).context("token path not found")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_named_after_the_e_mail() {
        assert_eq!(profile_name("Ann.Lee@Example.com"), "ann_lee_example_com");
    }
}
