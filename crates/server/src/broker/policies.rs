//! Queue policies: what operators put, and what of it concerns a create before the store sees it.

use super::{Broker, Error};
use crate::lengthy;
use codeq_queue::policy::{Hold, LaneStats, SchemaMode};
use codeq_queue::queue::check_command;
use codeq_queue::{
    NewTask, PayloadSchema, Policies, QueueKey, QueuePolicy, Refusal, StoredPolicy, Time, limits,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Between two looks at policies that were put through other processes.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Tells a policy from those before it.
type Mark = (u64, Time);

/// What creates need to know of a policy.
struct CreateRule {
    schema: Option<PayloadSchema>,
    mode: SchemaMode,
    max_attempts: Option<u32>,
}

impl CreateRule {
    fn patterns(&self) -> usize {
        self.schema.as_ref().map_or(0, PayloadSchema::patterns)
    }
}

/// The policies that say something about creates, as far as this process knows them.
#[derive(Default)]
pub struct CreateRules {
    rules: RwLock<HashMap<QueueKey, (Mark, Arc<CreateRule>)>>,
    /// Counts the policies that were changed through this process.
    changes: AtomicU64,
    /// Payloads that did not match and were let pass.
    warned: AtomicU64,
}

impl CreateRules {
    fn set(&self, queue: QueueKey, mark: Mark, rule: Option<CreateRule>) {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::AcqRel);
        match rule {
            Some(rule) => drop(rules.insert(queue, (mark, Arc::new(rule)))),
            None => drop(rules.remove(&queue)),
        }
    }

    /// Takes over what the store keeps, as it was after so many changes. What is known already is not read again.
    fn replace(&self, stored: Vec<(QueueKey, StoredPolicy)>, changes: u64) {
        let known = self.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut next = HashMap::new();
        for (queue, stored) in stored {
            let mark = (stored.version, stored.updated_at);
            let same = known.get(&queue).filter(|(known, _)| *known == mark).map(|(_, rule)| rule.clone());
            let rule = match same {
                Some(rule) => Some(rule),
                None => known_rule(&queue, &stored.policy).map(Arc::new),
            };
            next.extend(rule.map(|rule| (queue, (mark, rule))));
        }
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        // One that was changed here meanwhile may be newer than what was read.
        if self.changes.load(Ordering::Acquire) == changes {
            *rules = next;
        }
    }

    fn of(&self, task: &NewTask) -> Option<Arc<CreateRule>> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        if rules.is_empty() {
            return None;
        }
        let queue = QueueKey::new(&task.body.tenant, &task.body.command);
        rules.get(&queue).map(|(_, rule)| rule.clone())
    }

    /// Refuses a rule with which the tenant would have too many expressions.
    fn check_patterns(&self, queue: &QueueKey, rule: Option<&CreateRule>) -> Result<(), Refusal> {
        let Some(patterns) = rule.map(CreateRule::patterns).filter(|patterns| *patterns > 0) else {
            return Ok(());
        };
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let others = rules.iter().filter(|(key, _)| key.tenant == queue.tenant && *key != queue);
        let others: usize = others.map(|(_, (_, rule))| rule.patterns()).sum();
        match others + patterns > limits::SCHEMA_PATTERNS {
            true => Err(Refusal::InvalidPolicy {
                field: "payloadSchema".into(),
                message: format!(
                    "the schemas of a tenant have at most {} patterns together",
                    limits::SCHEMA_PATTERNS
                ),
            }),
            false => Ok(()),
        }
    }

    /// Refuses a payload that its queue does not take.
    pub fn check(&self, task: &NewTask) -> Result<(), Refusal> {
        self.of(task).map_or(Ok(()), |rule| self.check_by(&rule, task))
    }

    fn check_by(&self, rule: &CreateRule, task: &NewTask) -> Result<(), Refusal> {
        let Some(schema) = &rule.schema else { return Ok(()) };
        match (schema.check(&task.body.payload), rule.mode) {
            (Err(refusal), SchemaMode::Enforce) => return Err(refusal),
            (Err(_), SchemaMode::Warn) => drop(self.warned.fetch_add(1, Ordering::Relaxed)),
            (Ok(()), _) => {}
        }
        Ok(())
    }

    /// The task with the defaults of its queue, if its payload may be taken. `asked` attempts above zero are kept.
    pub fn apply(&self, mut task: NewTask, asked: i64) -> Result<NewTask, Refusal> {
        let Some(rule) = self.of(&task) else { return Ok(task) };
        self.check_by(&rule, &task)?;
        if let Some(default) = rule.max_attempts.filter(|_| asked <= 0) {
            task.max_attempts = default;
        }
        Ok(task)
    }
}

/// What a policy says of creates.
fn create_rule(policy: &QueuePolicy) -> Result<Option<CreateRule>, Refusal> {
    if policy.payload_schema.is_none() && policy.max_attempts.is_none() {
        return Ok(None);
    }
    let schema = policy.payload_schema.as_deref().map(PayloadSchema::read).transpose()?;
    Ok(Some(CreateRule { schema, mode: policy.schema_mode, max_attempts: policy.max_attempts }))
}

