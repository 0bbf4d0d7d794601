//! Several providers in a row: the first that accepts a token vouches for it.

use super::fields::Fields;
use super::{ProviderConfig, Setting, Single, Verified};
use crate::auth::denied::Denied;
use serde_json::Value;

/// Reads 2 to 4 providers, none of them `multi`.
pub fn providers(config: &Value, setting: &Setting) -> Result<Vec<Single>, String> {
    let mut fields = Fields::new("multi", config)?;
    let entries = match fields.take("providers") {
        Some(Value::Array(entries)) => entries,
        None => Vec::new(),
        Some(_) => return Err("providers must be a list in multi auth config".to_owned()),
    };
    fields.finish()?;
    if !(2..=4).contains(&entries.len()) {
        return Err(format!("2 to 4 providers are required, not {}", entries.len()));
    }
    entries.iter().map(|entry| Single::new(&provider(entry)?, setting)).collect()
}

fn provider(entry: &Value) -> Result<ProviderConfig, String> {
    let mut fields = Fields::new("multi", entry)?;
    let kind = fields.required("type", "type")?;
    let config = fields.take("config").unwrap_or_default();
    fields.finish()?;
    if kind == "multi" {
        return Err("providers must not be nested".to_owned());
    }
    Ok(ProviderConfig { kind, config })
}

/// If one of them could not be asked, the refusal of the others does not settle it.
pub async fn verify(singles: &[Single], token: &str) -> Result<Verified, Denied> {
    let mut texts = Vec::new();
    let mut unavailable = None;
    for single in singles {
        match single.verify(token).await {
            Ok(verified) => return Ok(verified),
            Err(denied) if denied.is_unavailable() => unavailable = unavailable.or(Some(denied)),
            Err(denied) => texts.push(denied.to_string()),
        }
    }
    let text = || format!("multi auth: token rejected by every provider: {}", texts.join("\n"));
    Err(unavailable.unwrap_or_else(|| Denied::InvalidToken(text())))
}
