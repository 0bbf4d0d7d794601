//! What operators did: one record for every verb that changes something.

mod note;

pub use note::{Note, noting, unnoted};

use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// Records that are kept, whatever their age: the oldest give way.
pub const KEPT: usize = 100_000;
/// How long they are kept unless configured otherwise: 90 days.
pub const RETENTION: Duration = Duration::from_secs(7_776_000);
/// Records that one page examines.
pub const EXAMINED: usize = 50_000;

/// One verb of one operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// When the server got the request.
    pub at: Time,
    /// Tells entries of one instant apart.
    pub id: u64,
    /// The subject of the token.
    pub who: Arc<str>,
    /// Whose tasks or queues; `*` is every tenant.
    pub tenant: Arc<str>,
    /// What was done, in the words of the route, such as `pause`.
    pub verb: Box<str>,
    /// What it was done to.
    pub target: Box<str>,
    /// How many were touched, or matched in the case of an operation.
    pub count: Option<u64>,
    /// The `X-Request-Id` of the request.
    pub request_id: Box<str>,
}

impl AuditEntry {
    /// Where it lies in the order of entries.
    pub fn place(&self) -> (Time, u64) {
        (self.at, self.id)
    }
}

/// Which entries, the newest first. Everything that is given must hold.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AuditPage {
    /// `None` is every tenant.
    pub tenant: Option<Arc<str>>,
    /// Exactly this verb; `None` is any.
    pub verb: Option<String>,
    /// Exactly this subject; `None` is any.
    pub who: Option<String>,
    /// Only entries later than this instant.
    pub after: Option<Time>,
    /// Only entries earlier than this instant.
    pub before: Option<Time>,
    /// Only what lies in front of this place: where the page before ended.
    pub cursor: Option<(Time, u64)>,
    /// Entries of a full page.
    pub limit: usize,
}

impl AuditPage {
    /// Whether a record is one of those that are asked for.
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == entry.tenant)
            && self.verb.as_deref().is_none_or(|verb| *verb == *entry.verb)
            && self.who.as_deref().is_none_or(|who| *who == *entry.who)
            && self.after.is_none_or(|after| entry.at > after)
            && self.before.is_none_or(|before| entry.at < before)
            && self.cursor.is_none_or(|cursor| entry.place() < cursor)
    }

    /// The page out of entries that come the newest first, and where the next one begins.
    pub fn take<'a>(&self, entries: impl Iterator<Item = &'a AuditEntry>) -> Audited {
        let mut page = Audited::default();
        for (examined, entry) in entries.enumerate() {
            if page.entries.len() == self.limit || examined == EXAMINED {
                page.next = page.last;
                break;
            }
            page.last = Some(entry.place());
            if self.matches(entry) {
                page.entries.push(entry.clone());
            }
        }
        page
    }
}

/// One page of records of what operators did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Audited {
    /// The newest first; may be empty although there is a `next`.
    pub entries: Vec<AuditEntry>,
    /// Where to go on; none at the end.
    pub next: Option<(Time, u64)>,
    /// The last one that was looked at.
    last: Option<(Time, u64)>,
}

impl Audited {
    /// One page of the pages of several places, each of them the newest first.
    pub fn merged(pages: Vec<Audited>, limit: usize) -> Audited {
        // Behind the place where one page ends it may have more.
        let bar = pages.iter().filter_map(|page| page.next).max();
        let mut entries: Vec<AuditEntry> = pages.into_iter().flat_map(|page| page.entries).collect();
        entries.retain(|entry| bar.is_none_or(|bar| entry.place() >= bar));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.place()));
        let is_cut = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().map(AuditEntry::place);
        let next = if is_cut { last } else { bar };
        Audited { entries, next, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: i64, tenant: &str, verb: &str) -> AuditEntry {
        AuditEntry {
            at: Time::from_millis(at),
            id: 1,
            who: "ann".into(),
            tenant: tenant.into(),
            verb: verb.into(),
            target: "mail".into(),
            count: None,
            request_id: "r".into(),
        }
    }

    #[test]
    fn pages_of_several_places_make_one() {
        let places: [Vec<AuditEntry>; 3] =
            [2, 3, 5].map(|step| (0..40).rev().step_by(step).map(|at| entry(at, "acme", "pause")).collect());
        let mut expected: Vec<i64> = places.iter().flatten().map(|entry| entry.at.millis()).collect();
        expected.sort_by_key(|at| std::cmp::Reverse(*at));
        // Entries of one instant count once here.
        expected.dedup();
        let mut page = AuditPage { limit: 4, ..AuditPage::default() };
        let mut found = Vec::new();
        loop {
            let pages = places.iter().map(|entries| {
                page.take(
                    entries.iter().filter(|entry| page.cursor.is_none_or(|cursor| entry.place() < cursor)),
                )
            });
            let merged = Audited::merged(pages.collect(), page.limit);
            found.extend(merged.entries.iter().map(|entry| entry.at.millis()));
            match merged.next {
                Some(next) => page.cursor = Some(next),
                None => break,
            }
        }
        found.dedup();
        assert_eq!(found, expected);
    }

    #[test]
    fn pages_hold_what_matches_and_say_where_to_go_on() {
        let all: Vec<AuditEntry> =
            (0..10).rev().map(|at| entry(at, "acme", if at % 2 == 0 { "pause" } else { "cancel" })).collect();
        let verb = Some("pause".to_owned());
        let mut page = AuditPage { tenant: Some("acme".into()), verb, limit: 2, ..AuditPage::default() };
        let mut found = Vec::new();
        loop {
            let entries = all.iter().filter(|entry| page.cursor.is_none_or(|cursor| entry.place() < cursor));
            let audited = page.take(entries);
            found.extend(audited.entries.iter().map(|entry| entry.at.millis()));
            match audited.next {
                Some(next) => page.cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(found, [8, 6, 4, 2, 0]);
        let other = AuditPage { tenant: Some("globex".into()), limit: 9, ..AuditPage::default() };
        assert!(other.take(all.iter()).entries.is_empty());
        let at = |millis| Some(Time::from_millis(millis));
        let between = AuditPage { after: at(3), before: at(6), limit: 9, ..AuditPage::default() };
        let found: Vec<i64> =
            between.take(all.iter()).entries.iter().map(|entry| entry.at.millis()).collect();
        assert_eq!(found, [5, 4]);
    }
}
