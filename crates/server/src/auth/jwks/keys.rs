//! The public keys of an issuer.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519};
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codeq_queue::Time;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

/// One key that can verify.
#[derive(Debug)]
pub struct Key {
    kid: Option<String>,
    /// What the key may be used with: all its type allows, or the one it names.
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
    /// The members that make up the key, to see whether it changed.
    material: Vec<String>,
}

impl Key {
    pub fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }
}

/// The same name, the same use, the same key.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.kid == other.kid && self.algorithms == other.algorithms && self.material == other.material
    }
}

/// The keys of one good answer of the endpoint.
#[derive(Debug)]
pub struct KeySet {
    pub keys: Vec<Key>,
    pub fetched_at: Time,
    pub generation: u64,
}

#[derive(Debug, PartialEq)]
pub enum Pick<'a> {
    Key(&'a Key),
    /// No `kid`, and not exactly one key.
    Ambiguous,
    /// No key of that `kid`.
    Unknown,
    /// The key is not for that algorithm.
    Misfit,
}

impl KeySet {
    pub fn pick(&self, kid: Option<&str>, algorithm: Algorithm) -> Pick<'_> {
        if kid.is_none() && self.keys.len() != 1 {
            return Pick::Ambiguous;
        }
        let mut named = self.keys.iter().filter(|key| kid.is_none() || key.kid.as_deref() == kid).peekable();
        if named.peek().is_none() {
            return Pick::Unknown;
        }
        named.find(|key| key.algorithms.contains(&algorithm)).map_or(Pick::Misfit, Pick::Key)
    }

    /// Whether every key of this set is still in `newer`.
    pub fn is_kept_by(&self, newer: &[Key]) -> bool {
        self.keys.iter().all(|key| newer.contains(key))
    }
}

/// Reads the answer of the endpoint. Keys that are not for signatures, of unknown type or broken
/// are left out; the rest works.
pub fn read(body: &[u8]) -> Option<Vec<Key>> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let keys = document.get("keys")?.as_array()?;
    Some(keys.iter().filter_map(|key| read_key(key.as_object()?)).collect())
}

type Members = Map<String, Value>;

fn read_key(members: &Members) -> Option<Key> {
    if text(members, "use")?.is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let kid = text(members, "kid")?.filter(|kid| !kid.is_empty()).map(str::to_owned);
    let (decoding, mut algorithms) = match (text(members, "kty")??, text(members, "crv")?) {
        ("RSA", _) => (rsa(members)?, RSA_ALGORITHMS.to_vec()),
        ("EC", Some("P-256")) => (ec(members, 32)?, vec![Algorithm::ES256]),
        ("EC", Some("P-384")) => (ec(members, 48)?, vec![Algorithm::ES384]),
        ("OKP", Some("Ed25519")) => (ed25519(members)?, vec![Algorithm::EdDSA]),
        _ => return None,
    };
    if let Some(only) = text(members, "alg")? {
        algorithms.retain(|algorithm| only.parse() == Ok(*algorithm));
    }
    let material = ["kty", "crv", "n", "e", "x", "y"];
    let material = material.map(|name| members.get(name).map(Value::to_string).unwrap_or_default()).to_vec();
    (!algorithms.is_empty()).then_some(Key { kid, algorithms, decoding, material })
}

const RSA_ALGORITHMS: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The outer `None` is a member that is no string: a broken key.
fn text<'a>(members: &'a Members, name: &str) -> Option<Option<&'a str>> {
    match members.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => None,
    }
}

fn bytes(members: &Members, name: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text(members, name)??.trim_end_matches('=')).ok()
}

/// 2048 to 8192 bits; some issuers write leading zeros, which the library refuses.
fn rsa(members: &Members) -> Option<DecodingKey> {
    let (n, e) = (bytes(members, "n")?, bytes(members, "e")?);
    let (n, e) = (without_zeros(&n), without_zeros(&e));
    RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).ok()?;
    (256..=1024).contains(&n.len()).then(|| DecodingKey::from_rsa_raw_components(n, e))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

fn ec(members: &Members, size: usize) -> Option<DecodingKey> {
    let (x, y) = (bytes(members, "x")?, bytes(members, "y")?);
    if (x.len(), y.len()) != (size, size) {
        return None;
    }
    let point = [&[4], x.as_slice(), y.as_slice()].concat();
    match size {
        32 => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).ok()?,
        _ => ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, &point).ok()?,
    };
    Some(DecodingKey::from_ec_der(&point))
}

fn ed25519(members: &Members) -> Option<DecodingKey> {
    let x = bytes(members, "x").filter(|x| x.len() == 32)?;
    ParsedPublicKey::new(&ED25519, &x).ok()?;
    Some(DecodingKey::from_ed_der(&x))
}
