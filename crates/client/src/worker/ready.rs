//! The stream of Readys: one for every group of free slots, held by the server until there is work.

use super::claim::Claims;
use super::link::Assigned;
use super::stream::{event, notice};
use crate::{Error, refusal};
use codeq_api::grpc::worker as pb;
use pb::server_event::Event as Said;
use pb::worker_event::Event;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

pub(super) struct ReadyStream<'a> {
    claims: &'a Claims,
    /// None once we have said that nothing more comes.
    events: Option<mpsc::Sender<pb::WorkerEvent>>,
    messages: Streaming<pb::ServerEvent>,
    /// The slots of every Ready that is not answered.
    held: Held,
}

impl<'a> ReadyStream<'a> {
    pub fn new(
        claims: &'a Claims,
        (events, messages): (mpsc::Sender<pb::WorkerEvent>, Streaming<pb::ServerEvent>),
    ) -> ReadyStream<'a> {
        ReadyStream { claims, events: Some(events), messages, held: Held::default() }
    }

    /// Returns when the stream is over: `Ok` if it was we who closed it.
    pub async fn run(mut self, patience: Duration) -> Result<(), Error> {
        let stop = self.claims.crew.fate.stop.clone();
        let mut deadline = Instant::now();
        loop {
            let is_open = self.events.is_some();
            tokio::select! {
                () = stop.cancelled(), if is_open => {
                    self.events = None;
                    deadline = Instant::now() + patience;
                }
                slots = self.claims.free_slots(), if is_open => self.ask(slots)?,
                message = self.messages.message() => match message {
                    Ok(Some(message)) => self.take(message)?,
                    _ if !is_open => return Ok(()),
                    Ok(None) => return Err(Error::unavailable("the server closed the stream")),
                    Err(status) => return Err(Error::broken(&status)),
                },
                () = sleep_until(deadline), if !is_open => return Ok(()),
            }
        }
    }

    fn ask(&mut self, slots: Vec<OwnedSemaphorePermit>) -> Result<(), Error> {
        let weights = self.claims.turns.weights.iter();
        let weights = weights.map(|(command, weight)| (command.clone(), i32::from(*weight)));
        let ready = pb::Ready {
            commands: self.claims.commands.clone(),
            lease_seconds: i32::try_from(self.claims.lease_seconds).unwrap_or(i32::MAX),
            count: i32::try_from(slots.len()).unwrap_or(i32::MAX),
            order: self.claims.turns.order.clone().unwrap_or_default(),
            weights: weights.collect(),
        };
        self.held.add(slots);
        let Some(events) = &self.events else { return Ok(()) };
        // There is room for as many Readys as there are slots, and every one holds a slot.
        events.try_send(event(Event::Ready(ready))).map_err(|_| Error::unavailable("the stream broke"))
    }

    fn take(&mut self, message: pb::ServerEvent) -> Result<(), Error> {
        let tasks = match message.event {
            Some(Said::Task(assignment)) => assignment.task.into_iter().collect(),
            Some(Said::TaskBatch(batch)) => batch.tasks,
            Some(Said::Error(error)) => return Err(refusal::from_text(&error.message)),
            Some(Said::Cancel(cancel)) => {
                let attempt = u32::try_from(cancel.attempt).unwrap_or_default();
                self.claims.crew.request_stop(&cancel.task_id, attempt, &notice(&cancel));
                return Ok(());
            }
            _ => return Ok(()),
        };
        let slots = self.held.answered(tasks.len());
        self.claims.start(tasks.into_iter().map(assigned).collect(), slots);
        Ok(())
    }
}

/// Slots of Readys. An answer does not say which Ready it belongs to, and is no larger than that. It is
/// counted for the smallest that can be meant: the others then hold at least what the server may still send.
#[derive(Default)]
struct Held(Vec<Vec<OwnedSemaphorePermit>>);

impl Held {
    fn add(&mut self, slots: Vec<OwnedSemaphorePermit>) {
        self.0.push(slots);
    }

    fn answered(&mut self, tasks: usize) -> Vec<OwnedSemaphorePermit> {
        let fitting = self.0.iter().enumerate().filter(|(_, slots)| slots.len() >= tasks);
        let smallest = fitting.min_by_key(|(_, slots)| slots.len()).map(|(index, _)| index);
        smallest.map_or_else(Vec::new, |index| self.0.remove(index))
    }
}

fn assigned(task: pb::Task) -> Assigned {
    Assigned {
        id: task.id,
        command: task.command,
        payload: String::from_utf8_lossy(&task.payload).into_owned(),
        attempt: u32::try_from(task.attempts).unwrap_or_default(),
        max_attempts: u32::try_from(task.max_attempts).unwrap_or_default(),
        priority: u8::try_from(task.priority).unwrap_or_default(),
        headers: task.headers,
        lane: task.lane,
        tags: task.tags,
        trace_parent: task.trace_parent,
        trace_state: task.trace_state,
        checkpoint: String::from_utf8(task.checkpoint.to_vec())
            .ok()
            .and_then(|text| RawValue::from_string(text).ok()),
        received: Instant::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    #[test]
    fn an_answer_frees_the_smallest_ready_it_can_belong_to() {
        let semaphore = Arc::new(Semaphore::new(10));
        let slots =
            |count: usize| (0..count).map(|_| semaphore.clone().try_acquire_owned().unwrap()).collect();
        let mut held = Held::default();
        held.add(slots(5));
        held.add(slots(2));
        held.add(slots(3));
        assert_eq!(held.answered(3).len(), 3);
        assert_eq!(held.answered(1).len(), 2);
        assert_eq!(held.answered(1).len(), 5);
        assert!(held.answered(1).is_empty());
    }
}
