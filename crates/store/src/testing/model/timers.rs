//! What time does to tasks: promotion, expiry, removal.

use super::state::{Entry, Model};
use super::transitions::Choose;
use codeq_queue::{State, TaskId, Time};

impl Model {
    /// When the entry's next timer is due.
    pub fn instant(entry: &Entry) -> Option<Time> {
        match &entry.task.state {
            State::Delayed { until } => Some(*until),
            State::Running(lease) => Some(lease.until),
            _ => entry.ends,
        }
    }

    /// Everything whose instant has come by `now`, earliest first, then in the order of creation.
    pub fn due(&self, now: Time) -> Vec<TaskId> {
        let mut due: Vec<(Time, TaskId)> = Vec::new();
        for entry in &self.entries {
            if let Some(at) = Model::instant(entry).filter(|at| *at <= now) {
                due.push((at, entry.task.id));
            }
        }
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// Moves to `now` and acts on everything due. Gives the tasks that became ready, in that order.
    pub fn advance(&mut self, now: Time, choose: Choose) -> Vec<TaskId> {
        self.now = now;
        let mut ready = Vec::new();
        for id in self.due(now) {
            match self.entry(id).task.state {
                State::Delayed { .. } => self.make_ready(id),
                State::Running(_) => self.expire(id, choose),
                _ => self.forget(id),
            }
            if self.by_id(id).is_some_and(|entry| entry.seq().is_some()) {
                ready.push(id);
            }
        }
        ready
    }

    /// Gives tasks that became ready together another order among themselves.
    pub fn reorder(&mut self, tasks: &[TaskId]) {
        for id in tasks {
            let ready = self.next_ready();
            self.entry(*id).task.state = ready;
        }
    }
}
