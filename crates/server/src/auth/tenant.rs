//! Whose queue it is.

use super::denied::Denied;
use serde_json::{Map, Value};

/// Every name an issuer may give the tenant.
const ALIASES: [&str; 5] = ["tid", "tenantId", "tenant_id", "organizationId", "organization_id"];

/// The tenant of a token: what all alias claims agree on, or the subject if there are none.
///
/// An alias that is there but is blank, no string or no tenant name refuses the token. It does not
/// fall back: a token with a broken tenant must not act for a tenant named like its subject.
pub fn of<'a>(claims: &'a Map<String, Value>, subject: &'a str) -> Result<&'a str, Denied> {
    let mut found = None;
    for claim in ALIASES.iter().filter_map(|alias| claims.get(*alias)) {
        let name = claim.as_str().map(str::trim).ok_or(Denied::InvalidTenant)?;
        if found.is_some_and(|other| other != name) {
            return Err(Denied::InvalidTenant);
        }
        found = Some(name);
    }
    let name = found.unwrap_or(subject.trim());
    if is_name(name) { Ok(name) } else { Err(Denied::InvalidTenant) }
}

/// `^[a-z][a-z0-9-]{1,62}$`
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    (2..=63).contains(&bytes.len()) && bytes[0].is_ascii_lowercase() && bytes[1..].iter().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tenant(claims: Value, subject: &str) -> Option<String> {
        of(claims.as_object().expect("claims are an object"), subject).ok().map(str::to_owned)
    }

    #[test]
    fn every_alias_names_the_tenant() {
        for alias in ALIASES {
            assert_eq!(tenant(json!({alias: " acme "}), "someone"), Some("acme".to_owned()), "{alias}");
        }
    }

    #[test]
    fn aliases_that_agree_are_one_and_others_refuse() {
        assert_eq!(tenant(json!({"tid": "acme", "tenantId": " acme"}), ""), Some("acme".to_owned()));
        assert_eq!(tenant(json!({"tid": "acme", "tenant_id": "other"}), "acme"), None);
        assert_eq!(tenant(json!({"tid": "acme", "organizationId": ""}), "acme"), None);
    }

    #[test]
    fn a_broken_alias_does_not_fall_back_to_the_subject() {
        for broken in [json!(""), json!("  "), json!(null), json!(7), json!(["acme"]), json!("ACME")] {
            assert_eq!(tenant(json!({"tid": broken}), "acme"), None);
        }
    }

    #[test]
    fn without_an_alias_the_trimmed_subject_is_the_tenant() {
        assert_eq!(tenant(json!({}), " acme "), Some("acme".to_owned()));
        for subject in ["", "  ", "Acme", "auth0|5", "a"] {
            assert_eq!(tenant(json!({}), subject), None, "{subject:?}");
        }
    }

    #[test]
    fn names_follow_the_pattern() {
        let longest = format!("a{}", "b".repeat(62));
        for good in ["ab", "a-", "a1", "acme-eu-1", longest.as_str()] {
            assert!(is_name(good), "{good}");
        }
        let too_long = format!("{longest}c");
        for bad in ["a", "1a", "-a", "a_b", "a.b", "aé", "a b", "a\n", too_long.as_str()] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
