//! Signatures: that a webhook is from us, and from now.
//!
//! Two schemes side by side over the same secret: `X-CodeQ-Signature`, and Standard Webhooks 1.0.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Before a secret that is written in base64.
const PREFIX: &str = "whsec_";

pub struct Signer {
    own: hmac::Key,
    standard: hmac::Key,
}

/// What goes into the headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signatures {
    /// `X-CodeQ-Signature`.
    pub own: String,
    /// `webhook-signature`.
    pub standard: String,
}

impl Signer {
    /// `None` if the secret is blank: nothing is signed.
    pub fn new(secret: &str) -> Option<Signer> {
        if secret.trim().is_empty() {
            return None;
        }
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let decoder = GeneralPurpose::new(&ALPHABET, lenient);
        let decoded = secret.strip_prefix(PREFIX).and_then(|text| decoder.decode(text.trim()).ok());
        let decoded = decoded.filter(|bytes| !bytes.is_empty());
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let own = secret.as_bytes();
        Some(Signer { own: key(own), standard: key(decoded.as_deref().unwrap_or(own)) })
    }

    pub fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Signatures {
        let own = tag(&self.own, &[timestamp.as_bytes(), b".", body]);
        let standard = tag(&self.standard, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body]);
        let hex = own.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Signatures { own: hex, standard: format!("v1,{}", STANDARD.encode(standard)) }
    }
}

fn tag(key: &hmac::Key, parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "{\"taskId\":\"5f0c1a52-6b1e-4c0e-9d3a-2f6f0e9b7a11\",\"eventType\":\"render_video\",\
        \"status\":\"COMPLETED\",\"result\":{\"ok\":true},\"error\":\"\",\"artifacts\":[],\
        \"completedAt\":\"2026-03-01T12:00:05.25Z\"}";
    const ID: &str = "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    const STANDARD_SIGNATURE: &str = "v1,HMByih2xZo7UhiZ1GDTJOMfQknnhIDElUta2wE0aNP4=";

    fn signed(secret: &str) -> Signatures {
        assert_eq!(BODY.len(), 184);
        Signer::new(secret).unwrap().sign(ID, "1772366405", BODY.as_bytes())
    }

    #[test]
    fn the_worked_example_comes_out_bit_for_bit() {
        let plain = signed("s3cr3t-for-docs");
        assert_eq!(plain.own, "54cc4d3832250c0c402f7dba237dd14bb8f09295882368299df9126f78f49617");
        assert_eq!(plain.standard, STANDARD_SIGNATURE);
        let encoded = signed("whsec_czNjcjN0LWZvci1kb2Nz");
        assert_eq!(encoded.own, "b1e4b1a154a559aa388db90e91d946137ae36212275d00c6eeff799656284861");
        assert_eq!(encoded.standard, STANDARD_SIGNATURE);
    }

    #[test]
    fn a_blank_secret_signs_nothing_and_bad_base64_is_taken_as_it_is() {
        assert!(Signer::new(" \t").is_none());
        let odd = signed("whsec_?");
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"whsec_?");
        let expected = tag(&key, &[format!("{ID}.1772366405.{BODY}").as_bytes()]);
        assert_eq!(odd.standard, format!("v1,{}", STANDARD.encode(expected)));
        assert!(Signer::new("whsec_").is_some());
    }
}
