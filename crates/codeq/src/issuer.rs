//! A token issuer on this machine: a signing key, its public half as a JWKS, and signed tokens.

use anyhow::anyhow;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

pub struct Issuer {
    key: KeyPair,
    kid: String,
}

impl Issuer {
    /// A new RSA key of 2048 bits.
    pub fn generate(kid: &str) -> anyhow::Result<Issuer> {
        let key = KeyPair::generate(KeySize::Rsa2048).map_err(|_| anyhow!("cannot make an RSA key"))?;
        Ok(Issuer { key, kid: kid.to_owned() })
    }

    pub fn jwks(&self) -> Value {
        let public = self.key.public_key();
        let number = |bytes: &[u8]| BASE64.encode(bytes);
        json!({"keys": [{
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid,
            "n": number(public.modulus().big_endian_without_leading_zero()),
            "e": number(public.exponent().big_endian_without_leading_zero()),
        }]})
    }

    /// An RS256 token with these claims.
    pub fn mint(&self, claims: &Value) -> anyhow::Result<String> {
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.kid});
        let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let mut signature = vec![0; self.key.public_modulus_len()];
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.map_err(|_| anyhow!("cannot sign a token"))?;
        Ok(format!("{text}.{}", BASE64.encode(signature)))
    }
}
