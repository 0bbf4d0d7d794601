//! From when to when a certificate is good: the two times of its `Validity`, and nothing else of X.509.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version of a certificate, which the oldest ones leave out.
const VERSION: u8 = 0xa0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Validity {
    /// Of a certificate in DER form; `None` if it is not one.
    pub fn of(certificate: &[u8]) -> Option<Validity> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (body, _) = element(certificate, SEQUENCE)?;
        let rest = element(body, VERSION).map_or(body, |(_, rest)| rest);
        let (_serial, rest) = element(rest, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, _) = element(rest, SEQUENCE)?;
        let (not_before, rest) = time(validity)?;
        let (not_after, _) = time(rest)?;
        Some(Validity { not_before, not_after })
    }
}

/// The content of the element with this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let parts = rest.split_at_checked(length)?;
    (*found == tag).then_some(parts)
}

fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest, is_short) = match element(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, true),
        None => element(bytes, GENERALIZED_TIME).map(|(text, rest)| (text, rest, false))?,
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    // Two digits of a year are those of 1950 to 2049.
    let text = match is_short {
        true if *text.as_bytes().first()? >= b'5' => format!("19{text}"),
        true => format!("20{text}"),
        false => text.to_owned(),
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%S", text).ok()?;
    Some((civil.to_zoned(TimeZone::UTC).ok()?.timestamp(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    /// Made by `openssl req -x509 -newkey ed25519 -nodes -subj /CN=t -days 9500`: one short and one long time.
    const CERTIFICATE: &str = "MIIBLjCB4aADAgECAhR6BCrYw7mwqH8LfWLW5U9NUBNulTAFBgMrZXAwDDEKMAgGA1UEAwwBdDAgFw0yNjExMTgx\
        MzA4NDFaGA8yMDUyMTEyMTEzMDg0MVowDDEKMAgGA1UEAwwBdDAqMAUGAytlcAMhAOKy/CY/1dDC8XtNUFAc9FZv\
        EHugJUB34ZkqHGXf4zeQo1MwUTAdBgNVHQ4EFgQUbAZb2uqd9UEZ2JlIHX/2S6MvePQwHwYDVR0jBBgwFoAUbAZb\
        2uqd9UEZ2JlIHX/2S6MvePQwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQDOI2G+8/k584mOWld9SEBXwZipHJuj\
        C1Blw2kUNlmDqidC/5VkjL10G/oIdbu0RKAZgE0KxUhWIGK3qRGgmKcO";

    #[test]
    fn both_forms_of_a_time_are_read() {
        let der = base64::engine::general_purpose::STANDARD.decode(CERTIFICATE).expect("base64");
        let validity = Validity::of(&der).expect("a certificate");
        assert_eq!(validity.not_before.to_string(), "2026-11-18T13:08:41Z");
        assert_eq!(validity.not_after.to_string(), "2052-11-21T13:08:41Z");
    }

    #[test]
    fn what_is_cut_off_anywhere_is_no_certificate() {
        let der = base64::engine::general_purpose::STANDARD.decode(CERTIFICATE).expect("base64");
        assert!((0..der.len()).all(|end| Validity::of(&der[..end]).is_none()));
    }
}
