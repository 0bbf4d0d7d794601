//! One fixed token, for development and for small closed installations.

use super::fields::Fields;
use super::{MAX_TOKEN_BYTES, Verified};
use crate::auth::caller::EventTypes;
use crate::auth::claims::Identity;
use crate::auth::denied::Denied;
use crate::auth::known::Standing;
use crate::auth::scope::Scopes;
use codeq_store::Clock;
use serde_json::{Map, Value};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Compares in constant time; never expires.
pub struct FixedToken {
    token: String,
    identity: Identity,
    clock: Arc<dyn Clock>,
}

impl FixedToken {
    pub fn new(config: &Value, clock: Arc<dyn Clock>) -> Result<FixedToken, String> {
        let mut fields = Fields::new("static", &unwrap_text(config))?;
        let token = fields.required("token", "token")?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(format!("token must not be longer than {MAX_TOKEN_BYTES} bytes"));
        }
        let identity = identity(&mut fields)?;
        fields.finish()?;
        Ok(FixedToken { token, identity, clock })
    }

    pub fn verify(&self, token: &str) -> Result<Verified, Denied> {
        if !bool::from(self.token.as_bytes().ct_eq(token.as_bytes())) {
            return Err(Denied::invalid_token());
        }
        Ok(Verified { identity: self.identity.clone(), standing: Standing::new(self.clock.now()) })
    }
}

fn identity(fields: &mut Fields) -> Result<Identity, String> {
    let subject = Some(fields.text("subject")?).filter(|subject| !subject.is_empty());
    fields.text("email")?;
    let scopes = fields.texts("scopes")?;
    let event_types = fields.texts("eventTypes")?;
    let words = scopes.iter().map(|scope| scope.trim()).filter(|scope| !scope.is_empty());
    Ok(Identity {
        subject: subject.as_deref().unwrap_or("static").into(),
        scopes: Scopes::from_words(words),
        event_types: EventTypes::from_words(event_types.iter().map(String::as_str)),
        raw: fields.object("raw")?,
        expires_at: None,
        ends_at: None,
    })
}

/// Text is a map written as JSON, the token written as JSON, or the token itself.
fn unwrap_text(config: &Value) -> Value {
    let Value::String(text) = config else { return config.clone() };
    let token = match serde_json::from_str(text) {
        Ok(Value::Object(map)) => return Value::Object(map),
        Ok(Value::String(token)) => token,
        _ => text.clone(),
    };
    Value::Object(Map::from_iter([("token".to_owned(), Value::String(token))]))
}
