//! The profile file: servers, and the tokens to use with them.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FILE: &str = "config.yaml";
const DEFAULT: &str = "default";

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Profiles {
    pub current_profile: String,
    pub profiles: BTreeMap<String, Profile>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    pub base_url: String,
    pub iam_base_url: String,
    pub iam_api_key: String,
    pub token: String,
    pub producer_token: String,
    pub worker_token: String,
    /// Kept, without effect: rights come from the token.
    pub admin: bool,
    pub auth: Auth,
}

/// How to get a token from an identity provider.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(default)]
pub struct Auth {
    pub login: Login,
    pub exchange: Exchange,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct Login {
    pub url_template: String,
    pub method: String,
    pub headers: BTreeMap<String, String>,
    pub body_template: String,
    pub content_type: String,
    pub token_path: String,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase", default)]
pub struct Exchange {
    pub url_template: String,
    pub method: String,
    pub headers: BTreeMap<String, String>,
    pub content_type: String,
    pub token_path: String,
    pub audience: String,
    pub tenant_id: String,
    pub scopes: Vec<String>,
}

impl Default for Login {
    fn default() -> Login {
        Login {
            url_template: String::new(),
            method: "POST".into(),
            headers: BTreeMap::new(),
            body_template: String::new(),
            content_type: "application/json".into(),
            token_path: "idToken".into(),
        }
    }
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange {
            url_template: String::new(),
            method: "POST".into(),
            headers: BTreeMap::new(),
            content_type: "application/json".into(),
            token_path: "accessToken".into(),
            audience: "codeq-producer".into(),
            tenant_id: String::new(),
            scopes: Vec::new(),
        }
    }
}

impl Profiles {
    pub fn current(&self) -> &str {
        match self.current_profile.trim() {
            "" => DEFAULT,
            current => current,
        }
    }

    /// Puts a profile in, makes it the current one, and writes the file; where that is.
    pub fn keep(mut self, name: &str, profile: Profile) -> anyhow::Result<PathBuf> {
        self.profiles.insert(name.to_owned(), profile);
        self.current_profile = name.to_owned();
        let path = path()?;
        write(&path, &self).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn path() -> anyhow::Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = named("CODEQ_CONFIG_DIR").or_else(|| named("HOME").map(|home| home.join(".codeq")));
    let Some(directory) = directory else { bail!("neither CODEQ_CONFIG_DIR nor HOME is set") };
    Ok(directory.join(FILE))
}

/// The file, or nothing if there is none. Without a home there is none either.
pub fn read() -> anyhow::Result<Profiles> {
    let Ok(path) = path() else { return Ok(Profiles::default()) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Profiles::default()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if text.trim().is_empty() {
        return Ok(Profiles::default());
    }
    serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// Replaces the file as a whole, so that a crash leaves the old one or the new one.
fn write(path: &Path, profiles: &Profiles) -> anyhow::Result<()> {
    let directory = path.parent().context("a file has a directory")?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if holds_nothing_else(directory)? {
        std::fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    }
    let fresh = directory.join(format!("{FILE}.{}", std::process::id()));
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(serde_saphyr::to_string(profiles)?.as_bytes())?;
    file.sync_all()?;
    Ok(std::fs::rename(&fresh, path)?)
}

/// Whether the directory is ours to close: one that others use as well keeps its permissions.
fn holds_nothing_else(directory: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        if !entry?.file_name().to_string_lossy().starts_with(FILE) {
            return Ok(false);
        }
    }
    Ok(true)
}
