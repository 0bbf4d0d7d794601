//! What a handler can say about its task while it runs.

use super::stop::StopSignal;
use crate::{Error, limits};
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Something that a heartbeat carries.
#[derive(Clone, Default, Debug)]
pub(crate) struct Said {
    pub progress: Option<Box<RawValue>>,
    pub checkpoint: Option<Box<RawValue>>,
}

/// Where it goes: to the server, or to a queue of a test.
pub(crate) trait Teller: Send + Sync {
    fn tell(&self, said: Said) -> BoxFuture<'_, Result<(), Error>>;
    /// When the lease ends if no further heartbeat gets through.
    fn until(&self) -> Instant;
}

/// A file or a link that belongs to a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Artifact {
    pub name: String,
    pub kept: Kept,
    /// Empty: the server's default.
    pub content_type: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    Content(Vec<u8>),
    Link(String),
}

/// Shared by the handler, which speaks, and the worker, which listens.
#[derive(Clone)]
pub(crate) struct Context {
    pub signal: StopSignal,
    pub teller: Arc<dyn Teller>,
    artifacts: Arc<Mutex<Vec<Artifact>>>,
    saved: Arc<Mutex<Option<Box<RawValue>>>>,
}

impl Context {
    pub fn new(signal: StopSignal, teller: Arc<dyn Teller>, saved: Option<Box<RawValue>>) -> Context {
        Context { signal, teller, artifacts: Arc::default(), saved: Arc::new(Mutex::new(saved)) }
    }

    pub fn attach(&self, artifact: Artifact) -> Result<(), Error> {
        let mut artifacts = lock(&self.artifacts);
        if artifacts.len() == limits::ARTIFACTS {
            let text = format!("a result has at most {} artifacts", limits::ARTIFACTS);
            return Err(Error::refused(400, "invalid_artifact", text));
        }
        artifacts.push(artifact);
        Ok(())
    }

    pub fn take_artifacts(&self) -> Vec<Artifact> {
        std::mem::take(&mut *lock(&self.artifacts))
    }

    pub fn saved(&self) -> Option<Box<RawValue>> {
        lock(&self.saved).clone()
    }

    pub async fn checkpoint(&self, value: Box<RawValue>) -> Result<(), Error> {
        self.teller.tell(Said { checkpoint: Some(value.clone()), ..Said::default() }).await?;
        *lock(&self.saved) = Some(value);
        Ok(())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("signal", &self.signal).finish_non_exhaustive()
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
