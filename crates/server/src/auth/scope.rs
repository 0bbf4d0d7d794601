//! The words that grant a verb.

/// A right a worker token may carry, one per worker verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Claim,
    Heartbeat,
    Abandon,
    Nack,
    Result,
    Subscribe,
}

impl Scope {
    pub const ALL: [Scope; 6] =
        [Scope::Claim, Scope::Heartbeat, Scope::Abandon, Scope::Nack, Scope::Result, Scope::Subscribe];

    /// The word as it stands in a token.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Claim => "codeq:claim",
            Scope::Heartbeat => "codeq:heartbeat",
            Scope::Abandon => "codeq:abandon",
            Scope::Nack => "codeq:nack",
            Scope::Result => "codeq:result",
            Scope::Subscribe => "codeq:subscribe",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

const ADMIN: u16 = 1 << 6;
const OPERATOR: u16 = 1 << 7;
const OBSERVE: u16 = 1 << 9;
/// The token named at least one scope, even one that means nothing to us.
const ANY: u16 = 1 << 8;

/// The scopes of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u16);

impl Scopes {
    pub const NONE: Scopes = Scopes(0);

    /// The six worker scopes.
    pub fn worker() -> Scopes {
        Scopes(Scope::ALL.iter().fold(ANY, |bits, scope| bits | scope.bit()))
    }

    /// Reads words; an unknown one grants nothing but counts as a scope.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Scopes {
        Scopes(words.into_iter().fold(0, |bits, word| bits | ANY | bit_of(word)))
    }

    pub fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    pub fn has_admin(self) -> bool {
        self.0 & ADMIN != 0
    }

    pub fn has_operator(self) -> bool {
        self.0 & OPERATOR != 0
    }

    pub fn has_observe(self) -> bool {
        self.0 & OBSERVE != 0
    }

    /// The token named no scope at all.
    pub fn is_empty(self) -> bool {
        self.0 & ANY == 0
    }
}

fn bit_of(word: &str) -> u16 {
    match word {
        "codeq:admin" => ADMIN,
        "codeq:operator" => OPERATOR,
        "codeq:observe" => OBSERVE,
        _ => Scope::ALL.iter().find(|scope| scope.word() == word).map_or(0, |scope| scope.bit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_grants_its_own_scope_and_no_other() {
        for scope in Scope::ALL {
            let scopes = Scopes::from_words([scope.word()]);
            for other in Scope::ALL {
                assert_eq!(scopes.contains(other), other == scope, "{scope:?} {other:?}");
            }
            assert!(!scopes.has_admin() && !scopes.has_operator() && !scopes.is_empty());
        }
    }

    #[test]
    fn an_unknown_word_counts_but_grants_nothing() {
        let scopes = Scopes::from_words(["openid"]);
        assert!(!scopes.is_empty());
        assert!(Scope::ALL.iter().all(|&scope| !scopes.contains(scope)));
        assert!(Scopes::from_words([]).is_empty());
    }

    #[test]
    fn words_are_matched_exactly() {
        let scopes = Scopes::from_words(["CODEQ:CLAIM", "codeq:claims", "codeq:Admin"]);
        assert!(!scopes.contains(Scope::Claim) && !scopes.has_admin());
    }

    #[test]
    fn a_worker_has_all_six() {
        assert!(Scope::ALL.iter().all(|&scope| Scopes::worker().contains(scope)));
        assert!(!Scopes::worker().has_admin() && !Scopes::worker().is_empty());
    }
}
