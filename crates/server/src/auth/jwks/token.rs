//! A token taken apart: nothing in it is to be believed yet.

use super::keys::Key;
use super::shown;
use crate::auth::denied::Denied;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, AlgorithmFamily, crypto};
use serde_json::{Map, Value};

pub struct Token<'a> {
    pub algorithm: Algorithm,
    /// None if absent or empty.
    pub kid: Option<String>,
    pub claims: Map<String, Value>,
    /// The first two parts, which the third signs.
    message: &'a str,
    signature: &'a str,
}

impl<'a> Token<'a> {
    /// Refuses what is not three parts of base64url around JSON, and algorithms that are not for
    /// public keys: with `none` or HS* anyone who can read the key set could sign.
    pub fn read(text: &'a str) -> Result<Token<'a>, Denied> {
        let (message, signature) = text.rsplit_once('.').ok_or_else(Denied::malformed)?;
        let (header, claims) = message.split_once('.').ok_or_else(Denied::malformed)?;
        let (header, claims) = (object(header)?, object(claims)?);
        bytes(signature)?;
        // `crit` demands that a reader who does not know an extension refuses; none is known here.
        if header.contains_key("crit") {
            return Err(Denied::malformed());
        }
        let (algorithm, kid) = (algorithm(header.get("alg"))?, kid(header.get("kid"))?);
        Ok(Token { algorithm, kid, claims, message, signature })
    }

    /// `key` must fit the algorithm, as those that [`super::keys::KeySet::pick`] finds do.
    pub fn check_signature(&self, key: &Key) -> Result<(), Denied> {
        match crypto::verify(self.signature, self.message.as_bytes(), key.decoding(), self.algorithm) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Denied::InvalidToken("token signature is invalid".to_owned())),
        }
    }
}

fn bytes(part: &str) -> Result<Vec<u8>, Denied> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Denied::malformed())
}

fn object(part: &str) -> Result<Map<String, Value>, Denied> {
    serde_json::from_slice(&bytes(part)?).map_err(|_| Denied::malformed())
}

fn algorithm(alg: Option<&Value>) -> Result<Algorithm, Denied> {
    let name = alg.and_then(Value::as_str).ok_or_else(Denied::malformed)?;
    let known = name.parse().ok().filter(|alg: &Algorithm| alg.family() != AlgorithmFamily::Hmac);
    known.ok_or_else(|| Denied::InvalidToken(format!("unexpected signing method: {}", shown(name))))
}

fn kid(kid: Option<&Value>) -> Result<Option<String>, Denied> {
    match kid {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(kid)) => Ok(Some(kid.clone()).filter(|kid| !kid.is_empty())),
        Some(_) => Err(Denied::malformed()),
    }
}
