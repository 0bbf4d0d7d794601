//! One instant over all shards.
//!
//! All owners stop between two turns, close the groups they have gathered, and go on once every one of them has. What
//! was acknowledged before anyone stopped is in those groups or in earlier ones; what a caller did after it saw an
//! answer given later is in none. Each feeder then gives the version that is exactly at that group.

use crate::local::engine::handle::ShardHandle;
use crate::local::engine::inbox::Lane;
use crate::local::store::routes::Shards;
use crate::local::tables::Version;
use codeq_queue::Failure;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long an owner waits for the others. They come at their next turn, so this is reached only when one is stuck.
const MEETING_TIME_MAX: Duration = Duration::from_secs(1);
/// How long the tables may take to get to the instant.
const SEAL_TIME_MAX: Duration = Duration::from_secs(60);

/// Where owners wait for each other.
struct Meeting {
    missing: Mutex<usize>,
    complete: Condvar,
}

impl Meeting {
    /// True once all are there.
    fn attend(&self) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing -= 1;
        self.complete.notify_all();
        let waited = self.complete.wait_timeout_while(missing, MEETING_TIME_MAX, |missing| *missing > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}

/// The versions of all shards as of one instant. One caller at a time: two meetings would wait for each other.
pub async fn one_instant(shards: &Shards) -> Result<Vec<Arc<Version>>, Failure> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let turn = TURN.lock().await;
    let meeting = Arc::new(Meeting { missing: Mutex::new(shards.len()), complete: Condvar::new() });
    let marks = shards.iter().map(|shard| mark(shard.clone(), meeting.clone()));
    let seals = futures_util::future::try_join_all(marks).await?;
    drop(turn);
    let mut versions = Vec::with_capacity(seals.len());
    for seal in seals {
        let version = tokio::time::timeout(SEAL_TIME_MAX, seal).await;
        let late = || Failure::unavailable("the tables did not get to the instant in time");
        versions.push(version.map_err(|_| late())?.map_err(|_| late())?);
    }
    Ok(versions)
}

/// Has the owner of a shard close its group at the meeting.
async fn mark(
    shard: Arc<ShardHandle>,
    meeting: Arc<Meeting>,
) -> Result<oneshot::Receiver<Arc<Version>>, Failure> {
    let queue = shard.feed_queue.clone();
    let sealed = shard.ask(Lane::Other, move |turn, reply| {
        let is_met = meeting.attend();
        let has_entries = turn.group.entries > 0;
        let position = turn.shard.position - u64::from(!has_entries);
        let seal = is_met.then(|| queue.seal(position));
        turn.group.is_closed = true;
        turn.answer(reply, seal);
    });
    sealed.await?.ok_or_else(|| Failure::unavailable("the shards did not come to one instant"))
}
