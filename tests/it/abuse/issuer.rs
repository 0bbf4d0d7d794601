//! An issuer of tokens: a real RSA key, and tokens as wrong as a test wants them.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

pub const ISSUER: &str = "https://id.example.com";
pub const WORKER_SCOPES: &str =
    "codeq:claim codeq:heartbeat codeq:abandon codeq:nack codeq:result codeq:subscribe";

pub struct Issuer {
    key: KeyPair,
}

impl Issuer {
    pub fn generate() -> Issuer {
        Issuer { key: KeyPair::generate(KeySize::Rsa2048).expect("an RSA key") }
    }

    /// The published half.
    pub fn jwk(&self, kid: &str) -> Value {
        let public = self.key.public_key();
        json!({
            "kty": "RSA", "use": "sig", "kid": kid,
            "n": b64(public.modulus().big_endian_without_leading_zero()),
            "e": b64(public.exponent().big_endian_without_leading_zero()),
        })
    }

    pub fn token(&self, kid: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": "RS256", "typ": "JWT", "kid": kid}), claims)
    }

    /// Signs with RS256, whatever the header says.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let text = unsigned(header, claims);
        let mut signature = vec![0; self.key.public_modulus_len()];
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.expect("it signs");
        format!("{text}.{}", b64(&signature))
    }

    /// Tokens whose HMAC secret is what everybody can read: the public key, in the forms it comes in.
    pub fn signed_with_the_public_key(&self, claims: &Value) -> Vec<String> {
        let der = self.key.public_key().as_ref().to_vec();
        let lines: Vec<String> = BASE64_STANDARD
            .encode(&der)
            .as_bytes()
            .chunks(64)
            .map(|l| String::from_utf8_lossy(l).into())
            .collect();
        let pem =
            |kind: &str| format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"));
        let n = self.jwk("k1")["n"].as_str().unwrap_or_default().as_bytes().to_vec();
        let secrets = [
            der,
            pem("PUBLIC KEY").into(),
            pem("RSA PUBLIC KEY").into(),
            n,
            self.jwk("k1").to_string().into(),
        ];
        let token = |secret: &Vec<u8>| {
            let text = unsigned(&json!({"alg": "HS256", "typ": "JWT", "kid": "k1"}), claims);
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
            format!("{text}.{}", b64(tag.as_ref()))
        };
        secrets.iter().map(token).collect()
    }
}

/// Header and claims, without a signature.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", b64(header.to_string().as_bytes()), b64(claims.to_string().as_bytes()))
}

fn b64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_secs()).expect("before the end of time")
}

/// Claims of a producer that are in order for ten minutes, and others over them.
pub fn claims(more: Value) -> Value {
    let mut all = json!({
        "iss": ISSUER, "aud": "codeq-producer", "sub": "someone", "tid": "acme",
        "iat": now() - 5, "exp": now() + 600, "role": "ADMIN",
    });
    for (name, value) in more.as_object().expect("an object") {
        all[name] = value.clone();
    }
    all
}

/// The same for a worker.
pub fn worker_claims() -> Value {
    claims(json!({"aud": "codeq-worker", "eventTypes": ["*"], "scope": WORKER_SCOPES, "role": null}))
}
