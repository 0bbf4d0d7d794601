//! Topics: a catalogue of policies per tenant. They do not change how queues behave.

use crate::refusal::Refusal;
use crate::time::Time;
use std::sync::Arc;

/// What a topic says of the tasks that are published to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Ascending.
    pub priority_tiers: Vec<i64>,
    /// 1 to 100.
    pub max_attempts: i64,
    /// A DNS label other than the topic's own name.
    pub dead_letter_topic: String,
    /// 0 to 2,147,483,647.
    pub retention_seconds: Option<i64>,
    /// 0 to 10,000.
    pub max_consumers: Option<i64>,
}

/// A command whose subscribers are told of work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// Whose catalogue it is in.
    pub tenant: Arc<str>,
    /// A DNS label, at most 63 characters.
    pub name: Box<str>,
    /// What was put last.
    pub policy: Policy,
    /// 1 for the first one; grows with every change.
    pub version: u64,
    /// When it was put for the first time.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// What a put did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicPut {
    /// There was none of this name.
    Created,
    /// It has another policy now.
    Changed,
    /// Its policy was equal.
    Same,
}

impl Policy {
    /// Checks every field and sorts the tiers.
    pub fn check(mut self, topic_name: &str) -> Result<Policy, Refusal> {
        let refuse = |field, message| Err(Refusal::InvalidTopic { field, message });
        let tiers = &mut self.priority_tiers;
        if !(1..=10).contains(&tiers.len()) {
            return refuse("priorityTiers", "must contain between 1 and 10 priorities");
        }
        if !tiers.iter().all(|tier| (0..=10).contains(tier)) {
            return refuse("priorityTiers", "priorities must be integers from 0 through 10");
        }
        tiers.sort_unstable();
        if tiers.windows(2).any(|pair| pair[0] == pair[1]) {
            return refuse("priorityTiers", "priorities must be unique");
        }
        if !(1..=100).contains(&self.max_attempts) {
            return refuse("maxAttempts", "must be between 1 and 100");
        }
        if !is_dns_label(&self.dead_letter_topic) {
            return refuse("deadLetterTopicRef", "must be a DNS label with at most 63 characters");
        }
        if self.dead_letter_topic == topic_name {
            return refuse("deadLetterTopicRef", "must differ from topicName");
        }
        if self.retention_seconds.is_some_and(|s| !(0..=2_147_483_647).contains(&s)) {
            return refuse("retentionSeconds", "must be between 0 and 2147483647");
        }
        if self.max_consumers.is_some_and(|n| !(0..=10_000).contains(&n)) {
            return refuse("maxConsumers", "must be between 0 and 10000");
        }
        Ok(self)
    }
}

/// What a topic is called outside its tenant.
pub fn id(tenant: &str, name: &str) -> String {
    format!("{tenant}.{name}")
}

/// The name of a topic is a DNS label.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    match is_dns_label(name) {
        true => Ok(()),
        false => Err(Refusal::InvalidTopic {
            field: "topicName",
            message: "must be a DNS label with at most 63 characters",
        }),
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let edge = |c: Option<&u8>| c.is_some_and(|&c| c != b'-');
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|&c| inner(c))
        && edge(bytes.first())
        && edge(bytes.last())
}

/// The topic after a put, and what the put did to it.
pub fn put(
    current: Option<&Topic>,
    tenant: &Arc<str>,
    name: &str,
    policy: Policy,
    now: Time,
) -> (Topic, TopicPut) {
    match current {
        Some(topic) if topic.policy == policy => (topic.clone(), TopicPut::Same),
        Some(topic) => {
            let version = topic.version + 1;
            (Topic { policy, version, updated_at: now, ..topic.clone() }, TopicPut::Changed)
        }
        None => {
            let tenant = tenant.clone();
            let topic =
                Topic { tenant, name: name.into(), policy, version: 1, created_at: now, updated_at: now };
            (topic, TopicPut::Created)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            priority_tiers: vec![9, 0, 5],
            max_attempts: 3,
            dead_letter_topic: "dead".into(),
            retention_seconds: None,
            max_consumers: None,
        }
    }

    #[test]
    fn policies_are_checked_field_by_field() {
        assert_eq!(policy().check("t").unwrap().priority_tiers, vec![0, 5, 9]);
        let refused = |change: fn(&mut Policy)| {
            let mut asked = policy();
            change(&mut asked);
            asked.check("t").unwrap_err().to_string()
        };
        let tiers = "invalid priorityTiers: ";
        assert_eq!(
            refused(|p| p.priority_tiers.clear()),
            format!("{tiers}must contain between 1 and 10 priorities")
        );
        assert_eq!(
            refused(|p| p.priority_tiers.push(11)),
            format!("{tiers}priorities must be integers from 0 through 10")
        );
        assert_eq!(refused(|p| p.priority_tiers.push(9)), format!("{tiers}priorities must be unique"));
        assert_eq!(refused(|p| p.max_attempts = 0), "invalid maxAttempts: must be between 1 and 100");
        assert!(refused(|p| p.dead_letter_topic = "-a".into()).contains("DNS label"));
        assert_eq!(
            refused(|p| p.dead_letter_topic = "t".into()),
            "invalid deadLetterTopicRef: must differ from topicName"
        );
        assert!(refused(|p| p.retention_seconds = Some(-1)).starts_with("invalid retentionSeconds"));
        assert!(refused(|p| p.max_consumers = Some(10_001)).starts_with("invalid maxConsumers"));
    }

    #[test]
    fn a_put_counts_versions_only_when_something_changed() {
        let (first, did) = put(None, &"acme".into(), "t", policy(), Time::from_millis(1));
        assert_eq!((first.version, did), (1, TopicPut::Created));
        let (same, did) = put(Some(&first), &"acme".into(), "t", policy(), Time::from_millis(2));
        assert_eq!((same.updated_at, did), (first.updated_at, TopicPut::Same));
        let other = Policy { max_attempts: 4, ..policy() };
        let (changed, did) = put(Some(&first), &"acme".into(), "t", other, Time::from_millis(3));
        assert_eq!((changed.version, changed.created_at, did), (2, first.created_at, TopicPut::Changed));
    }
}
