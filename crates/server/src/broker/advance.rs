//! Moving the time of a server under test, so that everything happens in its order.

use super::Broker;
use codeq_queue::{Failure, Time};
use codeq_store::{Clock, TestClock};
use std::time::Duration;
use tokio::time::Instant;

/// How long one move may take.
const LONGEST: Duration = Duration::from_secs(60);
/// Between two looks at a store that has not come to what is due.
const LOOK: Duration = Duration::from_millis(1);

impl Broker {
    /// Moves the clock from one thing that falls due to the next, each time until it has happened, and then to the
    /// end. So a lease that runs out on the way is followed by its backoff on the way, and claims that wait are
    /// served in between.
    pub async fn advance(&self, clock: &TestClock, to: Time) -> Result<(), Failure> {
        let _turn = self.advancing.lock().await;
        let started = Instant::now();
        loop {
            let due = self.store.next_due().await?.filter(|due| *due <= to);
            match due {
                Some(due) if due > clock.now() => clock.move_to(due),
                // It wakes up by itself; so much may be due that it takes a while.
                Some(_) if started.elapsed() < LONGEST => tokio::time::sleep(LOOK).await,
                Some(_) => return Err(Failure::unavailable("the clock could not be moved in time")),
                None if clock.now() < to => clock.move_to(to),
                None => return Ok(()),
            }
        }
    }
}
