//! What operators look for: tasks by filter, the causes of dead letters.

use super::produce::reference;
use super::{Broker, Error};
use codeq_queue::{Attempt, Failure, Filter, Listed, Page, Refusal, Task, TaskId, Time, Whereabouts, cause};
use std::collections::HashMap;
use std::sync::Arc;

/// Tasks asked of the store at once when all of them are wanted.
const ASKED_AT_ONCE: usize = 20_000;
/// Groups that are told apart; the dead letters of further ones are left out.
const TOLD_APART: usize = 10_000;
/// Groups that are shown.
const SHOWN: usize = 200;
/// Tasks named as examples of a group.
const EXAMPLES: usize = 3;

/// Dead letters of one cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub id: String,
    pub command: String,
    pub count: u64,
    /// The error text with marks for what varies.
    pub error: String,
    pub examples: Vec<TaskId>,
    pub first_seen: Time,
    pub last_seen: Time,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Groups {
    /// The most frequent first.
    pub groups: Vec<Group>,
    /// There are more than are shown.
    pub is_truncated: bool,
    /// Shards that did not answer.
    pub missing: Vec<String>,
}

impl Broker {
    /// One page. Everything that looks for tasks by a filter comes through here, so that this is where filters are checked.
    pub async fn list(&self, page: Page) -> Result<Listed, Error> {
        page.filter.check()?;
        Ok(self.store.list(page).await??)
    }

    /// How many tasks match. Fails while a shard does not answer: half a count would mislead.
    pub async fn count(&self, tenant: Option<Arc<str>>, filter: Arc<Filter>) -> Result<u64, Error> {
        let mut count = 0;
        let missing = self.each(tenant, filter, |_| count += 1).await?;
        whole(&missing)?;
        Ok(count)
    }

    /// Visits every task that matches, the oldest first. Gives the shards that did not answer.
    pub(super) async fn each(
        &self,
        tenant: Option<Arc<str>>,
        filter: Arc<Filter>,
        mut visit: impl FnMut(&Task),
    ) -> Result<Vec<String>, Error> {
        let mut page = Page { tenant, filter, is_newest_first: false, cursor: None, limit: ASKED_AT_ONCE };
        loop {
            let listed = self.list(page.clone()).await?;
            listed.tasks.iter().for_each(&mut visit);
            match listed.next {
                // The same place again: there is only what a server holds that does not answer.
                Some(next) if page.cursor.as_ref() != Some(&next) => page.cursor = Some(next),
                _ => return Ok(listed.missing),
            }
        }
    }

    /// The last deliveries of a task, oldest first.
    pub async fn attempts(&self, tenant: &Arc<str>, id: &str) -> Result<Vec<Attempt>, Error> {
        let attempts = self.store.attempts(reference(tenant, id)?).await?;
        Ok(attempts.ok_or(Refusal::NotFound)?)
    }

    /// The causes of the dead letters, or of the failed tasks, of a command or of all.
    pub async fn groups(
        &self,
        tenant: Option<Arc<str>>,
        command: Option<String>,
        place: Whereabouts,
    ) -> Result<Groups, Error> {
        let filter = Filter { command, place: Some(place), ..Filter::default() };
        let mut gathered = Gathered::default();
        let missing = self.each(tenant, Arc::new(filter), |task| gathered.add(task)).await?;
        Ok(Groups { missing, ..gathered.groups() })
    }
}

/// Refuses to go on without these shards.
pub(super) fn whole(missing: &[String]) -> Result<(), Failure> {
    match missing {
        [] => Ok(()),
        missing => Err(Failure::unavailable(format!("shards do not answer: {}", missing.join(",")))),
    }
}

#[derive(Default)]
struct Gathered {
    groups: HashMap<String, Group>,
    is_truncated: bool,
}

impl Gathered {
    fn add(&mut self, task: &Task) {
        let error = cause::normalise(task.error.as_deref().unwrap_or_default());
        let id = cause::group(&task.body.command, &error);
        if self.groups.len() >= TOLD_APART && !self.groups.contains_key(&id) {
            self.is_truncated = true;
            return;
        }
        let group = self.groups.entry(id).or_insert_with_key(|id| Group {
            id: id.clone(),
            command: task.body.command.to_string(),
            count: 0,
            error,
            examples: Vec::new(),
            first_seen: task.updated_at,
            last_seen: task.updated_at,
        });
        group.count += 1;
        group.first_seen = group.first_seen.min(task.updated_at);
        group.last_seen = group.last_seen.max(task.updated_at);
        if group.examples.len() < EXAMPLES {
            group.examples.push(task.id);
        }
    }

    fn groups(self) -> Groups {
        let mut groups: Vec<Group> = self.groups.into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.id.cmp(&b.id)));
        let is_truncated = self.is_truncated || groups.len() > SHOWN;
        groups.truncate(SHOWN);
        Groups { groups, is_truncated, missing: Vec::new() }
    }
}
