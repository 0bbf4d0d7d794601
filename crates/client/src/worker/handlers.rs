//! Handlers by command: reading payloads, the layers around them, and holding what panics.

use super::context::Context;
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

/// An error says why the payload cannot be read.
type Handler = Box<dyn Fn(Assigned, Context) -> BoxFuture<'static, Result<Outcome, String>> + Send + Sync>;
type Layer = Box<dyn Fn(Job<()>, BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// What a worker can do. Commands are compared as the server does, without regard to case.
#[derive(Default)]
pub(crate) struct Handlers {
    by_command: BTreeMap<String, Handler>,
    /// In the order in which they were added.
    commands: Vec<String>,
    /// The first one is outermost.
    layers: Vec<Layer>,
    /// A payload that cannot be read fails its task for good.
    fails_unreadable: bool,
}

impl Handlers {
    pub fn add<T, F, R>(&mut self, command: &str, handler: F)
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Job<T>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let run = move |task: Assigned, context: Context| {
            let handler = handler.clone();
            async move {
                let payload = serde_json::from_str(&task.payload);
                let payload = payload.map_err(|error| format!("the payload cannot be read: {error}"))?;
                Ok(handler(Job::new(task, payload, context)).await.into_outcome())
            }
            .boxed()
        };
        let command = command.trim().to_ascii_lowercase();
        if self.by_command.insert(command.clone(), Box::new(run)).is_none() {
            self.commands.push(command);
        }
    }

    pub fn add_layer<F, R>(&mut self, layer: F)
    where
        F: Fn(Job<()>, BoxFuture<'static, Outcome>) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.layers.push(Box::new(move |job, next| layer(job, next).boxed()));
    }

    pub fn fail_unreadable(&mut self) {
        self.fails_unreadable = true;
    }

    pub fn commands(&self) -> Vec<String> {
        self.commands.clone()
    }

    /// Whether there is a handler for the command.
    pub fn knows(&self, command: &str) -> bool {
        self.by_command.contains_key(&command.to_ascii_lowercase())
    }

    /// Runs the handler of the task.
    pub fn run(&self, task: Assigned, context: Context) -> BoxFuture<'static, Outcome> {
        // Only what we asked for is sent.
        let Some(handler) = self.by_command.get(&task.command.to_ascii_lowercase()) else {
            return std::future::ready(Outcome::refund()).boxed();
        };
        let unreadable = if self.fails_unreadable { Outcome::fail } else { Outcome::nack };
        let running = handler(task.clone(), context.clone());
        let mut running = running.map(move |end| end.unwrap_or_else(unreadable)).boxed();
        for layer in self.layers.iter().rev() {
            running = layer(Job::new(task.clone(), (), context.clone()), running);
        }
        let running = AssertUnwindSafe(running).catch_unwind();
        running.map(|end| end.unwrap_or_else(|panic| panicked(&*panic))).boxed()
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Outcome::nack(format!("handler panicked: {}", text.unwrap_or("no message")))
}
