//! Subscriptions: expiring requests for availability notifications.

use crate::create::check_url;
use crate::limits;
use crate::refusal::Refusal;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// Time to live when none, or nothing positive, is asked for.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);

/// Who is told: every subscriber, or one of each group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryMode {
    /// Every subscriber.
    Fanout,
    /// One of each group; its members take turns.
    Group,
    /// One of all subscribers of this mode, another one every minute.
    Hash,
}

impl DeliveryMode {
    /// The mode that a word of the wire names; `broadcast` is another one for `fanout`.
    pub fn parse(word: &str) -> Result<DeliveryMode, Refusal> {
        match word {
            "fanout" | "broadcast" => Ok(DeliveryMode::Fanout),
            "group" => Ok(DeliveryMode::Group),
            "hash" => Ok(DeliveryMode::Hash),
            _ => Err(Refusal::InvalidSubscription("invalid deliveryMode")),
        }
    }

    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            DeliveryMode::Fanout => "fanout",
            DeliveryMode::Group => "group",
            DeliveryMode::Hash => "hash",
        }
    }
}

/// Who is told that commands have work, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// Its name on the wire, a UUID.
    pub id: u128,
    /// Only work of this tenant is told.
    pub tenant: Arc<str>,
    /// Where the notifications go.
    pub callback_url: Box<str>,
    /// Lower-cased commands, or `*`.
    pub event_types: Vec<Box<str>>,
    /// Who of several subscribers is told.
    pub mode: DeliveryMode,
    /// Required by [`DeliveryMode::Group`].
    pub group: Option<Box<str>>,
    /// The shortest time between two notifications; zero is none.
    pub min_interval: Duration,
    /// When it was made.
    pub created_at: Time,
    /// It is forgotten then, unless it is renewed.
    pub expires_at: Time,
}

/// A request that has passed the rights of its token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSubscription {
    /// Taken from the token.
    pub tenant: Arc<str>,
    /// An absolute http or https URL; checked when it is accepted.
    pub callback_url: String,
    /// At most 256 commands, or `*`.
    pub event_types: Vec<String>,
    /// Who of several subscribers is told.
    pub mode: DeliveryMode,
    /// At most 128 bytes; blank is none.
    pub group: Option<String>,
    /// Zero and below mean [`DEFAULT_TTL`].
    pub ttl_seconds: i64,
    /// The shortest time between two notifications; zero is none.
    pub min_interval: Duration,
}

impl NewSubscription {
    /// The subscription under this id from now on, if it is well formed.
    pub fn accept(self, id: u128, now: Time) -> Result<Subscription, Refusal> {
        let url = check_url(Some(&self.callback_url))
            .map_err(|_| Refusal::InvalidSubscription("invalid callback url"))?;
        let callback_url = url.ok_or(Refusal::InvalidSubscription("callbackUrl is required"))?;
        let group = self.group.filter(|group| !group.trim().is_empty());
        let is_short = |event: &String| event.len() <= limits::COMMAND_BYTES;
        let is_bounded = self.event_types.len() <= limits::EVENT_TYPES
            && self.event_types.iter().all(is_short)
            && group.as_ref().is_none_or(|group| group.len() <= limits::GROUP_BYTES);
        if !is_bounded {
            return Err(Refusal::InvalidBody);
        }
        if self.mode == DeliveryMode::Group && group.is_none() {
            return Err(Refusal::InvalidSubscription("groupId is required"));
        }
        Ok(Subscription {
            id,
            tenant: self.tenant,
            callback_url,
            event_types: self.event_types.iter().map(|e| e.to_ascii_lowercase().into()).collect(),
            mode: self.mode,
            group: group.map(Into::into),
            min_interval: self.min_interval,
            created_at: now,
            expires_at: now.plus(ttl(self.ttl_seconds)),
        })
    }
}

/// Whether a tenant with this number of living subscriptions may have another one.
pub fn check_count(living: usize) -> Result<(), Refusal> {
    match living < limits::SUBSCRIPTIONS {
        true => Ok(()),
        false => Err(Refusal::TooManySubscriptions(limits::SUBSCRIPTIONS)),
    }
}

/// How long a subscription lives that asks for this many seconds.
pub fn ttl(seconds: i64) -> Duration {
    match u64::try_from(seconds) {
        Ok(0) | Err(_) => DEFAULT_TTL,
        Ok(seconds) => Duration::from_secs(seconds).min(limits::SUBSCRIPTION_TTL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> NewSubscription {
        NewSubscription {
            tenant: "t".into(),
            callback_url: "http://h/".into(),
            event_types: vec!["Render".into()],
            mode: DeliveryMode::Fanout,
            group: None,
            ttl_seconds: 0,
            min_interval: Duration::ZERO,
        }
    }

    #[test]
    fn requests_are_checked_and_defaults_filled_in() {
        let made = new().accept(7, Time::from_millis(0)).unwrap();
        assert_eq!(made.expires_at, Time::from_millis(300_000));
        assert_eq!(&*made.event_types[0], "render");
        let refused = |change: fn(&mut NewSubscription)| {
            let mut asked = new();
            change(&mut asked);
            asked.accept(7, Time::ZERO).unwrap_err().to_string()
        };
        assert_eq!(refused(|s| s.callback_url = " ".into()), "callbackUrl is required");
        assert_eq!(refused(|s| s.callback_url = "ftp://h".into()), "invalid callback url");
        assert_eq!(refused(|s| s.mode = DeliveryMode::Group), "groupId is required");
        assert_eq!(
            refused(|s| s.callback_url = format!("http://h/{}", "x".repeat(limits::URL_BYTES))),
            "invalid callback url"
        );
        assert_eq!(refused(|s| s.event_types = vec!["e".into(); limits::EVENT_TYPES + 1]), "invalid body");
        assert_eq!(refused(|s| s.event_types = vec!["e".repeat(limits::COMMAND_BYTES + 1)]), "invalid body");
        assert_eq!(refused(|s| s.group = Some("g".repeat(limits::GROUP_BYTES + 1))), "invalid body");
        assert!(check_count(limits::SUBSCRIPTIONS - 1).is_ok());
        assert!(check_count(limits::SUBSCRIPTIONS).is_err());
        assert!(DeliveryMode::parse("broadcast").is_ok());
        assert!(DeliveryMode::parse("multi").is_err());
    }
}
