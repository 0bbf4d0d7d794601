//! What the rest of the store knows of a running shard, and how it talks to it.

use crate::local::engine::commit::Committer;
use crate::local::engine::inbox::Lane;
use crate::local::engine::threads::Threads;
use crate::local::journal::Journal;
use crate::local::rows::feed_queue::FeedQueue;
use crate::local::rows::readers::Readers;
use crate::local::shard::{Limits, Reply, ShardContext, Turn};
use codeq_queue::Failure;
use codeq_queue::audit::Note;
use codeq_queue::store::Health;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

pub struct ShardHandle {
    pub links: Arc<ShardContext>,
    pub feed_queue: Arc<FeedQueue>,
    pub committer: Option<Arc<Committer>>,
    pub journal: Option<Arc<Journal>>,
    /// How much may wait for the tables.
    pub limits: Limits,
    /// Ends the thread that prepares segments.
    pub stop: Arc<AtomicBool>,
    pub threads: Mutex<Threads>,
}

impl ShardHandle {
    fn poison(&self) -> Option<&str> {
        self.committer.as_ref().and_then(|committer| committer.poison())
    }

    /// What it means that a job or its answer was dropped.
    pub fn failure(&self) -> Failure {
        self.poison().map_or(Failure::Closed, Failure::unknown)
    }

    pub fn health(&self) -> Health {
        let unwritable = self.links.unwritable.lock().expect("no one panics holding the reason").clone();
        match (self.poison(), unwritable.or_else(|| self.feed_queue.trouble())) {
            (Some(reason), _) => Health::Poisoned(reason.to_owned()),
            (None, Some(reason)) => Health::Unavailable(reason),
            (None, None) => Health::Ready,
        }
    }

    /// Runs `act` on the owner's thread and waits for its answer to be durable.
    pub async fn ask<T: Send + 'static>(
        &self,
        lane: Lane,
        act: impl FnOnce(&mut Turn<'_>, Reply<T>) + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let note = Note::open();
        self.tell(lane, move |turn| turn.noting(note, |turn| act(turn, reply))).await?;
        answer.await.unwrap_or_else(|_| Err(self.failure()))
    }

    /// Runs `act` on the owner's thread.
    pub async fn tell(
        &self,
        lane: Lane,
        act: impl FnOnce(&mut Turn<'_>) + Send + 'static,
    ) -> Result<(), Failure> {
        let seat = self.links.inbox.seat(lane).await.ok_or_else(|| self.failure())?;
        self.links.inbox.post(move |turn| {
            act(turn);
            drop(seat);
        });
        Ok(())
    }

    /// Runs `read` on a reading thread, when it is the tenant's turn.
    pub async fn read<T: Send + 'static>(
        &self,
        tenant: &Arc<str>,
        read: impl FnOnce(&ShardContext) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.read_by(&self.links.pools.lookups, tenant, read).await
    }

    /// Runs `read` on the thread for readings that take their time, when it is the tenant's turn.
    pub async fn search<T: Send + 'static>(
        &self,
        tenant: &Arc<str>,
        read: impl FnOnce(&ShardContext) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.read_by(&self.links.pools.searches, tenant, read).await
    }

    async fn read_by<T: Send + 'static>(
        &self,
        readers: &Readers,
        tenant: &Arc<str>,
        read: impl FnOnce(&ShardContext) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let links = self.links.clone();
        readers.submit(tenant, move || {
            let _ = reply.send(read(&links));
        });
        answer.await.unwrap_or_else(|_| Err(self.failure()))
    }

    /// Waits while too much waits for the tables. When the tables are in trouble the owner turns writers away.
    pub async fn room(&self, lane: Lane) {
        let limit = self.limits.unsettled_of(lane);
        loop {
            let freed = self.links.room.notified();
            let used = self.links.unsettled_bytes.load(Ordering::Relaxed);
            let is_hopeless = self.feed_queue.trouble().is_some() || self.poison().is_some();
            if used < limit || is_hopeless || self.links.inbox.is_closed() {
                return;
            }
            freed.await;
        }
    }

    /// Blocks until everything is durable and the threads have ended: first who decides, then who syncs,
    /// then who feeds the tables.
    pub fn close(&self) {
        let mut threads = self.threads.lock().expect("no one panics holding the threads");
        self.links.inbox.close();
        self.links.room.notify_waiters();
        join(threads.own.take());
        join(threads.commit.take());
        self.feed_queue.close();
        join(threads.feed.take());
        self.stop.store(true, Ordering::Release);
        if let Some(journal) = &self.journal {
            journal.wake();
        }
        join(threads.prepare.take());
    }
}

fn join(thread: Option<std::thread::JoinHandle<()>>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("a thread of the store has panicked");
    }
}
