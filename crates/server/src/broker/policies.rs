//! Queue policies: what operators put, and what of it concerns a create before the store sees it.

use super::{Broker, Error};
use crate::lengthy;
use codeq_queue::policy::{Hold, LaneStats, SchemaMode};
use codeq_queue::queue::check_command;
use codeq_queue::{NewTask, Policies, QueueKey, QueuePolicy, Refusal, StoredPolicy, Time, limits};
use jsonschema::{PatternOptions, Validator};
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
    /// Regular expressions in the schema.
    patterns: usize,
    schema: Option<Validator>,
    mode: SchemaMode,
    max_attempts: Option<u32>,
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
    fn replace(&self, stored: Vec<(QueueKey, StoredPolicy)>, changes: u64) -> Result<(), Refusal> {
        let known = self.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut next = HashMap::new();
        for (queue, stored) in stored {
            let mark = (stored.version, stored.updated_at);
            let same = known.get(&queue).filter(|(known, _)| *known == mark).map(|(_, rule)| rule.clone());
            let rule = match same {
                Some(rule) => Some(rule),
                // What was taken before there was a bound goes on.
                None => create_rule(&stored.policy, None)?.map(Arc::new),
            };
            next.extend(rule.map(|rule| (queue, (mark, rule))));
        }
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        // One that was changed here meanwhile may be newer than what was read.
        if self.changes.load(Ordering::Acquire) == changes {
            *rules = next;
        }
        Ok(())
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
        let Some(patterns) = rule.map(|rule| rule.patterns).filter(|patterns| *patterns > 0) else {
            return Ok(());
        };
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let others = rules.iter().filter(|(key, _)| key.tenant == queue.tenant && *key != queue);
        let others: usize = others.map(|(_, (_, rule))| rule.patterns).sum();
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
        match (check_payload(schema, &task.body.payload), rule.mode) {
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

/// What a policy says of creates; each of its expressions may take so many bytes.
fn create_rule(policy: &QueuePolicy, most: Option<usize>) -> Result<Option<CreateRule>, Refusal> {
    if policy.payload_schema.is_none() && policy.max_attempts.is_none() {
        return Ok(None);
    }
    let read = policy.payload_schema.as_deref().map(|text| read_schema(text, most)).transpose()?;
    let (patterns, schema) = read.map_or((0, None), |(patterns, schema)| (patterns, Some(schema)));
    Ok(Some(CreateRule { patterns, schema, mode: policy.schema_mode, max_attempts: policy.max_attempts }))
}

/// A schema and how many expressions it has. They are matched in time that grows with the text only, and take little
/// memory; nothing is fetched from elsewhere.
fn read_schema(text: &str, most: Option<usize>) -> Result<(usize, Validator), Refusal> {
    let invalid = |message: String| {
        let message = limits::cut(&message, 512).to_owned();
        Refusal::InvalidPolicy { field: "payloadSchema".into(), message }
    };
    let schema = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let patterns = patterns(&schema);
    let mut regex = PatternOptions::regex();
    if let Some(most) = most {
        if patterns > limits::SCHEMA_PATTERNS {
            return Err(invalid(format!("has more than {} patterns", limits::SCHEMA_PATTERNS)));
        }
        regex = regex.size_limit(most).dfa_size_limit(most);
    }
    let options = jsonschema::draft202012::options().with_pattern_options(regex);
    let built = options.build(&schema).map_err(|error| invalid(format!("is no usable JSON Schema: {error}")));
    Ok((patterns, built?))
}

/// Expressions in a schema, wherever they are: what only looks like one counts as well.
fn patterns(schema: &serde_json::Value) -> usize {
    match schema {
        serde_json::Value::Object(fields) => {
            let own = fields.iter().map(|(name, value)| match (name.as_str(), value) {
                ("pattern", serde_json::Value::String(_)) => 1,
                ("patternProperties", serde_json::Value::Object(named)) => named.len(),
                _ => 0,
            });
            own.sum::<usize>() + fields.values().map(patterns).sum::<usize>()
        }
        serde_json::Value::Array(items) => items.iter().map(patterns).sum(),
        _ => 0,
    }
}

fn check_payload(schema: &Validator, payload: &str) -> Result<(), Refusal> {
    let Ok(payload) = serde_json::from_str(payload) else {
        return Err(Refusal::PayloadInvalid { field: String::new(), message: "is not JSON".into() });
    };
    schema.validate(&payload).map_err(|error| Refusal::PayloadInvalid {
        field: error.instance_path.to_string(),
        message: limits::cut(&error.to_string(), 512).to_owned(),
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
        Ok(self.create_rules.replace(store.policies().await?, changes)?)
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
        let rule = lengthy::aside(|| create_rule(&policy, Some(limits::SCHEMA_PATTERN_BYTES)))?;
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

    const MOST: Option<usize> = Some(limits::SCHEMA_PATTERN_BYTES);

    #[test]
    fn a_payload_is_checked_and_told_by_its_pointer() {
        let (_, schema) =
            read_schema(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#, MOST).unwrap();
        assert_eq!(check_payload(&schema, r#"{"n":1}"#), Ok(()));
        let refused = check_payload(&schema, r#"{"n":"x"}"#);
        assert!(
            matches!(&refused, Err(Refusal::PayloadInvalid { field, .. }) if field == "/n"),
            "{refused:?}"
        );
        assert!(check_payload(&schema, "not json").is_err());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for bad in [
            r#"{"type":"nothing"}"#,
            r#"{"$ref":"https://example.com/schema.json"}"#,
            r##"{"$ref":"#/missing"}"##,
            r#"{"pattern":"("}"#,
            r#"{"pattern":"(a)\\1"}"#,
        ] {
            let read = read_schema(bad, MOST).map(|_| ());
            assert!(matches!(read, Err(Refusal::InvalidPolicy { .. })), "{bad}");
        }
    }

    /// A schema of 64 KiB could have thousands of expressions that take ten megabytes each.
    #[test]
    fn expressions_of_a_tenant_are_few_and_small() {
        let heavy = read_schema(r#"{"pattern":"(\\p{L}{100}){100}"}"#, MOST).map(|_| ());
        assert!(matches!(heavy, Err(Refusal::InvalidPolicy { .. })), "it is too large when it is compiled");
        assert!(
            read_schema(r#"{"pattern":"^[\\w.+-]{1,64}@[\\w-]{1,63}(\\.[\\w-]{1,63}){1,3}$"}"#, MOST).is_ok()
        );
        let many = |count: usize| {
            let named = vec![r#"{"pattern":"a","patternProperties":{"b":true}}"#; count / 2].join(",");
            QueuePolicy::parse(&format!("{{\"payloadSchema\":{{\"allOf\":[{named}]}}}}")).expect("a policy")
        };
        assert!(create_rule(&many(limits::SCHEMA_PATTERNS + 2), MOST).is_err());
        let rules = CreateRules::default();
        let queue = |tenant: &str, command: &str| QueueKey::new(tenant, command);
        let half = || create_rule(&many(limits::SCHEMA_PATTERNS / 2 + 1), MOST).expect("a schema");
        rules.set(queue("acme", "a"), (1, Time::ZERO), half());
        rules.set(queue("acme", "b"), (1, Time::ZERO), half());
        let check = |tenant: &str, command: &str, count: usize| {
            rules.check_patterns(
                &queue(tenant, command),
                create_rule(&many(count), MOST).expect("a schema").as_ref(),
            )
        };
        assert!(check("acme", "c", 2).is_err());
        assert_eq!((check("acme", "b", 2), check("globex", "c", 2)), (Ok(()), Ok(())));
        assert_eq!(rules.check_patterns(&queue("acme", "c"), None), Ok(()));
    }

    /// An expression that makes others go back and forth takes no time here.
    #[test]
    fn expressions_are_matched_in_linear_time() {
        let (_, schema) = read_schema(r#"{"pattern":"^(a+)+$"}"#, MOST).unwrap();
        let payload = format!("\"{}!\"", "a".repeat(100_000));
        assert!(check_payload(&schema, &payload).is_err());
    }
}
