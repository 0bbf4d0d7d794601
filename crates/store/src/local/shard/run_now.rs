//! An operator's run-now: what waits for its time is ready at once.

use super::produce::TaskLookup;
use super::turn::{Part, Reply, Turn};
use crate::local::format::entry::Entry;
use crate::local::format::records::PartialTask;
use codeq_queue::store::TaskRef;
use codeq_queue::{Failure, Refusal, Task, task};

impl Turn<'_> {
    pub fn run_now(&mut self, tasks: Vec<TaskRef>, reply: Reply<Part<Result<Task, Refusal>, TaskRef>>) {
        let Some(reply) = self.may_write(reply) else { return };
        let now = self.aged;
        let (items, rest) = self.each(tasks, |turn, task| turn.run_one(&task));
        let needs_tables = items.iter().any(|item| match item {
            Ok(made) => made.as_ref().is_ok_and(|sketch| !sketch.detail.is_complete()),
            Err(located) => located.needs_tables(),
        });
        self.answer_from(reply, needs_tables, move |library| {
            let answers = items.into_iter().map(|item| match item {
                Ok(Ok(sketch)) => library.task(sketch).map(Ok),
                Ok(Err(refusal)) => Ok(Err(refusal)),
                Err(located) => {
                    let last = located.last(library, now)?;
                    Ok(Err(last.map_or(Refusal::NotFound, |_| Refusal::NotDelayed)))
                }
            });
            Ok(Part { done: answers.collect::<Result<_, Failure>>()?, rest })
        });
    }

    /// The task as it is then, or where it lies if it does not live.
    fn run_one(&mut self, named: &TaskRef) -> Result<Result<PartialTask, Refusal>, TaskLookup> {
        let slot_id = match self.locate(&named.tenant, &named.id) {
            TaskLookup::Live(slot_id) => slot_id,
            located => return Err(located),
        };
        let slot = self.shard.slots.at(slot_id);
        let changes = match task::run_now(&slot.state) {
            Ok(changes) => changes,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if changes {
            let (no, seq) = (slot.no, self.next_seq());
            self.log(Entry::Promoted { no, at: self.now, seq });
        }
        Ok(Ok(self.shard.slots.at(slot_id).sketch()))
    }
}
