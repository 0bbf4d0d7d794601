//! What the whole-system tests share: the ledger of what a store has acknowledged, the account of real
//! servers that are killed, the simulation, and the fuzzer.

#[path = "../fuzz/mod.rs"]
pub mod fuzz;
pub mod ledger;
#[path = "../servers/mod.rs"]
pub mod servers;
#[path = "../sim/mod.rs"]
pub mod sim;

use codeq_queue::create::CreateRequest;
use codeq_queue::{NewTask, Time};
use codeq_store::{Clock, Rules, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const TENANT: &str = "acme";

/// Nothing may expire while the clock is moved about to end leases and backoffs.
pub fn rules() -> Rules {
    Rules { retention: Duration::from_secs(10 * 365 * 86_400), ..Rules::default() }
}

/// Rules under which tasks that have ended go while others are worked on.
pub fn brief_rules() -> Rules {
    Rules { retention: Duration::from_secs(2), ..rules() }
}

/// The wall clock, so many milliseconds later.
pub struct Later(pub AtomicU64);

impl Later {
    pub fn by(time: Duration) -> Later {
        let later = Later(AtomicU64::new(0));
        later.move_on(time);
        later
    }

    pub fn move_on(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for Later {
    fn now(&self) -> Time {
        SystemClock.now().plus(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

/// A small task of one of a few commands; `key` makes it idempotent.
pub fn new_task(command: usize, priority: i64, payload: String, key: Option<String>) -> NewTask {
    let request = CreateRequest {
        tenant: TENANT.into(),
        command: format!("work-{command}"),
        payload,
        priority,
        max_attempts: 1_000_000,
        idempotency_key: key,
        ..CreateRequest::default()
    };
    request.check(5, 1 << 20, Time::ZERO).expect("the test's task is sound")
}