/// The rule of a policy that was taken before. A schema that is no longer taken checks nothing: it stops neither the start of
/// the process nor the policies of others.
fn known_rule(queue: &QueueKey, policy: &QueuePolicy) -> Option<CreateRule> {
    create_rule(policy).unwrap_or_else(|refusal| {
        tracing::error!(
            tenant = %queue.tenant, command = %queue.command, err = %refusal,
            "the payload schema of a queue cannot be used; put its policy again with another one"
        );
        Some(CreateRule { schema: None, mode: policy.schema_mode, max_attempts: policy.max_attempts })
    })
}

impl Broker {
    fn policy_store(&self) -> Result<&dyn Policies, Refusal> {
        self.store.policing().ok_or(Refusal::NotSupported("queue policies"))
    }

    /// Learns the policies that were put before.
    pub async fn load_policies(&self) -> Result<(), Error> {
        let Some(store) = self.store.policing() else { return Ok(()) };
        let changes = self.create_rules.changes.load(Ordering::Acquire);
        self.create_rules.replace(store.policies().await?, changes);
        Ok(())
    }

    /// Learns what is put through other processes over the same store, for ever.
    pub async fn keep_loading_policies(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if let Err(error) = self.load_policies().await {
                tracing::debug!(err = %error, "policies were not read");
            }
        }
    }

    pub async fn put_policy(
        &self,
        tenant: &Arc<str>,
        command: &str,
        policy: &serde_json::Value,
    ) -> Result<StoredPolicy, Error> {
        let store = self.policy_store()?;
        let queue = QueueKey::new(tenant, check_command(command)?);
        let text = policy.to_string();
        if text.len() > limits::POLICY_BYTES {
            let message = format!("must have at most {} bytes", limits::POLICY_BYTES);
            return Err(Refusal::InvalidPolicy { field: String::new(), message }.into());
        }
        let policy = QueuePolicy::read(policy)?;
        let rule = lengthy::aside(|| create_rule(&policy))?;
        self.create_rules.check_patterns(&queue, rule.as_ref())?;
        let stored = store.put_policy(queue.clone(), text.into()).await??;
        self.create_rules.set(queue, (stored.version, stored.updated_at), rule);
        Ok(stored)
    }

    pub async fn policy(&self, tenant: &Arc<str>, command: &str) -> Result<StoredPolicy, Error> {
        let queue = QueueKey::new(tenant, check_command(command)?);
        let stored = self.policy_store()?.policy(queue).await?;
        Ok(stored.ok_or(Refusal::PolicyNotFound)?)
    }

    pub async fn delete_policy(&self, tenant: &Arc<str>, command: &str) -> Result<(), Error> {
        let queue = QueueKey::new(tenant, check_command(command)?);
        let was_there = self.policy_store()?.delete_policy(queue.clone()).await??;
        self.create_rules.set(queue, (0, Time::ZERO), None);
        match was_there {
            true => Ok(()),
            false => Err(Refusal::PolicyNotFound.into()),
        }
    }

    pub async fn lanes(
        &self,
        tenant: &Arc<str>,
        command: &str,
        limit: usize,
    ) -> Result<Vec<LaneStats>, Error> {
        let queue = QueueKey::new(tenant, check_command(command)?);
        Ok(self.policy_store()?.lanes(queue, limit).await?)
    }

    /// What a nack holds back, if the store can.
    pub(super) fn check_hold(&self, word: Option<&str>, delay_seconds: i64) -> Result<Option<Hold>, Refusal> {
        let hold = Hold::read(word, delay_seconds)?;
        match hold.is_some() && self.store.policing().is_none() {
            true => Err(Refusal::NotSupported("holds")),
            false => Ok(hold),
        }
    }

    /// Payloads that did not match their schema and were let pass.
    pub fn schema_warnings(&self) -> u64 {
        self.create_rules.warned.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_a_tenant_are_bounded_over_all_its_queues() {
        let rule = |count: usize| {
            let named = vec![r#"{"pattern":"a"}"#; count].join(",");
            let policy = QueuePolicy::parse(&format!("{{\"payloadSchema\":{{\"allOf\":[{named}]}}}}"))
                .expect("a policy");
            create_rule(&policy).expect("a schema")
        };
        let rules = CreateRules::default();
        let queue = |tenant: &str, command: &str| QueueKey::new(tenant, command);
        for command in ["a", "b"] {
            rules.set(queue("acme", command), (1, Time::ZERO), rule(100));
        }
        let check = |tenant: &str, command: &str, count: usize| {
            rules.check_patterns(&queue(tenant, command), rule(count).as_ref())
        };
        let left = limits::SCHEMA_PATTERNS - 200;
        assert!(check("acme", "c", left + 1).is_err());
        assert_eq!(
            (check("acme", "c", left), check("acme", "b", 100), check("globex", "c", 100)),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(rules.check_patterns(&queue("acme", "c"), None), Ok(()));
    }
}
