//! The configuration for printing: every key, no secret.

use serde_json::{Map, Value};
use url::Url;

use super::derive;
use super::keys::{self, BACKEND_KEYS, KEYS, Kind};
use super::secret::MASK;
use super::settings::Settings;

/// Fields of an auth configuration that are no secret. All others are masked, mistyped ones too.
const OPEN_AUTH_FIELDS: [&str; 11] = [
    "jwksUrl",
    "issuer",
    "audience",
    "clockSkew",
    "httpTimeout",
    "subject",
    "email",
    "scopes",
    "eventTypes",
    "raw",
    "type",
];

/// Every key with its value in use, nested as in YAML. Keys of other stores are left out.
pub(super) fn shown(settings: &Settings) -> Value {
    let mut root = Value::Object(Map::new());
    let provider = derive::provider(settings);
    for key in KEYS {
        if keys::provider_of(key.path).is_some_and(|owner| Some(owner) != provider) {
            continue;
        }
        let value = masked_value(key.kind, settings.value(key.path));
        key.path.split('.').fold(&mut root, |place, name| &mut place[name]).clone_from(&value);
    }
    root
}

fn masked_value(kind: Kind, value: &Value) -> Value {
    match kind {
        Kind::Secret => masked_secret(value),
        Kind::Auth => masked_auth(value),
        Kind::Backends => masked_backends(value),
        Kind::Sentinel => masked_sentinel(value),
        _ => masked_url(value),
    }
}

fn masked_sentinel(value: &Value) -> Value {
    let mut shown = value.clone();
    if let Some(password) = shown.get_mut("password") {
        *password = masked_secret(password);
    }
    shown
}

/// Shows whether there is a secret.
fn masked_secret(value: &Value) -> Value {
    match value.as_str() {
        None | Some("") => value.clone(),
        Some(_) => Value::from(MASK),
    }
}

pub(super) fn masked_auth(config: &Value) -> Value {
    match config {
        Value::Null => Value::Null,
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.clone(), masked_auth_field(name, value))).collect()
        }
        _ => Value::from(MASK),
    }
}

fn masked_auth_field(name: &str, value: &Value) -> Value {
    match (name, value) {
        ("providers", Value::Array(providers)) => providers.iter().map(masked_auth).collect(),
        ("config", config) => masked_auth(config),
        _ if OPEN_AUTH_FIELDS.contains(&name) => masked_url(value),
        _ => Value::from(MASK),
    }
}

fn masked_backends(backends: &Value) -> Value {
    let mut shown = backends.clone();
    for backend in shown.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        for key in BACKEND_KEYS {
            backend[key.path] = masked_value(key.kind, &backend[key.path]);
        }
    }
    shown
}

/// A URL may carry a password, or a token in place of a user.
fn masked_url(value: &Value) -> Value {
    let parsed = value.as_str().filter(|text| text.contains('@')).and_then(|text| Url::parse(text).ok());
    let Some(mut url) = parsed else { return value.clone() };
    let masked = match (url.username(), url.password()) {
        ("", None) => return value.clone(),
        (_, None) => url.set_username(MASK),
        _ => url.set_password(Some(MASK)),
    };
    Value::from(if masked.is_ok() { url.as_str() } else { MASK })
}
