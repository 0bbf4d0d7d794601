//! The callbacks that the model's tasks leave behind.

use super::state::Model;
use codeq_queue::task::callback_body;
use codeq_queue::{Delivery, DeliveryState, TaskId};

impl Model {
    pub(super) fn call_back(&mut self, id: TaskId) {
        if !self.rules.callbacks {
            return;
        }
        self.counter += 1;
        let number = u128::from(self.counter);
        let (now, stamp) = (self.now, self.rules.stamp.clone());
        let entry = self.entry(id);
        let (Some(url), Some(record)) = (&entry.task.body.webhook, &entry.record) else { return };
        let delivery = Delivery {
            id: number,
            task_id: id,
            tenant: entry.task.body.tenant.clone(),
            url: (&**url).into(),
            body: callback_body(id, &entry.task.body.command, record, &stamp(record.completed_at)).into(),
            state: DeliveryState::Pending { due: now },
            attempts: 0,
            last_error: None,
            created_at: now,
        };
        self.callbacks.push(delivery);
    }
}
