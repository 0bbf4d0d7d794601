//! The threads of a shard: who decides, who syncs, who feeds the tables, who prepares segments.

use crate::local::directory::open::{Durability, OpenError, at};
use crate::local::engine::commit::Committer;
use crate::local::engine::inbox::Inbox;
use crate::local::engine::owner::Owner;
use crate::local::journal::Journal;
use crate::local::rows::feed_queue::FeedQueue;
use crate::local::rows::feeder::Feeder;
use crate::local::shard::ShardContext;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Who would wait for an owner that has ended, even by a panic.
struct Orphans {
    inbox: Arc<Inbox>,
    links: Arc<ShardContext>,
    committer: Option<Arc<Committer>>,
}

const OWNER_FAILED: &str = "the thread that owns the shard has failed";
const COMMITTER_FAILED: &str = "the thread that writes the journal and tells of it has failed";

impl Drop for Orphans {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let unwritable = &self.links.unwritable;
            *unwritable.lock().unwrap_or_else(PoisonError::into_inner) = Some(OWNER_FAILED.to_owned());
        }
        if let Some(committer) = &self.committer {
            if std::thread::panicking() {
                committer.give_up(OWNER_FAILED.to_owned());
            }
            committer.close();
        }
        self.inbox.abandon();
        self.links.room.notify_waiters();
    }
}

/// Who would wait for a committer that has ended by a panic: its own, or that of whom it tells.
struct Stranded {
    committer: Arc<Committer>,
    links: Arc<ShardContext>,
}

impl Drop for Stranded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.committer.abandon(COMMITTER_FAILED);
            self.links.inbox.nudge();
            self.links.room.notify_waiters();
        }
    }
}

type Thread = Option<std::thread::JoinHandle<()>>;

/// The threads of a shard.
#[derive(Default)]
pub struct Threads {
    pub own: Thread,
    pub commit: Thread,
    pub feed: Thread,
    pub prepare: Thread,
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<Thread, OpenError> {
    let thread = std::thread::Builder::new().name(name).spawn(run);
    thread.map(Some).map_err(at(Path::new("threads")))
}

impl Threads {
    pub fn commit(
        &mut self,
        index: u32,
        committer: &Arc<Committer>,
        links: &Arc<ShardContext>,
        feed_queue: &Arc<FeedQueue>,
        durability: Durability,
    ) -> Result<(), OpenError> {
        let (committer, links, feed_queue) = (committer.clone(), links.clone(), feed_queue.clone());
        let sync = durability == Durability::Fsync;
        let stranded = Stranded { committer: committer.clone(), links: links.clone() };
        let run = move || {
            let _stranded = stranded;
            committer.run(sync, &links, &feed_queue);
        };
        self.commit = spawn(format!("codeq-sync-{index}"), run)?;
        Ok(())
    }

    pub fn prepare(
        &mut self,
        index: u32,
        journal: &Arc<Journal>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), OpenError> {
        let (journal, stop) = (journal.clone(), stop.clone());
        let run = move || {
            while !stop.load(Ordering::Acquire) {
                match journal.prepare() {
                    Ok(true) => {}
                    Ok(false) => journal.wait_for_work(Duration::from_millis(500)),
                    Err(error) => {
                        tracing::error!(op = "segment", err = %error, "storage error");
                        journal.wait_for_work(Duration::from_millis(500));
                    }
                }
            }
        };
        self.prepare = spawn(format!("codeq-prepare-{index}"), run)?;
        Ok(())
    }

    pub fn feed(&mut self, index: u32, feeder: Feeder) -> Result<(), OpenError> {
        self.feed = spawn(format!("codeq-feed-{index}"), move || feeder.run())?;
        Ok(())
    }

    pub fn own(
        &mut self,
        index: u32,
        owner: Owner,
        committer: Option<Arc<Committer>>,
    ) -> Result<(), OpenError> {
        let orphans = Orphans { inbox: owner.inbox.clone(), links: owner.links.clone(), committer };
        let run = move || {
            let _orphans = orphans;
            owner.run();
        };
        self.own = spawn(format!("codeq-own-{index}"), run)?;
        Ok(())
    }
}
