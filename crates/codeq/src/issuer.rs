//! A token issuer on this machine: a signing key, its public half as a JWKS, and signed tokens.

use anyhow::{Context, anyhow, bail};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD as BASE64};
use serde_json::{Value, json};

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

enum Key {
    Rsa(rsa::KeyPair),
    Ed25519(Ed25519KeyPair),
}

pub struct Issuer {
    key: Key,
    kid: String,
}

impl Issuer {
    /// A new RSA key of 2048 bits.
    pub fn generate(kid: &str) -> anyhow::Result<Issuer> {
        let key = rsa::KeyPair::generate(KeySize::Rsa2048).map_err(|_| anyhow!("cannot make an RSA key"))?;
        Ok(Issuer { key: Key::Rsa(key), kid: kid.to_owned() })
    }

    /// A new key for this algorithm, named after its public half.
    pub fn generate_for(algorithm: &str) -> anyhow::Result<Issuer> {
        match algorithm {
            "RS256" => Ok(named(Issuer::generate("")?.key)),
            "EdDSA" => {
                let key = Ed25519KeyPair::generate().map_err(|_| anyhow!("cannot make an Ed25519 key"))?;
                Ok(named(Key::Ed25519(key)))
            }
            other => bail!("unknown algorithm {other:?}: use RS256 or EdDSA"),
        }
    }

    /// Reads a private key of RSA or Ed25519, PKCS#8 in PEM.
    pub fn read(pem: &str) -> anyhow::Result<Issuer> {
        let body = pem.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
        let (body, _) = body.context("not a PEM file with a PRIVATE KEY")?;
        let body: String = body.split_whitespace().collect();
        let der = BASE64_STANDARD.decode(body).context("not a PEM file with a PRIVATE KEY")?;
        let rsa = rsa::KeyPair::from_pkcs8(&der).map(Key::Rsa);
        let key = rsa.or_else(|_| Ed25519KeyPair::from_pkcs8(&der).map(Key::Ed25519));
        Ok(named(key.map_err(|_| anyhow!("neither an RSA nor an Ed25519 key"))?))
    }

    /// The private key, as [`Issuer::read`] reads it.
    pub fn pem(&self) -> anyhow::Result<String> {
        let der: anyhow::Result<Vec<u8>> = match &self.key {
            Key::Rsa(key) => {
                let der: Result<Pkcs8V1Der<'_>, _> = key.as_der();
                der.map(|der| der.as_ref().to_vec()).map_err(|_| anyhow!("cannot write the key"))
            }
            Key::Ed25519(key) => {
                let der = key.to_pkcs8().map_err(|_| anyhow!("cannot write the key"));
                der.map(|der| der.as_ref().to_vec())
            }
        };
        let text = BASE64_STANDARD.encode(der?);
        let lines: Vec<&str> =
            (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
        Ok(format!("{BEGIN}\n{}\n{END}\n", lines.join("\n")))
    }

    pub fn kid(&self) -> &str {
        &self.kid
    }

    pub fn algorithm(&self) -> &'static str {
        match self.key {
            Key::Rsa(_) => "RS256",
            Key::Ed25519(_) => "EdDSA",
        }
    }

    pub fn jwks(&self) -> Value {
        json!({"keys": [self.jwk()]})
    }

    /// The public half.
    pub fn jwk(&self) -> Value {
        let mut jwk = required(&self.key);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm());
        jwk["kid"] = json!(self.kid);
        jwk
    }

    /// A signed token with these claims.
    pub fn mint(&self, claims: &Value) -> anyhow::Result<String> {
        let header = json!({"alg": self.algorithm(), "typ": "JWT", "kid": self.kid});
        let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = match &self.key {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                let signed =
                    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
                signed.map_err(|_| anyhow!("cannot sign a token"))?;
                signature
            }
            Key::Ed25519(key) => key.sign(text.as_bytes()).as_ref().to_vec(),
        };
        Ok(format!("{text}.{}", BASE64.encode(signature)))
    }
}

/// A key under the name that RFC 7638 gives it: the hash of what makes it that key. So the name needs not be
/// kept, and two keys never share one.
fn named(key: Key) -> Issuer {
    // The fields are sorted and there is no white space, as the hash wants it.
    let text = required(&key).to_string();
    let kid = BASE64.encode(digest::digest(&digest::SHA256, text.as_bytes()));
    Issuer { key, kid }
}

/// The fields of a JWK that make it that key.
fn required(key: &Key) -> Value {
    match key {
        Key::Rsa(key) => {
            let public = key.public_key();
            let number = |bytes: &[u8]| BASE64.encode(bytes);
            json!({
                "e": number(public.exponent().big_endian_without_leading_zero()),
                "kty": "RSA",
                "n": number(public.modulus().big_endian_without_leading_zero()),
            })
        }
        Key::Ed25519(key) => {
            json!({"crv": "Ed25519", "kty": "OKP", "x": BASE64.encode(key.public_key().as_ref())})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_file_and_keep_their_name() {
        for algorithm in ["RS256", "EdDSA"] {
            let made = Issuer::generate_for(algorithm).unwrap();
            let read = Issuer::read(&made.pem().unwrap()).unwrap();
            assert_eq!((made.jwks(), made.algorithm()), (read.jwks(), algorithm));
            assert!(!made.kid().is_empty());
        }
        assert!(Issuer::generate_for("HS256").is_err() && Issuer::read("nothing").is_err());
    }
}
