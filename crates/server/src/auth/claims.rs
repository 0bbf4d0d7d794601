//! From what a provider vouches for to a [`Caller`].

use super::caller::{Caller, EventTypes};
use super::denied::Denied;
use super::scope::Scopes;
use super::tenant;
use aws_lc_rs::digest;
use codeq_queue::Time;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a provider vouches for. The tenant is not checked yet: other refusals come before it.
#[derive(Clone, Debug)]
pub struct Identity {
    pub subject: Arc<str>,
    pub scopes: Scopes,
    pub event_types: EventTypes,
    /// Holds tenant, role and worker group.
    pub raw: Map<String, Value>,
    pub expires_at: Option<i64>,
    pub ends_at: Option<Time>,
}

impl Identity {
    /// Reads the claims of a verified token; a claim of the wrong type is absent.
    pub fn from_claims(raw: Map<String, Value>, expires_at: Option<i64>, ends_at: Option<Time>) -> Identity {
        let text = |name: &str| raw.get(name).and_then(Value::as_str).unwrap_or_default();
        let event_types = raw.get("eventTypes").and_then(Value::as_array).map(Vec::as_slice);
        Identity {
            subject: text("sub").into(),
            scopes: Scopes::from_words(text("scope").split_whitespace()),
            event_types: EventTypes::from_words(
                event_types.unwrap_or_default().iter().filter_map(Value::as_str),
            ),
            expires_at,
            ends_at,
            raw,
        }
    }

    /// Refuses with `InvalidTenant` when the tenant claims are not in order.
    pub fn caller(&self, token: &str) -> Result<Caller, Denied> {
        let is_admin = self.scopes.has_admin() || self.has_admin_role();
        let is_operator = self.scopes.has_operator();
        Ok(Caller {
            tenant: tenant::of(&self.raw, &self.subject)?.into(),
            subject: self.subject.clone(),
            scopes: self.scopes,
            event_types: self.event_types.clone(),
            is_admin,
            is_operator,
            is_observer: self.scopes.has_observe() && !is_admin && !is_operator,
            worker_group: self.worker_group(),
            token_hash: sha256(self.signed_part(token)),
            expires_at: self.expires_at,
            ends_at: self.ends_at,
        })
    }

    /// What is the same however it was signed: some signatures have a second form that is as good, and a bearer
    /// must not be two by them. Only signed tokens expire; another is itself.
    fn signed_part<'a>(&self, token: &'a str) -> &'a str {
        match (self.expires_at, token.rsplit_once('.')) {
            (Some(_), Some((signed, _))) => signed,
            _ => token,
        }
    }

    fn has_admin_role(&self) -> bool {
        self.raw.get("role").and_then(Value::as_str).is_some_and(|role| role.eq_ignore_ascii_case("admin"))
    }

    fn worker_group(&self) -> Option<Arc<str>> {
        let group = self.raw.get("workerGroup")?.as_str()?;
        (1..=128).contains(&group.len()).then(|| group.into())
    }
}

fn sha256(token: &str) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Scope;
    use serde_json::json;

    fn caller(claims: Value) -> Caller {
        let Value::Object(raw) = claims else { panic!("claims are an object") };
        Identity::from_claims(raw, None, None).caller("token").expect("the tenant is in order")
    }

    #[test]
    fn claims_become_a_caller() {
        let caller = caller(json!({
            "sub": "w-1", "tid": "acme", "scope": "codeq:claim  openid codeq:nack",
            "eventTypes": ["Render", 5, "mail"], "workerGroup": "gpu",
        }));
        assert_eq!((&*caller.subject, &*caller.tenant), ("w-1", "acme"));
        assert!(caller.scopes.contains(Scope::Claim) && caller.scopes.contains(Scope::Nack));
        assert!(!caller.scopes.contains(Scope::Result));
        assert_eq!(caller.event_types, EventTypes::from_words(["Render", "mail"]));
        assert_eq!(caller.worker_group.as_deref(), Some("gpu"));
        assert!(!caller.is_admin && !caller.is_operator);
        assert_eq!(caller.token_hash[..4], [0x3c, 0x46, 0x9e, 0x9d]);
    }

    /// An ES256 signature (r, s) is as good as (r, -s): with each a bearer had a bucket of its own.
    #[test]
    fn a_second_form_of_the_signature_is_the_same_bearer() {
        let Value::Object(raw) = json!({"tid": "acme"}) else { panic!("claims are an object") };
        let signed = Identity::from_claims(raw.clone(), Some(1), None);
        let hash = |token: &str| signed.caller(token).expect("the tenant is in order").token_hash;
        assert_eq!(hash("head.claims.one"), hash("head.claims.two"));
        assert_ne!(hash("head.claims.one"), hash("head.others.one"));
        let opaque = Identity::from_claims(raw, None, None);
        let hash = |token: &str| opaque.caller(token).expect("the tenant is in order").token_hash;
        assert_ne!(hash("head.claims.one"), hash("head.claims.two"));
    }

    #[test]
    fn admin_comes_from_the_scope_or_the_role_in_any_case() {
        for claims in [json!({"scope": "codeq:admin"}), json!({"role": "ADMIN"}), json!({"role": "admin"})] {
            let mut claims = claims;
            claims["tid"] = json!("acme");
            assert!(caller(claims.clone()).is_admin, "{claims}");
        }
        for role in [json!("ADMINS"), json!("user"), json!(["ADMIN"]), json!(true)] {
            assert!(!caller(json!({"tid": "acme", "role": role})).is_admin);
        }
    }

    #[test]
    fn an_operator_is_one_by_scope_only() {
        let operator = caller(json!({"tid": "acme", "scope": "codeq:operator"}));
        assert!(operator.is_operator && !operator.is_admin);
        assert!(!caller(json!({"tid": "acme", "role": "OPERATOR"})).is_operator);
    }

    #[test]
    fn an_observer_is_one_who_may_do_nothing_else() {
        let observes = |claims: Value| caller(claims).is_observer;
        assert!(observes(json!({"tid": "acme", "scope": "codeq:observe codeq:claim"})));
        for more in [
            json!({"scope": "codeq:observe codeq:admin"}),
            json!({"scope": "codeq:observe", "role": "ADMIN"}),
        ] {
            let mut claims = more;
            claims["tid"] = json!("acme");
            assert!(!observes(claims.clone()), "{claims}");
        }
        assert!(!observes(json!({"tid": "acme", "scope": "codeq:observer"})));
    }

    #[test]
    fn a_worker_group_has_1_to_128_bytes() {
        for (group, is_kept) in [
            (json!(""), false),
            (json!("x".repeat(128)), true),
            (json!("x".repeat(129)), false),
            (json!(1), false),
        ] {
            assert_eq!(caller(json!({"tid": "acme", "workerGroup": group})).worker_group.is_some(), is_kept);
        }
    }

    #[test]
    fn claims_of_the_wrong_type_are_absent() {
        let caller = caller(json!({"sub": 7, "tid": "acme", "scope": ["codeq:claim"], "eventTypes": "mail"}));
        assert_eq!(&*caller.subject, "");
        assert!(caller.scopes.is_empty() && caller.event_types.is_empty());
    }
}
