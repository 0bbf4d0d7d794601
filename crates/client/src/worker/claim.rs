//! Getting tasks: never more than there are free slots.

use super::crew::JobSet;
use super::http::HttpLink;
use super::identity::Identity;
use super::link::{Assigned, Link};
use super::ready::ReadyStream;
use super::stream::Dialer;
use super::turns::Turns;
use crate::backoff::Backoff;
use crate::{Error, limits};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a claim asks for, and the slots for what it brings.
pub(super) struct Claims {
    pub crew: Arc<JobSet>,
    pub slots: Arc<Semaphore>,
    pub commands: Vec<String>,
    pub turns: Turns,
    pub identity: Identity,
    pub lease_seconds: i64,
    pub batch: usize,
    pub concurrency: usize,
}

impl Claims {
    /// Claims until the worker is to stop, or until trying again makes no sense.
    pub async fn run(&self, dialer: Option<&Dialer>) {
        let mut backoff = Backoff::default();
        while !self.crew.fate.stop.is_cancelled() {
            let claimed = match (&*self.crew.link, dialer) {
                (Link::Http(http), _) => self.over_http(http, &mut backoff).await,
                (Link::Stream(..), Some(dialer)) => self.over_stream(dialer, &mut backoff).await,
                (Link::Stream(..), None) => Err(Error::Settings("no stream address".into())),
            };
            let Err(error) = claimed else { continue };
            if !error.is_retryable() {
                return self.crew.fate.end(error);
            }
            tracing::warn!(%error, "cannot claim; trying again");
            tokio::select! {
                () = backoff.pause(error.retry_after()) => {}
                () = self.crew.fate.stop.cancelled() => {}
            }
        }
    }

    /// Free slots: at least one, at most a batch.
    pub async fn free_slots(&self) -> Vec<OwnedSemaphorePermit> {
        let mut slots = Vec::new();
        let Ok(first) = self.slots.clone().acquire_owned().await else { return slots };
        slots.push(first);
        // Jobs whose reports were answered together free their slots together.
        tokio::task::yield_now().await;
        while slots.len() < self.batch
            && let Ok(more) = self.slots.clone().try_acquire_owned()
        {
            slots.push(more);
        }
        slots
    }

    /// Starts as many tasks as there are slots for, and gives the others back.
    pub fn start(&self, tasks: Vec<Assigned>, mut slots: Vec<OwnedSemaphorePermit>) {
        for task in tasks {
            match slots.pop() {
                Some(slot) if !self.crew.fate.stop.is_cancelled() => self.crew.start(task, slot),
                _ => self.crew.refund(&task),
            }
        }
    }

    /// One claim.
    async fn over_http(&self, http: &HttpLink, backoff: &mut Backoff) -> Result<(), Error> {
        let stop = &self.crew.fate.stop;
        let slots = tokio::select! {
            slots = self.free_slots() => slots,
            () = stop.cancelled() => return Ok(()),
        };
        let tasks = http.claim(self, slots.len(), stop).await?;
        backoff.reset();
        self.start(tasks, slots);
        Ok(())
    }

    /// One stream, from its handshake to its end.
    async fn over_stream(&self, dialer: &Dialer, backoff: &mut Backoff) -> Result<(), Error> {
        let opened = tokio::select! {
            opened = dialer.open(self.concurrency + 1, true) => opened?,
            () = self.crew.fate.stop.cancelled() => return Ok(()),
        };
        backoff.reset();
        ReadyStream::new(self, opened).run(limits::LAST_REPORTS).await
    }
}
