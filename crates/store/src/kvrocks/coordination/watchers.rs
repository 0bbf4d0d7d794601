//! Producers that wait for the end of a task.

use codeq_queue::TaskId;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Those who wait for the end of a task.
#[derive(Default)]
pub struct Watchers {
    tasks: Mutex<HashMap<TaskId, Arc<Notify>>>,
}

/// Forgets the task when the last who watches it goes, also if he is dropped while he waits.
pub struct Watch {
    watchers: Arc<Watchers>,
    id: TaskId,
    told: Arc<Notify>,
}

impl Watch {
    pub fn told(&self) -> &Notify {
        &self.told
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut tasks = self.watchers.tasks.lock().expect("no one panics holding the watchers");
        // One count is the map's, one is ours.
        if Arc::strong_count(&self.told) <= 2 {
            tasks.remove(&self.id);
        }
    }
}

impl Watchers {
    pub fn watch(self: Arc<Self>, id: TaskId) -> Watch {
        let mut tasks = self.tasks.lock().expect("no one panics holding the watchers");
        let told = tasks.entry(id).or_default().clone();
        drop(tasks);
        Watch { watchers: self, id, told }
    }

    pub fn tell(&self, id: TaskId) {
        let tasks = self.tasks.lock().expect("no one panics holding the watchers");
        if let Some(notify) = tasks.get(&id) {
            notify.notify_waiters();
        }
    }

    pub fn tell_all(&self) {
        let tasks = self.tasks.lock().expect("no one panics holding the watchers");
        tasks.values().for_each(|notify| notify.notify_waiters());
    }
}
