//! Handlers by command: reading payloads, and holding what panics.

use super::job::Job;
use super::link::Assigned;
use super::outcome::{IntoOutcome, Outcome};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

type Handler = Box<dyn Fn(Assigned, CancellationToken) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// What a worker can do. Commands are compared as the server does, without regard to case.
#[derive(Default)]
pub(super) struct Handlers {
    by_command: BTreeMap<String, Handler>,
    /// In the order in which they were added.
    commands: Vec<String>,
}

impl Handlers {
    pub fn add<T, F, R>(&mut self, command: &str, handler: F)
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let run = move |task: Assigned, cancelled: CancellationToken| {
            let handler = handler.clone();
            async move {
                let payload = match serde_json::from_str(&task.payload) {
                    Ok(payload) => payload,
                    Err(error) => return Outcome::fail(format!("the payload cannot be read: {error}")),
                };
                handler(Job::new(task, payload, cancelled)).await.into_outcome()
            }
            .boxed()
        };
        let command = command.trim().to_ascii_lowercase();
        if self.by_command.insert(command.clone(), Box::new(run)).is_none() {
            self.commands.push(command);
        }
    }

    pub fn commands(&self) -> Vec<String> {
        self.commands.clone()
    }

    /// Runs the handler of the task.
    pub fn run(&self, task: Assigned, cancelled: CancellationToken) -> BoxFuture<'static, Outcome> {
        match self.by_command.get(&task.command.to_ascii_lowercase()) {
            Some(handler) => {
                let running = AssertUnwindSafe(handler(task, cancelled)).catch_unwind();
                running.map(|end| end.unwrap_or_else(|panic| panicked(&*panic))).boxed()
            }
            // Only what we asked for is sent.
            None => std::future::ready(Outcome::refund()).boxed(),
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Outcome::nack(format!("handler panicked: {}", text.unwrap_or("no message")))
}
