//! What a verified token says about its bearer, and the rights that follow.

use super::scope::Scopes;
use codeq_queue::Time;
use std::sync::Arc;

/// The commands a worker may claim or subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTypes {
    /// The token says `*`.
    All,
    /// In the order and the spelling of the token; may be empty.
    These(Arc<[Arc<str>]>),
}

impl EventTypes {
    /// Reads the entries of a token; blank ones are none.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> EventTypes {
        let words: Vec<&str> = words.into_iter().map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.contains(&"*") {
            return EventTypes::All;
        }
        EventTypes::These(words.into_iter().map(Arc::from).collect())
    }

    /// Whatever the case of either.
    pub fn is_allowed(&self, command: &str) -> bool {
        match self {
            EventTypes::All => true,
            EventTypes::These(these) => these.iter().any(|one| one.eq_ignore_ascii_case(command)),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, EventTypes::These(these) if these.is_empty())
    }
}

/// What a verified token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `sub`; empty if the token has none.
    pub subject: Arc<str>,
    pub tenant: Arc<str>,
    pub scopes: Scopes,
    pub event_types: EventTypes,
    /// Scope `codeq:admin` or role ADMIN.
    pub is_admin: bool,
    /// Scope `codeq:operator`.
    pub is_operator: bool,
    /// Scope `codeq:observe` without any admin right: may read what its tenant has, and change nothing.
    pub is_observer: bool,
    /// The subscription group the token is bound to.
    pub worker_group: Option<Arc<str>>,
    /// SHA-256 of the bearer token, without the signature if it has one, for rate limits.
    pub token_hash: [u8; 32],
    /// `exp` in Unix seconds; none for a token that never expires.
    pub expires_at: Option<i64>,
    /// `exp` plus the leeway of the provider: from here on the token is no longer accepted.
    pub ends_at: Option<Time>,
}

impl Caller {
    /// A producer on worker routes: the six worker scopes, every command, the same person.
    pub(super) fn as_worker(&self) -> Caller {
        Caller { scopes: Scopes::worker(), event_types: EventTypes::All, ..self.clone() }
    }
}

/// May create tasks.
#[derive(Clone, Debug)]
pub struct Producer(pub Arc<Caller>);

/// May act on worker routes; has at least one event type and one scope.
#[derive(Clone, Debug)]
pub struct Worker(pub Arc<Caller>);

/// Whether a call reads or changes something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Change,
}

/// May use the admin routes: of its tenant, or of any tenant if it is an operator. An observer may read them.
#[derive(Clone, Debug)]
pub struct Admin(pub Arc<Caller>);

/// May use what concerns every tenant.
#[derive(Clone, Debug)]
pub struct Operator(pub Arc<Caller>);

/// May read tasks and results of its tenant; a producer or a worker.
#[derive(Clone, Debug)]
pub struct Reader(pub Arc<Caller>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_types_match_in_any_case_and_keep_their_spelling() {
        let types = EventTypes::from_words(["Render_Video", "mail.send"]);
        assert!(types.is_allowed("RENDER_VIDEO") && types.is_allowed("mail.SEND"));
        assert!(!types.is_allowed("render") && !types.is_allowed(""));
        let EventTypes::These(these) = types else { panic!("not all") };
        assert_eq!(these.iter().map(|one| &**one).collect::<Vec<_>>(), ["Render_Video", "mail.send"]);
    }

    #[test]
    fn a_star_among_them_allows_everything() {
        let types = EventTypes::from_words(["a", "*"]);
        assert_eq!(types, EventTypes::All);
        assert!(types.is_allowed("whatever") && !types.is_empty());
    }

    #[test]
    fn blank_entries_are_none() {
        assert!(EventTypes::from_words(["", "  "]).is_empty());
        assert!(!EventTypes::from_words([" "]).is_allowed(" "));
    }
}
