//! Listing, positions and imports, in the naive way.

use super::state::{Entry, Model};
use codeq_queue::store::{Import, Position, TaskRef};
use codeq_queue::{Listed, Page, QueueKey, Refusal, State};

impl Model {
    /// A cursor is the place of an entry in the order of creation; entries that went meanwhile make a page
    /// repeat nothing, because the place is that of the task it names.
    pub fn list(&self, page: &Page) -> Result<Listed, Refusal> {
        let mut all: Vec<&Entry> = self.entries.iter().collect();
        if page.is_newest_first {
            all.reverse();
        }
        let from = match page.cursor.as_deref().map(|cursor| self.place_of(cursor, &all)) {
            None => 0,
            Some(Some(place)) => place,
            Some(None) => return Err(Refusal::InvalidCursor),
        };
        let is_theirs = |entry: &&&Entry| {
            page.tenant.as_ref().is_none_or(|tenant| entry.task.body.tenant == *tenant)
                && page.filter.matches(&entry.task)
        };
        let mut matching = all[from..].iter().filter(is_theirs);
        let tasks = matching.by_ref().take(page.limit).map(|entry| entry.task.clone()).collect();
        let next = matching.next().map(|entry| entry.task.id.to_string());
        Ok(Listed { tasks, next, missing: Vec::new() })
    }

    fn place_of(&self, cursor: &str, all: &[&Entry]) -> Option<usize> {
        let id = codeq_queue::TaskId::parse(cursor)?;
        all.iter().position(|entry| entry.task.id == id)
    }

    pub fn position(&self, named: &TaskRef) -> Option<Position> {
        let own = self.find(named)?;
        let seq = own.seq()?;
        let others = || self.entries.iter().filter(|other| other.seq().is_some() && other.key() == own.key());
        let is_ahead = |other: &&Entry| {
            other.task.priority == own.task.priority && other.seq().is_some_and(|theirs| theirs < seq)
        };
        let is_higher = |other: &&Entry| other.task.priority > own.task.priority;
        Some(Position {
            ahead: Some(others().filter(is_ahead).count() as u64),
            ahead_at_higher_priority: others().filter(is_higher).count() as u64,
        })
    }

    pub fn import(&mut self, import: Import) -> Result<bool, Refusal> {
        let Import { mut task, record } = import;
        if self.by_id(task.id).is_some() {
            return Ok(false);
        }
        let key = QueueKey::new(&task.body.tenant, &task.body.command);
        let has_namesake = task.body.idempotency_key.is_some()
            && self.entries.iter().any(|other| {
                other.key() == key && other.task.body.idempotency_key == task.body.idempotency_key
            });
        if has_namesake {
            return Err(Refusal::IdempotencyKeyTaken);
        }
        if matches!(task.state, State::Ready { .. } | State::Running(_)) {
            task.state = self.next_ready();
        }
        let ends = match task.state {
            State::Dead => self.rules.dead_retention.map(|kept| self.now.plus(kept)),
            _ if record.is_some() => Some(self.now.plus(self.rules.retention)),
            _ => None,
        };
        self.spellings.entry(key).or_insert_with(|| (*task.body.command).into());
        let accepted = self.accept();
        self.entries.push(Entry { task, record, history: Vec::new(), ends, accepted });
        Ok(true)
    }
}
