//! An issuer of tokens: real keys, and tokens as wrong as a test wants them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair, RsaPublicKeyComponents};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub enum Signer {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub fn rsa() -> Signer {
        Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("an RSA key"))
    }

    pub fn p256() -> Signer {
        Signer::P256(EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub fn p384() -> Signer {
        Signer::P384(EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING).expect("a key"))
    }

    pub fn ed25519() -> Signer {
        Signer::Ed25519(Ed25519KeyPair::generate().expect("an Ed25519 key"))
    }

    /// The published half.
    pub fn jwk(&self, kid: &str) -> Value {
        let point = |crv: &str, public: &[u8]| {
            let (x, y) = public[1..].split_at(public.len() / 2);
            json!({"kty": "EC", "crv": crv, "kid": kid, "use": "sig", "x": b64(x), "y": b64(y)})
        };
        match self {
            Signer::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "kid": kid, "use": "sig", "n": b64(&public.n), "e": b64(&public.e)})
            }
            Signer::P256(pair) => point("P-256", pair.public_key().as_ref()),
            Signer::P384(pair) => point("P-384", pair.public_key().as_ref()),
            Signer::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(pair.public_key().as_ref())})
            }
        }
    }

    /// The published half as DER.
    pub fn public_der(&self) -> Vec<u8> {
        match self {
            Signer::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Signer::P256(pair) | Signer::P384(pair) => pair.public_key().as_ref().to_vec(),
            Signer::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// A token of this key and the `kid` "k1".
    pub fn token(&self, claims: &Value) -> String {
        self.token_of("k1", claims)
    }

    pub fn token_of(&self, kid: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm(), "typ": "JWT", "kid": kid}), claims)
    }

    /// Signs whatever the header says; an `alg` of another family is signed in the key's own way.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), message.as_bytes());
        format!("{message}.{}", b64(&signature))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Signer::Rsa(_) => "RS256",
            Signer::P256(_) => "ES256",
            Signer::P384(_) => "ES384",
            Signer::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding(algorithm), &random, message, &mut signature).expect("it signs");
                signature
            }
            Signer::P256(pair) | Signer::P384(pair) => {
                pair.sign(&random, message).expect("it signs").as_ref().to_vec()
            }
            Signer::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}

fn encoding(algorithm: &str) -> &'static dyn signature::RsaEncoding {
    match algorithm {
        "RS384" => &signature::RSA_PKCS1_SHA384,
        "RS512" => &signature::RSA_PKCS1_SHA512,
        "PS256" => &signature::RSA_PSS_SHA256,
        "PS384" => &signature::RSA_PSS_SHA384,
        "PS512" => &signature::RSA_PSS_SHA512,
        _ => &signature::RSA_PKCS1_SHA256,
    }
}

/// Header and claims, without a signature.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", b64(header.to_string().as_bytes()), b64(claims.to_string().as_bytes()))
}

pub fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
